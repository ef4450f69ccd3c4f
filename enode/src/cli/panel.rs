//! `enode panel`.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, Outcome, args::PanelArgs, out::Out, tickets::args::existing};
use crate::{
    config::{self, Config, defaults::MEDIATOR},
    detect,
    panel::serve::{Limits, Setup},
    tickets::{
        Folder,
        client::{Address, Client},
        template::Templates,
    },
};

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7071);

/// Without a configured node the board is shown all the same, and says so.
pub(super) async fn run(args: &PanelArgs, node: Result<Config, String>, out: &Out) -> Outcome {
    super::run::log()?;
    let refused = |error| Failure::new(super::Exit::Refused, error);
    let said = node.as_ref().map(|it| it.panel.clone()).unwrap_or_default();
    // A message about a file or a folder must say who has named it.
    let named = |error: anyhow::Error, keys: &[(&str, bool)]| {
        let of = |key: &str| node.as_ref().map(|it| it.origin(key)).unwrap_or_default();
        let from: Vec<String> = keys.iter().filter(|(_, is_used)| *is_used).map(|(key, _)| of(key)).collect();
        refused(if from.is_empty() { error } else { error.context(from.join(", ")) })
    };
    let queue = args.queue.clone().or_else(|| said.queue.clone()).unwrap_or_else(|| PathBuf::from("tickets"));
    let is_used = |flag: bool, key: bool| !flag && key;
    let folder = Folder::open(&queue)
        .map_err(|error| named(error, &[("panel.queue", is_used(args.queue.is_some(), said.queue.is_some()))]))?;
    let address = address(args, &said, std::env::var("MEDIATOR_TOKEN").ok());
    let runs = Client::new(&address).map_err(|error| {
        let files = [
            ("panel.token_file", is_used(args.token_file.is_some(), address.token_file.is_some())),
            ("panel.ca_file", is_used(args.ca_file.is_some(), said.ca_file.is_some())),
        ];
        named(error, &files)
    })?;
    let of_config = is_used(args.templates.folder.is_some(), said.templates.is_some());
    let templates = args.templates.folder.clone().or(said.templates).map(existing).transpose();
    let templates = templates.map_err(|error| named(error, &[("panel.templates", of_config)]))?;
    let templates = Templates { folder: templates, ..Templates::default() };
    let listen = args.listen.or(said.listen).unwrap_or(LISTEN);
    let setup = Setup { listen, folder: Arc::new(folder), templates, runs, node, limits: Limits::default() };
    let bound = setup.bind().await.map_err(refused)?;
    let url = url(bound.address(), detect::hostname());
    out.data(&serde_json::json!({"url": url}), || url.clone())?;
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let stop = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    bound.run(stop).await;
    Ok(super::Exit::Done)
}

/// Where a browser finds it.
fn url(address: SocketAddr, host: Option<String>) -> String {
    match host {
        // It stands for every address of this host, and is none.
        Some(host) if address.ip().is_unspecified() => format!("http://{host}:{}/", address.port()),
        Some(_) | None => format!("http://{address}/"),
    }
}

/// Where the mediator is: flags and their variables, then the configuration, then what is there without one.
fn address(args: &PanelArgs, said: &config::Panel, token: Option<String>) -> Address {
    let token = token.filter(|token| !token.trim().is_empty());
    let of_config = if token.is_some() { None } else { said.token_file.clone() };
    let urls = args.mediator.clone().or_else(|| said.mediator.as_ref().map(|urls| urls.join(",")));
    Address {
        urls: urls.unwrap_or_else(|| MEDIATOR.to_owned()),
        token_file: args.token_file.clone().or(of_config),
        token,
        ca_file: args.ca_file.clone().or_else(|| said.ca_file.clone()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Said {
        #[command(flatten)]
        args: PanelArgs,
    }

    #[test]
    fn every_address_is_said_by_the_name_of_this_host() {
        let said = |address: &str, host: Option<&str>| url(address.parse().unwrap(), host.map(str::to_owned));
        assert_eq!(said("127.0.0.1:7071", Some("yard")), "http://127.0.0.1:7071/");
        assert_eq!(said("[::1]:7071", Some("yard")), "http://[::1]:7071/");
        assert_eq!(said("0.0.0.0:7072", Some("yard")), "http://yard:7072/");
        assert_eq!(said("[::]:7072", Some("yard")), "http://yard:7072/");
        assert_eq!(said("0.0.0.0:7072", None), "http://0.0.0.0:7072/");
    }

    #[test]
    fn flags_go_before_variables_and_these_before_the_configuration() {
        let said = config::Panel {
            mediator: Some(vec!["https://a:1".to_owned(), "https://b:1".to_owned()]),
            token_file: Some("of-config".into()),
            ca_file: Some("ca-of-config".into()),
            ..config::Panel::default()
        };
        let read = |words: &[&str]| Said::parse_from(["x"].iter().chain(words)).args;
        let none = address(&read(&["--mediator", "http://c:1", "--ca-file", "ca"]), &said, None);
        assert_eq!((none.urls.as_str(), none.token_file), ("http://c:1", Some("of-config".into())));
        assert_eq!((none.token, none.ca_file), (None, Some("ca".into())));
        let variable = address(&read(&["--mediator", "http://c:1"]), &said, Some("t".to_owned()));
        assert_eq!((variable.token.as_deref(), variable.token_file), (Some("t"), None));
        let flag = address(&read(&["--token-file", "f", "--mediator", "http://c:1"]), &said, Some("t".to_owned()));
        assert_eq!(flag.token_file, Some("f".into()));
        let mut args = read(&["--mediator", "http://c:1"]);
        args.mediator = None;
        assert_eq!(address(&args, &said, None).urls, "https://a:1,https://b:1");
        assert_eq!(address(&args, &config::Panel::default(), None).urls, MEDIATOR);
    }
}

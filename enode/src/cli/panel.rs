//! `enode panel`.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, Outcome, args::PanelArgs, out::Out, tickets};
use crate::{config::Config, panel::serve::Setup};

/// Without a configured node the board is shown all the same, and says so.
pub(super) async fn run(args: &PanelArgs, node: Result<Config, String>, out: &Out) -> Outcome {
    super::run::log()?;
    let setup = Setup {
        listen: args.listen,
        folder: tickets::folder(&args.place)?,
        runs: tickets::client(&args.mediator)?,
        node,
    };
    let bound = setup.bind().await.map_err(|error| Failure::new(super::Exit::Refused, error))?;
    let address = bound.address();
    out.data(&serde_json::json!({"url": format!("http://{address}/")}), || format!("http://{address}/"))?;
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let stop = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    bound.run(stop).await?;
    Ok(super::Exit::Done)
}

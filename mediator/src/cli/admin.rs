//! What is done on the mediator's own host: `serve`, `config show`, `token` and `pki`.

use std::{os::unix::fs::DirBuilderExt, path::PathBuf};

use serde::Serialize;
use shared::{NodeId, Principal, Timestamp};

use super::{
    age::{between, short},
    args::{Config as ConfigCommand, Pki, Token},
    exit::{Exit, Failure, Outcome, causes},
    output::{Format, Io, clean},
    settings::Settings,
    table,
};
use crate::{
    auth::{self, Role},
    clock::Clock,
    config::{Config, redact},
    store::Store,
    tls,
};

pub(crate) async fn serve(settings: Settings<true>) -> Outcome {
    let (config, _) = settings.load()?;
    let failed = |error: &anyhow::Error| Failure::refused(causes(error.as_ref()));
    crate::app::init_logging(&config).map_err(|e| failed(&e))?;
    Box::pin(crate::app::serve(config)).await.map_err(|e| failed(&e))?;
    Ok(Exit::Ok)
}

pub(crate) fn config(io: &mut Io, format: Format, command: ConfigCommand) -> Outcome {
    let ConfigCommand::Show { settings } = command;
    let (_, shown) = settings.load()?;
    io.list(format, &shown, &shown, |colour| {
        let mut table = table::new(&["KEY", "VALUE", "FROM", "WHAT IT IS"], colour);
        for one in &shown {
            table.add_row([one.key, &table::or_dash(clean(&one.value)), &clean(&one.source), one.about]);
        }
        table
    })?;
    Ok(Exit::Ok)
}

/// The database of the configuration in force, made when it is not there yet.
pub(super) async fn store(io: &mut Io, config: &Config, clock: &Clock) -> Outcome<Store> {
    // As `serve` makes it: nobody else has business in there.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.state_dir)
        .map_err(|e| Failure::io(format_args!("cannot make {}", config.state_dir.display()), &e))?;
    let database = redact(&config.database);
    let store = Store::open(&config.database, clock.clone()).await;
    let store = store.map_err(|e| {
        Failure::refused(format!("cannot open {}: {}", clean(&database), causes(&e)))
            .advise("Run this as the user that `mediator serve` runs as, with the same --config or --state-dir.")
    })?;
    io.note(format_args!("Using {}", clean(&database)));
    Ok(store)
}

/// A token as `token create` prints it.
#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
    role: &'a str,
    principal: &'a Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a NodeId>,
}

/// A token as `token list` prints it. What is stored is a hash, so no secret can be shown.
#[derive(Serialize)]
struct Listed {
    /// Enough of the hash to tell tokens apart.
    hash: String,
    role: String,
    principal: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeId>,
    created_at: Timestamp,
}

pub(crate) async fn token(io: &mut Io, format: Format, command: Token) -> Outcome {
    let clock = Clock::system();
    match command {
        Token::Create { role, principal, node, settings } => {
            if node.is_some() && role != Role::Node {
                return Err(Failure::refused(format!("--node binds a token of role node, not one of role {role}"))
                    .advise("Leave --node out, or make it --role node."));
            }
            let (config, _) = settings.load()?;
            let store = store(io, &config, &clock).await?;
            let made = auth::create_token(&store, &clock, role, principal, node.clone()).await;
            let made = made.map_err(|e| Failure::refused(format!("cannot store the token: {}", causes(&e))))?;
            let shown =
                Made { token: &made.secret, role: made.role.as_str(), principal: &made.principal, node: node.as_ref() };
            match format {
                Format::Json => io.json(&shown)?,
                Format::Jsonl => io.json_line(&shown)?,
                Format::Table => io.line(&made.secret)?,
            }
            io.note("Keep this token: it is shown once and only its hash is stored.");
        }
        Token::List { settings } => {
            let (config, _) = settings.load()?;
            let store = store(io, &config, &clock).await?;
            let rows = store.list_tokens().await;
            let rows = rows.map_err(|e| Failure::refused(format!("cannot list the tokens: {}", causes(&e))))?;
            let listed: Vec<_> = rows
                .into_iter()
                .map(|row| Listed {
                    hash: row.hash.chars().take(12).collect(),
                    role: row.role,
                    principal: row.principal,
                    node: row.node,
                    created_at: row.created_at,
                })
                .collect();
            let now = clock.now();
            io.list(format, &listed, &listed, |colour| token_table(now, &listed, colour))?;
        }
    }
    Ok(Exit::Ok)
}

fn token_table(now: Timestamp, tokens: &[Listed], colour: bool) -> comfy_table::Table {
    let mut table = table::new(&["HASH", "ROLE", "PRINCIPAL", "NODE", "AGE"], colour);
    for token in tokens {
        table.add_row([
            clean(&token.hash),
            clean(&token.role),
            token.principal.to_string(),
            token.node.as_ref().map_or("-".into(), ToString::to_string),
            short(between(token.created_at.millis(), now.millis())),
        ]);
    }
    table
}

/// The files as `pki init` prints them.
#[derive(Serialize)]
struct Files {
    ca_cert: PathBuf,
    ca_key: PathBuf,
    server_cert: PathBuf,
    server_key: PathBuf,
}

pub(crate) fn pki(io: &mut Io, format: Format, command: Pki) -> Outcome {
    let Pki::Init { out, host } = command;
    let made = tls::init(&out, &host, Clock::system().now()).map_err(|e| Failure::refused(causes(&e)))?;
    let advice = made.advice();
    let files = Files {
        ca_cert: made.ca_cert,
        ca_key: made.ca_key,
        server_cert: made.server_cert,
        server_key: made.server_key,
    };
    match format {
        Format::Json => io.json(&files)?,
        Format::Jsonl => io.json_line(&files)?,
        Format::Table => {
            for file in [&files.ca_cert, &files.ca_key, &files.server_cert, &files.server_key] {
                io.line(clean(&file.display().to_string()))?;
            }
        }
    }
    io.note(super::output::clean_lines(&advice));
    Ok(Exit::Ok)
}

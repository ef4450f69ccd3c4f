//! `enode run`.

use std::io::IsTerminal;

use anyhow::{Context, anyhow};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::{Exit, Failure, Outcome};
use crate::{app, config::Config, descriptors, local::Lock};

pub(super) async fn run(config: Config) -> Outcome {
    log()?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    descriptors::make_room(config.slots);
    let _lock = Lock::take(&config.state_dir).map_err(|error| Failure::new(Exit::Refused, error))?;
    tracing::info!(
        name = config.name, slots = config.slots, mediator = config.mediator.join(","),
        state_dir = %config.state_dir.display(), policy_file = %config.policy_file.display(), "enode starts"
    );
    let mut hangups = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let ignore_hangups = async {
        // Unhandled it would end the agent, and with it what runs.
        while hangups.recv().await.is_some() {
            tracing::info!(
                "SIGHUP changes nothing: the policy file is followed all the time, the rest is read at start"
            );
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = Box::pin(app::run(config)) => ended?,
        () = ignore_hangups => {}
    }
    Ok(Exit::Done)
}

/// Says what happens on stderr.
pub(super) fn log() -> Result<(), Failure> {
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter()?).with_ansi(coloured).with_writer(std::io::stderr).init();
    Ok(())
}

pub(super) fn filter() -> Result<EnvFilter, Failure> {
    let words = std::env::var("ENODE_LOG").unwrap_or_default();
    if words.is_empty() {
        return Ok(EnvFilter::new("info"));
    }
    EnvFilter::try_new(&words).map_err(|error| {
        let error =
            anyhow!("environment: ENODE_LOG {words:?}: {error}; write a level such as debug, or enode=debug,info");
        Failure::new(Exit::Refused, error)
    })
}

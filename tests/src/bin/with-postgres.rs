//! `with-postgres COMMAND…`: runs a command with a temporary PostgreSQL server, and stops the server after it.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use tests::postgres::{ENV, Server};

fn main() -> Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().context("say which command to run: with-postgres COMMAND…")?;
    let server = Server::start()?;
    let status = Command::new(&program)
        .args(words)
        .env(ENV, server.url())
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

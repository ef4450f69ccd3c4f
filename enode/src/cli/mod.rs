//! The command line: what a person or a script on this machine says to enode.
//!
//! Data goes to stdout, everything else to stderr. A command ends with one of the documented [`Exit`] codes.

mod args;
mod detect;
mod drain;
mod init;
mod out;
mod panel;
mod remote;
mod run;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod tickets;

use std::process::ExitCode;

use clap::Parser;

use crate::config::{Config, ConfigErrors, Flags, Layers, Need};
use args::{Cli, Command, ConfigCommand};
use out::Out;

/// How a command ended. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; with `drain --wait`: drained.
    Done = 0,
    /// It went wrong in another way; with `status`: no agent runs.
    Failed = 1,
    /// Refused: usage, configuration, token, or somebody else undid it meanwhile.
    Refused = 2,
    /// `--timeout` is over and the machine is not drained.
    Timeout = 3,
    /// The mediator could not be reached.
    Unreachable = 4,
    /// The policy file cannot be written, or the agent cannot use it.
    PolicyRefused = 5,
}

impl Exit {
    /// `tickets unassign` without `--force`: a Run works on the ticket. A number of its own among the ticket commands,
    /// which know no timeout.
    const RUN_ALIVE: Self = Self::Timeout;
}

/// Why a command did not do what it should, and its exit code.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { exit: Exit::Failed, error }
    }
}

impl From<ConfigErrors> for Failure {
    fn from(error: ConfigErrors) -> Self {
        Self::new(Exit::Refused, error)
    }
}

type Outcome = Result<Exit, Failure>;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = Out::new(cli.output);
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(dispatch(cli, &out)),
        Err(error) => Err(anyhow::Error::from(error).context("cannot start").into()),
    };
    let exit = outcome.unwrap_or_else(|failure| {
        out.error(&failure.error);
        failure.exit
    });
    ExitCode::from(exit as u8)
}

async fn dispatch(cli: Cli, out: &Out) -> Outcome {
    let load = |flags: Flags, need: Need| Config::load(&Layers::of_system(cli.config.clone(), flags), need);
    match cli.command {
        Command::Run { flags } => run::run(load(flags, Need::All)?).await,
        Command::Init(args) => init::run(&args, out),
        Command::Detect { flags } => detect::run(load(flags, Need::Owner), out),
        Command::Drain(args) => {
            drain::drain(&load(args.flags.clone(), Need::Owner)?, cli.config.as_deref(), &args, out).await
        }
        Command::Undrain(args) => {
            drain::undrain(&load(args.flags.clone(), Need::Owner)?, cli.config.as_deref(), &args, out).await
        }
        Command::Status { flags } => status::run(&load(flags, Need::Owner)?, out).await,
        Command::Config { command: ConfigCommand::Show { flags } } => show::run(&load(flags, Need::Owner)?, out),
        Command::Panel(args) => {
            let named = cli.config.is_some();
            let node = match load(Flags::default(), Need::Owner) {
                Ok(config) => Ok(config),
                Err(error) if named || error.concern_the_panel() => return Err(error.into()),
                Err(error) => Err(format!("no node is configured here: {error}")),
            };
            Box::pin(panel::run(&args, node, out)).await
        }
        Command::Tickets { command } => Box::pin(tickets::run(command, out)).await,
        Command::Completions { shell } => out.completions(shell),
    }
}

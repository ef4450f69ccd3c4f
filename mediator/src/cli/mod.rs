//! The command line: every client command of the mediator, and the way into the server.
//!
//! All of it but `contract`, `serve`, `token`, `pki`, `gc`, `backup`, `recover` and `config` is a gRPC client like any other: it knows the
//! wire and nothing of the store or the services behind it. Only `output` writes to stdout and stderr.

use std::process::ExitCode;

mod admin;
mod age;
mod args;
mod asks;
mod backup;
mod client;
mod contract;
mod exit;
mod explain;
mod follow;
mod gc;
mod logs;
mod observe;
mod output;
mod pki;
mod progress;
mod record;
mod refusal;
mod runs;
mod settings;
mod show;
mod shown;
mod status;
mod submit;
mod table;
mod token;
mod watch;
mod words;

#[cfg(test)]
mod tests;

pub use exit::Exit;

use args::{Cli, Command};
use client::Client;
use exit::Outcome;
use output::Io;

/// How long threads that block may take to end when everything else has.
const THREADS_END: std::time::Duration = std::time::Duration::from_secs(2);

/// The whole program: parses the arguments, does what they ask for, and tells how it went.
#[must_use]
pub fn main() -> ExitCode {
    let mut io = Io::system();
    match args::parse(std::env::args_os()) {
        Ok(cli) => match tokio::runtime::Runtime::new() {
            Ok(runtime) => {
                let exit = runtime.block_on(run(cli, &mut io));
                // A thread that waits for a disk or a name server must not keep the program from ending.
                runtime.shutdown_timeout(THREADS_END);
                ExitCode::from(exit.code())
            }
            Err(error) => {
                io.note(format_args!("error: cannot start: {error}"));
                ExitCode::from(Exit::Refused.code())
            }
        },
        // clap itself knows where its text belongs: help goes to stdout, a mistake to stderr.
        Err(error) => error.exit(),
    }
}

/// Parses and runs in one, for tests.
#[cfg(test)]
async fn run_args(args: &[&str], io: &mut Io) -> Exit {
    match args::parse(std::iter::once(&"mediator").chain(args).map(std::ffi::OsString::from)) {
        Ok(cli) => run(cli, io).await,
        Err(error) => {
            io.note(error);
            Exit::Refused
        }
    }
}

/// Runs one command and prints its failure, if any.
async fn run(cli: Cli, io: &mut Io) -> Exit {
    match Box::pin(dispatch(cli, io)).await {
        Ok(exit) => exit,
        Err(failure) => {
            for (at, line) in failure.message.lines().enumerate() {
                // Only the first line is the headline; contract problems stand below each other as they are.
                io.note(format_args!("{}{}", if at == 0 { "error: " } else { "" }, output::clean(line)));
            }
            if let Some(advice) = failure.advice {
                advice.lines().for_each(|line| io.note(output::clean(line)));
            }
            failure.exit
        }
    }
}

async fn dispatch(cli: Cli, io: &mut Io) -> Outcome {
    let (format, global) = (cli.global.output, cli.global);
    match cli.command {
        Command::Submit(args) => submit::submit(&Client::new(&global).await?, io, format, args).await,
        Command::DryRun { file } => submit::dry_run(&Client::new(&global).await?, io, format, &file).await,
        Command::Nodes { all } => observe::nodes(&Client::new(&global).await?, io, format, all).await,
        Command::Leases => observe::leases(&Client::new(&global).await?, io, format).await,
        Command::Runs(args) => runs::runs(&Client::new(&global).await?, io, format, args).await,
        Command::Show { run } => show::show(&Client::new(&global).await?, io, format, &run).await,
        Command::Explain { run, node } => explain::explain(&Client::new(&global).await?, io, format, run, node).await,
        Command::Cancel { run } => runs::cancel(&Client::new(&global).await?, io, format, &run).await,
        Command::Asks => asks::asks(&Client::new(&global).await?, io, format).await,
        Command::Answer(args) => asks::answer(&Client::new(&global).await?, io, format, args).await,
        Command::Watch { run: Some(run), timeout } => {
            watch::run(&Client::new(&global).await?, io, format, &run, timeout).await
        }
        Command::Watch { run: None, timeout } => watch::fleet(&Client::new(&global).await?, io, format, timeout).await,
        Command::Logs(args) => logs::logs(&Client::new(&global).await?, io, args).await,
        Command::Record { run, out } => record::record(&Client::new(&global).await?, io, &run, out).await,
        Command::Contract { command } => contract::contract(io, format, &command),
        Command::Status => status::status(&Client::new(&global).await?, io, format).await,
        Command::Serve { settings, new_database } => admin::serve(settings, new_database).await,
        Command::Token { command } => token::token(io, format, command).await,
        Command::Backup { dir, settings } => backup::backup(io, format, &dir, settings).await,
        Command::Recover { settings } => backup::recover(io, format, settings).await,
        Command::Gc { older_than, nodes, dry_run, settings } => {
            gc::gc(io, format, crate::service::gc::What { older_than, nodes, dry_run }, settings).await
        }
        Command::Pki { command } => pki::pki(io, format, command).await,
        Command::Config { command } => admin::config(io, format, command),
        Command::Completions { shell } => completions(io, shell),
    }
}

fn completions(io: &mut Io, shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "mediator", &mut script);
    io.bytes(&script)?;
    Ok(Exit::Ok)
}

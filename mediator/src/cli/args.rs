//! The command line as clap sees it: every command, flag and help text.

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use shared::{Duration, NodeId, Principal, RunId, StepName, WorkId};

use super::{age::Since, exit::Exit, output::Format, settings::Settings};
use crate::auth::Role;

/// Matches Runs to nodes, leases the nodes, sequences the steps, judges and records.
#[derive(Debug, Parser)]
#[command(name = "mediator", version, max_term_width = 100, after_help = Exit::HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command that talks to a mediator.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The mediator's address; of several mediators of one fleet all, with commas between
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MEDIATOR_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7070",
        help_heading = "Connection"
    )]
    pub(crate) mediator: String,
    /// File with the token. Without it: MEDIATOR_TOKEN, else the admin token of a mediator on this host
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate of the authority that a https:// address is checked against (PEM)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "MEDIATOR_CA",
        hide_env_values = true,
        help_heading = "Connection"
    )]
    pub(crate) ca: Option<PathBuf>,
    /// Client certificate to show, instead of a token (PEM; `mediator pki issue` makes one)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "MEDIATOR_CLIENT_CERT",
        hide_env_values = true,
        requires = "client_key",
        help_heading = "Connection"
    )]
    pub(crate) client_cert: Option<PathBuf>,
    /// Its key
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "MEDIATOR_CLIENT_KEY",
        hide_env_values = true,
        requires = "client_cert",
        help_heading = "Connection"
    )]
    pub(crate) client_key: Option<PathBuf>,
    /// How data on stdout is written
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub(crate) output: Format,
}

/// One variant a command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the fleet until SIGTERM or Ctrl-C
    ///
    /// Configuration: defaults, then /etc/mediator/config.toml, the user's file, --config, environment variables
    /// (MEDIATOR_LISTEN, MEDIATOR_LEASE__RENEW, …), flags; the later wins. `mediator config show` prints the result.
    #[command(after_help = Exit::HELP)]
    Serve {
        #[command(flatten)]
        settings: Settings<true>,
        /// Start with an empty database although the state directory shows that there was one
        #[arg(long)]
        new_database: bool,
    },
    /// Send a contract as a new Run
    ///
    /// Prints the Run's id. With --wait it prints how the Run ended, once it has, and exits with 1 if it FAILED.
    /// The id is drawn here, and a submit that got no answer is sent again with the same one, so that it can
    /// never become two Runs.
    #[command(after_help = Exit::HELP)]
    Submit(Submit),
    /// Show what `submit` would do now; nothing is stored
    #[command(after_help = Exit::HELP)]
    DryRun {
        /// The contract, YAML or JSON; - reads stdin
        file: PathBuf,
    },
    /// List the nodes: when they were last heard of, and whether they are lent
    ///
    /// A node that said goodbye, or was not heard of for 7 days, is left out while no Run holds it.
    #[command(after_help = Exit::HELP)]
    Nodes {
        /// Those that are left out, too
        #[arg(long)]
        all: bool,
    },
    /// List which Run holds which node, and until when
    #[command(after_help = Exit::HELP)]
    Leases,
    /// List Runs, newest first
    #[command(after_help = Exit::HELP)]
    Runs(Runs),
    /// Show one Run: steps, findings, verdict
    #[command(after_help = Exit::HELP)]
    Show {
        /// The Run's id, or as much of its beginning as no other has, six letters at least
        run: RunId,
    },
    /// Say why a Run waits, or why a node is or is not lendable
    #[command(after_help = Exit::HELP)]
    Explain {
        /// The Run's id, or as much of its beginning as no other has, six letters at least
        #[arg(required_unless_present = "node", conflicts_with = "node")]
        run: Option<RunId>,
        /// Explain this node instead
        #[arg(long, value_name = "NODE")]
        node: Option<NodeId>,
    },
    /// End a queued or running Run
    #[command(after_help = Exit::HELP)]
    Cancel {
        /// The Run's id, or as much of its beginning as no other has, six letters at least
        run: RunId,
    },
    /// List open questions, oldest first, with how to answer them
    #[command(after_help = Exit::HELP)]
    Asks,
    /// Answer an open question of a Run
    ///
    /// An answer that does not fit the question's form is refused, and the question stays open.
    #[command(after_help = Exit::HELP)]
    Answer(Answer),
    /// Follow a Run to its end, or without RUN the events of the fleet until Ctrl-C
    ///
    /// Every change is a line; with --output json or jsonl it is one JSON object a line.
    #[command(after_help = Exit::HELP)]
    Watch {
        /// The Run's id, or as much of its beginning as no other has, six letters at least
        run: Option<RunId>,
        /// Stop waiting after this long, with exit code 3
        #[arg(allow_hyphen_values = true, long, value_name = "SPAN")]
        timeout: Option<Duration>,
    },
    /// Print the log of a Run or of one step, byte for byte
    #[command(after_help = Exit::HELP)]
    Logs(Logs),
    /// Fetch the sealed Record of a Run as a tar file
    #[command(after_help = Exit::HELP)]
    Record {
        /// The Run's id, or as much of its beginning as no other has, six letters at least
        run: RunId,
        /// Where to write it; - is stdout [default: RUN.tar in this folder]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Work on contracts without a mediator
    #[command(after_help = Exit::HELP)]
    Contract {
        #[command(subcommand)]
        command: Contract,
    },
    /// Make, list and revoke tokens, on the mediator's host
    #[command(after_help = Exit::HELP)]
    Token {
        #[command(subcommand)]
        command: Token,
    },
    /// Remove Runs that ended long ago, with their Records, on the mediator's host
    ///
    /// Only Runs that are over and sealed go, and files that belong to no Run. Works while mediators serve. Ended at
    /// any moment it leaves nothing half; the next one goes on.
    #[command(after_help = Exit::HELP)]
    Gc {
        /// How long ago a Run must have ended, such as 30d
        #[arg(allow_hyphen_values = true, long, value_name = "SPAN")]
        older_than: Duration,
        /// Forget nodes, too, that were not heard of for as long and that no open Run has anything to do with
        ///
        /// A node that comes back registers anew: its id is then free for the first token that names it.
        #[arg(long)]
        nodes: bool,
        /// Only tell what would be removed
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        settings: Settings<false>,
    },
    /// Copy the database (an embedded one) and all files of Runs, while mediators serve
    ///
    /// The directory can be used as a state directory: copy it back, then `mediator recover`. Of PostgreSQL make a
    /// dump first, then this.
    #[command(after_help = Exit::HELP)]
    Backup {
        /// Where to; must be empty, or not there yet
        dir: PathBuf,
        #[command(flatten)]
        settings: Settings<false>,
    },
    /// Make a restored database fit to serve, before the first start
    ///
    /// Every lease is ended: agents are told to stop what they have begun since the backup, and Runs that were under
    /// way end, or start over where their contract says so. Files of Runs that the database does not know are put
    /// apart.
    #[command(after_help = Exit::HELP)]
    Recover {
        #[command(flatten)]
        settings: Settings<false>,
    },
    /// Make and revoke certificates for a small fleet
    #[command(after_help = Exit::HELP)]
    Pki {
        #[command(subcommand)]
        command: Pki,
    },
    /// Look at the configuration of `serve`
    #[command(after_help = Exit::HELP)]
    Config {
        #[command(subcommand)]
        command: Config,
    },
    /// Tell how mediator and fleet are: health, Runs by state, nodes by state
    #[command(after_help = Exit::HELP)]
    Status,
    /// Print the completion script for a shell
    #[command(after_help = Exit::HELP)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// `submit`
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// The contract, YAML or JSON; - reads stdin
    pub(crate) file: PathBuf,
    /// The Run's id, over the contract's own [default: a fresh UUID]
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<RunId>,
    /// Wait until the Run has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Stop waiting after this long, with exit code 3; the Run goes on
    #[arg(allow_hyphen_values = true, long, value_name = "SPAN", requires = "wait")]
    pub(crate) timeout: Option<Duration>,
}

/// `answer`
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// The Run's id, or as much of its beginning as no other has, six letters at least
    pub(crate) run: RunId,
    /// Fields of the answer; VALUE is JSON where it reads as JSON, otherwise text
    #[arg(value_name = "FIELD=VALUE", required_unless_present = "json", conflicts_with = "json")]
    pub(crate) fields: Vec<String>,
    /// The whole answer as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,
    /// Which question, where the Run asks several
    #[arg(long, value_name = "STEP")]
    pub(crate) step: Option<StepName>,
    /// Only if it was asked this often by then, as `asks` shows it [default: whatever is open]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) attempt: u32,
}

/// `runs`
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only Runs in this state
    #[arg(long, value_name = "STATE", ignore_case = true, value_parser = RUN_STATES)]
    pub(crate) state: Option<String>,
    /// Only Runs about this work, SYSTEM:ID
    #[arg(long, value_name = "WORK")]
    pub(crate) work: Option<WorkId>,
    /// Only Runs submitted since then: a span such as 2h, or RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<Since>,
    /// At most this many, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Go on behind the page that ended with this cursor
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

/// The words of a Run's state.
pub(crate) const RUN_STATES: [&str; 5] = ["QUEUED", "RUNNING", "VERIFYING", "SUCCEEDED", "FAILED"];

/// `logs`
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The Run's id, or as much of its beginning as no other has, six letters at least
    pub(crate) run: RunId,
    /// Only this step
    pub(crate) step: Option<StepName>,
    /// Go on until the Run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Put the step's name before every line, as is done on a terminal when several steps are shown
    #[arg(long)]
    pub(crate) prefix: bool,
}

/// `token …`
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token and print it, once
    ///
    /// Works on the mediator's database, while it serves or not.
    #[command(after_help = Exit::HELP)]
    Create {
        /// What it is for: node, submitter, observer or admin
        #[arg(long, value_name = "ROLE")]
        role: Role,
        /// Who it speaks for
        #[arg(long, value_name = "NAME")]
        principal: Principal,
        /// The only machine or node that it may speak for (role node)
        #[arg(long, value_name = "ID")]
        node: Option<NodeId>,
        /// How long it is good for, such as 12h or 30d [default: until it is revoked]
        #[arg(allow_hyphen_values = true, long, value_name = "SPAN")]
        expires: Option<Duration>,
        /// Make an empty database where there is none, such as before the first start of `serve`
        #[arg(long)]
        new_database: bool,
        #[command(flatten)]
        settings: Settings<false>,
    },
    /// List the tokens: whose they are, what for and until when, never the secret
    ///
    /// Client certificates that were revoked are listed, too; their ids begin with cert:.
    #[command(after_help = Exit::HELP)]
    List {
        #[command(flatten)]
        settings: Settings<false>,
    },
    /// Take a token out of use, for ever
    ///
    /// A mediator that serves refuses it within a second, and ends the streams that were opened with it.
    #[command(after_help = Exit::HELP)]
    Revoke {
        /// Its id as `token list` shows it, or enough of its beginning
        id: String,
        #[command(flatten)]
        settings: Settings<false>,
    },
}

/// `pki …`
#[derive(Debug, Subcommand)]
pub(crate) enum Pki {
    /// Make a certificate authority and a server certificate; nothing is overwritten
    #[command(after_help = Exit::HELP)]
    Init {
        /// The folder to write them to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Names and addresses under which agents and clients reach the mediator
        #[arg(long, value_name = "NAME", required = true, num_args = 1..)]
        host: Vec<String>,
    },
    /// Make a client certificate; nothing is overwritten
    ///
    /// Writes NAME.crt and NAME.key, NAME being the principal or PRINCIPAL.NODE. A client or agent that shows the
    /// certificate needs no token. Works without a mediator, on the machine that has the authority's key.
    #[command(after_help = Exit::HELP)]
    Issue {
        /// The folder with the authority's ca.crt and ca.key, as `pki init` wrote it
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// The folder to write to [default: the same]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// What it is for: node, submitter, observer or admin
        #[arg(long, value_name = "ROLE")]
        role: Role,
        /// Who it speaks for
        #[arg(long, value_name = "NAME")]
        principal: Principal,
        /// The only machine or node that it may speak for (role node)
        #[arg(long, value_name = "ID")]
        node: Option<NodeId>,
        /// How many days it is good for
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3_650))]
        days: u32,
    },
    /// Take a client certificate out of use, for ever
    ///
    /// Works on the mediator's database. A mediator that serves refuses it within a second, and ends the streams
    /// that were opened with it.
    #[command(after_help = Exit::HELP)]
    Revoke {
        /// The certificate's file (PEM), or its SHA-256 fingerprint
        certificate: String,
        #[command(flatten)]
        settings: Settings<false>,
    },
}

/// `config …`
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print the values in force and where each comes from, without secrets
    #[command(after_help = Exit::HELP)]
    Show {
        #[command(flatten)]
        settings: Settings<true>,
    },
}

/// `contract …`
#[derive(Debug, Subcommand)]
pub(crate) enum Contract {
    /// Print a contract to start from
    #[command(after_help = Exit::HELP)]
    Example,
    /// Check contracts: one line a problem, FILE:LINE:COLUMN: PATH: MESSAGE
    #[command(after_help = Exit::HELP)]
    Lint {
        /// Contracts, YAML or JSON; - reads stdin
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print the JSON Schema of contracts, for editors
    #[command(after_help = Exit::HELP)]
    Schema,
}

/// Commands that talk to no mediator, and those whose output has one form only.
const OFFLINE: [&str; 9] = ["serve", "contract", "token", "pki", "config", "gc", "backup", "recover", "completions"];
const ONE_FORM: [&str; 4] = ["serve", "logs", "record", "completions"];
const CONNECTION: [&str; 5] = ["mediator", "token_file", "ca", "client_cert", "client_key"];

/// The command line, in which the help of a command shows no flag that would do nothing there.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    for name in OFFLINE {
        command = hide(command, name, &CONNECTION);
    }
    for name in ONE_FORM {
        command = hide(command, name, &["output"]);
    }
    command
}

/// A command that has an argument of its own is not given the one of the same name from above.
fn hide(command: clap::Command, name: &str, flags: &[&str]) -> clap::Command {
    let hidden: Vec<_> = command
        .get_arguments()
        .filter(|arg| flags.contains(&arg.get_id().as_str()))
        .map(|arg| arg.clone().hide(true))
        .collect();
    command.mut_subcommand(name, |sub| sub.args(hidden))
}

/// Parses, and refuses flags that would do nothing.
pub(crate) fn parse(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(args)?;
    let name = matches.subcommand_name().unwrap_or_default();
    let offline = if OFFLINE.contains(&name) { &CONNECTION[..] } else { &[] };
    let one_form = if ONE_FORM.contains(&name) { &["output"][..] } else { &[] };
    for flag in offline.iter().chain(one_form) {
        if matches.value_source(flag) == Some(clap::parser::ValueSource::CommandLine) {
            let flag = flag.replace('_', "-");
            let message = format!("--{flag} does nothing with `mediator {name}`; leave it out");
            return Err(command.error(clap::error::ErrorKind::ArgumentConflict, message));
        }
    }
    Cli::from_arg_matches(&matches)
}

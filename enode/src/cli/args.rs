//! What can be said.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use shared::{Duration, domain::Drain};

use super::tickets::args::TemplateFolder;
use crate::config::Flags;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; with `drain --wait`: drained, safe to power off
  1  failed in another way; with `status`: no agent runs here
  2  refused: usage, configuration or token; or somebody released the machine while `drain --wait` waited
  3  timeout: --timeout is over, the mediator answers, and the machine is not drained
  4  the mediator cannot be reached
  5  policy refused: the policy file cannot be written, or the agent cannot use it";

const PANEL_EXIT_CODES: &str = "\
Exit codes:
  0  told to stop
  1  failed in another way
  2  refused: usage, configuration, the queue, the address, or no panel_token";

const FILES: &str = "\
Configuration, the later one wins: /etc/enode/enode.toml, ~/.config/enode/enode.toml, --config FILE, environment
(ENODE_SLOTS=2; nested keys with two underscores: ENODE_DISK__MIN_FREE=2GiB), flags. The owner's policy file is
NAME.policy.toml beside the config file NAME.toml.";

/// Lends this machine to a fleet, on its owner's terms
#[derive(Debug, Parser)]
#[command(name = "enode", version, after_help = EXIT_CODES, after_long_help = format!("{FILES}\n\n{EXIT_CODES}"))]
pub(super) struct Cli {
    /// Configuration file, NAME.toml
    #[arg(long, global = true, value_name = "FILE", env = "ENODE_CONFIG", hide_env_values = true)]
    pub(super) config: Option<PathBuf>,
    /// How to print data
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "table",
        env = "ENODE_OUTPUT",
        hide_env_values = true
    )]
    pub(super) output: Format,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// How to print data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the agent in the foreground (ENODE_LOG=debug says more)
    Run {
        #[command(flatten)]
        flags: Flags,
    },
    /// Write a commented NAME.toml to start from
    Init(InitArgs),
    /// Show what this machine would advertise
    Detect {
        #[command(flatten)]
        flags: Flags,
    },
    /// Take this machine back: write the policy file, and with --wait wait until nothing runs here
    #[command(after_help = EXIT_CODES)]
    Drain(DrainArgs),
    /// Lend this machine again
    #[command(after_help = EXIT_CODES)]
    Undrain(UndrainArgs),
    /// Show what the agent on this machine does
    #[command(after_help = EXIT_CODES)]
    Status {
        #[command(flatten)]
        flags: Flags,
    },
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Work on a queue of tickets: a folder of Markdown files
    #[command(after_help = super::tickets::args::EXIT_CODES)]
    Tickets {
        #[command(subcommand)]
        command: super::tickets::args::Tickets,
    },
    /// Show the ticket board and this machine's node as pages for a browser
    #[command(after_help = PANEL_EXIT_CODES)]
    Panel(PanelArgs),
    /// Print a completion script
    Completions {
        /// For this shell
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// The effective values, where each comes from, secrets redacted
    Show {
        #[command(flatten)]
        flags: Flags,
    },
}

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Name of this machine in the fleet [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Where the mediator listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    pub(super) mediator: String,
    /// Folder to write NAME.toml into; made if it is not there
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) dir: PathBuf,
}

/// How the owner takes the machine back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// Nothing new is granted; Runs that hold this machine go on to their end
    Graceful,
    /// Also no further step: a Run that still needs this machine is closed when its running step ends
    AtBoundary,
}

impl From<Mode> for Drain {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Graceful => Self::Graceful,
            Mode::AtBoundary => Self::AtBoundary,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    /// How [default: graceful, or the stronger word that the policy file has]
    #[arg(long, value_enum)]
    pub(super) mode: Option<Mode>,
    /// Why, for everybody who looks at the fleet; without it the reason in the file stays
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    /// Return only when the mediator shows every node of this machine draining without a lease, and the agent
    /// here has no process of a Run. Where no agent runs, the mediator must show
    /// that their adverts have expired
    #[arg(long)]
    pub(super) wait: bool,
    /// Wait at most this long, such as 30s, 10m or 2h; the machine stays draining [default: for ever]
    #[arg(long, value_name = "TIME", requires = "wait")]
    pub(super) timeout: Option<Duration>,
    /// Replace a policy file that cannot be edited; the old one is kept as NAME.policy.toml.broken
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) flags: Flags,
}

#[derive(Debug, Args)]
pub(super) struct UndrainArgs {
    /// End the quarantine of this machine's nodes instead; the owner's own drain stays as it is
    #[arg(long, conflicts_with = "force")]
    pub(super) quarantine: bool,
    /// Replace a policy file that cannot be edited; the old one is kept as NAME.policy.toml.broken
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) flags: Flags,
}

/// Where the panel is and what it shows.
#[derive(Debug, Args)]
pub(super) struct PanelArgs {
    /// Folder that holds the tickets [default: panel.queue of the configuration, else tickets]
    #[arg(long, value_name = "DIR", env = "TICKET_QUEUE", hide_env_values = true)]
    pub(super) queue: Option<PathBuf>,
    #[command(flatten)]
    pub(super) templates: TemplateFolder,
    /// Address and port; beyond loopback the policy file must have panel_token [default: panel.listen of the
    /// configuration, else 127.0.0.1:7071]
    #[arg(long, value_name = "IP:PORT", env = "PANEL_LISTEN", hide_env_values = true)]
    pub(super) listen: Option<SocketAddr>,
    /// Where the mediator listens; several of one fleet with commas between [default: panel.mediator of the
    /// configuration, else http://127.0.0.1:7070]
    #[arg(long, value_name = "URL", env = "MEDIATOR_URL", hide_env_values = true)]
    pub(super) mediator: Option<String>,
    /// File that holds the token of a submitter [default: the token in MEDIATOR_TOKEN, else panel.token_file of the
    /// configuration]
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// PEM file of the authority that signed the mediator's certificate [default: panel.ca_file of the configuration]
    #[arg(long, value_name = "FILE", env = "MEDIATOR_CA", hide_env_values = true)]
    pub(super) ca_file: Option<PathBuf>,
}

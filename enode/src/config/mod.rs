//! What one agent was told: its name, its mediator, where it keeps its state, what it offers.
//!
//! Layers, the later one wins: defaults, `/etc/enode/enode.toml`, `~/.config/enode/enode.toml`, `--config FILE`,
//! environment (`ENODE_SLOTS`, nested keys with `__`: `ENODE_DISK__MIN_FREE`), flags. Unknown keys are refused and
//! every fault is reported at once with its place. The owner's policy file is not configuration: see `policy`.

mod fault;
mod fields;
pub mod harness;
mod layers;
mod load;
mod secret;
mod show;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use shared::{Duration, NodeId, domain::Capability};

use crate::policy::quarantine::Rule;

pub use fault::{ConfigErrors, Fault};
pub use layers::{Flags, Layers};
pub(crate) use layers::{line_of, not_toml};
pub(crate) use load::is_mediator_url;
pub use secret::Secret;

/// The effective configuration of one agent.
#[derive(Debug, Clone)]
pub struct Config {
    /// `NAME` of its node ids.
    pub name: String,
    /// For people; the host's name unless set.
    pub label: String,
    /// Where the mediator listens, `http://HOST:PORT` or `https://HOST:PORT`: one, or all mediators of one fleet,
    /// the preferred one first.
    pub mediator: Vec<String>,
    /// The token of role `node`.
    pub token: Option<Secret>,
    /// PEM file of the authority that signed the mediator's certificate.
    pub ca_file: Option<PathBuf>,
    /// PEM files of the client certificate that stands for a token, and of its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Spool, workspaces, identity, local socket.
    pub state_dir: PathBuf,
    /// How many nodes this machine is.
    pub slots: u32,
    /// What each node advertises, detected attributes included.
    pub capabilities: Vec<Capability>,
    /// The coding agents that `agent` steps may use, by name.
    pub harnesses: BTreeMap<String, harness::Harness>,
    /// Detected attributes were added to every capability.
    pub detect: bool,
    /// Names of environment variables that steps inherit.
    pub pass_env: Vec<String>,
    /// Between SIGTERM and SIGKILL of a step.
    pub grace: Duration,
    /// How long what runs may go on after the agent was told to stop.
    pub stop_timeout: Duration,
    /// How long a new step waits until the process group before it is gone.
    pub start_timeout: Duration,
    /// How long a Run's folder outlives its lease.
    pub keep_workspace: Duration,
    /// Largest output file in bytes.
    pub artifact_bytes: u64,
    /// Most bytes of a step's output that are spooled.
    pub log_bytes: u64,
    /// Bytes that must be free where Runs work for the node to be lent; off when `None`.
    pub min_free: Option<u64>,
    /// When a node that fails everything is held back.
    pub quarantine: Rule,
    /// What `enode panel` is started with.
    pub panel: Panel,
    /// The owner's file: `NAME.policy.toml` beside the config file `NAME.toml`.
    pub policy_file: PathBuf,
    /// What is legal but probably not meant.
    pub warnings: Vec<String>,
    /// Where each value comes from, for `config show`.
    origins: Vec<(&'static str, String)>,
}

/// `[panel]`: what `enode panel` takes where neither a flag nor its variable says something else. The agent itself uses
/// none of it, so whether the files are there is looked at when a panel starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Panel {
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--queue`.
    pub queue: Option<PathBuf>,
    /// `--templates`.
    pub templates: Option<PathBuf>,
    /// `--mediator`; one, or several of one fleet.
    pub mediator: Option<Vec<String>>,
    /// `--token-file`.
    pub token_file: Option<PathBuf>,
    /// `--ca-file`.
    pub ca_file: Option<PathBuf>,
}

/// What a command needs of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// All of it must be usable.
    All,
    /// The owner's own commands work without token and authority: what cannot be read of them becomes a warning.
    Owner,
}

impl Config {
    /// Merges and checks the layers.
    ///
    /// # Errors
    /// All faults at once.
    pub fn load(layers: &Layers, need: Need) -> Result<Self, ConfigErrors> {
        load::load(layers, need)
    }

    /// Nothing but defaults: for tests and embedding.
    #[must_use]
    pub fn with_defaults(name: &str, state_dir: &Path) -> Self {
        Self {
            name: name.to_owned(),
            label: name.to_owned(),
            mediator: vec![defaults::MEDIATOR.to_owned()],
            token: None,
            ca_file: None,
            certificate: None,
            state_dir: state_dir.to_owned(),
            slots: 1,
            capabilities: Vec::new(),
            harnesses: BTreeMap::new(),
            detect: false,
            pass_env: defaults::PASS_ENV.iter().map(ToString::to_string).collect(),
            grace: defaults::GRACE,
            stop_timeout: defaults::STOP_TIMEOUT,
            start_timeout: defaults::START_TIMEOUT,
            keep_workspace: Duration::default(),
            artifact_bytes: defaults::ARTIFACT_BYTES,
            log_bytes: defaults::LOG_BYTES,
            min_free: Some(defaults::MIN_FREE),
            quarantine: defaults::QUARANTINE,
            panel: Panel::default(),
            policy_file: state_dir.join(format!("{name}.policy.toml")),
            warnings: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// How many mediators it knows.
    #[must_use]
    pub fn mediators(&self) -> usize {
        self.mediator.iter().collect::<BTreeSet<_>>().len()
    }

    /// The nodes of this machine: `NAME`, or `NAME/0` to `NAME/N-1`.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        if self.slots <= 1 {
            return NodeId::new(&self.name).into_iter().collect();
        }
        (0..self.slots).flat_map(|slot| NodeId::new(&format!("{}/{slot}", self.name))).collect()
    }
}

/// Values of keys that nobody set.
pub(crate) mod defaults {
    use shared::Duration;

    use crate::policy::quarantine::Rule;

    pub(crate) const MEDIATOR: &str = "http://127.0.0.1:7070";
    pub(super) const PASS_ENV: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"];
    pub(super) const GRACE: Duration = Duration::from_secs(10);
    pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(30);
    pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);
    pub(super) const ARTIFACT_BYTES: u64 = 1 << 30;
    /// Somewhat more than a mediator keeps by default, so that it is the mediator's limit that counts.
    pub(super) const LOG_BYTES: u64 = 80 << 20;
    /// A build that finds less fails anyway, and takes the machine's own programs with it.
    pub(super) const MIN_FREE: u64 = 1 << 30;
    pub(super) const QUARANTINE: Rule = Rule { after: 5, within: Duration::from_secs(10) };
    pub(super) const MAX_SLOTS: u64 = 1_000;
}

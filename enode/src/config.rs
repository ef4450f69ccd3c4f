//! Settings of the agent.

use std::path::PathBuf;

use shared::{Duration, NodeId, domain::Capability};

/// Effective settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the machine's agent.
    pub name: String,
    /// For people.
    pub label: String,
    /// Mediators, tried in order.
    pub mediator: Vec<String>,
    /// Token of role `node`.
    pub token: Option<Secret>,
    /// Certificate authority of the mediators.
    pub ca_file: Option<PathBuf>,
    /// Where everything is kept.
    pub state_dir: PathBuf,
    /// Nodes.
    pub slots: u32,
    /// What each node can do.
    pub capabilities: Vec<Capability>,
    /// Variables passed from the agent's own environment.
    pub pass_env: Vec<String>,
    /// SIGTERM to SIGKILL.
    pub grace: Duration,
    /// How long a running step may go on after the agent was told to stop.
    pub stop_timeout: Duration,
    /// How long a step waits for the process group before it to go.
    pub start_timeout: Duration,
    /// How long a Run's folder is kept after its lease.
    pub keep_workspace: Duration,
    /// Largest output file.
    pub artifact_bytes: u64,
    /// The owner's policy.
    pub policy_file: PathBuf,
}

/// A text that is not shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps it.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Config {
    /// The nodes of this machine.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        if self.slots <= 1 {
            return NodeId::new(&self.name).into_iter().collect();
        }
        (0..self.slots).filter_map(|slot| NodeId::new(&format!("{}/{slot}", self.name)).ok()).collect()
    }
}

//! Why a Run waits, and why a node is or is not lendable.
//!
//! Pure: everything is computed from one snapshot of the fleet, so that the numbers add up. A node counts as
//! busy before it counts as draining, and `live = busy + draining + free` for every role. What the words mean
//! is decided by the domain; this only counts and tells.

mod kept;
mod node;
mod role;
mod run;
mod silence;
mod waiting;

use shared::{Duration, NodeId, RoleName, RunId, Timestamp, domain::Wake};

use super::{Services, observe::no_run};
use crate::error::Error;

pub use node::explain_node;
pub use run::explain_run;

/// An explanation and the moment it was true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The store's clock in the same snapshot.
    pub observed_at: Timestamp,
    /// One readable sentence.
    pub summary: String,
    /// For a Run: its roles.
    pub roles: Vec<RoleExplanation>,
    /// For a QUEUED Run: 1 = next in line.
    pub place: Option<u32>,
    /// For a QUEUED Run: which wake points can free it, most likely first.
    pub wakes: Vec<Wake>,
    /// For a node: whether it is a candidate now.
    pub lendable: Option<bool>,
    /// For a node: everything that speaks against lending it.
    pub reasons: Vec<String>,
}

/// One role of a Run against the live nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the wire, which explains them")]
pub struct RoleExplanation {
    pub role: RoleName,
    pub wanted: u32,
    pub live: u32,
    pub busy: u32,
    pub busy_draining: u32,
    pub draining: u32,
    pub free: u32,
    pub lacking: Vec<String>,
    pub holders: Vec<(NodeId, RunId)>,
    pub held: Vec<String>,
}

impl Services {
    /// Explains a Run.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Store`].
    pub async fn explain_run(&self, id: &RunId) -> Result<Explanation, Error> {
        let mut tx = self.store.read().await?;
        let (run, _) = tx.run(id).await?.ok_or_else(|| no_run(id))?;
        let fleet = tx.fleet().await?;
        Ok(explain_run(&fleet, &run, &self.settings, tx.now()))
    }

    /// Explains a node.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Store`].
    pub async fn explain_node(&self, id: &NodeId) -> Result<Explanation, Error> {
        let mut tx = self.store.read().await?;
        let fleet = tx.fleet().await?;
        let node = fleet
            .node(id)
            .ok_or_else(|| Error::NotFound(format!("node {id}; `mediator nodes` lists those there are")))?;
        Ok(explain_node(&fleet, node, tx.now()))
    }
}

/// A span for a person: the two largest units, nothing below a second once it is longer than that.
pub(super) fn age(span: Duration) -> String {
    const DAY: u64 = 86_400_000;
    let unit = match span.millis() {
        0..1_000 => 1,
        1_000..3_600_000 => 1_000,
        3_600_000..DAY => 60_000,
        _ => 3_600_000,
    };
    Duration::from_millis(span.millis() / unit * unit).to_string()
}

/// The first few, and how many more there are.
fn some(items: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = items.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > SHOWN {
        text.push_str(&format!(" and {} more", items.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests;

//! What every page about one ticket begins with.

use std::sync::Arc;

use shared::ticket::Stem;

use super::{Shared, door::Visit, fault::Fault, shell::Shell, sight::Sight};

/// The ticket that an address names.
pub(super) fn stem(text: &str) -> Result<Stem, Fault> {
    Stem::new(text).map_err(|error| Fault::missing(format!("{error}.")))
}

/// The queue, the ticket's stem, and what is around the page.
pub(super) struct Asked {
    pub(super) sight: Arc<Sight>,
    /// As the address says it.
    pub(super) stem: Stem,
    pub(super) shell: Shell,
}

impl Asked {
    /// # Errors
    /// What is no name of a ticket, and a queue out of reach.
    pub(super) async fn new(panel: &Shared, visit: &Visit, name: &str, here: &str) -> Result<Self, Fault> {
        let stem = stem(name)?;
        let sight = panel.look().await?;
        let shell = Shell::new(visit, here, "", &sight);
        Ok(Self { sight, stem, shell })
    }
}

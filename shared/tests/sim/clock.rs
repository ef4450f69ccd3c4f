//! The agent's boot clock, as far as its core needs it. Here it is the virtual clock of the world.

use shared::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct BootTime(u64);

impl BootTime {
    pub(crate) const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    pub(crate) const fn millis(self) -> u64 {
        self.0
    }

    pub(crate) const fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.millis()))
    }
}

//! What a node tells its worker.

use shared::Duration;

use crate::session::{core::LeaseKey, wire::WorkStep};

/// Why a step is stopped, weakest first. From `Superseded` on nobody wants its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopCause {
    /// The agent is told to stop.
    Stopped,
    /// No advert was accepted in time.
    TimeToLive,
    /// Another speaks for the node.
    Superseded,
    /// Its lease has ended.
    LeaseEnded,
}

impl StopCause {
    /// The result is still to be reported.
    #[must_use]
    pub const fn is_reported(self) -> bool {
        match self {
            Self::Stopped | Self::TimeToLive => true,
            Self::Superseded | Self::LeaseEnded => false,
        }
    }
}

/// The order to end a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub cause: StopCause,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

/// Work for a node's worker, in order.
#[derive(Debug)]
pub enum Job {
    /// Execute it.
    Start(WorkStep),
    /// The lease has ended: nothing of it may stay.
    End(LeaseKey),
}

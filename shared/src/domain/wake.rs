//! The six wake points, and the three scans that are not among them.

use std::fmt;

/// Why the queue is scanned. Ordered: where several apply in one transaction, the lowest names the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wake {
    /// 1: a Run was closed as judged or `step_failed` and its leases went.
    RunSettled,
    /// 2: a Run was cancelled, or closed at a boundary.
    RunCancelled,
    /// 3: the reaper freed leases or ended Runs of lost nodes.
    LeaseExpired,
    /// 4: an advert of another instance lost steps.
    NodeRestarted,
    /// 5: a Run that goes on gave a node back.
    PartialRelease,
    /// 6: an advert made a node lendable that was not.
    AdvertOpened,
    /// The enqueue's own scan.
    Submitted,
    /// Once, before serving.
    Startup,
    /// The slow safety net. A promotion here is a bug of one of the six.
    Sweep,
}

impl Wake {
    /// Every one, in order.
    pub const ALL: [Self; 9] = [
        Self::RunSettled,
        Self::RunCancelled,
        Self::LeaseExpired,
        Self::NodeRestarted,
        Self::PartialRelease,
        Self::AdvertOpened,
        Self::Submitted,
        Self::Startup,
        Self::Sweep,
    ];

    /// The name in events, metrics and explanations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunSettled => "RunSettled",
            Self::RunCancelled => "RunCancelled",
            Self::LeaseExpired => "LeaseExpired",
            Self::NodeRestarted => "NodeRestarted",
            Self::PartialRelease => "PartialRelease",
            Self::AdvertOpened => "AdvertOpened",
            Self::Submitted => "Submitted",
            Self::Startup => "Startup",
            Self::Sweep => "Sweep",
        }
    }
}

impl fmt::Display for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

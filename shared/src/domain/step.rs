//! A step of a Run: its state, and what its attempts came to.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{InstanceId, NodeId, Nonce, Seq, StepName, Timestamp, contract::StepKind};

/// Where a step stands. `Done` means that the process ended and was reported, whatever its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepState {
    /// Not begun.
    Pending,
    /// An acquire that waits in line.
    Waiting,
    /// Given to a node.
    Claimed {
        /// Where.
        node: NodeId,
        /// Since when.
        at: Timestamp,
    },
    /// Waits for a person.
    Asked {
        /// Since when.
        at: Timestamp,
    },
    /// Ended by itself.
    Done {
        /// Its exit code, where it has one.
        exit_code: Option<i32>,
        /// When.
        at: Timestamp,
    },
    /// Did not complete.
    Failed {
        /// Why.
        reason: FailReason,
        /// In words.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// Out of reach.
    Skipped {
        /// Since when.
        at: Timestamp,
    },
}

impl StepState {
    /// The word in the store, on the wire and on the screen.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Waiting => "WAITING",
            Self::Claimed { .. } => "CLAIMED",
            Self::Asked { .. } => "ASKED",
            Self::Done { .. } => "DONE",
            Self::Failed { .. } => "FAILED",
            Self::Skipped { .. } => "SKIPPED",
        }
    }
}

/// Why a step did not complete. Closed: a word that is not here is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// The program could not be started.
    CouldNotStart,
    /// It ran longer than its timeout.
    Timeout,
    /// Killed on the node for a reason of the node's own.
    Killed,
    /// The agent was told to stop and the step did not end in time.
    Stopped,
    /// The Run's folder on the node was gone.
    WorkspaceLost,
    /// An input file did not exist or could not be fetched.
    InputMissing,
    /// An output file could not be stored.
    OutputRefused,
    /// The process group before it would not go.
    Stuck,
    /// Its output is not what the contract says.
    InvalidOutput,
    /// The Run closed while it ran.
    RunClosed,
    /// Its node restarted and no longer knew it.
    NodeRestarted,
    /// The lease of its node ran out.
    LeaseExpired,
    /// An acquire found nothing free.
    Unavailable,
    /// An acquire would have waited for ever: the Runs that hold what it wants wait for each other.
    Deadlock,
}

impl FailReason {
    /// Every one.
    pub const ALL: [Self; 14] = [
        Self::CouldNotStart,
        Self::Timeout,
        Self::Killed,
        Self::Stopped,
        Self::WorkspaceLost,
        Self::InputMissing,
        Self::OutputRefused,
        Self::Stuck,
        Self::InvalidOutput,
        Self::RunClosed,
        Self::NodeRestarted,
        Self::LeaseExpired,
        Self::Unavailable,
        Self::Deadlock,
    ];

    /// The word in the store and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CouldNotStart => "could_not_start",
            Self::Timeout => "timeout",
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::WorkspaceLost => "workspace_lost",
            Self::InputMissing => "input_missing",
            Self::OutputRefused => "output_refused",
            Self::Stuck => "stuck",
            Self::InvalidOutput => "invalid_output",
            Self::RunClosed => "run_closed",
            Self::NodeRestarted => "node_restarted",
            Self::LeaseExpired => "lease_expired",
            Self::Unavailable => "unavailable",
            Self::Deadlock => "deadlock",
        }
    }

    /// An agent may report it; the others are the mediator's own findings.
    #[must_use]
    pub const fn is_reportable(self) -> bool {
        match self {
            Self::CouldNotStart
            | Self::Timeout
            | Self::Killed
            | Self::Stopped
            | Self::WorkspaceLost
            | Self::InputMissing
            | Self::OutputRefused
            | Self::Stuck => true,
            Self::InvalidOutput
            | Self::RunClosed
            | Self::NodeRestarted
            | Self::LeaseExpired
            | Self::Unavailable
            | Self::Deadlock => false,
        }
    }

    /// Another attempt on the same node may end better (`max_attempts`). What ended because somebody wanted it
    /// to, or because the node or its folder is not what it was, is not repeated.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        match self {
            Self::CouldNotStart | Self::Timeout | Self::InputMissing | Self::OutputRefused | Self::InvalidOutput => {
                true
            }
            Self::Killed
            | Self::Stopped
            | Self::WorkspaceLost
            | Self::Stuck
            | Self::RunClosed
            | Self::NodeRestarted
            | Self::LeaseExpired
            | Self::Unavailable
            | Self::Deadlock => false,
        }
    }
}

impl fmt::Display for FailReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for FailReason {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == word)
            .ok_or_else(|| format!("{:?} is not a reason of failure", word.chars().take(40).collect::<String>()))
    }
}

/// One execution. Rows are never deleted; `answer` is written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// From 1; never goes down while the Run exists.
    pub number: u32,
    /// The start of the Run it belongs to.
    pub starts: u32,
    /// Where it was claimed.
    pub node: NodeId,
    /// By which process life.
    pub instance: InstanceId,
    /// Under which lease.
    pub nonce: Nonce,
    /// When.
    pub claimed_at: Timestamp,
    /// What its report came to; written once.
    pub answer: Option<Answer>,
}

/// The answer to a report, kept so that the same report gets it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The step's state word.
    pub state: String,
    /// How much log the node had, in bytes.
    pub log_bytes: u64,
}

/// One step of a Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its position, from 0.
    pub seq: Seq,
    /// Its name in the contract.
    pub name: StepName,
    /// What it does.
    pub kind: StepKind,
    /// Where it stands.
    pub state: StepState,
    /// Executions so far; 0 = has not run yet.
    pub attempt: u32,
    /// Loop passes in this start of the Run.
    pub round: u32,
    /// Repeats within this round.
    pub tries: u32,
    /// What it waits for, defaults filled in.
    pub needs: Vec<Seq>,
    /// A fork picked it at least once in this start of the Run.
    pub chosen: bool,
    /// What its fork decided last; none while it has not decided, or where no fork leads here.
    pub picked: Option<bool>,
    /// When its last attempt was claimed.
    pub started_at: Option<Timestamp>,
    /// Until when its last attempt may run, for show; until when an ask stays open or an acquire waits.
    pub deadline: Option<Timestamp>,
    /// Output files of its last attempt, by name.
    pub produced: Vec<String>,
    /// Its executions, oldest first.
    pub attempts: Vec<Attempt>,
}

impl Step {
    /// It may still change.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match self.state {
            StepState::Pending | StepState::Waiting | StepState::Claimed { .. } | StepState::Asked { .. } => true,
            StepState::Done { .. } | StepState::Failed { .. } | StepState::Skipped { .. } => false,
        }
    }

    /// When it ended.
    #[must_use]
    pub const fn ended_at(&self) -> Option<Timestamp> {
        match self.state {
            StepState::Done { at, .. } | StepState::Failed { at, .. } | StepState::Skipped { at } => Some(at),
            StepState::Pending | StepState::Waiting | StepState::Claimed { .. } | StepState::Asked { .. } => None,
        }
    }

    /// Back to not begun, as if it had never run in this pass. What it has been through stays: `attempt`, `chosen`,
    /// `picked`.
    pub(super) fn reset(&mut self) {
        self.state = StepState::Pending;
        self.tries = 0;
        self.started_at = None;
        self.deadline = None;
        self.produced.clear();
    }

    /// An execution by its number.
    #[must_use]
    pub fn attempt(&self, number: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.number == number)
    }
}

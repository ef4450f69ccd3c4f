//! The words for what a ticket is in: six to filter by, three lanes to draw.

use std::fmt;

use serde::Serialize;

use super::{
    data::Ticket,
    name::Lane,
    order::{self, Entry, Hold},
    queue::Queue,
};

/// What a ticket is in. A ticket is in exactly one; the accident wins over what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A candidate, or held by the rule of priority 1, which has no word of its own.
    Open,
    /// Something in `deps` is not done.
    DepsWait,
    /// Of these one is the answer to its question.
    AnswerWait,
    /// An open name with `session_id`: in no lane.
    Assigned,
    /// Claimed.
    InProgress,
    /// Over.
    Done,
}

/// What a person may filter by: the same six words.
pub type Choice = Status;

impl Status {
    /// All, in the order of the flow.
    pub const ALL: [Self; 6] =
        [Self::Open, Self::DepsWait, Self::AnswerWait, Self::Assigned, Self::InProgress, Self::Done];

    /// The word of the command line and of addresses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::DepsWait => "deps_wait",
            Self::AnswerWait => "answer_wait",
            Self::Assigned => "assigned",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        }
    }

    /// From that word; blanks and dashes do as well.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        let word = word.trim().replace(['-', ' '], "_");
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }

    /// The lane that draws it; the accident is drawn in none.
    #[must_use]
    pub const fn lane(self) -> Option<Lane> {
        match self {
            Self::Open | Self::DepsWait | Self::AnswerWait => Some(Lane::Waiting),
            Self::Assigned => None,
            Self::InProgress => Some(Lane::InProgress),
            Self::Done => Some(Lane::Done),
        }
    }

    /// Of an entry in line.
    #[must_use]
    pub const fn of_entry(entry: &Entry) -> Self {
        Self::of_hold(entry.hold.as_ref())
    }

    const fn of_hold(hold: Option<&Hold>) -> Self {
        match hold {
            None | Some(Hold::LowestWaits { .. }) => Self::Open,
            Some(Hold::DepsWait { .. }) => Self::DepsWait,
            Some(Hold::AnswerWait { .. }) => Self::AnswerWait,
        }
    }

    /// Of any ticket.
    #[must_use]
    pub fn of(queue: &Queue, ticket: &Ticket) -> Self {
        match ticket.lane {
            Lane::Done => Self::Done,
            Lane::InProgress => Self::InProgress,
            Lane::Waiting if ticket.session_id.is_some() => Self::Assigned,
            Lane::Waiting => Self::of_hold(order::waits_for(queue, ticket).as_ref()),
        }
    }

    /// Whether a ticket in this state is shown to somebody who chose that word. An answer is awaited by way of
    /// `deps`, so that who asks for what waits for deps gets these, too.
    #[must_use]
    pub fn is_shown_by(self, choice: Choice) -> bool {
        self == choice || (self == Self::AnswerWait && choice == Self::DepsWait)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How many tickets exist, and how many of them no lane shows: the accidents, one for one.
#[must_use]
pub fn total_and_surplus(queue: &Queue) -> (usize, usize) {
    (queue.tickets().len(), order::accidents(queue).count())
}

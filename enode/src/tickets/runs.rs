//! What a worker wants of a mediator, free of the wire, so that tests can be one.

use shared::{RunId, Timestamp, ticket::question::Origin};

/// A Run as far as its ticket cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunNow {
    /// The mediator has no such Run.
    Unknown,
    /// It has not ended.
    Open {
        /// Its steps that wait for a person, in the contract's order.
        asking: Vec<Question>,
    },
    /// It ended well.
    Succeeded,
    /// It did not, for this reason.
    Failed(String),
    /// Somebody has ended it, as this says: its node's owner, or whoever cancelled it.
    Stopped(String),
}

/// A step that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Which one.
    pub origin: Origin,
    /// What.
    pub text: String,
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Nobody answered. The message may have been taken all the same, unless it was never sent.
    #[error("{why}")]
    Silent {
        /// In words.
        why: String,
        /// No connection was made.
        unsent: bool,
    },
    /// Not with these credentials.
    #[error("{0}: give the token of a submitter with --token-file FILE or MEDIATOR_TOKEN")]
    Denied(String),
    /// The mediator has decided: the same message gets the same answer. Or one ticket's file is no ticket any more. What
    /// concerns another ticket is another matter.
    #[error("{0}")]
    Refused(String),
    /// The folder cannot be read or written.
    #[error("{0}")]
    Folder(String),
}

/// A Run of one work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOf {
    /// Which.
    pub run: RunId,
    /// How it ended; `None`: it has not.
    pub end: Option<End>,
}

/// A Run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    /// Which.
    pub run: RunId,
    /// What it is for.
    pub work: Option<String>,
}

/// How a Run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Well.
    Succeeded,
    /// Not so.
    Failed,
}

/// A Run in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// What it waits for, in words.
    pub why: String,
    /// No nodes that lend fit it, not even busy ones: nobody knows when there will be some.
    pub is_unserved: bool,
}

/// What a step waits to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which.
    pub origin: Origin,
    /// What its Run is for.
    pub work: Option<String>,
    /// Whether it takes an answer from us.
    pub may_answer: bool,
    /// The JSON Schema that its answer must fit; `None`: any JSON.
    pub form: Option<String>,
}

/// An answer that a step has. What it says is in the Run's Record only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Whose.
    pub by: String,
    /// Since when.
    pub at: Timestamp,
}

/// A mediator.
pub trait Runs: Send + Sync {
    /// Whether it answers at all.
    fn reach(&self) -> impl Future<Output = Result<(), Trouble>> + Send;
    /// How a Run is.
    fn get(&self, run: &RunId) -> impl Future<Output = Result<RunNow, Trouble>> + Send;
    /// How it is once that is no longer `seen`, or after a while.
    fn changed(&self, run: &RunId, seen: &RunNow) -> impl Future<Output = Result<RunNow, Trouble>> + Send;
    /// What a Run waits for that has no node yet; `None`: it does not.
    fn queued(&self, run: &RunId) -> impl Future<Output = Result<Option<Queued>, Trouble>> + Send;
    /// The Runs of one work, the newest first; of very many the older ones may be missing.
    fn runs_of(&self, work: &str) -> impl Future<Output = Result<Vec<RunOf>, Trouble>> + Send;
    /// Runs of the queue with this tag that have not ended; of very many the older ones may be missing, and another queue's may
    /// be among them.
    fn open_runs(&self, tag: &str) -> impl Future<Output = Result<Vec<OpenRun>, Trouble>> + Send;
    /// Hands in a contract. The same id again is the same Run.
    fn submit(&self, run: &RunId, contract: &[u8]) -> impl Future<Output = Result<(), Trouble>> + Send;
    /// What steps ask now, of whatever Run.
    fn asks(&self) -> impl Future<Output = Result<Vec<Ask>, Trouble>> + Send;
    /// Who has answered a question; `None`: nobody has, or by now the step asks again.
    fn answered(&self, origin: &Origin) -> impl Future<Output = Result<Option<Answered>, Trouble>> + Send;
    /// Answers a question.
    fn answer(&self, origin: &Origin, json: &str) -> impl Future<Output = Result<(), Trouble>> + Send;
    /// Ends a Run.
    fn cancel(&self, run: &RunId) -> impl Future<Output = Result<(), Trouble>> + Send;
}

/// A fresh id for a Run of the queue with this tag. Only such Runs are taken up again: another queue may have a ticket
/// with the same stem.
///
/// # Errors
/// Never, as long as a tag is made of hex digits.
pub fn fresh_run(tag: &str) -> Result<RunId, shared::BadId> {
    RunId::new(&format!("{}{}", begin_of(tag), crate::clock::random_hex(32)))
}

/// How the ids of a queue's Runs begin.
#[must_use]
pub fn begin_of(tag: &str) -> String {
    format!("t{tag}-")
}

/// Whether a Run was made for the queue with this tag.
#[must_use]
pub fn is_of(tag: &str, run: &RunId) -> bool {
    run.as_str().strip_prefix('t').and_then(|rest| rest.strip_prefix(tag)).is_some_and(|rest| rest.starts_with('-'))
}

//! The rules of the fleet as one pure state machine.
//!
//! [`Fleet`] is everything that decisions rest on: nodes, leases, the queue, the open Runs. A command
//! ([`Decide`]) is applied to it with the present time and fresh ids; it either changes the fleet and notes
//! in [`Changes`] which rows now differ and who must be told, or is refused and changes nothing. The store
//! writes the noted rows in one transaction; it never decides. Simulation and tests drive the very same
//! functions without a store.
//!
//! What must hold between two commands is written down in [`invariant`].

mod advert;
mod answer;
mod cancel;
mod changes;
mod claim;
mod course;
mod drain;
mod fleet;
pub mod invariant;
mod lease;
mod line;
mod matching;
mod node;
mod reap;
mod report;
mod run;
mod settle;
mod step;
mod submit;
mod verdict;
mod wake;

pub use advert::{Advert, AdvertReply, OpenWork};
pub use answer::AnswerAsk;
pub use cancel::Cancel;
pub use changes::{Changes, Cx, Decide, EventKind, FleetEvent, Ids, Promotion, Refusal, Settings, Touches};
pub use claim::{Claim, ClaimedStep, InputFile};
pub use course::{Artifact, AskChange, AskChangeKind};
pub use drain::{Drain, Policy};
pub use fleet::{Fleet, Speaker};
pub use lease::Lease;
pub use line::{Place, Queue, Queued, Reservation, Shape};
pub use matching::{Assigned, Reject, lacking, match_roles, satisfies, wanted};
pub use node::{Capability, Node};
pub use reap::{Reap, Rescan};
pub use report::{Outcome, Report, ReportReply};
pub use run::{Run, RunState};
pub use step::{Answer, Attempt, FailReason, Step, StepState};
pub use submit::{Submit, Submitted, preview};
pub use verdict::{Cause, Finding, Holds, Verdict, judge};
pub use wake::Wake;

//! The line: who waits, and who runs next.
//!
//! [`queue`] is the line itself, [`promotion`] the scan that serves it, [`reservation`] what keeps wide Runs from
//! starving in it, [`deadlock`] what finds Runs that wait for each other, [`limit`] the most nodes that one Run may hold.

mod deadlock;
mod limit;
pub(super) mod promotion;
mod queue;
pub(super) mod reservation;

pub(super) use deadlock::Stirred;
pub use queue::{Place, Queue, Queued, Shape};
pub use reservation::Reservation;

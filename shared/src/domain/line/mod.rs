//! The line: who waits, and who runs next.
//!
//! [`queue`] is the line itself, [`promotion`] the scan that serves it.

pub(super) mod promotion;
mod queue;

pub use queue::{Queue, Queued, Shape};

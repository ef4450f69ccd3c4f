//! The owner's policy: the file that takes a machine back, and every other reason of the node not to lend.
//!
//! The rule that governs everything here: **a written word counts at once, silence releases only after five
//! seconds, and what cannot be understood never lends.**
//!
//! * A file with a `drain` value counts at once, whatever it says.
//! * Silence is a file that is missing, empty, without `drain`, or that breaks off right after `drain = ""`. Where nothing was held back it means lending.
//!   Where something was, it must last [`SETTLE`] without a break first, because editors unlink and create, or
//!   truncate and write, and a half-written file often reads well.
//! * A file that is broken (not text, not TOML, an unknown word, a wrong type, too big, not a regular file, not
//!   readable) holds the node back: the stronger of `graceful` and the last good value, which is kept on disk.
//!   A misspelled `drain`, or one inside a table, is broken too. Other unknown keys are a warning.
//!
//! Beside it stand the node's own reasons not to lend ([`Reasons`], a set): `disk`, `quarantine`, `stuck`. The
//! strongest holds, and clearing one never clears another.
//!
//! [`file`] is pure, and so is [`judge`]; [`watch`] reads on a thread of its own, so that a hanging file system
//! delays no heartbeat. [`writer`] is what `enode drain` uses. `panel_token` stays in [`file`].

mod disk;
pub mod file;
mod judge;
mod memory;
pub mod quarantine;
mod reasons;
#[cfg(test)]
mod tests;
mod watch;
pub mod writer;
#[cfg(test)]
mod writer_tests;

pub use judge::SETTLE;
pub use reasons::{Held, Reasons, Source, Standing};
pub use watch::PolicyFile;

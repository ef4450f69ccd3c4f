//! What this machine is and has, as attributes of its capabilities.
//!
//! Probing (reads the system) and judging (pure) are apart. Nothing is executed: a tool counts as present when
//! it is found on `PATH`.

mod facts;
mod probe;

pub use facts::Facts;
pub use probe::{hostname, is_there, probe};

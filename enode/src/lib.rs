//! The agent of one machine: advertises its nodes, obeys the owner's policy file, executes steps.
//!
//! It only makes outbound calls. `app` wires everything together; `heartbeat` runs on a thread of its own and
//! is never delayed by work.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod descriptors;
pub mod detect;
pub mod files;
pub mod heartbeat;
pub mod identity;
pub mod local;
pub mod mediators;
pub mod panel;
pub mod policy;
mod said;
pub mod session;
pub mod spool;
pub mod state;
pub mod tickets;
mod watch;
pub mod work;

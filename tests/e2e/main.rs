//! End to end, over the real binaries, on both engines.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod access;
mod bad_input;
mod drain;
mod gate;
mod observe;
mod restart;
mod wakes;
mod work;

//! End to end, over the real binaries, on both engines.

mod access;
mod bad_input;
mod drain;
mod gate;
mod observe;
mod restart;
mod wakes;
mod work;

//! The fleet's rules, through the commands that the mediator applies, with every invariant held after each.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cases;
mod drain;
mod fencing;
mod forks;
mod golden;
mod matching;
mod property;
mod states;
mod unacquired;
mod wakes;
mod world;

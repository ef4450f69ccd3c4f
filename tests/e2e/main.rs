//! End to end, over the real binaries, on both engines.

mod access;
mod bad_input;
mod clocks;
mod closing;
mod drain;
mod first_steps;
mod gate;
mod lost;
mod observe;
mod planned_stop;
mod races;
mod ready;
mod restart;
mod scale;
mod several;
mod storage;
mod wakes;
mod work;

//! End to end, over the real binaries, on both engines.

mod access;
mod backup;
mod bad_input;
mod clocks;
mod closing;
mod drain;
mod fail_points;
mod failover;
mod faults;
mod first_steps;
mod gate;
mod gc;
mod lost;
mod observe;
mod planned_stop;
mod races;
mod ready;
mod reasons;
mod restart;
mod scale;
mod several;
mod storage;
mod strays;
mod upgrade;
mod wakes;
mod work;

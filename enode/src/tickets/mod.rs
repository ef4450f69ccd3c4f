//! Workers of a ticket queue: a flat folder of Markdown files, shared with people, their editors and other workers.
//!
//! The rules are in `shared::ticket`; here are the files and the mediator. `folder` reads, `moves` has the few calls
//! that change a name, `write` the one that changes a text, `queue_lock` the one critical section of all workers, `begun` the
//! note of what is half done in it. On these stand `claim`, `back` (a ticket goes back to the line, as it is or as a
//! question), `finish`, `new` and `repair`, which ends what a killed process had begun. `runs` says what a worker wants of a
//! mediator, `client` asks it over gRPC, `template` makes the contract; `reap`, `ask`, `settle`, `hand_on`,
//! `look`, `aside`, `take_up`, `follow`, `let_go` and `worker` put all of it together.
//!
//! Lock order: the queue's lock is taken first, and nothing is awaited while it is held. Whatever changes a name holds it. Between
//! two names of ours a kernel call decides, so that it also holds against programs that know no lock.
//!
//! `view` lays a queue out as data, in one order for the command line and the pages; `check` says what is wrong in one, `slips` what was
//! meant by names that are nothing.
//!
//! Must not know: pages, commands, how anything looks.

pub mod absent;
mod aside;
pub mod ask;
pub mod back;
mod begun;
pub mod check;
pub mod claim;
pub mod client;
mod fail;
#[cfg(test)]
mod fake_tests;
mod file_work;
pub mod finish;
pub mod folder;
mod follow;
mod hand_on;
mod hidden;
mod let_go;
mod links;
mod look;
mod moves;
pub mod new;
mod queue_lock;
pub mod reap;
mod repair;
pub mod runs;
pub mod save;
mod settle;
mod slips;
mod take_up;
pub mod template;
pub mod unassign;
pub mod view;
pub mod worker;
mod write;

pub use folder::Folder;

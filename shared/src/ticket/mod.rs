//! The ticket queue's rules: what a file's name and text say, in which order tickets are worked, what holds one back.
//!
//! A queue is a flat folder of Markdown files that people and programs edit with whatever they like. Everything here
//! is a function of names, bytes and times that somebody else has read; nothing here knows a folder.
//!
//! `name` reads stem and lane from a file name, `file` reads and edits frontmatter byte for byte, `edit` writes what
//! programs write, `data` makes plain data of a file, `queue` resolves which file speaks for a stem, `order` is the one
//! order of the line with what holds each ticket in it, `state` has the words a person filters by, `warning` what is
//! odd about one, `question` the sections in which tickets and people talk, `options` the choices that a question offers.

mod data;
pub mod edit;
mod fence;
pub mod file;
pub mod key;
pub mod name;
pub mod options;
pub mod order;
pub mod question;
pub mod queue;
pub mod state;
mod warning;

pub use data::{Priority, Ticket, shown_ns};
pub use file::{Document, NoTicket};
pub use name::{BadStem, Lane, Stem, Suffixes};
pub use order::{Entry, Hold, line};
pub use queue::{Queue, Unread};
pub use state::{Choice, Status};
pub use warning::Warning;

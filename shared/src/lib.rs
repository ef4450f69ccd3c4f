//! What mediator and agent agree on, free of IO: ids, time, the contract language, the fleet's rules and the ticket
//! queue's.
//!
//! Everything here is a total function of its arguments. The present time and fresh random ids come in as
//! arguments; files, sockets, databases, clocks and random numbers are somebody else's.

pub mod contract;
pub mod domain;
mod hex;
mod ids;
mod spelling;
pub mod ticket;
mod time;

pub use hex::{hex, sha256_hex};
pub use ids::{BadId, InstanceId, NodeId, Nonce, Principal, RoleName, RunId, Seq, StepName, StreamId, WorkId};
pub use spelling::distance;
pub use time::{BadDuration, Duration, Timestamp};

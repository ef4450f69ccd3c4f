//! Talking with the mediator on behalf of the nodes.
//!
//! * [`core`]: what a message means for a node; pure.
//! * [`node`]: one node as all parts of the agent share it.
//! * [`stream`]: the work stream; [`upload`]: calls in a node's name and bulk data.
//! * [`outbox`]: results that wait; [`delivery`]: sends them.
//! * [`link`]: connections, [`mediators`]: those of commands and workers; [`retry`]: what a failure means; [`wire`]: messages.
//!
//! The heartbeat is not here: it has a thread and a link of its own, so that nothing here can delay it.

pub mod core;
pub mod delivery;
pub mod link;
pub mod node;
pub mod outbox;
pub mod patience;
pub mod retry;
pub mod stream;
pub mod upload;
pub mod wire;

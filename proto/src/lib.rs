//! Generated code of the wire protocol `fleet.v1`, and how its messages are put into bytes and JSON.
//!
//! The messages are described in `fleet/v1/fleet.proto`. Generated types stop at the edge: inside the
//! programs the types of `shared` are used.

pub mod codec;
mod json;

/// Package `fleet.v1`.
pub mod v1 {
    #![allow(clippy::all, reason = "generated code")]
    tonic::include_proto!("fleet.v1");
}

/// The encoded file descriptor set, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fleet.v1.bin"));

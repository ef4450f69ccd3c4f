//! The mediator: matches Runs to nodes, leases the nodes, sequences the steps, judges and records.
//!
//! It never executes work and never drains a node. `app` wires everything together and is the only place that
//! spawns what lasts; `service` holds one use case a file; `writer` is the one way to change what the fleet rests on;
//! `store` knows SQL and nothing else does.

pub mod app;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod error;
mod fail;
mod file;
pub mod grpc;
pub mod http;
mod json;
pub mod metrics;
pub mod record;
pub mod schema;
pub mod service;
pub mod state;
pub mod store;
pub mod task;
pub mod tls;
pub mod writer;

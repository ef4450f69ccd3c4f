//! Support for end-to-end tests: real binaries, real processes, a real database, through the command line that
//! people use.
//!
//! Tests wait on predicates with a limit ([`wait`]), never for a time.

pub mod agent;
pub mod client;
pub mod clock;
pub mod leftovers;
pub mod mediator;
pub mod postgres;
pub mod proxy;
pub mod queue;
pub mod sqlite;
pub mod wait;

pub use agent::{Agent, AgentOptions};
pub use client::Client;
pub use mediator::{Engine, Mediator, Ran};
pub use proxy::{Flow, Proxy, Which};
pub use queue::Queue;
pub use wait::{LIMIT, wait_for, wait_until};

/// Expands each test to one on SQLite and one on PostgreSQL.
#[macro_export]
macro_rules! on_both_engines {
    ($($(#[$meta:meta])* fn $name:ident($engine:ident: $type:ty) $body:block)*) => {$(
        mod $name {
            use super::*;

            fn case($engine: $type) $body

            $(#[$meta])*
            #[test]
            fn sqlite() {
                case($crate::Engine::Sqlite);
            }

            $(#[$meta])*
            #[test]
            fn postgres() {
                case($crate::Engine::Postgres);
            }
        }
    )*};
}

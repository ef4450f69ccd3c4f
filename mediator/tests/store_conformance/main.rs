//! One conformance list for both engines: each case is a test on SQLite and a test on PostgreSQL, each on a
//! fresh database.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

/// Each case becomes `sqlite::CASE` and `postgres::CASE` in the module that lists it.
macro_rules! on_both_engines {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test] async fn $case() { super::$case(crate::support::Bed::sqlite().await).await; })+
        }
        mod postgres {
            $(#[tokio::test] async fn $case() { super::$case(crate::support::Bed::postgres().await).await; })+
        }
    };
}

mod bad_rows;
mod counts;
mod fences;
mod files;
mod migrations;
mod model;
mod outages;
mod paging;
mod round_trips;
mod statements;
mod support;
mod transactions;
mod world;

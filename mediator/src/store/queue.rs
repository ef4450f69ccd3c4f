//! The line of waiting Runs, as the store knows it.
//!
//! A queued row carries the hash of what it requires. The requirements themselves are read from the contract of
//! one Run per hash that is not known yet, so that loading a long line costs little more than its ids.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use shared::{
    RunId, Timestamp,
    contract::Require,
    domain::{Fleet, Place, Shape},
};

use super::{
    conn::Conn,
    error::StoreError,
    quarantine,
    row::{Bad, Row},
    run,
    sql::{Query, Value, listed},
};

/// The index of open Runs is partial; the condition is repeated so that both engines see that it applies.
pub(super) const ALL: Query = Query::both(
    "queue.all",
    "SELECT run_id, state, place, shape, created_at FROM runs WHERE state IN ('QUEUED', 'RUNNING') AND state = 'QUEUED' \
     ORDER BY place",
);
/// Runs that changed, in whatever state: those that wait no longer must leave the line.
pub(super) const SINCE: Query = Query::both(
    "queue.since",
    "SELECT run_id, state, place, shape, created_at FROM runs WHERE rev > $1 ORDER BY place",
);
const CONTRACTS: Query = listed!("queue.contracts", "SELECT run_id, shape, contract FROM runs WHERE run_id", "");

/// How many Runs of one shape are tried in a turn, once the first could not be read.
const TRIES: usize = 16;

/// A waiting Run whose requirements are not known yet.
pub(super) struct Waiting {
    pub(super) run: RunId,
    pub(super) place: Place,
    pub(super) queued: bool,
    pub(super) shape: Arc<str>,
    pub(super) since: Timestamp,
}

pub(super) fn read(row: &Row) -> Result<Waiting, StoreError> {
    let decode = || -> Result<Waiting, Bad> {
        Ok(Waiting {
            run: row.parse("run_id")?,
            place: Place::of_run(row.int("place")?),
            queued: row.text("state")? == "QUEUED",
            shape: row.text("shape")?.into(),
            since: row.at("created_at")?,
        })
    };
    decode().map_err(|bad| bad.of("runs", run::key(row)))
}

/// Waiting Runs by shape, oldest first.
#[derive(Default)]
pub(super) struct Unknown(BTreeMap<Arc<str>, Vec<(Place, RunId, Timestamp)>>);

impl Unknown {
    /// Puts a waiting Run in line, or sets it aside until its requirements have been read.
    pub(super) fn add(&mut self, fleet: &mut Fleet, waiting: Waiting) {
        match fleet.queue.shape(&waiting.shape) {
            Some(shape) => fleet.queue.insert(waiting.place, waiting.run, shape, waiting.since),
            None => self.0.entry(waiting.shape).or_default().push((waiting.place, waiting.run, waiting.since)),
        }
    }

    /// Reads the requirements of those set aside and puts them in line. Runs whose requirements cannot be read
    /// stay out of it, and in nobody's way.
    pub(super) async fn resolve(mut self, conn: &mut Conn, fleet: &mut Fleet) -> Result<(), StoreError> {
        let mut most = 1;
        while !self.0.is_empty() {
            let tried = self.0.values().flat_map(|line| line.iter().take(most)).map(|(_, run, _)| run.to_string());
            let list = [Value::Texts(tried.collect())];
            let mut known: BTreeMap<Arc<str>, Shape> = BTreeMap::new();
            conn.each(&CONTRACTS, &list, |row| match shape(&row) {
                Ok(shape) => drop(known.insert(shape.hash.clone(), shape)),
                Err(bad) => quarantine(&bad.of("runs", run::key(&row))),
            })
            .await?;
            self.0.retain(|hash, line| {
                let Some(shape) = known.get(hash) else {
                    line.drain(..most.min(line.len()));
                    return !line.is_empty();
                };
                for (place, run, since) in line.drain(..) {
                    fleet.queue.insert(place, run, shape.clone(), since);
                }
                false
            });
            most = TRIES;
        }
        Ok(())
    }
}

/// The requirements of a contract, and nothing else of it.
#[derive(Deserialize)]
struct Requires {
    requires: Vec<Require>,
}

fn shape(row: &Row) -> Result<Shape, Bad> {
    let contract: Requires = row.json("contract")?;
    let shape = Shape::new(&contract.requires);
    if *shape.hash == *row.text("shape")? {
        Ok(shape)
    } else {
        Err(Bad::new("shape", "is not the hash of what the contract requires"))
    }
}

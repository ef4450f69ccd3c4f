//! Reading: one snapshot of everything, with the store's clock in it.

use std::collections::{BTreeMap, BTreeSet};

use shared::{
    RunId, Timestamp,
    contract::Contract,
    domain::{Fleet, Lease, Node, Run},
};

use super::{
    Store,
    artifact::{self, ArtifactRow},
    ask::{self, AnswerRow, AskRow},
    conn::Conn,
    count::{self, Counts},
    error::StoreError,
    event::{self, EventRow},
    lease, list, load, node,
    sql::{Query, Value},
    sync::{self, keep},
};

const READ_NOW: Query = Query::each(
    "read.now",
    // The first statement takes the snapshot. PostgreSQL's clock is the authority there.
    "SELECT rev AS now FROM fleet WHERE one = 1",
    "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT) AS now FROM fleet WHERE one = 1",
);

/// A read-only transaction: all its answers are of one moment.
#[derive(Debug)]
pub struct ReadTx {
    pub(super) tx: Conn,
    now: Timestamp,
}

/// A Run with everything that its Record is made of.
#[derive(Debug)]
pub struct WholeRun {
    /// With its steps and attempts.
    pub run: Run,
    /// The files that its steps left, by step, attempt and name.
    pub artifacts: Vec<ArtifactRow>,
    /// Who answered its questions.
    pub answers: Vec<AnswerRow>,
}

const RESERVATION: Query = Query::both("read.reservation", "SELECT reservation FROM fleet WHERE one = 1");
const CONTRACT: Query = Query::both("read.contract", "SELECT contract FROM runs WHERE run_id = $1");

impl ReadTx {
    pub(super) async fn begin(store: &Store) -> Result<Self, StoreError> {
        let mut tx = store.engine.begin_read().await?;
        let row = tx.one(&READ_NOW, &[]).await?;
        let now = match (&tx, row) {
            (Conn::Postgres(_), Some(row)) => row.at("now").map_err(|bad| bad.of("fleet", 1))?,
            (Conn::Postgres(_) | Conn::Sqlite(_), _) => store.clock.now(),
        };
        Ok(Self { tx, now })
    }

    /// The store's clock in this snapshot.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Every node, by id.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn nodes(&mut self) -> Result<Vec<Node>, StoreError> {
        let mut nodes = Vec::new();
        self.tx
            .each(&node::ALL, &[], |row| {
                keep(node::read(&row), |node| nodes.push(node));
            })
            .await?;
        Ok(nodes)
    }

    /// Every lease, by node.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn leases(&mut self) -> Result<Vec<Lease>, StoreError> {
        let mut leases = Vec::new();
        self.tx
            .each(&lease::ALL, &[], |row| {
                keep(lease::read(&row), |lease| leases.push(lease));
            })
            .await?;
        Ok(leases)
    }

    /// A Run with its steps and attempts, and when its Record was sealed.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it exists and cannot be read.
    pub async fn run(&mut self, id: &RunId) -> Result<Option<(Run, Option<Timestamp>)>, StoreError> {
        let mut found = load::runs(&mut self.tx, &BTreeSet::from([id.clone()])).await?;
        match found.bad.remove(id) {
            Some(error) => Err(error),
            None => Ok(found.runs.remove(id)),
        }
    }

    /// Several Runs with their steps, attempts and files, in as many statements as one. Those that exist and cannot be
    /// read say why.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn whole_runs(
        &mut self,
        ids: &BTreeSet<RunId>,
    ) -> Result<BTreeMap<RunId, Result<WholeRun, StoreError>>, StoreError> {
        let found = load::runs(&mut self.tx, ids).await?;
        let whole = |(id, (run, _))| (id, Ok(WholeRun { run, artifacts: Vec::new(), answers: Vec::new() }));
        let bad = found.bad.into_iter().map(|(id, error)| (id, Err(error)));
        let mut runs: BTreeMap<_, _> = found.runs.into_iter().map(whole).chain(bad).collect();
        let list = [Value::Texts(ids.iter().map(ToString::to_string).collect())];
        self.tx
            .each(&artifact::OF_RUNS, &list, |row| {
                let Ok(id) = row.parse::<RunId>("run_id") else { return };
                let Some(Ok(whole)) = runs.get_mut(&id) else { return };
                keep(artifact::read(&row, &id), |artifact| whole.artifacts.push(artifact));
            })
            .await?;
        for answer in self.answers(ids).await? {
            if let Some(Ok(whole)) = runs.get_mut(&answer.run) {
                whole.answers.push(answer);
            }
        }
        Ok(runs)
    }

    /// Who answered the questions of these Runs, by Run, step and attempt.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn answers(&mut self, ids: &BTreeSet<RunId>) -> Result<Vec<AnswerRow>, StoreError> {
        let mut answers = Vec::new();
        let list = [Value::Texts(ids.iter().map(ToString::to_string).collect())];
        self.tx
            .each(&ask::ANSWERS_OF_RUNS, &list, |row| keep(ask::read_answer(&row), |answer| answers.push(answer)))
            .await?;
        Ok(answers)
    }

    /// The contract of a Run, without the Run.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it cannot be read.
    pub async fn contract(&mut self, id: &RunId) -> Result<Option<Contract>, StoreError> {
        let row = self.tx.one(&CONTRACT, &[Value::show(id)]).await?;
        row.map(|row| row.json("contract").map_err(|bad| bad.of("runs", id))).transpose()
    }

    /// A page of Runs, newest first, ties by id.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn runs(&mut self, filter: &list::RunFilter) -> Result<Vec<list::RunRow>, StoreError> {
        list::page(&mut self.tx, filter).await
    }

    /// Nodes, leases and the line, without any loaded Run.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn fleet(&mut self) -> Result<Fleet, StoreError> {
        let mut fleet = Fleet::default();
        sync::load_all(&mut self.tx, &mut fleet).await?;
        self.load_reservation(&mut fleet).await?;
        Ok(fleet)
    }

    /// Nodes and leases alone: what a submission would be matched against, however long the line is.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn fleet_without_line(&mut self) -> Result<Fleet, StoreError> {
        let mut fleet = Fleet::default();
        sync::load_nodes(&mut self.tx, &mut fleet).await?;
        self.load_reservation(&mut fleet).await?;
        Ok(fleet)
    }

    async fn load_reservation(&mut self, fleet: &mut Fleet) -> Result<(), StoreError> {
        if let Some(row) = self.tx.one(&RESERVATION, &[]).await? {
            fleet.reservation = row.maybe_json("reservation").map_err(|bad| bad.of("fleet", 1))?;
        }
        Ok(())
    }

    /// Every open question, oldest first.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn asks(&mut self) -> Result<Vec<AskRow>, StoreError> {
        let mut asks = Vec::new();
        self.tx.each(&ask::OPEN_ASKS, &[], |row| keep(ask::read(&row), |ask| asks.push(ask))).await?;
        Ok(asks)
    }

    /// How many there are of what.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn counts(&mut self) -> Result<Counts, StoreError> {
        count::count(&mut self.tx, self.now).await
    }

    /// Events with a higher number, in order, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn events(&mut self, after: i64, limit: u32) -> Result<Vec<EventRow>, StoreError> {
        let mut events = Vec::new();
        self.tx
            .each(&event::AFTER, &[Value::int(after), Value::int(limit)], |row| {
                keep(event::read(&row), |event| events.push(event));
            })
            .await?;
        Ok(events)
    }

    /// The number of the last event; 0 when there is none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn last_event(&mut self) -> Result<i64, StoreError> {
        let row = self.tx.one(&event::LAST, &[]).await?;
        row.map_or(Ok(0), |row| row.int("seq").map_err(|bad| bad.of("events", "last")))
    }

    /// The files that the steps of a Run left, by step, attempt and name.
    ///
    /// # Errors
    /// [`StoreError`]; a row that cannot be read is left out and counted.
    pub async fn artifacts(&mut self, run: &RunId) -> Result<Vec<ArtifactRow>, StoreError> {
        let mut artifacts = Vec::new();
        self.tx
            .each(&artifact::OF_RUN, &[Value::show(run)], |row| {
                keep(artifact::read(&row, run), |artifact| artifacts.push(artifact));
            })
            .await?;
        Ok(artifacts)
    }
}

//! The one way to change what the fleet rests on.
//!
//! Lock first, then the clock, then [`FleetTx::sync`] and [`FleetTx::load_runs`], then commands in memory, then
//! one [`FleetTx::write`] of every row they changed, then [`FleetTx::commit`]. Dropped before the commit it
//! leaves nothing; the fleet in memory is then ahead of the store and must be thrown away
//! (`*fleet = Fleet::default()`), which the next `sync` reads anew.

use std::collections::{BTreeMap, BTreeSet};

use shared::{
    NodeId, RunId, Timestamp,
    domain::{Changes, Fleet, RunState, Touches},
};

use super::{
    Store, artifact, ask,
    batch::Rows,
    conn::Conn,
    error::StoreError,
    event, lease, load, node, notice,
    row::Bad,
    run,
    sql::{Query, Value},
    step,
    sync::{self, FleetRow, Times},
};

const READ_FLEET: Query = Query::each(
    "fleet.read",
    // On SQLite the mediator's clock is the authority, on PostgreSQL the database's, read after the lock.
    "SELECT rev, forgotten_rev, next_place, reaped_at, reservation, (SELECT coalesce(max(seq), 0) FROM events) AS last_event, \
     CAST(0 AS INTEGER) AS now FROM fleet WHERE one = 1",
    "SELECT rev, forgotten_rev, next_place, reaped_at, reservation, (SELECT coalesce(max(seq), 0) FROM events) AS last_event, \
     CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT) AS now FROM fleet WHERE one = 1",
);
const WRITE_FLEET: Query = Query::each(
    "fleet.write",
    // $5 is what the other mediators are told, where there can be others. It is sent by the commit, or not at all.
    "UPDATE fleet SET rev = $1, next_place = $2, reaped_at = $3, reservation = $4 WHERE one = 1 AND $5 IS NOT NULL",
    "UPDATE fleet SET rev = $1, next_place = $2, reaped_at = $3, reservation = $4 WHERE one = 1 \
     RETURNING CASE WHEN $5::TEXT = '' THEN '' ELSE pg_notify('mediator', $5::TEXT)::TEXT END",
);

const COMMIT: Query = Query::both("fleet.commit", "COMMIT");

/// A transaction that holds the fleet's lock.
#[derive(Debug)]
#[must_use = "a transaction that is dropped leaves nothing"]
pub struct FleetTx {
    pub(super) store: Store,
    pub(super) tx: Conn,
    now: Timestamp,
    row: FleetRow,
}

impl FleetTx {
    pub(super) async fn begin(store: &Store) -> Result<Self, StoreError> {
        let mut tx = store.engine.begin_fleet().await?;
        let row = tx.one(&READ_FLEET, &[]).await?;
        let row = row.ok_or_else(|| Bad::new("one", "the row is missing").of("fleet", 1))?;
        let bad = |bad: Bad| bad.of("fleet", 1);
        let now = match tx {
            Conn::Sqlite(_) => store.clock.now(),
            Conn::Postgres(_) => row.at("now").map_err(bad)?,
        };
        let row = FleetRow {
            rev: row.int("rev").map_err(bad)?,
            forgotten_rev: row.int("forgotten_rev").map_err(bad)?,
            next_place: row.int("next_place").map_err(bad)?,
            reaped_at: row.maybe_at("reaped_at").map_err(bad)?,
            reservation: row.maybe_json("reservation").map_err(bad)?,
            last_event: row.int("last_event").map_err(bad)?,
        };
        Ok(Self { store: store.clone(), tx, now, row })
    }

    /// The store's clock, read under the lock.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Brings the fleet to what the database says. An empty fleet is loaded whole (nodes, leases, the line).
    ///
    /// # Errors
    /// [`StoreError`]; the fleet is then to be thrown away.
    pub async fn sync(&mut self, fleet: &mut Fleet) -> Result<(), StoreError> {
        let times = Times { now: self.now, synced_at: self.store.synced_at(self.now) };
        sync::sync(&mut self.tx, &self.row, times, fleet).await
    }

    /// Brings these nodes to what they said last: a plain renewal by another mediator raises no rev.
    ///
    /// # Errors
    /// [`StoreError`]; the fleet is then to be thrown away.
    pub async fn catch_up(&mut self, fleet: &mut Fleet, nodes: BTreeSet<&NodeId>) -> Result<(), StoreError> {
        let known: Vec<NodeId> = nodes.into_iter().filter(|id| fleet.node(id).is_some()).cloned().collect();
        sync::catch_up(&mut self.tx, &known, fleet).await
    }

    /// Loads those of the named Runs that are not in memory, whatever state they are in. `changes` is what has
    /// been decided in this transaction and not been written: a Run that was promoted without being loaded is
    /// loaded as it now stands.
    ///
    /// Returns the Runs that exist and cannot be read: a command about one of them must be refused.
    ///
    /// # Errors
    /// [`StoreError`]; the fleet is unchanged then.
    pub async fn load_runs(
        &mut self,
        fleet: &mut Fleet,
        touches: &Touches,
        changes: &Changes,
    ) -> Result<BTreeMap<RunId, StoreError>, StoreError> {
        let missing: BTreeSet<RunId> = touches.iter().filter(|id| !fleet.runs.contains_key(*id)).cloned().collect();
        let found = load::runs(&mut self.tx, &missing).await?;
        for (id, (mut run, _)) in found.runs {
            if let Some((assigned, _)) = changes.promoted_unloaded.get(&id) {
                run.state = RunState::Running;
                run.assigned.clone_from(assigned);
            }
            fleet.load_run(run);
        }
        Ok(found.bad)
    }

    /// Writes every row that `changes` names, once, as it stands in the fleet. The number of statements does
    /// not depend on the number of rows.
    ///
    /// # Errors
    /// [`StoreError`]; nothing of the transaction can be committed then.
    pub async fn write(&mut self, fleet: &Fleet, changes: &Changes) -> Result<(), StoreError> {
        // Nodes before leases, like everybody who locks both.
        self.write_nodes(fleet, changes).await?;
        self.write_runs(fleet, changes).await?;
        let (held, gone) = lease::split(fleet, &changes.leases)?;
        self.put(&held).await?;
        self.put(&gone).await?;
        let events = event::rows(&changes.events, self.row.last_event, self.now)?;
        self.put(&events).await?;
        self.row.last_event += i64::try_from(events.len()).unwrap_or(0);
        // What is to be claimed is told even where nothing changed: the node's stream may be open elsewhere.
        if changes.fleet || changes.reaped || !changes.work.is_empty() {
            let told = notice::payload(&self.store.origin, changes, self.row.last_event);
            let reservation = Value::Text(fleet.reservation.as_ref().map(|it| serde_json::json!(it).to_string()));
            let (rev, place) = (Value::int(fleet.rev), Value::int(fleet.next_place));
            let row = [rev, place, Value::maybe_at(fleet.reaped_at), reservation, Value::text(told)];
            self.tx.execute(&WRITE_FLEET, &row).await?;
        }
        Ok(())
    }

    async fn write_nodes(&mut self, fleet: &Fleet, changes: &Changes) -> Result<(), StoreError> {
        let mut rows = Rows::new(&node::UPSERT);
        for node in changes.nodes.iter().filter_map(|id| fleet.node(id)) {
            node::upsert(&mut rows, node)?;
        }
        self.put(&rows).await?;
        let mut rows = Rows::new(&node::TOUCH);
        for node in changes.touched.difference(&changes.nodes).filter_map(|id| fleet.node(id)) {
            node::touch(&mut rows, node)?;
        }
        self.put_all(&rows).await?;
        let mut rows = Rows::new(&node::RENEW);
        for node in changes.renewed.difference(&changes.nodes).filter_map(|id| fleet.node(id)) {
            node::renew(&mut rows, node)?;
        }
        self.put_all(&rows).await
    }

    async fn write_runs(&mut self, fleet: &Fleet, changes: &Changes) -> Result<(), StoreError> {
        let mut promoted = Rows::new(&run::PROMOTE);
        for (id, (assigned, rev)) in &changes.promoted_unloaded {
            run::promote(&mut promoted, id, assigned, *rev)?;
        }
        self.put_all(&promoted).await?;

        let (mut new, mut old) = (Rows::new(&run::INSERT), Rows::new(&run::UPDATE));
        let (mut steps, mut attempts) = (Rows::new(&step::UPSERT), Rows::new(&step::UPSERT_ATTEMPTS));
        for run in changes.new_runs.iter().filter_map(|id| fleet.runs.get(id)) {
            run::insert(&mut new, run, fleet.rev)?;
            for step in &run.steps {
                step::upsert(&mut steps, run, step)?;
            }
        }
        // Whoever caches a Run goes by its rev, so a changed step or attempt raises it, too.
        let parts = changes.steps.iter().map(|(run, _)| run).chain(changes.attempts.iter().map(|(run, _, _)| run));
        let changed: BTreeSet<&RunId> = changes.runs.iter().chain(parts).collect();
        let is_old = |id: &RunId| !changes.new_runs.contains(id);
        for run in changed.into_iter().filter(|id| is_old(id)).filter_map(|id| fleet.runs.get(id)) {
            run::update(&mut old, run, fleet.rev)?;
        }
        for (id, seq) in changes.steps.iter().filter(|(id, _)| is_old(id)) {
            if let Some((run, step)) = fleet.runs.get(id).and_then(|run| Some((run, run.step(*seq)?))) {
                step::upsert(&mut steps, run, step)?;
            }
        }
        for (id, seq, number) in &changes.attempts {
            let step = fleet.runs.get(id).and_then(|run| run.step(*seq));
            if let Some(attempt) = step.and_then(|step| step.attempt(*number)) {
                step::upsert_attempt(&mut attempts, id, *seq, attempt)?;
            }
        }
        self.put(&new).await?;
        self.put_all(&old).await?;
        self.put(&steps).await?;
        self.put(&attempts).await?;
        self.write_answers(fleet, changes).await
    }

    /// Questions, and the files that answers to them are.
    async fn write_answers(&mut self, fleet: &Fleet, changes: &Changes) -> Result<(), StoreError> {
        let asks = ask::Batches::new(fleet, &changes.asks, self.now)?;
        self.put(&asks.opened).await?;
        self.put_all(&asks.answered).await?;
        self.put_all(&asks.withdrawn).await?;
        let mut files = Rows::new(&artifact::UPSERT);
        for file in &changes.artifacts {
            artifact::upsert(&mut files, file)?;
        }
        self.put(&files).await
    }

    async fn put(&mut self, rows: &Rows) -> Result<(), StoreError> {
        self.tx.write(rows).await.map(drop)
    }

    /// Every row must be there: one that is not means that memory and store are apart.
    async fn put_all(&mut self, rows: &Rows) -> Result<(), StoreError> {
        let changed = self.tx.write(rows).await?;
        if usize::try_from(changed) == Ok(rows.len()) {
            return Ok(());
        }
        Err(StoreError::Corrupt {
            table: rows.write.table,
            key: rows.keys(),
            column: "",
            why: format!(
                "{} changed {changed} rows of {}; the others are not as expected",
                rows.write.name,
                rows.len()
            ),
        })
    }

    /// Makes it last. Returns the number of the last event there is.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] can also mean that it is not known whether it lasted.
    pub async fn commit(self) -> Result<i64, StoreError> {
        self.tx.commit(&COMMIT).await?;
        self.store.note_synced(self.now);
        Ok(self.row.last_event)
    }
}

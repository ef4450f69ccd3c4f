//! Whole Runs: the row, its steps and their attempts, in three statements however many Runs are asked for.

use std::collections::{BTreeMap, BTreeSet};

use shared::{RunId, Timestamp, domain::Run};

use super::{
    conn::Conn,
    error::StoreError,
    quarantine,
    row::Row,
    run,
    sql::{Query, Value},
    step,
};

/// What was found of the Runs that were asked for.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Each with the moment its Record was sealed.
    pub(super) runs: BTreeMap<RunId, (Run, Option<Timestamp>)>,
    /// Those that exist and cannot be read, with the first thing that is wrong with each.
    pub(super) bad: BTreeMap<RunId, StoreError>,
}

/// Reads the named Runs.
pub(super) async fn runs(conn: &mut Conn, ids: &BTreeSet<RunId>) -> Result<Found, StoreError> {
    let mut found = Found::default();
    if ids.is_empty() {
        return Ok(found);
    }
    let list = [Value::Texts(ids.iter().map(ToString::to_string).collect())];
    conn.each(&run::LOAD, &list, |row| match run::read(&row) {
        Ok((run, sealed_at)) => {
            found.runs.insert(run.id.clone(), (run, sealed_at));
        }
        Err(error) => found.fail(&row, error),
    })
    .await?;
    found
        .part(conn, &step::LOAD, &list, |run, row| {
            let step = step::read(row)?;
            if step.seq as usize == run.steps.len() {
                run.steps.push(step);
            }
            Ok(())
        })
        .await?;
    found
        .part(conn, &step::LOAD_ATTEMPTS, &list, |run, row| {
            let (seq, attempt) = step::read_attempt(row)?;
            if let Some(step) = run.steps.get_mut(seq as usize) {
                step.attempts.push(attempt);
            }
            Ok(())
        })
        .await?;
    found.check_steps();
    for error in found.bad.values() {
        quarantine(error);
    }
    Ok(found)
}

impl Found {
    /// Reads rows that belong to the Runs found.
    async fn part(
        &mut self,
        conn: &mut Conn,
        query: &Query,
        list: &[Value],
        add: fn(&mut Run, &Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.runs.is_empty() {
            return Ok(());
        }
        conn.each(query, list, |row| {
            let run = row.text("run_id").ok().and_then(|id| self.runs.get_mut(id));
            if let Some(Err(error)) = run.map(|(run, _)| add(run, &row)) {
                self.fail(&row, error);
            }
        })
        .await
    }

    fn fail(&mut self, row: &Row, error: StoreError) {
        if let Ok(id) = row.parse::<RunId>("run_id") {
            self.runs.remove(&id);
            self.bad.entry(id).or_insert(error);
        } else {
            quarantine(&error);
        }
    }

    /// A Run has exactly the steps of its contract, without a gap.
    fn check_steps(&mut self) {
        let short: Vec<RunId> = self
            .runs
            .values()
            .filter(|(run, _)| run.steps.len() != run.contract.steps.len())
            .map(|(run, _)| run.id.clone())
            .collect();
        for id in short {
            if let Some((run, _)) = self.runs.remove(&id) {
                let why = format!("the contract has {} steps, the table {}", run.contract.steps.len(), run.steps.len());
                let error = StoreError::Corrupt { table: "steps", key: id.to_string(), column: "seq", why };
                self.bad.insert(id, error);
            }
        }
    }
}

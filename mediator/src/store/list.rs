//! Pages of Runs, newest first, ties by id.
//!
//! The order mixes directions (`created_at` falls, `run_id` rises), so a page after a given row is read in two
//! ranges of one index: the rest of that row's millisecond, then what is older. Together they read no more rows
//! than the page has.

use shared::{
    NodeId, RunId, StepName, Timestamp, WorkId,
    domain::{Assigned, Reject, Verdict},
};

use super::{
    conn::Conn,
    error::StoreError,
    row::{Bad, Row},
    run,
    sql::{Query, Value},
    sync::keep,
};

/// Which Runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// The state's word.
    pub state: Option<String>,
    /// About exactly this.
    pub work: Option<WorkId>,
    /// Created then or later.
    pub since: Option<Timestamp>,
    /// Whose id begins with this.
    pub begins: Option<RunId>,
    /// At most this many.
    pub limit: u32,
    /// Those that follow this one in the order of the list.
    pub after: Option<(Timestamp, RunId)>,
}

/// A Run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub run_id: RunId,
    /// Its state's word.
    pub state: String,
    /// How it ended.
    pub verdict: Option<Verdict>,
    /// What it is about.
    pub work_id: Option<WorkId>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The nodes it was given.
    pub assigned: Vec<Assigned>,
    /// What runs now; a Run can be wider than one.
    pub current: Vec<CurrentStep>,
    /// Why it was not taken.
    pub reject: Option<Reject>,
}

/// A step that a node executes now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentStep {
    /// Where.
    pub node: NodeId,
    /// Its name.
    pub step: StepName,
    /// Which execution.
    pub attempt: u32,
    /// Since when.
    pub started_at: Option<Timestamp>,
}

const COLUMNS: &str = "SELECT run_id, state, verdict, work_id, created_at, ended_at, assigned, reject FROM runs";

const CURRENT: Query = Query::each(
    "runs.current",
    // Without statistics SQLite would walk all steps of these Runs; PostgreSQL has some and knows better.
    "SELECT run_id, seq, node_id, name, attempt, started_at FROM steps INDEXED BY steps_claimed_idx \
     WHERE state = 'CLAIMED' AND run_id IN (SELECT value FROM json_each($1)) ORDER BY run_id, seq",
    "SELECT run_id, seq, node_id, name, attempt, started_at FROM steps \
     WHERE state = 'CLAIMED' AND run_id = ANY($1) ORDER BY run_id, seq",
);

/// The part of the order that a statement reads.
#[derive(Clone, Copy)]
enum Range<'a> {
    Whole,
    /// The rest of the millisecond of the row before.
    Tie(Timestamp, &'a RunId),
    Older(Timestamp),
}

pub(super) async fn page(tx: &mut Conn, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
    let mut rows = Vec::new();
    // Nothing stored holds a NUL character, and PostgreSQL refuses to be asked for one.
    if filter.limit == 0 || filter.state.as_ref().is_some_and(|state| state.contains('\0')) {
        return Ok(rows);
    }
    let ranges: &[Range<'_>] = match &filter.after {
        None => &[Range::Whole],
        Some((at, id)) => &[Range::Tie(*at, id), Range::Older(*at)],
    };
    let mut left = i64::from(filter.limit);
    for range in ranges {
        if left == 0 {
            break;
        }
        let (text, values) = statement(filter, *range, left);
        tx.each_of("runs.page", sqlx::AssertSqlSafe(text), &values, |row| {
            left -= 1;
            keep(read(&row), |row| rows.push(row));
        })
        .await?;
    }
    let running: Vec<String> =
        rows.iter().filter(|row| row.ended_at.is_none()).map(|row| row.run_id.to_string()).collect();
    if !running.is_empty() {
        tx.each(&CURRENT, &[Value::Texts(running)], |row| {
            keep(current(&row), |(id, current)| {
                if let Some(row) = rows.iter_mut().find(|row| row.run_id == id) {
                    row.current.push(current);
                }
            });
        })
        .await?;
    }
    Ok(rows)
}

/// Only constants go into the text; every value is bound.
fn statement(filter: &RunFilter, range: Range<'_>, limit: i64) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let mut terms = Vec::new();
    let mut term = |text: &str, value: Value| {
        values.push(value);
        terms.push(format!("{text} ${}", values.len()));
    };
    if let Some(work) = &filter.work {
        term("work_id =", Value::show(work));
    }
    if let Some(state) = &filter.state {
        // A work has few Runs: with both given, its index is the one to use, and this keeps the other away.
        let column = if filter.work.is_some() { "state || '' =" } else { "state =" };
        term(column, Value::text(state));
    }
    if let Some(begins) = &filter.begins {
        term("run_id >=", Value::show(begins));
        // Behind every character that an id may have.
        term("run_id <", Value::text(format!("{begins}~")));
    }
    if let Some(since) = filter.since {
        term("created_at >=", Value::at(since));
    }
    match range {
        Range::Whole => {}
        Range::Tie(at, id) => {
            term("created_at =", Value::at(at));
            term("run_id >", Value::show(id));
        }
        Range::Older(at) => term("created_at <", Value::at(at)),
    }
    let filters = if terms.is_empty() { String::new() } else { format!(" WHERE {}", terms.join(" AND ")) };
    values.push(Value::int(limit));
    let text = format!("{COLUMNS}{filters} ORDER BY created_at DESC, run_id LIMIT ${}", values.len());
    (text, values)
}

fn read(row: &Row) -> Result<RunRow, StoreError> {
    let decode = || -> Result<RunRow, Bad> {
        Ok(RunRow {
            run_id: row.parse("run_id")?,
            state: row.text("state")?.to_owned(),
            verdict: run::read_verdict(row)?,
            work_id: row.maybe_parse("work_id")?,
            created_at: row.at("created_at")?,
            ended_at: row.maybe_at("ended_at")?,
            assigned: row.json("assigned")?,
            current: Vec::new(),
            reject: row.maybe_json("reject")?,
        })
    };
    decode().map_err(|bad| bad.of("runs", run::key(row)))
}

fn current(row: &Row) -> Result<(RunId, CurrentStep), StoreError> {
    let decode = || -> Result<(RunId, CurrentStep), Bad> {
        let current = CurrentStep {
            node: row.parse("node_id")?,
            step: row.parse("name")?,
            attempt: row.number("attempt")?,
            started_at: row.maybe_at("started_at")?,
        };
        Ok((row.parse("run_id")?, current))
    };
    decode().map_err(|bad| bad.of("steps", run::key(row)))
}

//! Pages of Runs where a million are stored.
//!
//! Nobody waits for a million submissions: a thousand Runs run and are sealed, then the rows of each are copied in
//! the database of the stopped mediator under other ids and earlier times. Their Records are not copied; pages do
//! not read them.

use anyhow::{Result, ensure};
use serde_json::Value;
use tests::{Engine, Mediator, sqlite::Sqlite};

use crate::{
    board::{Board, Goal, median},
    calls::{Caller, contract, mediator, runtime},
    fleet::{Fleet, Plan, Steps, capability},
    proc,
    size::Size,
};

/// How many of the stored Runs really ran.
const REAL: usize = 1_000;

/// The newest page, one from the middle, and both of one state only.
pub(crate) fn measure(board: &mut Board, size: &Size) -> Result<()> {
    let mut mediator = mediator(Engine::Sqlite, &[]);
    {
        let plan =
            Plan { agents: 4, nodes_each: 16, capability: capability("build", 8), drain: "", steps: Steps::Report };
        let _fleet = Fleet::start(&mediator, plan)?;
        let runtime = runtime()?;
        let _entered = runtime.enter();
        let caller = Caller::new(&mediator)?;
        let ids: Vec<String> = (0..REAL).map(|number| format!("stored-{number}")).collect();
        runtime.block_on(caller.runs_per_second(&ids, &contract("build", &["/bin/true"])))?;
    }
    mediator.stop();
    let middle = copy(&mediator, size.stored / REAL);
    mediator.restart();
    let stored: usize = mediator.sql("SELECT count(*) FROM runs").parse()?;
    ensure!(stored == size.stored, "{stored} Runs are stored");
    let pages = [
        ("newest", "/v1/runs?limit=100".to_owned()),
        ("from the middle", format!("/v1/runs?limit=100&after={middle}")),
        ("newest that succeeded", "/v1/runs?limit=100&state=SUCCEEDED".to_owned()),
        ("middle of what succeeded", format!("/v1/runs?limit=100&state=SUCCEEDED&after={middle}")),
    ];
    let mut slowest: Vec<f64> = Vec::new();
    for (name, path) in pages {
        let mut took = Vec::new();
        for _ in 0..size.samples.div_ceil(10) {
            let (millis, text) = proc::timed_get(&mediator, &path)?;
            let page: Value = serde_json::from_str(&text)?;
            ensure!(page["runs"].as_array().is_some_and(|runs| runs.len() == 100), "{path}: {text}");
            took.push(millis);
        }
        if slowest.is_empty() || median(&took) > median(&slowest) {
            slowest.clone_from(&took);
        }
        board.beside(format!("100 of {stored} Runs, {name}, ms"), took, Goal::None);
    }
    board.put("list_runs_1m_ms", slowest);
    Ok(())
}

/// Copies everything about every Run, so that there are `times` of each. Returns the key of a page in the middle.
fn copy(mediator: &Mediator, times: usize) -> String {
    let mut database = Sqlite::open(&mediator.database_file());
    let copies =
        format!("WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {times} - 1)");
    for table in ["runs", "steps", "attempts"] {
        let columns = database.sql(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let value = |column: &str| match column {
            "run_id" => "run_id || '-' || n".to_owned(),
            // A minute before the one that it is a copy of, and so on.
            "created_at" | "ended_at" | "sealed_at" | "started_at" | "claimed_at" => format!("{column} - n * 60000"),
            other => other.to_owned(),
        };
        let names: Vec<&str> = columns.lines().collect();
        let values: Vec<String> = names.iter().map(|it| value(it)).collect();
        database.sql(&format!(
            "{copies} INSERT INTO {table} ({}) SELECT {} FROM copies, {table}",
            names.join(", "),
            values.join(", ")
        ));
    }
    database.sql("SELECT created_at || '.' || run_id FROM runs ORDER BY created_at DESC, run_id LIMIT 1 OFFSET (SELECT count(*) / 2 FROM runs)")
}

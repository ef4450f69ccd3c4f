//! Lists: newest first, ties by id, each row once, whatever the size of the page and the filter.

use mediator::store::{CurrentStep, RunFilter, RunRow};
use shared::{
    NodeId, RunId, Timestamp, WorkId,
    domain::{Cause, Fleet, RunState, StepState, Verdict},
};

use crate::{
    round_trips::{node, run, write_all},
    support::{Bed, START},
};

on_both_engines!(pages_are_the_whole_list, filters, current_steps, a_page_uses_an_index);

/// 40 Runs, several in each millisecond, in a mixed order of ids.
async fn stored(bed: &Bed) -> Vec<RunId> {
    let mut fleet = Fleet::default();
    for n in 0..40i64 {
        let mut row = run(&format!("r{:02}", n * 7 % 40), 1);
        row.created_at = Timestamp::from_millis(START.millis() + n / 6);
        row.place = n;
        if n % 3 == 0 {
            row.state = RunState::Failed(Verdict { cause: Cause::Judged, findings: vec![] });
            row.ended_at = Some(START);
        }
        row.work_id = (n % 4 == 0).then(|| WorkId::new("git:I5").unwrap());
        fleet.runs.insert(row.id.clone(), row);
    }
    write_all(bed, &mut fleet).await;
    let mut all: Vec<_> = fleet.runs.values().map(|row| (std::cmp::Reverse(row.created_at), row.id.clone())).collect();
    all.sort();
    all.into_iter().map(|(_, id)| id).collect()
}

async fn page(bed: &Bed, filter: &RunFilter) -> Vec<RunRow> {
    bed.store.read().await.unwrap().runs(filter).await.unwrap()
}

/// All pages of a filter, put together.
async fn pages(bed: &Bed, filter: &RunFilter) -> Vec<RunId> {
    let (mut filter, mut ids) = (filter.clone(), vec![]);
    loop {
        let rows = page(bed, &filter).await;
        assert!(rows.len() <= filter.limit as usize);
        let Some(last) = rows.last() else { return ids };
        filter.after = Some((last.created_at, last.run_id.clone()));
        ids.extend(rows.into_iter().map(|row| row.run_id));
    }
}

async fn pages_are_the_whole_list(bed: Bed) {
    let all = stored(&bed).await;
    for limit in [1, 2, 5, 6, 7, 39, 40, 41] {
        assert_eq!(pages(&bed, &RunFilter { limit, ..RunFilter::default() }).await, all, "pages of {limit}");
    }
    assert!(page(&bed, &RunFilter::default()).await.is_empty(), "a page of 0 is empty");
}

async fn filters(bed: Bed) {
    let all = stored(&bed).await;
    let rows = page(&bed, &RunFilter { limit: 1000, ..RunFilter::default() }).await;
    assert_eq!(rows.iter().map(|row| row.run_id.clone()).collect::<Vec<_>>(), all);
    let work = WorkId::new("git:I5").unwrap();
    let since = Timestamp::from_millis(START.millis() + 3);
    let begins = RunId::new(&all[0].as_str()[..1]).unwrap();
    for mask in 0..16 {
        let filter = RunFilter {
            state: (mask & 1 != 0).then(|| "FAILED".to_owned()),
            work: (mask & 2 != 0).then(|| work.clone()),
            since: (mask & 4 != 0).then_some(since),
            begins: (mask & 8 != 0).then(|| begins.clone()),
            limit: 3,
            after: None,
        };
        let fits = |row: &&RunRow| {
            filter.state.as_ref().is_none_or(|state| row.state == *state)
                && filter.work.as_ref().is_none_or(|work| row.work_id.as_ref() == Some(work))
                && filter.since.is_none_or(|since| row.created_at >= since)
                && filter.begins.as_ref().is_none_or(|it| row.run_id.as_str().starts_with(it.as_str()))
        };
        let wanted: Vec<RunId> = rows.iter().filter(fits).map(|row| row.run_id.clone()).collect();
        assert!(!wanted.is_empty());
        assert_eq!(pages(&bed, &filter).await, wanted, "{filter:?}");
    }
    let nothing = RunFilter { state: Some("' OR 1=1 --".to_owned()), limit: 9, ..RunFilter::default() };
    assert!(page(&bed, &nothing).await.is_empty());
    let nul = RunFilter { state: Some("FAILED\0".to_owned()), limit: 9, ..RunFilter::default() };
    assert!(page(&bed, &nul).await.is_empty());
}

async fn current_steps(bed: Bed) {
    let mut fleet = Fleet::default();
    let mut row = run("r", 4);
    for seq in [1, 3] {
        let step = &mut row.steps[seq];
        step.state = StepState::Claimed { node: NodeId::new("n").unwrap(), at: START };
        (step.started_at, step.attempt) = (Some(START), 2);
    }
    fleet.load_node(node("n"));
    fleet.runs.insert(row.id.clone(), row);
    fleet.runs.insert(RunId::new("s").unwrap(), run("s", 2));
    write_all(&bed, &mut fleet).await;
    let rows = page(&bed, &RunFilter { limit: 9, ..RunFilter::default() }).await;
    let current = |step: &str| CurrentStep {
        node: NodeId::new("n").unwrap(),
        step: shared::StepName::new(step).unwrap(),
        attempt: 2,
        started_at: Some(START),
    };
    assert_eq!(rows[0].current, [current("s1"), current("s3")]);
    assert!(rows[1].current.is_empty());
}

/// What the engine does for a page, asked with the very text that is executed.
async fn a_page_uses_an_index(bed: Bed) {
    stored(&bed).await;
    let at = START.millis();
    let (after, tie) = (format!("created_at < {at}"), format!("created_at = {at} AND run_id > 'r'"));
    for (filter, index) in [
        ("true", "runs_created_idx"),
        (&*after, "runs_created_idx"),
        (&*tie, "runs_created_idx"),
        ("state = 'FAILED'", "runs_state_idx"),
        (&*format!("state = 'FAILED' AND {after}"), "runs_state_idx"),
        (&*format!("work_id = 'git:I5' AND state || '' = 'FAILED' AND {after}"), "runs_work_idx"),
    ] {
        let select = format!("SELECT run_id FROM runs WHERE {filter} ORDER BY created_at DESC, run_id LIMIT 5");
        let plan = if bed.is_sqlite() {
            bed.sql(&format!("EXPLAIN QUERY PLAN {select}")).await
        } else {
            // So few rows are faster read whole; that is not what is asked here.
            bed.sql(&format!("SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN {select}")).await
        };
        assert!(plan.contains(index), "{filter}: {plan}");
        assert!(index == "runs_work_idx" || !plan.to_lowercase().contains("sort"), "{filter}: {plan}");
        assert!(index == "runs_work_idx" || !plan.contains("TEMP B-TREE"), "{filter}: {plan}");
    }
}

//! What looks at things once: tables and JSON of fixed answers, hostile text included.

use proto::v1::*;

use super::{messages::*, *};

#[tokio::test]
async fn a12_nodes_show_liveness_and_schedulability_apart() {
    let fake = Fake::start().await;
    fake.lines().list_nodes.then(Ok(nodes()));
    insta::assert_snapshot!("nodes-table", run(&fake, &["nodes"]).await);
    insta::assert_snapshot!("nodes-json", run(&fake, &["nodes", "--output", "json"]).await);
    insta::assert_snapshot!("nodes-jsonl", run(&fake, &["nodes", "--output", "jsonl"]).await);
}

#[tokio::test]
async fn nodes_that_have_left_are_left_out_and_counted() {
    const WEEK: i64 = 7 * 86_400_000;
    let fake = Fake::start().await;
    let there = node("here");
    let goodbye = NodeView { seen_at: NOW - 60_000, expires_at: NOW - 60_000, ..node("goodbye") };
    let silent =
        |name: &str, since: i64| NodeView { seen_at: NOW - since, expires_at: NOW - since + 60_000, ..node(name) };
    let held = NodeView { lease: nodes().nodes[1].lease.clone(), ..silent("held", 2 * WEEK) };
    let page = |nodes: Vec<NodeView>| Ok(ListNodesResponse { observed_at: NOW, nodes });
    fake.lines().list_nodes.then(page(vec![there, goodbye, silent("away", WEEK), silent("gone", WEEK + 1), held]));
    let shown = |ran: &Ran| {
        let page: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let ids = page["nodes"].as_array().unwrap().iter().map(|node| node["node_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    // The last answer stays.
    let ran = run(&fake, &["nodes", "--output", "json"]).await;
    assert_eq!(shown(&ran), ["here", "away", "held"]);
    assert_eq!(ran.err, "2 nodes that have left are not shown; --all shows them.\n");
    let ran = run(&fake, &["nodes", "--output", "json", "--all"]).await;
    assert_eq!((shown(&ran).len(), ran.err.as_str()), (5, ""));
    fake.lines().list_nodes = fake::Script::default();
    fake.lines().list_nodes.then(page(vec![silent("gone", WEEK + 1)]));
    let ran = run(&fake, &["nodes"]).await;
    assert_eq!(ran.err, "1 node that has left is not shown; --all shows it.\n", "and not that none has reported");
}

#[tokio::test]
async fn hostile_text_is_kept_in_json_and_harmless_everywhere() {
    let fake = Fake::start().await;
    fake.lines().list_nodes.then(Ok(nodes()));
    for format in ["table", "json", "jsonl"] {
        let ran = run(&fake, &["nodes", "--output", format]).await;
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!ran.out.contains(acts), "{format}: {:?}", ran.out);
    }
    let ran = run(&fake, &["nodes", "--output", "json"]).await;
    let page: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(page["nodes"][6]["label"], HOSTILE);
}

#[tokio::test]
async fn colour_only_where_it_was_asked_for() {
    let fake = Fake::start().await;
    fake.lines().list_nodes.then(Ok(nodes()));
    assert!(!run(&fake, &["nodes"]).await.out.contains('\x1b'));
    assert!(run_changed(&fake, &["nodes"], |io| io.colour = true).await.out.contains("\x1b["));
}

#[tokio::test]
async fn leases() {
    let fake = Fake::start().await;
    let lease = |node: &str, run: &str, left| LeaseRow {
        node_id: node.into(),
        run_id: run.into(),
        granted_at: NOW - 200_000,
        not_after: NOW + left,
    };
    let page = ListLeasesResponse {
        observed_at: NOW,
        leases: vec![lease("yard/0", "build-1", 56_000), lease("yard/2", "build-2", -1)],
    };
    fake.lines().list_leases.then(Ok(page)).then(Ok(ListLeasesResponse { observed_at: NOW, leases: vec![] }));
    insta::assert_snapshot!("leases-table", run(&fake, &["leases"]).await);
    insta::assert_snapshot!("leases-none", run(&fake, &["leases"]).await);
}

#[tokio::test]
async fn runs_name_their_cause() {
    let fake = Fake::start().await;
    fake.lines().list_runs.then(Ok(runs()));
    insta::assert_snapshot!("runs-table", run(&fake, &["runs"]).await);
    insta::assert_snapshot!("runs-json", run(&fake, &["runs", "--output", "json"]).await);
    insta::assert_snapshot!("runs-jsonl", run(&fake, &["runs", "--output", "jsonl"]).await);
}

#[tokio::test]
async fn runs_asks_for_what_its_flags_say() {
    let fake = Fake::start().await;
    fake.lines().list_runs.then(Ok(ListRunsResponse::default()));
    let args = "runs --state failed --work gerrit:I5c9 --since 2026-01-31T12:00:00Z --limit 7 --after here";
    let ran = run(&fake, &args.split(' ').collect::<Vec<_>>()).await;
    assert_eq!(ran.err, "No Run fits.\n");
    let wanted = ListRunsRequest {
        state: "FAILED".into(),
        work: "gerrit:I5c9".into(),
        since_at: NOW,
        limit: 7,
        after: "here".into(),
        begins: String::new(),
    };
    assert_eq!(fake.lines().asked, [format!("list_runs: {wanted:?}")]);
}

#[tokio::test]
async fn show_is_a_page() {
    let fake = Fake::start().await;
    let running = RunView { assigned: vec![assigned("builder", "yard/0")], ..run_view("build-4", "RUNNING") };
    let steps = vec![step(0, "fetch", "DONE"), step(1, "test", "CLAIMED"), step(2, "ship", "PENDING")];
    fake.lines()
        .get_run
        .then(Ok(failed()))
        .then(Ok(detail(running, steps)))
        .then(Ok(detail(rejected("build-x"), vec![])))
        .then(Ok(detail(run_view("build-5", "QUEUED"), vec![step(0, "fetch", "PENDING")])))
        .then(Ok(failed()));
    for name in ["failed", "running", "rejected", "queued"] {
        insta::assert_snapshot!(format!("show-{name}"), run(&fake, &["show", "build-1"]).await);
    }
    insta::assert_snapshot!("show-json", run(&fake, &["show", "build-1", "--output", "json"]).await);
}

#[tokio::test]
async fn show_says_what_is_waited_for_and_how_often_it_started_over() {
    let fake = Fake::start().await;
    let run_view = RunView { assigned: vec![assigned("builder", "yard/0")], ..run_view("build-4", "RUNNING") };
    let waits = |seq, id: &str, state: &str, what: String, deadline_at| StepView {
        waits_for: Some(what),
        started_at: Some(NOW - 60_000),
        deadline_at,
        ..step(seq, id, state)
    };
    let steps = vec![
        StepView { attempt: 3, round: 2, ..step(0, "mend", "DONE") },
        waits(1, "ok", "ASKED", format!("Ship it?\n{HOSTILE}"), Some(NOW + 600_000)),
        waits(2, "more", "WAITING", "role extra: a node with capability board, chip=stm32".into(), None),
        StepView { round: 2, ..step(3, "ship", "PENDING") },
    ];
    let detail = RunDetail { starts: 3, losses: 2, ..detail(run_view, steps) };
    fake.lines().get_run.then(Ok(detail));
    insta::assert_snapshot!("show-waiting", run(&fake, &["show", "build-4"]).await);
}

#[tokio::test]
async fn explain_speaks_in_sentences() {
    let fake = Fake::start().await;
    let lendable = ExplainResponse {
        observed_at: NOW,
        summary: "Node yard/1 is not lendable.".into(),
        lendable: Some(false),
        reasons: vec![format!("its owner drains it (graceful): {HOSTILE}")],
        ..ExplainResponse::default()
    };
    fake.lines().explain.then(Ok(queued_because())).then(Ok(lendable));
    insta::assert_snapshot!("explain-run", run(&fake, &["explain", "build-5"]).await);
    insta::assert_snapshot!("explain-node", run(&fake, &["explain", "--node", "yard/1"]).await);
    assert!(fake.lines().asked[1].contains("NodeId(\"yard/1\")"));
    for wrong in [&["explain"][..], &["explain", "build-5", "--node", "yard/1"]] {
        assert_eq!(run(&fake, wrong).await.exit, Exit::Refused);
    }
}

#[tokio::test]
async fn status_counts() {
    let fake = Fake::start().await;
    let page = |count: usize, next: Option<&str>| {
        Ok(ListRunsResponse {
            observed_at: NOW,
            runs: vec![run_view("r", "QUEUED"); count],
            next: next.map(str::to_owned),
        })
    };
    fake.lines().list_nodes.then(Ok(nodes()));
    fake.lines()
        .list_runs
        .then(page(1000, Some("more")))
        .then(page(3, None))
        .then(page(2, None))
        .then(page(0, None))
        .then(page(41, None))
        .then(page(5, None));
    let ran = run(&fake, &["status"]).await;
    insta::assert_snapshot!("status-table", ran.to_string().replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    assert!(fake.lines().asked[2].contains("after: \"more\""));
    let ran = run(&fake, &["status", "--output", "json"]).await;
    insta::assert_snapshot!("status-json", ran.to_string().replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

#[tokio::test]
async fn cancel_says_what_became_of_the_run() {
    let fake = Fake::start().await;
    let cancelled = Verdict { cause: "cancelled".into(), by: Some("ann".into()), ..Verdict::default() };
    fake.lines().cancel.then(Ok(RunView { verdict: Some(cancelled), ..run_view("build-1", "FAILED") }));
    let ran = run(&fake, &["cancel", "build-1"]).await;
    assert_eq!(ran.to_string(), "exit 0\n-- stdout\nbuild-1 FAILED (cancelled by ann)\n-- stderr\n");
    fake.lines().cancel = fake::Script::default();
    fake.lines().cancel.then(Ok(run_view("build-1", "SUCCEEDED")));
    let ran = run(&fake, &["cancel", "build-1"]).await;
    assert_eq!(ran.out, "build-1 SUCCEEDED (judged)\n");
    assert_eq!(ran.err, "Run build-1 had ended before; nothing was changed.\n");
}

#[tokio::test]
async fn a_file_gets_the_whole_text_and_a_terminal_what_fits() {
    let fake = Fake::start().await;
    let why = "a policy error that is much longer than any column of a table may be on a terminal, to its very end";
    let broken = NodeView { policy_error: Some(why.into()), drain_reason: Some(why.into()), ..node("bench") };
    fake.lines().list_nodes.then(Ok(ListNodesResponse { observed_at: NOW, nodes: vec![broken] }));
    let ran = run(&fake, &["nodes"]).await;
    assert_eq!((ran.out.matches(why).count(), ran.out.contains('…')), (2, false), "{ran}");
    let ran = run_changed(&fake, &["nodes"], |io| io.out_is_terminal = true).await;
    assert_eq!((ran.out.matches(why).count(), ran.out.matches('…').count()), (0, 2), "{ran}");
}

#[tokio::test]
async fn a_work_without_its_system_is_told_the_form() {
    let fake = Fake::start().await;
    fake.lines().list_runs.then(Ok(ListRunsResponse::default()));
    let ran = run(&fake, &["runs", "--work", "foo"]).await;
    assert!(ran.err.contains("SYSTEM:ID"), "{ran}");
    assert_eq!(run(&fake, &["runs", "--work", "ticket:foo"]).await.err, "No Run fits.\n");
}

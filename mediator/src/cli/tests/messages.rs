//! Fixed wire messages.

use proto::v1::*;

/// 2026-01-31T12:00:00Z
pub(super) const NOW: i64 = 1_769_860_800_000;
/// Somebody's idea of a joke.
pub(super) const HOSTILE: &str = "evil\x1b[2J\x1b]0;owned\x07\u{9b}31m\r\nnext\u{202e}line";

pub(super) fn assigned(role: &str, node: &str) -> Assigned {
    Assigned { r#as: role.into(), node: node.into() }
}

pub(super) fn run_view(id: &str, state: &str) -> RunView {
    let ended = matches!(state, "SUCCEEDED" | "FAILED");
    RunView {
        run_id: id.into(),
        state: state.into(),
        created_at: NOW - 200_000,
        ended_at: ended.then_some(NOW - 5_000),
        verdict: (state == "SUCCEEDED").then(|| Verdict { cause: "judged".into(), ..Verdict::default() }),
        assigned: if state == "QUEUED" { vec![] } else { vec![assigned("builder", "yard/0")] },
        ..RunView::default()
    }
}

pub(super) fn step(seq: u32, id: &str, state: &str) -> StepView {
    let ran = matches!(state, "CLAIMED" | "DONE" | "FAILED");
    StepView {
        seq,
        id: id.into(),
        state: state.into(),
        uses: "builder".into(),
        node: ran.then(|| "yard/0".into()),
        attempt: u32::from(ran),
        started_at: ran.then_some(NOW - 60_000),
        ended_at: matches!(state, "DONE" | "FAILED").then_some(NOW - 48_000),
        exit_code: (state == "DONE").then_some(0),
        ..StepView::default()
    }
}

pub(super) fn detail(run: RunView, steps: Vec<StepView>) -> RunDetail {
    RunDetail { observed_at: NOW, run: Some(run), steps, ..RunDetail::default() }
}

/// A Run whose fork was decided and whose test failed.
pub(super) fn failed() -> RunDetail {
    let run = RunView {
        verdict: Some(Verdict { cause: "step_failed".into(), step: Some("test".into()), ..Verdict::default() }),
        work_id: Some("gerrit:I5c9".into()),
        ..run_view("build-1", "FAILED")
    };
    let fetch = StepView { produced: vec!["src.tar".into()], ..step(0, "fetch", "DONE") };
    let judge = StepView { needs: vec!["fetch".into()], exit_code: Some(0), ..step(1, "judge", "DONE") };
    let test = StepView {
        needs: vec!["judge".into()],
        chosen: true,
        reason: Some("timeout".into()),
        message: Some("killed after 30m\nlast line: \x1b[31mno answer".into()),
        attempt: 2,
        ..step(2, "test", "FAILED")
    };
    let skip = StepView { needs: vec!["judge".into()], ..step(3, "repair", "SKIPPED") };
    RunDetail {
        findings: vec![
            Finding { condition: "fetch produced src.tar".into(), outcome: "held".into() },
            Finding { condition: "test ended with exit code 0".into(), outcome: "failed".into() },
        ],
        sealed_at: Some(NOW - 4_000),
        ..detail(run, vec![fetch, judge, test, skip])
    }
}

pub(super) fn rejected(id: &str) -> RunView {
    RunView {
        verdict: Some(Verdict { cause: "rejected".into(), ..Verdict::default() }),
        reject: Some(Reject {
            code: 422,
            r#as: Some("builder".into()),
            reason: "wants 1 node with build and board=stm32; 3 of 5 nodes lack board=stm32".into(),
        }),
        assigned: vec![],
        ..run_view(id, "FAILED")
    }
}

pub(super) fn node(id: &str) -> NodeView {
    let attrs = [
        ("os", attr_value::Kind::Text("linux".into())),
        ("cores", attr_value::Kind::Number(8)),
        ("kvm", attr_value::Kind::Flag(true)),
    ];
    NodeView {
        node_id: id.into(),
        label: format!("the {id}"),
        instance: Some("i1".into()),
        capabilities: vec![
            Capability {
                name: "build".into(),
                attrs: attrs.into_iter().map(|(name, kind)| (name.into(), AttrValue { kind: Some(kind) })).collect(),
            },
            Capability { name: "gpu".into(), ..Capability::default() },
        ],
        seen_at: NOW - 4_000,
        expires_at: NOW + 56_000,
        ..NodeView::default()
    }
}

fn lease(run: &str) -> Option<LeaseView> {
    Some(LeaseView { run_id: run.into(), not_after: NOW + 56_000 })
}

/// One node in every state there is.
pub(super) fn nodes() -> ListNodesResponse {
    ListNodesResponse {
        observed_at: NOW,
        nodes: vec![
            node("bench"),
            NodeView { lease: lease("build-1"), ..node("yard/0") },
            NodeView { draining: Some("graceful".into()), drain_reason: Some("new kernel".into()), ..node("yard/1") },
            NodeView {
                draining: Some("at-boundary".into()),
                drain_since_at: Some(NOW - 600_000),
                lease: lease("build-2"),
                ..node("yard/2")
            },
            NodeView { stopping: true, lease: lease("build-3"), ..node("shed") },
            NodeView {
                seen_at: NOW - 7_300_000,
                expires_at: NOW - 7_240_000,
                draining: Some("graceful".into()),
                ..node("attic")
            },
            NodeView {
                label: HOSTILE.into(),
                drain_reason: Some(format!("{HOSTILE}{}", "long ".repeat(30))),
                draining: Some("graceful".into()),
                policy_error: Some("policy.toml:3: unknown drain \"maybe\"".into()),
                capabilities: vec![],
                ..node("dark")
            },
        ],
    }
}

pub(super) fn runs() -> ListRunsResponse {
    let current = |step: &str, attempt| CurrentStep {
        node: "yard/0".into(),
        step: step.into(),
        attempt,
        started_at: Some(NOW - 9_000),
    };
    let drained = Verdict { cause: "drain".into(), node: Some("yard/2".into()), ..Verdict::default() };
    let cancelled = Verdict { cause: "cancelled".into(), by: Some(HOSTILE.into()), ..Verdict::default() };
    ListRunsResponse {
        observed_at: NOW,
        runs: vec![
            RunView { created_at: NOW - 1_000, ..run_view("0198f0c2-7d4e-7cc1-a4a5-1f6f6f2a9d10", "QUEUED") },
            RunView {
                current: vec![current("test", 1), current("lint", 2)],
                work_id: Some("gerrit:I5c9".into()),
                ..run_view("build-4", "RUNNING")
            },
            run_view("build-3", "SUCCEEDED"),
            RunView { verdict: Some(drained), ..run_view("build-2", "FAILED") },
            failed().run.unwrap(),
            RunView { verdict: Some(cancelled), ..run_view("build-0", "FAILED") },
            rejected("build-x"),
        ],
        next: Some("1769860600000~build-x".into()),
    }
}

pub(super) fn queued_because() -> ExplainResponse {
    ExplainResponse {
        observed_at: NOW,
        summary: "Run build-5 waits because every node that satisfies role builder is taken.".into(),
        roles: vec![
            RoleExplanation {
                r#as: "builder".into(),
                wanted: 2,
                live: 3,
                busy: 2,
                busy_draining: 1,
                draining: 1,
                free: 0,
                lacking: vec!["2 of 5 nodes lack board=stm32".into()],
                holders: vec![
                    Holder { node: "yard/0".into(), run_id: "build-1".into() },
                    Holder { node: "yard/2".into(), run_id: "build-2".into() },
                ],
                held: vec!["yard/1 graceful: holidays".into()],
            },
            RoleExplanation { r#as: "judge".into(), wanted: 1, ..RoleExplanation::default() },
        ],
        place: Some(3),
        wakes: vec!["RunSettled".into(), "AdvertOpened".into()],
        ..ExplainResponse::default()
    }
}

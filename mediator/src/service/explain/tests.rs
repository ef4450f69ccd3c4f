use shared::domain::{Cause, Drain, Lease, Node, RunState, Settings, Verdict};

use super::*;
use crate::service::sample::{CONTRACT, NOW, drained, fleet, gone, id, lease, node, run, running};

fn why(nodes: &[Node], leases: &[Lease]) -> Explanation {
    let run = run("waits", CONTRACT);
    let fleet = fleet(nodes, leases, &[&run]);
    let explanation = explain_run(&fleet, &run, &Settings::default(), NOW);
    for role in &explanation.roles {
        assert_eq!(role.live, role.busy + role.draining + role.free, "numbers add up to live: {role:?}");
    }
    explanation
}

#[test]
fn leased_nodes_name_their_holders_and_what_frees_them() {
    let got = why(&[node("n1", "build"), node("n2", "build")], &[lease("n1", "a"), lease("n2", "b")]);
    assert_eq!(
        got.summary,
        "run waits (number 1 in line) waits for role builder: 2 of 2 matching nodes are leased \
         (run a on n1, run b on n2); it is freed when a run that holds a node ends or a further node comes \
         (RunSettled, AdvertOpened)"
    );
    assert_eq!(got.place, Some(1));
    assert_eq!(
        got.wakes,
        [Wake::RunSettled, Wake::RunCancelled, Wake::LeaseExpired, Wake::NodeRestarted, Wake::AdvertOpened]
    );
}

#[test]
fn a_holder_of_several_nodes_may_give_one_back() {
    let got = why(&[node("n1", "build"), node("n2", "other")], &[lease("n1", "a"), lease("n2", "a")]);
    assert!(got.wakes.contains(&Wake::PartialRelease), "{got:?}");
}

#[test]
fn busy_counts_before_draining() {
    let both = drained(node("n1", "build"), Drain::Graceful, "");
    let got = why(&[both, node("n2", "build")], &[lease("n1", "a"), lease("n2", "b")]);
    let role = &got.roles[0];
    assert_eq!((role.live, role.busy, role.draining, role.free), (2, 2, 0, 0));
    assert_eq!(role.busy_draining, 1, "and both is said of it");
}

#[test]
fn a_leased_node_that_drains_needs_its_owner_as_well() {
    // Both, and both in the sentence: the end of its Run alone frees nothing.
    let both = drained(node("n1", "build"), Drain::Graceful, "holidays");
    let got = why(std::slice::from_ref(&both), &[lease("n1", "a")]);
    assert_eq!(
        got.summary,
        "run waits (number 1 in line) waits for role builder: 1 of 1 matching node is leased (run a on n1), \
         1 of these is also held back by the owner or the agent (n1 graceful: holidays); \
         it is freed when an owner lends a node again or a further node comes, and a run that holds a node ends \
         (AdvertOpened, RunSettled)"
    );
    assert_eq!(got.wakes[..2], [Wake::AdvertOpened, Wake::RunSettled], "{got:?}");
    // Another node that is only leased is the likelier one.
    let got = why(&[both, node("n2", "build")], &[lease("n1", "a"), lease("n2", "b")]);
    assert_eq!(got.wakes[0], Wake::RunSettled, "{got:?}");
    assert!(got.wakes.contains(&Wake::AdvertOpened), "{got:?}");
    assert!(got.summary.contains("1 of these is also held back"), "{}", got.summary);
    // A drain that is at an end cannot be what is waited for; a further node can.
    let got = why(&[node("n1", "build")], &[lease("n1", "a")]);
    assert!(got.wakes.ends_with(&[Wake::AdvertOpened]) && !got.summary.contains("owner"), "{got:?}");
}

#[test]
fn a08_a_draining_node_shows_its_owners_words() {
    let got = why(&[drained(node("n1", "build"), Drain::Graceful, "holidays")], &[]);
    assert_eq!(
        got.summary,
        "run waits (number 1 in line) waits for role builder: 1 is held back by the owner or the agent \
         (n1 graceful: holidays); it is freed when an owner lends a node again or a further node comes (AdvertOpened)"
    );
    assert_eq!(got.roles[0].held, ["n1 graceful: holidays"]);
}

#[test]
fn b07_no_live_node_is_said_plainly() {
    let got = why(&[gone(node("n1", "build"), 120), node("n2", "other")], &[]);
    assert_eq!(
        got.summary,
        "run waits (number 1 in line) waits for role builder: no live node offers capability build; \
         last seen 3m ago on n1; it is freed when a further node comes (AdvertOpened)"
    );
    assert_eq!(got.roles[0].live, 0);
    assert_eq!(got.roles[0].lacking, ["1 of 1 node lacks capability build"]);
    let never = why(&[], &[]);
    assert!(never.summary.contains("no node that was here before could serve it"), "{}", never.summary);
}

#[test]
fn a_wrong_attribute_is_the_nearest_miss() {
    let mut other = node("n1", "build");
    other.capabilities[0].attrs.insert("os".into(), shared::contract::AttrValue::Text("plan9".into()));
    let got = why(&[other], &[]);
    assert!(got.summary.contains("no live node offers capability build as wanted (1 of 1 node lacks os=linux)"));
}

#[test]
fn a_run_that_is_too_wide_for_the_limit_says_so() {
    let run = run("wide", &CONTRACT.replace(r#""capability": "build""#, r#""capability": "build", "count": 3"#));
    let fleet = fleet(&[node("n1", "build")], &[], &[&run]);
    let got = explain_run(&fleet, &run, &Settings { max_per_run: 2, ..Settings::default() }, NOW);
    assert!(got.summary.contains("lease.max_per_run allows 2"), "{}", got.summary);
    assert!(got.wakes.is_empty(), "nothing frees it by itself");
}

#[test]
fn place_counts_in_the_order_of_the_line() {
    let (first, mut second) = (run("first", CONTRACT), run("second", CONTRACT));
    second.place = 9;
    let fleet = fleet(&[node("n1", "build")], &[lease("n1", "a")], &[&first, &second]);
    assert_eq!(explain_run(&fleet, &second, &Settings::default(), NOW).place, Some(2));
}

#[test]
fn a_running_run_says_what_it_does() {
    let run = running(run("busy", CONTRACT), "n1");
    let fleet = fleet(&[node("n1", "build")], &[lease("n1", "busy")], &[]);
    let got = explain_run(&fleet, &run, &Settings::default(), NOW);
    assert_eq!(got.summary, "run busy runs: step test on n1 for 20s");
    assert_eq!((got.place, got.wakes.len()), (None, 0));
}

#[test]
fn a_run_that_ended_says_how_and_never_who_cancelled() {
    let mut run = run("over", CONTRACT);
    run.ended_at = Some(NOW);
    run.state = RunState::Failed(Verdict { cause: Cause::Drain(id("n1")), findings: Vec::new() });
    let fleet = fleet(&[], &[], &[]);
    let got = explain_run(&fleet, &run, &Settings::default(), NOW);
    assert_eq!(got.summary, "run over FAILED: the owner of n1 took it back at a step boundary, 0s ago");
    assert_eq!(got.roles, [], "who is free now is of no interest to it");
    run.state = RunState::Failed(Verdict { cause: Cause::Cancelled(id("someone")), findings: Vec::new() });
    assert!(!explain_run(&fleet, &run, &Settings::default(), NOW).summary.contains("someone"));
}

fn node_says(node: &Node, leases: &[Lease]) -> Explanation {
    explain_node(&fleet(std::slice::from_ref(node), leases, &[]), node, NOW)
}

#[test]
fn a_node_lists_every_reason() {
    let mut held = gone(drained(node("n1", "build"), Drain::AtBoundary, "mine"), 5);
    held.stopping = true;
    held.policy.error = "line 2: unknown key".into();
    let got = node_says(&held, &[lease("n1", "a")]);
    assert_eq!(got.lendable, Some(false));
    assert_eq!(
        got.reasons,
        [
            "leased by run a for 30s",
            "draining (at-boundary) for 10m: mine (policy file: line 2: unknown key)",
            "stopping: its agent was told to stop; its next start ends that",
            "its advert expired 5s ago; last seen 1m5s ago",
        ]
    );
}

#[test]
fn a_node_that_said_goodbye_says_so() {
    let mut left = node("n1", "build");
    left.stopping = true;
    left.seen_at = shared::Timestamp::from_millis(NOW.millis() - 65_000);
    // As an advert and as a restarted database write it.
    for expires_at in [left.seen_at, shared::Timestamp::from_millis(0)] {
        left.expires_at = expires_at;
        let got = node_says(&left, &[]);
        assert_eq!(got.reasons[1], "its agent said goodbye 1m5s ago");
    }
}

#[test]
fn a_lendable_node_has_no_reason_and_a_warning_stays_one() {
    let mut free = node("n1", "build");
    free.policy.error = "group-writable".into();
    let got = node_says(&free, &[]);
    assert_eq!((got.lendable, got.reasons.len()), (Some(true), 0));
    assert!(got.summary.ends_with("(policy file: group-writable)"), "{}", got.summary);
}

#[test]
fn too_few_nodes_and_what_the_others_lack() {
    let run = run("wide", &CONTRACT.replace(r#""capability": "build""#, r#""capability": "build", "count": 3"#));
    let mut other = node("n3", "build");
    other.capabilities[0].attrs.insert("os".into(), shared::contract::AttrValue::Text("plan9".into()));
    let fleet = fleet(&[node("n1", "build"), node("n2", "build"), other], &[lease("n1", "a")], &[&run]);
    let got = explain_run(&fleet, &run, &Settings::default(), NOW);
    assert_eq!(
        got.summary,
        "run wide (number 1 in line) waits for role builder: 3 wanted, only 2 live nodes fit \
         (1 of 3 nodes lacks os=linux), 1 of 2 matching nodes is leased (run a on n1), 1 free; \
         it is freed when a further node comes, and a run that holds a node ends (AdvertOpened, RunSettled)"
    );
}

#[test]
fn a_run_with_nothing_claimed_says_what_it_waits_for() {
    let says = |node: Node| {
        let mut run = running(run("idle", CONTRACT), "n1");
        run.steps[0].state = shared::domain::StepState::Pending;
        let fleet = fleet(&[node], &[lease("n1", "idle")], &[]);
        explain_run(&fleet, &run, &Settings::default(), NOW).summary
    };
    let prefix = "run idle holds its nodes and nothing is claimed: step test ";
    assert_eq!(says(node("n1", "build")), format!("{prefix}waits to be claimed by n1"));
    assert_eq!(
        says(gone(node("n1", "build"), 5)),
        format!(
            "{prefix}waits for n1; n1 has not been heard for 1m5s: unless it comes back, the run ends as FAILED \
             (lease_expired) when its lease ends in 56s"
        )
    );
    let drains = drained(node("n1", "build"), Drain::AtBoundary, "");
    assert_eq!(says(drains), format!("{prefix}is not claimed: n1 drains at-boundary"));
    let stopping = Node { stopping: true, ..node("n1", "build") };
    assert_eq!(says(stopping), format!("{prefix}is not claimed: the agent of n1 is stopping"));
}

const OWN_STEPS: &str = r#"{
    "requires": [{"as": "builder", "capability": "build"}],
    "steps": [
        {"id": "make", "uses": "builder", "run": ["make"]},
        {"id": "more", "needs": ["make"], "timeout": "10m", "acquire": {"as": "extra", "capability": "test"}},
        {"id": "ok", "needs": ["make"], "ask": {"question": "Ship\n it?", "answerers": ["someone"]}}
    ]
}"#;

/// A Run whose first step is done, with its other two in these states.
fn stands(more: shared::domain::StepState, ok: shared::domain::StepState) -> shared::domain::Run {
    let mut run = running(run("busy", OWN_STEPS), "n1");
    run.steps[0].state = shared::domain::StepState::Done { exit_code: Some(0), at: NOW };
    let since = shared::Timestamp::from_millis(NOW.millis() - 65_000);
    (run.steps[1].state, run.steps[1].started_at) = (more, Some(since));
    run.steps[1].deadline = Some(shared::Timestamp::from_millis(NOW.millis() + 535_000));
    run.steps[2].state = ok;
    run
}

#[test]
fn a_waiting_acquire_says_for_what_and_who_holds_it() {
    let run = stands(shared::domain::StepState::Waiting, shared::domain::StepState::Done { exit_code: None, at: NOW });
    let nodes = [node("n1", "build"), node("n2", "test")];
    let mut fleet = fleet(&nodes, &[lease("n1", "busy"), lease("n2", "a")], &[]);
    let require = run.contract.steps[1].acquire.as_ref().unwrap().require();
    let (place, shape) =
        (shared::domain::Place::of_acquire(1, 1), shared::domain::Shape::of_acquire(&run.id, 1, &require));
    fleet.queue.insert(place, run.id.clone(), shape, NOW);
    let got = explain_run(&fleet, &run, &Settings::default(), NOW);
    assert_eq!(
        got.summary,
        "run busy holds its nodes and step more waits for role extra for 1m5s: 1 of 1 matching node is leased \
         (run a on n2); it gives up in 8m55s"
    );
    assert_eq!(got.roles.len(), 1, "what it has is not in question");
    assert_eq!((got.place, got.wakes[0]), (Some(1), Wake::RunSettled));
}

#[test]
fn an_open_question_is_quoted_and_never_says_who_may_answer() {
    let at = shared::Timestamp::from_millis(NOW.millis() - 65_000);
    let run =
        stands(shared::domain::StepState::Done { exit_code: None, at: NOW }, shared::domain::StepState::Asked { at });
    let fleet = fleet(&[node("n1", "build")], &[lease("n1", "busy")], &[]);
    let got = explain_run(&fleet, &run, &Settings::default(), NOW);
    assert_eq!(
        got.summary,
        "run busy holds its nodes and step ok has asked a person for 1m5s: \"Ship it?\" \
         (`mediator answer busy --step ok --json JSON`)"
    );
    assert_eq!((got.place, got.wakes.len()), (None, 0));
}

#[test]
fn a_silent_node_is_told_with_what_ends_the_wait_and_when() {
    let claimed = |node: &str| shared::domain::StepState::Claimed { node: id(node), at: NOW };
    let settings = Settings::default();
    let at = |seconds: u64| NOW + shared::Duration::from_secs(seconds);
    let mut run =
        stands(shared::domain::StepState::Done { exit_code: None, at: NOW }, shared::domain::StepState::Pending);
    run.steps[0].state = claimed("n1");
    let mut silent = node("n1", "build");
    (silent.seen_at, silent.expires_at) = (NOW, at(900));
    let mut held = lease("n1", "busy");
    held.not_after = at(300);
    let fleet = fleet(&[silent], &[held], &[]);
    let said = |run: &shared::domain::Run, seconds| explain_run(&fleet, run, &settings, at(seconds)).summary;
    insta::assert_snapshot!(said(&run, 5), @"run busy runs: step make on n1 for 5s");
    insta::assert_snapshot!(said(&run, 240), @"run busy runs: step make on n1 for 4m; n1 has not been heard for 4m: unless it comes back, the run ends as FAILED (lease_expired) when its lease ends in 1m");
    std::sync::Arc::make_mut(&mut run.contract).on_lost.retry = 2;
    run.losses = 1;
    insta::assert_snapshot!(said(&run, 240), @"run busy runs: step make on n1 for 4m; n1 has not been heard for 4m: unless it comes back, the run starts over (on_lost: retry, 2 of 2) when its lease ends in 1m");
    insta::assert_snapshot!(said(&run, 301), @"run busy runs: step make on n1 for 5m1s; n1 has not been heard for 5m1s: unless it comes back, the run starts over (on_lost: retry, 2 of 2) at any moment, for its lease has ended");
    run.steps[0].state = shared::domain::StepState::Pending;
    insta::assert_snapshot!(said(&run, 901), @"run busy holds its nodes and nothing is claimed: step make waits for n1; n1 has not been heard for 15m1s: unless it comes back, the run starts over (on_lost: retry, 2 of 2) at any moment, for its lease has ended");
}

#[test]
fn what_a_reservation_keeps_back_is_said_on_both_sides() {
    let wide = run("wide", &CONTRACT.replace(r#""capability": "build""#, r#""capability": "build", "count": 2"#));
    let mut narrow = run("narrow", CONTRACT);
    narrow.place = 2;
    narrow.starts = 1;
    let mut fleet = fleet(&[node("n1", "build"), node("n2", "build")], &[lease("n2", "a")], &[&wide, &narrow]);
    fleet.reservation =
        Some(shared::domain::Reservation { run: id("wide"), place: 1, nodes: [id("n1"), id("n2")].into() });
    let got = explain_run(&fleet, &narrow, &Settings::default(), NOW);
    assert_eq!(
        got.summary,
        "run narrow (number 2 in line, started over once) waits; n1 is free and kept for run wide, which is older and \
         gathers 2 nodes"
    );
    assert_eq!(got.wakes, [Wake::RunSettled, Wake::RunCancelled, Wake::AdvertOpened]);
    let got = explain_run(&fleet, &wide, &Settings::default(), NOW);
    assert!(got.summary.ends_with("; n1, n2 are kept for it, 1 of them free already"), "{}", got.summary);
}

#[test]
fn roles_that_share_no_node_are_not_called_runnable_one_by_one() {
    let text = r#"{"requires": [{"as": "a", "capability": "build"}, {"as": "b", "capability": "build", "apart": true}],
                   "steps": [{"id": "s", "uses": "a", "run": ["x"]}]}"#;
    let run = run("pair", text);
    let fleet = fleet(&[node("n1", "build")], &[], &[&run]);
    let got = explain_run(&fleet, &run, &Settings::default(), NOW);
    assert!(got.summary.contains("apart from the other roles"), "{}", got.summary);
}

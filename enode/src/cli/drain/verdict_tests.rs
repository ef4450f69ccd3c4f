//! "Safe to power off" is a promise: everything that breaks it must block.

use shared::{InstanceId, NodeId, Timestamp, domain::Drain};

use super::{
    super::remote::{Seen, View},
    verdict::{Local, blockers, policy_error},
};
use crate::state::{AgentStatus, CurrentStatus, LeaseStatus, NodeStatus};

fn id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn nodes() -> [NodeId; 2] {
    [id("yard/0"), id("yard/1")]
}

fn view(drain: Drain) -> View {
    nodes().into_iter().map(|id| (id, Seen { live: true, drain, run_id: None })).collect()
}

fn node(id: NodeId, drain: Drain) -> NodeStatus {
    NodeStatus {
        node_id: id,
        instance: InstanceId::new("i1").unwrap(),
        accepted: true,
        superseded: None,
        drain,
        drain_reason: String::new(),
        reasons: Vec::new(),
        lease: None,
        step: None,
        live_processes: false,
        spooled: 0,
        last_advert_at: None,
        policy_error: String::new(),
    }
}

fn agent(drain: Drain, change: impl FnOnce(&mut NodeStatus)) -> Local {
    let mut nodes: Vec<_> = nodes().into_iter().map(|id| node(id, drain)).collect();
    change(&mut nodes[1]);
    Local::Running(Box::new(AgentStatus {
        name: "yard".into(),
        pid: 7,
        version: "0".into(),
        mediator: "m".into(),
        connected: true,
        stopping: false,
        nodes,
    }))
}

fn said(want: Drain, view: &View, local: &Local) -> Vec<String> {
    blockers(&nodes(), want, view, local, Timestamp::from_millis(61_000))
        .into_iter()
        .map(|blocker| blocker.what)
        .collect()
}

const WANT: [Drain; 2] = [Drain::Graceful, Drain::AtBoundary];

#[test]
fn drained_is_both_views_without_anything_alive() {
    for want in WANT {
        assert!(said(want, &view(want), &agent(want, |_| ())).is_empty());
        assert!(said(want, &view(Drain::AtBoundary), &agent(Drain::AtBoundary, |_| ())).is_empty(), "stronger will do");
    }
}

#[test]
fn each_single_thing_in_the_way_blocks() {
    let want = Drain::AtBoundary;
    let fine = || agent(want, |_| ());
    let step = CurrentStatus {
        run_id: "r1".parse().unwrap(),
        step_id: "test".parse().unwrap(),
        attempt: 2,
        started_at: Timestamp::from_millis(1_000),
        pid: None,
    };
    let leased = |run: &str| {
        let mut view = view(want);
        view.get_mut(&id("yard/1")).unwrap().run_id = Some(run.to_owned());
        view
    };
    let without = || {
        let mut view = view(want);
        view.remove(&id("yard/1"));
        view
    };
    let with_step = agent(want, |node| node.step = Some(step.clone()));
    let cases: [(View, Local, &str); 10] = [
        (view(Drain::None), fine(), "yard/0: the mediator does not show the drain yet"),
        (view(Drain::Graceful), fine(), "yard/0: the mediator does not show the drain yet"),
        (without(), fine(), "yard/1: the mediator does not show the drain yet"),
        (leased("r1"), fine(), "yard/1: Run r1, no step of it runs here now"),
        (leased("r1"), with_step.clone(), "yard/1: Run r1, step test (attempt 2)"),
        (view(want), with_step, "yard/1: step test of Run r1 is still being ended"),
        (view(want), agent(want, |node| node.live_processes = true), "yard/1: processes of a Run are still alive"),
        (view(want), agent(want, |node| node.drain = Drain::Graceful), "yard/1: the agent has not heard yet"),
        (view(want), agent(want, |node| node.node_id = id("other")), "yard/1: the agent here (pid 7) does not have"),
        (view(want), Local::Unknown("denied".into()), "denied"),
    ];
    for (view, local, wanted) in cases {
        let said = said(want, &view, &local);
        assert!(said.iter().any(|what| what.starts_with(wanted)), "{wanted}: {said:?}");
    }
    let lines = blockers(
        &nodes(),
        want,
        &leased("r1"),
        &agent(want, |node| node.step = Some(step)),
        Timestamp::from_millis(61_000),
    );
    assert_eq!(lines[0].running_for, Some(shared::Duration::from_secs(60)));
}

#[test]
fn a_lease_the_agent_still_has_is_no_matter_once_the_mediator_shows_none() {
    let local = agent(Drain::Graceful, |node| node.lease = Some(LeaseStatus { run_id: "r1".parse().unwrap() }));
    assert!(said(Drain::Graceful, &view(Drain::Graceful), &local).is_empty());
}

#[test]
fn a_superseded_node_is_named_as_that() {
    let local = agent(Drain::Graceful, |node| node.superseded = Some("i9".into()));
    let mut view = view(Drain::Graceful);
    view.get_mut(&id("yard/1")).unwrap().drain = Drain::None;
    assert_eq!(said(Drain::Graceful, &view, &local), ["yard/1: another agent speaks for this node (i9)"]);
}

#[test]
fn without_an_agent_the_mediators_view_alone_counts() {
    let want = Drain::Graceful;
    assert!(said(want, &View::new(), &Local::Absent).is_empty(), "unknown to the mediator");
    let mut expired = view(Drain::None);
    expired.values_mut().for_each(|seen| seen.live = false);
    assert!(said(want, &expired, &Local::Absent).is_empty());
    // Live: an agent speaks for it, and cannot be asked for its processes.
    for drain in [Drain::None, Drain::AtBoundary] {
        let said_live = said(want, &view(drain), &Local::Absent);
        assert_eq!(said_live.len(), 2);
        assert!(said_live[0].contains("its last advert still counts"), "{said_live:?}");
    }
    // Expired with a lease: the reaper has not come yet.
    expired.get_mut(&id("yard/0")).unwrap().run_id = Some("r1".into());
    assert_eq!(said(want, &expired, &Local::Absent).len(), 1);
}

#[test]
fn a_warning_about_the_file_is_no_refusal_while_the_drain_holds() {
    let warned = agent(Drain::Graceful, |node| node.policy_error = "mode 0664".into());
    assert_eq!(policy_error(&warned, Drain::Graceful), None);
    assert_eq!(policy_error(&warned, Drain::AtBoundary).as_deref(), Some("mode 0664"));
    assert_eq!(policy_error(&Local::Absent, Drain::Graceful), None);
}

use super::*;
use crate::policy::quarantine::Against;

#[test]
fn a_group_that_does_not_go_holds_the_node_back_until_it_has_gone() {
    let state = tempfile::tempdir().unwrap();
    let id = NodeId::new("yard").unwrap();
    let identity = Identity::load(state.path(), &id).unwrap();
    let rule = crate::policy::quarantine::Rule { after: 1, within: Duration::from_secs(1) };
    let quarantine = Quarantine::open(state.path().join("q.json"), rule, clock::now());
    let (node, _jobs) =
        Node::new(id, identity, NodeCore::default(), Outbox::default(), quarantine, Duration::default());
    let advertised = |owner: &Policy| {
        let owner = Standing { owner: owner.clone(), ..Standing::default() };
        let mut advert = v1::AdvertiseRequest::default();
        node.advert(&mut advert, &owner).unwrap();
        let policy = advert.policy.unwrap();
        (policy.drain, policy.reason)
    };
    let owner = Policy { drain: Drain::AtBoundary, reason: "mine".to_owned(), ..Policy::default() };
    node.stuck(Some("process group 7 does not go".to_owned()));
    assert_eq!(
        advertised(&Policy::default()),
        ("graceful".to_owned(), "stuck: process group 7 does not go".to_owned())
    );
    assert_eq!(advertised(&owner), ("at-boundary".to_owned(), "mine; stuck: process group 7 does not go".to_owned()));
    assert!(node.status().live_processes);
    node.stuck(None);
    assert_eq!(advertised(&owner), ("at-boundary".to_owned(), "mine".to_owned()));
    assert_eq!(advertised(&Policy::default()).0, "");
    assert!(!node.status().live_processes);

    // A third reason, of another origin: each goes by itself, whatever the others do.
    node.stuck(Some("process group 7 does not go".to_owned()));
    let run: RunId = "r".parse().unwrap();
    node.judge(&run, End::Failed(shared::domain::FailReason::CouldNotStart, Against::Machine, Duration::default()));
    let each = |node: &Node| node.status().reasons.into_iter().map(|it| it.source).collect::<Vec<_>>();
    assert_eq!(advertised(&owner).0, "at-boundary");
    assert_eq!(each(&node), ["owner", "quarantine", "stuck"]);
    node.stuck(None);
    assert_eq!(advertised(&Policy::default()).0, "graceful");
    assert_eq!(each(&node), ["quarantine"], "the owner's undrain ends the owner's drain only");
    let cleared = Standing { owner, quarantine_cleared: Some("now".to_owned()), ..Standing::default() };
    node.advert(&mut v1::AdvertiseRequest::default(), &cleared).unwrap();
    assert_eq!(each(&node), ["owner"]);
}

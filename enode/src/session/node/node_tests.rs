use super::*;

#[test]
fn a_group_that_does_not_go_holds_the_node_back_until_it_has_gone() {
    let state = tempfile::tempdir().unwrap();
    let id = NodeId::new("yard").unwrap();
    let identity = Identity::load(state.path(), &id).unwrap();
    let (node, _jobs) = Node::new(id, identity, NodeCore::default(), Outbox::default(), Duration::default());
    let advertised = |owner: &Policy| {
        let mut advert = v1::AdvertiseRequest::default();
        node.advert(&mut advert, owner).unwrap();
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
}

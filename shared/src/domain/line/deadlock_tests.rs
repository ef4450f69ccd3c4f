use super::*;
use crate::{
    contract::{Acquire, parse},
    domain::{Capability, Node, Place, Policy, Shape},
};

fn node(name: &str) -> Node {
    Node {
        id: name.parse().unwrap(),
        rev: 1,
        label: String::new(),
        instance: "i".parse().unwrap(),
        stream: None,
        advert_no: 1,
        stopping: false,
        principal: "p".parse().unwrap(),
        capabilities: vec![Capability { name: name.to_owned(), attrs: BTreeMap::new() }],
        policy: Policy::default(),
        seen_at: Timestamp::from_millis(0),
        expires_at: Timestamp::from_millis(9),
        agent_version: String::new(),
    }
}

#[test]
fn it_is_looked_for_only_where_an_acquire_can_have_been_shut_in() {
    let mut fleet = Fleet::default();
    fleet.load_node(node("board"));
    fleet.load_node(node("bench"));
    let [waits, other]: [RunId; 2] = ["waits", "other"].map(|it| it.parse().unwrap());
    let [board, bench]: [NodeId; 2] = ["board", "bench"].map(|it| it.parse().unwrap());
    let due = |fleet: &Fleet, stir: &dyn Fn(&Fleet, &mut Stirred)| {
        let mut stirred = Stirred::default();
        stir(fleet, &mut stirred);
        stirred.is_due(fleet)
    };
    assert!(!due(&fleet, &|_, it| it.anything()), "nobody waits");
    let text = "requires: [{as: b, capability: x}]\nsteps: [{id: a, acquire: {as: k, capability: board}}, \
                {id: s, uses: k, run: [x], needs: [a]}]";
    let contract = parse(text.as_bytes()).unwrap();
    let require = contract.steps[0].acquire.as_ref().map(Acquire::require).unwrap();
    let shape = Shape::of_acquire(&waits, 0, &require);
    fleet.queue.insert(Place::of_acquire(1, 0), waits.clone(), shape, Timestamp::from_millis(0));
    assert!(due(&fleet, &|_, it| it.anything()));
    assert!(due(&fleet, &|fleet, it| it.run(fleet, &waits)) && !due(&fleet, &|fleet, it| it.run(fleet, &other)));
    assert!(due(&fleet, &|fleet, it| it.node(fleet, &board)) && !due(&fleet, &|fleet, it| it.node(fleet, &bench)));
    assert!(!due(&fleet, &|_, _| ()));
}

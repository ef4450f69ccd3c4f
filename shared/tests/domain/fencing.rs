//! Who may speak for a node, and what an old word is worth.

use shared::{
    Nonce, Principal,
    domain::{Drain, Refusal, RunState},
};

use crate::world::{ONE, TWO, World, node_id};

#[test]
fn a_duplicate_report_gets_the_answer_that_was_stored() {
    let mut world = World::with(&["n"]);
    world.submit("r", TWO);
    let step = world.claim("n").unwrap();
    let first = world.report("n", &step, 0).unwrap();
    assert_eq!((first.step_state.as_str(), first.run_state), ("DONE", "RUNNING"));
    let rev = world.fleet.rev;
    // Whatever it says now, and whatever came in between.
    let again = world.report("n", &step, 7).unwrap();
    assert_eq!(again, first);
    assert!(world.changes.is_empty() && world.fleet.rev == rev);
    world.work("n");
    let late = world.report_lost("n", &step).unwrap();
    assert_eq!((late.step_state.as_str(), late.run_state), ("DONE", "SUCCEEDED"));
    // Even from an instance that has been replaced since.
    let old = world.report_of("n", &step, 0);
    world.restart("n", &[]).unwrap();
    assert_eq!(world.apply(&old).unwrap().step_state, "DONE");
}

#[test]
fn a_report_needs_the_lease_and_its_nonce() {
    let mut world = World::with(&["n", "m"]);
    world.submit("r", TWO);
    let node = world.run("r").assigned[0].node.to_string();
    let step = world.claim(&node).unwrap();
    let good = world.report_of(&node, &step, 0);

    let mut wrong = good.clone();
    wrong.nonce = Nonce::from_bits(999);
    assert_eq!(world.apply(&wrong), Err(Refusal::Stale("the lease of this work has ended")));
    let mut wrong = good.clone();
    wrong.attempt = 2;
    assert_eq!(world.apply(&wrong), Err(Refusal::Stale("no such attempt was claimed")));
    let mut wrong = good.clone();
    wrong.seq = 99;
    assert_eq!(world.apply(&wrong), Err(Refusal::Stale("no such attempt was claimed")));
    let other = if node == "n" { "m" } else { "n" };
    let mut wrong = good.clone();
    wrong.who = world.speaker(other);
    assert_eq!(world.apply(&wrong), Err(Refusal::Stale("the lease of this work has ended")));
    let mut wrong = good.clone();
    wrong.who.principal = Principal::new("thief").unwrap();
    assert_eq!(world.apply(&wrong), Err(Refusal::ForeignNode(node_id(&node))));
    let mut wrong = good.clone();
    wrong.run = crate::world::run_id("nobody");
    assert_eq!(world.apply(&wrong), Err(Refusal::NotFound("run nobody".to_owned())));
    assert_eq!(world.show("r"), "RUNNING: s=CLAIMED t=PENDING");
    world.apply(&good).unwrap();
}

#[test]
fn a_late_report_of_a_closed_run_is_refused() {
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    let step = world.claim("n").unwrap();
    world.cancel("r").unwrap();
    assert_eq!(world.report("n", &step, 0), Err(Refusal::Stale("the lease of this work has ended")));
    // The same Run again on the same node would be another lease: the old permit opens nothing.
    world.submit("next", ONE);
    let next = world.claim("n").unwrap();
    assert_ne!(next.nonce, step.nonce);
    assert!(world.report("n", &step, 0).is_err());
}

#[test]
fn an_expired_lease_is_never_revived_even_before_the_reaper() {
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    let step = world.claim("n").unwrap();
    world.wait(60);
    let reply = world.advert("n").unwrap();
    assert!(reply.leases.is_empty());
    assert_eq!(world.claim("n"), None);
    assert_eq!(world.report("n", &step, 0), Err(Refusal::Stale("the lease of this work has ended")));
    assert_eq!(world.state("r"), "RUNNING");
    assert_eq!(world.reap(), 1);
    assert_eq!(world.show("r"), "FAILED lease_expired: s=FAILED");
    // Renewed in time it holds on.
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    for _ in 0..20 {
        world.wait(59);
        assert_eq!(world.advert("n").unwrap().leases.len(), 1);
        assert_eq!(world.reap(), 0);
    }
}

#[test]
fn the_reaper_ends_only_what_lost_a_node_that_it_needs() {
    let mut world = World::with(&["m", "n"]);
    let both = "{requires: [{as: b, capability: build, count: 2}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: 'b[1]', run: [x]}]}";
    world.submit("r", both);
    world.work("m");
    world.wait(50);
    world.advert("n").unwrap();
    world.wait(20);
    assert_eq!(world.reap(), 1);
    assert_eq!((world.lease("m"), world.show("r").as_str()), (None, "RUNNING: s=DONE t=PENDING"));
    world.work("n");
    assert_eq!(world.state("r"), "SUCCEEDED");
}

#[test]
fn another_instance_replaces_only_the_one_that_it_knows_or_that_is_silent() {
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    let original = world.agents["n"].clone();
    let refused = Err(Refusal::Superseded { node: node_id("n"), what: "instance" });
    // A second agent with the same name, which knows nothing of the first.
    let mut second = original.advert.clone();
    second.who.instance = shared::InstanceId::new("second").unwrap();
    second.who.streams.clear();
    second.advert_no = 1;
    assert_eq!(world.apply(&second).map(|_| ()), refused);
    assert_eq!(world.apply(&shared::domain::Claim { who: second.who.clone() }).map(|_| ()), refused);
    assert_eq!(world.apply(&shared::domain::OpenWork { who: second.who.clone() }).map(|_| ()), refused);
    // The first goes on as if nothing had been.
    world.advert("n").unwrap();
    world.claim("n").unwrap();
    // Once the first is silent for one horizon, the second may speak.
    world.wait(60);
    assert_eq!(world.apply(&second).unwrap().stream, None);
    assert_eq!(world.advert("n").map(|_| ()), refused);
    // A restart that names it is taken at once.
    let mut third = second.clone();
    third.who.instance = shared::InstanceId::new("third").unwrap();
    third.replaces = vec![second.who.instance.clone()];
    third.advert_no = 1;
    world.apply(&third).unwrap();
    assert_eq!(world.apply(&second).map(|_| ()), refused);
}

#[test]
fn a_step_is_redelivered_to_the_same_instance_only() {
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    let step = world.claim("n").unwrap();
    let again = world.claim("n").unwrap();
    assert_eq!((again.seq, again.attempt, again.nonce), (step.seq, step.attempt, step.nonce));
    assert!(world.changes.is_empty(), "claiming again changed something");
    // An advert that does not list the step asks for it to be sent again; one that lists it does not.
    world.advert("n").unwrap();
    assert!(world.changes.work.contains(&node_id("n")));
    world.agent("n").running = vec![(step.run.clone(), step.seq, step.attempt)];
    world.advert("n").unwrap();
    assert!(!world.changes.work.contains(&node_id("n")));
    // Finished and spooled, it moves to the next instance, which cannot claim it but report it.
    world.restart("n", &[&step]).unwrap();
    world.open("n").unwrap();
    world.report("n", &step, 0).unwrap();
    assert_eq!(world.show("r"), "SUCCEEDED judged: s=DONE");
}

#[test]
fn of_two_copies_of_one_machine_the_one_with_the_newest_stream_goes_on() {
    let mut world = World::with(&["n"]);
    let copy = world.agents["n"].clone();
    world.open("n").unwrap();
    let refused = Err(Refusal::Superseded { node: node_id("n"), what: "work stream" });
    let mut late = copy.advert.clone();
    late.advert_no += 100;
    assert_eq!(world.apply(&late).map(|_| ()), refused);
    assert_eq!(world.apply(&shared::domain::Claim { who: copy.advert.who.clone() }).map(|_| ()), refused);
    world.advert("n").unwrap();
}

#[test]
fn an_advert_that_was_overtaken_undoes_nothing() {
    let mut world = World::with(&["n"]);
    let mut old = world.agents["n"].advert.clone();
    world.drain("n", Drain::Graceful).unwrap();
    let before = world.fleet.clone();
    for number in [old.advert_no, old.advert_no + 1] {
        old.advert_no = number;
        let reply = world.apply(&old).unwrap();
        assert_eq!(reply.policy.drain, Drain::Graceful);
        assert_eq!(world.fleet, before);
    }
}

#[test]
fn a_node_belongs_to_the_principal_of_its_first_advert() {
    let mut world = World::with(&["n"]);
    let mut forged = world.agents["n"].advert.clone();
    forged.who.principal = Principal::new("thief").unwrap();
    forged.advert_no += 1;
    let refused = Err(Refusal::ForeignNode(node_id("n")));
    assert_eq!(world.apply(&forged).map(|_| ()), refused);
    world.wait(3_600);
    assert_eq!(world.apply(&forged).map(|_| ()), refused);
    assert_eq!(world.apply(&shared::domain::Claim { who: forged.who.clone() }).map(|_| ()), refused);
}

#[test]
fn the_same_submit_again_is_answered_with_the_stored_run_and_another_is_refused() {
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    let again = world.submit("r", ONE);
    assert!(again.existing && again.run == *world.run("r"));
    assert!(world.changes.is_empty());
    let other = world.command("r", TWO);
    assert_eq!(world.apply(&other).map(|_| ()), Err(Refusal::RunExists(crate::world::run_id("r"))));
    let mut other = world.command("r", ONE);
    other.principal = Principal::new("bob").unwrap();
    assert_eq!(world.apply(&other).map(|_| ()), Err(Refusal::RunExists(crate::world::run_id("r"))));
}

#[test]
fn cancelling_twice_or_late_changes_nothing() {
    let mut world = World::with(&["n"]);
    world.submit("r", ONE);
    world.work("n");
    let run = world.cancel("r").unwrap();
    assert!(matches!(run.state, RunState::Succeeded(_)) && world.changes.is_empty());
    assert_eq!(world.cancel("nobody"), Err(Refusal::NotFound("run nobody".to_owned())));
}

#[test]
fn a_node_without_advert_is_refused() {
    let mut world = World::with(&["n"]);
    let mut who = world.speaker("n");
    who.node = node_id("ghost");
    assert_eq!(
        world.apply(&shared::domain::Claim { who }).map(|_| ()),
        Err(Refusal::NotFound("node ghost".to_owned()))
    );
}

#[test]
fn a_nodes_rev_rises_with_grants_releases_and_drains_and_not_with_renewals() {
    let mut world = World::with(&["n"]);
    let rev = |world: &World| world.fleet.node(&node_id("n")).unwrap().rev;
    let mut last = rev(&world);
    let mut rises = |world: &World| {
        let now = rev(world);
        let risen = now > last;
        last = now;
        risen
    };
    world.submit("r", ONE);
    assert!(rises(&world), "grant");
    world.advert("n").unwrap();
    assert!(!rises(&world), "renewal");
    world.drain("n", Drain::Graceful).unwrap();
    assert!(rises(&world), "drain");
    world.cancel("r").unwrap();
    assert!(rises(&world), "release");
}

/// Otherwise its lease would end before its advert, and one Run after another be given to a machine that is gone, while its
/// agent may work on in good faith.
#[test]
fn a_lease_that_is_granted_within_the_grace_of_a_planned_stop_lasts_as_long_as_that() {
    let grace = shared::Duration::from_secs(300);
    let mut world = World::with(&["n"]);
    world.settings.restart_grace = Some(grace);
    world.advert("n").unwrap();
    let until = world.now + grace;
    world.settings.restart_grace = None;
    world.wait(10);
    world.advert("n").unwrap();
    world.submit("r", ONE);
    world.submit("next", ONE);
    world.claim("n").unwrap();
    // It is never heard again.
    for _ in 0..4 {
        world.wait(70);
        world.apply(&shared::domain::Reap).unwrap();
        assert_eq!((world.state("r"), world.state("next")), ("RUNNING", "QUEUED"));
    }
    world.now = until;
    world.apply(&shared::domain::Reap).unwrap();
    assert_eq!((world.state("r"), world.state("next")), ("FAILED", "QUEUED"));
}

#[test]
fn what_a_stopping_mediator_promised_is_not_taken_back() {
    let grace = shared::Duration::from_secs(300);
    let mut world = World::with(&["n"]);
    world.submit("r", TWO);
    world.claim("n").unwrap();
    let rev = world.fleet.rev;
    world.settings.restart_grace = Some(grace);
    world.agent("n").running = vec![(crate::world::run_id("r"), 0, 1)];
    world.advert("n").unwrap();
    assert!(world.fleet.rev > rev, "other mediators must learn of it");
    let until = world.now + grace;
    world.settings.restart_grace = None;
    let promised = |world: &World| {
        let id = node_id("n");
        (world.fleet.node(&id).unwrap().expires_at, world.fleet.lease(&id).unwrap().not_after)
    };
    assert_eq!(promised(&world), (until, until));
    // Neither by the start of the next mediator, nor by an advert that it answers.
    world.fleet.reaped_at = Some(world.now);
    world.wait(100);
    world.apply(&shared::domain::Rescan::Startup).unwrap();
    assert_eq!(promised(&world), (until, until));
    world.advert("n").unwrap();
    assert_eq!(promised(&world), (until, until));
    // Once the normal horizon reaches further, it counts again.
    world.wait(190);
    world.advert("n").unwrap();
    let normal = world.now + world.settings.horizon();
    assert_eq!(promised(&world), (normal, normal));
}

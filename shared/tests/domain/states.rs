//! Every state of a Run and of a step against every event. `states.txt` is the table; a pair that is not in it
//! does not exist. WAITING and ASKED cannot be reached yet.

use std::fmt::Write;

use shared::{
    Nonce,
    domain::{ClaimedStep, Drain, FailReason, Outcome, Refusal, Report},
};

use crate::world::{TWO, World, node_id, run_id};

/// `w` on m decides whether `s` on n or `o` on m goes on; `z` on m is the end.
const FORK: &str = "{requires: [{as: b, capability: build, count: 2}],
    steps: [{id: w, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [s, o]}},
            {id: s, uses: 'b[1]', run: [x]}, {id: o, uses: b, run: [x]}, {id: z, uses: b, run: [x], needs: [s, o]}]}";

/// A world in which Run `r` stands somewhere, and the step `s` as it was claimed, if it was.
type Moment = (World, Option<ClaimedStep>);
type Prepare = fn() -> Moment;

fn submitted() -> World {
    let mut world = World::with(&["m", "n"]);
    world.submit("r", FORK);
    world
}

fn decided(pick: &str) -> World {
    let mut world = submitted();
    let step = world.claim("m").unwrap();
    world.report_pick("m", &step, pick).unwrap();
    world
}

fn claimed() -> (World, ClaimedStep) {
    let mut world = decided("s");
    let step = world.claim("n").unwrap();
    (world, step)
}

const MOMENTS: [(&str, Prepare); 9] = [
    ("run QUEUED", || {
        let mut world = World::with(&["m", "n"]);
        world.submit("holder", TWO);
        world.submit("r", FORK);
        (world, None)
    }),
    ("run RUNNING, step PENDING", || {
        let mut world = submitted();
        world.claim("m").unwrap();
        (world, None)
    }),
    ("run RUNNING, step PENDING and ready", || (decided("s"), None)),
    ("run RUNNING, step CLAIMED", || {
        let (world, step) = claimed();
        (world, Some(step))
    }),
    ("run RUNNING, step DONE", || {
        let (mut world, step) = claimed();
        world.report("n", &step, 0).unwrap();
        (world, Some(step))
    }),
    ("run RUNNING, step SKIPPED", || (decided("o"), None)),
    ("run FAILED, step FAILED", || {
        let (mut world, step) = claimed();
        world.report_lost("n", &step).unwrap();
        (world, Some(step))
    }),
    ("run FAILED, step SKIPPED", || {
        let mut world = submitted();
        world.cancel("r").unwrap();
        (world, None)
    }),
    ("run SUCCEEDED, step DONE", || {
        let (mut world, step) = claimed();
        world.report("n", &step, 0).unwrap();
        world.work("m");
        (world, Some(step))
    }),
];

/// A report of `s`, whether or not it was ever claimed.
fn report(world: &World, step: Option<&ClaimedStep>, outcome: Outcome) -> Report {
    let lease = world.fleet.lease(&node_id("n"));
    Report {
        who: world.speaker("n"),
        run: run_id("r"),
        seq: 1,
        attempt: step.map_or(1, |step| step.attempt),
        nonce: step.map(|step| step.nonce).or(lease.map(|lease| lease.nonce)).unwrap_or(Nonce::from_bits(0)),
        outcome,
        produced: Vec::new(),
        fork_value: None,
        invalid: None,
        log_bytes: 0,
    }
}

fn said<T>(answer: Result<T, Refusal>, say: impl FnOnce(T) -> String) -> String {
    answer.map_or_else(|refusal| format!("refused: {refusal}"), say)
}

/// An event on the node n, and what its sender is told.
type Event = fn(&mut World, Option<&ClaimedStep>) -> String;

const EVENTS: [(&str, Event); 14] = [
    ("claim", |world, _| {
        let claimed = world.try_claim("n");
        said(claimed, |step| step.map_or_else(|| "nothing".to_owned(), |it| format!("{}#{}", it.name, it.attempt)))
    }),
    ("report ok", |world, step| {
        let report = report(world, step, Outcome::Completed { exit_code: 0 });
        said(world.apply(&report), |reply| format!("{} {}", reply.step_state, reply.run_state))
    }),
    ("report bad exit", |world, step| {
        let report = report(world, step, Outcome::Completed { exit_code: 1 });
        said(world.apply(&report), |reply| format!("{} {}", reply.step_state, reply.run_state))
    }),
    ("report not completed", |world, step| {
        let outcome = Outcome::NotCompleted { reason: FailReason::Timeout, message: "too long".to_owned() };
        let report = report(world, step, outcome);
        said(world.apply(&report), |reply| format!("{} {}", reply.step_state, reply.run_state))
    }),
    ("cancel", |world, _| said(world.cancel("r"), |run| run.state.as_str().to_owned())),
    ("drain graceful", |world, _| said(world.drain("n", Drain::Graceful), |it| format!("{} lease", it.leases.len()))),
    ("drain at-boundary", |world, _| {
        said(world.drain("n", Drain::AtBoundary), |it| format!("{} lease", it.leases.len()))
    }),
    ("stopping", |world, _| {
        world.agent("n").stopping = true;
        said(world.advert("n"), |it| format!("{} lease", it.leases.len()))
    }),
    ("advert", |world, _| said(world.advert("n"), |it| format!("{} lease", it.leases.len()))),
    ("lease expired", |world, _| {
        world.wait(50);
        world.advert("m").unwrap();
        world.wait(10);
        format!("{} expired", world.reap())
    }),
    ("restart, nothing finished", |world, _| said(world.restart("n", &[]), |it| format!("{} lease", it.leases.len()))),
    ("restart, step finished", |world, step| {
        let finished: Vec<&ClaimedStep> = step.into_iter().collect();
        said(world.restart("n", &finished), |it| format!("{} lease", it.leases.len()))
    }),
    ("submit the same", |world, _| {
        let submit = world.command("r", FORK);
        said(world.apply(&submit), |it| format!("existing {}", it.existing))
    }),
    ("submit another", |world, _| {
        let submit = world.command("r", TWO);
        said(world.apply(&submit), |it| format!("existing {}", it.existing))
    }),
];

#[test]
fn every_state_against_every_event() {
    let mut table = String::new();
    for (moment, prepare) in MOMENTS {
        let (world, _) = prepare();
        writeln!(table, "{moment}\n    {}", standing(&world)).unwrap();
        for (event, act) in EVENTS {
            let (mut world, step) = prepare();
            let before = standing(&world);
            let told = act(&mut world, step.as_ref());
            let after = standing(&world);
            let after = if after == before { "as it was" } else { &after };
            writeln!(table, "  {event}: {told}\n    {after}").unwrap();
        }
    }
    let wanted = include_str!("states.txt");
    for (number, (line, wanted)) in table.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(line, wanted, "states.txt:{}, all of it:\n{table}", number + 1);
    }
    assert_eq!(table.lines().count(), wanted.lines().count(), "\n{table}");
}

/// The Run, and who holds n.
fn standing(world: &World) -> String {
    format!("{}, n: {}", world.show("r"), world.lease("n").unwrap_or_else(|| "free".to_owned()))
}

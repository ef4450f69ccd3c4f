//! Forks: what is picked, what is skipped, and what judging makes of it.

use shared::domain::{Holds, Report, RunState};

use crate::world::{World, run_id};

/// `judge` forks to `ship` and `repair`; `pack` follows `ship`, `last` joins both.
fn contract(more: &str) -> String {
    format!(
        "{{requires: [{{as: b, capability: build}}],
          steps: [{{id: judge, uses: b, run: [x], out: [v], dispatch: {{from: v#/o, to: [ship, repair]}}}},
                  {{id: ship, uses: b, run: [x], out: [receipt]}},
                  {{id: repair, uses: b, run: [x]}},
                  {{id: pack, uses: b, run: [x], needs: [ship]}},
                  {{id: last, uses: b, run: [x], needs: [pack, repair]}}]{more}}}"
    )
}

fn picked(pick: &str, more: &str) -> World {
    let mut world = World::with(&["n"]);
    world.submit("r", &contract(more));
    let step = world.claim("n").unwrap();
    world.report_pick("n", &step, pick).unwrap();
    world
}

/// `name: chosen picked` of the targets.
fn flags(world: &World) -> Vec<(bool, Option<bool>)> {
    world.run("r").steps[1..3].iter().map(|step| (step.chosen, step.picked)).collect()
}

fn finish(world: &mut World) {
    while let Some(step) = world.claim("n") {
        world.report("n", &step, 0).unwrap();
    }
}

#[test]
fn the_picked_way_is_taken_and_skipping_spreads() {
    let mut world = picked("repair", "");
    assert_eq!(world.show("r"), "RUNNING: judge=DONE ship=SKIPPED repair=PENDING pack=SKIPPED last=PENDING");
    assert_eq!(flags(&world), [(false, Some(false)), (true, Some(true))]);
    finish(&mut world);
    assert_eq!(world.show("r"), "SUCCEEDED judged: judge=DONE ship=SKIPPED repair=DONE pack=SKIPPED last=DONE");

    let mut world = picked("ship", "");
    assert_eq!(flags(&world), [(true, Some(true)), (false, Some(false))]);
    finish(&mut world);
    assert_eq!(world.show("r"), "SUCCEEDED judged: judge=DONE ship=DONE repair=SKIPPED pack=DONE last=DONE");
}

#[test]
fn a_value_outside_the_fork_fails_the_step() {
    for value in [Some(Ok("deploy".to_owned())), Some(Err("no such file".to_owned())), None] {
        let mut world = World::with(&["n"]);
        world.submit("r", &contract(""));
        let step = world.claim("n").unwrap();
        let mut report = world.report_of("n", &step, 0);
        report.fork_value = value;
        assert_eq!(world.apply(&report).unwrap().step_state, "FAILED");
        assert_eq!(
            world.show("r"),
            "FAILED step_failed: judge=FAILED ship=SKIPPED repair=SKIPPED pack=SKIPPED last=SKIPPED"
        );
        assert_eq!(flags(&world), [(false, None), (false, None)]);
    }
}

#[test]
fn a_join_runs_when_one_of_its_needs_ran_and_none_is_open() {
    let mut world = World::with(&["m", "n"]);
    let text = "{requires: [{as: b, capability: build, count: 2}],
        steps: [{id: f, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [p, q]}},
                {id: p, uses: b, run: [x]}, {id: q, uses: b, run: [x]},
                {id: side, uses: 'b[1]', run: [x], needs: []},
                {id: join, uses: b, run: [x], needs: [q, side]}]}";
    world.submit("r", text);
    let side = world.claim("n").unwrap();
    let fork = world.claim("m").unwrap();
    world.report_pick("m", &fork, "p").unwrap();
    world.work("m");
    assert_eq!(world.show("r"), "RUNNING: f=DONE p=DONE q=SKIPPED side=CLAIMED join=PENDING");
    assert_eq!(world.claim("m"), None);
    world.report("n", &side, 0).unwrap();
    assert_eq!(world.claim("m").unwrap().name.as_str(), "join");
}

#[test]
fn a_step_that_was_picked_and_is_out_of_reach_is_told_apart_and_fails_the_run() {
    // g does not pick m, so that p, which f picked, cannot be reached.
    let text = |more: &str| {
        format!(
            "{{requires: [{{as: b, capability: build}}],
        steps: [{{id: f, uses: b, run: [x], out: [v], dispatch: {{from: v#/o, to: [p, q]}}}},
                {{id: g, uses: b, run: [x], needs: [f], out: [v], dispatch: {{from: v#/o, to: [m, k]}}}},
                {{id: m, uses: b, run: [x]}}, {{id: k, uses: b, run: [x]}},
                {{id: p, uses: b, run: [x], needs: [m]}},
                {{id: q, uses: b, run: [x]}}]{more}}}"
        )
    };
    let mut world = World::with(&["n"]);
    world.submit("r", &text(""));
    let step = world.claim("n").unwrap();
    world.report_pick("n", &step, "p").unwrap();
    let step = world.claim("n").unwrap();
    world.report_pick("n", &step, "k").unwrap();
    // Without conditions the first step that ends otherwise decides.
    assert_eq!(world.show("r"), "FAILED judged: f=DONE g=DONE m=SKIPPED k=SKIPPED p=SKIPPED q=SKIPPED");
    let p = &world.run("r").steps[4];
    assert_eq!((p.chosen, p.picked), (true, Some(true)));

    // With conditions only they decide, and one on a step that was picked is not vacuous.
    for (condition, wanted) in [
        ("{step: k, exit_code: 0}", "SUCCEEDED"),
        ("{step: k, exit_code: 0}, {step: q, exit_code: 0}", "SUCCEEDED"),
        ("{step: k, exit_code: 0}, {step: p, exit_code: 0}", "FAILED"),
    ] {
        let mut world = World::with(&["n"]);
        world.submit("r", &text(&format!(", success_when: [{condition}]")));
        let step = world.claim("n").unwrap();
        world.report_pick("n", &step, "p").unwrap();
        let step = world.claim("n").unwrap();
        world.report_pick("n", &step, "k").unwrap();
        finish(&mut world);
        assert_eq!(world.state("r"), wanted, "{condition}");
    }
}

#[test]
fn conditions_judge_as_they_are_written() {
    for (conditions, pick, wanted, findings) in [
        ("{step: ship, exit_code: 0}", "ship", "SUCCEEDED", "ship: exit_code = 0 (was 0) held"),
        ("{step: ship, exit_code: 3}", "ship", "FAILED", "ship: exit_code = 3 (was 0) failed"),
        // Nothing evaluated is not success.
        ("{step: ship, exit_code: 0}", "repair", "FAILED", "ship: was skipped vacuous"),
        (
            "{step: ship, exit_code: 0}, {step: judge, exit_code: 0}",
            "repair",
            "SUCCEEDED",
            "ship: was skipped vacuous; judge: exit_code = 0 (was 0) held",
        ),
        (
            "{step: ship, required: true}, {step: judge, exit_code: 0}",
            "repair",
            "FAILED",
            "ship: was skipped failed; judge: exit_code = 0 (was 0) held",
        ),
        ("{step: ship, required: true}", "ship", "SUCCEEDED", "ship: was reached held"),
        (
            "{step: ship, produced: [receipt], within_attempts: 1}",
            "ship",
            "SUCCEEDED",
            "ship: produced receipt held; ship: within_attempts 1 (took 1) held",
        ),
    ] {
        let mut world = picked(pick, &format!(", success_when: [{conditions}]"));
        finish(&mut world);
        assert_eq!(world.state("r"), wanted, "{conditions} with {pick}");
        let said: Vec<String> = world
            .run("r")
            .state
            .verdict()
            .unwrap()
            .findings
            .iter()
            .map(|it| format!("{} {}", it.condition, it.holds.as_str()))
            .collect();
        assert_eq!(said.join("; "), findings, "{conditions} with {pick}");
    }
}

#[test]
fn a_file_that_was_named_and_not_left_fails_its_condition() {
    let mut world = picked("ship", ", success_when: [{step: ship, produced: [receipt]}]");
    let step = world.claim("n").unwrap();
    let mut report = world.report_of("n", &step, 0);
    report.produced.clear();
    world.apply(&report).unwrap();
    finish(&mut world);
    let RunState::Failed(verdict) = &world.run("r").state else { panic!("{}", world.show("r")) };
    assert_eq!(verdict.findings[0].holds, Holds::Failed);
}

#[test]
fn without_conditions_the_first_bad_exit_decides_and_with_them_only_the_end_does() {
    let mut world = World::with(&["n"]);
    world.submit("r", crate::world::TWO);
    let step = world.claim("n").unwrap();
    world.report("n", &step, 7).unwrap();
    assert_eq!(world.show("r"), "FAILED judged: s=DONE t=SKIPPED");

    let mut world = World::with(&["n"]);
    let text = crate::world::TWO.replace("]}]}", "]}], success_when: [{step: t, exit_code: 0}]}");
    world.submit("r", &text);
    let step = world.claim("n").unwrap();
    world.report("n", &step, 7).unwrap();
    assert_eq!(world.show("r"), "RUNNING: s=DONE t=PENDING");
    world.work("n");
    assert_eq!(world.show("r"), "SUCCEEDED judged: s=DONE t=DONE");
}

#[test]
fn a_role_is_given_back_only_if_no_other_role_keeps_its_node() {
    // Both roles are on the one node.
    let mut world = World::with(&["n"]);
    let text = "{requires: [{as: a, capability: build}, {as: b, capability: build}],
        steps: [{id: s, uses: a, run: [x], release: [a]}, {id: t, uses: b, run: [x]}]}";
    world.submit("r", text);
    world.work("n");
    assert_eq!(world.lease("n").as_deref(), Some("r"));
    world.work("n");
    assert_eq!(world.state("r"), "SUCCEEDED");
}

#[test]
fn inputs_come_from_the_steps_that_ran() {
    let mut world = World::with(&["n"]);
    let text = "{requires: [{as: b, capability: build}],
        steps: [{id: f, uses: b, run: [x], out: [v, d/g], dispatch: {from: v#/o, to: [p, q]}},
                {id: p, uses: b, run: [x], out: [a]}, {id: q, uses: b, run: [x], out: [a]},
                {id: last, uses: b, run: [x], needs: [p, q], in: {from: [a, f/v, d/g]}}]}";
    world.submit("r", text);
    let step = world.claim("n").unwrap();
    world.report_pick("n", &step, "q").unwrap();
    world.work("n");
    let last = world.claim("n").unwrap();
    let files: Vec<String> = last.inputs.iter().map(|it| format!("{}/{} as {}", it.seq, it.name, it.path)).collect();
    assert_eq!(files, ["2/a as a", "0/d/g as d/g", "0/v as v"]);
}

#[test]
fn two_steps_that_leave_the_same_name_are_laid_out_apart() {
    let mut world = World::with(&["n"]);
    let text = "{requires: [{as: b, capability: build}],
        steps: [{id: p, uses: b, run: [x], out: [a]}, {id: q, uses: b, run: [x], out: [a]},
                {id: last, uses: b, run: [x], in: {from: [a]}}]}";
    world.submit("r", text);
    world.work("n");
    world.work("n");
    let last = world.claim("n").unwrap();
    let files: Vec<&str> = last.inputs.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(files, ["p/a", "q/a"]);
}

#[test]
fn a_missing_input_fails_the_step_and_frees_the_node() {
    let mut world = World::with(&["n"]);
    let text = "{requires: [{as: b, capability: build}],
        steps: [{id: p, uses: b, run: [x], out: [a]}, {id: q, uses: b, run: [x], in: {from: [a]}}]}";
    world.submit("r", text);
    world.submit("next", crate::world::ONE);
    let step = world.claim("n").unwrap();
    let mut report = world.report_of("n", &step, 0);
    report.produced.clear();
    world.apply(&report).unwrap();
    assert_eq!(world.claim("n"), None);
    assert_eq!(world.show("r"), "FAILED step_failed: p=DONE q=FAILED");
    world.expect_promoted("next", shared::domain::Wake::RunSettled);
    assert!(world.changes.sealed.contains(&run_id("r")));
}

#[test]
fn what_a_fork_before_a_loop_left_aside_stays_aside_in_every_pass() {
    let mut world = World::with(&["a"]);
    // `u` is decided against before the range; `w` needs only what was decided against, and stands in the range.
    let contract = "{requires: [{as: b, capability: build}],
        steps: [{id: f, uses: b, run: [x], out: [v], dispatch: {from: v#/pick, to: [s, t]}},
                {id: s, uses: b, run: [x], needs: [f]}, {id: t, uses: b, run: [x], needs: [f]},
                {id: w, uses: b, run: [x], needs: [t]},
                {id: last, uses: b, run: [x], needs: [s, t, w], loop: {back_to: s, max: 2}}]}";
    world.submit("r", contract);
    let step = world.claim("a").unwrap();
    world.report_pick("a", &step, "s").unwrap();
    world.work("a");
    world.work("a");
    assert_eq!(world.show("r"), "RUNNING: f=DONE s=PENDING t=SKIPPED w=SKIPPED last=PENDING");
    assert_eq!(world.claim("a").unwrap().name.as_str(), "s");
}

#[test]
fn a_loop_is_decided_before_the_fork_of_its_last_step() {
    let mut world = World::with(&["a"]);
    let contract = "{requires: [{as: b, capability: build}],
        steps: [{id: judge, uses: b, run: [x], out: [v], dispatch: {from: v#/pick, to: [s, t]},
                 loop: {back_to: judge, max: 2, until: {exit_code: 0}}},
                {id: s, uses: b, run: [x], needs: [judge]}, {id: t, uses: b, run: [x], needs: [judge]}]}";
    world.submit("r", contract);
    // It leaves no verdict in a pass that goes back anyway.
    let step = world.claim("a").unwrap();
    let report = Report {
        produced: Vec::new(),
        fork_value: Some(Err("the step left no v".to_owned())),
        ..world.report_of("a", &step, 1)
    };
    world.apply(&report).unwrap();
    assert_eq!(world.show("r"), "RUNNING: judge=PENDING s=PENDING t=PENDING");
    let step = world.claim("a").unwrap();
    world.report_pick("a", &step, "t").unwrap();
    assert_eq!(world.show("r"), "RUNNING: judge=DONE s=SKIPPED t=PENDING");
}

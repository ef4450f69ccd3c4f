//! Bad input gets an error that says where, what and what instead; nothing stored is lost.

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines};

use crate::gate::{on_builder, quick};

on_both_engines! {
    fn a_bad_contract_is_refused_with_place_and_reason(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let big = format!("# {}\n{}", "x".repeat(2 << 20), quick("big"));
        let cases = [
            (on_builder("a", "  - {id: s, uses: builder, run: ['true'], colour: red}\n"), "colour"),
            (on_builder("b", "  - {id: s, uses: builder, needs: [t], run: ['true']}\n  - {id: t, uses: builder, needs: [s], run: ['true']}\n"), "needs"),
            (on_builder("c", "  - {id: s, uses: tester, run: ['true']}\n"), "tester"),
            (on_builder("d", "  - {id: s, uses: builder, run: ['true'], loop: {back_to: t, max: 2}}\n"), "no step t"),
            (on_builder("e", "  - {id: s, uses: builder, run: [echo, '$NOPE']}\n"), "NOPE"),
            (big, "1048576 bytes"),
        ];
        for (text, said) in cases {
            let file = mediator.home.path().join("bad.yaml");
            std::fs::write(&file, &text).unwrap();
            let ran = mediator.cli(&["submit", file.to_str().unwrap()]);
            assert_eq!(ran.code, 2, "{said}: {ran:?}");
            assert!(ran.stderr.contains(said), "{said} in {}", ran.stderr);
        }
        // What is wrong with the text itself is said with its place, LINE:COLUMN.
        for (text, place) in [("requires: [\n", "1:11"), ("requires:\n  - {as: b, capability: build}\nsteps: 7\n", "3:8")] {
            let file = mediator.home.path().join("bad.yaml");
            std::fs::write(&file, text).unwrap();
            let ran = mediator.cli(&["submit", file.to_str().unwrap()]);
            assert_eq!(ran.code, 2, "{ran:?}");
            assert!(ran.stderr.contains(&format!("{place}: ")), "{place} in {}", ran.stderr);
        }
        assert_eq!(mediator.json(&["runs"])["runs"].as_array().unwrap().len(), 0, "nothing was stored");
    }

    fn an_output_above_the_limit_is_the_steps_own_failure_and_loses_nothing_else(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start_with(&mediator, &AgentOptions { extra: "artifact_bytes = 100000\n", ..AgentOptions::builder("n1") });
        mediator.wait_node("n1", "is listed", |_| true);
        mediator.submit(&on_builder(
            "full",
            "  - {id: full, uses: builder, run: [sh, -c, 'echo before; head -c 200000 /dev/zero > $OUT/huge'], out: [huge]}\n",
        ));
        let page = mediator.wait_state("full", "FAILED");
        let step = step_of(&page, "full");
        assert_eq!(step["reason"], "output_refused");
        assert!(step["message"].as_str().unwrap().contains("huge"), "{step}");
        assert_eq!(mediator.cli(&["logs", "full", "full"]).ok().stdout, "before\n");
        mediator.submit(&quick("next"));
        mediator.wait_state("next", "SUCCEEDED");
        drop(agent);
    }
}

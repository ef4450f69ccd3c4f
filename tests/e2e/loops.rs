//! Loops: what programs see of a pass, when it ends, and what it gives back on the way.

use tests::{Agent, AgentOptions, Engine, Mediator, mediator::step_of, on_both_engines};

use crate::{gate::on_builder, harness::start_agent};

on_both_engines! {
    fn a_loop_goes_on_until_it_holds_and_programs_see_the_round(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let looping = |id: &str, max: u32, within: u32| on_builder(id, &format!(
            "  - {{id: fix, uses: builder, run: [sh, -c, 'echo fix round $ROUND attempt $ATTEMPT; echo $ROUND > $OUT/n'], out: [n]}}\n  \
             - {{id: check, uses: builder, in: {{from: [n]}}, run: [sh, -c, 'echo check $(cat $IN/n); test $ROUND -ge 2'], \
             loop: {{back_to: fix, max: {max}, until: {{exit_code: 0}}}}}}\n\
             success_when:\n  - {{step: check, exit_code: 0, within_attempts: {within}}}\n"
        )).replace("$(cat", "$$(cat");
        mediator.submit(&looping("holds", 5, 3));
        let page = mediator.wait_state("holds", "SUCCEEDED");
        for step in ["fix", "check"] {
            let step = step_of(&page, step);
            assert_eq!((step["attempt"].as_u64(), step["round"].as_u64()), (Some(3), Some(2)), "{step}");
        }
        let said = mediator.cli(&["logs", "holds"]).ok().stdout;
        for round in 0..3 {
            let attempt = round + 1;
            assert!(said.contains(&format!("fix round {round} attempt {attempt}")) && said.contains(&format!("check {round}")), "{said}");
        }
        // At max it goes on, and what it came to is for the conditions to say.
        mediator.submit(&looping("ends", 2, 9));
        let page = mediator.wait_state("ends", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "judged");
        assert_eq!(step_of(&page, "check")["attempt"], 2);
        mediator.submit(&looping("slow", 5, 2));
        let page = mediator.wait_state("slow", "FAILED");
        assert!(page["findings"].to_string().contains("within_attempts"), "{page}");
    }

    fn a_role_that_was_acquired_in_the_range_is_given_back_by_a_rewind(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let capabilities = "[[capability]]\nname = \"test\"\n";
        let _tester = Agent::start_with(&mediator, &AgentOptions { capabilities, ..AgentOptions::builder("n2") });
        mediator.wait_node("n2", "is listed", |_| true);
        mediator.submit(&on_builder("loops", "  - {id: more, acquire: {as: extra, capability: test}}\n  \
             - {id: use, uses: extra, run: [sh, -c, 'echo round $ROUND; test $ROUND = 1'], loop: {back_to: more, max: 3, until: {exit_code: 0}}}\n"));
        let page = mediator.wait_state("loops", "SUCCEEDED");
        assert_eq!((step_of(&page, "use")["attempt"].as_u64(), step_of(&page, "more")["round"].as_u64()), (Some(2), Some(1)));
        let granted = "SELECT count(*) FROM events WHERE kind = 'lease.granted' AND node_id = 'n2'";
        assert_eq!(mediator.sql(granted).trim(), "2", "once for each pass");
        assert_eq!(mediator.leases().len(), 0);
    }

    // The whole of it: an agent mends, a test judges, a person has the last word, and sends it back once.
    fn an_agent_a_test_and_a_person_in_one_loop(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = start_agent(&mediator, "n1");
        mediator.submit(
            "run_id: whole\nrequires: [{as: coder, capability: agent, attrs: {harness: default}}]\nsteps:\n  \
             - id: mend\n    uses: coder\n    max_attempts: 2\n    agent:\n      prompt: |\n        \
             leave patch.txt round $ROUND\n        [attempt 1] answer {}\n        [attempt 2] answer {\"done\": true}\n        [attempt 3] answer {\"done\": true}\n      \
             schema: {type: object, required: [done]}\n    out: [patch.txt]\n  \
             - {id: review, ask: {question: Good enough?, form: {type: object, required: [good]}}}\n  \
             - {id: test, uses: coder, in: {from: [review/answer.json, mend/patch.txt]}, run: [sh, -c, 'cat $IN/patch.txt; grep -q true $IN/answer.json'], \
             loop: {back_to: mend, max: 3, until: {exit_code: 0}}}\n",
        );
        mediator.wait_step("whole", "review", "ASKED");
        mediator.cli(&["answer", "whole", "good=false"]).ok();
        tests::wait_until("it asks again", || {
            let step = step_of(&mediator.show("whole"), "review");
            step["state"] == "ASKED" && step["attempt"] == 2
        });
        // An answer to the question of the round before is not taken for one to this.
        assert_eq!(mediator.cli(&["answer", "whole", "good=true", "--attempt", "1"]).code, 2);
        mediator.cli(&["answer", "whole", "good=true", "--attempt", "2"]).ok();
        let page = mediator.wait_state("whole", "SUCCEEDED");
        assert_eq!((step_of(&page, "mend")["attempt"].as_u64(), step_of(&page, "mend")["round"].as_u64()), (Some(3), Some(1)));
        assert!(mediator.cli(&["logs", "whole", "test"]).ok().stdout.contains("round 1"));
    }
}

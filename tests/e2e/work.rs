//! Steps on a node: files, logs, environment, time limits, forks, and the Record they leave.

use std::process::Command;

use tests::{
    Agent, AgentOptions, Engine, Mediator,
    mediator::{run, step_of},
    on_both_engines, wait_until,
};

use crate::gate::{Gate, on_builder};

fn fork(outcome: &str) -> String {
    format!(
        "run_id: forked
requires:
  - {{as: builder, capability: build}}
  - {{as: judge, capability: judge}}
steps:
  - {{id: test, uses: builder, run: [sh, -c, 'echo made > $OUT/report.txt; mkdir $OUT/more; echo x > $OUT/more/a'], out: [report.txt, more]}}
  - id: judge
    uses: judge
    in: {{from: [report.txt, more]}}
    run: [sh, -c, 'grep -q made $IN/report.txt && cat $IN/more/a && echo \"{{\\\"outcome\\\": \\\"{outcome}\\\"}}\" > $OUT/verdict.json']
    out: [verdict.json]
    dispatch: {{from: 'verdict.json#/outcome', to: [ship, repair]}}
  - {{id: ship, uses: builder, needs: [judge], run: [sh, -c, 'echo shipped > $OUT/receipt'], out: [receipt]}}
  - {{id: repair, uses: builder, needs: [judge], run: ['false']}}
  - {{id: after, uses: builder, needs: [ship, repair], run: ['true']}}
success_when:
  - {{step: test, exit_code: 0}}
  - {{step: ship, produced: [receipt], required: true}}
"
    )
}

fn judge() -> AgentOptions<'static> {
    AgentOptions { capabilities: "[[capability]]\nname = \"judge\"\n", ..AgentOptions::builder("n2") }
}

on_both_engines! {
    fn a_fork_goes_one_way_and_says_which(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let _judge = Agent::start_with(&mediator, &judge());
        mediator.wait_node("n2", "is listed", |_| true);
        mediator.submit(&fork("ship"));
        let page = mediator.wait_state("forked", "SUCCEEDED");
        assert_eq!((step_of(&page, "ship")["state"].as_str(), step_of(&page, "ship")["chosen"].as_bool()), (Some("DONE"), Some(true)));
        assert_eq!((step_of(&page, "repair")["state"].as_str(), step_of(&page, "repair")["chosen"].as_bool()), (Some("SKIPPED"), Some(false)));
        assert_eq!(step_of(&page, "after")["state"], "DONE");
        assert_eq!(step_of(&page, "judge")["node"], "n2");

        // The Record: sealed, reproducible, and without a nonce or a principal.
        wait_until("the record is sealed", || mediator.show("forked")["sealed_at"].is_string());
        let (one, two) = (mediator.home.path().join("one.tar"), mediator.home.path().join("two.tar"));
        for out in [&one, &two] {
            mediator.cli(&["record", "forked", "--out", out.to_str().unwrap()]).ok();
        }
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
        let listed = run(Command::new("tar").arg("-tf").arg(&one)).ok().stdout;
        for name in ["manifest.json", "steps/", "logs/", "blobs/"] {
            assert!(listed.contains(name), "{name} in {listed}");
        }
        let manifest = run(Command::new("tar").arg("-xOf").arg(&one).args(["--wildcards", "*manifest.json"])).ok().stdout;
        assert!(manifest.contains("\"judged\"") && !manifest.contains("nonce") && !manifest.contains("principal"), "{manifest}");
    }

    fn a_fork_to_the_other_side_fails_what_was_required(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let _judge = Agent::start_with(&mediator, &judge());
        mediator.wait_node("n2", "is listed", |_| true);
        mediator.submit(&fork("repair"));
        let page = mediator.wait_state("forked", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "judged");
        assert_eq!(step_of(&page, "repair")["chosen"], true);
        assert_eq!(step_of(&page, "ship")["chosen"], false);
    }

    fn a_value_outside_the_fork_fails_the_step(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _builder = Agent::start(&mediator, "n1");
        let _judge = Agent::start_with(&mediator, &judge());
        mediator.wait_node("n2", "is listed", |_| true);
        mediator.submit(&fork("elsewhere"));
        let page = mediator.wait_state("forked", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "step_failed");
        let judge = step_of(&page, "judge");
        assert_eq!(judge["reason"], "invalid_output");
        assert!(judge["message"].as_str().unwrap().contains("elsewhere"), "{judge}");
    }

    fn a_step_sees_its_environment_and_its_folders(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&on_builder(
            "seen",
            "  - {id: one, uses: builder, env: {GREETING: hello}, run: [sh, -c, 'echo $GREETING $RUN_ID $STEP_ID $NODE_ID $ATTEMPT $ROUND; \
             echo kept > here; echo warm > $CACHE/warm; echo oops >&2']}\n  \
             - {id: two, uses: builder, run: [sh, -c, 'cat here $CACHE/warm; env | grep -c TOKEN || true']}\n",
        ));
        mediator.wait_state("seen", "SUCCEEDED");
        assert_eq!(mediator.cli(&["logs", "seen", "one"]).ok().stdout, "hello seen one n1 1 0\noops\n");
        assert_eq!(mediator.cli(&["logs", "seen", "two"]).ok().stdout, "kept\nwarm\n0\n");
    }

    fn a_time_limit_ends_a_step_and_its_children(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let proof = tempfile::tempdir().unwrap();
        let child = proof.path().join("child");
        mediator.submit(&on_builder(
            "slow",
            &format!(
                "  - {{id: slow, uses: builder, timeout: 500ms, run: [sh, -c, 'trap \"\" TERM; sleep 600 & echo $$! > {}; wait; sleep 600']}}\n",
                child.display()
            ),
        ));
        let page = mediator.wait_state("slow", "FAILED");
        assert_eq!(step_of(&page, "slow")["reason"], "timeout");
        let pid = std::fs::read_to_string(&child).unwrap().trim().to_owned();
        wait_until("the child is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    fn a_program_that_is_not_there_is_named(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&on_builder("lost", "  - {id: lost, uses: builder, run: [no-such-program-here]}\n"));
        let page = mediator.wait_state("lost", "FAILED");
        let step = step_of(&page, "lost");
        assert_eq!(step["reason"], "could_not_start");
        assert!(step["message"].as_str().unwrap().contains("no-such-program-here"), "{step}");
    }

    fn c13_a_cancelled_run_stops_its_process(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&on_builder("stopped", &format!("  - {{id: hold, uses: builder, run: {}}}\n", gate.step("hold"))));
        mediator.wait_step("stopped", "hold", "CLAIMED");
        wait_until("the process runs", || agent.status()["agent"]["nodes"][0]["live_processes"] == true);
        let page = mediator.json(&["cancel", "stopped"]);
        assert_eq!(page["verdict"]["cause"], "cancelled");
        wait_until("the process is gone", || agent.status()["agent"]["nodes"][0]["live_processes"] == false);
    }

    fn ten_thousand_files_come_through_256_descriptors(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        mediator.kill();
        mediator.restart_with_descriptors(256);
        let agent = Agent::start_with(&mediator, &AgentOptions { descriptors: Some(256), ..AgentOptions::builder("n1") });
        mediator.wait_node("n1", "is listed", |_| true);
        for pid in [mediator.pid(), agent.pid()] {
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let open = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
            assert_eq!(open.split_whitespace().nth(3), Some("256"), "{open}");
        }
        mediator.submit(&on_builder(
            "many",
            "  - {id: many, uses: builder, run: [sh, -c, 'i=0; mkdir $OUT/d; while [ $$i -lt 10000 ]; do echo $$i > $OUT/d/$$i; i=$$((i+1)); done'], out: [d]}\n  \
             - {id: count, uses: builder, in: {from: [d]}, run: [sh, -c, 'test $$(ls $IN/d | wc -l) = 10000 && test $$(cat $IN/d/9999) = 9999']}\n",
        ));
        let stored = || mediator.sql("SELECT count(*) FROM artifacts WHERE run_id = 'many'").trim().parse::<u32>().unwrap();
        // A slow machine takes its time, as long as it gets on.
        for part in [2_500, 5_000, 7_500, 10_000] {
            wait_until("more files are stored", || stored() >= part);
        }
        mediator.wait_step("many", "many", "DONE");
        mediator.wait_state("many", "SUCCEEDED");
        assert_eq!(stored(), 10_000);
    }

    // B21: a waiting client ends with the Run, whatever became of it.
    fn b21_submit_wait_ends_with_the_run(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        let file = mediator.home.path().join("waited.yaml");
        let text = on_builder("waited", &format!("  - {{id: hold, uses: builder, run: {}}}\n", gate.step_exiting("hold", 3)));
        std::fs::write(&file, text).unwrap();
        let mut client = mediator.spawn_cli(&["submit", file.to_str().unwrap(), "--wait"]);
        wait_until("the run is stored", || mediator.cli(&["show", "waited"]).code == 0);
        mediator.wait_step("waited", "hold", "CLAIMED");
        mediator.kill();
        mediator.restart();
        gate.open("hold");
        assert_eq!(client.wait().unwrap().code(), Some(1));
    }
}

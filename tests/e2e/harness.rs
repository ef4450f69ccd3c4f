//! `agent` steps: a configured command with a prompt, and the answer that it owes.

use tests::{
    Agent, AgentOptions, Engine, Mediator,
    mediator::{binary, step_of},
    on_both_engines, wait_until,
};

/// An agent whose node has harnesses that are all the fake agent, told and answering in different ways.
pub(crate) fn start_agent(mediator: &Mediator, name: &str) -> Agent {
    let fake = binary("fake-agent");
    let extra = format!(
        "[harness.default]\ncommand = [\"{fake}\"]\n\
         [harness.talks]\ncommand = [\"{fake}\", \"--brief\", \"{{prompt_file}}\", [\"--schema\", \"{{schema_file}}\"], \
         [\"--turns\", \"{{max_turns}}\"]]\nanswer = \"stdout\"\n\
         [harness.wraps]\ncommand = [\"{fake}\", \"--prompt\", \"{{prompt}}\"]\nanswer = \"stdout\"\npointer = \"/result/answer\"\n\
         [harness.absent]\ncommand = [\"no-such-agent-here\"]\n",
        fake = fake.display()
    );
    let capabilities = format!("{}\n{extra}", AgentOptions::builder(name).capabilities);
    let agent =
        Agent::start_with(mediator, &AgentOptions { capabilities: &capabilities, ..AgentOptions::builder(name) });
    mediator.wait_node(name, "is listed", |_| true);
    agent
}

const SCHEMA: &str = "{type: object, required: [verdict], properties: {verdict: {enum: [good, bad]}}}";

/// A contract of one agent step.
fn asked(id: &str, harness: &str, more: &str, prompt: &str) -> String {
    let prompt: String = prompt.lines().map(|line| format!("        {line}\n")).collect();
    format!(
        "run_id: {id}\nrequires:\n  - {{as: coder, capability: agent, attrs: {{harness: {harness}}}}}\nsteps:\n  - id: think\n    \
         uses: coder\n    env: {{WHO: world}}\n{more}    agent:\n      harness: {harness}\n      schema: {SCHEMA}\n      prompt: |\n{prompt}"
    )
}

fn log_of(mediator: &Mediator, run: &str) -> String {
    mediator.cli(&["logs", run, "think"]).ok().stdout
}

on_both_engines! {
    fn an_agent_is_told_on_stdin_and_answers_in_a_file(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = start_agent(&mediator, "n1");
        let prompt = "say hello $WHO of $RUN_ID, it costs 5$$\nturns 9\nleave more.txt beside\nanswer {\"verdict\": \"good\"}";
        mediator.submit(&asked("told", "default", "    out: [more.txt]\n", prompt));
        let page = mediator.wait_state("told", "SUCCEEDED");
        let step = step_of(&page, "think");
        assert_eq!((step["kind"].as_str(), step["attempt"].as_u64()), (Some("agent"), Some(1)), "{step}");
        assert_eq!(step["produced"], serde_json::json!(["more.txt", "answer.json"]), "the prompt is no output: {step}");
        assert_eq!(log_of(&mediator, "told"), "hello world of told, it costs 5$\ntook 9 turns\n");
        // The node says by itself what harnesses it has.
        let listed = mediator.cli(&["nodes", "--output", "json"]).ok().stdout;
        for name in ["default", "talks", "wraps"] {
            assert!(listed.contains(&format!("\"{name}\"")), "{name} in {listed}");
        }
    }

    fn an_answer_can_be_what_the_agent_prints_or_a_part_of_it(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = start_agent(&mediator, "n1");
        mediator.submit(&asked("talks", "talks", "", "say {\"verdict\":\nturns 0\nsay 1}"));
        mediator.submit(&asked("wraps", "wraps", "", "say {\"cost\": 3, \"result\": {\"answer\": {\"verdict\": \"good\"}}}"));
        let page = mediator.wait_state("wraps", "SUCCEEDED");
        assert_eq!(step_of(&page, "think")["produced"], serde_json::json!(["answer.json"]));
        assert!(log_of(&mediator, "wraps").contains("\"cost\": 3"), "what it printed is its log, too");
        let page = mediator.wait_state("talks", "FAILED");
        let step = step_of(&page, "think");
        assert_eq!(step["reason"], "invalid_output");
        assert!(step["message"].as_str().unwrap().contains("answer.json is not JSON"), "{step}");
        assert!(log_of(&mediator, "talks").contains("schema {\""), "{}", log_of(&mediator, "talks"));
        mediator.submit(&asked("nothing", "wraps", "", "say {\"cost\": 3}"));
        let step = step_of(&mediator.wait_state("nothing", "FAILED"), "think");
        assert_eq!(step["message"], "the step left no answer.json");
        assert!(log_of(&mediator, "nothing").contains("[enode] there is no answer.json: what it printed has nothing at /result/answer"));
    }

    fn an_answer_that_does_not_fit_is_asked_for_again(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = start_agent(&mediator, "n1");
        let prompt = "[attempt 1] answer {\"verdict\": \"so-so\"}\n[attempt 2] crash\n[attempt 3] answer {\"verdict\": \"good\"}\n\
                      say attempt $ATTEMPT round $ROUND";
        mediator.submit(&asked("again", "default", "    max_attempts: 3\n", prompt));
        let page = mediator.wait_state("again", "SUCCEEDED");
        assert_eq!(step_of(&page, "think")["attempt"], 3);
        let log = log_of(&mediator, "again");
        assert!(log.contains("attempt 1 round 0") && log.contains("attempt 3 round 0"), "{log}");
        mediator.submit(&asked("never", "default", "    max_attempts: 2\n", "answer {\"verdict\": \"so-so\"}"));
        let page = mediator.wait_state("never", "FAILED");
        let step = step_of(&page, "think");
        assert_eq!((step["attempt"].as_u64(), step["reason"].as_str()), (Some(2), Some("invalid_output")));
        let message = step["message"].as_str().unwrap();
        assert!(message.contains("does not fit its schema: /verdict: \"so-so\" is not one of"), "{message}");
        assert_eq!(page["run"]["verdict"]["cause"], "step_failed");
        // An exit code is no reason to try again: that is what a loop is for.
        mediator.submit(&asked("once", "default", "    max_attempts: 3\n", "answer {\"verdict\": \"good\"}\nexit 4"));
        let page = mediator.wait_state("once", "FAILED");
        let step = step_of(&page, "think");
        assert_eq!((step["attempt"].as_u64(), step["exit_code"].as_i64()), (Some(1), Some(4)));
    }

    fn an_agent_is_told_its_limits_and_ended_when_it_is_slow(engine: Engine) {
        let mediator = Mediator::start(engine);
        let agent = start_agent(&mediator, "n1");
        let limited = asked("limited", "talks", "", "turns 9").replace("      prompt:", "      max_turns: 3\n      prompt:");
        mediator.submit(&limited.replace(&format!("      schema: {SCHEMA}\n"), ""));
        mediator.wait_state("limited", "SUCCEEDED");
        let log = log_of(&mediator, "limited");
        assert!(log.contains("took 3 turns") && log.contains("turns 3") && !log.contains("schema"), "{log}");
        mediator.submit(&asked("slow", "default", "    timeout: 300ms\n    max_attempts: 2\n", "say on it\ndeaf"));
        let page = mediator.wait_state("slow", "FAILED");
        let step = step_of(&page, "think");
        assert_eq!((step["attempt"].as_u64(), step["reason"].as_str()), (Some(2), Some("timeout")));
        wait_until("nothing of it is left", || agent.status()["agent"]["nodes"][0]["live_processes"] == false);
    }

    /// What people copy works: the script, its configuration and the contract, as they are in the repository.
    fn the_example_harness_reads_its_prompt_and_answers(engine: Engine) {
        let mediator = Mediator::start(engine);
        let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let read = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
        let script = examples.join("harness/small-agent.sh").display().to_string();
        let configured = read("harness/harness.toml").replace("\"/usr/local/lib/fleet/small-agent.sh\"", &format!("{script:?}"));
        assert!(configured.contains(&script), "{configured}");
        let _agent =
            Agent::start_with(&mediator, &AgentOptions { capabilities: &configured, ..AgentOptions::builder("n1") });
        mediator.wait_node("n1", "is listed", |_| true);
        mediator.submit(&format!("run_id: read\n{}", read("contracts/ask-an-agent.yaml")));
        mediator.wait_state("read", "SUCCEEDED");
        let log = mediator.cli(&["logs", "read", "use"]).ok().stdout;
        assert!(log.contains(r#"{"summary": "read 17 words", "turns": 2}"#), "{log}");
        let log = mediator.cli(&["logs", "read", "read"]).ok().stdout;
        assert!(log.starts_with("turn 1: This is step read of run read.\nturn 2: Read"), "{log}");
        assert!(log.contains("the answer must fit {") && !log.contains("turn 3"), "{log}");
    }

    fn a_harness_that_is_not_there_is_named(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = start_agent(&mediator, "n1");
        // A contract that asks for any node with a harness: the node says what it has.
        let wrong = asked("wrong", "codex", "", "say x").replace(", attrs: {harness: codex}", "");
        mediator.submit(&wrong);
        let step = step_of(&mediator.wait_state("wrong", "FAILED"), "think");
        assert_eq!(step["reason"], "could_not_start");
        let message = step["message"].as_str().unwrap();
        assert!(message.contains("no harness \"codex\"; it has absent, default, talks, wraps"), "{message}");
        mediator.submit(&asked("absent", "absent", "", "say x"));
        let step = step_of(&mediator.wait_state("absent", "FAILED"), "think");
        assert!(step["message"].as_str().unwrap().contains("no-such-agent-here"), "{step}");
        // Asked for rightly, it is refused before anything runs.
        let file = mediator.home.path().join("none.yaml");
        std::fs::write(&file, asked("none", "codex", "", "say x")).unwrap();
        let ran = mediator.cli(&["submit", file.to_str().unwrap()]);
        assert!(ran.code == 2 && ran.stderr.contains("harness=codex"), "{ran:?}");
    }

    fn an_agents_answer_decides_a_fork(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = start_agent(&mediator, "n1");
        for (id, verdict, taken, left) in [("ok", "good", "ship", "mend"), ("ko", "bad", "mend", "ship")] {
            mediator.submit(&format!(
                "{}    dispatch: {{from: 'answer.json#/verdict', to: {{good: ship, bad: mend}}}}\n  \
                 - {{id: ship, uses: coder, run: ['true']}}\n  - {{id: mend, uses: coder, in: {{from: [answer.json]}}, \
                 run: [grep, -q, bad, $IN/answer.json]}}\n",
                asked(id, "default", "", &format!("answer {{\"verdict\": \"{verdict}\"}}"))
            ));
            let page = mediator.wait_state(id, "SUCCEEDED");
            assert_eq!((step_of(&page, taken)["chosen"].as_bool(), step_of(&page, taken)["state"].as_str()), (Some(true), Some("DONE")));
            assert_eq!((step_of(&page, left)["chosen"].as_bool(), step_of(&page, left)["state"].as_str()), (Some(false), Some("SKIPPED")));
        }
    }
}

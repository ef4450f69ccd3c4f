//! Questions to people: who may answer what, until when, and what becomes of the answer.

use serde_json::Value;
use tests::{
    Agent, Engine, Mediator,
    mediator::{Ran, binary, run, step_of},
    on_both_engines, wait_for, wait_until,
};

use crate::gate::{Gate, on_builder};

/// `mediator ARGS…` with somebody's own token.
fn cli_as(mediator: &Mediator, token: &str, args: &[&str]) -> Ran {
    run(mediator.command_of(binary("mediator")).env("MEDIATOR_TOKEN", token).args(args))
}

const FORM: &str = "{type: object, required: [go], additionalProperties: false, \
                    properties: {go: {enum: [\"yes\", \"no\"]}, note: {type: string}}}";

/// Makes something, asks, and goes one of two ways; both read the answer.
fn asking(id: &str, more: &str) -> String {
    on_builder(
        id,
        &format!(
            "  - {{id: make, uses: builder, run: [sh, -c, 'echo made > here']}}\n  \
             - id: ok\n    ask: {{question: 'Ship what was made?', form: {FORM}{more}\n    \
             dispatch: {{from: 'answer.json#/go', to: {{\"yes\": ship, \"no\": drop}}}}\n  \
             - {{id: ship, uses: builder, in: {{from: [answer.json]}}, run: [sh, -c, 'cat here $IN/answer.json']}}\n  \
             - {{id: drop, uses: builder, in: {{from: [answer.json]}}, run: [sh, -c, 'cat $IN/answer.json; exit 3']}}\n"
        ),
    )
}

fn open(mediator: &Mediator) -> Vec<Value> {
    mediator.json(&["asks"])["asks"].as_array().cloned().unwrap_or_default()
}

on_both_engines! {
    fn an_answer_decides_a_fork_and_is_read_by_later_steps(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&asking("asks", ", answerers: [ann]}"));
        mediator.wait_step("asks", "ok", "ASKED");
        let (ann, bob) = (mediator.token("submitter", "ann"), mediator.token("submitter", "bob"));
        let asks = open(&mediator);
        assert_eq!((asks[0]["question"].as_str(), asks[0]["may_answer"].as_bool()), (Some("Ship what was made?"), Some(false)));
        assert!(!serde_json::to_string(&asks).unwrap().contains("ann"), "nobody's name is in there: {asks:?}");
        assert!(asks[0]["asked_at"].is_string() && asks[0]["form"]["properties"]["go"].is_object(), "{asks:?}");
        let page = mediator.cli(&["show", "asks"]).ok().stdout;
        assert!(page.contains("step ok asks: Ship what was made?") && page.contains("mediator answer asks --step ok"), "{page}");
        let why = mediator.cli(&["explain", "asks"]).ok().stdout;
        assert!(why.contains("step ok has asked a person") && !why.contains("ann"), "{why}");
        let list = cli_as(&mediator, &ann, &["asks"]).ok();
        assert!(list.stdout.contains("Ship what was made?"), "{list:?}");
        assert!(list.stderr.contains("mediator answer asks --step ok go=yes|no note=STRING"), "{list:?}");

        // What does not do is refused, says why, and the question stays open.
        for (token, args, says) in [
            (&bob, &["go=yes"][..], "you are bob, and the contract lets only ann answer"),
            (&ann, &["go=perhaps"], "/go: \"perhaps\" is not one of"),
            (&ann, &["note=x"], "\"go\" is a required property"),
            (&ann, &["go=yes", "extra=1"], "extra"),
            (&ann, &["--json", "{"], "is not JSON"),
            (&ann, &["go=yes", "--step", "make"], "its step make does not ask; ok can"),
            (&ann, &["go=yes", "--step", "mak"], "it has no step mak; it asks at ok"),
            (&ann, &["go=yes", "--attempt", "7"], "step ok has no attempt 7 open, its present one is 1"),
        ] {
            let ran = cli_as(&mediator, token, &[&["answer", "asks"], args].concat());
            assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
            assert!(ran.stderr.contains(says), "{args:?}: {says} in {ran:?}");
        }
        assert_eq!(open(&mediator).len(), 1);
        let observer = mediator.token("observer", "ann");
        assert_eq!(cli_as(&mediator, &observer, &["answer", "asks", "go=yes"]).code, 2);

        cli_as(&mediator, &ann, &["answer", "asks", "go=yes", "note=well done"]).ok();
        let page = mediator.wait_state("asks", "SUCCEEDED");
        assert_eq!(mediator.cli(&["logs", "asks", "ship"]).ok().stdout, "made\n{\"go\":\"yes\",\"note\":\"well done\"}");
        assert_eq!(step_of(&page, "drop")["state"], "SKIPPED");
        assert_eq!(step_of(&page, "ok")["produced"], serde_json::json!(["answer.json"]));
        assert_eq!(open(&mediator).len(), 0);
        let late = cli_as(&mediator, &ann, &["answer", "asks", "go=no"]);
        assert!(late.code == 2 && late.stderr.contains(" ago by ann"), "{late:?}");
        let none = cli_as(&mediator, &ann, &["answer", "nothing", "go=no"]);
        assert!(none.code == 2 && none.stderr.contains("run nothing"), "{none:?}");
        // The Record holds the answer.
        wait_until("the record is sealed", || mediator.show("asks")["sealed_at"].is_string());
        let out = mediator.home.path().join("asks.tar");
        mediator.cli(&["record", "asks", "--out", out.to_str().unwrap()]).ok();
        let record = String::from_utf8_lossy(&std::fs::read(out).unwrap()).into_owned();
        assert!(record.contains("well done"));
        // It says who answered, when, and which file that is.
        let answers = record.split("\"answers\":").nth(1).and_then(|it| it.split(']').next()).unwrap();
        for word in ["\"answered_by\": \"ann\"", "\"answered_at\"", "\"answer.json\""] {
            assert!(answers.contains(word), "{word}: {answers}");
        }
        assert_eq!(step_of(&mediator.show("asks"), "ok")["answered_by"], "ann");
        assert!(mediator.cli(&["show", "asks"]).ok().stdout.contains("step ok: answered by ann at "));
    }

    fn a_no_goes_the_other_way(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&asking("asks", "}"));
        mediator.wait_step("asks", "ok", "ASKED");
        // Whoever may submit may answer where nobody is named.
        mediator.cli(&["answer", "asks", "go=no"]).ok();
        let page = mediator.wait_state("asks", "FAILED");
        assert_eq!(step_of(&page, "drop")["exit_code"], 3);
    }

    fn a_question_that_nobody_answers_in_time_fails_its_run(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&asking("late", "}\n    timeout: 700ms"));
        let step = mediator.wait_step("late", "ok", "ASKED");
        assert!(step["deadline_at"].is_string(), "{step}");
        let page = mediator.wait_state("late", "FAILED");
        let step = step_of(&page, "ok");
        assert_eq!((step["state"].as_str(), step["reason"].as_str()), (Some("FAILED"), Some("timeout")));
        assert_eq!(page["run"]["verdict"]["cause"], "step_failed");
        assert_eq!((open(&mediator).len(), mediator.leases().len()), (0, 0));
        assert_eq!(mediator.cli(&["answer", "late", "go=yes"]).code, 2);
    }

    fn a_cancelled_run_asks_nothing_any_more(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        mediator.submit(&asking("gone", "}"));
        mediator.wait_step("gone", "ok", "ASKED");
        mediator.cli(&["cancel", "gone"]).ok();
        assert_eq!(step_of(&mediator.show("gone"), "ok")["state"], "SKIPPED");
        assert_eq!(open(&mediator).len(), 0);
    }

    // While only a person is waited for, a lease has no end: not even a node that is switched off loses it.
    fn a_lease_outlives_its_horizon_while_only_a_person_is_waited_for(engine: Engine) {
        let mediator = Mediator::start(engine);
        let mut agent = Agent::start(&mediator, "n1");
        mediator.submit(&asking("asks", "}"));
        mediator.wait_step("asks", "ok", "ASKED");
        agent.kill();
        wait_for("the lease is past its horizon", || {
            let page = mediator.json(&["leases"]);
            let lease = page["leases"].as_array()?.first().cloned()?;
            let millis = |value: &Value| value.as_str().and_then(|it| it.parse::<jiff::Timestamp>().ok());
            (millis(&lease["not_after"])? < millis(&page["observed_at"])?).then_some(())
        });
        // Several rounds of the reaper.
        std::thread::sleep(std::time::Duration::from_secs(1));
        assert_eq!((mediator.state("asks").as_str(), mediator.leases().len()), ("RUNNING", 1));
        agent.restart();
        mediator.wait_node("n1", "is back", |node| node["instance"].is_string());
        mediator.cli(&["answer", "asks", "go=yes"]).ok();
        let page = mediator.wait_state("asks", "SUCCEEDED");
        assert_eq!(step_of(&page, "make")["attempt"], 1, "nothing was lost: {page}");
        assert_eq!(mediator.cli(&["logs", "asks", "ship"]).ok().stdout, "made\n{\"go\":\"yes\"}");
    }

    fn a_run_that_begins_with_a_question_asks_as_soon_as_it_is_promoted(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&crate::gate::waiting(&gate, "first"));
        mediator.wait_step("first", "hold", "CLAIMED");
        mediator.submit(&on_builder("asks", "  - {id: ok, ask: {question: go on?}}\n  - {id: do, uses: builder, run: ['true']}\n"));
        assert_eq!(mediator.state("asks"), "QUEUED");
        // Another life of the mediator knows of the queue only what it needs.
        mediator.kill();
        mediator.restart();
        gate.open("first");
        mediator.wait_step("asks", "ok", "ASKED");
        mediator.cli(&["answer", "asks", "--json", "true"]).ok();
        mediator.wait_state("asks", "SUCCEEDED");
    }

    fn two_questions_at_once_are_told_apart(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&on_builder("two", &format!(
            "  - {{id: one, needs: [], ask: {{question: first}}}}\n  - {{id: other, needs: [], ask: {{question: second}}}}\n  \
             - {{id: end, uses: builder, needs: [one, other], in: {{from: [one/answer.json, other/answer.json]}}, \
             run: [sh, -c, 'cat $IN/one/answer.json $IN/other/answer.json; while [ ! -e {} ]; do sleep 0.05; done']}}\n",
            gate.path("end").display()
        )));
        mediator.wait_step("two", "other", "ASKED");
        let ran = mediator.cli(&["answer", "two", "--json", "1"]);
        assert!(ran.code == 2 && ran.stderr.contains("name the step"), "{ran:?}");
        mediator.cli(&["answer", "two", "--step", "other", "--json", "\"b\""]).ok();
        mediator.cli(&["answer", "two", "--json", "[1, 2]"]).ok();
        gate.open("end");
        mediator.wait_state("two", "SUCCEEDED");
        assert_eq!(mediator.cli(&["logs", "two", "end"]).ok().stdout, "[1,2]\"b\"");
    }
}

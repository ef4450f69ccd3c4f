//! What a queue meets that has one node, or none, and what its worker says then.

use serde_json::Value;
use tests::{
    Agent, AgentOptions, Engine, Mediator, Queue,
    mediator::{signal, step_of},
    wait_for, wait_until,
};

use crate::{
    gate::{Gate, waiting},
    tickets::{ASKING, runs, with_template},
};

pub(crate) const BUILD: &str = "requires: [{as: w, capability: build}]\nsteps: [{id: s, uses: w, run: ['true']}]\n";

fn run_of(mediator: &Mediator, stem: &str) -> Option<Value> {
    runs(mediator).into_iter().find(|it| it["work_id"] == format!("ticket:{stem}"))
}

/// The Run that asks keeps the node, and the worker follows one that waits for it.
#[test]
fn one_node_and_one_worker_do_not_block_each_other_once_a_ticket_asks() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    for (stem, priority) in [("a", 3), ("c", 1)] {
        let queue = Queue::new(Some(&mediator));
        let folder = with_template(&queue, "ask.yaml", ASKING);
        with_template(&queue, "build.yaml", BUILD);
        queue.write(&format!("{stem}.md"), &format!("---\ntitle: asks\nkind: ask\npriority: {priority}\n---\n"));
        let mut worker = queue.spawn(&["work", "--poll", "200ms", "--templates", &folder]);
        wait_until("it asks", || queue.ticket(stem)["state"] == "answer_wait");
        queue.write(&format!("{stem}2.md"), "---\ntitle: next\nkind: build\n---\n");
        wait_for("the next one is behind it", || {
            run_of(&mediator, &format!("{stem}2")).filter(|it| it["state"] == "QUEUED")
        });
        queue.cli(&["answer", stem, "go: yes"]).ok();
        wait_until("both are done", || {
            queue.path(&format!("{stem}.done.md")).exists() && queue.path(&format!("{stem}2.done.md")).exists()
        });
        assert!(queue.log().contains("its answer is handed on"), "{}", queue.log());
        assert_eq!(run_of(&mediator, stem).unwrap()["state"], "SUCCEEDED", "{stem}");
        signal(worker.id(), "TERM");
        assert!(worker.wait().unwrap().success());
    }
}

/// What no machine can run now waits for one: nothing is tried three times within a moment, and nobody is asked.
#[test]
fn tickets_wait_for_a_machine_and_the_worker_says_so() {
    let mediator = Mediator::start(Engine::Sqlite);
    let queue = Queue::new(Some(&mediator));
    let folder = with_template(&queue, "build.yaml", &format!("{BUILD}when_unmatched: reject\n"));
    for stem in ["a", "b"] {
        queue.write(&format!("{stem}.md"), "---\ntitle: t\nkind: build\n---\n");
    }
    let mut worker = queue.spawn(&["work", "--poll", "200ms", "--templates", &folder]);
    let run = wait_for("its Run waits", || run_of(&mediator, "a").filter(|it| it["state"] == "QUEUED"));
    let run = run["run_id"].as_str().unwrap().to_owned();
    wait_until("the worker says why", || {
        queue.log().lines().any(|it| it.contains("QUEUED") && it.contains(&format!("`mediator explain {run}`")))
    });
    let _agent = Agent::start(&mediator, "n1");
    wait_until("both are done", || ["a", "b"].iter().all(|it| queue.path(&format!("{it}.done.md")).exists()));
    assert!(!queue.text("a.done.md").contains("attempts"), "{}", queue.text("a.done.md"));
    assert_eq!(runs(&mediator).len(), 2);
    signal(worker.id(), "TERM");
    assert!(worker.wait().unwrap().success());
}

/// Nobody knows when its machine comes: its Run is left in the line, and everything else goes on.
#[test]
fn a_ticket_that_no_machine_serves_stops_no_worker() {
    let mediator = Mediator::start(Engine::Sqlite);
    let agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let folder = with_template(&queue, "rare.yaml", &BUILD.replace("build", "rare"));
    with_template(&queue, "build.yaml", BUILD);
    for (stem, kind, priority) in [("a", "rare", 5), ("a2", "rare", 4), ("b", "build", 3)] {
        queue.write(&format!("{stem}.md"), &format!("---\ntitle: t\nkind: {kind}\npriority: {priority}\n---\n"));
    }
    let ran = work_once(&queue, &folder).ok();
    assert!(ran.stderr.contains("no machine lends what it needs") && ran.stderr.contains("\"rare\""), "{ran:?}");
    let names = || queue.files().into_keys().filter(|it| it.ends_with(".md")).collect::<Vec<_>>();
    assert_eq!(names(), ["a.wip.md", "a2.md", "b.done.md"]);
    let shown = queue.cli(&["show", "a"]).ok().stdout;
    let run = run_of(&mediator, "a").unwrap()["run_id"].as_str().unwrap().to_owned();
    assert!(shown.contains(&format!("`mediator explain {run}`")), "{shown}");

    // One whose machine is there, but does not lend.
    agent.set_drain("graceful");
    mediator.wait_node("n1", "drains", |it| it["draining"] == "graceful");
    queue.write("c.md", "---\ntitle: t\nkind: build\n---\n");
    let mut worker = queue.spawn(&["work", "--poll", "200ms", "--templates", &folder]);
    wait_until("it is left", || queue.log().contains("no machine lends"));
    // Of the other kind one was left before this worker began.
    assert_eq!(names(), ["a.wip.md", "a2.md", "b.done.md", "c.wip.md"]);
    agent.set_drain("");
    let rare = AgentOptions { capabilities: "[[capability]]\nname = \"rare\"\n", ..AgentOptions::builder("n2") };
    let _rare = Agent::start_with(&mediator, &rare);
    wait_until("all are done", || ["a", "a2", "c"].iter().all(|it| queue.path(&format!("{it}.done.md")).exists()));
    signal(worker.id(), "TERM");
    assert!(worker.wait().unwrap().success());
}

/// It works for somebody else, and lends to nobody after that.
#[test]
fn a_ticket_whose_only_machine_is_busy_and_drains_stops_no_worker() {
    let mediator = Mediator::start(Engine::Sqlite);
    let (agent, gate) = (Agent::start(&mediator, "n1"), Gate::new());
    mediator.submit(&waiting(&gate, "other"));
    mediator.wait_state("other", "RUNNING");
    agent.set_drain("graceful");
    mediator.wait_node("n1", "drains", |it| it["draining"] == "graceful");
    let queue = Queue::new(Some(&mediator));
    let folder = with_template(&queue, "build.yaml", BUILD);
    queue.write("a.md", "---\ntitle: t\nkind: build\n---\n");
    let ran = work_once(&queue, &folder).ok();
    assert!(ran.stderr.contains("no machine lends what it needs"), "{ran:?}");
    gate.open("other");
    mediator.wait_state("other", "SUCCEEDED");
}

/// Mending it is all that is to be done.
#[test]
fn a_broken_template_leaves_its_tickets_alone_and_is_told_of() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let typo = BUILD.replace("uses:", "use:");
    let asks = ASKING.replace("- id: ok\n", "- id: ok\n    timeout: 8h\n");
    let unset = "requires: [{as: w, capability: c}]\nsteps: [{id: s, uses: w, run: [echo, $TICKET_BODY]}]\n";
    for (text, says) in [(typo.as_str(), "did you mean `uses`"), (&asks, "ask"), (unset, "in `env`")] {
        let folder = with_template(&queue, "build.yaml", text);
        for stem in ["a", "b", "c"] {
            queue.write(&format!("{stem}.md"), "---\ntitle: t\nkind: build\ncreated_at: 2026-01-01T00:00:00Z\n---\n");
        }
        let before = queue.files();
        let ran = work_once(&queue, &folder);
        assert!(ran.code == 0 && ran.stderr.contains(says) && ran.stderr.contains("a, b, c"), "{says}: {ran:?}");
        assert_eq!(ran.stderr.matches(says).count(), 1, "it is said once: {ran:?}");
        assert_eq!(queue.files(), before, "{says}");
        let ran = queue.cli(&["check", "--templates", &folder]);
        assert!(ran.code == 1 && ran.stdout.contains(says) && ran.stdout.contains("build.yaml"), "{ran:?}");
        let ran = queue.cli(&["list", "--templates", &folder]).ok();
        assert!(ran.stderr.contains(says) && ran.stderr.contains("a, b, c"), "{ran:?}");
        with_template(&queue, "build.yaml", BUILD);
        work_once(&queue, &folder).ok();
        queue.cli(&["check", "--templates", &folder]).ok();
        assert!(["a", "b", "c"].iter().all(|it| queue.path(&format!("{it}.done.md")).exists()), "{:?}", queue.files());
        for stem in ["a", "b", "c"] {
            std::fs::remove_file(queue.path(&format!("{stem}.done.md"))).unwrap();
        }
    }
    // One that no ticket is for today is looked at, too.
    let folder = with_template(&queue, "other.yaml", &typo);
    let ran = queue.cli(&["check", "--templates", &folder]);
    assert!(ran.code == 1 && ran.stdout.contains("other.yaml"), "{ran:?}");
    let ran = queue.cli(&["work", "--once", "--command", "true", "--capability", "a b"]);
    assert!(ran.code == 2 && ran.stderr.contains("--capability"), "{ran:?}");
}

fn work_once(queue: &Queue, folder: &str) -> tests::Ran {
    queue.cli(&["work", "--once", "--templates", folder])
}

#[test]
fn a_mediator_that_is_not_there_is_named_and_ends_who_works_once() {
    let mut mediator = Mediator::start(Engine::Sqlite);
    let queue = Queue::new(Some(&mediator));
    let url = mediator.url();
    mediator.kill();
    queue.write("a.md", "---\ntitle: t\n---\n");
    queue.write("b.wip.md", "---\ntitle: t\nsession_id: t0-0\n---\n");
    for args in [&["work", "--once", "--command", "true"][..], &["reap"], &["unassign", "b"]] {
        let ran = queue.cli(args);
        assert!(ran.code == 4 && ran.stderr.contains(&url), "{args:?}: {ran:?}");
    }
    let ran = queue.cli(&["reap", "--mediator", "https://127.0.0.1:1"]);
    assert!(ran.code == 2 && ran.stderr.contains("--ca-file"), "{ran:?}");
}

/// A command line has no headers.
#[test]
fn who_has_no_token_is_told_how_to_give_one() {
    let mediator = Mediator::start(Engine::Sqlite);
    let mut queue = Queue::new(Some(&mediator));
    queue.set("MEDIATOR_TOKEN", "");
    queue.write("b.wip.md", "---\ntitle: t\nsession_id: t0-0\n---\n");
    for args in [&["reap"][..], &["unassign", "b"], &["work", "--once", "--command", "true"]] {
        let ran = queue.cli(args);
        assert!(ran.code == 2 && ran.stderr.contains("--token-file") && !ran.stderr.contains("Bearer"), "{ran:?}");
    }
}

/// Whoever takes a machine back, or ends a Run, says nothing against the ticket.
#[test]
fn an_owners_drain_and_a_cancel_count_as_no_attempt() {
    let mediator = Mediator::start(Engine::Sqlite);
    let agent = Agent::start(&mediator, "n1");
    let (queue, gate) = (Queue::new(Some(&mediator)), Gate::new());
    let two = format!(
        "requires: [{{as: w, capability: build}}]\nsteps:\n  - {{id: one, uses: w, run: {}}}\n  \
         - {{id: two, uses: w, run: ['true']}}\n",
        gate.step("one")
    );
    let folder = with_template(&queue, "default.yaml", &two);
    queue.write("a.md", "---\ntitle: t\n---\n");
    let mut worker = queue.spawn(&["work", "--poll", "200ms", "--templates", &folder]);
    let running = |than: &str| {
        wait_for("another Run goes on", || {
            let run = runs(&mediator).into_iter().find(|it| it["state"] == "RUNNING" && it["run_id"] != than)?;
            let run = run["run_id"].as_str()?.to_owned();
            (step_of(&mediator.show(&run), "one")["state"] == "CLAIMED").then_some(run)
        })
    };
    let mut last = String::new();
    for _ in 0..3 {
        last = running(&last);
        mediator.cli(&["cancel", &last]).ok();
        mediator.wait_state(&last, "FAILED");
    }
    last = running(&last);
    agent.set_drain("at-boundary");
    mediator.wait_node("n1", "drains", |node| node["draining"] == "at-boundary");
    gate.open("one");
    let page = mediator.wait_state(&last, "FAILED");
    assert_eq!(page["run"]["verdict"]["cause"], "drain");
    agent.set_drain("");
    wait_until("it is done", || queue.path("a.done.md").exists());
    let text = queue.text("a.done.md");
    assert!(!text.contains("attempts") && !text.contains("질문"), "{text}");
    assert!(queue.log().contains("given back: ") && queue.log().contains("cancelled"), "{}", queue.log());
    signal(worker.id(), "TERM");
    assert!(worker.wait().unwrap().success());
}

/// A person who moves the file out of the worker's hand means: stop. Also where no worker is there any more to see it.
#[test]
fn a_run_whose_ticket_a_person_renames_is_cancelled_and_the_next_ticket_is_worked_on() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let (queue, gate) = (Queue::new(Some(&mediator)), Gate::new());
    let work = format!(
        "requires: [{{as: w, capability: build}}]\nsteps:\n  - {{id: one, uses: w, run: {}}}\n",
        gate.step("one")
    );
    let folder = with_template(&queue, "default.yaml", &work);
    let mut worker = queue.spawn(&["work", "--poll", "200ms", "--templates", &folder]);
    let renamed = |from: &str, to: &str| {
        let run = wait_for("its Run goes on", || {
            let run = runs(&mediator).into_iter().find(|it| it["state"] == "RUNNING")?["run_id"].as_str()?.to_owned();
            queue.path(from).exists().then_some(run)
        });
        std::fs::rename(queue.path(from), queue.path(to)).unwrap();
        run
    };
    let is_cancelled = |run: &str| {
        let page = mediator.wait_state(run, "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "cancelled", "{page}");
    };
    queue.write("a.md", "---\ntitle: t\n---\n");
    is_cancelled(&renamed("a.wip.md", "a.done.md"));
    queue.write("b.md", "---\ntitle: t\n---\n");
    let run = wait_for("the next one is worked on", || {
        let run = runs(&mediator).into_iter().find(|it| it["state"] == "RUNNING")?["run_id"].as_str()?.to_owned();
        queue.text("b.wip.md").contains(&run).then_some(run)
    });
    signal(worker.id(), "KILL");
    worker.wait().unwrap();
    assert_eq!(renamed("b.wip.md", "b.md"), run);
    let reaped = queue.json(&["reap"]);
    assert_eq!(reaped["cancelled"], serde_json::json!([run]), "{reaped}");
    is_cancelled(&run);
    let log = queue.log();
    assert!(log.contains("renamed") && queue.text("b.md").contains(&run), "{log}");
    assert_eq!(queue.files().into_keys().collect::<Vec<_>>(), ["a.done.md", "b.md"]);
}

/// It says what is wrong with itself, whether it was written by hand or in steps; nobody is asked a second time.
#[test]
fn an_answer_is_a_file_with_text_in_it_and_one_that_says_nothing_waits_until_it_is_mended() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let folder = with_template(&queue, "default.yaml", ASKING);
    for (stem, broken, says) in [
        ("a", "", "it is empty"),
        ("b", "---\ngo: yes\n", "its frontmatter has no end"),
        ("c", "---\nkind: answer\n---\n\n## 답변 1\n", "says nothing"),
        ("d", " \n", "it is empty"),
    ] {
        queue.write(&format!("{stem}.md"), "---\ntitle: ship\n---\n");
        work_once(&queue, &folder).ok();
        let asked = queue.text(&format!("{stem}.md"));
        let answer = format!("{stem}-answer-1.done.md");
        queue.write(&answer, broken);
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        std::fs::File::options().write(true).open(queue.path(&answer)).unwrap().set_modified(old).unwrap();
        work_once(&queue, &folder).ok();
        assert_eq!(queue.ticket(stem)["state"], "answer_wait", "{broken:?}");
        assert_eq!(queue.text(&format!("{stem}.md")), asked, "{broken:?}: nobody is asked again");
        let ran = queue.cli(&["check"]);
        let told = ran.stdout.lines().any(|it| it.contains(&answer) && it.contains(says));
        assert!(ran.code == 1 && told, "{broken:?}: {ran:?}");
        let ran = queue.cli(&["answer", stem, "go: yes"]);
        assert!(ran.code == 2 && ran.stderr.contains(&answer), "{broken:?}: {ran:?}");
        queue.write(&answer, "go: yes\n");
        queue.cli(&["check"]).ok();
        work_once(&queue, &folder).ok();
        assert!(queue.path(&format!("{stem}.done.md")).exists(), "{broken:?}: {:?}", queue.files());
        assert_eq!(queue.text(&answer), "go: yes\n", "a person's file stays as it is");
        assert_eq!(queue.json(&["show", stem])["thread"][0]["answer"], "go: yes");
    }
}

#[test]
fn an_answer_that_does_not_fit_the_question_is_refused_at_once() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let folder = with_template(&queue, "default.yaml", ASKING);
    queue.write("a.md", "---\ntitle: ship\n---\n");
    work_once(&queue, &folder).ok();
    let before = queue.files();
    for (text, says) in [
        ("go: maybe", "go: write yes or no"),
        ("{\"go\": \"maybe\"}", "go: write yes or no"),
        ("note: perhaps", "go: is missing"),
        ("maybe", "go: write yes or no"),
    ] {
        let ran = queue.cli(&["answer", "a", text]);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{text}: {ran:?}");
    }
    assert_eq!(queue.files(), before);
    let shown = queue.cli(&["show", "a"]).ok().stdout;
    assert_eq!(shown.matches("answers it").count(), 1, "{shown}");
    // By hand everything is possible, and then a second question says so; only that one can be answered.
    queue.write("a-answer-1.done.md", "go: maybe\n");
    work_once(&queue, &folder).ok();
    let text = queue.text("a.md");
    assert!(text.contains("## 질문 2") && text.contains("> go: maybe"), "{text}");
    let shown = queue.cli(&["show", "a"]).ok().stdout;
    assert_eq!(shown.matches("answers it").count(), 1, "{shown}");
    queue.cli(&["answer", "a", "yes"]).ok();
    work_once(&queue, &folder).ok();
    assert!(queue.path("a.done.md").exists());
}

#[test]
fn what_has_failed_names_the_command_that_has_more() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    queue.write("a.md", "---\ntitle: t\n---\n");
    let ran = queue.cli(&["work", "--once", "--command", "false"]).ok();
    let run = runs(&mediator)[0]["run_id"].as_str().unwrap().to_owned();
    assert!(ran.stderr.contains(&format!("`mediator show {run}` has more")), "{ran:?}");
}

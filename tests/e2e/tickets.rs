//! A ticket from its file to its Run and back: real mediator, real agent, real worker, real folder.

use std::process::Child;

use serde_json::Value;
use tests::{Agent, Engine, Mediator, Queue, mediator::signal, wait_for, wait_until};

use crate::gate::Gate;

pub(crate) fn runs(mediator: &Mediator) -> Vec<Value> {
    mediator.json(&["runs"])["runs"].as_array().cloned().unwrap_or_default()
}

/// Works until nothing is left to take.
fn work(queue: &Queue, args: &[&str]) -> tests::Ran {
    queue.cli(&[&["work", "--once"], args].concat())
}

#[test]
fn a_ticket_becomes_a_run_and_is_done() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let body = "Print $HOME and `x` and \"y\".\n\n## Second\n가\n";
    let stem = queue.json(&["new", "--title", "Try: it", "--body", body])["stem"].as_str().unwrap().to_owned();
    assert!(stem.len() == 8 && stem.bytes().all(|b| b.is_ascii_hexdigit()), "{stem}");
    assert_eq!(queue.line(), std::slice::from_ref(&stem));
    let ran = work(&queue, &["--command", "cat \"$IN/ticket.md\"; echo \"$TICKET|$TICKET_TITLE\""]).ok();
    assert!(ran.stderr.contains("submitted") && says_done(&ran.stderr), "{ran:?}");
    let files = queue.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), [&format!("{stem}.done.md")]);
    let done = &files[&format!("{stem}.done.md")];
    assert!(done.ends_with(&format!("---\n\n{body}")), "{done}");
    let runs = runs(&mediator);
    assert_eq!(
        (runs.len(), &runs[0]["work_id"], &runs[0]["state"]),
        (1, &format!("ticket:{stem}").into(), &"SUCCEEDED".into())
    );
    let run = runs[0]["run_id"].as_str().unwrap();
    assert!(done.contains(&format!("\nsession_id: {run}\nassigned_at: ")), "{done}");
    let log = mediator.cli(&["logs", run, "work"]).ok().stdout;
    assert_eq!(log, format!("\n{body}{stem}|Try: it\n"));
    assert_eq!(queue.ticket(&stem)["state"], "done");
    queue.cli(&["check"]).ok();
}

#[test]
fn r26_the_third_failure_is_a_question_and_its_answer_is_read_by_the_next_run() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    queue.write("old.done.md", "---\ntitle: before\n---\n");
    queue.write("a.md", "---\ntitle: needs help\ndeps:\n  - old\nsquad: z\n---\nbody\n");
    let command = ["--command", "grep -qx 'take the other road' \"$IN/ticket.md\""];
    work(&queue, &command).ok();
    assert_eq!(runs(&mediator).len(), 3, "each attempt is a Run");
    let text = queue.text("a.md");
    for line in ["deps: [old, a-answer-1]", "awaiting: a-answer-1", "attempts: 0", "squad: z", "## 질문 1"] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    assert!(
        text.contains("step work ended with 1") && !text.contains("session_id") && !text.contains("owner:"),
        "{text}"
    );
    let asks = queue.ticket("a");
    assert_eq!((&asks["state"], &asks["candidate"]), (&"answer_wait".into(), &false.into()));
    assert!(asks["asked_at"].is_string());
    assert_eq!(work(&queue, &command).ok().code, 0);
    assert_eq!(runs(&mediator).len(), 3, "it is taken by nobody");

    queue.cli(&["answer", "a", "take the other road"]).ok();
    assert_eq!(queue.text("a.md"), text, "nothing is edited in the asking ticket");
    let answer = queue.text("a-answer-1.done.md");
    assert!(answer.contains("\nkind: answer\n") && answer.contains("\n## 답변 1\n\ntake the other road\n"), "{answer}");
    let again = queue.cli(&["answer", "a", "no, this one"]);
    assert!(again.code == 2 && again.stderr.contains("asks nothing"), "{again:?}");
    assert_eq!(queue.ticket("a")["candidate"], true);
    work(&queue, &command).ok();
    assert!(queue.text("a.done.md").contains("awaiting: a-answer-1"), "awaiting stays");
    assert_eq!(queue.json(&["show", "a"])["thread"][0]["answer"], "take the other road");
}

pub(crate) const ASKING: &str = "env: {TICKET_BODY: ''}\nrequires:\n  - {as: builder, capability: build}\nsteps:\n  \
    - {id: make, uses: builder, run: [sh, -c, 'echo made > here']}\n  \
    - id: ok\n    ask: {question: 'Ship it?', form: {type: object, required: [go], properties: \
    {go: {enum: [\"yes\", \"no\"]}, note: {type: string}}}}\n  \
    - {id: ship, uses: builder, in: {from: [answer.json]}, run: [sh, -c, 'cat here $IN/answer.json']}\n";

pub(crate) fn with_template(queue: &Queue, name: &str, text: &str) -> String {
    let folder = queue.home.path().join("templates");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    folder.display().to_string()
}

#[test]
fn r04_a_step_that_asks_becomes_a_question_and_the_answer_file_answers_the_step() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let folder = with_template(&queue, "ship.yaml", ASKING);
    queue.write("a.md", "---\ntitle: ship\nkind: ship\n---\n");
    queue.write("b.md", "---\ntitle: nobody's\nkind: other\n---\n");
    let work = || work(&queue, &["--templates", &folder]).ok();
    work();
    let text = queue.text("a.md");
    assert!(
        text.contains("Ship it?") && text.contains("- `go: …` (yes or no)") && !text.contains("session_id"),
        "{text}"
    );
    let run = runs(&mediator)[0]["run_id"].as_str().unwrap().to_owned();
    mediator.wait_step(&run, "ok", "ASKED");
    assert_eq!(queue.ticket("b")["state"], "open", "no template is for it, so it is left to others");

    // What does not do is asked again.
    queue.write("a-answer-1.done.md", "---\nkind: answer\n---\ngo: perhaps\n");
    work();
    let text = queue.text("a.md");
    assert!(text.contains("## 질문 2") && text.contains("cannot be used"), "{text}");
    assert_eq!(mediator.state(&run), "RUNNING");
    queue.cli(&["answer", "a", "go: yes\nnote: it: works"]).ok();
    work();
    assert!(queue.path("a.done.md").exists());
    assert_eq!(mediator.state(&run), "SUCCEEDED");
    assert_eq!(runs(&mediator).len(), 1, "one Run, through all of it");
    assert_eq!(mediator.cli(&["logs", &run, "ship"]).ok().stdout, "made\n{\"go\":\"yes\",\"note\":\"it: works\"}");
}

/// A queue whose ticket `a` asks.
struct Asked {
    mediator: Mediator,
    _agent: Agent,
    queue: Queue,
    /// Of its templates.
    folder: String,
    run: String,
}

impl Asked {
    fn new() -> Self {
        let mediator = Mediator::start(Engine::Sqlite);
        let agent = Agent::start(&mediator, "n1");
        let queue = Queue::new(Some(&mediator));
        let folder = with_template(&queue, "default.yaml", ASKING);
        queue.write("a.md", "---\ntitle: ship\n---\n");
        work(&queue, &["--templates", &folder]).ok();
        let run = runs(&mediator)[0]["run_id"].as_str().unwrap().to_owned();
        Self { mediator, _agent: agent, queue, folder, run }
    }
}

#[test]
fn a_question_that_is_answered_elsewhere_unlocks_its_ticket() {
    let Asked { mediator, _agent, queue, run, folder } = Asked::new();
    mediator.cli(&["answer", &run, "go=yes"]).ok();
    mediator.wait_state(&run, "SUCCEEDED");
    work(&queue, &["--templates", &folder]).ok();
    assert!(queue.path("a.done.md").exists());
    assert_eq!(runs(&mediator).len(), 1, "what has succeeded is not done again");
}

#[test]
fn r35_r37_a_live_run_keeps_its_ticket_unless_it_is_forced_and_then_it_is_locked_first() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let (queue, gate) = (Queue::new(Some(&mediator)), Gate::new());
    queue.write("a.md", "---\ntitle: long\n---\n");
    let command = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.path("end").display());
    let mut worker = queue.spawn(&["work", "--poll", "200ms", "--command", &command]);
    let run = wait_for("it runs", || {
        let run = runs(&mediator).into_iter().find(|it| it["state"] == "RUNNING")?;
        Some(run["run_id"].as_str()?.to_owned())
    });
    let before = queue.text("a.wip.md");
    let ran = queue.cli(&["unassign", "a"]);
    assert!(ran.code == 3 && ran.stderr.contains("--force"), "{ran:?}");
    assert_eq!(queue.text("a.wip.md"), before, "untouched");
    let ran = queue.cli(&["done", "a"]);
    assert!(ran.code == 2 && ran.stderr.contains("unassign a"), "{ran:?}");
    let forced = queue.json(&["unassign", "a", "--force"]);
    assert_eq!(forced["result"]["awaiting"], "a-answer-1");
    mediator.wait_state(&run, "FAILED");
    let text = queue.text("a.md");
    assert_eq!(queue.ticket("a")["state"], "answer_wait");
    assert!(!text.contains("\nattempts:"), "what a person takes away is no failure: {text}");
    // The worker notices and takes the next one; the locked one stays.
    queue.write("b.md", "---\ntitle: next\n---\n");
    gate.open("end");
    wait_until("the next is done", || queue.path("b.done.md").exists());
    assert_eq!(queue.text("a.md"), text);
    queue.cli(&["answer", "a", "go on"]).ok();
    wait_until("it is worked on again", || queue.path("a.done.md").exists());
    signal(worker.id(), "TERM");
    assert!(worker.wait().unwrap().success());
}

#[test]
fn a_mediator_that_does_not_answer_gives_nothing_and_takes_nothing() {
    let mut mediator = Mediator::start(Engine::Sqlite);
    let mut queue = Queue::new(Some(&mediator));
    queue.set("TICKET_GRACE", "1ms");
    mediator.kill();
    queue.write("a.md", "---\ntitle: a\n---\n");
    queue.write("b.wip.md", "---\ntitle: b\nsession_id: t0-0\nassigned_at: 2020-01-01T00:00:00Z\n---\n");
    queue.write("c.wip.md", "---\ntitle: c\n---\n");
    let before = queue.files();
    let ran = queue.cli(&["reap"]);
    assert!(ran.code == 4 && ran.stderr.contains("does not answer"), "{ran:?}");
    let mut worker = queue.spawn(&["work", "--poll", "50ms", "--command", "true"]);
    wait_until("it says so", || queue.log().matches("does not answer").count() >= 2);
    assert_eq!(queue.files(), before);
    assert_eq!(queue.cli(&["unassign", "b"]).code, 4);
    mediator.restart();
    let _agent = Agent::start(&mediator, "n1");
    wait_until("all are done", || ["a", "b", "c"].iter().all(|it| queue.path(&format!("{it}.done.md")).exists()));
    signal(worker.id(), "TERM");
    worker.wait().unwrap();
}

#[test]
fn a_worker_without_the_right_token_says_so_and_leaves_the_queue_as_it_was() {
    let mediator = Mediator::start(Engine::Sqlite);
    let mut queue = Queue::new(Some(&mediator));
    queue.write("a.md", "---\ntitle: a\n---\n");
    let before = queue.files();
    queue.set("MEDIATOR_TOKEN", "made-up");
    let ran = work(&queue, &["--command", "true"]);
    assert!(ran.code == 2 && ran.stderr.contains("--token-file FILE or MEDIATOR_TOKEN"), "{ran:?}");
    assert_eq!(queue.files(), before);
    for (args, says) in [
        (&["work"][..], "--templates DIR"),
        (&["work", "--templates", "nowhere"], "no such folder"),
        (&["work", "--command", "x", "--mediator", "ftp://x"], "http://HOST:PORT"),
        (&["list", "--queue", "nowhere"], "make it"),
        (&["list", "--state", "blocked"], "deps_wait"),
        (&["new", "--title", " "], "title: a ticket needs one"),
        (&["new", "--title", "a\nsession_id: b"], "one line"),
        (&["new", "--title", "a", "--dep", "nope"], "there is no ticket nope"),
        (&["new", "--title", "a", "--priority", "6"], "from 1 to 5"),
        (&["show", "nope"], "enode tickets list"),
        (&["show", "../x"], "without state and .md"),
        (&["done", "a.md"], "claim a"),
        (&["claim", "nope"], "enode tickets list"),
        (&["done", "a"], "claim a"),
        (&["answer", "a", "x"], "asks nothing"),
        (&["unassign", "a"], "nobody works on a"),
    ] {
        let ran = queue.cli(args);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{args:?}: {says}: {ran:?}");
    }
    queue.set("TICKET_DONE", ".wip");
    let ran = queue.cli(&["list"]);
    assert!(ran.code == 2 && ran.stderr.contains("neither ends with the other"), "{ran:?}");
    assert_eq!(queue.files(), before);
}

#[test]
fn a_submission_without_an_answer_is_sent_again_and_makes_one_run() {
    let mut mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    for (stem, point) in [("a", "submit.before_commit"), ("b", "submit.after_commit")] {
        mediator.kill();
        mediator.restart_to_die_at(point);
        queue.write(&format!("{stem}.md"), "---\ntitle: t\n---\n");
        let mut worker = queue.spawn(&["work", "--once", "--command", "true"]);
        wait_until(&format!("{point}: it has died"), || mediator.has_died());
        let held = queue.text(&format!("{stem}.wip.md"));
        assert!(held.contains("\nsession_id: "), "{point}: it may be stored, so the ticket stays claimed: {held}");
        mediator.restart();
        assert!(worker.wait().unwrap().success(), "{point}");
        let page = mediator.json(&["runs", "--work", &format!("ticket:{stem}")]);
        assert_eq!(page["runs"].as_array().unwrap().len(), 1, "{point}: {page}");
        assert!(queue.path(&format!("{stem}.done.md")).exists(), "{point}");
    }
}

fn mediator_and_agent() -> (Mediator, Agent) {
    let mediator = Mediator::start(Engine::Sqlite);
    let agent = Agent::start(&mediator, "n1");
    (mediator, agent)
}

/// A worker whose ticket `a` is worked on until the gate `end` opens.
fn at_work(mediator: &Mediator) -> (Queue, Gate, Child) {
    let (queue, gate) = (Queue::new(Some(mediator)), Gate::new());
    queue.write("a.md", "---\ntitle: t\n---\n");
    let command = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.path("end").display());
    let worker = queue.spawn(&["work", "--once", "--command", &command]);
    wait_until("it runs", || runs(mediator).iter().any(|it| it["state"] == "RUNNING"));
    (queue, gate, worker)
}

#[test]
fn r29_a_worker_whose_ticket_was_moved_by_a_person_does_not_claim_to_have_ended_it() {
    let (mediator, _agent) = mediator_and_agent();
    let (queue, gate, mut worker) = at_work(&mediator);
    std::fs::rename(queue.path("a.wip.md"), queue.path("a.done.md")).unwrap();
    let text = queue.text("a.done.md");
    assert!(worker.wait().unwrap().success());
    assert_eq!(queue.files().into_iter().collect::<Vec<_>>(), [("a.done.md".to_owned(), text)]);
    let log = queue.log();
    assert!(log.contains("it is no longer ours") && log.contains("now=\"done\""), "{log}");
    assert!(!says_done(&log), "it says that it has ended it: {log}");
    gate.open("end");
}

/// Whether a worker has said in its log that it has ended a ticket.
fn says_done(log: &str) -> bool {
    log.contains("done ticket=")
}

/// Opened again by somebody else, who takes it for dead: the same.
#[test]
fn r29_a_worker_whose_ticket_went_back_does_not_claim_to_have_ended_it() {
    let (mediator, _agent) = mediator_and_agent();
    let (queue, gate, mut worker) = at_work(&mediator);
    // Another fleet's mediator knows no such Run, and it was written down long ago.
    let other = Mediator::start(Engine::Sqlite);
    let mut theirs = Queue::new(Some(&other));
    theirs.set("TICKET_GRACE", "1ms");
    theirs.set("TICKET_QUEUE", &queue.path("").display().to_string());
    let reaped = theirs.json(&["reap"]);
    assert_eq!(reaped["reaped"][0]["deed"], "reclaimed", "{reaped}");
    wait_until("it has seen that", || queue.log().contains("it is no longer ours"));
    assert!(!says_done(&queue.log()), "it says that it has ended it: {}", queue.log());
    // Not before: what ended while the ticket was nobody's would not count for whoever takes it up.
    wait_until("it takes it up again", || queue.log().contains("goes on with the Run that is open"));
    gate.open("end");
    assert!(worker.wait().unwrap().success());
    assert_eq!(queue.files().into_keys().collect::<Vec<_>>(), ["a.done.md"]);
    assert_eq!(runs(&mediator).len(), 1, "it was taken up again with its Run");
}

#[test]
fn r44_a_worker_takes_tickets_in_the_order_of_the_list_under_any_suffix() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    for (wip, done) in [("", ""), ("-진행중", "-완료")] {
        let mut queue = Queue::new(Some(&mediator));
        queue.set("TICKET_INPROGRESS", wip);
        queue.set("TICKET_DONE", done);
        let done = if done.is_empty() { ".done" } else { done };
        let mark = if wip.is_empty() { "p" } else { "q" };
        let created = "created_at: 2026-01-01T00:00:0";
        queue.write(&format!("{mark}1.md"), &format!("---\npriority: 1\n{created}1Z\n---\n"));
        queue.write(&format!("{mark}2.md"), &format!("---\npriority: 2\n{created}2Z\n---\n"));
        queue.write(&format!("{mark}3.md"), &format!("---\npriority: abc\n{created}3Z\n---\n"));
        queue.write(&format!("{mark}4.md"), &format!("---\n{created}3Z\n---\n"));
        queue.write(&format!("{mark}5.md"), &format!("---\npriority: 5\ndeps: [{mark}2, {mark}0]\n{created}5Z\n---\n"));
        queue.write(&format!("{mark}0{done}.md"), "---\n---\n");
        let line = queue.line();
        assert_eq!(line, ["2", "5", "3", "4", "1"].map(|it| format!("{mark}{it}")));
        let log = queue.home.path().join("taken").display().to_string();
        work(&queue, &["--command", &format!("echo $TICKET >> {log}")]).ok();
        let taken = std::fs::read_to_string(&log).unwrap();
        assert_eq!(taken.lines().collect::<Vec<_>>(), line);
        assert!(queue.files().into_keys().all(|name| name.ends_with(&format!("{done}.md"))), "{:?}", queue.files());
    }
}

/// Without the file system's word it would look every five seconds.
#[test]
fn a_worker_that_waits_notices_new_files_and_answers_at_once() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    queue.write(
        "a.md",
        "---\ntitle: asks\ndeps: [q]\nawaiting: q\n---\n\n## 질문 1\n\nWhich?\n\n- (a) one\n- (b) two\n",
    );
    let mut worker = queue.spawn(&["work", "--poll", "5s", "--command", "true"]);
    queue.write("b.md", "---\ntitle: new\n---\n");
    wait_until("the new one is done", || queue.path("b.done.md").exists());
    queue.write("c.md", "---\ntitle: later\n---\n");
    wait_until("the next one is done", || queue.path("c.done.md").exists());
    assert!(queue.path("a.md").exists());
    queue.cli(&["answer", "a", "--choose", "1:b"]).ok();
    wait_until("the answered one is done", || queue.path("a.done.md").exists());
    signal(worker.id(), "TERM");
    assert!(worker.wait().unwrap().success());
}

#[test]
fn what_is_chosen_becomes_the_answer() {
    let queue = Queue::new(None);
    let options = "### Colour\n- (a) red\n- (b) blue\n\n- (a) big\n- (b) small\n";
    let asking = format!("---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n\n## 질문 1\n\nWhich?\n\n{options}");
    queue.write("t.md", &asking);
    let page = queue.json(&["show", "t"]);
    assert_eq!(
        (&page["options"][0]["title"], &page["options"][1]["options"][1]["label"]),
        (&"Colour".into(), &"small".into())
    );
    let shown = queue.cli(&["show", "t"]).ok().stdout;
    assert!(
        shown.contains("--choose 1:LETTERS picks from Colour (a) (b)\n--choose 2:LETTERS picks from (a) (b)"),
        "{shown}"
    );
    for (choose, says) in
        [("1:c", "it has (a) (b)"), ("3:a", "groups 1 to 2"), ("1:", "nothing is chosen"), ("x", "such as 1:b")]
    {
        let ran = queue.cli(&["answer", "t", "--choose", choose]);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{choose}: {ran:?}");
    }
    assert_eq!(queue.files().into_keys().collect::<Vec<_>>(), ["t.md"]);
    queue.cli(&["answer", "t", "--choose", "2:b,a", "--choose", "1: neither", "Thanks"]).ok();
    let answer = queue.text("q.done.md");
    assert!(answer.ends_with("\n## 답변 1\n\n1: neither\n2: (a) (b)\n\nThanks\n"), "{answer}");
    assert_eq!(queue.text("t.md"), asking);
    assert_eq!(queue.json(&["show", "t"])["options"].as_array().unwrap().len(), 0, "it asks nothing any more");
}

#[test]
fn check_mends_what_it_may_and_says_by_its_exit_code_whether_anything_is_left() {
    let queue = Queue::new(None);
    queue.write("a.md", "---\ntitle: t\nsession_id: r1\n---\n");
    queue.write("b.md", "---\ntitle: t\ndeps: [nope]\n---\n");
    let ran = queue.cli(&["check"]);
    assert!(ran.code == 1 && ran.stdout.contains("accident") && ran.stdout.contains("nope"), "{ran:?}");
    let ran = queue.cli(&["check", "--fix"]);
    assert!(ran.code == 1 && ran.stdout.contains("fixed accident") && ran.stdout.contains("nope"), "{ran:?}");
    assert_eq!(queue.text("a.md"), "---\ntitle: t\n---\n");
    queue.write("nope.md", "---\ntitle: t\n---\n");
    let ran = queue.cli(&["check", "--fix"]).ok();
    assert_eq!(ran.stdout, "nothing is wrong\n");
}

/// Also for programs: what no worker with these templates takes, and a folder that is not there.
#[test]
fn a_list_says_which_tickets_no_template_is_for() {
    let mut queue = Queue::new(None);
    let folder = with_template(&queue, "work.yaml", crate::ticket_waits::BUILD);
    queue.write("a.md", "---\nkind: odd\n---\n");
    queue.write("b.md", "---\nkind: work\n---\n");
    let untaken = |queue: &Queue, args: &[&str]| queue.json(&[&["list"], args].concat())["untaken"].clone();
    assert_eq!(untaken(&queue, &[]), serde_json::json!([]), "nobody has said which there are");
    let page = untaken(&queue, &["--templates", &folder]);
    assert_eq!((page.as_array().unwrap().len(), &page[0]["file"]), (1, &"a.md".into()), "{page}");
    queue.set("TICKET_TEMPLATES", &folder);
    assert_eq!(untaken(&queue, &[]), page);
    for args in [&["list"][..], &["list", "--output", "json"]] {
        let ran = queue.cli(&[args, &["--templates", "nowhere"]].concat());
        assert!(ran.code == 2 && ran.stderr.contains("no such folder"), "{args:?}: {ran:?}");
    }
}

/// What every worker does all the time, once.
#[test]
fn a_reap_also_settles_questions_that_nobody_asks_any_more_and_knows_the_grace_of_a_test() {
    let Asked { mediator, _agent, mut queue, run, .. } = Asked::new();
    mediator.cli(&["answer", &run, "go=yes"]).ok();
    mediator.wait_state(&run, "SUCCEEDED");
    queue.write("b.wip.md", "---\ntitle: nobody's\n---\n");
    queue.set("TICKET_GRACE", "1ms");
    let reaped = queue.json(&["reap"]);
    assert_eq!(reaped["settled"], serde_json::json!(["a-answer-1.done.md"]));
    let answer = queue.text("a-answer-1.done.md");
    assert!(answer.contains("answered elsewhere, by ") && answer.contains(&format!("record {run}`")), "{answer}");
    assert_eq!((&reaped["reaped"][0]["stem"], &reaped["reaped"][0]["deed"]), (&"b".into(), &"reclaimed".into()));
    assert_eq!(queue.cli(&["reap"]).ok().stdout, "nothing to do\n");
}

/// Who could answer may do it all himself. Nobody answers the Run then, and it would keep its node for ever.
#[test]
fn a_ticket_that_asks_is_claimed_and_ended_by_hand_and_its_run_is_cancelled() {
    let Asked { mediator, _agent, queue, run, .. } = Asked::new();
    let asks = mediator.cli(&["asks"]).ok();
    assert!(asks.stdout.contains("ticket:a") && asks.stderr.contains("enode tickets answer"), "{asks:?}");
    assert_eq!(mediator.json(&["asks"])["asks"][0]["work_id"], "ticket:a");
    let short = mediator.cli(&["logs", &run[..4]]);
    assert!(short.code != 0 && short.stderr.contains("at least 6 letters"), "{short:?}");
    let claimed = queue.cli(&["claim", "a.md"]).ok();
    assert!(claimed.stderr.contains(&run) && claimed.stderr.contains("keep its node"), "{claimed:?}");
    assert_eq!(queue.cli(&["reap"]).ok().stdout, "nothing to do\n", "somebody has it in hand");
    queue.cli(&["done", "a.wip.md"]).ok();
    let reaped = queue.json(&["reap"]);
    assert_eq!(reaped["cancelled"], serde_json::json!([run]));
    let page = mediator.wait_state(&run, "FAILED");
    assert_eq!(page["run"]["verdict"]["cause"], "cancelled", "{page}");
    assert_eq!(queue.cli(&["reap"]).ok().stdout, "nothing to do\n");
    assert_eq!(queue.json(&["show", "a.done.md"])["state"], "done");
}

/// Files as other editors and systems write them.
#[test]
fn r06_decomposed_names_crlf_and_a_mark_at_the_beginning_come_through_unharmed() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let decomposed = "\u{1100}\u{1161}.md";
    queue.write(decomposed, "\u{feff}---\r\ntitle: 가\r\nsquad: z\r\n---\r\n본문\r\n");
    let mut readonly = std::fs::metadata(queue.path(decomposed)).unwrap().permissions();
    readonly.set_readonly(true);
    std::fs::set_permissions(queue.path(decomposed), readonly).unwrap();
    work(&queue, &["--command", "true"]).ok();
    let (name, text) = queue.files().pop_first().unwrap();
    assert_eq!(name, "\u{ac00}.done.md");
    assert!(
        text.starts_with("\u{feff}---\r\ntitle: 가\r\nsquad: z\r\ncreated_at: ")
            && text.ends_with("\r\n---\r\n본문\r\n")
    );
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{text:?}");
    assert!(std::fs::metadata(queue.path(&name)).unwrap().permissions().readonly());
}

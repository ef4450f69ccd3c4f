//! A worker is killed between any two of its steps: no open ticket ever says `session_id`, and the next worker ends the
//! ticket with no more Runs than attempts.

use std::{os::unix::process::ExitStatusExt, process::Stdio};

use tests::{Agent, Engine, Mediator, Queue};

/// No open ticket says `session_id`: what nobody would ever take.
fn assert_no_accident(queue: &Queue, point: &str) {
    for (name, text) in queue.files() {
        let is_open = !name.ends_with(".wip.md") && !name.ends_with(".done.md");
        assert!(!(is_open && text.contains("session_id: ")), "{point}: {name}: {text}");
    }
}

/// One life that ends at `point`, then one that ends everything.
fn round(mediator: &Mediator, queue: &Queue, number: usize, point: &str, args: &[&str]) {
    let stem = format!("t{number}");
    queue.write(&format!("{stem}.md"), &format!("---\ntitle: {point}\nsquad: z\n---\nbody\n"));
    let mut dying = queue.command(&[&["work", "--once"], args].concat());
    let died = dying.env("TICKET_FAIL_AT", point).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&died.stderr).into_owned();
    assert_eq!(died.status.signal(), Some(9), "{point}: it did not come there: {said}");
    assert_no_accident(queue, point);
    // What a killed worker has left is taken for dead after the grace only.
    std::thread::sleep(std::time::Duration::from_millis(60));
    tests::wait_until(&format!("{point}: the ticket is done"), || {
        queue.cli(&[&["work", "--once"], args].concat()).ok();
        assert_no_accident(queue, point);
        queue.path(&format!("{stem}.done.md")).exists()
    });
    let text = queue.text(&format!("{stem}.done.md"));
    assert!(text.contains("\nsquad: z\n") && text.contains("---\nbody\n"), "{point}: {text}");
    let left: Vec<String> = queue.files().into_keys().filter(|name| name.starts_with(&format!("{stem}."))).collect();
    assert_eq!(left, [format!("{stem}.done.md")], "{point}");
    let open = mediator.json(&["runs", "--work", &format!("ticket:{stem}")]);
    let ended = |it: &serde_json::Value| it["state"] == "SUCCEEDED" || it["state"] == "FAILED";
    assert!(open["runs"].as_array().unwrap().iter().all(ended), "{point}: {open}");
}

fn walk(refuse_links: bool, points: &[&str], command: &str, executions: usize) {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let mut queue = Queue::new(Some(&mediator));
    queue.set("TICKET_GRACE", "50ms");
    if refuse_links {
        queue.set("TICKET_REFUSE_LINKS", "1");
    }
    let marks = queue.home.path().join("marks").display().to_string();
    let command = command.replace("MARKS", &marks);
    for (number, point) in points.iter().enumerate() {
        round(&mediator, &queue, number, point, &["--command", &command]);
        let marks = std::fs::read_to_string(&marks).unwrap();
        let mine = marks.lines().filter(|line| *line == format!("t{number}")).count();
        assert_eq!(mine, executions, "{point}: each attempt is executed once");
    }
}

const ONCE: &str = "echo $TICKET >> MARKS";
/// Fails the first time, so that the ticket goes back.
const TWICE: &str = "echo $TICKET >> MARKS; test $(grep -cx $TICKET MARKS) -gt 1";

#[test]
fn r01_killed_anywhere_in_a_claim_the_next_worker_ends_the_ticket() {
    walk(
        false,
        &[
            "claim.linked",
            "claim.aside",
            "claim.unlinked",
            "assign.drafted",
            "assign.exchanged",
            "work.assigned",
            "work.submitted",
        ],
        ONCE,
        1,
    );
}

#[test]
fn r02_killed_anywhere_in_a_claim_without_links_the_next_worker_ends_the_ticket() {
    walk(true, &["claim.created", "claim.half_written", "claim.written", "claim.unlinked", "work.submitted"], ONCE, 1);
}

#[test]
fn r31_killed_anywhere_at_the_end_of_a_ticket_it_is_done_all_the_same() {
    walk(false, &["finish.linked", "finish.aside", "finish.unlinked"], ONCE, 1);
    walk(true, &["finish.created", "finish.half_written", "finish.written", "finish.unlinked"], ONCE, 1);
}

#[test]
fn r23_killed_anywhere_in_giving_back_no_open_ticket_says_who_works_on_it() {
    walk(false, &["back.drafted", "back.noted", "back.linked", "back.unlinked"], TWICE, 2);
    walk(true, &["back.drafted", "back.noted", "back.created", "back.linked", "back.unlinked"], TWICE, 2);
}

/// A Run that asks, and whose worker is killed at each step of asking and of answering.
fn walk_of_asking(refuse_links: bool, asking: &[&str], answering: &[&str]) {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let mut queue = Queue::new(Some(&mediator));
    queue.set("TICKET_GRACE", "50ms");
    if refuse_links {
        queue.set("TICKET_REFUSE_LINKS", "1");
    }
    let folder = queue.home.path().join("templates");
    std::fs::create_dir(&folder).unwrap();
    let template = "requires:\n  - {as: builder, capability: build}\nsteps:\n  - {id: ok, ask: {question: 'Go on?'}}\n  \
                    - {id: end, uses: builder, run: ['true']}\n";
    std::fs::write(folder.join("default.yaml"), template).unwrap();
    let folder = folder.display().to_string();
    let args = ["work", "--once", "--templates", &folder];
    let die = |point: &str| {
        let died = queue.command(&args).env("TICKET_FAIL_AT", point).stdin(Stdio::null()).output().unwrap();
        assert_eq!(died.status.signal(), Some(9), "{point}: {}", String::from_utf8_lossy(&died.stderr));
        assert_no_accident(&queue, point);
    };
    let points = asking.iter().map(|point| (*point, true)).chain(answering.iter().map(|point| (*point, false)));
    for (number, (point, while_asking)) in points.enumerate() {
        let stem = format!("a{number}");
        queue.write(&format!("{stem}.md"), "---\ntitle: asks\n---\nbody\n");
        if while_asking {
            die(point);
        }
        tests::wait_until(&format!("{point}: it asks"), || {
            queue.cli(&args).ok();
            queue.ticket(&stem)["state"] == "answer_wait"
        });
        assert_eq!(queue.text(&format!("{stem}.md")).matches("## 질문").count(), 1, "{point}: asked once");
        queue.cli(&["answer", &stem, "yes"]).ok();
        if !while_asking {
            die(point);
        }
        tests::wait_until(&format!("{point}: it is done"), || {
            queue.cli(&args).ok();
            assert_no_accident(&queue, point);
            queue.path(&format!("{stem}.done.md")).exists()
        });
        let runs = mediator.json(&["runs", "--work", &format!("ticket:{stem}")]);
        let states: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|it| it["state"].clone()).collect();
        assert_eq!(states, ["SUCCEEDED"], "{point}");
    }
}

#[test]
fn r04_killed_anywhere_in_asking_and_answering_one_run_goes_through_it() {
    walk_of_asking(
        false,
        &["back.drafted", "back.noted", "back.linked", "back.unlinked"],
        &["claim.linked", "assign.exchanged", "work.assigned", "work.answered"],
    );
}

#[test]
fn r04_killed_anywhere_in_asking_and_answering_without_links_one_run_goes_through_it() {
    walk_of_asking(
        true,
        &["back.drafted", "back.noted", "back.created", "back.linked", "back.unlinked"],
        &["claim.created", "claim.half_written", "claim.written", "claim.unlinked", "work.assigned", "work.answered"],
    );
}

/// Runs a command that dies at a point.
fn die_at(queue: &Queue, point: &str, args: &[&str]) {
    let died = queue.command(args).env("TICKET_FAIL_AT", point).stdin(Stdio::null()).output().unwrap();
    assert_eq!(died.status.signal(), Some(9), "{point}: {}", String::from_utf8_lossy(&died.stderr));
}

/// The name of an answer unlocks: it is there with all of the answer, or the answer can be given again.
#[test]
fn r40_killed_anywhere_in_answering_the_answer_is_whole_or_can_be_given_again() {
    let asking = "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n\n## 질문 1\n\nWhich?\n";
    for (refuse_links, points) in [
        (false, &["new.drafted", "new.noted", "new.linked"][..]),
        (true, &["new.drafted", "new.noted", "new.created", "new.linked"]),
    ] {
        for point in points {
            let mut queue = Queue::new(None);
            if refuse_links {
                queue.set("TICKET_REFUSE_LINKS", "1");
            }
            queue.write("a.md", asking);
            die_at(&queue, point, &["answer", "a", "to the left"]);
            let again = queue.cli(&["answer", "a", "to the left"]);
            let is_there = *point == "new.linked";
            assert_eq!(again.code, if is_there { 2 } else { 0 }, "{point}: {again:?}");
            assert!(queue.text("q.done.md").ends_with("\nto the left\n"), "{point}");
            assert_eq!(queue.text("a.md"), asking, "{point}");
            assert_eq!(queue.ticket("a")["candidate"], true, "{point}");
        }
    }
}

#[test]
fn killed_anywhere_in_writing_a_new_ticket_it_is_whole_or_is_not_there() {
    for (refuse_links, points) in [(false, &["new.noted", "new.linked"][..]), (true, &["new.created", "new.linked"])] {
        for point in points {
            let mut queue = Queue::new(None);
            if refuse_links {
                queue.set("TICKET_REFUSE_LINKS", "1");
            }
            die_at(&queue, point, &["new", "--title", "first"]);
            queue.cli(&["new", "--title", "second"]).ok();
            queue.cli(&["check"]).ok();
            let many = if *point == "new.linked" { 2 } else { 1 };
            assert_eq!(queue.files().len(), many, "{point}: {:?}", queue.files());
        }
    }
}

#[test]
fn killed_anywhere_in_clearing_an_accident_it_is_the_one_or_the_other() {
    let accident = "---\ntitle: t\nsession_id: r1\nsquad: z\n---\nbody\n";
    for point in ["clear.drafted", "clear.exchanged"] {
        let queue = Queue::new(None);
        queue.write("a.md", accident);
        die_at(&queue, point, &["unassign", "a"]);
        let cleared = accident.replace("session_id: r1\n", "");
        assert_eq!(queue.text("a.md"), if point == "clear.drafted" { accident } else { &cleared }, "{point}");
        queue.cli(&["check", "--fix"]).ok();
        assert_eq!(queue.text("a.md"), cleared, "{point}");
    }
}

/// Whoever ends what a killed process had begun may be killed as well.
#[test]
fn killed_while_an_end_is_ended_the_next_one_ends_it() {
    let mut queue = Queue::new(None);
    queue.set("TICKET_REFUSE_LINKS", "1");
    for (number, points) in
        [["finish.created", "fill.drafted"], ["finish.half_written", "fill.exchanged"]].into_iter().enumerate()
    {
        let (stem, text) = (format!("t{number}"), "---\ntitle: t\nowner: me\n---\nbody\n");
        queue.write(&format!("{stem}.wip.md"), text);
        die_at(&queue, points[0], &["done", &stem]);
        die_at(&queue, points[1], &["check", "--fix"]);
        queue.cli(&["check", "--fix"]).ok();
        assert_eq!(queue.text(&format!("{stem}.done.md")), text, "{points:?}");
        assert!(!queue.path(&format!("{stem}.wip.md")).exists(), "{points:?}");
    }
}

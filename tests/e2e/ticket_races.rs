//! Many processes on one queue.

use std::process::{Child, Stdio};

use tests::{Agent, AgentOptions, Engine, Mediator, Queue};

fn queues() -> [Queue; 2] {
    let mut refusing = Queue::new(None);
    refusing.set("TICKET_REFUSE_LINKS", "1");
    [Queue::new(None), refusing]
}

#[test]
fn r01_r02_of_24_processes_one_claims_a_ticket_and_no_byte_of_it_changes() {
    for queue in queues() {
        let text = "\u{feff}---\r\ntitle: one\r\nsquad: z\r\n---\r\nbody\r\n";
        queue.write("one.md", text);
        let claim =
            |_| queue.command(&["claim", "one", "--owner", "me"]).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let all: Vec<Child> = (0..24).map(|at| claim(at).unwrap()).collect();
        let codes: Vec<i32> = all.into_iter().map(|mut it| it.wait().unwrap().code().unwrap()).collect();
        assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
        assert!(codes.iter().all(|code| [0, 2].contains(code)), "a clean refusal: {codes:?}");
        let files = queue.files();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["one.wip.md"]);
        let own = |line: &&str| !["owner:", "claimed_at:", "created_at:"].iter().any(|key| line.starts_with(key));
        let others: String = files["one.wip.md"].split_inclusive('\n').filter(own).collect();
        assert_eq!(others, text, "but for the keys of who claims");
        queue.cli(&["done", "one"]).ok();
        assert_eq!(queue.files().into_keys().collect::<Vec<_>>(), ["one.done.md"]);
    }
}

/// 24 workers until nothing is left; each ticket is executed once.
fn all_done(refuse_links: bool) {
    let mediator = Mediator::start(Engine::Sqlite);
    let options = AgentOptions { slots: 8, ..AgentOptions::builder("n1") };
    let _agent = Agent::start_with(&mediator, &options);
    let mut queue = Queue::new(Some(&mediator));
    if refuse_links {
        queue.set("TICKET_REFUSE_LINKS", "1");
    }
    let marks = queue.home.path().join("marks");
    let folder = queue.home.path().join("templates");
    std::fs::create_dir(&folder).unwrap();
    let template = format!(
        "env: {{TICKET: ''}}\nrequires:\n  - {{as: builder, capability: build}}\nwhen_unmatched: queue\nsteps:\n  \
         - {{id: work, uses: builder, run: [sh, -c, 'echo $TICKET >> {}']}}\n",
        marks.display()
    );
    std::fs::write(folder.join("default.yaml"), template).unwrap();
    let names: Vec<String> = (0..72).map(|at| format!("t{at:03}")).collect();
    for name in &names {
        queue.write(&format!("{name}.md"), &format!("---\ntitle: {name}\n---\n"));
    }
    let folder = folder.display().to_string();
    let workers: Vec<Child> = (0..24).map(|_| queue.spawn(&["work", "--once", "--templates", &folder])).collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success(), "{}", queue.log());
    }
    let files: Vec<String> = queue.files().into_keys().collect();
    assert_eq!(files, names.iter().map(|name| format!("{name}.done.md")).collect::<Vec<_>>());
    let marks = std::fs::read_to_string(marks).unwrap();
    let mut marks: Vec<&str> = marks.lines().collect();
    marks.sort_unstable();
    assert_eq!(marks, names, "each was executed once");
}

#[test]
fn r01_24_workers_execute_every_ticket_once() {
    all_done(false);
}

#[test]
fn r02_24_workers_without_links_execute_every_ticket_once() {
    all_done(true);
}

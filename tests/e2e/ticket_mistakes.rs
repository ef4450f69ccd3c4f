//! Slips in names and keys, which nobody would notice otherwise: `check` says what is meant, and a worker points there.

use tests::{Engine, Mediator, Queue};

fn table(queue: &Queue) -> Vec<(String, String)> {
    let page = queue.cli(&["check", "--output", "json"]).json();
    let faults = page["faults"].as_array().unwrap();
    let text = |it: &serde_json::Value, key: &str| it[key].as_str().unwrap().to_owned();
    faults.iter().map(|it| (text(it, "file"), text(it, "message"))).collect()
}

#[test]
fn check_notices_slips_in_keys_and_names_and_says_what_is_meant() {
    let queue = Queue::new(None);
    queue.write("fine.md", "---\ntitle: t\nsquad: z\ntitles: x y\n담당: kim\npid: 3\n# a note\n\ndeps:\n  - k\n---\n");
    queue.write("k.done.md", "---\ntitle: t\n---\n");
    for (file, text, says) in [
        ("a.md", "---\ntitel: t\n---\n", "titel: did you mean title?"),
        ("b.md", "---\ntitle: t\npriorty: 5\n---\n", "priorty: did you mean priority?"),
        ("prio.md", "---\ntitle: t\nprio: 5\n---\n", "prio: did you mean priority?"),
        ("state.md", "---\ntitle: t\nStatus: done\n---\n", "rename the file"),
        ("tab.md", "---\ntitle: t\n\tkind: quick\n---\n", "kind: it means nothing with something blank in front"),
        ("c.md", "---\ntitle: t\nno colon here\n---\n", "\"no colon here\" is no `key: value`"),
        ("d.md", "---\ntitle: t\ntitle: u\n---\n", "title stands there 2 times: the last one counts"),
        ("e.md", "---\ntitle: t\ncreated_at: yesterday\n---\n", "created_at \"yesterday\" is no time"),
        ("s.wpi.md", "---\ntitle: t\n---\n", "did you mean s.wip.md?"),
        ("t.Done.md", "---\ntitle: t\n---\n", "did you mean t.done.md?"),
        ("u.MD", "---\ntitle: t\n---\n", "did you mean u.md?"),
        ("f.md", "---\ntitle: t\ndeps: [k.done.md]\n---\n", "there is no k.done.md; write k"),
        ("g.md", "---\ntitle: t\ndeps: fine k\n---\n", "write [fine, k]"),
    ] {
        queue.write(file, text);
        let found = table(&queue);
        let told: Vec<_> = found.iter().filter(|(name, said)| name == file && said.contains(says)).collect();
        assert!(told.len() == 1, "{file}: {says}: {found:?}");
        std::fs::remove_file(queue.path(file)).unwrap();
        assert_eq!(table(&queue), [], "{file}");
    }
    std::fs::create_dir(queue.path("z.md")).unwrap();
    let found = table(&queue);
    assert!(found.len() == 1 && found[0].0 == "z.md" && found[0].1.contains("folder"), "{found:?}");
}

/// Where a file's name is a stem as well, the stem is meant.
#[test]
fn a_ticket_is_named_by_its_stem_or_by_its_file() {
    let queue = Queue::new(None);
    queue.write("a.md", "---\ntitle: one\n---\n");
    queue.write("b.done.wip.md", "---\ntitle: two\nowner: me\n---\n");
    for (name, title) in
        [("a", "one"), ("a.md", "one"), ("a.done.md", "one"), ("b.done", "two"), ("b.done.wip.md", "two")]
    {
        assert_eq!(queue.json(&["show", name])["title"], title, "{name}");
    }
    queue.cli(&["done", "b.done"]).ok();
    assert!(queue.path("b.done.done.md").exists(), "{:?}", queue.files());
}

#[test]
fn a_worker_that_leaves_tickets_for_ever_points_to_check() {
    let mediator = Mediator::start(Engine::Sqlite);
    let queue = Queue::new(Some(&mediator));
    queue.write("broken.md", "no frontmatter");
    queue.write("loop.md", "---\ntitle: t\ndeps: [loop]\n---\n");
    queue.write("accident.md", "---\ntitle: t\nsession_id: r1\n---\n");
    queue.write("waits.md", "---\ntitle: t\ndeps: [loop]\n---\n");
    let ran = queue.cli(&["work", "--once", "--command", "true"]).ok();
    assert!(ran.stderr.contains("3 files") && ran.stderr.contains("`enode tickets check`"), "{ran:?}");
    for file in ["broken.md", "loop.md", "accident.md"] {
        std::fs::remove_file(queue.path(file)).unwrap();
    }
    let ran = queue.cli(&["work", "--once", "--command", "true"]).ok();
    assert!(!ran.stderr.contains("enode tickets check"), "{ran:?}");
}

#[test]
fn a_kind_that_can_be_no_file_name_is_said_to_be_none() {
    let queue = Queue::new(None);
    let folder = queue.home.path().join("templates");
    std::fs::create_dir(&folder).unwrap();
    let templates = folder.display().to_string();
    for (kind, says) in [
        ("odd", "put odd.yaml or default.yaml into"),
        ("", "put default.yaml into"),
        ("../../etc", "cannot be a file's name: write one word"),
    ] {
        for stem in ["a", "b"] {
            queue.write(&format!("{stem}.md"), &format!("---\ntitle: t\nkind: {kind}\n---\n"));
        }
        let ran = queue.cli(&["check", "--templates", &templates]);
        assert!(ran.stdout.matches(says).count() == 1 && ran.stdout.contains("a, b"), "{kind}: {ran:?}");
    }
    for kind in ["../x", "a/b", ".hidden"] {
        let ran = queue.cli(&["new", "--title", "t", "--kind", kind]);
        assert!(ran.code == 2 && ran.stderr.contains("kind: "), "{kind}: {ran:?}");
    }
    assert_eq!(queue.files().len(), 2);
}

/// No worker hands it the answer any more, and it keeps its node.
#[test]
fn a_hand_claim_of_a_ticket_whose_run_waits_names_that_run() {
    let queue = Queue::new(None);
    let asks =
        "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n\n<!-- asked by run r1 step ok attempt 1 -->\n\n?\n";
    queue.write("a.md", asks);
    queue.write("q.done.md", "yes\n");
    let ran = queue.cli(&["claim", "a"]).ok();
    assert!(ran.stderr.contains("`mediator cancel r1`"), "{ran:?}");
}

/// What was done would be worked on again.
#[test]
fn marks_that_are_not_the_queues_own_are_told_of() {
    let mut queue = Queue::new(None);
    queue.write("a.done.md", "---\ntitle: t\nsession_id: r1\n---\n");
    queue.set("TICKET_DONE", ".fertig");
    let found = table(&queue);
    assert!(found.len() == 1 && found[0].1.contains("TICKET_DONE") && !found[0].1.contains("unassign"), "{found:?}");
}

//! What the forms write.

use super::{Served, between, served_six, ticket};

#[test]
fn a_new_ticket_is_written_and_never_assigned() {
    let panel = served_six();
    let fields = [
        ("title", "Paint: the \"door\""),
        ("kind", "work"),
        ("priority", "5"),
        ("deps", "open"),
        ("deps", "busy"),
        ("req", "old"),
        ("body", "First.\r\n\r\nSecond.\r\n"),
        ("session_id", "x"),
    ];
    let got = panel.post("/new", &fields);
    assert_eq!(got.status, 303, "{}", got.body);
    let stem = got.header("location").strip_prefix("/ticket/").unwrap();
    assert!(stem.len() == 8 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()), "{stem}");
    let text = panel.read(&format!("{stem}.md"));
    assert!(
        text.contains("title: Paint: the \"door\"\nkind: work\npriority: 5\ndeps: [open, busy]\nreq: old\n"),
        "{text}"
    );
    assert!(text.ends_with("---\n\nFirst.\n\nSecond.\n") && !text.contains("session_id"), "{text}");
    assert!(panel.page(got.header("location")).contains("Paint: the &#34;door&#34;"));
}

/// By a script, by the back button, or by two clicks at once: what was written already is shown.
#[test]
fn a_form_that_is_sent_twice_makes_one_ticket() {
    let panel = served_six();
    let once_of = |page: &str| between(page, "name=\"once\" value=\"", "\"")[0].clone();
    let (once, count) = (once_of(&panel.page("/new")), || panel.files().len());
    let (before, post) = (count(), |title: &str, body: &str, once: &str| {
        panel.post("/new", &[("title", title), ("deps", "open"), ("body", body), ("once", once)])
    });
    // A form that is shown again is still the same one.
    assert_eq!(once_of(&post(" ", "First.", &once).body), once);
    let sent: Vec<_> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..4).map(|_| scope.spawn(|| post(" Twice ", "First.\r\n", &once))).collect();
        posts.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let made = format!("/ticket/{once}");
    assert!(sent.iter().all(|it| it.status == 303 && it.header("location") == made), "{:?}", panel.files());
    assert_eq!(count(), before + 1);
    // Also when somebody works on it, and has written something below.
    let text = panel.read(&format!("{once}.md"));
    std::fs::remove_file(panel.queue().join(format!("{once}.md"))).unwrap();
    std::fs::write(panel.queue().join(format!("{once}.wip.md")), format!("{text}\n## Note\n")).unwrap();
    assert_eq!(post("Twice", "First.", &once).header("location"), made);
    assert_eq!(count(), before + 1);
    // Who went back and wrote something else has written something else, and loses none of it.
    for (title, body) in [("Another", "First."), ("Twice", "Second.")] {
        let before = count();
        let other = post(title, body, &once);
        assert!(other.status == 303 && other.header("location") != made, "{title}: {}", other.body);
        assert_eq!(count(), before + 1);
    }
    // What no form of ours has drawn names no file.
    for odd in ["", "../../x", "notatall", "12345678.done", "ABCDEF12", "open"] {
        let got = post("Odd", odd, odd);
        let stem = got.header("location").strip_prefix("/ticket/").unwrap().to_owned();
        assert!(stem.len() == 8 && stem != odd && stem.bytes().all(|it| it.is_ascii_hexdigit()), "{odd:?}: {stem}");
    }
}

#[test]
fn what_cannot_be_a_ticket_is_said_and_what_was_typed_stays() {
    let panel = served_six();
    let before = panel.files();
    for (fields, says) in [
        (&[("title", " "), ("body", "kept text")][..], "a ticket needs one"),
        (&[("title", "a\nsession_id: x"), ("body", "kept text")], "a value is one line"),
        (&[("title", "a"), ("kind", "w\r\nsession_id: x"), ("body", "kept text")], "a value is one line"),
        (&[("title", "a"), ("kind", "answer"), ("body", "kept text")], "kind: an answer"),
        (&[("title", "a"), ("priority", "9"), ("body", "kept text")], "choose one from 1 to 5"),
        (&[("title", "a"), ("deps", "nowhere"), ("body", "kept text")], "there is no ticket nowhere"),
        (&[("title", "a"), ("deps", "../x"), ("body", "kept text")], "is not a ticket"),
        (&[("title", "a"), ("req", "nowhere"), ("body", "kept text")], "there is no ticket nowhere"),
    ] {
        let got = panel.post("/new", fields);
        assert_eq!(got.status, 422, "{fields:?}");
        assert!(got.body.contains(says) && got.body.contains("kept text"), "{fields:?}: {}", got.body);
    }
    assert_eq!(panel.files(), before);
}

#[test]
fn a_copy_takes_what_a_person_has_written_and_nothing_else() {
    let panel = served_six();
    let page = panel.page("/new?from=asks");
    assert!(page.contains("value=\"One that asks\"") && page.contains("The body of One that asks."), "{page}");
    let form = page.split("action=\"/new\"").nth(1).unwrap();
    assert!(!form.contains(" checked") && !form.contains("Which colour"), "{form}");
}

/// What a browser would send back of an edit form.
fn edited<'a>(page: &'a str, change: &[(&'a str, &'a str)]) -> Vec<(&'a str, String)> {
    let seen = between(page, "name=\"seen\" value=\"", "\"")[0].clone();
    let form = page.split("name=\"seen\"").nth(1).unwrap();
    let value = |name: &str| between(form, &format!("name=\"{name}\" value=\""), "\"")[0].clone();
    let priority =
        between(form, "<option value=\"", "\" selected").into_iter().find(|value| value.len() < 2).unwrap_or_default();
    let body = form.split("name=\"body\"").nth(1).unwrap().split_once(">\n").unwrap().1;
    let body = body.split("</textarea>").next().unwrap().replace('\n', "\r\n");
    let mut fields = vec![
        ("seen", seen),
        ("title", value("title")),
        ("kind", value("kind")),
        ("req", value("req")),
        ("priority", priority),
        ("body", body),
    ];
    fields.extend(
        between(form, "name=\"deps\" value=\"", "\" checked")
            .into_iter()
            .filter(|it| it.len() < 40)
            .map(|it| ("deps", it)),
    );
    for (name, new) in change {
        fields.retain(|(known, _)| known != name);
        fields.push((name, (*new).to_owned()));
    }
    fields
}

fn save(panel: &Served, stem: &str, change: &[(&str, &str)]) -> super::Got {
    let path = format!("/ticket/{stem}/edit");
    let page = panel.page(&path);
    let fields = edited(&page, change);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    panel.post(&path, &fields)
}

#[test]
fn r46_an_edit_changes_what_was_changed_and_no_other_byte() {
    let text = "---\r\ntitle:   t  \r\nsquad: z\r\n# note\r\ndeps:\r\n  - b\r\n---\r\none\r\ntwo";
    let panel = Served::new(&[("a.md", text), ("b.md", &ticket("b", ""))]);
    assert_eq!(save(&panel, "a", &[]).status, 303);
    assert_eq!(panel.read("a.md"), text, "nothing was changed");
    assert_eq!(save(&panel, "a", &[("title", "new")]).status, 303);
    let now = panel.read("a.md");
    let (head, tail) = now.split_once("created_at: ").unwrap();
    assert_eq!(head, "---\r\ntitle: new\r\nsquad: z\r\n# note\r\ndeps:\r\n  - b\r\n");
    assert_eq!(tail.split_once("\r\n").unwrap().1, "---\r\none\r\ntwo");
    assert_eq!(save(&panel, "a", &[("body", "one\r\nthree"), ("priority", "2")]).status, 303);
    let now = panel.read("a.md");
    assert!(now.ends_with("---\r\none\r\nthree\r\n") && now.contains("priority: 2\r\n"), "{now:?}");
    assert_eq!(save(&panel, "a", &[("deps", "")]).status, 303);
    assert!(panel.read("a.md").contains("deps: []\r\n"));
    assert_eq!(save(&panel, "a", &[("deps", "a")]).status, 422);
}

#[test]
fn an_edit_keeps_the_rules_of_a_new_ticket() {
    let panel = Served::new(&[("a.md", &ticket("a", "req: gone\n")), ("b.md", &ticket("b", ""))]);
    let before = panel.read("a.md");
    for (change, says) in [
        (("title", " "), "title: a ticket needs one"),
        (("kind", "../x"), "cannot be a file"),
        (("kind", "answer"), "kind: an answer is written"),
        (("req", "nothing"), "req: there is no ticket nothing"),
    ] {
        let got = save(&panel, "a", &[change]);
        assert!(got.status == 422 && got.body.contains(says), "{change:?}: {}", got.body);
        assert_eq!(panel.read("a.md"), before);
    }
    assert_eq!(save(&panel, "a", &[("title", "what stands there already stays")]).status, 303);
    assert_eq!(save(&panel, "a", &[("req", "b")]).status, 303);
    assert!(panel.read("a.md").contains("req: b\n"));
}

#[test]
fn only_an_open_ticket_is_edited_and_nobody_elses_change_is_lost() {
    let panel = served_six();
    for (stem, says) in [("busy", "unassign it before"), ("old", "read only"), ("nothing", "no ticket nothing")] {
        let got = panel.get(&format!("/ticket/{stem}/edit"));
        assert!(matches!(got.status, 404 | 409) && got.body.contains(says), "{stem}: {}", got.body);
        assert!(!panel.get(&format!("/ticket/{stem}")).body.contains(">Edit<"), "{stem}");
    }
    let page = panel.page("/ticket/open/edit");
    let fields = edited(&page, &[("title", "mine")]);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let theirs = ticket("theirs", "");
    panel.write("open.md", &theirs);
    let got = panel.post("/ticket/open/edit", &fields);
    assert!(got.status == 422 && got.body.contains("changed by somebody else") && got.body.contains("mine"));
    assert_eq!(panel.read("open.md"), theirs);
}

#[test]
fn r40_an_answer_makes_one_file_and_opens_the_ticket_at_once() {
    let panel = served_six();
    let asking = panel.read("asks.md");
    for path in ["/ticket/asks", "/ticket/asks/answer", "/"] {
        assert!(panel.page(path).contains("name=\"awaiting\" value=\"asks-answer-1\""), "{path}");
    }
    let empty = panel.post("/ticket/asks/answer", &[("awaiting", "asks-answer-1"), ("answer", " \r\n")]);
    assert!(empty.status == 422 && empty.body.contains("Say something"));
    let fields = [("awaiting", "asks-answer-1"), ("answer", "Blue.\r\n## not mine"), ("back", "/")];
    let got = panel.post("/ticket/asks/answer", &fields);
    assert_eq!((got.status, got.header("location")), (303, "/"), "{}", got.body);
    let answer = panel.read("asks-answer-1.done.md");
    assert!(answer.contains("kind: answer\n") && answer.contains("## 답변 1\n\nBlue.\n### not mine\n"), "{answer}");
    assert_eq!(panel.read("asks.md"), asking, "the asking ticket is not touched");
    let page = panel.page("/");
    assert!(super::lane(&page, "waiting").contains(&"asks".to_owned()));
    assert!(!page.contains("data-answer") && !page.contains("To answer"));
    assert!(super::lane(&page, "done").contains(&"asks-answer-1".to_owned()), "and in no other lane");
    let ticket = panel.page("/ticket/asks");
    assert!(ticket.contains("Which colour?") && ticket.contains("Blue.") && !ticket.contains("name=\"answer\""));
    let again = panel.post("/ticket/asks/answer", &fields);
    assert_eq!(again.status, 409, "{}", again.body);
    assert_eq!(panel.read("asks-answer-1.done.md"), answer);
}

#[test]
fn an_answer_to_an_old_question_is_no_answer_to_the_next() {
    let panel = served_six();
    let next = panel.read("asks.md").replace("asks-answer-1", "asks-answer-2");
    panel.write("asks.md", &next);
    let got = panel.post("/ticket/asks/answer", &[("awaiting", "asks-answer-1"), ("answer", "my long text")]);
    assert!(got.status == 409 && got.body.contains("my long text") && got.body.contains("asks-answer-2"));
    assert!(got.body.contains("That question is not asked any more") && !got.body.contains("asks nothing"));
    assert!(!panel.files().keys().any(|name| name.contains("answer")));
}

#[test]
fn what_is_in_progress_is_not_taken_away_unasked() {
    let panel = served_six();
    let before = panel.files();
    // The mediator does not answer: nobody knows whether the Run is alive.
    let got = panel.post("/ticket/busy/unassign", &[]);
    assert_eq!(got.status, 409, "{}", got.body);
    assert_eq!(panel.post("/ticket/open/unassign", &[]).status, 409);
    assert_eq!(panel.post("/ticket/nothing/unassign", &[]).status, 404);
    assert_eq!(panel.files(), before);
    // One that a person has in hand has no Run.
    panel.write("hand.wip.md", &ticket("By hand", "owner: me\nclaimed_at: 2026-01-01T00:00:00Z\n"));
    assert_eq!(panel.post("/ticket/hand/unassign", &[("back", "/ticket/hand")]).status, 303);
    assert!(panel.files().contains_key("hand.md"));
}

const OFFER: &str = "### Colour\n- (a) red\n- (b) blue\n- (c) none\n\n### When\n1. (a) now\n2. (b) later\n";

fn offered() -> Served {
    let panel = served_six();
    panel.write("asks.md", &panel.read("asks.md").replace("Which colour?\n", OFFER));
    panel
}

/// The form for a question's options.
fn seen(panel: &Served) -> String {
    between(&panel.page("/ticket/asks/answer"), "name=\"seen\" value=\"", "\"")[0].clone()
}

#[test]
fn an_answer_is_composed_of_what_was_chosen_and_said() {
    let all: &[(&[(&str, &str)], &str)] = &[
        (&[("choose", "1:c"), ("choose", "1:a")], "1: (a) (c)\n"),
        (&[("choose", "2:b"), ("note-2", " only at  night"), ("note-1", "")], "2: (b) only at night\n"),
        (&[("note-1", "neither"), ("answer", "Thank you.\r\n## not mine")], "1: neither\n\nThank you.\n### not mine\n"),
        (&[("answer", "Green, please.")], "Green, please.\n"),
    ];
    for (fields, says) in all {
        let panel = offered();
        let seen = seen(&panel);
        let fields: Vec<(&str, &str)> =
            [("awaiting", "asks-answer-1"), ("seen", &seen)].into_iter().chain(fields.iter().copied()).collect();
        let got = panel.post("/ticket/asks/answer", &fields);
        assert_eq!(got.status, 303, "{fields:?}: {}", got.body);
        let answer = panel.read("asks-answer-1.done.md");
        assert!(answer.ends_with(&format!("## 답변 1\n\n{says}")), "{answer}");
    }
}

#[test]
fn what_is_not_offered_cannot_be_chosen_and_what_was_typed_stays() {
    let panel = offered();
    let seen = seen(&panel);
    let all: [(super::Files<'_>, u16, &str); 5] = [
        (&[("answer", " ")], 422, "Say something"),
        (&[("choose", "1:x"), ("answer", "kept text")], 409, "has no option (x)"),
        (&[("choose", "7:a"), ("answer", "kept text")], 409, "there is no group 7"),
        (&[("choose", "nonsense"), ("answer", "kept text")], 409, "is no option"),
        (&[("note-9", "x"), ("choose", "2:b"), ("answer", "kept text")], 409, "there is no group 9"),
    ];
    for (fields, status, says) in &all {
        let fields: Vec<(&str, &str)> =
            [("awaiting", "asks-answer-1"), ("seen", &seen)].into_iter().chain(fields.iter().copied()).collect();
        let got = panel.post("/ticket/asks/answer", &fields);
        assert_eq!(got.status, *status, "{fields:?}: {}", got.body);
        assert!(got.body.contains(says), "{fields:?}: {}", got.body);
        assert!(*status == 422 || got.body.contains("kept text"), "{fields:?}");
        assert_eq!(got.body.contains("value=\"2:b\" checked"), fields.contains(&("choose", "2:b")), "{fields:?}");
    }
    // The same letters, another question: nothing is taken for what it was not.
    panel.write("asks.md", &panel.read("asks.md").replace("(a) red", "(a) everything is deleted"));
    let old = [("awaiting", "asks-answer-1"), ("seen", seen.as_str()), ("choose", "1:a"), ("answer", "kept text")];
    let got = panel.post("/ticket/asks/answer", &old);
    assert!(got.status == 409 && got.body.contains("changed meanwhile") && got.body.contains("kept text"));
    assert!(!got.body.contains(" checked"), "a letter may mean something else now");
    let old = [("awaiting", "asks-answer-1"), ("seen", seen.as_str()), ("answer", "1: (a)")];
    let got = panel.post("/ticket/asks/answer", &old);
    assert!(got.status == 409 && got.body.contains("changed meanwhile") && got.body.contains("1: (a)"), "{}", got.body);
    assert!(!panel.files().keys().any(|name| name.contains("answer")));
}

/// It is named: nobody would look for it otherwise.
#[test]
fn a_file_that_answers_nothing_is_named_to_whoever_answers() {
    for (file, text) in [("asks-answer-1.done.md", ""), ("asks-answer-1.md", "---\ntitle: t\n---\n")] {
        let panel = offered();
        panel.write(file, text);
        let fields = [("awaiting", "asks-answer-1"), ("answer", "kept text")];
        let got = panel.post("/ticket/asks/answer", &fields);
        assert!(got.status == 409 && got.body.contains(file) && got.body.contains("kept text"), "{}", got.body);
    }
}

/// A browser sends other ends of lines than those of the file, and no zeros.
#[test]
fn a_text_that_nobody_has_touched_keeps_its_bytes() {
    let body = "a\rb\r\nc\0d\n";
    let panel = Served::new(&[("a.md", &format!("---\ntitle: old\n---\n{body}"))]);
    let seen = between(&panel.page("/ticket/a/edit"), "name=\"seen\" value=\"", "\"")[0].clone();
    let sent = "a\r\nb\r\nc\u{fffd}d\r\n";
    let got = panel.post("/ticket/a/edit", &[("seen", &seen), ("title", "new"), ("body", sent)]);
    assert_eq!(got.status, 303, "{}", got.body);
    let text = panel.read("a.md");
    assert!(text.starts_with("---\ntitle: new\n") && text.ends_with(&format!("\n---\n{body}")), "{text:?}");
}

#[test]
fn a_text_that_no_form_could_show_again_is_refused() {
    let panel = Served::new(&[]);
    let large = "x".repeat((1 << 20) + 1);
    let got = panel.post("/new", &[("title", "t"), ("body", &large)]);
    assert!(got.status == 422 && got.body.contains("1 MiB"), "{}", got.status);
    assert!(panel.files().is_empty());
}

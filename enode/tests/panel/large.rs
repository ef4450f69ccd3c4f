//! Whatever one file says, no page but its own grows with it; and what no page shows whole can be lost by no form.

use super::{Served, between, http, ticket};

/// A page of a nearly empty queue is a few KiB.
const SMALL: usize = 64 << 10;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("d{at:05}")).collect()
}

#[test]
fn one_huge_ticket_and_a_thousand_questions_leave_every_page_small() {
    let huge = "W".repeat(4 << 20);
    let keys = "deps: [big-1]\nawaiting: big-1\n";
    let text = format!("---\ntitle: {huge}\nkind: {huge}\nowner: {huge}\n{keys}---\n{huge}\n\n## 질문 1\n\n{huge}\n");
    let panel = Served::new(&[("big.md", &text), ("busy.wip.md", &text.replace("big-1", "other"))]);
    for path in ["/", "/new", "/node", "/ticket/big/answer", "/ticket/busy"] {
        let page = panel.page(path);
        assert!(page.len() < 2 << 20 && page.contains("the file has all of it"), "{path}: {} bytes", page.len());
    }
    let panel = Served::new(&[]);
    for at in 0..1_000 {
        let body = format!("The text.\n\n## 질문 1\n\n{}\n", "Which one? ".repeat(500));
        let text = format!("---\ntitle: Asks {at}\ndeps: [q{at}-1]\nawaiting: q{at}-1\n---\n{body}");
        std::fs::write(panel.queue().join(format!("q{at}.md")), text).unwrap();
    }
    let page = panel.page("/node");
    assert!(page.contains("To answer: 1000"), "all of them are listed");
    assert_eq!(between(&page, "id=\"questions\"", "</ul>")[0].matches("<li>").count(), 1_000);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

#[test]
fn many_deps_are_a_few_on_the_board_and_all_on_their_own_page() {
    let deps = names(3_000).join(", ");
    let panel = Served::new(&[("big.md", &ticket("Big", &format!("deps: [{deps}]\n")))]);
    for (path, few) in [("/", 1), ("/new", 0), ("/node", 0)] {
        let page = panel.page(path);
        assert!(page.len() < SMALL, "{path}: {} bytes", page.len());
        // Of what holds it, and of what is odd about it.
        assert_eq!(page.matches("more</span>").count(), few, "{path}");
        assert_eq!(page.matches("<bdi>d00000</bdi>").count(), few, "{path}");
    }
    let page = panel.page("/");
    assert!(
        page.contains("<bdi>d00004</bdi> <span>+2995 more</span>") && !page.contains("<bdi>d00005</bdi>"),
        "{page}"
    );
    assert!(page.contains("+2997 more warnings"), "{page}");
    let page = panel.page("/ticket/big");
    let list = &between(&page, "id=\"deps-title\"", "</section>")[0];
    assert!(names(3_000).iter().all(|name| list.contains(&format!("<bdi>{name}</bdi>"))));
}

#[test]
fn what_a_form_cannot_hold_is_edited_in_its_file_and_nothing_of_it_is_lost() {
    let long = "W".repeat(3 << 20);
    let files = [
        ("title.md", ticket(&long, "")),
        ("kind.md", ticket("t", &format!("kind: {long}\n"))),
        ("req.md", ticket("t", &format!("req: {long}\n"))),
        ("deps.md", ticket("t", &format!("deps: [{}]\n", names(3_000).join(", ")))),
        ("body.md", format!("{}{long}", ticket("t", ""))),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let panel = Served::new(&files);
    let before = panel.files();
    let seen = "0".repeat(64);
    for (file, _) in &files {
        let stem = file.strip_suffix(".md").unwrap();
        let edit = format!("/ticket/{stem}/edit");
        for got in [panel.get(&edit), panel.post(&edit, &[("title", "short"), ("seen", &seen)])] {
            assert_eq!(got.status, 409, "{stem}");
            assert!(
                got.body.contains(&format!("edit its file {file}")) && got.body.len() < SMALL,
                "{stem}: {}",
                got.body
            );
        }
        let got = panel.get(&format!("/new?from={stem}"));
        // What it waits for is not copied.
        let copies = matches!(*file, "deps.md" | "req.md");
        assert_eq!(got.status, if copies { 200 } else { 409 }, "{stem}");
        assert!(copies || got.body.contains("copy its file") && got.body.len() < SMALL, "{stem}: {}", got.body);
        assert!(panel.page(&format!("/ticket/{stem}")).len() < 4 << 20);
    }
    assert_eq!(panel.files(), before);
    // As long as the form takes.
    let most = "가".repeat(1_000);
    let panel = Served::new(&[("a.md", &ticket(&most, ""))]);
    assert!(panel.page("/ticket/a/edit").contains(&format!("value=\"{most}\"")));
    for path in ["/new", "/ticket/a/edit"] {
        let page = panel.page(path);
        let seen = between(&page, "name=\"seen\" value=\"", "\"");
        let seen = seen.first().map_or("", String::as_str);
        let got = panel.post(path, &[("title", &format!("{most}x")), ("seen", seen)]);
        assert!(got.status == 422 && got.body.contains("title: it has more than 1000"), "{path}: {}", got.body);
        let deps: Vec<_> = std::iter::once(("title", "t")).chain([("deps", "a"); 1_001]).collect();
        let got = panel.post(path, &[&deps[..], &[("seen", seen)]].concat());
        assert!(got.status == 422 && got.body.contains("deps: there are more than 1000"), "{path}: {}", got.body);
    }
    assert_eq!(panel.files().len(), 1);
}

#[test]
fn questions_with_many_options_and_long_threads_are_short() {
    use std::fmt::Write as _;
    let mut options = String::new();
    for at in 0..3_000 {
        writeln!(options, "### Choice {at}\n- (a) one\n- (b) other\n").unwrap();
    }
    let mut talk = String::new();
    for at in 1..=400 {
        writeln!(talk, "## 질문 {at}\n\nWhich one {at}?\n").unwrap();
    }
    let asks = |key: &str, body: &str| format!("{}{body}", ticket("t", &format!("deps: [{key}]\nawaiting: {key}\n")));
    let title = format!("## 질문 1\n\n### {}\n- (a) one\n- (b) other\n", "W".repeat(1 << 20));
    let panel = Served::new(&[
        ("many.md", &asks("many-1", &format!("## 질문 1\n\n{options}"))),
        ("long.md", &asks("long-1", &title)),
        ("talk.md", &format!("{}{talk}", ticket("t", ""))),
    ]);
    for path in ["/", "/node", "/ticket/many/answer", "/ticket/many", "/ticket/long", "/ticket/talk"] {
        let page = panel.page(path);
        assert!(page.len() < 4 * SMALL, "{path}: {} bytes", page.len());
    }
    let page = panel.page("/ticket/many/answer");
    let form = &between(&page, "id=\"answer-form\"", "</form>")[0];
    assert!(form.contains("6000 options") && !form.contains("name=\"choose\""), "{form}");
    // In one's own words it can be answered as ever.
    let got = panel.post("/ticket/many/answer", &[("awaiting", "many-1"), ("answer", "1: (b)")]);
    assert_eq!(got.status, 303, "{}", got.body);
    assert!(panel.read("many-1.done.md").contains("1: (b)"));
    let page = panel.page("/ticket/talk");
    assert!(page.contains("350 earlier ones") && page.contains("Which one 400?") && !page.contains("Which one 350?"));
}

#[test]
fn what_is_refused_is_said_in_short() {
    let long = "W".repeat(3 << 20);
    let panel = Served::new(&[("asks.md", &ticket("t", "deps: [asks-1]\nawaiting: asks-1\n"))]);
    for (path, field) in [("/ticket/asks/answer", "choose"), ("/new", "deps"), ("/new", "priority")] {
        let fields = [("title", "t"), ("awaiting", "asks-1"), (field, &*long)];
        let got = panel.post(path, &fields);
        assert!(got.status >= 400 && got.body.len() < SMALL, "{path}: {} {}", got.status, got.body.len());
    }
}

#[test]
fn a_thousand_odd_files_are_counted_and_a_few_named() {
    let panel = Served::new(&[]);
    for (at, name) in names(1_000).iter().enumerate() {
        std::fs::write(panel.queue().join(format!("odd{at:04}.md")), "nothing").unwrap();
        let next = format!("d{:05}", (at + 1) % 1_000);
        std::fs::write(panel.queue().join(format!("{name}.done.md")), ticket("t", &format!("deps: [{next}]\n")))
            .unwrap();
    }
    let page = panel.page("/");
    let odd = &between(&page, "<section class=\"odd\"", "</section>")[0];
    assert!(odd.len() < SMALL && odd.contains("enode tickets check"), "{} bytes", odd.len());
    assert!(odd.contains("odd0000.md") && odd.matches("<li>").count() < 100, "{odd}");
}

#[test]
fn a_long_address_stands_in_no_form() {
    let asks = "deps: [a-1]\nawaiting: a-1\n";
    let panel = Served::new(&[("a.md", &ticket("a", asks)), ("b.md", &ticket("b", "session_id: x\n"))]);
    let long = "w".repeat(60 << 10);
    for path in ["/?q=", "/?other=", "/ticket/a?x="] {
        let page = panel.page(&format!("{path}{long}"));
        assert!(page.len() < SMALL, "{path}: {} bytes", page.len());
    }
    let back = format!("/?x={long}");
    let got = panel.post("/ticket/b/unassign", &[("back", &back)]);
    assert_eq!((got.status, got.header("location")), (303, "/"));
    let got = panel.post("/ticket/a/answer", &[("back", &back), ("awaiting", "a-1"), ("answer", "")]);
    assert!(got.status == 422 && got.body.len() < SMALL, "{} {}", got.status, got.body.len());
}

#[test]
fn only_forms_with_text_may_be_large() {
    let panel = Served::with(&[], "0.0.0.0:0", "panel_token = \"a long enough word\"\n");
    let word = super::csrf(&panel.page("/login"));
    let long = "w".repeat(100 << 10);
    let got = http::post(panel.port(), "/login", &[("csrf", &word), ("token", &long)]);
    assert_eq!(got.status, 413, "{}", got.body);
    let panel = Served::new(&[]);
    for path in ["/node/drain", "/logout", "/ticket/a/unassign"] {
        assert_eq!(panel.post(path, &[("reason", &long)]).status, 413, "{path}");
    }
    assert_eq!(panel.post("/new", &[("title", "t"), ("body", &long)]).status, 303);
}

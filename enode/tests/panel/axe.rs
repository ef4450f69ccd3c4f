//! The pages before `axe-core`, the accessibility checker that others use. `make axe` brings it.

use std::{path::PathBuf, sync::LazyLock};

use super::{Served, chromium::Browser, served_six, ticket};

/// The pages allow no script from elsewhere and none inline, so it comes in over the debugging pipe.
static AXE: LazyLock<String> = LazyLock::new(|| {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/axe/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}: `make axe` installs it", path.display()))
});

/// Everything it knows of, best practices included.
const RUN: &str = r"axe.run(document, { resultTypes: ['violations'] }).then((got) => got.violations.flatMap((it) =>
  it.nodes.map((node) => it.id + ' (' + it.impact + '): ' + node.target.join(' ') + '\n    ' +
    node.html.slice(0, 160) + '\n    ' + node.failureSummary.replace(/\s+/g, ' '))))";

/// Fails with everything that it finds on the page as it is drawn now.
fn sound(b: &mut Browser, what: &str) {
    let found = found(b);
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

fn found(b: &mut Browser) -> Vec<String> {
    if b.js("typeof axe === 'undefined'") == true {
        b.js(&format!("{}; 0", *AXE));
    }
    let found = b.js(RUN);
    found.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// One after the other at both widths and in both themes.
fn all_sound(panel: &Served, pages: &[&str]) {
    let (mut b, mut all) = (Browser::start(), Vec::new());
    for (width, is_dark) in [(360, false), (360, true), (1280, false), (1280, true)] {
        b.look(width, 800, is_dark);
        for path in pages {
            b.open(&panel.url(path));
            all.extend(found(&mut b).into_iter().map(|it| format!("{path} {width} dark: {is_dark}: {it}")));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn the_board_with_each_filter_and_without_a_ticket() {
    let panel = served_six();
    panel.write("bare.md", "nothing");
    all_sound(
        &panel,
        &[
            "/",
            "/?state=open",
            "/?state=deps_wait",
            "/?state=answer_wait",
            "/?state=assigned",
            "/?state=in_progress",
            "/?state=done",
            "/?q=nothing+like+it",
        ],
    );
    all_sound(&Served::new(&[]), &["/"]);
}

#[test]
fn tickets_and_their_forms() {
    let offer = "### Colour\n- (a) red\n- (b) blue\n\n- (a) now\n- (b) later\n";
    let long = "W".repeat(2_000);
    let bad = "<img src=x onerror=\"1\"><script>1</script> <h1>x</h1> <label for=q>";
    let hostile = format!(
        "---\ntitle: {bad} {long}\nkind: {bad}\nowner: {long}\ndeps: [asks, nowhere]\npriority: x\n---\n{bad}\n{long}\n\u{202e}שלום\n"
    );
    let talk = "---\ntitle: Has been answered\ndeps: [talk-1]\nawaiting: talk-1\n---\nText.\n\n## 질문 1\n\nHow?\n";
    let answer = "---\ntitle: A\nkind: answer\n---\n\n## 답변 1\n\nSo.\n";
    let panel = served_six();
    panel.write("asks.md", &panel.read("asks.md").replace("Which colour?\n", offer));
    panel.write("bad.md", &hostile);
    panel.write("bad-busy.wip.md", &hostile);
    panel.write("talk.md", talk);
    panel.write("talk-1.done.md", answer);
    panel.write("twice.md", &ticket("Twice", "priority: 9\nawaiting: gone\n"));
    all_sound(
        &panel,
        &[
            "/",
            "/ticket/asks",
            "/ticket/talk",
            "/ticket/bad",
            "/ticket/bad-busy",
            "/ticket/busy",
            "/ticket/old",
            "/ticket/stray",
            "/ticket/asks/answer",
            "/ticket/waits/edit",
            "/ticket/bad/edit",
            "/new",
            "/new?from=bad",
        ],
    );
}

#[test]
fn the_node_and_what_went_wrong() {
    let panel = Served::with(&[], "127.0.0.1:0", "drain = \"graceful\"\nreason = \"moving the rack\"\n");
    all_sound(&panel, &["/node", "/nowhere", "/ticket/gone", "/new/x", "/assets/gone"]);
    panel.write("busy.wip.md", &ticket("In hand", "session_id: s2\n"));
    all_sound(&panel, &["/ticket/busy/edit", "/ticket/busy/answer"]);
    let locked = Served::with(&[], "0.0.0.0:0", "panel_token = \"0123456789abcdef\"\n");
    all_sound(&locked, &["/login"]);
}

#[test]
fn what_opens_and_what_was_refused() {
    let panel = served_six();
    panel.write("asks.md", &panel.read("asks.md").replace("Which colour?\n", "- (a) red\n- (b) blue\n"));
    let mut b = Browser::start();
    for (width, is_dark) in [(360, false), (360, true), (1280, false), (1280, true)] {
        b.look(width, 800, is_dark);
        let what = |page: &str| format!("{page} {width} dark: {is_dark}");
        b.open(&panel.url("/"));
        b.js(
            "document.querySelector('#bell > summary').click(); document.querySelector('#ask-asks > summary').click()",
        );
        sound(&mut b, &what("bell"));
        b.js("document.querySelector('#bell > summary').click(); document.querySelector('#answer-asks').click()");
        b.until("document.querySelector('dialog').open");
        sound(&mut b, &what("dialog"));
        let refused = |b: &mut Browser, page: &str, form: &str, spoil: &str| {
            b.open(&panel.url(page));
            b.js(&format!("window.isLeft = true; document.querySelector('{spoil}').value = ' '; document.querySelector('{form}').submit()"));
            b.loaded();
            assert_eq!(b.js("!!document.querySelector('[role=alert]')"), true, "{page}");
            sound(b, &what(&format!("refused {page}")));
        };
        refused(&mut b, "/new", "form[action=\"/new\"]", "#title");
        refused(&mut b, "/ticket/waits/edit", "form[action$=\"/edit\"]", "#title");
        refused(&mut b, "/ticket/asks/answer", "#answer-form form", "#answer-form textarea");
        // What is asked before a Run is cancelled, and what is said when nobody knows of it.
        b.open(&panel.url("/ticket/busy"));
        b.js("window.isLeft = true; document.querySelector('form[action$=\"/unassign\"]').submit()");
        b.loaded();
        sound(&mut b, &what("unassign"));
        // What a form says that is from before a restart.
        b.open(&panel.url("/new"));
        b.js("window.isLeft = true; document.querySelector('#title').value = 'T'; document.querySelector('#body').value = 'Text'; document.querySelector('form[action=\"/new\"] [name=csrf]').value = 'old'; document.querySelector('form[action=\"/new\"]').submit()");
        b.loaded();
        assert_eq!(b.text("document.querySelector('#again textarea').value"), "Text");
        sound(&mut b, &what("sent again"));
    }
}

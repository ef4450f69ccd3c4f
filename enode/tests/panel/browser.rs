//! The pages in Debian's Chromium.

use super::{
    Served,
    audit::{audit, focus_is_seen},
    chromium::Browser,
    screenshots, served_six, ticket,
};

const DRAWN: &str = "[...document.querySelectorAll('.card')].map((it) => it.id.slice(5)).join(' ')";
const PAGES: [&str; 7] =
    ["/", "/?state=assigned&q=x", "/node", "/new", "/ticket/asks", "/ticket/waits/edit", "/ticket/asks/answer"];

#[test]
fn every_word_of_the_filter_is_one_click_and_in_the_address() {
    let panel = served_six();
    let mut b = Browser::start();
    for (word, drawn) in [
        ("open", "open low"),
        ("deps_wait", "waits asks"),
        ("answer_wait", "asks"),
        ("assigned", ""),
        ("in_progress", "busy"),
        ("done", "old"),
    ] {
        b.open(&panel.url("/"));
        assert_eq!(b.text(DRAWN), "open waits asks low busy old");
        // All others off by script, the last one by a click: the page sends it itself.
        b.js(&format!(
            "window.isLeft = true; const boxes = [...document.querySelectorAll('[name=state]')]; \
             for (const it of boxes) it.checked = it.value === {word:?}; \
             const last = boxes.find((it) => it.value !== {word:?}); last.checked = true; last.click()"
        ));
        b.loaded();
        assert_eq!(b.text(DRAWN), drawn, "{word}");
        assert_eq!(b.text("location.search"), format!("?state={word}"));
    }
    b.follow(".links a:last-child");
    assert_eq!(b.text(DRAWN), "open waits asks low busy");
    b.follow(".links a");
    assert_eq!(b.text("location.pathname + location.search"), "/");
    b.js("document.querySelector('#q').focus()");
    b.typed("LEAST");
    b.js("window.isLeft = true");
    b.key("Enter");
    b.loaded();
    assert_eq!((b.text(DRAWN), b.text("location.search")), ("low".to_owned(), "?q=LEAST".to_owned()));
    // Back to what was shown before.
    b.js("window.isLeft = true; history.back()");
    b.until("document.querySelectorAll('.card').length === 6 && !document.querySelector('#q').disabled");
    let (requests, complaints) = b.requests_and_complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
    let own = panel.url("/");
    let foreign: Vec<_> = requests.iter().filter(|it| !it.starts_with(&own) && *it != "about:blank").collect();
    assert!(requests.len() > 10 && foreign.is_empty(), "{foreign:?}");
}

/// Changes everything that shows the ticket that asks, the surroundings of its form among it, and waits until the page
/// has taken that in or left it.
fn changed_under(panel: &Served, b: &mut Browser) {
    let before = b.text("document.body.dataset.version");
    panel.write("asks.md", &panel.read("asks.md").replace("title: ", "title: Changed, "));
    b.until(&format!("Number(document.body.dataset.version) > {before}"));
}

#[test]
fn a_question_is_answered_in_three_places() {
    let mut b = Browser::start();
    for place in ["ticket", "dialog", "bell"] {
        let panel = served_six();
        match place {
            "ticket" => {
                b.open(&panel.url("/"));
                b.follow("#to-asks");
            }
            "dialog" => {
                b.open(&panel.url("/?q=asks"));
                b.js("document.querySelector('#answer-asks').click()");
                b.until("document.querySelector('dialog').open && document.activeElement.name === 'answer'");
                audit(&mut b, "dialog");
            }
            _ => {
                b.open(&panel.url("/new"));
                b.js("document.querySelector('#bell > summary').click(); document.querySelector('#ask-asks > summary').click()");
                audit(&mut b, "bell");
            }
        }
        assert!(
            b.text(&format!("document.getElementById('{place}-answer-asks').form.innerText")).contains("Which colour?"),
            "{place}"
        );
        b.js(&format!("document.getElementById('{place}-answer-asks').focus()"));
        b.typed("Blue");
        changed_under(&panel, &mut b);
        assert_eq!(b.text(&format!("document.getElementById('{place}-answer-asks').value")), "Blue", "{place}");
        assert_eq!(b.text("document.activeElement.id"), format!("{place}-answer-asks"));
        b.js("window.isLeft = true; document.activeElement.form.requestSubmit()");
        b.loaded();
        assert!(panel.read("asks-answer-1.done.md").contains("Blue"), "{place}");
        let back = b.text("location.pathname + location.search");
        assert_eq!(
            back,
            match place {
                "ticket" => "/ticket/asks",
                "dialog" => "/?q=asks",
                _ => "/new",
            }
        );
        assert!(!b.text("document.querySelector('#bell > summary').textContent").contains('2'));
    }
}

#[test]
fn options_are_chosen_in_three_places_and_without_script() {
    let offer = "### Colour\n- (a) red\n- (b) blue\n\n### When\n- (a) now\n- (b) later\n";
    let mut b = Browser::start();
    for place in ["ticket", "dialog", "bell", "no script"] {
        let panel = served_six();
        panel.write("asks.md", &panel.read("asks.md").replace("Which colour?\n", offer));
        b.script(place != "no script");
        let path = if place == "ticket" { "/ticket/asks" } else { "/" };
        b.call("Page.navigate", serde_json::json!({"url": panel.url(path)}));
        b.until(&format!("location.port === '{}' && document.readyState === 'complete'", panel.port()));
        match place {
            "ticket" => {}
            "dialog" => {
                b.js("document.querySelector('#answer-asks').click()");
                b.until("document.querySelector('dialog').open && document.activeElement.name === 'choose'");
                audit(&mut b, place);
            }
            "bell" => {
                b.js("document.querySelector('#bell > summary').click(); document.querySelector('#ask-asks > summary').click()");
            }
            _ => {
                b.js("document.querySelector('#answer-asks').click()");
                b.until("location.pathname === '/ticket/asks/answer' && document.querySelector('form.answer')");
            }
        }
        let prefix = if place == "no script" { "dialog" } else { place };
        let form = format!("document.getElementById('{prefix}-answer-asks').form");
        assert_eq!(
            b.text(&format!("[...{form}.querySelectorAll('legend bdi')].map((it) => it.textContent).join()")),
            "Colour,When",
            "{place}"
        );
        b.js(&format!(
            "{form}.querySelector('[value=\"1:b\"]').click(); {form}.querySelector('[name=note-2]').focus()"
        ));
        b.typed("at night");
        if place != "no script" {
            // What is chosen is kept as what is typed is, and by itself.
            changed_under(&panel, &mut b);
            assert_eq!(b.text("document.activeElement.name"), "note-2", "{place}");
            b.js("document.activeElement.blur()");
            changed_under(&panel, &mut b);
            b.js(&format!("{form}.querySelector('[name=note-2]').value = ''"));
            changed_under(&panel, &mut b);
            assert_eq!(b.js(&format!("{form}.querySelector('[value=\"1:b\"]').checked")), true, "{place}");
            b.js(&format!("{form}.querySelector('[name=note-2]').focus()"));
            b.typed("at night");
        }
        b.js(&format!("{form}.querySelector('button.main').click()"));
        super::wait_for("the answer", || panel.queue().join("asks-answer-1.done.md").exists());
        let answer = panel.read("asks-answer-1.done.md");
        assert!(answer.ends_with("\n\n1: (b)\n2: at night\n"), "{place}: {answer}");
    }
}

#[test]
fn r47_what_nobody_picks_up_is_unassigned_and_leaves_the_bell_by_itself() {
    let panel = served_six();
    let mut b = Browser::start();
    b.open(&panel.url("/?state=done"));
    b.js("document.querySelector('#bell > summary').click()");
    b.follow("#accidents button");
    assert_eq!(panel.read("stray.md"), ticket("Nobody picks it up", "owner: x\n"));
    assert_eq!(b.text("location.search"), "?state=done");
    assert_eq!(b.text("String(document.querySelector('#accidents'))"), "null");
    // And one that comes and goes while the page is open.
    let count = "document.querySelectorAll('#accidents li').length";
    panel.write("other.md", &ticket("Another", "session_id: x\n"));
    b.until(&format!("{count} === 1"));
    panel.write("other.md", &ticket("Another", ""));
    b.until(&format!("{count} === 0"));
}

#[test]
fn a_change_comes_in_by_itself_and_keeps_focus_and_what_is_open() {
    let panel = served_six();
    let mut b = Browser::start();
    b.open(&panel.url("/"));
    b.js("document.querySelector('#bell > summary').click(); document.querySelector('#to-low').focus(); window.isSame = true");
    panel.write("low.md", &ticket("Now with another title", "priority: 1\n"));
    b.until("document.querySelector('#to-low').textContent.includes('another title')");
    assert_eq!(b.text("document.activeElement.id"), "to-low");
    assert_eq!(b.js("document.querySelector('#bell').open && window.isSame"), true);
    std::fs::rename(panel.queue().join("low.md"), panel.queue().join("low.wip.md")).unwrap();
    b.until("document.querySelector('.in_progress #card-low')");
}

#[test]
fn everything_is_done_with_the_keyboard_alone() {
    let panel = served_six();
    let mut b = Browser::start();
    b.open(&panel.url("/"));
    b.key("Tab");
    assert_eq!(b.text("document.activeElement.className"), "skip");
    let enter = |b: &mut Browser| {
        b.js("window.isLeft = true");
        b.key("Enter");
        b.loaded();
    };
    // A new ticket.
    b.tab_to("nav a[href='/new']");
    enter(&mut b);
    b.tab_to("#title");
    b.typed("By keyboard");
    b.tab_to("#find");
    b.typed("least");
    assert_eq!(b.js("[...document.querySelectorAll('.picks label')].filter((it) => !it.hidden).length"), 1);
    b.tab_to("[name=deps][value=low]");
    b.key(" ");
    b.tab_to("button.main");
    enter(&mut b);
    let stem = b.text("location.pathname.slice(8)");
    assert!(panel.read(&format!("{stem}.md")).contains("title: By keyboard\ndeps: [low]\n"));
    // One that nobody picks up.
    b.tab_to("#bell > summary");
    b.key("Enter");
    b.tab_to("#accidents button");
    enter(&mut b);
    assert!(!panel.read("stray.md").contains("session_id"));
    // The filter.
    b.open(&panel.url("/"));
    b.tab_to("[value=done]");
    b.js("window.isLeft = true");
    b.key(" ");
    b.loaded();
    assert!(!b.text(DRAWN).contains("old"));
    // The dialog gives the focus back.
    b.tab_to("#answer-asks");
    b.key("Enter");
    b.until("document.querySelector('dialog').open && document.activeElement.name === 'answer'");
    b.key("Escape");
    b.until("!document.querySelector('dialog').open && document.activeElement.id === 'answer-asks'");
    b.key("Enter");
    b.until("document.querySelector('dialog').open && document.activeElement.name === 'answer'");
    b.typed("Green");
    b.tab_to("dialog button.main");
    enter(&mut b);
    assert!(panel.read("asks-answer-1.done.md").contains("Green"));
    // The node.
    b.tab_to("nav a[href='/node']");
    enter(&mut b);
    b.tab_to("#reason");
    b.typed("mine");
    b.tab_to("button.main");
    enter(&mut b);
    assert!(panel.policy().contains("drain = \"graceful\"") && panel.policy().contains("reason = \"mine\""));
}

#[test]
fn without_script_every_page_works() {
    let panel = served_six();
    let mut b = Browser::start();
    b.script(false);
    b.call("Page.navigate", serde_json::json!({"url": panel.url("/")}));
    // The debugger may still look.
    b.until("document.readyState === 'complete' && document.querySelectorAll('.card').length === 6");
    assert_eq!(b.text("document.querySelector('meta[http-equiv=refresh]').content"), "5");
    panel.write("late.md", &ticket("Came later", ""));
    b.until("document.querySelectorAll('.card').length === 7");
    // What is typed into a page that loads itself again would be lost: the bell leads to a page that does not.
    b.js("document.querySelector('#bell').open = document.querySelector('#ask-asks').open = true");
    assert_eq!(b.text("[...document.querySelectorAll('form.answer *')].filter((it) => it.checkVisibility()).map((it) => it.className).join()"), "prose question");
    b.js("document.querySelector('#ask-asks a').click()");
    b.until("location.pathname === '/ticket/asks/answer'");
    b.js("history.back()");
    b.until("document.querySelectorAll('.card').length === 7");
    b.js("document.querySelector('#answer-asks').click()");
    b.until("location.pathname === '/ticket/asks/answer' && document.querySelector('form.answer')");
    assert_eq!(b.text("String(document.querySelector('#main meta, meta[http-equiv]'))"), "null", "who types keeps it");
    b.js("document.querySelector('#dialog-answer-asks').value = 'Red'; document.querySelector('#dialog-answer-asks').form.submit()");
    b.until("location.pathname === '/ticket/asks'");
    assert!(panel.read("asks-answer-1.done.md").contains("Red"));
    b.js("location.href = '/?state=done'");
    b.until("location.search === '?state=done' && document.querySelectorAll('.card').length === 2");
    b.js("document.querySelector('#accidents form').submit()");
    b.until("!document.querySelector('#accidents')");
    assert!(!panel.read("stray.md").contains("session_id"));
}

#[test]
fn hostile_text_runs_nothing_and_breaks_no_line() {
    let long = "W".repeat(3_000);
    let bad = "<img src=x onerror=\"window.bad=1\"><script>window.bad=1</script>";
    let text = |title: &str, long: &str| {
        format!(
            "---\ntitle: {title}\nkind: {long}\nowner: {long}\ndeps: [{}]\npriority: {long}\n---\n{title}\n{long}\n{bad}\n",
            "d".repeat(170)
        )
    };
    let (one, two) = (text(&format!("{bad} {long}"), &long), text("\u{202e}שלום עולם \u{2066}evil", &long));
    // As much as a form takes.
    let form = text(&format!("{bad} {}", &long[..900]), &long[..1_000]);
    let files = [("a.md", &*one), ("b.wip.md", &two), ("c.done.md", &two), ("d.md", &form), ("odd.md", &long)];
    let panel = Served::new(&files);
    let mut b = Browser::start();
    for path in ["/", "/ticket/a", "/ticket/b", "/ticket/d/edit", "/new?from=d", "/node"] {
        b.look(360, 740, false);
        b.open(&panel.url(path));
        audit(&mut b, path);
        assert_eq!(b.js("window.bad === undefined"), true, "{path}");
    }
    // What turns the direction round ends with the title.
    b.open(&panel.url("/ticket/b"));
    assert_eq!(b.text("getComputedStyle(document.querySelector('.crumb')).direction"), "ltr");
    assert_eq!(b.text("getComputedStyle(document.querySelector('h1')).direction"), "rtl");
}

#[test]
fn every_page_is_sound_small_and_wide_dark_and_light() {
    let panel = Served::with(
        &super::six().iter().map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>(),
        "127.0.0.1:0",
        "drain = \"graceful\"\nreason = \"moving the rack\"\n",
    );
    panel.write("bare.md", "nothing");
    let mut b = Browser::start();
    for (width, is_dark) in [(360, false), (360, true), (1280, false), (1280, true)] {
        b.look(width, 800, is_dark);
        for path in PAGES {
            b.open(&panel.url(path));
            audit(&mut b, &format!("{path} {width} {is_dark}"));
        }
        b.js(
            "document.querySelector('#bell > summary').click(); document.querySelector('#ask-asks > summary').click()",
        );
        audit(&mut b, &format!("bell {width} {is_dark}"));
    }
    for path in PAGES {
        b.open(&panel.url(path));
        focus_is_seen(&mut b, path);
    }
}

/// `make screenshots` looks at them; without a folder there is nothing to do.
#[test]
fn screenshots_are_taken_where_a_folder_is_named() {
    let Some(folder) = screenshots() else { return };
    std::fs::create_dir_all(&folder).unwrap();
    let mut files: Vec<(String, String)> =
        super::six().into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    for (at, title) in
        ["Measure the cold start", "Write the release notes", "Flash the boards in room 3"].iter().enumerate()
    {
        files.push((format!("7f3a9c0{at}.md"), ticket(title, &format!("kind: work\npriority: {}\n", 5 - at))));
        files.push((format!("2b8e1d4{at}.done.md"), ticket(title, "kind: work\n")));
    }
    files.push((
        "c0ffee11.wip.md".to_owned(),
        ticket("Port the driver", "session_id: t1\nowner: bench-2\nassigned_at: 2026-11-30T00:00:00Z\n"),
    ));
    let many: Vec<String> = (0..40).map(|at| format!("5eed{at:04}")).collect();
    let many = format!("priority: 2\ndeps: [7f3a9c00, {}]\n", many.join(", "));
    files.push(("9d2c4b11.md".to_owned(), ticket("Publish what was measured", &many)));
    files.push(("bare.md".to_owned(), "nothing".to_owned()));
    let options = "### Which driver goes first?\n- (a) the one for the sensor\n- (b) the one for the display\n\n### When?\n- (a) at once\n- (b) after the release\n";
    for (_, text) in files.iter_mut().filter(|(name, _)| name == "asks.md") {
        *text = text.replace("Which colour?\n", options);
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let panel = Served::with(&files, "127.0.0.1:0", "drain = \"graceful\"\nreason = \"moving the rack\"\n");
    let mut b = Browser::start();
    for (width, is_dark) in [(360, false), (360, true), (1280, false), (1280, true)] {
        b.look(width, if width == 360 { 1400 } else { 900 }, is_dark);
        let shoot = |b: &mut Browser, name: &str| {
            let theme = if is_dark { "dark" } else { "light" };
            let png = decoded(&b.screenshot());
            std::fs::write(folder.join(format!("{name}-{width}-{theme}.png")), png).unwrap();
        };
        for (name, path) in [
            ("board", "/"),
            ("ticket", "/ticket/asks"),
            ("new", "/new"),
            ("edit", "/ticket/waits/edit"),
            ("node", "/node"),
            ("error", "/ticket/gone"),
        ] {
            b.open(&panel.url(path));
            shoot(&mut b, name);
        }
        b.open(&panel.url("/"));
        b.js(
            "document.querySelector('#bell > summary').click(); document.querySelector('#ask-asks > summary').click()",
        );
        shoot(&mut b, "bell");
        b.open(&panel.url("/"));
        b.js("document.querySelector('#answer-asks').click()");
        b.until("document.querySelector('dialog').open");
        shoot(&mut b, "dialog");
    }
}

/// Base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | value(*byte)) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

/// A second click comes before the first one's answer.
#[test]
fn a_form_that_is_sent_twice_is_sent_once() {
    let panel = served_six();
    let mut b = Browser::start();
    b.open(&panel.url("/new"));
    let twice = "(() => { let sent = 0; document.addEventListener('submit', (event) => { sent += event.defaultPrevented ? 0 : 1; \
                 event.preventDefault(); }); const form = document.querySelector('main form'); form.title.value = 't'; \
                 form.requestSubmit(); form.requestSubmit(); return String(sent); })()";
    assert_eq!(b.text(twice), "1");
    // Come back to, it can be sent again.
    b.js("dispatchEvent(new Event('pageshow'))");
    assert_eq!(b.text("document.querySelectorAll('[data-sent]').length.toString()"), "0");
}

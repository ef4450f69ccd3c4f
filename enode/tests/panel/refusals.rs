//! What was typed is not lost, whatever becomes of it.

use std::os::unix::fs::PermissionsExt;

use super::{Got, Served, between, csrf, http, served_six, ticket};

const TYPED: &str = "A long text, \"quoted\" & <b>more</b>\nof two lines";

fn unescaped(text: &str) -> String {
    let codes = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    codes.iter().fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

/// The form by which a refused one is sent once more: where to, and with what.
fn again(got: &Got) -> (String, Vec<(String, String)>) {
    let form = between(&got.body, "<form ", "</form>").into_iter().find(|it| it.contains("id=\"again\""));
    let form = form.unwrap_or_else(|| panic!("{}: {}", got.status, got.body));
    let action = between(&form, "action=\"", "\"")[0].clone();
    let mut fields = Vec::new();
    for tag in between(&form, "<input ", ">").iter().chain(&between(&form, "<textarea ", "</textarea>")) {
        let value = match tag.split_once(">\n") {
            Some((_, text)) => text.to_owned(),
            None => between(tag, "value=\"", "\"")[0].clone(),
        };
        fields.push((between(tag, "name=\"", "\"")[0].clone(), unescaped(&value)));
    }
    (action, fields)
}

/// Presses the button under what was refused.
fn send_again(panel: &Served, got: &Got) -> Got {
    let (action, fields) = again(got);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    http::post(panel.port(), &action, &fields)
}

/// As from a page of a panel that was started anew since.
fn post_old(panel: &Served, path: &str, fields: &[(&str, &str)]) -> Got {
    let old = "0".repeat(64);
    let fields: Vec<_> = std::iter::once(("csrf", old.as_str())).chain(fields.iter().copied()).collect();
    let got = http::post(panel.port(), path, &fields);
    assert_eq!(got.status, 403, "{path}");
    got
}

#[test]
fn a_form_from_before_a_restart_is_shown_again_and_can_be_sent() {
    let panel = served_six();
    let before = panel.files();
    let new = [("title", "kept \"title\""), ("deps", "open"), ("deps", "low"), ("kind", "work"), ("body", TYPED)];
    let new = post_old(&panel, "/new", &new);
    let answer = [("awaiting", "asks-answer-1"), ("back", "/ticket/asks"), ("answer", TYPED)];
    let answer = post_old(&panel, "/ticket/asks/answer", &answer);
    let drain = post_old(&panel, "/node/drain", &[("mode", "graceful"), ("reason", "the rack moves")]);
    let unassign = post_old(&panel, "/ticket/stray/unassign", &[("back", "/")]);
    assert_eq!(panel.files(), before);
    assert_eq!(panel.policy(), "");

    let got = send_again(&panel, &new);
    assert_eq!(got.status, 303, "{}", got.body);
    let text = panel.read(&format!("{}.md", got.header("location").strip_prefix("/ticket/").unwrap()));
    assert!(text.contains("title: kept \"title\"\nkind: work\n") && text.contains("deps: [open, low]"), "{text}");
    assert!(text.ends_with(&format!("---\n\n{TYPED}\n")), "{text}");
    assert_eq!(send_again(&panel, &answer).header("location"), "/ticket/asks");
    assert!(panel.read("asks-answer-1.done.md").contains(TYPED));
    assert_eq!(send_again(&panel, &drain).status, 303);
    assert!(panel.policy().contains("reason = \"the rack moves\""));
    assert_eq!(send_again(&panel, &unassign).status, 303);
    assert!(!panel.read("stray.md").contains("session_id"));
}

#[test]
fn an_edit_of_what_was_taken_meanwhile_is_kept_and_can_be_sent_when_it_is_open_again() {
    let panel = served_six();
    let page = panel.page("/ticket/open/edit");
    let seen = between(&page, "name=\"seen\" value=\"", "\"")[0].clone();
    let fields = [("seen", seen.as_str()), ("title", "kept title"), ("priority", "4"), ("body", TYPED)];
    let (from, to) = (panel.queue().join("open.md"), panel.queue().join("open.wip.md"));
    std::fs::rename(&from, &to).unwrap();
    let got = panel.post("/ticket/open/edit", &fields);
    assert!(got.status == 409 && got.body.contains("unassign it before"), "{}", got.body);
    std::fs::rename(&to, &from).unwrap();
    assert_eq!(send_again(&panel, &got).status, 303);
    let text = panel.read("open.md");
    assert!(text.contains("title: kept title\n") && text.contains(TYPED), "{text}");
    // One that is gone has its text too, to be copied from the page.
    std::fs::remove_file(&from).unwrap();
    let got = panel.post("/ticket/open/edit", &fields);
    assert_eq!(got.status, 404);
    assert!(again(&got).1.contains(&("body".to_owned(), TYPED.to_owned())));
}

#[test]
fn an_answer_that_comes_too_late_is_kept() {
    let panel = served_six();
    let fields = [("awaiting", "asks-answer-1"), ("answer", "The first.")];
    assert_eq!(panel.post("/ticket/asks/answer", &fields).status, 303);
    for late in [
        &[("awaiting", "asks-answer-1"), ("answer", TYPED)][..],
        &[("awaiting", "asks-answer-1"), ("choose", "1:a"), ("note-1", "a note"), ("answer", TYPED)],
    ] {
        let got = panel.post("/ticket/asks/answer", late);
        assert_eq!(got.status, 409, "{}", got.body);
        assert!(got.body.contains("Not taken: asks asks nothing any more"), "{}", got.body);
        assert!(!got.body.contains("asks-answer-1 asks nothing") && !got.body.contains("enode tickets list"));
        let (_, fields) = again(&got);
        for (name, value) in late {
            assert!(fields.contains(&((*name).to_owned(), (*value).to_owned())), "{name}: {fields:?}");
        }
    }
    assert!(panel.read("asks-answer-1.done.md").contains("The first."));
}

#[test]
fn what_a_queue_out_of_reach_could_not_take_is_sent_once_more() {
    let panel = served_six();
    // Moved away: permissions keep nobody out who is root.
    let (here, away) = (panel.queue(), panel.place.path().join("away"));
    let csrf = csrf(&panel.page("/new"));
    let posts: [(&str, &[(&str, &str)]); 2] = [
        ("/new", &[("title", "kept title"), ("body", TYPED)]),
        ("/ticket/asks/answer", &[("awaiting", "asks-answer-1"), ("answer", TYPED)]),
    ];
    for (path, fields) in posts {
        std::fs::rename(&here, &away).unwrap();
        let fields: Vec<_> = std::iter::once(("csrf", csrf.as_str())).chain(fields.iter().copied()).collect();
        let got = http::post(panel.port(), path, &fields);
        std::fs::rename(&away, &here).unwrap();
        assert_eq!(got.status, 503, "{path}: {}", got.body);
        assert_eq!(send_again(&panel, &got).status, 303, "{path}");
    }
    assert!(panel.read("asks-answer-1.done.md").contains(TYPED));
    // And one that can be read only.
    let mode = |bits| std::fs::set_permissions(&here, std::fs::Permissions::from_mode(bits)).unwrap();
    mode(0o555);
    let is_shut = std::fs::write(here.join("probe"), "").is_err();
    if is_shut {
        let got = panel.post("/new", &[("title", "kept title"), ("body", TYPED)]);
        mode(0o755);
        assert_eq!(got.status, 503, "{}", got.body);
        assert_eq!(send_again(&panel, &got).status, 303);
    }
    mode(0o755);
}

#[test]
fn only_what_our_forms_ask_is_shown_again_and_never_a_token() {
    let panel = served_six();
    let got = post_old(&panel, "/new", &[("title", "t"), ("token", "secret-word"), ("x\"><b>", "odd")]);
    assert!(!got.body.contains("secret-word") && !got.body.contains("<b>") && !got.body.contains("odd"));
    // A form of which nothing is ours has nothing to show.
    let many: String = std::iter::repeat_n("&deps=a", 100_000).collect();
    let got = post_old(&panel, "/new", &[("title", &many)]);
    assert!(got.body.len() < 4 << 20);
    let port = panel.port();
    let head = format!(
        "POST /new HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}",
        many.len()
    );
    let got = http::send(port, &head, &many);
    assert!(got.status == 403 && got.body.len() < 256 << 10, "{}", got.body.len());
}

#[test]
fn beyond_loopback_no_stranger_is_shown_a_form_and_whoever_was_shut_out_is_told_how_to_keep_the_text() {
    let panel = Served::with(&[("a.md", &ticket("a", ""))], "0.0.0.0:0", "panel_token = \"0123456789abcdef\"\n");
    let got = http::post(panel.port(), "/new", &[("title", "t"), ("body", TYPED)]);
    assert!(got.status == 401 && !got.body.contains("quoted") && !got.body.contains("csrf"), "{}", got.body);
    assert!(got.body.contains("load this page again") && got.body.contains("href=\"/login\""), "{}", got.body);
    // With the token that page is loaded again, and the form comes once more, with the word of nobody.
    let headers = format!(
        "Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nAuthorization: Bearer 0123456789abcdef",
        port = panel.port()
    );
    let got = http::post_with(panel.port(), "/new", &[("title", "t"), ("body", TYPED)], &headers);
    assert_eq!(got.status, 403);
    let (action, fields) = again(&got);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(http::post_with(panel.port(), &action, &fields, &headers).status, 303);
}

#[test]
fn a_reason_that_is_no_line_stays_in_its_field() {
    let panel = served_six();
    let got = panel.post("/node/drain", &[("mode", "at-boundary"), ("reason", "one\ntwo")]);
    assert_eq!(got.status, 422);
    assert!(got.body.contains("value=\"one\ntwo\"") && got.body.contains("value=\"at-boundary\" checked"));
}

//! Who may come in, and what every answer carries.

use super::{Served, between, csrf, http, served_six, ticket};

/// Every address that writes.
const WRITES: [&str; 8] = [
    "/new",
    "/ticket/open/edit",
    "/ticket/asks/answer",
    "/ticket/stray/unassign",
    "/node/drain",
    "/node/undrain",
    "/node/quarantine",
    "/logout",
];

#[test]
fn the_host_must_be_a_name_of_this_machine() {
    let panel = served_six();
    let port = panel.port();
    let get = |headers: &str| http::send(port, &format!("GET / HTTP/1.1\r\n{headers}"), "").status;
    for good in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.5"] {
        assert_eq!(get(&format!("Host: {good}:{port}")), 200, "{good}");
        // Through a forwarded port.
        assert_eq!(get(&format!("Host: {good}:9000")), 200, "{good}");
    }
    for bad in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "a@127.0.0.1"] {
        assert!(matches!(get(&format!("Host: {bad}:{port}")), 400 | 421), "{bad}");
    }
    assert_eq!(get("Accept: */*"), 400);
    assert_eq!(get("Host: localhost\r\nHost: localhost"), 400);
}

#[test]
fn a_page_of_another_origin_may_neither_read_nor_write() {
    let panel = served_six();
    let (port, before) = (panel.port(), panel.files());
    let token = csrf(&panel.page("/"));
    let other = port.wrapping_add(1);
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        format!("http://127.0.0.1:{other}"),
        format!("http://localhost:{port}"),
        format!("http://127.0.0.1:{port}.evil.example"),
    ] {
        let headers = format!("Host: 127.0.0.1:{port}\r\nOrigin: {origin}");
        assert_eq!(http::send(port, &format!("GET / HTTP/1.1\r\n{headers}"), "").status, 403, "{origin}");
        for path in WRITES {
            assert_eq!(http::post_with(port, path, &[("csrf", &token)], &headers).status, 403, "{origin} {path}");
        }
    }
    for path in WRITES {
        let headers = format!("Host: 127.0.0.1:{port}");
        assert_eq!(http::post_with(port, path, &[("csrf", &token)], &headers).status, 403, "{path} without Origin");
    }
    assert_eq!(panel.files(), before);
    assert_eq!(panel.policy(), "");
}

#[test]
fn every_write_needs_the_word_of_the_form() {
    let panel = served_six();
    let before = panel.files();
    let fields = [("title", "t"), ("answer", "a"), ("awaiting", "asks-answer-1"), ("mode", "graceful")];
    for path in WRITES {
        for wrong in ["", "0", &"0".repeat(64)] {
            let fields: Vec<_> = fields.iter().copied().chain([("csrf", wrong)]).collect();
            assert_eq!(http::post(panel.port(), path, &fields).status, 403, "{path} {wrong:?}");
        }
        let json = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n\
             Content-Type: application/json\r\nContent-Length: 2",
            port = panel.port()
        );
        assert_eq!(http::send(panel.port(), &json, "{}").status, 415, "{path}");
    }
    assert_eq!(panel.files(), before);
    assert_eq!(panel.policy(), "");
    // The word of one panel is not that of another.
    let other = csrf(&served_six().page("/"));
    assert_eq!(http::post(panel.port(), "/new", &[("csrf", &other), ("title", "t")]).status, 403);
    assert_eq!(panel.post("/new", &[("title", "t")]).status, 303);
}

#[test]
fn every_write_of_the_pages_is_in_the_list_above() {
    let panel = served_six();
    panel.write("asks.md", &panel.read("asks.md"));
    let mut found = std::collections::BTreeSet::new();
    for page in ["/", "/new", "/node", "/ticket/asks", "/ticket/stray", "/ticket/busy", "/ticket/open/edit"] {
        let page = panel.page(page);
        let forms = between(&page, "<form method=\"post\" action=\"", "\"");
        assert_eq!(between(&page, "name=\"csrf\"", ">").len(), forms.len(), "each form has the word");
        found.extend(forms);
    }
    for form in found {
        let is_known = WRITES.iter().any(|write| form.rsplit('/').next() == write.rsplit('/').next());
        assert!(is_known, "{form}");
    }
}

#[test]
fn every_answer_has_a_strict_policy_and_asks_nobody_else() {
    let panel = served_six();
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                  form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let page = panel.page("/");
    let assets: Vec<String> = between(&page, "\"/assets/", "\"").iter().map(|it| format!("/assets/{it}")).collect();
    assert_eq!(assets.len(), 3, "{assets:?}");
    let pages = ["/", "/new", "/node", "/ticket/asks", "/ticket/nothing", "/nothing", "/ticket/asks/answer"];
    for path in pages.iter().copied().chain(assets.iter().map(String::as_str)) {
        let got = panel.get(path);
        assert_eq!(got.header("content-security-policy"), policy, "{path}");
        assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(got.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(got.header("x-frame-options"), "DENY", "{path}");
        let kept = if assets.iter().any(|it| it == path) { "public, max-age=31536000, immutable" } else { "no-store" };
        assert_eq!(got.header("cache-control"), kept, "{path}");
        let text = got.body.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http://") && !text.contains("https://"), "{path} names another place");
        let handler =
            |rest: &str| rest.split_once("=\"").is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_lowercase()));
        let is_page = got.header("content-type").starts_with("text/html");
        assert!(!is_page || !text.split(" on").skip(1).any(handler), "{path}: inline handlers");
        assert!(!text.contains("style=\"") && !text.contains("<script>"), "{path}: inline");
    }
}

#[test]
fn what_is_not_there_and_what_is_too_large_is_said() {
    let panel = served_six();
    assert_eq!(panel.get("/nothing").status, 404);
    assert_eq!(panel.get("/ticket/.hidden").status, 404);
    assert_eq!(panel.get("/ticket/%2e%2e%2fpolicy").status, 404);
    assert_eq!(panel.get("/ticket/%ff").status, 400);
    assert_eq!(panel.get("/assets/panel.css").status, 404);
    assert_eq!(panel.get("/node/drain").status, 405);
    // Two thirds are escapes.
    let large = "ü".repeat(1 << 20);
    assert_eq!(panel.post("/new", &[("title", "t"), ("body", &large)]).status, 413);
}

const TOKEN: &str = "a long enough word";

#[test]
fn beyond_loopback_there_is_no_panel_without_a_token() {
    for policy in ["", "drain = \"\"\n", "panel_token = \"short\"\n", "panel_token = \"\"\n", "panel_token = 3\n"] {
        let error = Served::try_with(&[], "0.0.0.0:0", policy).err().unwrap().to_string();
        assert!(error.contains("panel_token"), "{policy}: {error}");
    }
}

#[test]
fn beyond_loopback_only_the_token_opens_and_a_new_one_shuts() {
    let (policy, text) = (format!("panel_token = \"{TOKEN}\"\n"), ticket("Secret", ""));
    let panel = Served::with(&[("a.md", &text)], "0.0.0.0:0", &policy);
    let port = panel.port();
    for path in ["/", "/node", "/new", "/ticket/a"] {
        let got = panel.get(path);
        assert_eq!((got.status, got.header("location")), (303, "/login"), "{path}");
        assert!(!got.body.contains("Secret"));
    }
    assert_eq!(panel.get("/events").status, 401);
    let word = csrf(&panel.page("/login"));
    assert_eq!(http::post(port, "/new", &[("csrf", &word), ("title", "t")]).status, 401);
    assert_eq!(http::post(port, "/login", &[("csrf", &word), ("token", "a wrong enough word")]).status, 401);
    let got = http::post(port, "/login", &[("csrf", &word), ("token", TOKEN)]);
    assert_eq!(got.status, 303);
    let set = got.header("set-cookie").to_owned();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax") && !set.contains(TOKEN), "{set}");
    let cookie = set.split(';').next().unwrap();
    let with = |path: &str, header: &str| {
        http::send(port, &format!("GET {path} HTTP/1.1\r\nHost: yard:{port}\r\n{header}"), "")
    };
    let page = with("/", &format!("Cookie: other=1; {cookie}"));
    assert!(page.status == 200 && page.body.contains("Secret") && page.body.contains("Leave"));
    assert_eq!(with("/", &format!("Authorization: Bearer {TOKEN}")).status, 200);
    assert_eq!(with("/", "Authorization: Bearer nothing").status, 303);
    // The word of the login page is of no use to whoever is in.
    let headers = format!("Host: yard:{port}\r\nOrigin: http://yard:{port}\r\nCookie: {cookie}");
    assert_eq!(http::post_with(port, "/new", &[("csrf", &word), ("title", "t")], &headers).status, 403);
    let inside = csrf(&page.body);
    assert_eq!(http::post_with(port, "/new", &[("csrf", &inside), ("title", "t")], &headers).status, 303);
    let file = panel.place.path().join("state/yard.policy.toml");
    std::fs::write(&file, "panel_token = \"another long enough word\"\n").unwrap();
    assert_eq!(with("/", &format!("Cookie: {cookie}")).status, 303);
    std::fs::write(&file, "drain = \"\"\n").unwrap();
    assert_eq!(with("/", &format!("Cookie: {cookie}")).status, 503);
}

#[test]
fn a_wrong_token_is_answered_late_and_holds_up_nobody_else() {
    let panel = Served::with(&[], "0.0.0.0:0", &format!("panel_token = \"{TOKEN}\"\n"));
    let (port, word) = (panel.port(), csrf(&panel.page("/login")));
    let guess = |token: &'static str| {
        let word = word.clone();
        move || http::post(port, "/login", &[("csrf", &word), ("token", token)]).status
    };
    let bearer = || {
        let head = format!("GET / HTTP/1.1\r\nHost: yard:{port}\r\nAuthorization: Bearer a wrong enough word");
        http::send(port, &head, "").status
    };
    for (guess, status) in [(&guess("a wrong enough word") as &dyn Fn() -> u16, 401), (&bearer, 303)] {
        let begun = std::time::Instant::now();
        assert_eq!(guess(), status);
        assert!(begun.elapsed() >= std::time::Duration::from_secs(1), "{status}: {:?}", begun.elapsed());
    }
    // As many as there are places guess, and the owner comes in.
    let guessing: Vec<_> = (0..64).map(|_| std::thread::spawn(guess("a wrong enough word"))).collect();
    assert_eq!(guess(TOKEN)(), 303);
    for it in guessing {
        // One of them may have left its place to the owner.
        it.join().ok();
    }
}

#[test]
fn a_form_that_never_arrives_is_not_waited_for() {
    let panel = served_six();
    let port = panel.port();
    let head = format!(
        "POST /new HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: 1000"
    );
    let got = http::send(port, &head, "csrf=");
    assert_eq!(got.status, 408, "{}", got.body);
}

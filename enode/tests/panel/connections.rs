//! Whoever opens connections and says nothing, says it slowly, or reads nothing, keeps nobody else from the pages.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use enode::panel::serve::Limits;

use super::{Served, http, served_six, ticket, wait_for};

/// No limit of time is reached in a test that is about another.
const NEVER: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_millis(200);

fn limits() -> Limits {
    Limits { connections: 100, head: NEVER, stall: NEVER, stop: NEVER }
}

fn connect(panel: &Served, said: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", panel.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    stream
}

/// Whether the panel has closed it. Takes what has come.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 1 << 16];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
    }
}

fn head(panel: &Served) -> String {
    format!("GET /node HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n", panel.port())
}

#[test]
fn silent_connections_make_room_for_whoever_asks() {
    let panel = Served::limited(&[], Limits { connections: 4, ..limits() });
    let beginning = head(&panel);
    let asked = format!("{beginning}\r\n");
    // Nothing, half a request, one that was answered, an open page, half a form.
    let form = format!(
        "POST /new HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ncsrf=",
        port = panel.port()
    );
    let open = asked.replace("/node", "/events");
    for said in ["", &beginning, &asked, &open, &form] {
        let is_whole = said.ends_with("\r\n\r\n");
        let mut held = Vec::new();
        for _ in 0..20 {
            let mut stream = connect(&panel, said);
            // What is worked on keeps its place; only after that it is of no use.
            let mut bytes = [0; 1 << 10];
            wait_for("an answer", || !is_whole || stream.read(&mut bytes).is_ok_and(|read| read > 0));
            held.push(stream);
        }
        assert_eq!(panel.get("/").status, 200, "{said:?}");
        for stream in &mut held[..16] {
            wait_for("the end of an old connection", || is_closed(stream));
        }
    }
}

#[test]
fn many_who_come_at_once_are_all_answered() {
    let panel = Served::limited(&[], Limits { connections: 4, ..limits() });
    let title = "W".repeat(900);
    (0..500).for_each(|at| panel.write(&format!("t{at}.md"), &ticket(&title, "")));
    for (path, many) in [("/node", 100), ("/", 20)] {
        let (port, start) = (panel.port(), std::sync::Barrier::new(many));
        std::thread::scope(|scope| {
            let ask = || {
                start.wait();
                http::get(port, path)
            };
            let asked: Vec<_> = (0..many).map(|_| scope.spawn(ask)).collect();
            for one in asked {
                let got = one.join().unwrap();
                assert!(got.status == 200 && got.body.trim_end().ends_with("</html>"), "{path}: {}", got.head);
            }
        });
    }
}

#[test]
fn a_request_that_does_not_become_whole_is_not_waited_for() {
    let panel = Served::limited(&[], Limits { head: SOON, ..limits() });
    let (beginning, asked) = (head(&panel), format!("{}\r\n", head(&panel)));
    for said in ["", &beginning, &asked] {
        let mut stream = connect(&panel, said);
        wait_for("the end of a connection", || {
            // A byte now and then does not lengthen it; a whole request would.
            if said == beginning {
                drop(stream.write(b"x"));
            }
            is_closed(&mut stream)
        });
    }
    let mut open = connect(&panel, &asked.replace("/node", "/events"));
    let mut next = connect(&panel, "");
    wait_for("the end of a later connection", || is_closed(&mut next));
    assert!(!is_closed(&mut open), "an open page has asked");
}

/// Beyond loopback, where a token lets people in: the old one shuts out whoever came with it.
#[test]
fn an_open_page_is_told_nothing_more_once_there_is_a_new_token() {
    let panel = Served::with(&[("a.md", &ticket("a", ""))], "0.0.0.0:0", "panel_token = \"0123456789abcdef\"\n");
    let asked = head(&panel).replace("/node", "/events") + "Authorization: Bearer 0123456789abcdef\r\n\r\n";
    let mut open = connect(&panel, &asked);
    let mut told = [0; 1 << 10];
    wait_for("the first word", || open.read(&mut told).is_ok_and(|read| read > 0));
    panel.write("b.md", &ticket("b", ""));
    wait_for("the next one", || open.read(&mut told).is_ok_and(|read| read > 0));
    std::fs::write(panel.place.path().join("state/yard.policy.toml"), "panel_token = \"fedcba9876543210\"\n").unwrap();
    panel.write("c.md", &ticket("c", ""));
    // The connection stays, for another request.
    let mut end = Vec::new();
    wait_for("the end of it", || {
        if let Ok(read) = open.read(&mut told) {
            end.extend_from_slice(&told[..read]);
        }
        end.ends_with(b"0\r\n\r\n")
    });
}

#[test]
fn an_answer_that_nobody_takes_is_given_up() {
    let panel = Served::limited(&[("a.md", &ticket("a", ""))], Limits { stall: SOON, ..limits() });
    panel.write("a.md", &format!("---\ntitle: a\n---\n{}", "W".repeat(1 << 20)));
    let asked = format!("{}\r\n", head(&panel)).replace("/node", "/ticket/a");
    // More than the buffers of both ends hold.
    let mut stream = connect(&panel, &asked.repeat(100));
    wait_for("the end of a connection that takes nothing", || stream.write(b"x").is_err());
}

#[test]
fn a_stop_lets_go_of_open_pages_and_finishes_what_was_asked() {
    let mut panel = served_six();
    let asked = format!("{}\r\n", head(&panel));
    let mut idle = [connect(&panel, ""), connect(&panel, &asked), connect(&panel, &asked.replace("/node", "/events"))];
    let mut body = http::form(&[("csrf", &super::csrf(&panel.page("/new"))), ("title", "Written at the end")]);
    let port = panel.port();
    let form = format!(
        "POST /new HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    let rest = body.split_off(10);
    let mut writer = connect(&panel, &form);
    let mut told = [0; 1 << 10];
    wait_for("the word to go on", || writer.read(&mut told).is_ok_and(|read| read > 0));
    writer.write_all(body.as_bytes()).unwrap();
    panel.stop();
    for stream in &mut idle {
        wait_for("the end of a page", || is_closed(stream));
    }
    wait_for("nobody to listen", || TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!panel.is_over(), "a form is under way");
    writer.write_all(rest.as_bytes()).unwrap();
    let mut got = Vec::new();
    wait_for("the answer", || {
        let mut bytes = [0; 1 << 12];
        writer.read(&mut bytes).is_ok_and(|read| {
            got.extend_from_slice(&bytes[..read]);
            read > 0
        })
    });
    assert!(String::from_utf8_lossy(&got).starts_with("HTTP/1.1 303"), "{}", String::from_utf8_lossy(&got));
    wait_for("the end of the panel", || panel.is_over());
    assert!(panel.files().values().any(|text| text.contains("Written at the end")));
}

#[test]
fn a_stop_waits_only_so_long() {
    let mut panel = Served::limited(&[], Limits { stop: SOON, ..limits() });
    let mut half = connect(&panel, &head(&panel));
    // It has been seen: another one is answered.
    panel.page("/");
    panel.stop();
    wait_for("the end of the panel", || panel.is_over());
    assert!(is_closed(&mut half));
}

#[test]
fn a_head_of_any_size_is_refused() {
    let panel = served_six();
    let request = format!("GET /?q={} HTTP/1.1\r\nHost: 127.0.0.1:{}", "w".repeat(60 << 10), panel.port());
    assert!(http::send(panel.port(), &request, "").status < 500);
    let mut stream = connect(&panel, &format!("{}X: {}", head(&panel), "w".repeat(100 << 10)));
    let mut got = Vec::new();
    wait_for("the end", || {
        let mut bytes = [0; 1 << 12];
        match stream.read(&mut bytes) {
            Ok(read) => got.extend_from_slice(&bytes[..read]),
            Err(error) => {
                return !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
        !got.is_empty()
    });
    assert!(got.is_empty() || String::from_utf8_lossy(&got).starts_with("HTTP/1.1 431"));
}

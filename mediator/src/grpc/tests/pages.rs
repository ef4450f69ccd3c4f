use shared::domain::{Drain, Policy};

use super::*;
use crate::service::sample::CONTRACT;

/// A fleet in which every key of every page is used.
async fn furnished() -> (Server, String) {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", Policy::default()).await;
    let drained = Policy { drain: Drain::AtBoundary, reason: "mine".into(), since: None, error: "odd file".into() };
    server.bench.advert("n2", "other", drained).await;
    server.bench.submit("forked", CONTRACT).await;
    server.bench.tick();
    let step = server.bench.claim("n1").await;
    server.bench.report("n1", &step, 0, Some("repair")).await;
    server.bench.tick();
    server.bench.claim("n1").await;
    server.bench.submit("waits", CONTRACT).await;
    server.bench.tick();
    server.bench.submit("never", &CONTRACT.replace("\"build\"", "\"fly\"")).await;
    server.bench.tick();
    server.bench.submit("stopped", CONTRACT).await;
    server.bench.cancel("stopped").await;
    let token = server.token(Role::Observer).await;
    (server, token)
}

fn pretty(body: &str) -> String {
    serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(body).unwrap()).unwrap()
}

#[tokio::test]
async fn pages_have_exactly_the_fixed_keys() {
    let (server, token) = furnished().await;
    for (name, path) in [
        ("nodes", "/v1/nodes"),
        ("leases", "/v1/leases"),
        ("runs", "/v1/runs"),
        ("run_forked", "/v1/runs/forked"),
        ("run_never", "/v1/runs/never"),
    ] {
        let (status, head, body) = server.get(path, Some(&token)).await;
        assert_eq!(status, 200, "{path}: {body}");
        assert!(head.contains("cache-control: no-store") && head.contains("content-type: application/json"), "{head}");
        insta::assert_snapshot!(name, pretty(&body));
    }
    server.stop().await;
}

#[tokio::test]
async fn bad_requests_name_the_parameter_and_what_to_write() {
    let (server, token) = furnished().await;
    for (path, status, hint) in [
        ("/v1/runs?state=running", 400, "write one of QUEUED"),
        ("/v1/runs?limit=ten", 400, "limit: is not a number"),
        ("/v1/runs?colour=red", 400, "colour: is not a parameter"),
        ("/v1/nodes?state=RUNNING", 400, "this page takes none"),
        ("/v1/runs/..%2Fetc", 400, "must have 1 to 128 characters"),
        ("/v1/runs/unknown", 404, "there is no run unknown"),
        ("/v1/events?after=x", 400, "after: is not the id"),
    ] {
        let (got, head, body) = server.get(path, Some(&token)).await;
        assert_eq!(got, status, "{path}: {body}");
        assert!(body.contains(hint) && head.contains("no-store"), "{path}: {body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn d08_limits_and_next_walk_the_whole_list() {
    let (server, token) = furnished().await;
    let (mut path, mut seen) = ("/v1/runs?limit=1".to_owned(), Vec::new());
    loop {
        let page: serde_json::Value = serde_json::from_str(&server.get(&path, Some(&token)).await.2).unwrap();
        seen.push(page["runs"][0]["run_id"].as_str().unwrap().to_owned());
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/runs?limit=1&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["stopped", "never", "waits", "forked"]);
    let only = server.get("/v1/runs?work=gerrit:I5c9&state=QUEUED", Some(&token)).await.2;
    let only: serde_json::Value = serde_json::from_str(&only).unwrap();
    assert_eq!((only["runs"].as_array().unwrap().len(), &only["runs"][0]["run_id"]), (1, &"waits".into()));
    server.stop().await;
}

#[tokio::test]
async fn events_are_sent_with_their_numbers_and_end_when_the_mediator_stops() {
    let (server, token) = furnished().await;
    let mut socket = TcpStream::connect(server.at).await.unwrap();
    let request =
        format!("GET /v1/events HTTP/1.1\r\nHost: here\r\nLast-Event-ID: 1\r\nAuthorization: Bearer {token}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    while !text.contains("id: 3\n") {
        let mut buf = [0; 4096];
        let n = socket.read(&mut buf).await.unwrap();
        assert!(n > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&buf[..n]));
    }
    assert!(text.contains("text/event-stream") && text.contains("id: 2\n"), "{text}");
    assert!(!text.contains("id: 1\n"), "what was seen is not sent again: {text}");
    assert!(text.contains("event: node.joined\ndata: {\"seq\":2,"), "{text}");
    server.stop().await;
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn metrics_are_text() {
    let (server, token) = furnished().await;
    let (status, head, _) = server.get("/metrics", Some(&token)).await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let counts = server.bench.services.counts().await.unwrap();
    assert_eq!((counts.busy, counts.draining, counts.leases, counts.queued, counts.running), (1, 1, 1, 1, 1));
    server.stop().await;
}

//! What is open ends with the credential that opened it.

use proto::v1::{self, node_service_client::NodeServiceClient};
use shared::{Duration, domain::Policy};
use tokio::time::timeout;
use tonic::Code;
use tonic_types::StatusExt;

use super::*;
use crate::service::bench::one_step;

/// The longest that a stream may go on after its credential is good no longer.
const BOUND: std::time::Duration = std::time::Duration::from_secs(5);

async fn ends<T>(stream: &mut tonic::Streaming<T>) -> Status {
    timeout(BOUND, async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended without a word"),
                Err(status) => return status,
            }
        }
    })
    .await
    .expect("it ends in time")
}

fn assert_told(status: &Status) {
    let reason = status.get_details_error_info().map(|info| info.reason);
    assert_eq!((status.code(), reason.as_deref()), (Code::Unauthenticated, Some("UNAUTHENTICATED")), "{status:?}");
    assert!(status.message().contains("revoked or has expired"), "{status:?}");
}

/// Opens every stream of the edge, lets `undo` take the tokens' good away, and sees them all end.
async fn all_streams_end(lifetime: Option<Duration>, undo: impl AsyncFnOnce(&Server, [String; 2])) {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", Policy::default()).await;
    server.bench.submit("r1", &one_step("build")).await;
    server.bench.submit("r2", &one_step("build")).await;
    let (store, clock) = (server.bench.services.store.clone(), server.bench.clock.clone());
    let principal = || id(crate::service::sample::POISON_PRINCIPAL);
    let reader = create_token(&store, &clock, Role::Observer, id("ann"), None, lifetime).await.unwrap().secret;
    let agent = create_token(&store, &clock, Role::Node, principal(), None, lifetime).await.unwrap().secret;
    let kept = server.token(Role::Observer).await;

    let channel = server.channel().await;
    let mut runs = RunServiceClient::with_interceptor(channel.clone(), Bearer(reader.clone()));
    let mut fleet = FleetServiceClient::with_interceptor(channel.clone(), Bearer(reader.clone()));
    let mut nodes = NodeServiceClient::with_interceptor(channel.clone(), Bearer(agent.clone()));
    let mut others = FleetServiceClient::with_interceptor(channel, Bearer(kept));
    let get = v1::GetRunRequest { run_id: "r2".into() };
    let mut watch = runs.watch_run(get).await.unwrap().into_inner();
    let follow = v1::GetLogRequest { run_id: "r2".into(), step: String::new(), follow: true };
    let mut log = runs.get_log(follow).await.unwrap().into_inner();
    let mut events = fleet.watch_fleet(v1::WatchFleetRequest::default()).await.unwrap().into_inner();
    let node = v1::NodeRef { node_id: "n1".into(), instance: "i-n1".into(), streams: vec!["s1".into()] };
    let mut work = nodes.work(v1::WorkRequest { node: Some(node) }).await.unwrap().into_inner();
    let mut unharmed = others.watch_fleet(v1::WatchFleetRequest::default()).await.unwrap().into_inner();
    // An upload that never ends by itself.
    let upload = nodes.put_log(futures::stream::pending());
    let mut page = TcpStream::connect(server.at).await.unwrap();
    let head = format!("GET /v1/events HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {reader}\r\n\r\n");
    page.write_all(head.as_bytes()).await.unwrap();
    let mut began = [0; 12];
    page.read_exact(&mut began).await.unwrap();
    assert_eq!(&began, b"HTTP/1.1 200");

    let ended = async {
        // Until then they go on.
        let goes_on = async { while events.message().await.is_ok_and(|it| it.is_some()) {} };
        assert!(timeout(std::time::Duration::from_millis(1_500), goes_on).await.is_err());
        undo(&server, [crate::auth::hash(&reader), crate::auth::hash(&agent)]).await;
        for status in [ends(&mut watch).await, ends(&mut log).await, ends(&mut events).await, ends(&mut work).await] {
            assert_told(&status);
        }
        let mut rest = Vec::new();
        let mut piece = [0; 1_024];
        while !String::from_utf8_lossy(&rest).contains("event: error") {
            let read = timeout(BOUND, page.read(&mut piece)).await.expect("it ends in time").unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&rest));
            rest.extend_from_slice(&piece[..read]);
        }
        assert!(String::from_utf8_lossy(&rest).contains("\"reason\":\"UNAUTHENTICATED\""));
    };
    let (uploaded, ()) = tokio::join!(upload, ended);
    assert_told(&uploaded.unwrap_err());
    server.bench.submit("r3", &one_step("build")).await;
    assert!(timeout(BOUND, unharmed.message()).await.unwrap().is_ok(), "what others opened goes on");
    server.stop().await;
}

#[tokio::test]
async fn what_a_revoked_token_opened_ends() {
    all_streams_end(None, async |server, hashes| {
        for hash in hashes {
            assert!(server.bench.services.store.revoke_token(&hash).await.unwrap());
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_token_that_ran_out_opened_ends() {
    let lifetime = Duration::from_secs(30);
    all_streams_end(Some(lifetime), async |server, _| server.bench.clock.advance(lifetime)).await;
}

#[tokio::test]
async fn a_revoked_token_is_refused_soon_by_a_server_that_has_just_seen_it() {
    let server = Server::start().await;
    let token = server.token(Role::Observer).await;
    assert_eq!(server.get("/v1/nodes", Some(&token)).await.0, 200);
    server.bench.services.store.revoke_token(&crate::auth::hash(&token)).await.unwrap();
    let refused = async {
        loop {
            let (status, _, body) = server.get("/v1/nodes", Some(&token)).await;
            if status == 401 {
                return body;
            }
        }
    };
    let body = timeout(BOUND, refused).await.expect("it is heard of soon");
    assert!(body.contains("was revoked at"), "{body}");
    server.stop().await;
}

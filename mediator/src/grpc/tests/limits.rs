//! What one client may take, over real sockets: the others are served all the while.

use std::time::Duration;

use proto::v1;
use tokio::time::timeout;
use tonic::Code;
use tonic_types::StatusExt;

use super::*;
use crate::service::bench::one_step;

const SHORT: Duration = Duration::from_millis(300);
/// What must happen happens within this.
const SOON: Duration = Duration::from_secs(10);

fn impatient() -> Limits {
    Limits { header: SHORT, idle: SHORT, stall: SHORT, keepalive: SHORT, ..Limits::default() }
}

async fn start(limits: Limits) -> Server {
    Server::start_limited(None, tls::Limits::default(), limits).await
}

/// Whether the server closes this connection by itself.
async fn is_closed(socket: &mut TcpStream) -> bool {
    let mut piece = [0; 1_024];
    let closed = async { while socket.read(&mut piece).await.is_ok_and(|read| read > 0) {} };
    timeout(SOON, closed).await.is_ok()
}

#[tokio::test]
async fn a_client_that_never_finishes_its_request_is_dropped() {
    let server = start(impatient()).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    for begun in [
        &b""[..],
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nHost: here\r\nX-Slow: ",
        &preface[..10],
        preface,
        &[&preface[..], &settings].concat(),
        &[0x16, 3, 1, 0, 200],
    ] {
        let mut socket = TcpStream::connect(server.at).await.unwrap();
        socket.write_all(begun).await.unwrap();
        assert!(is_closed(&mut socket).await, "{begun:?}");
    }
    // A byte now and then does not keep it, either.
    let mut socket = TcpStream::connect(server.at).await.unwrap();
    let drip = async {
        for byte in b"GET /healthz HTTP/1.1\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'x')) {
            if socket.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(SHORT / 5).await;
        }
    };
    timeout(SOON, drip).await.expect("it is dropped");
    assert_eq!(server.get("/healthz", None).await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_and_one_with_a_stream_is_not() {
    let server = start(impatient()).await;
    let mut idle = TcpStream::connect(server.at).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    assert!(is_closed(&mut idle).await);
    let mut fleet = server.fleet(Role::Observer).await;
    let mut events = fleet.watch_fleet(v1::WatchFleetRequest::default()).await.unwrap().into_inner();
    assert!(timeout(SHORT * 5, events.message()).await.is_err(), "it is quiet and goes on");
    server.stop().await;
}

#[tokio::test]
async fn half_a_message_is_not_waited_for() {
    let server = start(impatient()).await;
    let token = server.token(Role::Observer).await;
    let mut socket = TcpStream::connect(server.at).await.unwrap();
    let head = "Host: here\r\nContent-Type: application/grpc\r\nContent-Length: 100";
    let request = format!(
        "POST /fleet.v1.FleetService/ListNodes HTTP/1.1\r\n{head}\r\nAuthorization: Bearer {token}\r\n\r\n\0\0"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 2_048];
    let read = timeout(SOON, socket.read(&mut answer)).await.expect("it is answered").unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.contains("grpc-status: 10") && answer.contains("was%20not%20whole"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn too_many_connections_of_one_peer_are_closed_at_once() {
    let connections = tls::Limits { connections: 100, per_peer: 3, ..tls::Limits::default() };
    let server = Server::start_limited(None, connections, Limits::default()).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpStream::connect(server.at).await.unwrap());
    }
    let mut one_more = TcpStream::connect(server.at).await.unwrap();
    assert!(is_closed(&mut one_more).await);
    drop(held);
    let served = async { while server_answers(server.at).await.is_none() {} };
    timeout(SOON, served).await.expect("there is room again");
    server.stop().await;
}

async fn server_answers(at: SocketAddr) -> Option<()> {
    let mut socket = TcpStream::connect(at).await.ok()?;
    socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(())
}

#[tokio::test]
async fn a_message_that_is_too_large_is_told_so_with_our_reason() {
    let server = Server::start().await;
    let mut runs = server.runs(Role::Submitter).await;
    let request = v1::SubmitRequest { contract: vec![b' '; 5 << 20], ..v1::SubmitRequest::default() };
    let refused = runs.submit(request).await.unwrap_err();
    let reason = refused.get_details_error_info().unwrap().reason;
    assert_eq!((refused.code(), reason.as_str()), (Code::ResourceExhausted, "TOO_LARGE"), "{refused:?}");
    assert!(refused.message().contains("4194304") && refused.message().contains("limits.message_bytes"), "{refused:?}");
    // In a stream of messages, too.
    let bearer = Bearer(server.token(Role::Node).await);
    let mut nodes = v1::node_service_client::NodeServiceClient::with_interceptor(server.channel().await, bearer);
    let large = v1::PutLogRequest { data: vec![0; 5 << 20], ..Default::default() };
    let refused = nodes.put_log(futures::stream::iter([large])).await.unwrap_err();
    assert_eq!(refused.get_details_error_info().unwrap().reason, "TOO_LARGE");
    server.stop().await;
}

#[tokio::test]
async fn a_busy_principal_waits_and_another_one_does_not() {
    let quota = Quota { streams: 2, calls: 2, ..Quota::default() };
    let server = start(Limits { quota, ..Limits::default() }).await;
    let mut busy = server.fleet(Role::Observer).await;
    let ask = || v1::WatchFleetRequest::default();
    let held = [busy.watch_fleet(ask()).await.unwrap(), busy.watch_fleet(ask()).await.unwrap()];
    let refused = busy.watch_fleet(ask()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "BUSY");
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_secs(1)));
    // Another connection of the same principal is the same principal.
    let (status, head, body) = server.get("/v1/events", Some(&server.token(Role::Observer).await)).await;
    assert_eq!(status, 429, "{body}");
    assert!(head.contains("retry-after: 1") && body.contains("limits.streams_per_principal"), "{head} {body}");
    // Its short calls are counted apart, and others have their own share.
    assert!(busy.list_nodes(v1::ListNodesRequest {}).await.is_ok());
    let mut other = server.fleet(Role::Admin).await;
    drop(other.watch_fleet(ask()).await.unwrap());
    drop(held);
    let free = async { while busy.watch_fleet(ask()).await.is_err() {} };
    timeout(SOON, free).await.expect("what ended is free again");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_floods_gets_its_share_and_the_others_theirs() {
    let quota = Quota { calls: 8, ..Quota::default() };
    let server = start(Limits { quota, ..Limits::default() }).await;
    let flood = server.runs(Role::Submitter).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let contract = one_step("none").into_bytes();
    let flooding: Vec<_> = (0..64)
        .map(|_| {
            let (mut flood, stop, contract) = (flood.clone(), stop.clone(), contract.clone());
            tokio::spawn(async move {
                let mut refused = 0;
                while !stop.is_cancelled() {
                    let request = v1::SubmitRequest { contract: contract.clone(), run_id: String::new() };
                    if let Err(status) = flood.submit(request).await {
                        assert_eq!(status.get_details_error_info().unwrap().reason, "BUSY");
                        refused += 1;
                    }
                }
                refused
            })
        })
        .collect();
    let mut other = server.fleet(Role::Observer).await;
    for _ in 0..50 {
        let answer = timeout(SOON, other.list_nodes(v1::ListNodesRequest {})).await;
        answer.expect("the others are answered").unwrap();
    }
    stop.cancel();
    let mut refused = 0;
    for one in flooding {
        refused += one.await.unwrap();
    }
    assert!(refused > 0, "the flood was held back");
    server.stop().await;
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_let_go_of_and_told_why() {
    let mut server = start(Limits { stall: SHORT, ..Limits::default() }).await;
    // More events than any window holds.
    for name in 0..400 {
        server.bench.submit(&format!("{name:0>100}"), &one_step("none")).await;
    }
    assert!(server.bench.services.last_event().await.unwrap() >= 400);
    let endpoint = Channel::from_shared(format!("http://{}", server.at)).unwrap().initial_stream_window_size(1_024);
    let bearer = Bearer(server.token(Role::Observer).await);
    let channel = endpoint.connect().await.unwrap();
    let mut fleet = FleetServiceClient::with_interceptor(channel, bearer);
    let mut events = fleet.watch_fleet(v1::WatchFleetRequest { after: 1 }).await.unwrap().into_inner();
    // It works on something else for a while; its connection goes on.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(fleet.list_nodes(v1::ListNodesRequest {}).await.is_ok());
    let told = async {
        loop {
            match events.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended without a word"),
                Err(status) => return status,
            }
        }
    };
    let status = timeout(SOON, told).await.expect("it is told");
    assert_eq!(status.get_details_error_info().unwrap().reason, "TOO_SLOW", "{status:?}");
    assert!(status.message().contains("limits.stall_timeout"), "{status:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_reader_of_a_page_that_takes_nothing_is_dropped() {
    let mut server = start(Limits { stall: SHORT, ..Limits::default() }).await;
    for name in 0..1_000 {
        server.bench.advert(&format!("n{name}"), "build", shared::domain::Policy::default()).await;
    }
    let token = server.token(Role::Observer).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut page = socket.connect(server.at).await.unwrap();
    let ask = format!("GET /v1/nodes HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n\r\n").repeat(40);
    let mut told = false;
    // Answers pile up on the way until the server waits for its client, and then no longer.
    let dropped = async {
        while page.write_all(ask.as_bytes()).await.is_ok() {
            tokio::time::sleep(SHORT).await;
        }
        told = true;
    };
    timeout(SOON * 2, dropped).await.expect("it is dropped");
    assert!(told);
    server.stop().await;
}

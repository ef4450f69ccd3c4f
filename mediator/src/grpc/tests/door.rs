use proto::v1;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use super::*;
use crate::service::bench::one_step;

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

#[tokio::test]
async fn without_a_token_of_ours_nobody_gets_in() {
    let server = Server::start().await;
    let mut runs = RunServiceClient::new(server.channel().await);
    let refused = runs.list_runs(v1::ListRunsRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::Unauthenticated, "UNAUTHENTICATED"));
    let mut runs = RunServiceClient::with_interceptor(server.channel().await, Bearer("wrong".into()));
    let refused = runs.list_runs(v1::ListRunsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    for path in ["/v1/nodes", "/v1/runs/x", "/metrics", "/", "/secret"] {
        let (status, head, body) = server.get(path, None).await;
        assert_eq!(status, 401, "{path}");
        assert!(head.contains("www-authenticate: bearer"), "{head}");
        assert!(body.starts_with("{\"error\":{\"reason\":\"UNAUTHENTICATED\""), "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_role_that_may_not_is_told_so_in_both_protocols() {
    let server = Server::start().await;
    let mut runs = server.runs(Role::Node).await;
    let refused = runs.list_runs(v1::ListRunsRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::PermissionDenied, "WRONG_ROLE"));
    let mut runs = server.runs(Role::Observer).await;
    let refused = runs.submit(v1::SubmitRequest::default()).await.unwrap_err();
    assert_eq!(reason(&refused), "WRONG_ROLE");
    let token = server.token(Role::Node).await;
    let (status, _, body) = server.get("/v1/nodes", Some(&token)).await;
    assert_eq!(status, 403);
    assert!(body.contains("submitter, observer or admin"), "{body}");
    server.stop().await;
}

#[tokio::test]
async fn health_and_reflection_need_no_token() {
    let server = Server::start().await;
    let mut health = HealthClient::new(server.channel().await);
    for service in ["", "fleet.v1.RunService"] {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.get(path, None).await.0, 200, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_callers_protocol() {
    let server = Server::start().await;
    let admin = server.token(Role::Admin).await;
    let (status, _, body) = server.get("/v1/nothing", Some(&admin)).await;
    assert_eq!(status, 404);
    assert!(body.contains("NOT_FOUND") && body.contains("/v1/nodes"), "{body}");
    let mut socket = TcpStream::connect(server.at).await.unwrap();
    let head = "Host: here\r\nConnection: close\r\nContent-Type: application/grpc\r\nContent-Length: 0";
    let request = format!("POST /fleet.v2.Other/Call HTTP/1.1\r\n{head}\r\nAuthorization: Bearer {admin}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("grpc-status: 12"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_contract_of_two_mebibytes_gets_a_clear_answer() {
    let server = Server::start().await;
    let mut runs = server.runs(Role::Submitter).await;
    let request = v1::SubmitRequest { contract: vec![b' '; 2 << 20], ..v1::SubmitRequest::default() };
    let refused = runs.dry_run(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let fields = refused.get_details_bad_request().unwrap().field_violations;
    assert!(fields[0].description.contains("1048576"), "{fields:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_submitter_cannot_cancel_what_another_one_submitted() {
    let mut server = Server::start().await;
    server.bench.submit("theirs", crate::service::sample::CONTRACT).await;
    let mut runs = server.runs(Role::Submitter).await;
    let refused = runs.cancel(v1::CancelRequest { run_id: "theirs".into() }).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::PermissionDenied, "WRONG_ROLE"));
    let refused = runs.cancel(v1::CancelRequest { run_id: "none".into() }).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn with_tls_the_same_calls_go_through_and_plain_text_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let now = crate::clock::Clock::system().now();
    let pki = tls::init(dir.path(), &["yard.example".to_owned()], now).unwrap();
    let server = Server::start_with(Some(server_tls(&pki, None))).await;
    let ca = tonic::transport::Certificate::from_pem(std::fs::read(&pki.ca_cert).unwrap());
    let trust = tonic::transport::ClientTlsConfig::new().ca_certificate(ca).domain_name("yard.example");
    let endpoint = Channel::from_shared(format!("https://{}", server.at)).unwrap();
    let channel = endpoint.tls_config(trust).unwrap().connect().await.unwrap();
    let bearer = Bearer(server.token(Role::Observer).await);
    let mut runs = RunServiceClient::with_interceptor(channel, bearer.clone());
    assert!(runs.list_runs(v1::ListRunsRequest::default()).await.is_ok());
    let plain = Channel::from_shared(format!("http://{}", server.at)).unwrap().connect_lazy();
    let mut runs = RunServiceClient::with_interceptor(plain, bearer);
    assert!(runs.list_runs(v1::ListRunsRequest::default()).await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn pages_are_only_read() {
    let server = Server::start().await;
    let admin = server.token(Role::Admin).await;
    let mut socket = TcpStream::connect(server.at).await.unwrap();
    let head = "Host: here\r\nConnection: close\r\nContent-Length: 0";
    let request = format!("POST /v1/nodes HTTP/1.1\r\n{head}\r\nAuthorization: Bearer {admin}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("read with GET"), "{answer}");
    assert_eq!(server.get("/v1/runs/%ff", Some(&admin)).await.0, 400);
    server.stop().await;
}

#[tokio::test]
async fn submit_is_idempotent_and_an_admin_cancels_any_run() {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", shared::domain::Policy::default()).await;
    let mut runs = server.runs(Role::Submitter).await;
    let ask = |contract: String| v1::SubmitRequest { contract: contract.into_bytes(), run_id: "mine".into() };
    let first = runs.submit(ask(one_step("build"))).await.unwrap().into_inner();
    assert_eq!((first.existing, first.run.unwrap().state.as_str()), (false, "RUNNING"));
    assert!(runs.submit(ask(one_step("build"))).await.unwrap().into_inner().existing);
    let refused = runs.submit(ask(one_step("other"))).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::AlreadyExists, "RUN_EXISTS"));
    let refused = runs.submit(ask("steps: [".into())).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.get_details_bad_request().is_some());
    let mut admin = server.runs(Role::Admin).await;
    let cancel = v1::CancelRequest { run_id: "mine".into() };
    let view = admin.cancel(cancel.clone()).await.unwrap().into_inner();
    let verdict = view.verdict.unwrap();
    assert_eq!((verdict.cause.as_str(), verdict.by.as_deref()), ("cancelled", Some("a-admin")));
    // Its own submitter may cancel it, too: it is answered as it is.
    assert_eq!(runs.cancel(cancel).await.unwrap().into_inner().state, "FAILED");
    server.stop().await;
}

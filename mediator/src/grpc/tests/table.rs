//! Who may do what: every call with every credential, on gRPC and HTTP, and what comes of it.
//!
//! The calls are those of [`Call::ALL`], which another test holds against the protocol, and what a role may is
//! written down a second time by hand (`auth::tests::expected`).

use http_body_util::{BodyExt, Full};
use prost::Message;
use proto::v1;
use shared::Duration;
use tonic::Code;
use tonic_types::StatusExt;
use tower::ServiceExt;

use super::*;
use crate::{
    auth::{Call, Identity, tests::expected},
    service::bench::one_step,
    store::TokenRow,
};

/// What one request came to.
#[derive(Debug)]
struct Came {
    /// `OK`, or the reason of the refusal.
    word: String,
    text: String,
}

/// Sends one request, with a message that would mean something, and takes what comes first.
async fn send(channel: &Channel, call: Call, authorization: Option<&str>) -> Came {
    let grpc = call.path().starts_with("/fleet");
    let path = if call == Call::RunPage { "/v1/runs/r1" } else { call.path() };
    let mut request = ::http::Request::builder().uri(path);
    if let Some(header) = authorization {
        request = request.header("authorization", header);
    }
    let request = if grpc {
        let message = message(call);
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        let request = request.method("POST").header("content-type", "application/grpc").header("te", "trailers");
        request.body(Body::new(Full::new(frame.into()).map_err(|never| match never {}))).unwrap()
    } else {
        request.body(Body::empty()).unwrap()
    };
    let answer = channel.clone().oneshot(request).await.unwrap();
    let (head, mut body) = answer.into_parts();
    if grpc {
        let mut status = Status::from_header_map(&head.headers);
        while status.is_none() {
            // A stream that was let in may say nothing for long.
            let frame = tokio::time::timeout(std::time::Duration::from_millis(200), body.frame()).await;
            let Ok(Some(Ok(frame))) = frame else { break };
            status = frame.trailers_ref().and_then(Status::from_header_map);
            if frame.is_data() && call.shape() == crate::auth::Shape::Down {
                break;
            }
        }
        let Some(status) = status.filter(|it| it.code() != Code::Ok) else {
            return Came { word: "OK".into(), text: String::new() };
        };
        let word = status.get_details_error_info().map_or_else(|| format!("{:?}", status.code()), |it| it.reason);
        let must_be = match word.as_str() {
            "UNAUTHENTICATED" => Some(Code::Unauthenticated),
            "WRONG_ROLE" | "FOREIGN_NODE" => Some(Code::PermissionDenied),
            _ => None,
        };
        assert!(must_be.is_none_or(|code| code == status.code()), "{status:?}");
        return Came { word, text: status.message().to_owned() };
    }
    if head.status.is_success() {
        return Came { word: "OK".into(), text: String::new() };
    }
    let body: serde_json::Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    let word = body["error"]["reason"].as_str().unwrap().to_owned();
    let must_be = match word.as_str() {
        "UNAUTHENTICATED" => Some(401),
        "WRONG_ROLE" | "FOREIGN_NODE" => Some(403),
        _ => None,
    };
    assert!(must_be.is_none_or(|code| code == head.status.as_u16()), "{} {body}", head.status);
    Came { word, text: body["error"]["message"].as_str().unwrap().to_owned() }
}

/// What a caller would send that wants to do harm to node n1 and run r1.
fn message(call: Call) -> Vec<u8> {
    let node = Some(v1::NodeRef { node_id: "n1".into(), instance: "i-n1".into(), streams: vec!["s1".into()] });
    let step = Some(v1::StepRef { run_id: "r1".into(), seq: 0, attempt: 1 });
    let nonce = "0".repeat(32);
    let attempt = Some(v1::AttemptRef { node: node.clone(), step: step.clone(), nonce: nonce.clone() });
    let run_id = "r1".to_owned();
    match call {
        // It carries no policy, and so would release the node.
        Call::Advertise => {
            v1::AdvertiseRequest { node, advert_no: i64::MAX, label: "n1".into(), ..Default::default() }.encode_to_vec()
        }
        Call::Work => v1::WorkRequest { node }.encode_to_vec(),
        Call::Report => v1::ReportRequest { node, step, nonce, ..Default::default() }.encode_to_vec(),
        Call::PutLog => v1::PutLogRequest { attempt, offset: 0, data: b"x".to_vec() }.encode_to_vec(),
        Call::FindMissingBlobs => v1::FindMissingBlobsRequest { attempt, blobs: Vec::new() }.encode_to_vec(),
        Call::PutArtifacts => {
            let part = attempt.map(v1::put_artifacts_request::Part::Attempt);
            v1::PutArtifactsRequest { part }.encode_to_vec()
        }
        Call::GetArtifacts => v1::GetArtifactsRequest { attempt, sha256: vec!["0".repeat(64)] }.encode_to_vec(),
        Call::Submit | Call::DryRun => {
            v1::SubmitRequest { contract: one_step("build").into_bytes(), run_id: String::new() }.encode_to_vec()
        }
        Call::GetRun | Call::WatchRun | Call::GetRecord => v1::GetRunRequest { run_id }.encode_to_vec(),
        Call::ListRuns => v1::ListRunsRequest::default().encode_to_vec(),
        Call::Cancel => v1::CancelRequest { run_id }.encode_to_vec(),
        Call::Explain => {
            v1::ExplainRequest { subject: Some(v1::explain_request::Subject::NodeId("n1".into())) }.encode_to_vec()
        }
        Call::GetLog => v1::GetLogRequest { run_id, step: String::new(), follow: true }.encode_to_vec(),
        Call::ListAsks => v1::ListAsksRequest::default().encode_to_vec(),
        Call::Answer => v1::AnswerRequest { run_id, ..Default::default() }.encode_to_vec(),
        Call::ListNodes => v1::ListNodesRequest {}.encode_to_vec(),
        Call::ListLeases => v1::ListLeasesRequest {}.encode_to_vec(),
        Call::ListCapabilities => v1::ListCapabilitiesRequest {}.encode_to_vec(),
        Call::WatchFleet => v1::WatchFleetRequest { after: 0 }.encode_to_vec(),
        Call::NodesPage | Call::RunsPage | Call::RunPage | Call::LeasesPage | Call::EventsPage | Call::Metrics => {
            Vec::new()
        }
    }
}

/// A34: nobody but its owner drains a node or lends it again.
async fn assert_still_drained(server: &Server) {
    let page = server.bench.services.nodes().await.unwrap();
    assert_eq!(page.rows[0].drain, shared::domain::Drain::Graceful);
}

async fn drained(server: &mut Server) {
    let policy = shared::domain::Policy { drain: shared::domain::Drain::Graceful, ..Default::default() };
    server.bench.advert("n1", "build", policy).await;
    server.bench.submit("r1", &one_step("build")).await;
}

/// Walks every call and holds it against the table: `role` is who the credential is for.
async fn walk(server: &Server, channel: &Channel, header: Option<&str>, role: Role) {
    for call in Call::ALL {
        let came = send(channel, *call, header).await;
        let at = Role::ALL.iter().position(|it| *it == role).unwrap();
        if expected(*call)[at] {
            // It was let in; what comes of it then, such as that r1 is another one's to cancel, is not the table's.
            let at_the_door = came.word == "UNAUTHENTICATED" || came.text.contains("may not call");
            assert!(!at_the_door, "{call:?} as {role}: {came:?}");
        } else {
            assert_eq!(came.word, "WRONG_ROLE", "{call:?} as {role}: {came:?}");
            assert!(came.text.contains(&format!("role {role} may not call {}", call.as_str())), "{came:?}");
        }
        assert_still_drained(server).await;
    }
}

/// Every call is refused, with these words.
async fn walk_refused(server: &Server, channel: &Channel, header: Option<&str>, says: &str) {
    for call in Call::ALL {
        let came = send(channel, *call, header).await;
        assert_eq!(came.word, "UNAUTHENTICATED", "{call:?} {says}: {came:?}");
        assert!(came.text.contains(says), "{call:?} {says}: {came:?}");
    }
    assert_still_drained(server).await;
}

#[tokio::test]
async fn a34_every_call_with_every_token_comes_to_what_the_table_says() {
    let mut server = Server::start().await;
    drained(&mut server).await;
    let channel = server.channel().await;
    for role in Role::ALL {
        let header = format!("Bearer {}", server.token(role).await);
        walk(&server, &channel, Some(&header), role).await;
        let hash = crate::auth::hash(header.trim_start_matches("Bearer "));
        assert!(server.bench.services.store.revoke_token(&hash).await.unwrap());
        server.bench.clock.advance(Duration::from_secs(2));
        walk_refused(&server, &channel, Some(&header), "was revoked at").await;
        let (store, clock) = (&server.bench.services.store, &server.bench.clock);
        let short = Some(Duration::from_secs(1));
        let made = create_token(store, clock, role, id("short"), None, short).await.unwrap();
        server.bench.clock.advance(Duration::from_secs(2));
        walk_refused(&server, &channel, Some(&format!("Bearer {}", made.secret)), "expired at").await;
    }
    walk_refused(&server, &channel, None, "no token").await;
    for malformed in ["Basic YTpi", "Bearer", "Bearer ", "token", &format!("Bearer {}", "x".repeat(600))] {
        walk_refused(&server, &channel, Some(malformed), "is not `Bearer TOKEN`").await;
    }
    walk_refused(&server, &channel, Some(&format!("Bearer {}", "0".repeat(64))), "is not known here").await;
    server.stop().await;
}

/// A fleet with an authority of its own, that lets clients show certificates.
struct Certified {
    server: Server,
    pki: tls::Pki,
    _dir: tempfile::TempDir,
}

impl Certified {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let now = crate::clock::Clock::system().now();
        let pki = tls::init(dir.path(), &["localhost".to_owned()], now).unwrap();
        let mut server = Server::start_with(Some(server_tls(&pki, Some(&pki.ca_cert)))).await;
        drained(&mut server).await;
        Self { server, pki, _dir: dir }
    }

    fn issue(&self, role: Role, principal: &str) -> tls::Issued {
        let out = self.pki.ca_cert.parent().unwrap();
        let who = Identity { principal: id(principal), role, node: None };
        tls::issue(out, &out.join(format!("{role}")), &who, 30, crate::clock::Clock::system().now()).unwrap()
    }

    async fn channel(&self, shown: Option<&tls::Issued>) -> Channel {
        let read = |path: &std::path::Path| std::fs::read(path).unwrap();
        let mut config = tonic::transport::ClientTlsConfig::new()
            .ca_certificate(tonic::transport::Certificate::from_pem(read(&self.pki.ca_cert)))
            .domain_name("localhost");
        if let Some(it) = shown {
            config = config.identity(tonic::transport::Identity::from_pem(read(&it.cert), read(&it.key)));
        }
        let endpoint = Channel::from_shared(format!("https://{}", self.server.at)).unwrap();
        endpoint.tls_config(config).unwrap().connect().await.unwrap()
    }

    async fn revoke(&self, it: &tls::Issued) {
        let row = TokenRow {
            hash: TokenRow::certificate_key(&it.fingerprint),
            role: "unknown".into(),
            principal: id("unknown"),
            node: None,
            created_at: self.server.bench.now(),
            expires_at: None,
            revoked_at: Some(self.server.bench.now()),
        };
        self.server.bench.services.store.put_token(&row).await.unwrap();
        self.server.bench.clock.advance(Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a34_every_call_with_every_certificate_comes_to_what_the_table_says() {
    let fleet = Certified::start().await;
    for role in Role::ALL {
        // The same name as the token of that role has, for what follows.
        let issued = fleet.issue(role, &format!("a-{role}"));
        let channel = fleet.channel(Some(&issued)).await;
        walk(&fleet.server, &channel, None, role).await;
        let same = format!("Bearer {}", fleet.server.token(role).await);
        walk(&fleet.server, &channel, Some(&same), role).await;
        // One of the two would be enough, but the other is known to be no good.
        walk_refused(&fleet.server, &channel, Some("Bearer 00"), "is not known here").await;
        let other = Role::ALL.into_iter().find(|it| *it != role).unwrap();
        let other = format!("Bearer {}", fleet.server.token(other).await);
        walk_refused(&fleet.server, &channel, Some(&other), "differ in the role").await;
        let (store, clock) = (&fleet.server.bench.services.store, &fleet.server.bench.clock);
        let another = create_token(store, clock, role, id("another"), None, None).await.unwrap();
        let another = format!("Bearer {}", another.secret);
        walk_refused(&fleet.server, &channel, Some(&another), "differ in the principal").await;
        fleet.revoke(&issued).await;
        walk_refused(&fleet.server, &channel, None, "client certificate was revoked at").await;
        walk_refused(&fleet.server, &channel, Some(&same), "client certificate was revoked at").await;
    }
    // Without a certificate tokens are what they are without TLS.
    let channel = fleet.channel(None).await;
    walk_refused(&fleet.server, &channel, None, "no token").await;
    // A connection may outlive its certificate.
    let issued = fleet.issue(Role::Admin, "late");
    let channel = fleet.channel(Some(&issued)).await;
    walk(&fleet.server, &channel, None, Role::Admin).await;
    let left = issued.expires_at.since(fleet.server.bench.now());
    fleet.server.bench.clock.advance(left);
    walk_refused(&fleet.server, &channel, None, "client certificate expired at").await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_opens_no_connection() {
    let (fleet, other) = (Certified::start().await, Certified::start().await);
    let stranger = other.issue(Role::Admin, "eve");
    let refused = std::panic::AssertUnwindSafe(async {
        let channel = fleet.channel(Some(&stranger)).await;
        send(&channel, Call::ListNodes, None).await
    });
    assert!(futures::FutureExt::catch_unwind(refused).await.is_err(), "there is no answer");
}

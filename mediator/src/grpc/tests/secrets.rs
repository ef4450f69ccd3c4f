//! I8: every answer of both protocols, looked through for poison. Nonces and principals of the bench's nodes,
//! Runs and leases are all poison, and so is a word in every contract.

use std::fmt::Debug;

use proto::v1;
use shared::domain::{Drain, Policy};
use tokio_stream::StreamExt;

use super::*;
use crate::service::sample::{CONTRACT, POISON_NONCE, POISON_PRINCIPAL};

/// The shapes in which a nonce could show.
fn poisons() -> Vec<String> {
    let hex = format!("{POISON_NONCE:032x}");
    vec![hex.clone(), hex.to_uppercase(), POISON_NONCE.to_string(), POISON_PRINCIPAL.into(), "poison".into()]
}

fn clean(what: &str, text: &str) {
    assert!(!text.is_empty(), "{what} said nothing");
    for poison in poisons() {
        assert!(!text.contains(&poison), "{what} shows {poison}: {text}");
    }
}

fn wire(what: &str, message: &impl Debug) {
    clean(what, &format!("{message:?}"));
}

#[tokio::test]
async fn no_answer_shows_a_nonce_or_a_principal() {
    let mut server = Server::start().await;
    server.bench.advert("n1", "build", Policy::default()).await;
    let drained = Policy { drain: Drain::Graceful, reason: "mine".into(), since: None, error: String::new() };
    server.bench.advert("n2", "build", drained).await;
    server.bench.submit("runs", CONTRACT).await;
    server.bench.claim("n1").await;
    server.bench.submit("waits", CONTRACT).await;
    server.bench.submit("stopped", CONTRACT).await;
    server.bench.cancel("stopped").await;
    server.bench.submit("never", &CONTRACT.replace("\"build\"", "\"fly\"")).await;
    let shown = server.bench.services.run_row(&id("runs")).await.unwrap().0;
    assert_eq!(shown.principal.as_str(), POISON_PRINCIPAL, "the poison is really there");
    assert_eq!(shown.steps[0].attempts[0].nonce.reveal(), poisons()[0]);

    let mut runs = server.runs(Role::Admin).await;
    let mut fleet = server.fleet(Role::Admin).await;
    for run in ["runs", "waits", "stopped", "never"] {
        let get = v1::GetRunRequest { run_id: run.into() };
        wire("GetRun", &runs.get_run(get.clone()).await.unwrap());
        wire("WatchRun", &runs.watch_run(get.clone()).await.unwrap().into_inner().message().await.unwrap());
        let subject = Some(v1::explain_request::Subject::RunId(run.into()));
        wire("Explain", &runs.explain(v1::ExplainRequest { subject }).await.unwrap());
        wire("GetRecord", &runs.get_record(get).await.map(|_| ()).unwrap_err());
    }
    for node in ["n1", "n2"] {
        let subject = Some(v1::explain_request::Subject::NodeId(node.into()));
        wire("Explain", &runs.explain(v1::ExplainRequest { subject }).await.unwrap());
    }
    wire("ListRuns", &runs.list_runs(v1::ListRunsRequest::default()).await.unwrap());
    let contract = CONTRACT.replace("poison-contract", "x").into_bytes();
    wire("DryRun", &runs.dry_run(v1::SubmitRequest { contract, run_id: String::new() }).await.unwrap());
    wire("ListNodes", &fleet.list_nodes(v1::ListNodesRequest {}).await.unwrap());
    wire("ListLeases", &fleet.list_leases(v1::ListLeasesRequest {}).await.unwrap());
    wire("ListCapabilities", &fleet.list_capabilities(v1::ListCapabilitiesRequest {}).await.unwrap());
    let last = server.bench.services.last_event().await.unwrap();
    let events = fleet.watch_fleet(v1::WatchFleetRequest { after: 1 }).await.unwrap().into_inner();
    let events: Vec<_> = events.take(usize::try_from(last - 1).unwrap()).collect().await;
    wire("WatchFleet", &events);
    let mine = v1::CancelRequest { run_id: "runs".into() };
    let refused = server.runs(Role::Submitter).await.cancel(mine).await.unwrap_err();
    wire("Cancel", &refused);

    // Who cancelled is a principal, too. The detail of that Run says it, and nothing else does.
    server.bench.cancel("runs").await;
    let ended = runs.get_run(v1::GetRunRequest { run_id: "runs".into() }).await.unwrap().into_inner();
    assert_eq!(ended.run.unwrap().verdict.unwrap().by.as_deref(), Some("someone"));
    let steps = format!("{:?}", ended.steps);
    assert!(steps.contains("cancelled") && !steps.contains("someone"), "{steps}");
    let listed = format!("{:?}", runs.list_runs(v1::ListRunsRequest::default()).await.unwrap());
    assert!(listed.contains("cancelled") && !listed.contains("someone"), "{listed}");

    let token = server.token(Role::Observer).await;
    for path in ["/v1/nodes", "/v1/runs", "/v1/runs/runs", "/v1/runs/stopped", "/v1/leases", "/v1/runs/none"] {
        let (_, head, body) = server.get(path, Some(&token)).await;
        clean(path, &format!("{head}{body}"));
        assert!(!body.contains("someone"), "{path}: {body}");
    }
    let (_, _, metrics) = server.get("/metrics", Some(&token)).await;
    assert!(poisons().iter().all(|poison| !metrics.contains(poison)));
    server.stop().await;
}

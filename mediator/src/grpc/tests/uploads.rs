//! What a node stores beside its reports, over the wire.

use proto::v1;
use proto::v1::node_service_client::NodeServiceClient;
use shared::domain::{ClaimedStep, Policy};
use tonic::Code;

use super::*;
use crate::service::bench::one_step;

pub(super) async fn claimed(server: &mut Server) -> ClaimedStep {
    server.bench.advert("n1", "build", Policy::default()).await;
    server.bench.submit("r", &one_step("build")).await;
    server.bench.claim("n1").await
}

pub(super) async fn agent(server: &Server) -> NodeServiceClient<Client> {
    let made =
        create_token(&server.bench.services.store, &server.bench.clock, Role::Node, id("a-node"), Some(id("n1")), None);
    NodeServiceClient::with_interceptor(server.channel().await, Bearer(made.await.unwrap().secret))
}

/// A server, a step that n1 has claimed, and its agent.
pub(super) async fn at_work() -> (Server, ClaimedStep, NodeServiceClient<Client>) {
    let mut server = Server::start().await;
    let step = claimed(&mut server).await;
    let agent = agent(&server).await;
    (server, step, agent)
}

pub(super) fn attempt(step: &ClaimedStep, instance: &str) -> v1::AttemptRef {
    let node = v1::NodeRef { node_id: "n1".into(), instance: instance.into(), streams: vec!["s1".into()] };
    let of = v1::StepRef { run_id: step.run.to_string(), seq: step.seq, attempt: step.attempt };
    v1::AttemptRef { node: Some(node), step: Some(of), nonce: step.nonce.reveal() }
}

fn log(attempt: Option<v1::AttemptRef>, offset: i64, data: &[u8]) -> v1::PutLogRequest {
    v1::PutLogRequest { attempt, offset, data: data.to_vec() }
}

#[tokio::test]
async fn a_log_that_is_still_open_takes_nothing_after_the_lease() {
    let (mut server, step, mut agent) = at_work().await;
    let (send, messages) = tokio::sync::mpsc::channel(4);
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let call = tokio::spawn(async move { agent.put_log(messages).await });
    send.send(log(Some(attempt(&step, "i-n1")), 0, b"in time\n")).await.unwrap();
    let records = server.bench.services.records.clone();
    let stored = async || records.read_log(&step.run, 0, 1, 0, 99).await.unwrap();
    let mut watch = records.watch(&step.run).await.unwrap();
    while stored().await.is_empty() {
        watch.changed().await;
    }
    server.bench.cancel("r").await;
    send.send(log(None, 8, b"late\n")).await.unwrap();
    drop(send);
    let refused = call.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(stored().await, b"in time\n");
    server.stop().await;
}

#[tokio::test]
async fn another_instance_writes_nothing() {
    let (server, step, mut agent) = at_work().await;
    let other = log(Some(attempt(&step, "i-other")), 0, b"x");
    let refused = agent.put_log(futures::stream::iter([other])).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let ours = log(Some(attempt(&step, "i-n1")), 0, b"x");
    assert_eq!(agent.put_log(futures::stream::iter([ours])).await.unwrap().into_inner().stored, 1);
    server.stop().await;
}

//! Files of a step that come many in a stream: kept whole, in groups, with what was announced, under the lease.

use std::collections::BTreeMap;

use proto::v1::{self, put_artifacts_request::Part};
use shared::domain::ClaimedStep;
use tonic::Code;

use super::{uploads::*, *};
use crate::record::Digest;

fn header(name: &str, content: &[u8]) -> Part {
    let size = i64::try_from(content.len()).unwrap();
    Part::Header(v1::ArtifactHeader { name: name.into(), size, sha256: Digest::of(content).to_string() })
}

/// A file as a good agent sends it.
fn file(name: &str, content: &[u8]) -> Vec<Part> {
    let data = content.chunks(64 * 1024).map(|chunk| Part::Data(chunk.to_vec()));
    std::iter::once(header(name, content)).chain(data).collect()
}

fn message(part: Part) -> v1::PutArtifactsRequest {
    v1::PutArtifactsRequest { part: Some(part) }
}

type Agent = proto::v1::node_service_client::NodeServiceClient<Client>;

async fn put(agent: &mut Agent, step: &ClaimedStep, parts: impl IntoIterator<Item = Part>) -> Result<i64, Status> {
    let first = Part::Attempt(attempt(step, "i-n1"));
    let parts: Vec<_> = std::iter::once(first).chain(parts).map(message).collect();
    Ok(agent.put_artifacts(futures::stream::iter(parts)).await?.into_inner().files)
}

/// The places of contents that the mediator wants.
async fn missing(agent: &mut Agent, step: &ClaimedStep, contents: &[&[u8]]) -> Vec<u32> {
    let blob = |it: &&[u8]| v1::BlobRef { sha256: Digest::of(it).to_string(), size: i64::try_from(it.len()).unwrap() };
    let blobs = contents.iter().map(blob).collect();
    let request = v1::FindMissingBlobsRequest { attempt: Some(attempt(step, "i-n1")), blobs };
    agent.find_missing_blobs(request).await.unwrap().into_inner().missing
}

/// What is noted: names and the bytes behind them.
async fn noted(server: &Server, step: &ClaimedStep) -> BTreeMap<String, Vec<u8>> {
    let rows = server.bench.services.store.read().await.unwrap().artifacts(&step.run).await.unwrap();
    let mut noted = BTreeMap::new();
    for row in rows {
        let digest = row.sha256.parse().unwrap();
        let bytes = server.bench.services.records.read_small(&step.run, &digest, 1 << 20).await.unwrap();
        assert_eq!((bytes.len() as u64, Digest::of(&bytes)), (row.size, digest), "{}", row.name);
        noted.insert(row.name, bytes);
    }
    noted
}

fn named(files: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()
}

/// More than fit into one group.
const MANY: usize = 300;

fn many(count: usize) -> impl Iterator<Item = Part> {
    (0..count).flat_map(|i| file(&format!("d/{i}"), format!("content {i}").as_bytes()))
}

#[tokio::test]
async fn files_come_many_in_a_stream_and_go_out_as_they_were_asked_for() {
    let (server, step, mut agent) = at_work().await;
    assert_eq!(put(&mut agent, &step, many(MANY)).await.unwrap(), 300);
    let stored = noted(&server, &step).await;
    assert_eq!(stored.len(), MANY);
    assert!(stored.iter().all(|(name, bytes)| *bytes == name.replace("d/", "content ").into_bytes()));
    // In the order asked for, each under its place, one twice.
    let large = vec![7; 600_000];
    put(&mut agent, &step, file("large", &large)).await.unwrap();
    let wanted: [&[u8]; 4] = [b"content 299", &large, b"content 0", b"content 299"];
    let request = v1::GetArtifactsRequest {
        attempt: Some(attempt(&step, "i-n1")),
        sha256: wanted.map(|it| Digest::of(it).to_string()).to_vec(),
    };
    let mut parts = agent.get_artifacts(request).await.unwrap().into_inner();
    let mut got: Vec<Vec<u8>> = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        match part.part.unwrap() {
            v1::artifact_part::Part::File(place) => {
                assert_eq!(place as usize, got.len());
                got.push(Vec::new());
            }
            v1::artifact_part::Part::Data(data) => got.last_mut().unwrap().extend(data),
        }
    }
    assert!(got.iter().map(Vec::as_slice).eq(wanted));
    server.stop().await;
}

#[tokio::test]
async fn a_stream_that_broke_leaves_whole_groups_and_the_rest_is_wanted_again() {
    let (server, step, mut agent) = at_work().await;
    let (send, messages) = tokio::sync::mpsc::channel(1);
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let mut breaking = agent.clone();
    let call = tokio::spawn(async move { breaking.put_artifacts(messages).await });
    send.send(message(Part::Attempt(attempt(&step, "i-n1")))).await.unwrap();
    for part in many(MANY) {
        send.send(message(part)).await.unwrap();
    }
    // The last of them, half; its group is not full yet.
    send.send(message(header("half", b"half of it"))).await.unwrap();
    send.send(message(Part::Data(b"half".to_vec()))).await.unwrap();
    while noted(&server, &step).await.is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    drop(send);
    while files_below(&server.bench.drafts()) > 0 {
        tokio::task::yield_now().await;
    }
    let stored = noted(&server, &step).await;
    assert_eq!(stored.len(), 256, "the group that was full");
    assert!(stored.contains_key("d/255") && !stored.contains_key("d/256"));
    let contents: Vec<_> = (0..MANY).map(|i| format!("content {i}")).collect();
    let contents: Vec<_> = contents.iter().map(String::as_bytes).collect();
    assert_eq!(missing(&mut agent, &step, &contents).await, (256..300).collect::<Vec<_>>());
    // Sent again: what is there is only named.
    let named = (0..256).map(|i| header(&format!("d/{i}"), format!("content {i}").as_bytes()));
    let rest = many(MANY).skip(256 * 2);
    assert_eq!(put(&mut agent, &step, named.chain(rest)).await.unwrap(), 300);
    assert_eq!(noted(&server, &step).await.len(), MANY);
    server.stop().await;
}

fn files_below(dir: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn a_file_that_is_not_what_was_announced_is_named_and_its_group_not_noted() {
    let (server, step, mut agent) = at_work().await;
    let five = |third: Vec<Part>| {
        let file = |name: &str| file(name, name.as_bytes());
        [file("first"), file("second"), third, file("fourth"), file("fifth")].concat()
    };
    for third in [
        vec![header("third", b"third"), Part::Data(b"thirD".to_vec())],
        vec![header("third", b"third"), Part::Data(b"thir".to_vec())],
        vec![header("third", b"third"), Part::Data(b"third!".to_vec())],
        // Without bytes, of content that nobody has sent.
        vec![header("third", b"third")],
    ] {
        let refused = put(&mut agent, &step, five(third)).await.unwrap_err();
        assert_eq!(refused.code(), Code::DataLoss, "{refused}");
        assert!(refused.message().contains("\"third\""), "{refused}");
        assert!(noted(&server, &step).await.is_empty());
    }
    assert_eq!(put(&mut agent, &step, five(file("third", b"third"))).await.unwrap(), 5);
    server.stop().await;
}

#[tokio::test]
async fn a_lease_that_is_lost_in_the_middle_lets_nothing_more_through() {
    let (mut server, step, mut agent) = at_work().await;
    let (send, messages) = tokio::sync::mpsc::channel(1);
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let mut late = agent.clone();
    let call = tokio::spawn(async move { late.put_artifacts(messages).await });
    send.send(message(Part::Attempt(attempt(&step, "i-n1")))).await.unwrap();
    for part in many(MANY) {
        send.send(message(part)).await.unwrap();
    }
    while noted(&server, &step).await.is_empty() {
        tokio::task::yield_now().await;
    }
    server.bench.cancel("r").await;
    drop(send);
    let refused = call.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(noted(&server, &step).await.len(), 256, "what was noted in time, and nothing after it");
    let refused = put(&mut agent, &step, many(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn content_is_sent_once_whatever_its_names() {
    let (server, step, mut agent) = at_work().await;
    assert_eq!(missing(&mut agent, &step, &[b"same", b"", b"same"]).await, [0, 1, 2]);
    // The second name in the group of the first, and the empty file without a byte.
    let parts = [file("a", b"same"), vec![header("b", b"same"), header("empty", b"")]].concat();
    assert_eq!(put(&mut agent, &step, parts).await.unwrap(), 3);
    assert_eq!(missing(&mut agent, &step, &[b"same", b"", b"other"]).await, [2]);
    // A third in a later call; the same name again counts with what came last.
    let parts = [vec![header("c", b"same")], file("a", b"first"), file("a", b"last")].concat();
    assert_eq!(put(&mut agent, &step, parts).await.unwrap(), 2);
    let stored = noted(&server, &step).await;
    assert_eq!(stored, named(&[("a", b"last"), ("b", b"same"), ("c", b"same"), ("empty", b"")]));
    server.stop().await;
}

#[tokio::test]
async fn a_file_that_is_here_already_is_not_noted_with_another_size() {
    let (server, step, mut agent) = at_work().await;
    put(&mut agent, &step, file("a", b"abc")).await.unwrap();
    let longer = |name: &str| v1::ArtifactHeader { name: name.into(), size: 4, sha256: Digest::of(b"abc").to_string() };
    for parts in [vec![Part::Header(longer("c"))], vec![Part::Header(longer("c")), Part::Data(b"abc".to_vec())]] {
        let refused = put(&mut agent, &step, parts).await.unwrap_err();
        assert_eq!(refused.code(), Code::DataLoss, "{refused}");
        assert!(refused.message().contains("\"c\""), "{refused}");
    }
    assert_eq!(noted(&server, &step).await, named(&[("a", b"abc")]));
    server.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_not_made_of_files_is_refused_and_says_why() {
    let (server, step, mut agent) = at_work().await;
    let again = Part::Attempt(attempt(&step, "i-n1"));
    for (parts, why) in [
        (vec![Part::Data(b"x".to_vec())], "after a header"),
        (vec![again], "a header or data"),
        (vec![header("../x", b"x")], "name"),
    ] {
        let refused = put(&mut agent, &step, parts).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(why), "{refused}");
    }
    let refused = agent.put_artifacts(futures::stream::iter([message(header("a", b"a"))])).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("first message"), "{refused}");
    // Whoever asks for too much is told how much is not.
    let attempt = Some(attempt(&step, "i-n1"));
    let sha256 = vec![Digest::of(b"a").to_string(); 1001];
    let blobs = sha256.iter().map(|it| v1::BlobRef { sha256: it.clone(), size: 1 }).collect();
    let asked = v1::FindMissingBlobsRequest { attempt: attempt.clone(), blobs };
    let refused = agent.find_missing_blobs(asked).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("1000"), "{refused}");
    let refused = agent.get_artifacts(v1::GetArtifactsRequest { attempt, sha256 }).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("1000"), "{refused}");
    server.stop().await;
}

//! Streams of frames that no good agent sends so, and requests with hostile words: what comes of them is stored
//! whole or refused with a cause, and never an error of the mediator's own.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{TestCaseError, TestRunner},
};
use proto::v1::{self, put_artifacts_request::Part};
use shared::domain::ClaimedStep;
use tonic::Code;

use super::{uploads::*, *};
use crate::{record::Digest, service::sample::inputs};

/// The log that the step really wrote, and the file that it made.
const TRUTH: &[u8] = b"0123456789 the quick brown fox jumps over the lazy dog\n";

/// What a refusal may say: whose fault it is, never "something broke here".
fn told(status: &Status) -> Result<(), TestCaseError> {
    let told = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::FailedPrecondition,
        Code::PermissionDenied,
        Code::AlreadyExists,
        Code::OutOfRange,
        Code::DataLoss,
    ];
    prop_assert!(told.contains(&status.code()) && !status.message().is_empty(), "{:?}", status);
    Ok(())
}

/// Frames of a log: mostly a piece of the truth at its place, with and without the name of the attempt.
fn log_frames(step: &ClaimedStep) -> impl Strategy<Value = Vec<v1::PutLogRequest>> + use<> {
    let (ours, other) = (attempt(step, "i-n1"), attempt(step, "i-other"));
    let name = prop_oneof![4 => Just(Some(ours)), 2 => Just(None), 1 => Just(Some(other))];
    let offset = prop_oneof![8 => 0..TRUTH.len() as i64, 1 => Just(-1), 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
    let frame = (name, offset, 0..TRUTH.len()).prop_map(|(attempt, offset, length)| {
        let from = usize::try_from(offset).unwrap_or(0).min(TRUTH.len());
        let to = (from + length).min(TRUTH.len());
        v1::PutLogRequest { attempt, offset, data: TRUTH[from..to].to_vec() }
    });
    proptest::collection::vec(frame, 0..6)
}

/// Frames of files: attempts, headers, pieces and nothing at all, in any order.
fn file_frames(step: &ClaimedStep) -> impl Strategy<Value = Vec<v1::PutArtifactsRequest>> + use<> {
    let (ours, other) = (attempt(step, "i-n1"), attempt(step, "i-other"));
    let attempt = prop_oneof![9 => Just(ours), 1 => Just(other)].prop_map(Part::Attempt);
    let names = prop_oneof![4 => "[a-c]", 1 => Just("../x".to_owned()), 1 => "\\PC{0,4}"];
    let size = TRUTH.len() as i64;
    let sizes = prop_oneof![6 => Just(size), 1 => Just(size - 1), 1 => Just(-1), 1 => Just(i64::MAX)];
    let sums =
        prop_oneof![6 => Just(Digest::of(TRUTH).to_string()), 1 => Just(Digest::of(b"").to_string()), 1 => ".{0,9}"];
    let any_header = (names, sizes, sums).prop_map(|(name, size, sha256)| v1::ArtifactHeader { name, size, sha256 });
    let any_header = any_header.prop_map(Part::Header);
    let good_header = |(name, content): (String, &[u8])| {
        Part::Header(v1::ArtifactHeader { name, size: content.len() as i64, sha256: Digest::of(content).to_string() })
    };
    let whole = Just(Part::Data(TRUTH.to_vec()));
    let piece = (0..TRUTH.len()).prop_map(|to| Part::Data(TRUTH[..to].to_vec()));
    // A header without bytes is good or bad by what came before it.
    let known = "[a-e]".prop_map(move |name| vec![Some(good_header((name, TRUTH)))]);
    let empty = "[a-e]".prop_map(move |name| vec![Some(good_header((name, b"")))]);
    let sent = ("[a-e]", 1..TRUTH.len()).prop_map(move |(name, at)| {
        let (head, tail) = TRUTH.split_at(at);
        vec![Some(good_header((name, TRUTH))), Some(Part::Data(head.to_vec())), Some(Part::Data(tail.to_vec()))]
    });
    let file = prop_oneof![3 => sent, 1 => known, 1 => empty];
    let any = prop_oneof![
        1 => attempt.clone().prop_map(Some), 3 => any_header.prop_map(Some), 2 => whole.prop_map(Some),
        2 => piece.prop_map(Some), 1 => Just(None)
    ];
    let files = proptest::collection::vec(file, 0..4).prop_map(|files| files.concat());
    let good_start = (attempt.prop_map(Some), files, proptest::collection::vec(any.clone(), 0..3))
        .prop_map(|(first, files, rest)| std::iter::once(first).chain(files).chain(rest).collect());
    prop_oneof![3 => good_start, 1 => proptest::collection::vec(any, 0..4)]
        .prop_map(|parts: Vec<_>| parts.into_iter().map(|part| v1::PutArtifactsRequest { part }).collect())
}

/// Values of this kind: fewer than where nothing goes through a socket.
fn each<S: Strategy>(strategy: &S) -> impl Iterator<Item = S::Value> {
    let mut runner = TestRunner::new(inputs());
    (0..inputs().cases / 10).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

#[tokio::test]
async fn any_frames_of_a_log_are_stored_in_place_or_nothing() {
    let (server, step, mut agent) = at_work().await;
    let mut longest = 0;
    for frames in each(&log_frames(&step)) {
        let shown = format!("{frames:?}");
        match agent.put_log(futures::stream::iter(frames)).await {
            Ok(reply) => longest = longest.max(reply.into_inner().stored),
            Err(status) => told(&status).unwrap_or_else(|e| panic!("{e}: {shown}")),
        }
        let stored = server.bench.services.records.read_log(&step.run, 0, 1, 0, 99).await.unwrap();
        assert!(TRUTH.starts_with(&stored) && stored.len() as i64 >= longest, "{stored:?} after {shown}");
    }
    // Whatever came before, a good agent can finish the log.
    let frame = |offset: i64| v1::PutLogRequest {
        attempt: Some(attempt(&step, "i-n1")),
        offset,
        data: TRUTH[offset as usize..].to_vec(),
    };
    let stored = agent.put_log(futures::stream::iter([frame(longest)])).await.unwrap().into_inner().stored;
    assert_eq!(stored as usize, TRUTH.len());
    assert_eq!(server.bench.services.records.read_log(&step.run, 0, 1, 0, 99).await.unwrap(), TRUTH);
    server.stop().await;
}

#[tokio::test]
async fn any_frames_of_files_are_stored_whole_or_nothing() {
    let (server, step, mut agent) = at_work().await;
    let mut good = 0;
    for frames in each(&file_frames(&step)) {
        let shown = format!("{frames:?}");
        let names: std::collections::BTreeSet<_> = frames
            .iter()
            .filter_map(|it| match &it.part {
                Some(Part::Header(header)) => Some(header.name.clone()),
                Some(Part::Attempt(_) | Part::Data(_)) | None => None,
            })
            .collect();
        match agent.put_artifacts(futures::stream::iter(frames)).await {
            // A name that comes twice counts once.
            Ok(reply) => {
                assert_eq!(reply.into_inner().files, names.len() as i64, "{shown}");
                good += usize::from(!names.is_empty());
            }
            Err(status) => told(&status).unwrap_or_else(|e| panic!("{e}: {shown}")),
        }
    }
    assert!(good > 0, "some were good");
    let noted = server.bench.services.store.read().await.unwrap().artifacts(&step.run).await.unwrap();
    assert!(!noted.is_empty());
    for file in noted {
        let digest = file.sha256.parse().unwrap();
        let stored = server.bench.services.records.read_small(&step.run, &digest, 99).await.unwrap();
        assert!(stored == TRUTH || stored.is_empty(), "{file:?}");
        assert_eq!((stored.len() as u64, Digest::of(&stored)), (file.size, digest), "{file:?}");
        assert!(!file.name.contains("..") && !file.name.is_empty(), "{file:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn hostile_questions_about_files_are_answered_or_refused() {
    let (server, step, mut agent) = at_work().await;
    let sums = prop_oneof![Just(Digest::of(TRUTH).to_string()), "[0-9a-fA-F]{63,65}", "\\PC{0,5}"];
    let sizes = prop_oneof![Just(0), Just(-1), Just(i64::MAX), any::<i64>()];
    let attempts = prop_oneof![4 => Just(Some(attempt(&step, "i-n1"))), 1 => Just(None)];
    for (attempt, asked) in each(&(attempts, proptest::collection::vec((sums, sizes), 0..3))) {
        let shown = format!("{attempt:?} {asked:?}");
        let blobs: Vec<_> =
            asked.iter().map(|(sha256, size)| v1::BlobRef { sha256: sha256.clone(), size: *size }).collect();
        let sha256 = asked.into_iter().map(|it| it.0).collect();
        let many = blobs.len();
        match agent.find_missing_blobs(v1::FindMissingBlobsRequest { attempt: attempt.clone(), blobs }).await {
            Ok(reply) => assert_eq!(reply.into_inner().missing, (0..many as u32).collect::<Vec<_>>(), "{shown}"),
            Err(status) => told(&status).unwrap_or_else(|e| panic!("{e}: {shown}")),
        }
        let refused = match agent.get_artifacts(v1::GetArtifactsRequest { attempt, sha256 }).await {
            Ok(reply) => reply.into_inner().message().await.err(),
            Err(status) => Some(status),
        };
        refused.iter().for_each(|status| told(status).unwrap_or_else(|e| panic!("{e}: {shown}")));
    }
    server.stop().await;
}

#[tokio::test]
async fn hostile_requests_about_runs_are_answered_or_refused() {
    let mut server = Server::start().await;
    claimed(&mut server).await;
    let mut runs = server.runs(Role::Admin).await;
    let word =
        "(|r|s|nobody|/|\\.\\./x|\\PC{0,12}|[\u{0}-\u{1f}]{1,3}|[a-z]{250,300}|\u{202e}x|RUNNING|%00|' OR 1=1 --)";
    let number = prop_oneof![Just(0), Just(i64::MIN), Just(i64::MAX), any::<i64>()];
    for (texts, number) in each(&(proptest::collection::vec(word, 5), number)) {
        let shown = format!("{texts:?} {number}");
        let [a, b, c, d, e] = texts.try_into().unwrap();
        let small = number as u32;
        let list = v1::ListRunsRequest {
            state: a.clone(),
            work: b.clone(),
            since_at: number,
            after: c.clone(),
            begins: d.clone(),
            limit: small,
        };
        let answer = v1::AnswerRequest { run_id: a.clone(), step: b.clone(), attempt: 1, answer: c.clone() };
        let log = v1::GetLogRequest { run_id: a.clone(), step: d.clone(), follow: false };
        let subject = Some(v1::explain_request::Subject::NodeId(e));
        for refused in [
            runs.list_runs(list).await.err(),
            runs.answer(answer).await.err(),
            runs.get_log(log).await.err(),
            runs.explain(v1::ExplainRequest { subject }).await.err(),
            runs.get_run(v1::GetRunRequest { run_id: d.clone() }).await.err(),
            runs.submit(v1::SubmitRequest { contract: c.into_bytes(), run_id: d }).await.err(),
        ]
        .into_iter()
        .flatten()
        {
            told(&refused).unwrap_or_else(|e| panic!("{e}: {shown}"));
        }
    }
    server.stop().await;
}

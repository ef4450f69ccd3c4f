//! Whatever arrives as a message is taken or refused with the name of the field: arbitrary bytes, good messages of
//! which a part was changed, and fields that no good agent fills so.

use proptest::prelude::*;
use prost::Message;
use proto::v1;

use super::{
    from_wire::*,
    tests::{agent, request},
    to_wire,
};
use crate::{error::Error, service::sample::inputs};

fn told(error: &Error) -> bool {
    // Another node than the credential's is told apart from a bad field.
    let named = error.violations().iter().all(|it| !it.message.is_empty());
    named && (!error.violations().is_empty() || matches!(error, Error::WrongNode { .. }))
}

fn advert_is_taken_or_told(request: &v1::AdvertiseRequest) -> Result<(), TestCaseError> {
    match advert(request, &agent()) {
        Err(error) => prop_assert!(told(&error), "{}", error),
        Ok(taken) => {
            // What was taken goes out and comes back as it is.
            let mut problems = Problems::default();
            let wire = taken.capabilities.iter().map(to_wire::capability).collect::<Vec<_>>();
            let again = capabilities("capabilities", &wire, &mut problems);
            prop_assert_eq!(format!("{again:?}"), format!("{:?}", taken.capabilities));
            prop_assert!(problems.finish(Some(())).is_ok());
            prop_assert!(!taken.policy.reason.chars().any(char::is_control));
        }
    }
    Ok(())
}

/// Every message that an agent or a client sends and that is converted here.
fn any_message(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(message) = v1::AdvertiseRequest::decode(bytes) {
        advert_is_taken_or_told(&message)?;
    }
    if let Ok(message) = v1::ReportRequest::decode(bytes)
        && let Err(error) = report(message, &agent())
    {
        prop_assert!(told(&error), "{}", error);
    }
    for message in [
        v1::PutLogRequest::decode(bytes).ok().and_then(|it| it.attempt),
        v1::FindMissingBlobsRequest::decode(bytes).ok().and_then(|it| it.attempt),
        v1::GetArtifactsRequest::decode(bytes).ok().and_then(|it| it.attempt),
        v1::AttemptRef::decode(bytes).ok(),
    ] {
        if let Err(error) = attempt(message.as_ref(), &agent()) {
            prop_assert!(told(&error), "{}", error);
        }
    }
    if let Ok(message) = v1::ArtifactHeader::decode(bytes) {
        for error in [
            artifact_name("name", message.name).err(),
            digest("sha256", &message.sha256).err(),
            size("size", message.size).err(),
        ]
        .into_iter()
        .flatten()
        {
            prop_assert!(told(&error), "{}", error);
        }
    }
    Ok(())
}

fn good() -> [Vec<u8>; 3] {
    let (node, step) = (request().node, request().running.first().cloned());
    let nonce = "0123456789abcdef0123456789abcdef".to_owned();
    let completed = v1::report_request::Outcome::Completed(v1::Completed { exit_code: 1 });
    let report = v1::ReportRequest {
        node: node.clone(),
        step: step.clone(),
        nonce: nonce.clone(),
        outcome: Some(completed),
        ..v1::ReportRequest::default()
    };
    let attempt = v1::AttemptRef { node, step, nonce };
    [request().encode_to_vec(), report.encode_to_vec(), attempt.encode_to_vec()]
}

proptest! {
    #![proptest_config(inputs())]

    #[test]
    fn any_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        any_message(&bytes)?;
    }

    #[test]
    fn a_good_message_that_was_changed_is_taken_or_refused(
        which in 0usize..3,
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..4, proptest::collection::vec(any::<u8>(), 0..4)), 1..4),
    ) {
        let mut bytes = good()[which].clone();
        for (at, len, with) in cuts {
            let at = at.index(bytes.len() + 1);
            let end = (at + len).min(bytes.len());
            bytes.splice(at..end, with);
        }
        any_message(&bytes)?;
    }

    #[test]
    fn hostile_fields_are_taken_or_refused(
        texts in proptest::collection::vec("(|/|\\.\\./x|yard/0|\\PC{0,10}|[\u{0}-\u{1f}]{1,3}|[a-z]{250,300}|graceful|\u{202e}x)", 12),
        numbers in proptest::collection::vec(prop_oneof![Just(0), Just(i64::MIN), Just(i64::MAX), any::<i64>()], 4),
        number in any::<i64>(),
        many in prop_oneof![499 => 0usize..3, 1 => Just(1_001usize)],
    ) {
        let mut texts = texts.into_iter();
        let mut text = || texts.next().unwrap_or_default();
        let node = v1::NodeRef { node_id: text(), instance: text(), streams: vec![text(); many] };
        let kinds = [
            v1::attr_value::Kind::Number(number),
            v1::attr_value::Kind::Text(text()),
            v1::attr_value::Kind::Flag(true),
        ];
        let attrs = kinds.into_iter().map(|kind| (text(), v1::AttrValue { kind: Some(kind) })).collect();
        let step = v1::StepRef { run_id: text(), seq: 7, attempt: 0 };
        let mut hostile = v1::AdvertiseRequest {
            label: text(),
            advert_no: numbers[0],
            replaces: vec![text(); many],
            policy: Some(v1::Policy { drain: text(), since_at: numbers[1], ..v1::Policy::default() }),
            capabilities: vec![v1::Capability { name: "build".into(), attrs }; many],
            running: vec![step; many],
            ..request()
        };
        advert_is_taken_or_told(&hostile)?;
        hostile.node = Some(node);
        advert_is_taken_or_told(&hostile)?;
    }
}

//! From a failure's kind to a gRPC status with `google.rpc` details: the only such mapping.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::error::{DOMAIN, Error, Kind};

/// When a caller that has too much under way may come back.
pub(super) const RETRY_BUSY: std::time::Duration = std::time::Duration::from_secs(1);

/// The gRPC code of a kind.
#[must_use]
pub(super) const fn code(kind: Kind) -> Code {
    match kind {
        Kind::Invalid => Code::InvalidArgument,
        Kind::Unauthenticated => Code::Unauthenticated,
        Kind::WrongRole | Kind::ForeignNode => Code::PermissionDenied,
        Kind::Superseded | Kind::Stale => Code::FailedPrecondition,
        Kind::RunExists => Code::AlreadyExists,
        Kind::NotAsked => Code::FailedPrecondition,
        Kind::NotFound => Code::NotFound,
        Kind::TooLarge | Kind::Busy => Code::ResourceExhausted,
        Kind::TooSlow => Code::Aborted,
        Kind::Checksum => Code::DataLoss,
        Kind::StoreUnavailable => Code::Unavailable,
        Kind::Internal => Code::Internal,
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        error.note();
        let kind = error.kind();
        let mut details = ErrorDetails::new();
        if kind == Kind::Invalid {
            let fields: Vec<FieldViolation> =
                error.violations().iter().map(|it| FieldViolation::new(&*it.field, &*it.message)).collect();
            details.set_bad_request(fields);
        } else {
            details.set_error_info(kind.reason(), DOMAIN, std::collections::HashMap::new());
        }
        if kind == Kind::Busy {
            details.set_retry_info(Some(RETRY_BUSY));
        }
        Self::with_error_details(code(kind), header_text(error.public_message()), details)
    }
}

/// A status message travels in a header of limited size; the details have everything.
fn header_text(mut text: String) -> String {
    const MOST: usize = 2_000;
    if text.len() > MOST {
        let cut = (0..=MOST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use shared::domain::Refusal;

    use super::*;
    use crate::error::Violation;

    #[test]
    fn a_refusal_carries_its_stable_reason() {
        let status = Status::from(Error::from(Refusal::Stale("the lease is gone")));
        assert_eq!(status.code(), Code::FailedPrecondition);
        let info = status.get_details_error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("STALE", "fleet.v1"));
    }

    #[test]
    fn a_contract_carries_one_violation_per_problem() {
        let problems = (0..50).map(|n| Violation::new(format!("steps[{n}].uses"), "names no role; ".repeat(10)));
        let status = Status::from(Error::Contract(problems.collect()));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.get_details_bad_request().unwrap().field_violations.len(), 50);
        assert!(status.message().len() < 2_100);
    }

    #[test]
    fn codes_are_those_that_the_protocol_documents() {
        let proto = include_str!("../../../proto/fleet/v1/fleet.proto");
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Invalid) {
            let line = proto.lines().find(|line| line.starts_with(&format!("//   {} ", kind.reason()))).unwrap();
            let word: String = format!("{:?}", code(kind));
            let documented = line.rsplit('(').next().unwrap().trim_end_matches(')').replace('_', "").to_lowercase();
            assert_eq!(documented, word.to_lowercase(), "{line}");
        }
    }
}

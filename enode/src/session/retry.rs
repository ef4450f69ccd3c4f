//! Which failure is worth another try, and when to make it.
//!
//! The decision is an exhaustive match over the gRPC codes: a code that nobody thought of is not retried, so
//! that no result is sent for ever. A failure that was made on this side (the connection broke, nobody
//! answered) always is: it says nothing about what the mediator thinks.

use std::error::Error as _;

use shared::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::clock;

/// What a failed call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The same message may be sent again.
    Retry,
    /// Another instance or stream speaks for this node.
    Superseded,
    /// The lease has ended: the write is late.
    Stale,
    /// The bytes that arrived were not the bytes that were hashed.
    Checksum,
    /// Not with these credentials. They may be mended, so that it is no word on what was said.
    Denied,
    /// No, for good.
    Refused,
}

/// A call that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What it means.
    pub kind: Kind,
    /// What the mediator said, if it was the mediator that said it, or its silence.
    pub code: Option<Code>,
    /// In words.
    pub message: String,
}

impl CallError {
    /// A failure on this side.
    pub fn retry(message: impl Into<String>) -> Self {
        Self { kind: Kind::Retry, code: None, message: message.into() }
    }

    /// The mediator has the message and says nothing.
    #[must_use]
    pub fn unanswered(within: Duration) -> Self {
        Self { kind: Kind::Retry, code: Some(Code::DeadlineExceeded), message: format!("no answer within {within}") }
    }

    /// A definite failure on this side.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: Kind::Refused, code: None, message: message.into() }
    }

    /// The mediator did not answer, or says that it cannot work now: another one may.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        self.kind == Kind::Retry && matches!(self.code, None | Some(Code::Unavailable | Code::DeadlineExceeded))
    }

    /// The mediator understood the message and cannot take it as it is: another one is needed.
    #[must_use]
    pub fn is_about_the_message(&self) -> bool {
        matches!(self.code, Some(Code::InvalidArgument | Code::ResourceExhausted))
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
        let text = match (status.message(), status.source()) {
            ("", Some(source)) => source.to_string(),
            (text, Some(source)) => with_advice(text, &root(source).to_string()),
            ("", None) => status.code().description().to_owned(),
            (text, None) => text.to_owned(),
        };
        let kind = if status.source().is_some() { Kind::Retry } else { classify(status.code(), &reason) };
        // It is about how much is under way: no word on this message, and no reason to leave for another mediator.
        let code = if reason == BUSY { Code::Aborted } else { status.code() };
        let message = if reason.is_empty() { text } else { format!("{reason}: {text}") };
        Self { kind, code: status.source().is_none().then_some(code), message }
    }
}

/// The reason of a mediator from which this principal wants too much at once.
const BUSY: &str = "BUSY";

/// The innermost cause: "connection refused" helps, "transport error" does not.
fn root<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut at = error;
    while let Some(next) = at.source() {
        at = next;
    }
    at
}

/// A failed connection and its innermost cause, said once, and where the words of the TLS library mean something that
/// the owner can mend, that.
#[must_use]
pub fn with_advice(text: &str, cause: &str) -> String {
    let mut said = text.to_owned();
    if !said.contains(cause) {
        said = format!("{said}: {cause}");
    }
    let advice = if cause.contains("UnknownIssuer") || cause.contains("BadSignature") {
        "the mediator's certificate was not made by the authority in ca_file: copy the mediator's own ca.crt there"
    } else if cause.contains("not valid for name") || cause.contains("NotValidForName") {
        "the mediator's certificate is for another host: write the URL with a name that it has"
    } else if cause.contains("certificate expired") || cause.contains("certificate not valid yet") {
        "look at the clocks of both machines; else the mediator needs a new certificate"
    } else if cause.contains("InvalidContentType") {
        "this mediator has no TLS: write its URL with http:// and leave ca_file out"
    } else if cause.contains("frame with invalid size") {
        "a mediator with TLS needs https:// and ca_file"
    } else if cause.contains("received fatal alert") {
        "the mediator wants a client certificate, or another one: cert_file must be signed by the authority in its tls.client_ca"
    } else {
        return said;
    };
    format!("{said}; {advice}")
}

/// What a status that came from the mediator means.
#[must_use]
pub fn classify(code: Code, reason: &str) -> Kind {
    match code {
        // The mediator stops, is overloaded, or had a fault: the same ids may ask again.
        Code::Cancelled | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable | Code::Internal => Kind::Retry,
        Code::FailedPrecondition => match reason {
            "SUPERSEDED" => Kind::Superseded,
            "STALE" => Kind::Stale,
            _ => Kind::Refused,
        },
        Code::ResourceExhausted if reason == BUSY => Kind::Retry,
        Code::NotFound if reason == "NOT_FOUND" => Kind::Stale,
        Code::DataLoss if reason == "CHECKSUM" => Kind::Checksum,
        Code::PermissionDenied | Code::Unauthenticated => Kind::Denied,
        Code::Ok
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss => Kind::Refused,
    }
}

/// Doubling pauses with full jitter: agents that lost the same mediator come back spread out.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
}

/// The longest pause, where the agent's own interval is longer.
pub const MAX_PAUSE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Full jitter may draw zero; a loop without any pause helps nobody.
const MIN_PAUSE: Duration = Duration::from_millis(20);

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

impl Backoff {
    /// No failure yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { failures: 0 }
    }

    /// It worked.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause after one more failure, and at most the interval between two adverts: an agent that waited longer
    /// would miss renewals on account of its own caution.
    pub fn next_pause(&mut self, interval: Duration) -> Duration {
        let most = MAX_PAUSE.min(interval).millis();
        let ceiling = FIRST_PAUSE.millis().saturating_mul(1 << self.failures.min(16)).min(most);
        self.failures = self.failures.saturating_add(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a fraction of at most ten thousand milliseconds"
        )]
        let drawn = (ceiling as f64 * clock::random_fraction()) as u64;
        Duration::from_millis(drawn.max(MIN_PAUSE.millis()))
    }

    /// Waits that long.
    pub async fn pause(&mut self, interval: Duration) {
        tokio::time::sleep(self.next_pause(interval).std()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e07_only_codes_that_say_try_again_are_retried() {
        for number in 0..=40 {
            let code = Code::from_i32(number);
            let retried = matches!(
                code,
                Code::Cancelled | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable | Code::Internal
            );
            assert_eq!(classify(code, "") == Kind::Retry, retried, "{code:?} ({number})");
        }
        assert_eq!(classify(Code::from_i32(77), ""), Kind::Refused, "a code from the future");
    }

    #[test]
    fn reasons_tell_late_from_superseded() {
        assert_eq!(classify(Code::FailedPrecondition, "STALE"), Kind::Stale);
        assert_eq!(classify(Code::FailedPrecondition, "SUPERSEDED"), Kind::Superseded);
        assert_eq!(classify(Code::FailedPrecondition, "NEW_WORD"), Kind::Refused);
        assert_eq!(classify(Code::DataLoss, "CHECKSUM"), Kind::Checksum);
    }

    #[test]
    fn a_busy_mediator_is_asked_again_and_the_message_stays_as_it_is() {
        let details = tonic_types::ErrorDetails::with_error_info("BUSY", "fleet.v1", []);
        let busy = CallError::from(Status::with_error_details(Code::ResourceExhausted, "wait", details));
        assert_eq!((busy.kind, busy.is_about_the_message(), busy.is_silence()), (Kind::Retry, false, false));
        let details = tonic_types::ErrorDetails::with_error_info("TOO_LARGE", "fleet.v1", []);
        let large = CallError::from(Status::with_error_details(Code::ResourceExhausted, "less", details));
        assert_eq!((large.kind, large.is_about_the_message()), (Kind::Refused, true));
    }

    #[test]
    fn a_broken_connection_is_retried_whatever_code_it_was_given() {
        let broken = Status::from_error(Box::new(std::io::Error::other("connection reset")));
        assert_eq!(broken.code(), Code::Unknown);
        assert_eq!(CallError::from(broken).kind, Kind::Retry);
    }

    #[test]
    fn what_the_owner_can_mend_about_a_connection_is_said_once() {
        for (text, cause, wanted) in [
            (
                "tcp connect error",
                "Connection refused (os error 111)",
                "tcp connect error: Connection refused (os error 111)",
            ),
            (
                "invalid peer certificate: BadSignature",
                "invalid peer certificate: BadSignature",
                "invalid peer certificate: BadSignature; the mediator's certificate was not made by the authority in \
                 ca_file: copy the mediator's own ca.crt there",
            ),
            (
                "transport error",
                "received fatal alert: CertificateRequired",
                "transport error: received fatal alert: CertificateRequired; the mediator wants a client certificate, or \
                 another one: cert_file must be signed by the authority in its tls.client_ca",
            ),
        ] {
            assert_eq!(with_advice(text, cause), wanted);
        }
    }

    #[test]
    fn d02_pauses_grow_to_a_ceiling_and_start_again() {
        let mut backoff = Backoff::new();
        for most in [Duration::from_secs(3600), Duration::from_secs(1)] {
            for _ in 0..40 {
                let pause = backoff.next_pause(most);
                assert!(pause >= MIN_PAUSE && pause <= MAX_PAUSE.min(most), "{pause}");
            }
        }
        backoff.reset();
        assert!(backoff.next_pause(MAX_PAUSE) <= FIRST_PAUSE);
    }
}

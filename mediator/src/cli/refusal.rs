//! What the mediator said no with: a gRPC status becomes a [`Failure`] with its cause and what to do.

use std::error::Error;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    exit::{Exit, Failure},
    shown::Shown,
};

/// Nothing was heard from the mediator, so the same request may be sent again.
pub(crate) fn is_unreachable(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown) || broke(status)
}

/// The mediator has decided: asking again gives the same answer.
pub(crate) fn is_final(status: &Status) -> bool {
    exit_of(status) == Exit::Refused
}

/// A caller that has too much under way is refused for now only, which the code alone does not say.
fn exit_of(status: &Status) -> Exit {
    let busy = status.get_details_error_info().is_some_and(|info| info.reason == "BUSY");
    if busy { Exit::Unreachable } else { exit(status.code()) }
}

/// How a command ends that got this answer: the one table of what a code means.
const fn exit(code: Code) -> Exit {
    match code {
        Code::Ok => Exit::Ok,
        Code::DeadlineExceeded => Exit::Timeout,
        Code::Unavailable | Code::Unknown | Code::Internal | Code::DataLoss | Code::Aborted | Code::Cancelled => {
            Exit::Unreachable
        }
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => Exit::Refused,
    }
}

/// No connection was made, so the request has not left this program.
pub(crate) fn never_connected(status: &Status) -> bool {
    let mut error: Option<&(dyn Error + 'static)> = status.source();
    while let Some(current) = error {
        if current.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        error = current.source();
    }
    false
}

/// A connection that broke off in the middle is reported as INTERNAL or CANCELLED with the transport's error behind it.
fn broke(status: &Status) -> bool {
    matches!(status.code(), Code::Internal | Code::Cancelled) && status.source().is_some()
}

/// Turns a status into a failure. `what` is the sentence "cannot …" without its cause.
pub(crate) fn failure(url: &str, what: &str, status: &Status, shown: &Shown) -> Failure {
    let details = status.get_error_details();
    let info = details.error_info();
    let reason = info.map_or("", |info| info.reason.as_str());
    if is_unreachable(status) && info.is_none() {
        return unreachable(url, &cause(status), shown);
    }
    let problems: Vec<_> = details
        .bad_request()
        .into_iter()
        .flat_map(|bad| &bad.field_violations)
        .map(|violation| match violation.field.as_str() {
            "" => violation.description.clone(),
            field => format!("{field}: {}", violation.description),
        })
        .collect();
    let message = match (problems.as_slice(), status.message()) {
        // The server's word is for whoever speaks the protocol: which header to send.
        ([], _) if status.code() == Code::Unauthenticated && shown.is_nothing() => {
            format!("{what}: no token was given")
        }
        ([], "") => format!("{what}: {}", status.code()),
        ([], message) => format!("{what}: {message}"),
        ([problem], _) => format!("{what}: {problem}"),
        (problems, _) => format!("{what}\n{}", problems.join("\n")),
    };
    // What the mediator itself advises needs no second advice.
    let advised = message.contains("`mediator ");
    let failure = Failure::new(exit_of(status), message);
    // What was shown is this program's business alone.
    let advice = match status.code() {
        Code::Unauthenticated => Some(shown.about_caller()),
        code => advice(reason, code).filter(|_| !advised).map(str::to_owned),
    };
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}

/// Nobody answers at this address, or nobody whom this program may believe.
pub(crate) fn unreachable(url: &str, cause: &str, shown: &Shown) -> Failure {
    // A server says what it thinks of a client's certificate after the handshake, or just leaves.
    let left =
        ["broken pipe", "Broken pipe", "received fatal alert", "onnection reset", "peer closed", "closed before"];
    if url.starts_with("https://") && left.iter().any(|words| cause.contains(words)) {
        let what =
            if shown.cert.is_some() { "it refused the certificate that was shown" } else { "it ended the connection" };
        let message = format!("{url} was reached, but {what} ({cause})");
        return Failure::new(Exit::Unreachable, message).advise(shown.about_certificate());
    }
    let (what, advice) = tls_trouble(cause).unwrap_or((
        "",
        "Is `mediator serve` running? Another address is given with --mediator URL or MEDIATOR_URL; a server with TLS \
         needs https:// and --ca FILE.",
    ));
    Failure::new(Exit::Unreachable, format!("cannot reach {url}: {what}{cause}")).advise(advice)
}

/// What a failed handshake means, by the words of the TLS library: somebody is there, so "is it running?" would
/// lead astray.
fn tls_trouble(cause: &str) -> Option<(&'static str, &'static str)> {
    Some(if cause.contains("UnknownIssuer") || cause.contains("BadSignature") {
        (
            "its certificate was not made by the authority in --ca: ",
            "Give the ca.crt of this mediator with --ca FILE or MEDIATOR_CA; `mediator pki init` wrote it beside the \
             server's certificate.",
        )
    } else if cause.contains("not valid for name") || cause.contains("NotValidForName") {
        (
            "its certificate is for another host: ",
            "Write the URL with a name that the certificate has, or make one for this name with `mediator pki init \
             --host NAME`.",
        )
    } else if cause.contains("certificate expired") || cause.contains("certificate not valid yet") {
        ("its certificate is not valid now: ", "Look at the clocks of both machines; else make a new certificate.")
    } else if cause.contains("InvalidContentType") {
        ("this server has no TLS: ", "Write the URL with http://, without --ca, or give the server a certificate.")
    } else if cause.contains("frame with invalid size") {
        ("what answers there is not plain HTTP/2: ", "A mediator with TLS needs https:// and --ca FILE.")
    } else if cause.contains("invalid peer certificate") {
        ("its certificate cannot be trusted: ", "Look at the certificate of the server and at --ca FILE.")
    } else {
        return None;
    })
}

/// The innermost error says what happened ("Connection refused"), the outer ones only that something did.
pub(crate) fn cause(status: &Status) -> String {
    let mut innermost: Option<&(dyn Error + 'static)> = status.source();
    while let Some(deeper) = innermost.and_then(Error::source) {
        innermost = Some(deeper);
    }
    match innermost {
        Some(error) => error.to_string(),
        None if status.message().is_empty() => status.code().to_string(),
        None => status.message().to_owned(),
    }
}

fn advice(reason: &str, code: Code) -> Option<&'static str> {
    Some(match (reason, code) {
        ("BUSY", _) => "The same command may be sent again in a moment.",
        ("RUN_EXISTS", _) => {
            "Give another --run-id, or leave it out and a fresh one is drawn; `mediator show RUN` shows the stored Run."
        }
        ("NOT_FOUND", _) => "`mediator runs` and `mediator nodes` list what there is.",
        ("STORE_UNAVAILABLE", _) => "The same command with the same run id may be sent again; see the mediator's log.",
        ("INTERNAL", _) => "This is a fault of the mediator; its log says more.",
        (_, Code::Unimplemented) => "The mediator at this address does not know this call: is it of another version?",
        _ => return None,
    })
}

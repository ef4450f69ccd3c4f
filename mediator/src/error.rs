//! What can go wrong at the mediator's edge, by kind.
//!
//! Every failure that a peer may see passes through [`Error`]. [`Error::kind`] is the one exhaustive place
//! that sorts failures; the gRPC status, the HTTP status and the stable reason follow from the kind alone
//! (`grpc::status`, `http::problem`). Must not know: tonic, axum, SQL.

use std::{borrow::Cow, sync::Arc};

use shared::{NodeId, contract::ContractError, domain::Refusal};

use crate::{
    record::RecordError,
    store::{ErrorKind, StoreError},
};

/// The domain of every `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "fleet.v1";

/// One thing wrong with a message: the path of the field inside it, and a sentence on what and what instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `capabilities[3].name`; empty for the message itself.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Violation {
    /// One violation.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// A failure that a peer may see.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The fleet's rules refused a command.
    #[error("{0}")]
    Refused(Refusal),
    /// A contract is not valid.
    #[error("the contract is not valid: {}", joined(.0))]
    Contract(Vec<Violation>),
    /// A message, a query or an id is not well formed.
    #[error("{}", joined(.0))]
    Invalid(Vec<Violation>),
    /// No token and no certificate, or none that is good here.
    #[error("{0}")]
    Unauthenticated(Cow<'static, str>),
    /// The token's role may not make this call.
    #[error("{0}")]
    WrongRole(String),
    /// The token is bound to another node.
    #[error("this token speaks for node {bound} only, not for {node}; create a token for it with --node {node}")]
    WrongNode {
        /// The node the token is bound to.
        bound: NodeId,
        /// The node that was spoken for.
        node: NodeId,
    },
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// A message or file is over its limit.
    #[error("{0}")]
    TooLarge(String),
    /// The caller has too much under way at once, or does what only one may at a time.
    #[error("{0}")]
    Overuse(String),
    /// The caller did not read, or send, for too long.
    #[error("{0}")]
    TooSlow(String),
    /// Bytes do not match their SHA-256.
    #[error("{0}")]
    Checksum(String),
    /// The database did not answer, or failed.
    #[error("the store could not be used; the same request may be sent again")]
    Store(#[source] Arc<StoreError>),
    /// The room for files failed, or refused.
    #[error("{0}")]
    Record(RecordError),
    /// The mediator is about to stop.
    #[error("the mediator is stopping; send the same request again")]
    Stopping,
    /// A fault of ours. The text is for the log; the peer is told no more than that.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Sorts of failure. Each has one reason word, one gRPC code and one HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words say it; fleet.proto explains them")]
pub enum Kind {
    Invalid,
    Unauthenticated,
    WrongRole,
    ForeignNode,
    Superseded,
    Stale,
    RunExists,
    NotAsked,
    NotFound,
    TooLarge,
    Busy,
    TooSlow,
    Checksum,
    StoreUnavailable,
    Internal,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Invalid,
        Self::Unauthenticated,
        Self::WrongRole,
        Self::ForeignNode,
        Self::Superseded,
        Self::Stale,
        Self::RunExists,
        Self::NotAsked,
        Self::NotFound,
        Self::TooLarge,
        Self::Busy,
        Self::TooSlow,
        Self::Checksum,
        Self::StoreUnavailable,
        Self::Internal,
    ];

    /// The stable word that programs may rely on.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::WrongRole => "WRONG_ROLE",
            Self::ForeignNode => "FOREIGN_NODE",
            Self::Superseded => "SUPERSEDED",
            Self::Stale => "STALE",
            Self::RunExists => "RUN_EXISTS",
            Self::NotAsked => "NOT_ASKED",
            Self::NotFound => "NOT_FOUND",
            Self::TooLarge => "TOO_LARGE",
            Self::Busy => "BUSY",
            Self::TooSlow => "TOO_SLOW",
            Self::Checksum => "CHECKSUM",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::Internal => "INTERNAL",
        }
    }
}

impl Error {
    /// Which sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Refused(refusal) => match refusal {
                Refusal::ForeignNode(_) => Kind::ForeignNode,
                // A person has to mend it; until then the agent goes on asking.
                Refusal::Unreadable(_) => Kind::StoreUnavailable,
                Refusal::Superseded { .. } => Kind::Superseded,
                Refusal::Stale(_) => Kind::Stale,
                Refusal::RunExists(_) => Kind::RunExists,
                Refusal::NotAsked(_) => Kind::NotAsked,
                Refusal::NotAnAnswerer { .. } => Kind::WrongRole,
                Refusal::BadAnswer(_) => Kind::Invalid,
                Refusal::NotFound(_) => Kind::NotFound,
            },
            Self::Contract(_) | Self::Invalid(_) => Kind::Invalid,
            Self::Unauthenticated(_) => Kind::Unauthenticated,
            Self::WrongRole(_) => Kind::WrongRole,
            Self::WrongNode { .. } => Kind::ForeignNode,
            Self::NotFound(_) => Kind::NotFound,
            Self::TooLarge(_) => Kind::TooLarge,
            Self::Overuse(_) => Kind::Busy,
            Self::TooSlow(_) => Kind::TooSlow,
            Self::Checksum(_) => Kind::Checksum,
            Self::Store(error) => match error.kind() {
                // Two writers that met are no caller's mistake: the same request may be sent again.
                ErrorKind::Unavailable | ErrorKind::Conflict => Kind::StoreUnavailable,
                ErrorKind::Corrupt | ErrorKind::Migration | ErrorKind::Config | ErrorKind::Internal => Kind::Internal,
            },
            Self::Record(error) => record_kind(error),
            Self::Stopping => Kind::StoreUnavailable,
            Self::Internal(_) => Kind::Internal,
        }
    }

    /// One field that is wrong.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation::new(field, message)])
    }

    /// The fields that are wrong; empty unless the kind is [`Kind::Invalid`].
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Contract(violations) | Self::Invalid(violations) => violations,
            _ => &[],
        }
    }

    /// What the peer is told. Faults of ours say nothing about our inside.
    #[must_use]
    pub fn public_message(&self) -> String {
        match self.kind() {
            Kind::Internal => "internal error; the mediator's log has the details".to_owned(),
            _ => self.to_string(),
        }
    }

    /// Counts a failure by its reason as it is told to a peer, and logs it if it is ours.
    pub fn note(&self) {
        crate::metrics::refused(self.kind().reason());
        self.log();
    }

    /// Writes faults of ours to the log, with their chain. Peers' mistakes are not logged.
    pub fn log(&self) {
        if matches!(self.kind(), Kind::Internal | Kind::StoreUnavailable) && !matches!(self, Self::Stopping) {
            let mut chain = self.to_string();
            let mut source = std::error::Error::source(self);
            while let Some(cause) = source {
                chain.push_str(": ");
                chain.push_str(&cause.to_string());
                source = cause.source();
            }
            tracing::error!(reason = self.kind().reason(), "{chain}");
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl From<RecordError> for Error {
    fn from(error: RecordError) -> Self {
        match error {
            // A caller's mistake has a field.
            RecordError::Gap { .. } => Self::invalid("offset", error.to_string()),
            RecordError::BadDigest(_) => Self::invalid("sha256", error.to_string()),
            other => Self::Record(other),
        }
    }
}

impl From<ContractError> for Error {
    fn from(error: ContractError) -> Self {
        Self::Contract(error.problems.into_iter().map(violation).collect())
    }
}

fn violation(problem: shared::contract::Problem) -> Violation {
    let message = match problem.position {
        Some((line, column)) => format!("line {line}, column {column}: {}", problem.message),
        None => problem.message,
    };
    Violation { field: problem.path, message }
}

fn joined(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn record_kind(error: &RecordError) -> Kind {
    match error {
        RecordError::Of { source, .. } => record_kind(source),
        RecordError::Sealed(_) => Kind::Stale,
        RecordError::NotSealed(_) | RecordError::NoBlob { .. } => Kind::NotFound,
        RecordError::TooLarge { .. } => Kind::TooLarge,
        RecordError::Checksum { .. } => Kind::Checksum,
        RecordError::Gap { .. } | RecordError::BadDigest(_) => Kind::Invalid,
        RecordError::NoSpace { .. } | RecordError::Interrupted(_) | RecordError::NoTurnToSeal(_) => {
            Kind::StoreUnavailable
        }
        RecordError::NotEnded(_) | RecordError::Io { .. } | RecordError::Damaged { .. } => Kind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_distinct_and_documented_in_the_protocol() {
        let proto = include_str!("../../proto/fleet/v1/fleet.proto");
        let mut seen = std::collections::BTreeSet::new();
        for kind in Kind::ALL {
            assert!(seen.insert(kind.reason()), "{kind:?}");
            if kind != Kind::Invalid {
                assert!(proto.contains(&format!("//   {} ", kind.reason())), "{kind:?} is not in fleet.proto");
            }
        }
    }

    #[test]
    fn a_fault_of_ours_tells_the_peer_nothing_about_our_inside() {
        let error = Error::Internal("row 7 of table runs".into());
        assert!(!error.public_message().contains("table"));
    }

    #[test]
    fn a_contract_problem_keeps_its_path_and_position() {
        let problem = shared::contract::Problem {
            path: "steps[3].needs[0]".into(),
            position: Some((12, 5)),
            message: "names no step".into(),
        };
        let error = Error::from(ContractError { problems: vec![problem] });
        assert_eq!(error.violations(), [Violation::new("steps[3].needs[0]", "line 12, column 5: names no step")]);
        assert_eq!(error.kind(), Kind::Invalid);
    }
}

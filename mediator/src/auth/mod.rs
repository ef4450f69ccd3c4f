//! Who calls, and what they may do.
//!
//! A bearer token is looked up by its SHA-256; the secret itself is stored nowhere but with its owner. A client
//! certificate says by itself who it speaks for and takes the token's place. Every call has a name ([`Call`])
//! and [`Role::may`] is the one exhaustive table of who may make it. No role can drain a node: there is no call
//! for it. Must not know: tonic, axum.

mod call;
mod certificate;
mod keeper;
mod memory;
mod token;

use shared::{NodeId, Principal};

use crate::error::Error;

pub use call::{Access, Call, Shape};
pub use certificate::{ClientCertificate, Says, holds_key, uri, validity};
pub use keeper::{Auth, Caller};
pub use token::{NewToken, admin_token, create_token, hash};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// An agent: speaks for nodes.
    Node,
    /// Submits Runs and cancels its own.
    Submitter,
    /// Reads.
    Observer,
    /// Everything but speaking for a node. It cannot drain one either.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Node, Self::Submitter, Self::Observer, Self::Admin];

    /// The word on the command line and in the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Submitter => "submitter",
            Self::Observer => "observer",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Role {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or_else(|| format!("{word:?} is not a role: write node, submitter, observer or admin"))
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name the token was made for.
    pub principal: Principal,
    /// What it may do.
    pub role: Role,
    /// For an agent: the only node it may speak for; none means any node of its principal.
    pub node: Option<NodeId>,
}

impl Identity {
    /// Whether this caller may make this call.
    ///
    /// # Errors
    /// [`Error::WrongRole`] says which role could.
    pub fn may(&self, call: Call) -> Result<(), Error> {
        if self.role.may(call) {
            return Ok(());
        }
        let able: Vec<&str> = Role::ALL.into_iter().filter(|role| role.may(call)).map(Role::as_str).collect();
        Err(Error::WrongRole(format!(
            "a token or certificate of role {} may not call {}; use one of role {}",
            self.role,
            call.as_str(),
            either(&able)
        )))
    }

    /// Whether this caller may speak for this node. A token made with `--node NAME` speaks for the machine
    /// `NAME`: for the node of that name and for its slots `NAME/0`, `NAME/1` and so on.
    ///
    /// # Errors
    /// [`Error::WrongNode`] when the token is bound to another one.
    pub fn speaks_for(&self, node: &NodeId) -> Result<(), Error> {
        let Some(bound) = &self.node else { return Ok(()) };
        let machine = node.as_str().split('/').next().unwrap_or_default();
        if bound == node || bound.as_str() == machine {
            Ok(())
        } else {
            Err(Error::WrongNode { bound: bound.clone(), node: node.clone() })
        }
    }

    /// Whether this caller may cancel a Run of this submitter.
    ///
    /// # Errors
    /// [`Error::WrongRole`] when it is another one's.
    pub fn may_cancel(&self, submitter: &Principal) -> Result<(), Error> {
        if self.role == Role::Admin || self.principal == *submitter {
            Ok(())
        } else {
            Err(Error::WrongRole(
                "a token or certificate of role submitter may cancel the runs of its own principal only; use one of role admin"
                    .to_owned(),
            ))
        }
    }
}

/// "a, b or c"
fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! One newtype per id. Parsing is validation: a value of these types is well formed.
//!
//! Ids are cheap to clone (`Arc<str>`), ordered by their text, and safe to use as a file name: they hold
//! no `/` except where a node id carries its slot (`NAME/3`), never start with a dot or a dash, and are
//! ASCII without blanks.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} {why}")]
pub struct BadId {
    kind: &'static str,
    text: String,
    why: &'static str,
}

const NAME_RULE: &str =
    "must have 1 to 128 characters of a-z, A-Z, 0-9, '.', '_', '-' and start with a letter or digit";

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

/// `NAME` or `NAME/SLOT`.
fn is_node(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((name, slot)) => {
            is_name(name) && (1..=6).contains(&slot.len()) && slot.bytes().all(|b| b.is_ascii_digit())
        }
    }
}

/// A work id names something outside (`gerrit:I5c9`), so it may hold anything printable.
fn is_work(text: &str) -> bool {
    (1..=512).contains(&text.len()) && !text.chars().any(char::is_control)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident: $kind:literal, $test:path, $why:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses and validates.
            ///
            /// # Errors
            /// [`BadId`] says which rule the text breaks.
            pub fn new(text: &str) -> Result<Self, BadId> {
                if $test(text) {
                    Ok(Self(text.into()))
                } else {
                    // Long garbage is cut: the message is for a person.
                    let text = text.chars().take(80).collect();
                    Err(BadId { kind: $kind, text, why: $why })
                }
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "description": concat!($kind)})
            }
        }
    )*};
}

ids! {
    /// One Run, chosen by the client.
    RunId: "run id", is_name, NAME_RULE;
    /// One node: `NAME`, or `NAME/SLOT` on a machine with several.
    NodeId: "node id", is_node, "must be NAME or NAME/SLOT, NAME made of 1 to 128 letters, digits, '.', '_' and '-'";
    /// A step's `id` in its contract.
    StepName: "step id", is_name, NAME_RULE;
    /// A role's `as` in its contract.
    RoleName: "role", is_name, NAME_RULE;
    /// Who a token or certificate speaks for.
    Principal: "principal", is_name, NAME_RULE;
    /// One process life of one node's agent; random.
    InstanceId: "instance id", is_name, NAME_RULE;
    /// One opening of a node's work stream; random.
    StreamId: "stream id", is_name, NAME_RULE;
    /// What a Run is about, across Runs: `SYSTEM:ID`.
    WorkId: "work id", is_work, "must have 1 to 512 printable characters";
}

/// A step's index in its contract, from 0.
pub type Seq = u32;

/// The permit of one lease: 128 random bits. Given to the leased node only.
///
/// It has no `Display`, and its `Debug` shows nothing, so that it cannot slip into an answer, a log line or
/// a metric (invariant I8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u128);

impl Nonce {
    /// Wraps 128 random bits.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// 32 hex digits, for the wire and the store only.
    #[must_use]
    pub fn reveal(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Parses what [`Nonce::reveal`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_file_names() {
        for good in ["a", "build-4711", "0198f", "a.b_c"] {
            assert!(RunId::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "-x", "a/b", "a b", "ä", "a\0", &"x".repeat(129)] {
            assert!(RunId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_id_may_carry_a_slot() {
        assert!(NodeId::new("yard/12").is_ok());
        for bad in ["yard/", "/1", "yard/x", "yard/1/2", "../1"] {
            assert!(NodeId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_nonce_shows_only_when_revealed() {
        let nonce = Nonce::from_bits(0xfeed);
        assert_eq!(format!("{nonce:?}"), "Nonce(..)");
        assert_eq!(Nonce::parse(&nonce.reveal()), Some(nonce));
        assert_eq!(Nonce::parse("+0000000000000000000000000000001"), None);
    }
}

//! The owner's word. Three values, closed; absent and empty are the same thing.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// How far an owner takes a node back. Ordered by strength: combining reasons is taking the maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Drain {
    /// Lent.
    #[default]
    #[serde(rename = "")]
    None,
    /// No new lease; what runs goes on to its end.
    #[serde(rename = "graceful")]
    Graceful,
    /// Nothing more is claimed; the Run ends at the next step boundary.
    #[serde(rename = "at-boundary")]
    AtBoundary,
}

impl Drain {
    /// The word in the policy file, on the wire and in the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Graceful => "graceful",
            Self::AtBoundary => "at-boundary",
        }
    }
}

impl fmt::Display for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Drain {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "" => Ok(Self::None),
            "graceful" => Ok(Self::Graceful),
            "at-boundary" => Ok(Self::AtBoundary),
            other => Err(format!(
                "{:?} is not a drain mode: write \"graceful\", \"at-boundary\" or \"\"",
                other.chars().take(40).collect::<String>()
            )),
        }
    }
}

/// What an advert carries of the policy file. The file has more (a local secret), and is another type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The strongest of all reasons on the node.
    pub drain: Drain,
    /// The owner's words.
    pub reason: String,
    /// Since when, by the agent's clock; for show only.
    pub since: Option<Timestamp>,
    /// Why the file could not be used, or a warning about it.
    pub error: String,
}

//! `ROLE` or `ROLE[i]`: one node of a role, as a step names it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RoleName;

/// `ROLE` (its first node) or `ROLE[i]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleRef {
    /// The role.
    pub role: RoleName,
    /// Which of its nodes, from 0.
    pub index: u32,
}

impl std::str::FromStr for RoleRef {
    type Err = crate::BadId;
    fn from_str(text: &str) -> Result<Self, crate::BadId> {
        // Anything odd between the brackets is left to the role's own rule, which refuses brackets.
        let (role, index) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((role, index)) if index.bytes().all(|b| b.is_ascii_digit()) => match index.parse() {
                Ok(index) => (role, index),
                Err(_) => (text, 0),
            },
            _ => (text, 0),
        };
        Ok(Self { role: RoleName::new(role)?, index })
    }
}

impl std::fmt::Display for RoleRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            0 => self.role.fmt(f),
            index => write!(f, "{}[{index}]", self.role),
        }
    }
}

impl Serialize for RoleRef {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RoleRef {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for RoleRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RoleRef".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "ROLE or ROLE[i]"})
    }
}

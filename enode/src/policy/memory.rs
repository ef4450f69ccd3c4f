//! The last good value, kept in `STATE/policy.json` so that a restart with a broken file does not weaken it.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use shared::{Timestamp, domain::Drain};

use crate::files;

/// What is remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    /// The last good value.
    pub(super) drain: Drain,
    /// Its reason.
    pub(super) reason: String,
    /// When this value was first seen.
    pub(super) since: Option<Timestamp>,
    /// Since when a broken file holds back a node that was lent.
    pub(super) broken_since: Option<Timestamp>,
}

impl Memory {
    /// A good value was seen.
    pub(super) fn take(&mut self, drain: Drain, reason: &str, wall: Timestamp) {
        if self.drain != drain || self.since.is_none() {
            self.since = Some(wall);
        }
        self.drain = drain;
        reason.clone_into(&mut self.reason);
    }
}

pub(super) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("policy.json")
}

/// Reads it. What cannot be understood counts as `graceful`: the node stays back until a word or a lasting
/// silence says otherwise.
pub(super) fn load(state_dir: &Path) -> Memory {
    let path = path(state_dir);
    let why = match files::read_regular(&path, 64 * 1024) {
        Ok(None) => return Memory::default(),
        Ok(Some(file)) => match serde_json::from_slice(&file.bytes) {
            Ok(memory) => return memory,
            Err(error) => error.to_string(),
        },
        Err(why) => why.to_string(),
    };
    tracing::warn!(file = %path.display(), %why, "the last good policy is lost; assuming graceful");
    Memory { drain: Drain::Graceful, ..Memory::default() }
}

pub(super) fn save(state_dir: &Path, memory: &Memory) -> io::Result<()> {
    files::make_private_dir(state_dir)?;
    files::write_atomic(&path(state_dir), &serde_json::to_vec_pretty(memory)?, 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()), Memory::default());
        let memory = Memory {
            drain: Drain::AtBoundary,
            reason: "mine".into(),
            since: Some(Timestamp::from_millis(5)),
            broken_since: None,
        };
        save(dir.path(), &memory).unwrap();
        assert_eq!(load(dir.path()), memory);
    }

    #[test]
    fn garbage_holds_the_node_back() {
        for garbage in ["", "{", "{}", "{\"drain\":\"never\"}"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(path(dir.path()), garbage).unwrap();
            assert_eq!(load(dir.path()).drain, Drain::Graceful, "{garbage}");
        }
    }
}

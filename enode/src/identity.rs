//! Who speaks for a node: one random instance id per process life, and which earlier lives it replaces.
//!
//! The id is on disk before it is used, so that the next life can name every one that the mediator may have
//! accepted. A copy of a machine cannot pass for the original: [`Identity::redraw`] forgets what it replaced.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shared::{InstanceId, NodeId};

use crate::{clock, files};

/// The lives noted since one was acknowledged. More than any restart loop within a lease's horizon.
const KEPT: usize = 1_000;
/// Far above [`KEPT`] ids.
const LIMIT: u64 = 1 << 20;

/// Why an identity could not be noted.
#[derive(Debug, thiserror::Error)]
#[error("cannot note the identity of node {node} in {}: {source}; enode must be able to write its state_dir", path.display())]
pub struct IdentityError {
    node: NodeId,
    path: PathBuf,
    source: std::io::Error,
}

impl From<IdentityError> for std::io::Error {
    fn from(error: IdentityError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    /// The life that the mediator acknowledged last.
    acknowledged: Option<InstanceId>,
    /// Every life since, oldest first.
    started: Vec<InstanceId>,
}

/// The identity of one node in this process.
#[derive(Debug)]
pub struct Identity {
    /// This life.
    pub instance: InstanceId,
    /// The lives that this one replaces: the last acknowledged one and every one started since.
    pub replaces: Vec<InstanceId>,
    node: NodeId,
    path: PathBuf,
    noted: Noted,
}

impl Identity {
    /// Whether a node has lived in this state folder.
    #[must_use]
    pub fn is_in(state_dir: &Path) -> bool {
        std::fs::read_dir(state_dir.join("identity")).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Draws a new instance and notes it. A file that cannot be understood is put aside: the node then starts
    /// like a new one and waits until the advert of its earlier life has expired.
    ///
    /// # Errors
    /// When it cannot be noted; an id that is not on disk must not be used.
    pub fn load(state_dir: &Path, node: &NodeId) -> Result<Self, IdentityError> {
        let folder = state_dir.join("identity");
        // `@` cannot be part of a name, so no two nodes share a file.
        let path = folder.join(format!("{}.json", node.as_str().replace('/', "@")));
        let failed = |source| IdentityError { node: node.clone(), path: path.clone(), source };
        files::make_private_dir(&folder).map_err(failed)?;
        let noted = match read(&path) {
            Ok(noted) => noted,
            Err(why) => {
                let aside = path.with_extension("json.broken");
                tracing::warn!(
                    %node, file = %path.display(), %why,
                    "the identity file cannot be used; the node starts without naming its earlier lives and may be \
                     refused as superseded until their last advert expires"
                );
                // What stands there may be a folder; renaming moves that out of the way as well.
                if let Err(error) = std::fs::rename(&path, &aside) {
                    tracing::warn!(%node, %error, "it could not be put aside either");
                }
                Noted::default()
            }
        };
        let replaces = noted.acknowledged.iter().chain(&noted.started).cloned().collect();
        let mut identity =
            Self { node: node.clone(), path: path.clone(), instance: clock::fresh_instance(), replaces, noted };
        identity.note_instance()?;
        Ok(identity)
    }

    /// The mediator accepted this life: only it needs to be named by the next one. Cheap when it is known already.
    ///
    /// # Errors
    /// When it cannot be noted. Nothing is lost: the next life then names more than it must.
    pub fn acknowledged(&mut self) -> Result<(), IdentityError> {
        let now = Noted { acknowledged: Some(self.instance.clone()), started: Vec::new() };
        if self.noted != now {
            self.noted = now;
            self.write()?;
        }
        Ok(())
    }

    /// Another process speaks for this node: become a new life that replaces nobody, now and after a restart.
    ///
    /// # Errors
    /// When it cannot be noted; the new id must not be used then.
    pub fn redraw(&mut self) -> Result<(), IdentityError> {
        self.instance = clock::fresh_instance();
        self.replaces.clear();
        self.noted = Noted::default();
        self.note_instance()
    }

    fn note_instance(&mut self) -> Result<(), IdentityError> {
        self.noted.started.push(self.instance.clone());
        let surplus = self.noted.started.len().saturating_sub(KEPT);
        self.noted.started.drain(..surplus);
        self.write()
    }

    fn write(&self) -> Result<(), IdentityError> {
        let failed = |source| IdentityError { node: self.node.clone(), path: self.path.clone(), source };
        let bytes = serde_json::to_vec_pretty(&self.noted).map_err(|error| failed(error.into()))?;
        // A step may have removed the folder.
        self.path.parent().map_or(Ok(()), files::make_private_dir).map_err(failed)?;
        files::write_atomic(&self.path, &bytes, 0o600).map_err(failed)
    }
}

fn read(path: &Path) -> Result<Noted, String> {
    match files::read_regular(path, LIMIT) {
        Ok(None) => Ok(Noted::default()),
        Ok(Some(file)) => serde_json::from_slice(&file.bytes).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeId {
        NodeId::new("yard/3").unwrap()
    }

    #[test]
    fn every_life_since_the_acknowledged_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Identity::load(dir.path(), &node()).unwrap();
        assert!(first.replaces.is_empty());
        first.acknowledged().unwrap();
        let second = Identity::load(dir.path(), &node()).unwrap();
        let third = Identity::load(dir.path(), &node()).unwrap();
        assert_eq!(third.replaces, [first.instance.clone(), second.instance.clone()]);
        assert_ne!(second.instance, third.instance);
    }

    #[test]
    fn a_redrawn_life_replaces_nobody_even_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut loser = Identity::load(dir.path(), &node()).unwrap();
        loser.acknowledged().unwrap();
        let lost = loser.instance.clone();
        loser.redraw().unwrap();
        assert!(loser.replaces.is_empty());
        assert_ne!(loser.instance, lost);
        let next = Identity::load(dir.path(), &node()).unwrap();
        assert!(!next.replaces.contains(&lost));
        assert_eq!(next.replaces, [loser.instance.clone()]);
    }

    #[test]
    fn garbage_is_put_aside_and_the_node_starts_anew() {
        let long = format!("{{\"acknowledged\":null,\"started\":[\"{}\"]}}", "x".repeat(500));
        for garbage in ["", "{", "null", "[]", "{\"acknowledged\":3,\"started\":[]}", "\0\0\0\0", long.as_str()] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("identity/yard@3.json");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, garbage).unwrap();
            let identity = Identity::load(dir.path(), &node()).unwrap();
            assert!(identity.replaces.is_empty(), "{garbage}");
            assert_eq!(std::fs::read_to_string(path.with_extension("json.broken")).unwrap(), garbage);
            assert_eq!(Identity::load(dir.path(), &node()).unwrap().replaces, std::slice::from_ref(&identity.instance));
        }
    }

    #[test]
    fn a_folder_in_its_place_is_put_aside_too() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("identity/yard@3.json/x")).unwrap();
        assert!(Identity::load(dir.path(), &node()).unwrap().replaces.is_empty());
    }

    #[test]
    fn the_file_does_not_grow_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut identity = Identity::load(dir.path(), &node()).unwrap();
        identity.noted.started = (0..5_000).map(|_| clock::fresh_instance()).collect();
        identity.note_instance().unwrap();
        let next = Identity::load(dir.path(), &node()).unwrap();
        assert_eq!(next.replaces.len(), KEPT);
        assert_eq!(next.replaces.last(), Some(&identity.instance));
    }

    #[test]
    fn slots_have_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["yard", "yard/0", "yard/1"] {
            Identity::load(dir.path(), &NodeId::new(name).unwrap()).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path().join("identity")).unwrap().count(), 3);
    }

    #[test]
    fn a_state_dir_that_cannot_be_written_is_an_error_that_says_where() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("identity"), "a file, not a folder").unwrap();
        let said = Identity::load(dir.path(), &node()).unwrap_err().to_string();
        assert!(said.contains("yard/3") && said.contains("state_dir"), "{said}");
    }
}

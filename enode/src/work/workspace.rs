//! The folders of a Run on a node.
//!
//! `STATE/work/NODE/RUN_ID/` holds `lease` (which lease it was made for), `run/` (the working directory of all
//! its steps), and `SEQ-ATTEMPT/` with `in/`, `out/` and `task/`, fresh for every attempt. The
//! lease's mark is not in the working directory, because programs expect to find that empty at first
//! (`git clone … .`) and have no business with it. `STATE/cache/NODE/` outlives Runs. A folder whose mark names
//! another lease is not ours to use: its content belongs to a lease that has ended.
//!
//! What one Run leaves empty is the next one's ([`super::spare`]).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use shared::{NodeId, Nonce, RunId};

use super::{
    spare::{self, LEASE, NEXT, RUN, SPARE},
    tree::remove_tree,
};
use crate::{
    files::read_small,
    policy::quarantine::Against,
    session::core::{LeaseKey, StepKey},
    spool::{folder_name, make_private},
};

/// The folder in `state_dir` in which Runs work. It may be a file system of its own.
pub const WORK: &str = "work";

/// All folders of one node.
#[derive(Debug, Clone)]
pub struct Rooms {
    work: PathBuf,
    cache: PathBuf,
    spare: PathBuf,
}

/// How many spare folders that cannot be removed are passed over.
const SPARES: u32 = 100;

/// The folders of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Working directory.
    pub run: PathBuf,
    /// `$IN`
    pub input: PathBuf,
    /// `$OUT`
    pub out: PathBuf,
    /// `$CACHE`
    pub cache: PathBuf,
    /// What a coding agent is told. Made only for one.
    pub task: PathBuf,
}

/// Why there is no folder.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// An earlier step of this lease has worked on this node, and what it left is gone.
    #[error("the Run's folder {} is gone, and this is not its first step here", .0.display())]
    Lost(PathBuf),
    /// The file system.
    #[error("cannot make the Run's folder {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl RoomError {
    pub(super) const fn against(&self) -> Against {
        match self {
            Self::Lost(_) | Self::Io { .. } => Against::Machine,
        }
    }
}

impl Rooms {
    /// The folders of a node.
    ///
    /// # Errors
    /// They could not be made.
    pub fn open(state_dir: &Path, node: &NodeId) -> io::Result<Self> {
        let name = folder_name(node);
        let (work, cache) = (state_dir.join(WORK).join(&name), state_dir.join("cache").join(&name));
        make_private(&work)?;
        make_private(&cache)?;
        let spare = free_name(&work)?;
        Ok(Self { work, cache, spare })
    }

    fn of(&self, run: &RunId) -> PathBuf {
        self.work.join(run.as_str())
    }

    /// Leases of which there is a folder. Folders without a readable mark belong to nobody and are removed.
    ///
    /// # Errors
    /// The folder of the node could not be read.
    pub fn found(&self) -> io::Result<Vec<LeaseKey>> {
        let mut leases = Vec::new();
        for entry in fs::read_dir(&self.work)? {
            let path = entry?.path();
            // One of those that are made here, or that could not be removed.
            if path.file_name().and_then(|it| it.to_str()).is_some_and(|it| it.starts_with(SPARE)) {
                clear(&path);
                continue;
            }
            let run = path.file_name().and_then(|name| name.to_str()).and_then(|name| RunId::new(name).ok());
            match (run, mark(&path)) {
                (Some(run), Some(nonce)) => leases.push((run, nonce)),
                (_, _) => {
                    tracing::warn!(path = %path.display(), "a folder that belongs to no lease is removed");
                    clear(&path);
                }
            }
        }
        Ok(leases)
    }

    /// The folders for one attempt: a fresh Run's folder if it is the lease's first here, else the one that is.
    ///
    /// # Errors
    /// [`RoomError`]
    pub fn enter(&self, key: &StepKey, nonce: Nonce, first: bool) -> Result<Room, RoomError> {
        let home = self.of(&key.run);
        let failed = |source| RoomError::Io { path: home.clone(), source };
        let run = home.join(RUN);
        if first {
            remove_tree(&home).map_err(failed)?;
            // Made beside its place, so that a folder with a mark is a complete one.
            let spare = &self.spare;
            spare::furnish(spare, nonce).and_then(|()| fs::rename(spare, &home)).map_err(failed)?;
        } else if mark(&home) != Some(nonce) || !run.is_dir() {
            return Err(RoomError::Lost(run));
        }
        let attempt = home.join(format!("{}-{}", key.seq, key.attempt));
        remove_tree(&attempt).map_err(failed)?;
        let next = home.join(NEXT);
        spare::furnish_attempt(&next).and_then(|()| fs::rename(&next, &attempt)).map_err(failed)?;
        make_private(&self.cache).map_err(failed)?;
        Ok(Room {
            run,
            input: attempt.join(spare::IN),
            out: attempt.join(spare::OUT),
            cache: self.cache.clone(),
            task: attempt.join("task"),
        })
    }

    /// Removes the folder of a lease. One that another lease of the same Run has made since stays.
    ///
    /// # Errors
    /// As the file system says.
    pub fn remove(&self, lease: &LeaseKey) -> io::Result<()> {
        let home = self.of(&lease.0);
        match mark(&home) {
            Some(nonce) if nonce != lease.1 => Ok(()),
            Some(_) if spare::keep(&home, &self.spare).unwrap_or(false) => Ok(()),
            Some(_) | None => remove_tree(&home),
        }
    }
}

/// The name of the spare folder: another one while what has it cannot be removed.
fn free_name(work: &Path) -> io::Result<PathBuf> {
    let names = (1..SPARES).map(|n| format!("{SPARE}-{n}"));
    let mut last = None;
    for name in std::iter::once(SPARE.to_owned()).chain(names) {
        let path = work.join(name);
        match remove_tree(&path) {
            Ok(()) => return Ok(path),
            Err(e) => last = Some(io::Error::new(e.kind(), format!("cannot remove {}: {e}", path.display()))),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("there is no name for the spare folder")))
}

/// What cannot be removed is a nuisance, and no reason not to work.
fn clear(path: &Path) {
    if let Err(e) = remove_tree(path) {
        tracing::warn!(path = %path.display(), error = %e, "cannot remove what an earlier life left; it stays where it is");
    }
}

fn mark(home: &Path) -> Option<Nonce> {
    Nonce::parse(std::str::from_utf8(&read_small(&home.join(LEASE)).ok()?).ok()?)
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;

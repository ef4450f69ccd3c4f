//! Process groups: who is in one, when it is gone, and which ones an earlier life of the agent left behind.
//!
//! A group's number may belong to somebody else as soon as the group is gone. So while an agent lives it
//! signals a group only before its leader is reaped; and after a restart only a group that is proven to be
//! ours: by the start time of its leader within this boot, or by the environment of a member.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};
use shared::{Duration, NodeId, RunId};

use crate::{
    clock, files,
    spool::{folder_name, make_private},
};

/// One process, as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    state: char,
    parent: i32,
    pub(super) group: i32,
    started: u64,
}

impl Stat {
    /// Dead ones that nobody has waited for do not.
    pub(super) const fn executes(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Reads `/proc/PID/stat`. The program's name in it may hold anything, so that fields count from its end.
pub(super) fn stat(pid: &str) -> Option<Stat> {
    let text = read_proc(&Path::new("/proc").join(pid).join("stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&text))
}

/// Reads a file of `/proc`, and does not ask for its size first, as reading a file as such does: these have none.
pub(super) fn read_proc(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(4096);
    File::open(path)?.take(u64::MAX).read_to_end(&mut text)?;
    Ok(text)
}

fn parse_stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Processes of this machine for which this holds.
fn processes(holds: impl Fn(&Stat) -> bool) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) else { continue };
        if stat(pid).is_some_and(|stat| holds(&stat)) {
            found.push(pid.to_owned());
        }
    }
    Ok(found)
}

/// Processes of the group that still execute.
fn members(group: Pid) -> io::Result<Vec<String>> {
    processes(|stat| stat.group == group.as_raw_pid() && stat.executes())
}

/// Children of a process, dead ones included.
pub(super) fn children_of(parent: Pid) -> Vec<i32> {
    let found = processes(|stat| stat.parent == parent.as_raw_pid()).unwrap_or_default();
    found.iter().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether a process of the group still executes.
#[must_use]
pub fn is_alive(group: Pid) -> bool {
    match test_kill_process_group(group) {
        // The usual case, without a look at every process of the machine.
        Err(rustix::io::Errno::SRCH) => false,
        // Without /proc a group that answers is taken to be alive.
        Ok(()) | Err(_) => members(group).map_or(true, |members| !members.is_empty()),
    }
}

/// Waits until no process of the group executes. False: one still does after this long.
pub async fn gone(group: Pid, within: Duration) -> bool {
    let end = clock::boot_time().plus(within);
    let mut pause = std::time::Duration::from_millis(1);
    while is_alive(group) {
        if clock::boot_time() >= end {
            return false;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(std::time::Duration::from_millis(50));
    }
    true
}

/// What is noted on disk of a group that runs or is about to. Without a group it is known by the environment, and
/// so is what left the group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    group: i32,
    /// Start time of its leader, in ticks since boot.
    started: u64,
    boot: String,
    run_id: RunId,
    /// `$OUT` of its processes: no other agent gives out the same. An older agent noted it before the start only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<PathBuf>,
}

/// Where the running group of one node is noted: the first line of a file that stays open, because a note is
/// written for every step. One line is one write, and so there completely or not at all.
#[derive(Debug, Clone)]
pub struct Notes {
    path: PathBuf,
    open: Arc<Mutex<Open>>,
}

/// The file, and whether a note may stand in it.
#[derive(Debug)]
struct Open {
    file: File,
    noted: bool,
}

impl Open {
    fn note(&mut self, group: i32, started: u64, run: &RunId, out: &Path) -> io::Result<()> {
        let (boot, run_id, out) = (boot_id().to_owned(), run.clone(), Some(out.to_owned()));
        let mut line = serde_json::to_vec(&Note { group, started, boot, run_id, out })?;
        line.push(b'\n');
        // Not synced: what outlives the machine's power names another boot.
        self.noted = true;
        self.file.write_all_at(&line, 0)
    }
}

impl Notes {
    /// The note of a node.
    ///
    /// # Errors
    /// The folder could not be made.
    pub fn open(state_dir: &Path, node: &NodeId) -> io::Result<Self> {
        let path = state_dir.join("groups").join(format!("{}.json", folder_name(node)));
        let open = Open { file: open_note(&path)?, noted: true };
        Ok(Self { path, open: Arc::new(Mutex::new(open)) })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a group with this `$OUT` is about to start.
    ///
    /// # Errors
    /// As the file system says.
    pub fn intend(&self, run: &RunId, out: &Path) -> io::Result<()> {
        let identity = |it: fs::Metadata| (it.dev(), it.ino());
        let mut open = self.lock();
        // An earlier step may have removed the file that is open.
        if fs::symlink_metadata(&self.path).map(identity).ok() != open.file.metadata().map(identity).ok() {
            open.file = open_note(&self.path)?;
        }
        open.note(0, 0, run, out)
    }

    /// Notes that the group has started.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, group: Pid, run: &RunId, out: &Path) -> io::Result<()> {
        let group = group.as_raw_pid();
        self.lock().note(group, stat(&group.to_string()).map_or(0, |stat| stat.started), run, out)
    }

    /// The group is gone. Costs nothing where none is noted.
    pub fn clear(&self) {
        let mut open = self.lock();
        if !open.noted {
            return;
        }
        match open.file.write_all_at(b"\n", 0) {
            Ok(()) => open.noted = false,
            Err(e) => {
                tracing::warn!(path = %self.path.display(), error = %e, "cannot remove the note of a process group");
            }
        }
    }

    fn read(&self) -> Option<Note> {
        let text = files::read_small(&self.path).ok()?;
        serde_json::from_slice(text.split(|byte| *byte == b'\n').next()?).ok()
    }

    /// Kills what an earlier life left running. True: nothing of it executes any more.
    pub async fn sweep(&self, within: Duration) -> bool {
        let Some(note) = self.read() else {
            // Unreadable is as good as none: there is nothing in it that could be proven.
            self.clear();
            return true;
        };
        for group in note.groups() {
            let number = group.as_raw_pid();
            tracing::warn!(group = number, run_id = %note.run_id, "killing a process group that the agent's earlier life left");
            if let Err(e) = kill_process_group(group, Signal::KILL) {
                tracing::warn!(group = number, error = %e, "cannot kill it");
            }
            if !gone(group, within).await {
                return false;
            }
        }
        self.clear();
        true
    }
}

fn open_note(path: &Path) -> io::Result<File> {
    make_private(path.parent().unwrap_or(path))?;
    File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

impl Note {
    /// The groups that are proven to be ours.
    fn groups(&self) -> Vec<Pid> {
        if self.boot != boot_id() {
            return Vec::new();
        }
        // Also what left the group, as long as it has its environment.
        let mut groups = self.out.as_deref().map(started_with).unwrap_or_default();
        groups.extend(Pid::from_raw(self.group).filter(|group| self.is_ours(*group) && !groups.contains(group)));
        groups
    }

    fn is_ours(&self, group: Pid) -> bool {
        if !is_alive(group) {
            return false;
        }
        match stat(&self.group.to_string()) {
            Some(leader) => leader.started == self.started,
            // The leader is gone, and its number stays taken while the group lives.
            None => members(group).unwrap_or_default().iter().any(|pid| runs_for(pid, &self.run_id)),
        }
    }
}

fn runs_for(pid: &str, run: &RunId) -> bool {
    has_environment(pid, format!("RUN_ID={run}").as_bytes())
}

fn has_environment(pid: &str, wanted: &[u8]) -> bool {
    read_proc(&Path::new("/proc").join(pid).join("environ"))
        .is_ok_and(|environ| environ.split(|b| *b == 0).any(|it| it == wanted))
}

/// Whether a process has this `$OUT`.
pub(super) fn has_out(pid: &str, out: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    has_environment(pid, &[b"OUT=", out.as_os_str().as_bytes()].concat())
}

/// Groups of processes that have this `$OUT`.
fn started_with(out: &Path) -> Vec<Pid> {
    let mut found = std::collections::BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) else { continue };
        if has_out(pid, out) {
            found.extend(stat(pid).map(|stat| stat.group));
        }
    }
    // An agent that was itself started by such a program does not end itself.
    let own = rustix::process::getpgrp();
    found.into_iter().filter_map(Pid::from_raw).filter(|group| *group != own).collect()
}

/// Which boot of this machine it is.
fn boot_id() -> &'static str {
    static BOOT: LazyLock<String> = LazyLock::new(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
    });
    &BOOT
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;

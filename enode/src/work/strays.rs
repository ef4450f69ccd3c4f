//! Processes that left their step's group: daemons, `setsid`, children of children.
//!
//! The agent adopts them (`PR_SET_CHILD_SUBREAPER`): a process whose parent ends becomes a child of the agent,
//! whatever group, session or environment it has made for itself. So when the leader of a step has ended, what is
//! left of the step is a child of the agent or stands below one, and killing children until there are none reaches
//! all of it. A cgroup per step would say the same, at the price of moving each program into it: the kernel stops
//! every fork of the machine for about ten milliseconds then (`docs/adr/`).
//!
//! Whose a stray is, its environment says (`$OUT` is given out once). One that has wiped it belongs to the only
//! step under way; while there are several it counts as alive on all nodes, and goes with the last of them.
//!
//! While a program is started nobody looks for strays, so that nobody takes the new child for one. A look that sees no
//! child but those that steps were started as needs not wait for that, and is the usual one.
//!
//! Lock order: `STARTS`, `UNDER_WAY`, `STARTERS`, all after everybody else's, and none is held across an await.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, waitpid};
use shared::Duration;

use super::group::{self, Stat};
use crate::clock;

static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Shared by those who start programs, until it is noted what they were started as.
static STARTS: RwLock<()> = RwLock::new(());
/// Steps whose processes may exist. One process is one agent, so this is the agent's.
static UNDER_WAY: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// Threads that have started a program. The kernel lists a child with the thread that started it, and an orphan with
/// the oldest thread there is, which is the first one of this process.
static STARTERS: LazyLock<Mutex<HashSet<Pid>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct Entry {
    out: PathBuf,
    /// The child that the step was started as, until it is reaped: it is waited for elsewhere.
    leader: Option<Pid>,
    /// How many were killed.
    killed: u64,
}

impl Entry {
    fn is_of(&self, out: &Path) -> bool {
        // The same bytes, without taking both paths apart.
        self.out.as_os_str() == out.as_os_str()
    }
}

/// Makes this process the parent of what its children leave behind. For a process that has no other children than
/// its steps.
///
/// # Errors
/// As the kernel says.
pub fn adopt() -> io::Result<()> {
    set_child_subreaper(Some(rustix::process::getpid()))?;
    ADOPTS.store(true, Ordering::Relaxed);
    Ok(())
}

/// The strays of one step, from before its start until nothing of it is left.
#[derive(Debug)]
pub struct Strays {
    out: PathBuf,
}

impl Strays {
    /// Of the step with this `$OUT`.
    #[must_use]
    pub fn of(out: &Path) -> Self {
        lock().push(Entry { out: out.to_owned(), leader: None, killed: 0 });
        Self { out: out.to_owned() }
    }

    /// Starts the step's program. Nobody looks for strays meanwhile.
    ///
    /// # Errors
    /// As `start` says.
    pub fn start<T, E>(&self, start: impl FnOnce() -> Result<(T, Pid), E>) -> Result<T, E> {
        let _nobody_looks = STARTS.read().unwrap_or_else(PoisonError::into_inner);
        starters().insert(rustix::thread::gettid());
        let (started, leader) = start()?;
        self.leads(Some(leader));
        Ok(started)
    }

    fn leads(&self, leader: Option<Pid>) {
        if let Some(entry) = lock().iter_mut().find(|entry| entry.is_of(&self.out)) {
            entry.leader = leader;
        }
    }

    /// The program was waited for: its number may belong to a stray from now on.
    pub fn reaped(&self) {
        self.leads(None);
    }

    /// Kills those that can be seen now.
    pub fn look(&self) {
        let _again = kill(&self.out);
    }

    /// Kills them until there are none. False: there still is one after this long.
    pub async fn gone(&self, within: Duration) -> bool {
        let end = clock::boot_time().plus(within);
        let mut pause = std::time::Duration::from_millis(1);
        while kill(&self.out) {
            if clock::boot_time() >= end {
                return false;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(std::time::Duration::from_millis(50));
        }
        true
    }
}

impl Drop for Strays {
    fn drop(&mut self) {
        let mut entries = lock();
        let mut killed: u64 = entries.iter().filter(|it| it.is_of(&self.out)).map(|it| it.killed).sum();
        entries.retain(|entry| !entry.is_of(&self.out));
        let was_last = entries.is_empty();
        drop(entries);
        if was_last && any() {
            let _nobody_starts = nobody_starts();
            let entries = lock();
            if entries.is_empty() {
                // Of two that ended in the same moment neither could say whose these were.
                killed += kill_all(&entries, |_| true).1;
            }
        }
        // One line, however many: a step that forks without end must not flood the owner's log.
        if killed > 0 {
            tracing::warn!(killed, out = %self.out.display(), "killed what had left its step's process group");
        }
    }
}

/// Kills the strays of a step, as far as they can be seen now. True: look again.
#[must_use]
pub fn kill(out: &Path) -> bool {
    if !any() {
        return false;
    }
    let _nobody_starts = nobody_starts();
    kill_of(&mut lock(), out)
}

/// The same for one who must not wait: nothing is done while a program is being started.
pub fn kill_if_free(out: &Path) {
    let _nobody_starts = match STARTS.try_write() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    kill_of(&mut lock(), out);
}

/// Whether there are strays of which nobody can say whose they are.
#[must_use]
pub fn unclaimed() -> bool {
    if !any() {
        return false;
    }
    let _nobody_starts = nobody_starts();
    let entries = lock();
    strays(&entries).iter().any(|(pid, stat)| {
        stat.executes() && !entries.iter().any(|entry| group::has_out(&pid.as_raw_pid().to_string(), &entry.out))
    })
}

/// Whether there is any child that no step is known to have been started as. It may be one that is being started.
fn any() -> bool {
    !strays(&lock()).is_empty()
}

fn nobody_starts() -> RwLockWriteGuard<'static, ()> {
    STARTS.write().unwrap_or_else(PoisonError::into_inner)
}

fn lock() -> MutexGuard<'static, Vec<Entry>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of one step: all of them where it is the only one, else those with its environment.
fn kill_of(entries: &mut [Entry], out: &Path) -> bool {
    let only = entries.iter().all(|entry| entry.is_of(out));
    let (again, killed) = kill_all(entries, |pid| only || group::has_out(pid, out));
    if let Some(entry) = entries.iter_mut().find(|entry| entry.is_of(out)) {
        entry.killed += killed;
    }
    again
}

/// Whether to look again, and how many were killed.
fn kill_all(entries: &[Entry], is_ours: impl Fn(&str) -> bool) -> (bool, u64) {
    let (mut again, mut killed_now) = (false, 0);
    for (pid, stat) in strays(entries) {
        if !stat.executes() {
            // Ours to wait for. That another one ended at the same moment is why one look is not enough.
            again |= waitpid(Some(pid), WaitOptions::NOHANG).is_ok_and(|it| it.is_some());
            continue;
        }
        if !is_ours(&pid.as_raw_pid().to_string()) {
            continue;
        }
        again = true;
        // With its whole group where it leads one: fewer looks, and less time to fork.
        let killed = if stat.group == pid.as_raw_pid() {
            kill_process_group(pid, Signal::KILL)
        } else {
            kill_process(pid, Signal::KILL)
        };
        match killed {
            Ok(()) => {
                killed_now += 1;
                tracing::debug!(pid = pid.as_raw_pid(), "killed a process that had left its step's group");
            }
            Err(rustix::io::Errno::SRCH) => {}
            Err(e) => tracing::warn!(pid = pid.as_raw_pid(), error = %e, "cannot kill what left its step's group"),
        }
    }
    (again, killed_now)
}

/// Children of this process that no step was started as.
fn strays(entries: &[Entry]) -> Vec<(Pid, Stat)> {
    if !ADOPTS.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let known = |pid: &Pid| entries.iter().any(|entry| entry.leader == Some(*pid));
    let children = children().into_iter().filter_map(Pid::from_raw).filter(|pid| !known(pid));
    children.filter_map(|pid| Some((pid, group::stat(&pid.as_raw_pid().to_string())?))).collect()
}

fn starters() -> MutexGuard<'static, HashSet<Pid>> {
    STARTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every child of this process.
fn children() -> Vec<i32> {
    let (first, mut found) = (rustix::process::getpid(), Vec::new());
    // The first thread last: a thread that ends meanwhile leaves its children to it.
    starters().retain(|thread| *thread == first || children_of_thread(*thread).map(|it| found.extend(it)).is_ok());
    match children_of_thread(first) {
        Ok(children) => found.extend(children),
        // A kernel without such a file: the long way.
        Err(_) => return group::children_of(first),
    }
    found
}

fn children_of_thread(thread: Pid) -> io::Result<Vec<i32>> {
    let path = format!("/proc/self/task/{}/children", thread.as_raw_pid());
    let pids = group::read_proc(Path::new(&path))?;
    Ok(String::from_utf8_lossy(&pids).split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_that_is_being_started_is_nobodys_stray() {
        adopt().unwrap();
        let out = Path::new("/nowhere/out");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Of the only step under way, so that every child that is not known to be its program is killed.
                while kill(out) || !over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            });
            let ends: Vec<_> = (0..300)
                .map(|_| {
                    let strays = Strays::of(out);
                    let start = || {
                        let child = Command::new("/bin/true").spawn()?;
                        let leader = Pid::from_child(&child);
                        Ok::<_, io::Error>((child, leader))
                    };
                    let ended = strays.start(start).and_then(|mut child| child.wait());
                    strays.reaped();
                    ended.map(|status| status.code()).map_err(|e| e.kind())
                })
                .collect();
            over.store(true, Ordering::Relaxed);
            assert!(ends.iter().all(|end| *end == Ok(Some(0))), "{ends:?}");
        });
    }
}

//! The file, watched and read by a thread of its own.
//!
//! The thread looks when it is asked to (before an advert), when the folder reports a change, and once a second
//! in any case: so a folder that cannot be watched, a link into another folder, a silence that has lasted and a
//! full disk are all noticed within a second. Its looks are published; [`PolicyFile::changed`] compares.
//!

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use shared::domain::{Drain, Policy};
use tokio::sync::watch;

use super::{Reasons, Standing, disk, file, file::Seen, judge::Judge, memory};
use crate::{clock, config::Config, watch::changes, work::workspace::WORK};

/// Longest time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a reader waits for the file system before it assumes the worst.
const PATIENCE: Duration = Duration::from_secs(2);
/// Changes that come together are told together.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The owner's policy file, followed. Cheap to clone; the last clone stops the thread.
#[derive(Debug)]
pub struct PolicyFile {
    handle: Arc<Handle>,
    /// The version this clone has told its user of.
    told: AtomicU64,
}

impl Clone for PolicyFile {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), told: AtomicU64::new(self.told.load(Ordering::Relaxed)) }
    }
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// Kept alive; dropped with the handle.
    _watcher: Option<notify::RecommendedWatcher>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.gate().closed = true;
        self.shared.bell.notify_all();
    }
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    state_dir: PathBuf,
    /// Where Runs work.
    work_dir: PathBuf,
    min_free: Option<u64>,
    gate: Mutex<Gate>,
    bell: Condvar,
    /// The newest request that was answered, for readers that must not block.
    answered: watch::Sender<u64>,
    published: watch::Sender<Published>,
}

/// Looks are numbered: one that began before it was asked for does not answer.
#[derive(Debug, Default)]
struct Gate {
    wanted: u64,
    done: u64,
    closed: bool,
}

#[derive(Debug, Default)]
struct Published {
    /// Rises when what stands differs from the one before.
    version: u64,
    standing: Standing,
}

impl PolicyFile {
    /// Starts following the file. A folder that cannot be watched is polled.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(config: &Config) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            path: config.policy_file.clone(),
            state_dir: config.state_dir.clone(),
            work_dir: config.state_dir.join(WORK),
            min_free: config.min_free,
            gate: Mutex::default(),
            bell: Condvar::new(),
            answered: watch::Sender::new(0),
            published: watch::Sender::new(Published::default()),
        });
        let looker = Arc::clone(&shared);
        std::thread::Builder::new().name("policy".to_owned()).spawn(move || looker.run())?;
        let watcher = watch_folder(&shared)
            .inspect_err(|error| {
                tracing::info!(file = %shared.path.display(), %error, "the policy file's folder cannot be watched; looking every second");
            })
            .ok();
        let this = Self { handle: Arc::new(Handle { shared, _watcher: watcher }), told: AtomicU64::new(0) };
        // The first look is no change.
        this.read();
        this.told.store(this.handle.shared.published.borrow().version, Ordering::Relaxed);
        Ok(this)
    }

    /// Reads the file now. Waits for at most two seconds, and other tasks of the thread go on meanwhile: when the
    /// file system does not answer, the answer is the stronger of `graceful` and the last one.
    pub async fn look(&self) -> Standing {
        let shared = &self.handle.shared;
        let mut answered = shared.answered.subscribe();
        let mine = shared.ring();
        let looked = tokio::time::timeout(PATIENCE, answered.wait_for(|answered| *answered >= mine)).await;
        self.standing_after(matches!(looked, Ok(Ok(_))))
    }

    /// The same for callers that may block; all of it together.
    pub fn read(&self) -> Policy {
        self.standing_after(self.handle.shared.look_now()).policy()
    }

    /// The `quarantine_cleared` of the last look.
    #[must_use]
    pub fn quarantine_cleared(&self) -> Option<String> {
        self.handle.shared.published.borrow().standing.quarantine_cleared.clone()
    }

    fn standing_after(&self, looked: bool) -> Standing {
        let shared = &self.handle.shared;
        let mut standing = shared.published.borrow().standing.clone();
        if looked {
            return standing;
        }
        let policy = &mut standing.owner;
        if policy.drain == Drain::None {
            policy.since = Some(clock::now());
            policy.reason = "the policy file cannot be read".to_owned();
        }
        policy.drain = policy.drain.max(Drain::Graceful);
        policy.error = format!(
            "{}: the file system did not answer within {} s; nothing is lent until it does",
            shared.path.display(),
            PATIENCE.as_secs()
        );
        standing
    }

    /// Resolves when what stands differs from the last time this clone was told (or was made). May be dropped at
    /// any time without losing a change.
    pub async fn changed(&self) {
        let mut looks = self.handle.shared.published.subscribe();
        let told = self.told.load(Ordering::Relaxed);
        // The sender lives in the handle, so this cannot fail while we wait.
        if looks.wait_for(|published| published.version != told).await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(DEBOUNCE).await;
        self.told.store(looks.borrow().version, Ordering::Relaxed);
    }
}

impl Shared {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a look without waiting. Returns the number of the request.
    fn ring(&self) -> u64 {
        let mut gate = self.gate();
        gate.wanted += 1;
        self.bell.notify_all();
        gate.wanted
    }

    /// Waits for a look that begins after this call. False: it did not come in time.
    fn look_now(&self) -> bool {
        let mut gate = self.gate();
        gate.wanted += 1;
        let mine = gate.wanted;
        self.bell.notify_all();
        let waited = self.bell.wait_timeout_while(gate, PATIENCE, |gate| gate.done < mine);
        let (gate, _) = waited.unwrap_or_else(PoisonError::into_inner);
        gate.done >= mine
    }

    fn run(&self) {
        let mut judge = Judge::new(memory::load(&self.state_dir));
        let mut saved = judge.memory().clone();
        let mut reasons = Reasons::default();
        let (mut save_error, mut quarantine_cleared) = (None, None);
        loop {
            let gate = self.gate();
            let idle = |gate: &mut Gate| gate.wanted == gate.done && !gate.closed;
            let waited = self.bell.wait_timeout_while(gate, PERIOD, idle);
            let (gate, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if gate.closed {
                return;
            }
            let ticket = gate.wanted;
            drop(gate);

            let seen = file::look(&self.path);
            if let Seen::Written(written) = &seen
                && written.quarantine_cleared.is_some()
            {
                quarantine_cleared.clone_from(&written.quarantine_cleared);
            }
            let mut owner = judge.judge(seen, clock::now(), clock::boot_time());
            if saved != *judge.memory() || save_error.is_some() {
                save_error = memory::save(&self.state_dir, judge.memory()).err();
                saved = judge.memory().clone();
            }
            disk::check(&mut reasons, &self.work_dir, self.min_free, clock::now());
            if let Some(error) = &save_error {
                let note = format!("the last good policy cannot be kept in {}: {error}", self.state_dir.display());
                owner.error = if owner.error.is_empty() { note } else { format!("{}; {note}", owner.error) };
            }
            let quarantine_cleared = quarantine_cleared.clone();
            self.publish(Standing { owner, reasons: reasons.clone(), quarantine_cleared });
            self.gate().done = ticket;
            self.bell.notify_all();
            self.answered.send_replace(ticket);
        }
    }

    fn publish(&self, standing: Standing) {
        self.published.send_if_modified(|published| {
            if published.standing == standing {
                return false;
            }
            // A warning once a cause, not once a look.
            let (before, policy) = (&published.standing.owner, &standing.owner);
            if before.error != policy.error && !policy.error.is_empty() {
                tracing::warn!(error = %policy.error, drain = %policy.drain, "policy file");
            }
            published.version += 1;
            published.standing = standing;
            true
        });
    }
}

fn watch_folder(shared: &Arc<Shared>) -> notify::Result<notify::RecommendedWatcher> {
    let folder = shared.path.parent().unwrap_or(Path::new(".")).to_owned();
    let name = shared.path.file_name().map(ToOwned::to_owned);
    // Weak in effect: the watcher is dropped with the handle, and the thread ends by `closed`.
    let ringer = Arc::clone(shared);
    changes(&folder, move |changed| {
        // None: events were lost.
        if changed.is_none_or(|changed| Some(changed) == name.as_deref()) {
            let _request = ringer.ring();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_that_is_not_answered_holds_up_nothing_else_and_lends_nothing() {
        let state = tempfile::tempdir().unwrap();
        let config = Config::with_defaults("yard", state.path());
        let policy = PolicyFile::start(&config).unwrap();
        assert_eq!(policy.look().await.policy().drain, Drain::None);
        // As with a file system that hangs: nobody looks any more.
        policy.handle.shared.gate().closed = true;
        policy.handle.shared.bell.notify_all();
        tokio::select! {
            biased;
            policy = policy.look() => panic!("it held up everything else: {policy:?}"),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
        let held = policy.look().await.policy();
        assert_eq!(held.drain, Drain::Graceful);
        assert!(held.error.contains("did not answer"), "{held:?}");
    }
}

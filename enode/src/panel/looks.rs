//! Looks at the owner's policy file for the pages and for the door: on threads that may wait, few at once, and not for
//! long. A file system that hangs holds up a page for a moment, and no other page at all.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Semaphore;

use crate::policy::file::{self, Seen};

/// A page must not wait for a file system that hangs.
const PATIENCE: Duration = Duration::from_millis(500);
/// So many threads may hang there.
const MOST: usize = 4;

/// One file and who looks at it.
#[derive(Debug)]
pub(super) struct Looks {
    path: PathBuf,
    free: Arc<Semaphore>,
    read: fn(&Path) -> Seen,
}

impl Looks {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, free: Arc::new(Semaphore::new(MOST)), read: file::look }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file as it is now, never as it was before: a token that was changed must shut at once.
    pub(super) async fn look(&self) -> Seen {
        let (free, read, path) = (self.free.clone(), self.read, self.path.clone());
        let looking = async move {
            let place = free.acquire_owned().await.ok()?;
            // The thread has the place for as long as it hangs, whoever waits for it.
            let looked = tokio::task::spawn_blocking(move || {
                let _place = place;
                read(&path)
            });
            looked.await.ok()
        };
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(Some(seen)) => seen,
            Ok(None) | Err(_) => Seen::Broken(format!("{} cannot be read in time", self.path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    /// A file system that does not answer until it is let.
    fn hang(_: &Path) -> Seen {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        let _open = GATE.1.wait_while(GATE.0.lock().unwrap(), |open| !*open).unwrap();
        Seen::Missing
    }

    #[test]
    fn a_file_system_that_hangs_is_not_waited_for_and_holds_few_threads() {
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let looks = Looks { read: hang, ..Looks::new(PathBuf::from("x.policy.toml")) };
                let all = (0..4 * MOST).map(|_| looks.look());
                let all = futures::future::join_all(all).await;
                assert!(all.iter().all(|it| matches!(it, Seen::Broken(why) if why.contains("in time"))), "{all:?}");
                tell.send(BEGUN.load(Ordering::SeqCst)).unwrap();
            });
        });
        let begun = told.recv_timeout(Duration::from_secs(20));
        *GATE.0.lock().unwrap() = true;
        GATE.1.notify_all();
        thread.join().unwrap();
        assert_eq!(begun, Ok(MOST));
    }
}

//! Fail points: places at which a worker kills itself, so that a test can see what is left; and a kernel that refuses
//! hard links.
//!
//! `TICKET_FAIL_AT=claim.linked:2` kills it the second time that it comes there. Only builds with debug assertions know
//! the variables.

/// Dies here, if that is what was asked for.
#[cfg(debug_assertions)]
pub(super) fn at(word: &str, moment: &str) {
    #[cfg(test)]
    meanwhile::reached(word, moment);
    use std::sync::{LazyLock, atomic};
    static ARMED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let text = std::env::var("TICKET_FAIL_AT").ok()?;
        Some(match text.split_once(':') {
            Some((point, nth)) => (point.to_owned(), nth.parse().unwrap_or(1)),
            None => (text, 1),
        })
    });
    static TIMES: atomic::AtomicU64 = atomic::AtomicU64::new(0);
    let Some((point, nth)) = &*ARMED else { return };
    if point.split_once('.') != Some((word, moment)) || TIMES.fetch_add(1, atomic::Ordering::SeqCst) + 1 < *nth {
        return;
    }
    // No handler runs, nothing is flushed: as by the kernel's hand.
    let _unreturned = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(super) const fn at(_: &str, _: &str) {}

/// How long a ticket may say nothing of who has it: as long as ever, or what a test has no time to wait for.
pub(super) fn grace(normal: shared::Duration) -> shared::Duration {
    let asked = if cfg!(debug_assertions) { std::env::var("TICKET_GRACE").ok() } else { None };
    asked.and_then(|text| text.parse().ok()).unwrap_or(normal)
}

/// Whether this process is to live on a file system without hard links.
pub(super) fn refuses_links() -> bool {
    cfg!(debug_assertions) && std::env::var_os("TICKET_REFUSE_LINKS").is_some()
}

/// What somebody else does while a thread of a test is at a point.
#[cfg(test)]
pub(super) mod meanwhile {
    use std::cell::RefCell;

    pub(in super::super) type Happens = Box<dyn Fn()>;

    thread_local! {
        static AT: RefCell<Vec<(&'static str, Happens)>> = const { RefCell::new(Vec::new()) };
    }

    /// From now on, at these points of this thread, and at no others.
    pub(in super::super) fn at(points: Vec<(&'static str, Happens)>) {
        AT.with_borrow_mut(|at| *at = points);
    }

    pub(super) fn reached(word: &str, moment: &str) {
        AT.with_borrow(|at| {
            for (_, happens) in at.iter().filter(|(at, _)| at.split_once('.') == Some((word, moment))) {
                happens();
            }
        });
    }
}

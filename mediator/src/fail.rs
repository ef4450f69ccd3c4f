//! Fail points: places at which the mediator kills itself, so that a test can see what is left.
//!
//! `MEDIATOR_FAIL_AT=report.before_commit:2` kills it the second time that it is about to commit a report. Only
//! builds with debug assertions know the variable; to a release it is a key that is not there, and it says so.
//!
//! Points are `WORD.before_commit` and `WORD.after_commit`, the latter before anybody is answered or told. The
//! words of the fleet's transactions are read off what a group is about to write, so that a promotion that comes
//! with a report is found in that report's commit. `files` are those of a step that are noted together. `seal` has its two around the mark in the store, and one
//! after each stage of its file work: `seal.claimed`, `seal.logs`, …
//!
//! Must not know: why anybody would want it to die there.

use shared::domain::Changes;

/// The variable, where it means something.
pub(crate) const VARIABLE: Option<&str> = if cfg!(debug_assertions) { Some("MEDIATOR_FAIL_AT") } else { None };

/// Which side of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Everything is written, nothing lasts.
    Before,
    /// It lasts, and nobody has been told.
    After,
}

/// A group of commands is committed.
#[cfg(debug_assertions)]
pub(crate) fn group(side: Side, changes: &Changes) {
    for word in words(changes) {
        commit(side, word);
    }
}

/// Something is committed.
#[cfg(debug_assertions)]
pub(crate) fn commit(side: Side, word: &str) {
    match side {
        Side::Before => at(word, "before_commit"),
        Side::After => at(word, "after_commit"),
    }
}

/// Dies here, if that is what was asked for.
#[cfg(debug_assertions)]
pub(crate) fn at(word: &str, moment: &str) {
    use std::sync::{LazyLock, atomic};
    static ARMED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let text = std::env::var(VARIABLE?).ok()?;
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

/// What a group does, in the protocol's words.
#[cfg(debug_assertions)]
fn words(changes: &Changes) -> impl Iterator<Item = &'static str> {
    use shared::domain::EventKind;
    let any = |kind| changes.events.iter().any(|event| event.kind == kind);
    // A Run that is placed as it comes in belongs to its submit.
    let is_old = |run: &Option<shared::RunId>| run.as_ref().is_none_or(|run| !changes.new_runs.contains(run));
    let promoted = changes.events.iter().any(|it| it.kind == EventKind::RunPromoted && is_old(&it.run));
    [
        ("submit", !changes.new_runs.is_empty()),
        ("promote", promoted),
        ("claim", any(EventKind::StepClaimed)),
        ("report", any(EventKind::StepEnded)),
        ("settle", !changes.sealed.is_empty()),
    ]
    .into_iter()
    .filter_map(|(word, is)| is.then_some(word))
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(crate) const fn group(_: Side, _: &Changes) {}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(crate) const fn commit(_: Side, _: &str) {}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(crate) const fn at(_: &str, _: &str) {}

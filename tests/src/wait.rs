//! Waiting for a predicate.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Longer than anything takes on a slow machine; a test that waits this long has failed.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits until `look` finds something.
///
/// # Panics
/// When it has not within [`LIMIT`].
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "waited {LIMIT:?} in vain until {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Waits until `holds` does.
///
/// # Panics
/// When it does not within [`LIMIT`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

//! The one place that reads the operating system's clock and draws random numbers.
//!
//! The clock is wall time at start plus monotonic time: it never steps, whatever happens to the wall clock
//! while the mediator runs. It can be raised, so that it is never behind a time that is already stored.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use shared::{Nonce, Timestamp, domain::Ids};

/// A clock that is cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    System { anchor: AtomicI64, started: std::time::Instant },
    Manual(AtomicI64),
}

impl Clock {
    /// The operating system's clock, read once.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn system() -> Self {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let anchor = AtomicI64::new(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX));
        Self(Arc::new(Source::System { anchor, started: std::time::Instant::now() }))
    }

    /// A clock that moves only when told to.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Source::Manual(AtomicI64::new(start.millis()))))
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Source::System { anchor, started } => {
                let gone = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
                Timestamp::from_millis(anchor.load(Ordering::Relaxed).saturating_add(gone))
            }
            Source::Manual(now) => Timestamp::from_millis(now.load(Ordering::Relaxed)),
        }
    }

    /// Sees to it that the clock is not behind `at`.
    pub fn raise_to(&self, at: Timestamp) {
        let behind = at.millis().saturating_sub(self.now().millis());
        if behind > 0 {
            self.advance(shared::Duration::from_millis(behind.unsigned_abs()));
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: shared::Duration) {
        let by = i64::try_from(by.millis()).unwrap_or(i64::MAX);
        match &*self.0 {
            Source::System { anchor, .. } => anchor.fetch_add(by, Ordering::Relaxed),
            Source::Manual(now) => now.fetch_add(by, Ordering::Relaxed),
        };
    }
}

/// Random ids from the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    fn nonce(&mut self) -> Nonce {
        Nonce::from_bits(rand::random())
    }
}

/// A number in `0.0..1.0`, for jitter.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn random_fraction() -> f64 {
    rand::random()
}

/// 256 fresh random bits in hex, for tokens.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn random_secret() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}

/// 64 fresh random bits in hex, to tell processes and fleets apart. Not a secret.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn random_word() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// A fresh Run id, ordered by time.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn fresh_run_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// How long something takes, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Since the start.
    #[must_use]
    pub fn elapsed(&self) -> std::time::Duration {
        self.0.elapsed()
    }
}

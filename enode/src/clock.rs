//! The one place that reads the operating system's clocks and draws random ids.
//!
//! Two clocks: wall time, for people and files only, and boot time, which goes on while the machine sleeps
//! and never steps. Whatever decides anything is measured in boot time.

use shared::{Duration, InstanceId, StreamId, Timestamp};

/// Milliseconds since the machine was booted, sleep included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BootTime(u64);

impl BootTime {
    /// Wraps milliseconds since boot.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// This long after it.
    #[must_use]
    pub const fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.millis()))
    }

    /// This long before it.
    #[must_use]
    pub const fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.millis()))
    }

    /// How long until `later`; zero when that is past.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

/// The machine's boot clock.
#[must_use]
pub fn boot_time() -> BootTime {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    let millis = u64::try_from(at.tv_nsec / 1_000_000).unwrap_or(0);
    BootTime(seconds.saturating_mul(1_000).saturating_add(millis))
}

/// Wall time, for people.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn now() -> Timestamp {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX))
}

/// Wall time in nanoseconds since the Unix epoch, for places in line.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn now_ns() -> i64 {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX)
}

/// Random hex digits, at most 32.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn random_hex(digits: usize) -> String {
    let mut text = format!("{:032x}", rand::random::<u128>());
    text.truncate(digits);
    text
}

/// A number in `0.0..1.0`, for jitter.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn random_fraction() -> f64 {
    rand::random()
}

#[expect(clippy::disallowed_methods, reason = "this is the place")]
fn random_name(prefix: char) -> String {
    format!("{prefix}{:032x}", rand::random::<u128>())
}

/// A fresh instance id.
#[must_use]
#[expect(clippy::missing_panics_doc, clippy::expect_used, reason = "a letter and hex digits are an id")]
pub fn fresh_instance() -> InstanceId {
    InstanceId::new(&random_name('i')).expect("hex is a name")
}

/// A fresh stream id.
#[must_use]
#[expect(clippy::missing_panics_doc, clippy::expect_used, reason = "a letter and hex digits are an id")]
pub fn fresh_stream() -> StreamId {
    StreamId::new(&random_name('s')).expect("hex is a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_never_goes_back_and_spans_do_not_overflow() {
        let first = boot_time();
        assert!(boot_time() >= first);
        assert_eq!(BootTime::from_millis(5).minus(Duration::from_secs(1)), BootTime::from_millis(0));
        assert_eq!(BootTime::from_millis(9).until(BootTime::from_millis(4)), Duration::from_millis(0));
    }

    #[test]
    fn drawn_ids_differ() {
        assert_ne!(fresh_instance(), fresh_instance());
        assert_ne!(fresh_stream(), fresh_stream());
    }
}

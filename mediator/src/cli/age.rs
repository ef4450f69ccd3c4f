//! Spans of time as people say them, and `--since`.

use shared::{Duration, Timestamp};

/// "12s", "3m", "2h", "5d": the largest unit that fits, rounded down.
pub(crate) fn short(span: Duration) -> String {
    let seconds = span.millis() / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// "350ms", "12s", "3m12s", "2h5m": how long something took, in its two largest units.
pub(crate) fn length(span: Duration) -> String {
    let (ms, seconds) = (span.millis(), span.millis() / 1_000);
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// From one wire time to a later one.
pub(crate) fn between(from_ms: i64, to_ms: i64) -> Duration {
    Timestamp::from_millis(to_ms).since(Timestamp::from_millis(from_ms))
}

/// An instant of `--since`: a span back from now, or RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// This long ago.
    Ago(Duration),
    /// From this instant on.
    At(Timestamp),
}

impl Since {
    pub(crate) fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(span) => now - span,
            Self::At(at) => at,
        }
    }
}

impl std::str::FromStr for Since {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(span) = text.parse() {
            return Ok(Self::Ago(span));
        }
        match text.parse() {
            Ok(at) => Ok(Self::At(at)),
            Err(_) => Err("write a span such as 30m, 2h or 7d, or an instant such as 2026-01-31T12:00:00Z".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_largest_unit_that_fits() {
        for (ms, age, took) in [
            (0, "0s", "0ms"),
            (999, "0s", "999ms"),
            (59_999, "59s", "59s"),
            (60_000, "1m", "1m0s"),
            (3_599_000, "59m", "59m59s"),
            (7_500_000, "2h", "2h5m"),
            (86_400_000, "1d", "1d0h"),
            (90_000_000, "1d", "1d1h"),
        ] {
            let span = Duration::from_millis(ms);
            assert_eq!((short(span).as_str(), length(span).as_str()), (age, took), "{ms}");
        }
    }

    #[test]
    fn since_is_a_span_or_an_instant() {
        let now = Timestamp::from_millis(10_000_000);
        assert_eq!("2h".parse::<Since>().unwrap().instant(now).millis(), 2_800_000);
        assert_eq!("1970-01-01T00:00:01Z".parse::<Since>().unwrap().instant(now).millis(), 1_000);
        for bad in ["", "yesterday", "2", "2026-01-31"] {
            assert!(bad.parse::<Since>().is_err(), "{bad}");
        }
    }
}

//! Instants and durations in whole milliseconds, so that every engine and every wire stores the same value.

use std::{
    fmt,
    ops::{Add, Mul, Sub},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// UTC milliseconds since the Unix epoch. Displayed in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Wraps milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Time since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let ms = self.0.saturating_sub(earlier.0);
        Duration(if ms < 0 { 0 } else { ms as u64 })
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(by.0))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(by.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse::<jiff::Timestamp>().map(|at| Self(at.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A span of whole milliseconds. Written `250ms`, `10s`, `5m`, `2h`, `1d`, or a sum such as `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Duration {
    /// Wraps milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Wraps seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// Milliseconds.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The same span for `std` and tokio.
    #[must_use]
    pub const fn std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl Mul<u32> for Duration {
    type Output = Self;
    fn mul(self, by: u32) -> Self {
        Self(self.0.saturating_mul(u64::from(by)))
    }
}

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: write a number with its unit, such as 250ms, 10s, 5m, 2h or 1h30m")]
pub struct BadDuration(String);

impl FromStr for Duration {
    type Err = BadDuration;
    fn from_str(text: &str) -> Result<Self, BadDuration> {
        let bad = || BadDuration(text.chars().take(40).collect());
        let (mut rest, mut total) = (text.trim(), 0u64);
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
            let number: u64 = number.parse().map_err(|_| bad())?;
            total = number.checked_mul(*ms).and_then(|span| total.checked_add(span)).ok_or_else(bad)?;
            rest = tail;
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, ms) in UNITS {
            if rest >= ms {
                write!(f, "{}{unit}", rest / ms)?;
                rest %= ms;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Duration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_back_what_they_show() {
        for (text, ms) in [("250ms", 250), ("10s", 10_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("0s", 0)] {
            let span: Duration = text.parse().unwrap();
            assert_eq!((span.millis(), span.to_string().as_str()), (ms, text));
        }
        for bad in ["", "10", "s", "-1s", "1 h", "1x", "99999999999999999999d", "10000000000000d"] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
    }

    #[test]
    fn timestamps_are_rfc_3339_in_utc() {
        assert_eq!(Timestamp::from_millis(1_700_000_000_123).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!("2023-11-14T23:13:20.123+01:00".parse::<Timestamp>().unwrap().millis(), 1_700_000_000_123);
    }
}

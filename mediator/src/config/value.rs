//! Values that have a spelling of their own.

use std::{fmt, str::FromStr};

/// A size: `64MiB`, or plain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl FromStr for ByteSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a size: write bytes, or a number with KiB, MiB or GiB");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        number.checked_mul(*factor).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) =
            UNITS.into_iter().find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor)).unwrap_or(("", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{word:?} is not a log format: write text or json")),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked for one.
    #[default]
    None,
    /// They may.
    Optional,
    /// Without one there is no connection.
    Required,
}

impl ClientAuth {
    const ALL: [(Self, &'static str); 3] =
        [(Self::None, "none"), (Self::Optional, "optional"), (Self::Required, "required")];
}

impl FromStr for ClientAuth {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(_, name)| *name == word);
        found.map(|(it, _)| it).ok_or_else(|| format!("{word:?} is unknown: write none, optional or required"))
    }
}

impl fmt::Display for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL.into_iter().find(|(it, _)| it == self).map_or("", |(_, name)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_back_what_they_show() {
        for (text, bytes) in [("64MiB", 64 << 20), ("1GiB", 1 << 30), ("1500", 1_500), ("0", 0), ("3KiB", 3_072)] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, text));
        }
        for bad in ["", "MiB", "1MB", "-1", "1.5GiB", "99999999999GiB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }
}

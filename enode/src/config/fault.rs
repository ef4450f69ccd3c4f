//! What is wrong with a configuration: which setting, where it was said, and why. The only place that makes text of it.

use std::{fmt, path::Path};

use super::layers::From;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    key: Option<String>,
    place: String,
    why: String,
}

impl Fault {
    /// Of a setting, in the layer that says it; `None`: none does.
    pub(super) fn of(key: &str, from: Option<&From>, why: impl Into<String>) -> Self {
        let place = from.map_or_else(|| key.to_owned(), |from| from.place(key));
        Self { key: Some(key.to_owned()), place, why: why.into() }
    }

    /// Of a file as a whole, where known at a line of it.
    pub(super) fn of_file(path: &Path, line: Option<usize>, why: impl Into<String>) -> Self {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        Self { key: None, place: format!("{}{line}:", path.display()), why: why.into() }
    }

    /// The path of the setting, such as `panel.listen`. `None`: it is a file that cannot be read.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whether it is about this table, or something in it.
    #[must_use]
    pub fn is_in(&self, table: &str) -> bool {
        self.key().is_some_and(|key| key.split('.').next() == Some(table))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.why)
    }
}

/// Everything that is wrong with the configuration, each with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.list())]
pub struct ConfigErrors(pub Vec<Fault>);

impl ConfigErrors {
    /// Whether something in `[panel]` is wrong.
    #[must_use]
    pub fn concern_the_panel(&self) -> bool {
        self.0.iter().any(|fault| fault.is_in("panel"))
    }

    fn list(&self) -> String {
        let count = match self.0.len() {
            1 => "one fault".to_owned(),
            many => format!("{many} faults"),
        };
        let faults = self.0.iter().map(|fault| format!("\n  - {fault}"));
        format!("the configuration has {count}:{}", faults.collect::<String>())
    }
}

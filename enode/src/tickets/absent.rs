//! Why a name is no ticket's, in the same words for every command.

use std::sync::Arc;

use shared::ticket::{Queue, Stem, Ticket};

/// Why there is no such ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// No file has this stem.
    #[error("there is no ticket {0}: `enode tickets list` shows them")]
    Nowhere(Stem),
    /// The file that has it is no ticket, or cannot be read.
    #[error("{file}: {why}")]
    Unread {
        /// The file.
        file: String,
        /// What is wrong, and what instead.
        why: String,
    },
}

impl Absent {
    /// Of a stem that has no ticket in this queue.
    #[must_use]
    pub fn of(queue: &Queue, stem: &Stem) -> Self {
        match queue.find_unread(stem) {
            Some(it) => Self::Unread { file: it.file.clone(), why: it.why.clone() },
            None => Self::Nowhere(stem.clone()),
        }
    }
}

/// The ticket of a stem.
///
/// # Errors
/// [`Absent`]
pub fn find<'a>(queue: &'a Queue, stem: &Stem) -> Result<&'a Arc<Ticket>, Absent> {
    queue.find(stem).ok_or_else(|| Absent::of(queue, stem))
}

#[cfg(test)]
mod tests {
    use shared::{Timestamp, ticket::Stem};

    use super::super::{
        ask, claim,
        fake_tests::{Fake, Table},
        save,
        unassign::unassign,
    };

    #[test]
    fn every_command_says_of_a_file_that_cannot_be_read_what_is_wrong_with_it() {
        let fake = Fake::new(&[("a.md", "no frontmatter")]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (name, says) in [("a", "a.md: "), ("nope", "there is no ticket nope")] {
            let stem = &Stem::new(name).unwrap();
            let now = Timestamp::default();
            let said = [
                claim::by_hand(&fake.folder, stem, "me", now).unwrap_err().to_string(),
                runtime.block_on(unassign(&fake.folder, &Table::default(), stem, false, now)).unwrap_err().to_string(),
                ask::answer(&fake.folder, stem, "yes").unwrap_err().to_string(),
                save::save(&fake.folder, stem, b"", "---\n---\n").unwrap_err().to_string(),
            ];
            assert!(said[0].starts_with(says), "{said:?}");
            assert!(said.iter().all(|it| *it == said[0]), "{said:#?}");
        }
    }
}

//! The choices that a question offers, and the answer that is composed of what was picked.
//!
//! A list item that begins with a letter in parentheses is an option. Options stand in groups: a heading of the third
//! level begins one and names it, and so does a letter that the group has already, such as the next `(a)`.
//!
//! ```markdown
//! ### Colour
//! - (a) red
//! - (b) blue
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::fence::Fence;

/// Longer labels are cut to this many characters.
const LABEL: usize = 60;

/// What one answer is picked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// From 1.
    pub number: usize,
    /// The heading above it, or nothing.
    pub title: String,
    /// In the order in which they are written; no letter twice.
    pub options: Vec<Item>,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// `a` to `z`.
    pub letter: char,
    /// What stands behind the letter, at most 60 characters.
    pub label: String,
}

/// What was picked in one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picked {
    /// Any number of its letters.
    pub letters: BTreeSet<char>,
    /// What else is to be said of it.
    pub note: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing was picked and nothing said.
    #[error("nothing is chosen: pick an option or write a note")]
    Empty,
    /// No group has this number.
    #[error("there is no group {number}: the question has {}", groups(*many))]
    NoGroup {
        /// What was said.
        number: usize,
        /// How many there are.
        many: usize,
    },
    /// No option has this letter.
    #[error("group {number} has no option ({letter}): it has {known}")]
    NoOption {
        /// The group.
        number: usize,
        /// What was said.
        letter: char,
        /// What there is, as a person reads it.
        known: String,
    },
}

fn groups(many: usize) -> String {
    match many {
        0 => "no options to choose from: say it in words (an option is a list item, such as `- (a) yes`)".to_owned(),
        1 => "one group".to_owned(),
        many => format!("groups 1 to {many}"),
    }
}

/// The groups of options in the text of a question. Fenced text has none.
#[must_use]
pub fn parse(question: &str) -> Vec<Group> {
    let (mut found, mut fence) = (Vec::<Group>::new(), Fence::default());
    let mut title = None::<String>;
    for line in question.lines().filter(|line| fence.is_plain(line)) {
        if let Some(heading) = line.strip_prefix("### ") {
            title = Some(heading.trim().to_owned());
            continue;
        }
        let Some(item) = option(line) else { continue };
        match found.last_mut() {
            Some(group) if title.is_none() && !group.options.iter().any(|it| it.letter == item.letter) => {
                group.options.push(item);
            }
            _ => {
                let title = title.take().unwrap_or_default();
                found.push(Group { number: found.len() + 1, title, options: vec![item] });
            }
        }
    }
    found
}

/// `- (b) label`, also in a numbered list.
fn option(line: &str) -> Option<Item> {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let marks: &[char] = if digits.len() < line.len() { &['.', ')'] } else { &['-', '*', '+'] };
    let text = digits.strip_prefix(marks)?.strip_prefix([' ', '\t'])?.trim_start();
    let mut chars = text.strip_prefix('(')?.chars();
    let letter = chars.next().filter(char::is_ascii_alphabetic)?.to_ascii_lowercase();
    let label = chars.as_str().strip_prefix(')')?.trim();
    Some(Item { letter, label: cut(label) })
}

fn cut(label: &str) -> String {
    if label.chars().count() <= LABEL {
        return label.to_owned();
    }
    let kept: String = label.chars().take(LABEL - 1).collect();
    format!("{}…", kept.trim_end())
}

/// The text of an answer: for each group in which something was picked or said, one line of its number, the letters in
/// order, and the note: `2: (a) (c) only at night`. Groups with neither are left out.
///
/// # Errors
/// [`NoAnswer`] where nothing would be said, or something was picked that is not there.
pub fn compose(groups: &[Group], picked: &BTreeMap<usize, Picked>) -> Result<String, NoAnswer> {
    let mut lines = Vec::new();
    for (number, picked) in picked {
        let group = groups.iter().find(|it| it.number == *number);
        let group = group.ok_or(NoAnswer::NoGroup { number: *number, many: groups.len() })?;
        if let Some(letter) = picked.letters.iter().find(|letter| !group.options.iter().any(|it| it.letter == **letter))
        {
            let known: Vec<String> = group.options.iter().map(|it| format!("({})", it.letter)).collect();
            return Err(NoAnswer::NoOption { number: *number, letter: *letter, known: known.join(" ") });
        }
        let letters = picked.letters.iter().map(|letter| format!("({letter})"));
        // A note of several lines would look like several groups.
        let words: Vec<String> = letters.chain(picked.note.split_whitespace().map(str::to_owned)).collect();
        if !words.is_empty() {
            lines.push(format!("{number}: {}", words.join(" ")));
        }
    }
    if lines.is_empty() { Err(NoAnswer::Empty) } else { Ok(lines.join("\n")) }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;

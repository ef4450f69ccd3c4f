//! What is wrong with a contract: where, what, and what instead.

use super::tree::{Node, Value};

/// Most problems that are told at once; a contract with more is told again after these.
const MOST: usize = 100;

/// Everything that is wrong with a contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ContractError {
    /// At least one, in the order of the text.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `steps[3].needs[0]`; empty for the document.
    pub path: String,
    /// Line and column from 1, where known.
    pub position: Option<(u64, u64)>,
    /// A sentence.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// One part of a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seg<'a> {
    Key(&'a str),
    At(usize),
}

/// Where decoding stands. Written out only when there is something to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    seg: Seg<'p>,
}

impl<'p> Path<'p> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, seg: Seg::Key("") };

    pub(super) const fn key(&'p self, key: &'p str) -> Self {
        Self { parent: Some(self), seg: Seg::Key(key) }
    }

    pub(super) const fn at(&'p self, index: usize) -> Self {
        Self { parent: Some(self), seg: Seg::At(index) }
    }

    fn write(&self) -> String {
        let Some(parent) = self.parent else { return String::new() };
        let mut text = parent.write();
        push(&mut text, self.seg);
        text
    }
}

fn push(text: &mut String, seg: Seg<'_>) {
    use std::fmt::Write;
    let _infallible = match seg {
        Seg::At(index) => write!(text, "[{index}]"),
        Seg::Key(key) if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) => {
            write!(text, "[{:?}]", cut(key))
        }
        Seg::Key(key) if text.is_empty() => write!(text, "{key}"),
        Seg::Key(key) => write!(text, ".{key}"),
    };
}

/// Enough of a text to recognize it.
pub(super) fn cut(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(57).chain("...".chars()).collect() }
}

/// The problems found so far, and the text that they are about.
pub(super) struct Problems<'t> {
    root: &'t Node,
    found: Vec<Problem>,
    more: usize,
}

impl<'t> Problems<'t> {
    pub(super) const fn new(root: &'t Node) -> Self {
        Self { root, found: Vec::new(), more: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= MOST
    }

    /// How many were noted.
    pub(super) fn count(&self) -> usize {
        self.found.len() + self.more
    }

    /// Takes back those after the first `count`.
    pub(super) fn forget_behind(&mut self, count: usize) {
        self.more = self.more.min(count.saturating_sub(self.found.len()));
        self.found.truncate(count);
    }

    /// At a place that decoding knows.
    pub(super) fn at(&mut self, path: &Path<'_>, position: (u64, u64), message: impl Into<String>) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.found.push(Problem { path: path.write(), position: Some(position), message: message.into() });
        }
    }

    /// At a path, which is looked up in the text; where a part of it is not there, the part before it is meant.
    pub(super) fn add(&mut self, path: &[Seg<'_>], message: impl Into<String>) {
        if self.is_full() {
            self.more += 1;
            return;
        }
        let (mut node, mut text) = (Some(self.root), String::new());
        let mut position = self.root.at;
        for seg in path {
            push(&mut text, *seg);
            node = node.and_then(|node| match (seg, &node.value) {
                (Seg::Key(key), Value::Map(_)) => node.get(key),
                (Seg::At(index), Value::List(list)) => list.get(*index),
                _ => None,
            });
            position = node.map_or(position, |node| node.at);
        }
        self.found.push(Problem { path: text, position: Some(position), message: message.into() });
    }

    /// Nothing is wrong, or everything that is, in the order of the text.
    pub(super) fn finish(mut self) -> Result<(), ContractError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|problem| problem.position);
        if self.more > 0 {
            let message = format!("and {} more; mend these first", self.more);
            self.found.push(Problem { path: String::new(), position: None, message });
        }
        Err(ContractError { problems: self.found })
    }
}

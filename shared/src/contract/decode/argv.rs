//! A program and its arguments, which are apart: no shell takes them apart.

use super::{Decoder, Node, Path, Read, Value, cut};

/// Longest text that is written out once more as advice.
const LONGEST: usize = 60;

impl Decoder<'_, '_> {
    /// A list of words. A line of text, as for a shell, is told how to be one.
    pub(super) fn argv(&mut self, node: &Node, path: &Path<'_>) -> Read<Vec<String>> {
        let Value::Text(line) = &node.value else { return self.list(node, path, Self::text) };
        let spelling = node.spelling(self.text);
        let message = format!("must be a list, but {} is text; write {}", cut(spelling), advice(line));
        self.problems.at(path, node.at, message);
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(words)
    }
}

/// A line as a list: its words where a shell would do nothing else, otherwise a shell.
fn advice(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_assignment = words.first().is_some_and(|word| word.contains('='));
    if line.chars().count() > LONGEST || line.trim().contains('\n') {
        "[\"sh\", \"-c\", TEXT] with this text as TEXT".to_owned()
    } else if words.is_empty() {
        "[PROGRAM, ARGUMENT, ...]".to_owned()
    } else if !is_assignment && words.iter().all(|word| word.chars().all(is_plain)) {
        format!("[{}]", words.into_iter().map(quoted).collect::<Vec<_>>().join(", "))
    } else {
        format!("[\"sh\", \"-c\", {}]", json(line.trim()))
    }
}

/// One line of words as the entries of a list. Words in quotes are the writer's business.
pub(super) fn as_list(spelling: &str) -> String {
    if spelling.split(' ').all(|word| !word.is_empty() && word.chars().all(is_plain)) {
        spelling.split(' ').collect::<Vec<_>>().join(", ")
    } else {
        spelling.to_owned()
    }
}

/// Means the same to a shell and to a program. `$NAME` is filled in without a shell, too.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./$=+@:%,".contains(c)
}

/// In quotes where YAML would otherwise take it for something else.
fn quoted(word: &str) -> String {
    let clear = word.starts_with(|c: char| c.is_ascii_alphanumeric() || "_/$.".contains(c))
        || (word.len() > 1 && word.starts_with('-') && !word.starts_with("---"));
    let other = matches!(word.to_ascii_lowercase().as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "null");
    let number = word.parse::<f64>().is_ok() && word.parse::<i64>().map_or(true, |it| it.to_string() != word);
    if clear && !other && !number && !word.contains([',', ':']) { word.to_owned() } else { json(word) }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

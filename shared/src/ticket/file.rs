//! A ticket's text: frontmatter that is read line by line, and edited without touching any other byte.
//!
//! It is not YAML. Between two `---` lines each line is `key: value`; `deps` may also be a list of indented `- stem`
//! lines. The earlier tool reads files this way, and so do people. Whatever is not understood stays where it is.

use super::{
    key::{self, BadValue, is_key, quoted, unquoted, written},
    name::Stem,
};

/// A file with frontmatter. Edits keep every byte that they do not name: foreign keys, line ends, body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// From the first byte to the end of the last line before the closing `---`.
    head: String,
    /// The closing line and the body.
    tail: String,
    /// Where the line after the opening `---` begins.
    keys_at: usize,
}

/// Why a file is no ticket. The queue leaves it alone, and says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoTicket {
    /// Bytes that are no text.
    #[error("line {0} is not UTF-8 text: save the file as UTF-8")]
    NotUtf8(usize),
    /// The first line is not `---`.
    #[error("it has no frontmatter: begin the file with a line `---`, keys such as `title: …`, and another line `---`")]
    NoFrontmatter,
    /// There is no second `---`.
    #[error("its frontmatter has no end: write a line `---` after the last key")]
    NotClosed,
    /// Nothing is in it.
    #[error("it is empty: begin with a line `---`, keys such as `title: …`, and another line `---`")]
    Empty,
}

/// One line with its end, and where it begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

/// The key at the beginning of a line, and what follows its colon.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    is_key(key).then(|| (key, value.trim()))
}

/// What a list line holds.
fn item_of(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix('-')?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

impl Document {
    /// Splits a file.
    ///
    /// # Errors
    /// [`NoTicket`] says what is missing and where.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, NoTicket> {
        let mut head = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            NoTicket::NotUtf8(1 + good.iter().filter(|byte| **byte == b'\n').count())
        })?;
        let first = head.split_inclusive('\n').next().ok_or(NoTicket::Empty)?;
        // A mark at the beginning is no part of the first line; it stays in the file.
        if first.trim_start_matches('\u{feff}').trim() != "---" {
            return Err(if head.trim().is_empty() { NoTicket::Empty } else { NoTicket::NoFrontmatter });
        }
        let keys_at = first.len();
        let close = lines(&head).skip(1).find(|(_, line)| line.trim() == "---").map(|(at, _)| at);
        let close = close.ok_or(NoTicket::NotClosed)?;
        let tail = head.split_off(close);
        Ok(Self { head, tail, keys_at })
    }

    /// A text without frontmatter as an answer, which needs none. For reading only: its file has other bytes. `None`: it says
    /// nothing.
    #[must_use]
    pub fn plain_answer(bytes: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(bytes).ok()?;
        let text = text.trim_start_matches('\u{feff}');
        let head = format!("---\n{}: {}\n", key::KIND, key::ANSWER);
        (!text.trim().is_empty()).then(|| Self { head, tail: format!("---\n{text}"), keys_at: 4 })
    }

    /// One that says nothing yet.
    #[must_use]
    pub fn empty() -> Self {
        Self { head: "---\n".to_owned(), tail: "---\n".to_owned(), keys_at: 4 }
    }

    /// The whole file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), self.tail.as_bytes()].concat()
    }

    /// What follows the closing line.
    #[must_use]
    pub fn body(&self) -> &str {
        self.tail.split_once('\n').map_or("", |(_, body)| body)
    }

    /// Every key with its value, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows().filter_map(|(_, line)| key_of(line)).map(|(key, value)| (key, unquoted(value)))
    }

    /// Lines between the two `---` that say nothing to anybody: no key, no part of a list, no comment.
    pub(super) fn odd_lines(&self) -> impl Iterator<Item = &str> {
        // A key of another tool may be written in other letters.
        self.rows().map(|(_, line)| line).filter(|line| !line.contains(':') && !is_below(line)).map(str::trim)
    }

    /// Keys that mean nothing because something blank stands in front of them.
    pub(super) fn indented_keys(&self) -> impl Iterator<Item = &str> {
        let indented = self.rows().map(|(_, line)| line).filter(|line| line.starts_with([' ', '\t']));
        indented.filter_map(|line| key_of(line.trim_start())).map(|(key, _)| key)
    }

    /// The value of a key; empty where the key has none. Of a repeated key the last one counts.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys().filter(|(name, _)| *name == key).map(|(_, value)| value).last()
    }

    /// The value of a key that says something.
    #[must_use]
    pub fn said(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// The stems of the first `deps`, each once: inline, as a list, or both. What cannot be a stem is left out and
    /// given back beside them.
    #[must_use]
    pub fn deps(&self) -> (Vec<Stem>, Vec<String>) {
        let (mut deps, mut bad) = (Vec::new(), Vec::new());
        let Some((at, _)) = self.rows().find(|(_, line)| key_of(line).is_some_and(|(name, _)| name == key::DEPS))
        else {
            return (deps, bad);
        };
        let mut rows = lines(&self.head[at..]);
        let inline = rows.next().and_then(|(_, line)| key_of(line)).map_or("", |(_, value)| value);
        let inline = inline.strip_prefix('[').unwrap_or(inline);
        let inline = inline.strip_suffix(']').unwrap_or(inline);
        let below = rows.map(|(_, line)| line).take_while(|line| is_below(line)).filter_map(item_of);
        for text in inline.split(',').chain(below).map(unquoted).filter(|text| !text.is_empty()) {
            match Stem::new(text) {
                Ok(stem) if deps.contains(&stem) => {}
                Ok(stem) => deps.push(stem),
                Err(_) => bad.push(text.to_owned()),
            }
        }
        (deps, bad)
    }

    /// Gives a key a value: in place, or as the last key. Of a repeated key the last one is changed, which is the one
    /// that is read.
    ///
    /// # Errors
    /// [`BadValue`]; nothing is changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadValue> {
        if !is_key(key) {
            return Err(BadValue::Key(key.to_owned()));
        }
        let value = written(key, value)?;
        let text = if value.is_empty() { format!("{key}:") } else { format!("{key}: {value}") };
        let last = self.rows().filter(|(_, line)| key_of(line).is_some_and(|(name, _)| name == key)).last();
        match last.map(|(at, line)| (at, line.trim_end_matches(['\r', '\n']).len())) {
            Some((at, len)) => self.head.replace_range(at..at + len, &text),
            None => {
                let end = self.line_end();
                self.head.push_str(&text);
                self.head.push_str(end);
            }
        }
        Ok(())
    }

    /// Takes a key away, each time that it is there, with what is indented below it where it has no value on its line.
    pub fn remove(&mut self, key: &str) {
        let mut kept = String::with_capacity(self.head.len());
        kept.push_str(&self.head[..self.keys_at]);
        let mut inside = false;
        for (_, line) in self.rows() {
            inside = match key_of(line) {
                Some((name, value)) => {
                    if name != key {
                        kept.push_str(line);
                    }
                    name == key && value.is_empty()
                }
                None => {
                    let below = inside && (item_of(line).is_some() || line.starts_with([' ', '\t']));
                    if !below || line.trim().is_empty() {
                        kept.push_str(line);
                    }
                    below
                }
            };
        }
        self.head = kept;
    }

    /// Writes `deps` in the place of the first one, whose lines go with it: as one inline line, and as a list where one
    /// of them cannot stand in such a line.
    pub fn set_deps(&mut self, deps: &[Stem]) {
        let end = self.line_end();
        let text = if deps.iter().all(Stem::is_plain) {
            format!("{}: [{}]", key::DEPS, deps.iter().map(Stem::as_str).collect::<Vec<_>>().join(", "))
        } else {
            let items = deps.iter().map(|stem| format!("{end}  - {}", quoted(stem.as_str())));
            format!("{}:{}", key::DEPS, items.collect::<String>())
        };
        let found = self.rows().find(|(_, line)| key_of(line).is_some_and(|(name, _)| name == key::DEPS));
        let Some((at, line)) = found else {
            self.head.push_str(&format!("{text}{end}"));
            return;
        };
        let old_end = &line[line.trim_end_matches(['\r', '\n']).len()..];
        let mut new = format!("{}{text}{old_end}", &self.head[..at]);
        let mut below = true;
        for (_, line) in lines(&self.head[at..]).skip(1) {
            below = below && is_below(line);
            // Comments between the items are nobody's to take away.
            if !(below && item_of(line).is_some()) {
                new.push_str(line);
            }
        }
        self.head = new;
    }

    /// Writes text under everything else, a blank line before it, with the file's own line ends.
    pub fn append(&mut self, text: &str) {
        let end = self.line_end();
        if !self.tail.ends_with('\n') {
            self.tail.push_str(end);
        }
        if !self.body().trim().is_empty() && !self.tail.ends_with("\n\n") && !self.tail.ends_with("\n\r\n") {
            self.tail.push_str(end);
        }
        for line in text.trim_end().lines() {
            self.tail.push_str(line);
            self.tail.push_str(end);
        }
    }

    /// The lines between the two `---`, with the place of each in `head`.
    fn rows(&self) -> impl Iterator<Item = (usize, &str)> {
        lines(&self.head[self.keys_at..]).map(|(at, line)| (at + self.keys_at, line))
    }

    fn line_end(&self) -> &'static str {
        if self.head[..self.keys_at].ends_with("\r\n") { "\r\n" } else { "\n" }
    }
}

/// Whether a line can belong to the key above it: a list item, something indented, a comment or nothing.
fn is_below(line: &str) -> bool {
    item_of(line).is_some() || line.trim().is_empty() || line.starts_with([' ', '\t', '#'])
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;

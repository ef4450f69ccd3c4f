//! The one place that writes to stdout and stderr.
//!
//! Data goes to stdout, everything else to stderr. Text that came from elsewhere is made harmless before it
//! can reach a terminal: a node's label must not move the cursor or hide what is shown.

use std::{
    future::Future,
    io::{self, IsTerminal, Read, Write},
    pin::Pin,
};

use serde::Serialize;

use super::exit::Outcome;

/// How data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One JSON document, the same keys as the wire. What goes on and on (watch) is one object a line.
    Json,
    /// One JSON object a line.
    Jsonl,
}

/// Resolves on Ctrl-C.
pub(crate) type Interrupt = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a command reads and writes; tests put buffers here.
pub(crate) struct Io {
    pub(crate) stdin: Box<dyn Read + Send>,
    pub(crate) out: Box<dyn Write + Send>,
    pub(crate) err: Box<dyn Write + Send>,
    pub(crate) out_is_terminal: bool,
    pub(crate) err_is_terminal: bool,
    /// Columns of the terminal behind stderr.
    pub(crate) err_width: usize,
    pub(crate) colour: bool,
    /// Resolves on Ctrl-C.
    pub(crate) interrupt: Interrupt,
}

/// How a table is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// With colours.
    pub(crate) colour: bool,
    /// No text is cut: nobody looks at lines that a file or a program gets, and what was cut off is lost to it.
    pub(crate) whole: bool,
}

impl Look {
    /// The text of a cell, on one line and harmless; on a terminal at most `width` characters of it.
    pub(crate) fn cut(self, text: &str, width: usize) -> String {
        if self.whole { clean(text) } else { cut(text, width) }
    }
}

impl Io {
    /// The real ones.
    pub(crate) fn system() -> Self {
        let out_is_terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            stdin: Box::new(io::stdin()),
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            out_is_terminal,
            err_is_terminal: io::stderr().is_terminal(),
            err_width: comfy_table::Table::new().use_stderr().width().map_or(80, usize::from),
            colour: out_is_terminal && !no_colour,
            interrupt: Box::pin(async {
                if tokio::signal::ctrl_c().await.is_err() {
                    // Without a handler the default action ends the process, which is what is wanted.
                    std::future::pending::<()>().await;
                }
            }),
        }
    }

    /// Hands out Ctrl-C to the one who waits for it now.
    pub(crate) fn take_interrupt(&mut self) -> Interrupt {
        std::mem::replace(&mut self.interrupt, Box::pin(std::future::pending()))
    }

    /// How tables look there.
    pub(crate) const fn look(&self) -> Look {
        Look { colour: self.colour, whole: !self.out_is_terminal }
    }

    /// One line of data.
    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> Outcome<()> {
        Ok(writeln!(self.out, "{text}").and_then(|()| self.out.flush())?)
    }

    /// Raw data.
    pub(crate) fn bytes(&mut self, data: &[u8]) -> Outcome<()> {
        Ok(self.out.write_all(data).and_then(|()| self.out.flush())?)
    }

    /// One line for the person who waits. Losing it is no reason to stop.
    pub(crate) fn note(&mut self, text: impl std::fmt::Display) {
        drop(writeln!(self.err, "{text}").and_then(|()| self.err.flush()));
    }

    /// One document, indented.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Outcome<()> {
        let text = json(value, true)?;
        self.line(text)
    }

    /// One object on one line.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Outcome<()> {
        let text = json(value, false)?;
        self.line(text)
    }

    /// A list: its page in JSON, its items a line each, or its table.
    pub(crate) fn list<P: Serialize, I: Serialize>(
        &mut self,
        format: Format,
        page: &P,
        items: &[I],
        table: impl FnOnce(Look) -> comfy_table::Table,
    ) -> Outcome<()> {
        match format {
            Format::Json => self.json(page),
            Format::Jsonl => items.iter().try_for_each(|item| self.json_line(item)),
            Format::Table => {
                let table = table(self.look());
                self.line(table.trim_fmt())
            }
        }
    }
}

/// JSON in which no character can act on a terminal: the ones that JSON leaves as they are get escaped, too.
fn json(value: &impl Serialize, pretty: bool) -> Outcome<String> {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
        .map_err(io::Error::other)?;
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        // Line feeds are the layout's own: those inside of strings are escaped already.
        if acts_on_terminals(c) && c != '\n' {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    Ok(safe)
}

/// Control characters, and those that turn the direction of text, break lines or have no width.
fn acts_on_terminals(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The text on one line, with everything that could act on a terminal escaped.
pub(crate) fn clean(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if acts_on_terminals(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// [`clean`] for text of several lines: line feeds and tabs stay.
pub(crate) fn clean_lines(text: &str) -> String {
    text.lines().map(|line| line.split('\t').map(clean).collect::<Vec<_>>().join("\t")).collect::<Vec<_>>().join("\n")
}

/// [`clean`], cut to `width` characters; only for who looks at a terminal.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let safe = clean(text);
    match safe.char_indices().nth(width) {
        None => safe,
        Some(_) => safe.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_on_a_terminal_gets_through() {
        let hostile = "a\x1b[2Jb\u{9b}31mc\u{202e}d\ne\u{2028}f\u{7f}";
        assert_eq!(clean(hostile), r"a\u{1b}[2Jb\u{9b}31mc\u{202e}d\ne\u{2028}f\u{7f}");
        let json = json(&hostile, false).unwrap();
        assert_eq!(json, r#""a\u001b[2Jb\u009b31mc\u202ed\ne\u2028f\u007f""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
        assert_eq!(clean_lines("a\tb\x07\nc"), "a\tb\\u{7}\nc");
    }

    #[test]
    fn text_is_cut_by_characters_and_only_when_too_long() {
        assert_eq!(cut("naïve", 5), "naïve");
        assert_eq!(cut("naïvely", 5), "naïv…");
    }
}

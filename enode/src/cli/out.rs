//! The only place that prints. A reader that went away (`| head`) is no fault.

use std::io::{self, Write};

use clap::CommandFactory;
use comfy_table::{Table, presets};
use serde_json::Value;

use super::{Exit, Failure, Outcome, args};
pub(super) use crate::said::{age, span};

/// Where output goes, and how data is shown.
pub(super) struct Out {
    format: args::Format,
}

impl Out {
    pub(super) const fn new(format: args::Format) -> Self {
        Self { format }
    }

    pub(super) fn json(&self) -> bool {
        self.format == args::Format::Json
    }

    /// Data: a JSON document, or what `table` makes of it.
    pub(super) fn data(&self, document: &Value, table: impl FnOnce() -> String) -> Result<(), Failure> {
        let mut text = if self.json() { format!("{document:#}") } else { table() };
        if !text.ends_with('\n') && !text.is_empty() {
            text.push('\n');
        }
        match io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(anyhow::Error::from(error).context("cannot write to stdout").into())
            }
            _ => Ok(()),
        }
    }

    /// A remark, to stderr.
    pub(super) fn note(&self, text: impl AsRef<str>) {
        // There is no place left to complain about stderr.
        drop(writeln!(io::stderr().lock(), "{}", text.as_ref()));
    }

    pub(super) fn warn(&self, text: impl AsRef<str>) {
        self.note(format!("warning: {}", text.as_ref()));
    }

    /// The error and everything below it.
    pub(super) fn error(&self, error: &anyhow::Error) {
        self.note(format!("error: {}", causes(error.as_ref())));
    }

    pub(super) fn completions(&self, shell: clap_complete::Shell) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut args::Cli::command(), "enode", &mut script);
        match io::stdout().lock().write_all(&script) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(anyhow::Error::from(error).context("cannot write to stdout").into())
            }
            _ => Ok(Exit::Done),
        }
    }
}

/// The error and what is behind it, without saying anything twice.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut deeper = error.source();
    while let Some(cause) = deeper {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(&format!(": {cause_text}"));
        }
        deeper = cause.source();
    }
    text
}

/// Columns without frames.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    // Each cell is padded on both sides; the outer blanks are of no use.
    let trimmed = |line: String| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned();
    table.lines().map(trimmed).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_named_is_not_named_again() {
        let error = anyhow::Error::from(io::Error::from_raw_os_error(2))
            .context("a: No such file or directory (os error 2); b");
        assert_eq!(causes(error.context("cannot").as_ref()), "cannot: a: No such file or directory (os error 2); b");
    }
}

//! One line on stderr that says where a Run is; rewritten on a terminal, a new line per change elsewhere.

use std::io::Write;

use proto::v1::RunDetail;

use super::{
    exit::Outcome,
    follow::{self, Watcher},
    output::{Io, clean, cut},
    words,
};

/// Remembers what was said last, so that nothing is said twice.
#[derive(Default)]
pub(crate) struct Progress {
    last: String,
}

impl Progress {
    /// Says `text` unless it was said last.
    pub(crate) fn say(&mut self, io: &mut Io, text: String) {
        if text == self.last {
            return;
        }
        if io.err_is_terminal {
            // Back to the first column, and away with what stood there. A line that wraps could not be taken back.
            let width = io.err_width.saturating_sub(1);
            drop(write!(io.err, "\r\x1b[2K{}", cut(&text, width)).and_then(|()| io.err.flush()));
        } else {
            io.note(clean(&text));
        }
        self.last = text;
    }

    /// Makes room for what comes after.
    pub(crate) fn done(&mut self, io: &mut Io) {
        if io.err_is_terminal && !self.last.is_empty() {
            drop(write!(io.err, "\r\x1b[2K").and_then(|()| io.err.flush()));
        }
        self.last.clear();
    }
}

impl Watcher for Progress {
    fn change(&mut self, io: &mut Io, detail: &RunDetail, why: Option<&str>) -> Outcome<()> {
        let run = follow::view(detail)?;
        let over = detail.steps.iter().filter(|step| matches!(step.state.as_str(), "DONE" | "FAILED" | "SKIPPED"));
        let mut text = run.state.clone();
        if !detail.steps.is_empty() {
            text.push_str(&format!(", {} of {} steps over", over.count(), detail.steps.len()));
        }
        let current = words::current(run);
        if !current.is_empty() {
            text.push_str(&format!(", now {current}"));
        }
        for waits in detail.steps.iter().filter_map(words::waits) {
            text.push_str(&format!(", {waits}"));
        }
        if let Some(why) = why {
            text.push_str(&format!(": {why}"));
        }
        self.say(io, text);
        Ok(())
    }

    fn lost(&mut self, io: &mut Io, cause: &str) {
        self.say(io, format!("lost the mediator ({cause}), trying again; the Run goes on"));
    }
}

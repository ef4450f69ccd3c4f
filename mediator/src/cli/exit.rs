//! How a command ends: the exit codes, and the failure that carries one with its explanation.

use std::fmt;

/// The exit codes of every command. `--help` documents them with [`Exit::HELP`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It worked.
    Ok = 0,
    /// The Run that was waited for has FAILED.
    RunFailed = 1,
    /// Refused: bad arguments, a bad contract, a Run that this fleet rejects, something that is not there.
    Refused = 2,
    /// `--timeout` ran out. The Run goes on.
    Timeout = 3,
    /// The mediator cannot be reached, or could not answer.
    Unreachable = 4,
    /// Ctrl-C ended a command that waits. The Run goes on.
    Interrupted = 130,
}

impl Exit {
    /// The text below every `--help`.
    pub const HELP: &'static str = "Exit codes:
  0    it worked
  1    the Run that was waited for has FAILED (submit --wait, watch RUN)
  2    refused: bad arguments or contract, a Run this fleet rejects, something that is not there
  3    --timeout ran out; the Run goes on
  4    the mediator cannot be reached, or could not answer
  130  interrupted with Ctrl-C; the Run goes on";

    /// The code for the operating system.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What failed and why; several lines where several things are wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
}

/// The result of everything here.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), advice: None }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// A failure of reading or writing something local.
    pub(crate) fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::refused(format!("{what}: {error}"))
    }

    /// The reader of our output has gone, as with `| head`: that is the end, not an error.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::new(Exit::Ok, "")
        } else {
            Self::io("cannot write the output", error)
        }
    }
}

/// The error and what is behind it, without saying anything twice.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
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

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::output(&error)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_that_was_named_is_not_named_again() {
        #[derive(Debug, thiserror::Error)]
        #[error("tls.cert nowhere: {source}; give another file")]
        struct Named {
            source: std::io::Error,
        }
        let error = Named { source: std::io::Error::from_raw_os_error(2) };
        let error = Err::<(), _>(error).context("cannot start").unwrap_err();
        let text = causes(error.as_ref());
        assert_eq!(text, "cannot start: tls.cert nowhere: No such file or directory (os error 2); give another file");
    }
}

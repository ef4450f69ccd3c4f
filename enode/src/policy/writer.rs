//! Editing the policy file for its owner: only the values that are given, everything else byte for byte.
//!
//! Values are spliced into the text, so that comments, order, unknown keys, line ends and `panel_token` stay.
//! The result is understood again before it replaces anything.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use shared::domain::Drain;
use toml_edit::{ImDocument, Item};

use super::file;
use crate::files;

/// What to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The new value; none keeps what is there.
    pub drain: Option<Drain>,
    /// The new reason; none keeps what is there, empty takes it away.
    pub reason: Option<String>,
    /// A new `quarantine_cleared`; none keeps what is there.
    pub quarantine_cleared: Option<String>,
    /// Replace a file that cannot be edited; it is kept beside the new one.
    pub force: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Where.
    pub path: PathBuf,
    /// The value before, if the file could be understood.
    pub before: Option<Drain>,
    /// What was wrong with the file before.
    pub was_broken: Option<String>,
    /// Where the old file was kept, if it was replaced as a whole.
    pub kept: Option<PathBuf>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be edited.
    #[error("{0}; mend it, or replace it with --force (the old one is kept)")]
    Broken(String),
    /// It belongs to somebody else.
    #[error("{} belongs to user {uid}: run this as that user or as root", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The operating system refused.
    #[error("{} cannot be written: {source}; run this as the user that owns it", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Edits the file; makes one where there is none. `state_dir` tells whose agent must be able to read it.
///
/// # Errors
/// [`WriteError`]; the file is as it was then.
pub fn edit(path: &Path, state_dir: &Path, edit: &Edit) -> Result<Done, WriteError> {
    // A link is followed: replacing it would leave the real file as it was.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |source| WriteError::Io { path: path.clone(), source };
    let root = rustix::process::geteuid().is_root();
    let agent = std::fs::metadata(state_dir).ok().map(|meta| (meta.uid(), meta.gid()));
    let mut done = Done { path: path.clone(), before: None, was_broken: None, kept: None };

    let found = match files::read_regular(path, file::LIMIT) {
        Ok(found) => found,
        Err(why) => {
            let why = format!("{} {why}", path.display());
            if !edit.force {
                return Err(WriteError::Broken(why));
            }
            done.was_broken = Some(why);
            done.kept = Some(put_aside(path).map_err(failed)?);
            None
        }
    };
    let Some(old) = found else {
        // Private to us, it could not be read by an agent that runs as another user.
        if let Some((uid, _)) = agent.filter(|(uid, _)| !root && *uid != rustix::process::geteuid().as_raw()) {
            return Err(WriteError::Foreign { path: state_dir.to_owned(), uid });
        }
        let text = splice("", edit).map_err(WriteError::Broken)?;
        // Made by root, it would be of no use to an agent that runs as another user.
        files::write_atomic_as(path, text.as_bytes(), 0o600, agent.filter(|_| root)).map_err(failed)?;
        return Ok(done);
    };
    if !root && old.uid != rustix::process::geteuid().as_raw() {
        return Err(WriteError::Foreign { path: path.clone(), uid: old.uid });
    }
    let name = path.display().to_string();
    match file::parse(&name, &old.bytes) {
        Ok(written) => done.before = Some(written.drain.unwrap_or_default()),
        Err(why) => done.was_broken = Some(why),
    }
    let text = match std::str::from_utf8(&old.bytes).map_err(|_| ()).and_then(|text| splice(text, edit).map_err(drop)) {
        Ok(text) => text,
        Err(()) if edit.force => {
            done.kept = Some(put_aside(path).map_err(failed)?);
            splice("", edit).map_err(WriteError::Broken)?
        }
        Err(()) => {
            return Err(WriteError::Broken(done.was_broken.unwrap_or_else(|| format!("{name} cannot be edited"))));
        }
    };
    // 0600, except that an agent of another user goes on reading through its group.
    let shared_read = if agent.is_some_and(|(uid, _)| uid != old.uid) { old.mode & 0o040 } else { 0 };
    let owner = Some((old.uid, old.gid)).filter(|_| root);
    files::write_atomic_as(path, text.as_bytes(), 0o600 | shared_read, owner).map_err(failed)?;
    Ok(done)
}

/// Moves whatever is there to `NAME.broken`, `NAME.broken.1`, … so that nothing is lost.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 0..1_000 {
        let mut name = path.as_os_str().to_owned();
        name.push(".broken");
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let aside = PathBuf::from(name);
        if std::fs::symlink_metadata(&aside).is_err() {
            std::fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::Error::other("there are a thousand .broken files beside it already"))
}

/// The text with the values set. Fails when the result would not be understood as meant.
fn splice(text: &str, edit: &Edit) -> Result<String, String> {
    let (bom, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let body = match edit.reason.as_deref().map(file::one_line) {
        Some(reason) => set(body, "reason", &reason, !reason.is_empty())?,
        None => body.to_owned(),
    };
    let body = match edit.drain {
        Some(drain) => set(&body, "drain", drain.as_str(), true)?,
        None => body,
    };
    let body = match edit.quarantine_cleared.as_deref() {
        Some(words) => set(&body, "quarantine_cleared", words, true)?,
        None => body,
    };
    let end = if body.ends_with('\n') { "" } else { newline(&body) };
    let result = format!("{bom}{body}{end}");
    let read = file::parse("the edited file", result.as_bytes())?;
    if edit.drain.is_some() && read.drain != edit.drain
        || edit.quarantine_cleared.is_some() && read.quarantine_cleared != edit.quarantine_cleared
        || edit.reason.as_deref().is_some_and(|reason| read.reason != file::one_line(reason))
    {
        return Err("the edited file would not mean what was asked".to_owned());
    }
    Ok(result)
}

/// Sets one top-level key; adds it after the other top-level keys if `add`.
fn set(text: &str, key: &str, value: &str, add: bool) -> Result<String, String> {
    let document = ImDocument::parse(text).map_err(|error| error.message().to_owned())?;
    let quoted = toml_edit::Value::from(value).to_string();
    if let Some(item) = document.get(key) {
        let span = item.as_value().and_then(toml_edit::Value::span).ok_or_else(|| format!("{key} is a table"))?;
        return Ok(format!("{}{quoted}{}", &text[..span.start], &text[span.end..]));
    }
    if !add {
        return Ok(text.to_owned());
    }
    // Behind the last top-level value: in front of the first table, where a key would become part of it.
    let ends =
        document.iter().filter_map(|(_, item)| item.as_value().and_then(toml_edit::Value::span)).map(|span| span.end);
    let last = ends.max().map(|end| text[end..].find('\n').map_or(text.len(), |line| end + line + 1));
    let tables = document.iter().filter_map(|(_, item)| table_start(item)).min();
    let at = last.or(tables).unwrap_or(text.len());
    let newline = newline(text);
    let (before, after) = text.split_at(at);
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { newline };
    Ok(format!("{before}{gap}{key} = {quoted}{newline}{after}"))
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn table_start(item: &Item) -> Option<usize> {
    match item {
        Item::Table(table) => table.span().map(|span| span.start),
        Item::ArrayOfTables(tables) => tables.iter().filter_map(toml_edit::Table::span).map(|span| span.start).min(),
        _ => None,
    }
}

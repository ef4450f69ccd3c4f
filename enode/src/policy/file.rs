//! What stands in a policy file. Pure, but for [`look`], which reads it.
//!
//! Only what is certainly not there is missing; all else that cannot be read is broken.

use std::path::Path;

use shared::domain::Drain;
use toml_edit::{ImDocument, Item};

use crate::{
    config::{Secret, line_of, not_toml},
    files,
};

/// Nobody writes a longer one.
pub const LIMIT: u64 = 64 * 1024;
/// Longest reason that is advertised, in characters.
const REASON: usize = 1_000;

/// A policy file that could be understood. Another type than the advertised policy: it holds a local secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The owner's word; `None` when the file does not have the key, or releases in a last line that has not ended.
    pub drain: Option<Drain>,
    /// Why, on one line.
    pub reason: String,
    /// Any text; a new one ends the quarantines that there are. Like every release it must be written: taking the
    /// key away means nothing.
    pub quarantine_cleared: Option<String>,
    /// Secret of this machine's own page. Never leaves it.
    pub panel_token: Option<Secret>,
    /// What is odd but usable.
    pub warnings: Vec<String>,
}

/// Fewest characters of a `panel_token`. Shorter ones can be guessed.
pub const SHORTEST_TOKEN: usize = 16;

impl Written {
    /// Whether its `panel_token` is too short to be one.
    #[must_use]
    pub fn has_short_token(&self) -> bool {
        self.panel_token.as_ref().is_some_and(|token| token.reveal().trim().len() < SHORTEST_TOKEN)
    }

    /// What is odd, for the owner. The panel's token is no business of a mediator, and so not among `warnings`, which
    /// are advertised.
    #[must_use]
    pub fn for_owner(&self) -> Vec<String> {
        let token = self.has_short_token().then(|| {
            format!(
                "panel_token is too short: beyond loopback `enode panel` wants at least {SHORTEST_TOKEN} characters"
            )
        });
        self.warnings.iter().cloned().chain(token).collect()
    }
}

/// What was found where the file should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// No such entry in a folder that is there.
    Missing,
    /// A file that could be understood.
    Written(Written),
    /// It was being written to.
    Unsteady,
    /// It cannot be used: why, where, and what instead.
    Broken(String),
}

/// Reads the file. Never waits for a writer and never reads more than [`LIMIT`].
#[must_use]
pub fn look(path: &Path) -> Seen {
    let file = match files::read_regular(path, LIMIT) {
        Ok(None) => return missing(path),
        Ok(Some(file)) if !file.steady => return Seen::Unsteady,
        Ok(Some(file)) => file,
        Err(why) => return Seen::Broken(format!("{} {why}", path.display())),
    };
    match parse(&path.display().to_string(), &file.bytes) {
        Ok(mut written) => {
            let who = match file.mode & 0o022 {
                0 => None,
                0o020 => Some("its group"),
                _ => Some("everyone"),
            };
            if let Some(who) = who {
                written.warnings.push(format!(
                    "{} can be written by {who} (mode {:04o}): whoever writes it owns this machine; chmod 600 it",
                    path.display(),
                    file.mode
                ));
            }
            Seen::Written(written)
        }
        Err(why) => Seen::Broken(why),
    }
}

/// Only a folder that is there can tell that the file is not: one that is gone or not mounted tells nothing.
fn missing(path: &Path) -> Seen {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => Seen::Missing,
        Ok(_) => Seen::Broken(format!(
            "{} cannot be read: {} is not a folder; put the folder back",
            path.display(),
            folder.display()
        )),
        Err(error) => Seen::Broken(format!(
            "{} cannot be read: its folder {} is not there ({error}); make or mount it",
            path.display(),
            folder.display()
        )),
    }
}

/// Understands the bytes of a policy file. `name` stands in messages.
///
/// # Errors
/// One sentence: file, line, what is wrong, and what to write instead.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Written, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count();
        format!("{name}:{line}: is not UTF-8 text; save it as UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = ImDocument::parse(text).map_err(|error| {
        let (line, what) = not_toml(text, &error);
        format!("{name}:{line}: is not TOML: {what}; write lines such as drain = \"graceful\"")
    })?;
    let at = |item: &Item, what: String| {
        let line = item.span().map_or(1, |span| line_of(text, span.start));
        format!("{name}:{line}: {what}")
    };
    let mut written = Written::default();
    for (key, item) in document.iter() {
        match key {
            "drain" => {
                let word = item.as_str().ok_or_else(|| {
                    at(
                        item,
                        format!("drain must be text, not {}: write \"graceful\", \"at-boundary\" or \"\"", kind(item)),
                    )
                })?;
                let word = word.trim().parse().map_err(|why: String| at(item, format!("drain: {why}")))?;
                // At the very end, `""` may be the beginning of `"""at-boundary"""`: silence, until a line ends.
                let cut = word == Drain::None && item.span().is_some_and(|span| span.end == text.len());
                written.drain = Some(word).filter(|_| !cut);
            }
            "reason" => {
                let words = item
                    .as_str()
                    .ok_or_else(|| at(item, format!("reason must be text in quotes, not {}", kind(item))))?;
                if words.chars().count() > REASON {
                    written.warnings.push(at(item, format!("reason is cut after {REASON} characters")));
                }
                written.reason = one_line(words);
            }
            "quarantine_cleared" => {
                let words = item.as_str().ok_or_else(|| {
                    at(item, format!("quarantine_cleared must be text in quotes, not {}", kind(item)))
                })?;
                written.quarantine_cleared = Some(one_line(words)).filter(|words| !words.is_empty());
            }
            "panel_token" => {
                let token = item
                    .as_str()
                    .ok_or_else(|| at(item, format!("panel_token must be text in quotes, not {}", kind(item))))?;
                written.panel_token = Some(Secret::new(token.to_owned()));
            }
            other => {
                if let Some(what) = meant_drain(other, item).filter(|_| !document.contains_key("drain")) {
                    return Err(at(item, what));
                }
                let shown: String = other.chars().take(40).collect();
                written.warnings.push(at(
                    item,
                    format!(
                        "unknown key {shown:?} is ignored; there are drain, reason, quarantine_cleared, panel_token"
                    ),
                ));
            }
        }
    }
    Ok(written)
}

/// An owner who wrote this believes that the machine is held back.
fn meant_drain(key: &str, item: &Item) -> Option<String> {
    let short = key.len() <= 12;
    if short && (shared::distance(&key.to_lowercase(), "drain") <= 2 || key.to_lowercase().starts_with("drain")) {
        return Some(format!("unknown key {key:?}: write drain"));
    }
    let inside = item.as_table_like().is_some_and(|table| table.contains_key("drain"));
    inside.then(|| format!("drain stands inside the table [{key}]: move it to the top of the file"))
}

/// One line of at most [`REASON`] characters, without control characters: it goes to terminals and tables.
pub(super) fn one_line(words: &str) -> String {
    let plain: String = words.chars().take(REASON).map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.trim().to_owned()
}

fn kind(item: &Item) -> &'static str {
    match item.type_name() {
        "integer" | "float" => "a number",
        "boolean" => "true or false",
        "array" | "array of tables" => "a list",
        "table" | "inline table" => "a table",
        "string" => "text",
        _ => "that",
    }
}

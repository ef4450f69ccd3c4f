//! A form that could not be taken, whole: the page that says why shows what it said and sends it once more, so that
//! nobody types a text twice. It stands in the guard, as the word of the form does: no page can forget it.

use super::fields::Fields;

/// More fields than any form of ours has with all that may be chosen.
const MOST: usize = 2_000;

/// What came with a write that has a form to show again.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    /// Where it went.
    pub(super) path: String,
    /// The word that the next one must say.
    pub(super) csrf: String,
    pub(super) fields: Fields,
}

/// The form as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) action: String,
    pub(super) csrf: String,
    /// What nobody types.
    pub(super) hidden: Vec<(String, String)>,
    pub(super) typed: Vec<Typed>,
}

/// One field that a person has filled in.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) name: String,
    pub(super) label: String,
    pub(super) value: String,
    /// Of several lines.
    pub(super) is_text: bool,
}

impl Sent {
    /// Only what our forms ask is sent back: the token of the door is never among it. `None`: so much that a form of
    /// ours did not say it; half of it would be worse than nothing.
    pub(super) fn kept(&self) -> Option<Kept> {
        let (mut hidden, mut typed) = (Vec::new(), Vec::new());
        for (name, value) in self.fields.pairs() {
            match label(name) {
                Some(label) if !value.trim().is_empty() => {
                    let is_text = matches!(name, "body" | "answer");
                    typed.push(Typed { name: name.to_owned(), label, value: value.replace("\r\n", "\n"), is_text });
                }
                None if !is_hidden(name) => {}
                Some(_) | None => hidden.push((name.to_owned(), value.to_owned())),
            }
            if hidden.len() + typed.len() > MOST {
                return None;
            }
        }
        Some(Kept { action: self.path.clone(), csrf: self.csrf.clone(), hidden, typed })
    }
}

/// What stands in front of a field that a person types into.
fn label(name: &str) -> Option<String> {
    Some(match name {
        "title" => "Title".to_owned(),
        "kind" => "Kind".to_owned(),
        "req" => "Comes from".to_owned(),
        "body" => "Text in Markdown".to_owned(),
        "answer" => "Answer".to_owned(),
        "reason" => "Reason".to_owned(),
        _ => format!("Note to choice {}", name.strip_prefix("note-")?.parse::<usize>().ok()?),
    })
}

/// Fields that are chosen, or that the page itself has written.
fn is_hidden(name: &str) -> bool {
    matches!(name, "priority" | "deps" | "once" | "seen" | "awaiting" | "back" | "choose" | "mode" | "force")
}

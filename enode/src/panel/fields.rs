//! What a form or an address says: names with values, in their order.

use std::sync::Arc;

/// The longest address that is come back to, in bytes: it stands in many forms of a page.
pub(super) const ADDRESS: usize = 4 << 10;

/// Pairs of a form that has passed the guard.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Arc<[(String, String)]>);

impl Fields {
    /// From `a=b&c=d`, percent-decoded.
    pub(super) fn read(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// All of it.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first value of a name; empty where it is not there.
    pub(super) fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Every value of a name.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let name = name.to_owned();
        self.0.iter().filter(move |(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// What is said of a group of options: `note-2=only at night`.
    pub(super) fn notes(&self) -> impl Iterator<Item = (usize, &str)> {
        let said = self.0.iter().filter(|(_, value)| !value.trim().is_empty());
        said.filter_map(|(name, value)| Some((name.strip_prefix("note-")?.parse().ok()?, value.as_str())))
    }

    /// Text of several lines: browsers send CR LF.
    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).replace("\r\n", "\n")
    }

    /// Where to go afterwards: a page of ours, or the board.
    pub(super) fn back(&self) -> &str {
        let back = self.get("back");
        let plain = back.len() <= ADDRESS && back.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        if plain && back.starts_with('/') && !back.starts_with("//") { back } else { "/" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_led_back_to_pages_of_this_panel_only() {
        for (back, to) in [
            ("/ticket/a?x=1", "/ticket/a?x=1"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("/a\r\nSet-Cookie: x", "/"),
            ("", "/"),
        ] {
            let form = form_urlencoded::Serializer::new(String::new()).append_pair("back", back).finish();
            assert_eq!(Fields::read(form.as_bytes()).back(), to, "{back:?}");
        }
    }
}

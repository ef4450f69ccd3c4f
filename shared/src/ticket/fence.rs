//! Fenced code in Markdown: what stands inside is text, whatever it looks like.

/// Follows a text line by line.
#[derive(Debug, Default)]
pub(super) struct Fence {
    open: Option<(char, usize)>,
}

impl Fence {
    /// Whether the next line is plain Markdown: neither inside of a fence nor one itself.
    pub(super) fn is_plain(&mut self, line: &str) -> bool {
        let bare = line.trim_start_matches(' ');
        let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'));
        let run = mark.map_or(0, |mark| bare.chars().take_while(|c| *c == mark).count());
        match (self.open, mark) {
            // Behind backticks no backtick follows, or it is code within a line.
            (None, Some(mark)) if run >= 3 && (mark == '~' || !bare[run..].contains('`')) => {
                self.open = Some((mark, run));
                false
            }
            (None, _) => true,
            (Some((open, len)), Some(mark)) if mark == open && run >= len && bare[run..].trim().is_empty() => {
                self.open = None;
                false
            }
            (Some(_), _) => false,
        }
    }

    /// The line that ends the fence which a text leaves open.
    pub(super) fn left_open(text: &str) -> Option<String> {
        let mut fence = Self::default();
        for line in text.split_inclusive('\n') {
            fence.is_plain(line);
        }
        fence.open.map(|(mark, len)| String::from(mark).repeat(len))
    }
}

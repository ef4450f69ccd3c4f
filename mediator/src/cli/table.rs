//! Tables without borders: words in columns that `awk` and people can read.

use comfy_table::{Cell, Color, ContentArrangement, Table, presets};

use super::output::Look;

/// A table with these column heads.
pub(crate) fn new(heads: &[&str], look: Look) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(heads.to_vec());
    if look.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// A cell whose text says how things stand, in the colour of that.
pub(crate) fn state(text: String) -> Cell {
    let colour = match text.split([' ', ',']).next().unwrap_or_default() {
        "SUCCEEDED" | "DONE" | "lendable" | "held" => Some(Color::Green),
        "RUNNING" | "VERIFYING" | "CLAIMED" | "leased" => Some(Color::Cyan),
        "QUEUED" | "WAITING" | "ASKED" | "draining" | "stopping" => Some(Color::Yellow),
        "FAILED" | "expired" | "failed" => Some(Color::Red),
        "SKIPPED" | "PENDING" | "vacuous" => Some(Color::DarkGrey),
        _ => None,
    };
    match colour {
        Some(colour) => Cell::new_owned(text).fg(colour),
        None => Cell::new_owned(text),
    }
}

/// What stands where there is nothing, so that columns can be counted.
pub(crate) fn or_dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

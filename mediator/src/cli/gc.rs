//! `gc`: on the mediator's own host, whether it serves or not.

use serde::Serialize;

use super::{
    admin::{Expect, store},
    exit::{Exit, Failure, Outcome, causes},
    output::{Format, Io},
    settings::Settings,
    table,
};
use crate::{
    clock::Clock,
    config::ByteSize,
    service::{self, gc::What},
    state,
};

/// What was removed, or would be, as it is printed.
#[derive(Serialize)]
struct Removed {
    dry_run: bool,
    runs: u64,
    events: u64,
    nodes: u64,
    record_files: u64,
    record_bytes: u64,
    stray_files: u64,
    stray_bytes: u64,
}

pub(crate) async fn gc(io: &mut Io, format: Format, what: What, settings: Settings<false>) -> Outcome {
    let loaded = settings.load()?;
    let config = &loaded.0;
    let store = store(io, &loaded, &Clock::system(), Expect::Used).await?;
    let failed = |text: String| Failure::refused(format!("cannot go on removing: {text}"));
    // Files of one fleet must not be measured against the rows of another.
    state::belongs_together(&store, &config.records_dir).await.map_err(|e| failed(format!("{e:#}")))?;
    let removed = service::gc::gc(&store, &config.records_dir, what).await;
    let removed = removed.map_err(|e| {
        failed(causes(&e)).advise("What was removed before this is gone, everything else is whole; run it again.")
    })?;
    let shown = Removed {
        dry_run: what.dry_run,
        runs: removed.runs,
        events: removed.events,
        nodes: removed.nodes,
        record_files: removed.records.files,
        record_bytes: removed.records.bytes,
        stray_files: removed.strays.files,
        stray_bytes: removed.strays.bytes,
    };
    match format {
        Format::Json => io.json(&shown)?,
        Format::Jsonl => io.json_line(&shown)?,
        Format::Table => {
            let mut table = table::new(&["WHAT", "COUNT", "SIZE"], io.look());
            let size = |bytes| ByteSize(bytes).to_string();
            table.add_row(["Runs and their Records", &shown.runs.to_string(), &size(shown.record_bytes)]);
            table.add_row(["events", &shown.events.to_string(), "-"]);
            if what.nodes {
                table.add_row(["nodes", &shown.nodes.to_string(), "-"]);
            }
            table.add_row(["files without a Run", &shown.stray_files.to_string(), &size(shown.stray_bytes)]);
            io.line(table)?;
        }
    }
    let nothing =
        shown.runs == 0 && shown.events == 0 && shown.record_files == 0 && shown.stray_files == 0 && shown.nodes == 0;
    io.note(match (what.dry_run, nothing) {
        (true, _) => "Nothing was removed (--dry-run).",
        (false, true) => "There was nothing to remove.",
        (false, false) => "Removed.",
    });
    Ok(Exit::Ok)
}

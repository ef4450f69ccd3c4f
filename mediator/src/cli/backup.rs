//! `backup` and `recover`: on the mediator's own host.

use std::path::Path;

use serde::Serialize;

use super::{
    admin::{Expect, store},
    exit::{Exit, Failure, Outcome, causes},
    output::{Format, Io},
    settings::Settings,
};
use crate::{clock::Clock, config::ByteSize, service, state};

#[derive(Serialize)]
struct Copied {
    database: bool,
    files: u64,
    bytes: u64,
}

pub(crate) async fn backup(io: &mut Io, format: Format, to: &Path, settings: Settings<false>) -> Outcome {
    let loaded = settings.load()?;
    let config = &loaded.0;
    let store = store(io, &loaded, &Clock::system(), Expect::Used).await?;
    let failed = |text: String| Failure::refused(format!("cannot make a backup: {text}"));
    state::belongs_together(&store, &config.records_dir).await.map_err(|e| failed(format!("{e:#}")))?;
    state::empty_copy(config, to).map_err(|e| failed(format!("{e:#}")))?;
    let copied = service::backup::backup(&store, &config.records_dir, to).await;
    let copied = copied
        .map_err(|e| failed(causes(&e)).advise(format!("What is in {} is not a backup; remove it.", to.display())))?;
    let shown = Copied { database: copied.database, files: copied.files.files, bytes: copied.files.bytes };
    match format {
        Format::Json => io.json(&shown)?,
        Format::Jsonl => io.json_line(&shown)?,
        Format::Table => io.line(format_args!(
            "{}{} of Runs, {}",
            if shown.database { "the database, " } else { "" },
            count(shown.files, "file"),
            ByteSize(shown.bytes)
        ))?,
    }
    if !copied.database {
        io.note("The database is not in it: dump it with pg_dump, before this.");
    }
    Ok(Exit::Ok)
}

/// "1 lease", "2 leases"
fn count(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

#[derive(Serialize)]
struct Recovered {
    leases: u64,
    apart: u64,
}

pub(crate) async fn recover(io: &mut Io, format: Format, settings: Settings<false>) -> Outcome {
    let loaded = settings.load()?;
    let config = &loaded.0;
    // Nobody may begin to serve while this goes on.
    let failed = |text: String| Failure::refused(format!("cannot recover: {text}"));
    let _state = state::claim(&config.state_dir).map_err(|e| failed(format!("{e:#}")))?;
    let store = store(io, &loaded, &Clock::system(), Expect::Stopped).await?;
    state::belongs_together(&store, &config.records_dir).await.map_err(|e| failed(format!("{e:#}")))?;
    let done = service::backup::recover(&store, &config.records_dir).await;
    let done = done.map_err(|e| failed(causes(&e)))?;
    let shown = Recovered { leases: done.leases, apart: done.apart };
    match format {
        Format::Json => io.json(&shown)?,
        Format::Jsonl => io.json_line(&shown)?,
        Format::Table => io.line(format_args!(
            "{} ended; files of {} that the database does not know put apart",
            count(shown.leases, "lease"),
            count(shown.apart, "Run")
        ))?,
    }
    Ok(Exit::Ok)
}

//! What is done on the mediator's own host: `serve`, `config show`, and the way to its database.

use std::os::unix::fs::DirBuilderExt;

use super::{
    args::Config as ConfigCommand,
    exit::{Exit, Failure, Outcome, causes},
    output::{Format, Io, clean},
    settings::Settings,
    table,
};
use crate::{
    clock::Clock,
    config::{Config, redact},
    store::Store,
};

pub(crate) async fn serve(settings: Settings<true>, new_database: bool) -> Outcome {
    let (config, _) = settings.load()?;
    let failed = |error: &anyhow::Error| Failure::refused(causes(error.as_ref()));
    crate::app::init_logging(&config).map_err(|e| failed(&e))?;
    Box::pin(crate::app::serve(config, new_database)).await.map_err(|e| failed(&e))?;
    Ok(Exit::Ok)
}

pub(crate) fn config(io: &mut Io, format: Format, command: ConfigCommand) -> Outcome {
    let ConfigCommand::Show { settings } = command;
    let (_, shown) = settings.load()?;
    io.list(format, &shown, &shown, |colour| {
        let mut table = table::new(&["KEY", "VALUE", "FROM", "WHAT IT IS"], colour);
        for one in &shown {
            table.add_row([one.key, &table::or_dash(clean(&one.value)), &clean(&one.source), one.about]);
        }
        table
    })?;
    Ok(Exit::Ok)
}

/// The database of the configuration in force, made when it is not there yet.
pub(super) async fn store(io: &mut Io, config: &Config, clock: &Clock, new_database: bool) -> Outcome<Store> {
    let database = redact(&config.database);
    let known = crate::state::check_database(config, new_database).await;
    known.map_err(|e| Failure::refused(format!("{e:#}")))?;
    // As `serve` makes it: nobody else has business in there.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.state_dir)
        .map_err(|e| Failure::io(format_args!("cannot make {}", config.state_dir.display()), &e))?;
    let store = Store::open(&config.database, clock.clone()).await;
    let store = store.map_err(|e| {
        Failure::refused(format!("cannot open {}: {}", clean(&database), causes(&e)))
            .advise("Run this as the user that `mediator serve` runs as, with the same --config or --state-dir.")
    })?;
    io.note(format_args!("Using {}", clean(&database)));
    Ok(store)
}

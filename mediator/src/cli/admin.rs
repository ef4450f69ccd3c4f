//! What is done on the mediator's own host: `serve`, `config show`, and the way to its database.

use super::{
    args::Config as ConfigCommand,
    exit::{Exit, Failure, Outcome, causes},
    output::{Format, Io, clean},
    settings::Settings,
    table,
};
use crate::{
    clock::Clock,
    config::{Config, Shown, redact},
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
    io.list(format, &shown, &shown, |look| {
        let mut table = table::new(&["KEY", "VALUE", "FROM", "WHAT IT IS"], look);
        for one in &shown {
            table.add_row([one.key, &table::or_dash(clean(&one.value)), &clean(&one.source), one.about]);
        }
        table
    })?;
    Ok(Exit::Ok)
}

/// What a command expects of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// A mediator serves on it, or has; it is used as it is.
    Used,
    /// The same, and no mediator serves: it is brought forward.
    Stopped,
    /// The same; and with `new_database` it is made where there is none: what the first start needs may be put there
    /// before it, by who says so. By itself it would be a token that no mediator knows.
    Any { new_database: bool },
}

/// The database of the configuration in force.
pub(super) async fn store(
    io: &mut Io,
    (config, shown): &(Config, Vec<Shown>),
    clock: &Clock,
    expect: Expect,
) -> Outcome<Store> {
    let database = redact(&config.database);
    let new_database = matches!(expect, Expect::Any { new_database: true });
    let known = crate::state::check_database(config, new_database).await;
    known.map_err(|e| Failure::refused(format!("{e:#}")))?;
    let cannot_open = |e| {
        Failure::refused(format!("cannot open {}: {}", clean(&database), causes(&e)))
            .advise("Run this as the user that `mediator serve` runs as, with the same --config or --state-dir.")
    };
    let there = Store::is_there(&config.database).await.map_err(cannot_open)?;
    if !there && !new_database {
        let from = |key: &str| shown.iter().find(|it| it.key == key).map_or("", |it| it.source.as_str());
        // Where nothing else is said the database lies in the state directory.
        let key = if from("database") == "default" { "state_dir" } else { "database" };
        let first = match expect {
            Expect::Any { .. } => " Before the first start of a mediator, --new-database makes one.",
            Expect::Used | Expect::Stopped => "",
        };
        return Err(Failure::refused(format!(
            "there is no database of a mediator at {} ({key} comes from: {}); nothing was made",
            clean(&database),
            clean(from(key))
        ))
        .advise(format!(
            "Give the --config, --state-dir (MEDIATOR_STATE_DIR) or --database that `mediator serve` has; `mediator \
             config show` prints what is in force.{first}"
        )));
    }
    // As `serve` makes it: nobody else has business in there.
    crate::state::make_private(&config.state_dir)
        .map_err(|e| Failure::io(format_args!("cannot make {}", config.state_dir.display()), &e))?;
    let store = match expect {
        Expect::Any { .. } if !there => Store::open(&config.database, clock.clone()).await,
        Expect::Stopped => Store::open(&config.database, clock.clone()).await,
        Expect::Any { .. } | Expect::Used => Store::open_as_it_is(&config.database, clock.clone()).await,
    };
    let store = store.map_err(cannot_open)?;
    if there {
        io.note(format_args!("Using {}", clean(&database)));
    } else {
        io.note(format_args!(
            "Made {}: no mediator has served there yet. One with another --config, --state-dir or --database does not \
             know what is in it.",
            clean(&database)
        ));
    }
    Ok(store)
}

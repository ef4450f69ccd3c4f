//! The server's configuration keys as flags, made from the table of keys so that none is forgotten.

use std::{path::PathBuf, sync::LazyLock};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::exit::{Failure, Outcome};
use crate::config::{Config, KEYS, Key, Layers, Shown, load};

/// `--config` and a flag for each key: all of them, or those that say where the database is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings<const ALL: bool> {
    config: Option<PathBuf>,
    flags: Vec<(&'static str, String)>,
}

/// What a command needs that only looks into the database.
const STORE: [&str; 3] = ["state_dir", "records_dir", "database"];

/// Each key with its flag: `lease.max_per_run` is `--lease-max-per-run`.
static FLAGS: LazyLock<Vec<(&'static Key, String)>> =
    LazyLock::new(|| KEYS.iter().map(|key| (key, key.name.replace(['.', '_'], "-"))).collect());

fn keys(all: bool) -> impl Iterator<Item = &'static (&'static Key, String)> {
    FLAGS.iter().filter(move |(key, _)| all || STORE.contains(&key.name))
}

impl<const ALL: bool> Settings<ALL> {
    /// The configuration in force, with where each value comes from.
    pub(crate) fn load(self) -> Outcome<(Config, Vec<Shown>)> {
        load(&Layers::of_process(self.config, self.flags)).map_err(|errors| {
            Failure::refused(format!("the configuration is not valid\n{errors}"))
                .advise("Nothing was started or changed. `mediator serve --help` lists every key with its default.")
        })
    }
}

impl<const ALL: bool> Args for Settings<ALL> {
    fn augment_args(mut command: Command) -> Command {
        command = command.next_help_heading("Configuration").arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Configuration file (TOML), over /etc/mediator/config.toml and the user's own"),
        );
        for (key, flag) in keys(ALL) {
            let mut help = key.about.to_owned();
            if !key.default.is_empty() {
                help.push_str(&format!(" [default: {}]", key.default));
            }
            let mut arg = Arg::new(key.name).long(flag.as_str()).value_name("VALUE").help(help);
            if matches!(key.default, "true" | "false") {
                arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
            }
            command = command.arg(arg);
        }
        command.next_help_heading(None::<&str>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const ALL: bool> FromArgMatches for Settings<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value =
            |(key, _): &'static (&'static Key, String)| Some((key.name, matches.get_one::<String>(key.name)?.clone()));
        Ok(Self { config: matches.get_one("config").cloned(), flags: keys(ALL).filter_map(value).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

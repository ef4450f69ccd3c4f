//! What the command line offers, word for word, and what it makes of odd words.

use clap::{CommandFactory, Parser};

use super::{args::Cli, init::template};
use crate::config::{Config, Layers, Need};

fn help(path: &[&str]) -> String {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut at = &mut command;
    for name in path {
        at = at.find_subcommand_mut(name).unwrap();
    }
    at.render_long_help().to_string()
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn help_says_what_there_is() {
    insta::assert_snapshot!("help", help(&[]));
    insta::assert_snapshot!("help_drain", help(&["drain"]));
    insta::assert_snapshot!("help_init", help(&["init"]));
    insta::assert_snapshot!("help_status", help(&["status"]));
}

#[test]
fn odd_words_are_refused_with_what_instead() {
    for (words, want) in [
        (&["drain", "--mode", "now"][..], "possible values: graceful, at-boundary"),
        (&["drain", "--timeout", "10m"], "--wait"),
        (&["drain", "--wait", "--timeout", "10"], "write a number with its unit"),
        (&["status", "--output", "yaml"], "possible values: table, json"),
        (&["undrain", "--reason", "x"], "unexpected argument"),
        (&["tickets", "work", "--poll", "1h"], "write a time from 10ms to 5s"),
        (&["tickets", "work", "--poll", "0s"], "write a time from 10ms to 5s"),
        (&["tickets", "work", "--poll", "5"], "write a number with its unit"),
        (&[], "Usage"),
    ] {
        let error = Cli::try_parse_from(std::iter::once(&"enode").chain(words)).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{words:?}");
        assert!(error.to_string().contains(want), "{words:?}: {error}");
    }
}

#[test]
fn what_init_writes_can_be_loaded() {
    let dir = tempfile::tempdir().unwrap();
    for mediator in ["http://127.0.0.1:7070", "https://far:7070"] {
        let path = dir.path().join("yard.toml");
        std::fs::write(&path, template("yard", mediator)).unwrap();
        std::fs::write(dir.path().join("yard.token"), "t").unwrap();
        std::fs::write(dir.path().join("ca.crt"), "p").unwrap();
        let config = Config::load(&Layers { config: Some(path), ..Layers::default() }, Need::All).unwrap();
        assert_eq!((config.name.as_str(), config.capabilities[0].name.as_str()), ("yard", "build"));
        assert_eq!(config.mediator, [mediator]);
    }
}

/// The comments show the defaults: taken together and uncommented they change nothing.
#[test]
fn the_defaults_that_init_shows_are_the_defaults() {
    let text = template("yard", "http://127.0.0.1:7070");
    let (head, tail) = text.split_once("# What this machine offers.").unwrap();
    let shown: Vec<_> =
        tail.lines().filter_map(|line| line.strip_prefix("#   ")).filter(|line| line.contains(" = ")).collect();
    assert_eq!(shown.len(), 9, "{shown:?}");
    let tables = tail.split_once("#\n# Do not lend").unwrap().1;
    let tables: Vec<_> = tables
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.starts_with('[') || line.contains(" = ") && !line.contains("; "))
        .filter(|line| !line.contains("(0 = never)"))
        .collect();
    assert_eq!(tables.len(), 5, "{tables:?}");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("yard.token"), "t").unwrap();
    let load = |text: String| {
        std::fs::write(dir.path().join("yard.toml"), text).unwrap();
        let layers = Layers { config: Some(dir.path().join("yard.toml")), ..Layers::default() };
        let shown = Config::load(&layers, Need::All).unwrap().shown();
        shown.into_iter().map(|(key, value, _)| (key, value)).filter(|(key, _)| *key != "state_dir").collect::<Vec<_>>()
    };
    assert_eq!(load(format!("{head}\n{}\n{}\n", shown.join("\n"), tables.join("\n"))), load(head.to_owned()));
}

#[test]
fn the_harness_that_init_shows_can_be_used() {
    let text = template("yard", "http://127.0.0.1:7070");
    let (head, tail) = text.split_once("# Coding agents").unwrap();
    let shown = tail.split_once("#\n# Do not lend").unwrap().0.lines().filter_map(|line| line.strip_prefix("# "));
    let shown: Vec<_> = shown.filter(|line| line.starts_with('[') || line.contains(" = ")).collect();
    assert_eq!(shown.len(), 5, "{shown:?}");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("yard.token"), "t").unwrap();
    std::fs::write(dir.path().join("yard.toml"), format!("{head}\n{}\n", shown.join("\n"))).unwrap();
    let layers = Layers { config: Some(dir.path().join("yard.toml")), ..Layers::default() };
    let config = Config::load(&layers, Need::All).unwrap();
    assert_eq!(config.harnesses["default"].pass_env, ["MY_AGENT_KEY"]);
}

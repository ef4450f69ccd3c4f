//! The rules of `ARCHITECTURE.md`, checked on the source text.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file below a folder, with its path from the root.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The code of a file without its comments and its unit tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Modules that are compiled for tests only.
const TEST_SUPPORT: [&str; 2] = ["mediator/src/service/bench.rs", "mediator/src/service/sample.rs"];

/// Fails for each file of `folder` that says `word` outside of `allowed` paths.
fn only_in(folder: &str, word: &str, allowed: &[&str]) {
    let offenders: Vec<String> = sources(folder)
        .into_iter()
        .filter(|(name, _)| !name.contains("tests") && !TEST_SUPPORT.contains(&name.as_str()))
        .filter(|(name, text)| !allowed.iter().any(|it| name.starts_with(it)) && code(text).contains(word))
        .map(|(name, _)| name)
        .collect();
    assert!(offenders.is_empty(), "{word} belongs into {allowed:?}, not into {offenders:?}");
}

#[test]
fn shared_is_pure() {
    for word in
        ["std::fs", "std::net", "std::env", "std::thread", "tokio", "sqlx", "tonic", "SystemTime", "Instant", "rand::"]
    {
        only_in("shared/src", word, &[]);
    }
    let manifest = std::fs::read_to_string(root().join("shared/Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("[dev-dependencies]").next().unwrap();
    let names: BTreeSet<&str> = dependencies
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|it| !it.is_empty())
        .collect();
    let pure = BTreeSet::from([
        "jiff",
        "schemars",
        "serde",
        "serde_json",
        "serde-saphyr",
        "sha2",
        "thiserror",
        "unicode-normalization",
    ]);
    let more: Vec<_> = names.difference(&pure).collect();
    assert!(more.is_empty(), "is {more:?} pure? Then add it here");
}

#[test]
fn each_library_stays_in_its_room() {
    only_in("mediator/src", "sqlx", &["mediator/src/store/"]);
    only_in("mediator/src", "tonic::", &["mediator/src/grpc/", "mediator/src/cli/"]);
    only_in("mediator/src", "axum::", &["mediator/src/http/", "mediator/src/grpc/mod.rs"]);
    only_in("mediator/src", "proto::", &["mediator/src/grpc/", "mediator/src/cli/"]);
    only_in("mediator/src", "clap::", &["mediator/src/cli/", "mediator/src/main.rs"]);
    let wire = [
        "enode/src/session/",
        "enode/src/heartbeat.rs",
        "enode/src/mediators.rs",
        "enode/src/cli/",
        "enode/src/tickets/client.rs",
    ];
    only_in("enode/src", "tonic", &wire);
    for library in ["axum::", "hyper::", "askama::"] {
        only_in("enode/src", library, &["enode/src/panel/"]);
    }
}

#[test]
fn edges_call_services_and_the_two_programs_do_not_know_each_other() {
    // What pages show of the store they get from the use case that reads it.
    only_in("mediator/src/grpc", "crate::store", &[]);
    only_in("mediator/src/http", "crate::store", &[]);
    only_in("mediator/src/grpc", "begin_fleet", &[]);
    only_in("mediator/src/http", "begin_fleet", &[]);
    only_in("mediator/src", "begin_fleet", &["mediator/src/store/", "mediator/src/writer.rs"]);
    only_in("mediator/src", "enode::", &[]);
    only_in("enode/src", "mediator::", &[]);
}

#[test]
fn only_app_spawns_tasks_that_outlive_a_call() {
    // `task.rs` sees what a call began through to its end where the caller is gone; what it runs ends by itself.
    let spawn = ["mediator/src/app.rs", "mediator/src/cli/", "mediator/src/task.rs"];
    only_in("mediator/src", "tokio::spawn(", &spawn);
    let sees_through = ["mediator/src/auth/keeper.rs", "mediator/src/service/ready.rs", "mediator/src/store/mod.rs"];
    only_in("mediator/src", "seen_through(", &[&sees_through[..], &["mediator/src/task.rs"]].concat());
    // `local.rs` answers each question on the owner's socket by itself: a reader that hangs must not stop the next.
    only_in("enode/src", "tokio::spawn(", &["enode/src/app.rs", "enode/src/local.rs"]);
}

#[test]
fn files_stay_small() {
    let mut lengths: Vec<(usize, String)> = ["proto/src", "shared/src", "mediator/src", "enode/src", "tests"]
        .iter()
        .flat_map(|folder| sources(folder))
        .map(|(name, text)| (text.lines().count(), name))
        .collect();
    lengths.sort();
    let long: Vec<_> = lengths.iter().filter(|(lines, _)| *lines > 600).collect();
    assert!(long.is_empty(), "above 600 lines: {long:?}");
    // Tests repeat themselves on purpose, and are read one case at a time.
    lengths.retain(|(_, name)| !name.contains("tests"));
    let median = lengths[lengths.len() / 2].0;
    assert!(median <= 140, "the median file has {median} lines");
}

#[test]
fn migrations_come_in_pairs() {
    let names = |engine: &str| -> BTreeSet<String> {
        std::fs::read_dir(root().join("migrations").join(engine))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    assert_eq!(names("sqlite"), names("postgres"));
    assert!(!names("sqlite").is_empty());
}

#[test]
fn a_lease_is_deleted_and_a_node_opened_in_one_place_each() {
    let mut wakes = 0;
    for (name, text) in sources("shared/src/domain") {
        let code = code(&text);
        assert!(name.ends_with("/fleet.rs") || !code.contains("leases.remove"), "{name} deletes a lease by itself");
        wakes += code.matches("cx.wake(Wake::AdvertOpened").count();
    }
    assert_eq!(wakes, 1);
}

#[test]
fn the_project_names_no_machine_of_its_makers() {
    let listed = std::process::Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    for name in String::from_utf8(listed.stdout).unwrap().lines() {
        let Ok(text) = std::fs::read_to_string(root().join(name)) else { continue };
        for word in [concat!("/wo", "rk/main"), concat!("/wo", "rk/shared"), concat!("..", "/shared/")] {
            assert!(!text.contains(word), "{name} names {word}");
        }
    }
}

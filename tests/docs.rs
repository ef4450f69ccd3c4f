//! What the documentation says is there: commands, flags, configuration keys, units.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use tests::mediator::{binary, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const PAGES: [&str; 10] = [
    "README.md",
    "docs/contract.md",
    "docs/drain.md",
    "docs/operating.md",
    "docs/panel.md",
    "docs/performance.md",
    "docs/public-cases.md",
    "docs/testing.md",
    "docs/ticket-cases.md",
    "docs/tickets.md",
];

/// Every `mediator …` and `enode …` that a page shows as code: program, subcommand, long flags.
fn commands() -> BTreeSet<(String, String, String)> {
    let mut found = BTreeSet::new();
    for page in PAGES {
        let text = read(page);
        let spans = text.split('`').skip(1).step_by(2).map(str::to_owned);
        let blocks = text.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned);
        for code in spans.chain(blocks) {
            let code = code.split(" #").next().unwrap().replace(" | ", " ");
            let mut words = code.split_whitespace();
            let Some(program @ ("mediator" | "enode")) = words.next() else { continue };
            let words: Vec<&str> = words.collect();
            let Some(sub) = words.first().filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
            else {
                continue;
            };
            found.insert((program.to_owned(), (*sub).to_owned(), String::new()));
            for flag in words.iter().filter_map(|word| word.trim_matches(['[', ']']).strip_prefix("--")) {
                let flag = flag.split('=').next().unwrap();
                found.insert((program.to_owned(), (*sub).to_owned(), flag.to_owned()));
            }
        }
    }
    found
}

fn help(program: &str, args: &[&str]) -> String {
    run(Command::new(binary(program)).args(args).arg("--help")).ok().stdout
}

#[test]
fn every_command_and_flag_that_a_page_shows_exists() {
    let commands = commands();
    assert!(commands.len() > 20, "the pages show more than {commands:?}");
    for (program, sub, flag) in commands {
        let mut text = help(&program, &[&sub]);
        for nested in [
            "create", "list", "revoke", "init", "issue", "show", "lint", "example", "new", "work", "claim", "done",
            "unassign", "answer", "reap", "check",
        ] {
            if text.contains(&format!("\n  {nested} ")) {
                text.push_str(&help(&program, &[&sub, nested]));
            }
        }
        assert!(flag.is_empty() || text.contains(&format!("--{flag}")), "{program} {sub} has no --{flag}:\n{text}");
    }
}

#[test]
fn the_sample_configuration_of_the_mediator_has_every_key_with_its_default() {
    let shown = |args: &[&str]| {
        let home = tempfile::tempdir().unwrap();
        let ran = run(Command::new(binary("mediator"))
            .args(["config", "show", "--output", "json"])
            .args(args)
            .env_clear()
            .env("HOME", home.path())
            .env("MEDIATOR_STATE_DIR", "/var/lib/mediator"));
        ran.ok().json()
    };
    let sample = root().join("deploy/mediator.toml");
    let (plain, with_sample) = (shown(&[]), shown(&["--config", sample.to_str().unwrap()]));
    let text = read("deploy/mediator.toml");
    for key in plain.as_array().unwrap() {
        let name = key["key"].as_str().unwrap();
        let last = name.rsplit('.').next().unwrap();
        assert!(text.contains(&format!("{last} = ")), "deploy/mediator.toml does not mention {name}");
        let in_sample = with_sample.as_array().unwrap().iter().find(|it| it["key"] == name).unwrap();
        assert_eq!(in_sample["value"], key["value"], "{name}");
    }
}

#[test]
fn the_sample_configuration_of_the_agent_is_accepted() {
    let ran =
        run(Command::new(binary("enode")).args(["config", "show", "--config"]).arg(root().join("deploy/enode.toml")));
    // The token and the authority's certificate are not beside the sample; nothing else may be said of it.
    assert!(ran.stderr.lines().all(|line| line.contains("no such file")), "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn the_units_start_what_there_is() {
    for (unit, program) in [("deploy/mediator.service", "mediator"), ("deploy/enode.service", "enode")] {
        let text = read(unit);
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/")).unwrap();
        let mut words = start.split(' ');
        assert_eq!(words.next(), Some(program));
        help(program, &[words.next().unwrap()]);
        assert!(text.contains("Type=notify"), "both programs tell systemd when they are ready");
    }
}

#[test]
fn a39_an_agent_that_ended_as_it_was_told_is_not_started_again() {
    // 0 is what `enode run` ends with after SIGTERM; an agent whose owner drained it does not end at all.
    assert!(read("deploy/enode.service").lines().any(|line| line == "Restart=on-failure"));
}

/// Every test whose name begins with the id of a case, with its ids.
fn tests_of_cases() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        ["tests", "shared", "mediator", "enode"].iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                for line in std::fs::read_to_string(&path).unwrap().lines() {
                    let line = line.trim_start();
                    let line = line.strip_prefix("async ").unwrap_or(line);
                    let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) else { continue };
                    for id in name.split('_').map_while(case_id) {
                        found.insert((id, name.to_owned()));
                    }
                }
            }
        }
    }
    found
}

/// `a01` is A01. The letter says of which page: R of `docs/ticket-cases.md`, all others of `docs/public-cases.md`.
fn case_id(word: &str) -> Option<String> {
    let (letter, digits) = word.split_at_checked(1)?;
    let is_id = ["a", "b", "c", "d", "e", "r"].contains(&letter)
        && digits.len() == 2
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then(|| word.to_uppercase())
}

#[test]
fn public_cases_and_their_tests_name_each_other() {
    let page = read("docs/public-cases.md");
    let existing = tests_of_cases();
    let mut named = BTreeSet::new();
    let mut cases = 0;
    for line in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        assert_eq!(cells.len(), 5, "id, thread, what went wrong, what ours does, test: {line}");
        let (id, priority) = cells[0].trim_start_matches("| ").split_once(' ').unwrap();
        cases += 1;
        let mut own = false;
        for name in tests_named_in(line) {
            own |= existing.contains(&(id.to_owned(), name.clone()));
            named.insert(name);
        }
        assert!(own || priority != "P1", "no test of {id} is named after it");
    }
    assert!(cases > 70, "the page has {cases} cases");
    for (id, name) in existing.into_iter().filter(|(id, _)| !id.starts_with('R')) {
        assert!(named.contains(&name), "docs/public-cases.md does not name {name}, a test of {id}");
    }
}

/// The tests that a line of a page names; each is where the line says.
fn tests_named_in(line: &str) -> Vec<String> {
    let named = line.split('`').skip(1).step_by(2).filter_map(|span| span.split_once("::"));
    let checked = |(file, name): (&str, &str)| {
        assert!(read(file).contains(&format!("fn {name}(")), "{file} has no test {name}: {line}");
        name.to_owned()
    };
    named.map(checked).collect()
}

#[test]
fn ticket_cases_and_their_tests_name_each_other() {
    let page = read("docs/ticket-cases.md");
    let (existing, mut ids, mut named) = (tests_of_cases(), Vec::new(), BTreeSet::new());
    for line in page.lines().filter(|line| line.starts_with("| R")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, _, ours, _] = cells.as_slice() else { panic!("id, case, what ours does, tests: {line}") };
        let tests = tests_named_in(line);
        let applies = !ours.starts_with("Does not apply: ");
        assert_eq!(!tests.is_empty(), applies, "a test, or why the case does not apply: {line}");
        let own = |name: &String| existing.contains(&((*id).to_owned(), name.clone()));
        assert!(!applies || tests.iter().any(own), "no test of {id} is named after it");
        ids.push((*id).to_owned());
        named.extend(tests.into_iter().map(|name| ((*id).to_owned(), name)));
    }
    assert_eq!(ids, (1..=48).map(|number| format!("R{number:02}")).collect::<Vec<_>>());
    for (id, name) in existing.into_iter().filter(|(id, _)| id.starts_with('R')) {
        assert!(named.iter().any(|(_, it)| *it == name), "docs/ticket-cases.md does not name {name}, a test of {id}");
    }
}

#[test]
fn example_contracts_are_valid() {
    for folder in ["examples/contracts", "examples/tickets/templates"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            run(Command::new(binary("mediator")).args(["contract", "lint"]).arg(path)).ok();
        }
    }
}

#[test]
fn the_example_queue_has_no_fault_but_the_answer_that_it_waits_for() {
    let queue = root().join("examples/tickets/queue");
    let ran = run(Command::new(binary("enode")).args(["tickets", "check", "--queue"]).arg(&queue));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "nothing is wrong\n"), "{ran:?}");
    let ran = run(Command::new(binary("enode")).args(["tickets", "list", "--output", "json", "--queue"]).arg(&queue));
    let page = ran.ok().json();
    let states: Vec<_> = page["tickets"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["open", "deps_wait", "answer_wait", "open"]);
}

#[test]
fn every_contract_that_the_page_shows_is_valid() {
    let page = read("docs/contract.md");
    let shown: Vec<&str> = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(shown.len() >= 6, "{} examples", shown.len());
    let home = tempfile::tempdir().unwrap();
    for text in shown {
        let path = home.path().join("shown.yaml");
        std::fs::write(&path, text).unwrap();
        let ran = run(Command::new(binary("mediator")).args(["contract", "lint"]).arg(path));
        assert_eq!(ran.code, 0, "{text}\n{ran:?}");
    }
    // And every key of the language is on the page.
    let schema = run(Command::new(binary("mediator")).args(["contract", "schema"])).ok().json();
    let mut keys: BTreeSet<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    for part in ["Step", "Agent", "Ask", "Acquire", "Loop", "Until", "Require", "Condition"] {
        let fields = schema["$defs"][part]["properties"].as_object();
        keys.extend(fields.unwrap_or_else(|| panic!("{part} in the schema")).keys().cloned());
    }
    for key in keys {
        let is_there =
            ["`KEY`", "`KEY:", "KEY: ", "`{KEY"].iter().any(|form| page.contains(&form.replace("KEY", &key)));
        assert!(is_there, "docs/contract.md does not mention {key}");
    }
}

#[test]
fn links_lead_somewhere() {
    for page in PAGES {
        for name in read(page).split('`').skip(1).step_by(2) {
            let is_ours = ["docs/", "deploy/", "proto/", "examples/"].iter().any(|folder| name.starts_with(folder));
            // STEM.md is any ticket, and $IN a step's own folder.
            let is_any = ["STEM", "AWAITING", "$"].iter().any(|word| name.contains(word));
            let is_page = name.ends_with(".md") && !name.contains(' ') && !is_any;
            if is_ours || is_page {
                assert!(root().join(name).exists(), "{page} names {name}, which is not there");
            }
        }
    }
}

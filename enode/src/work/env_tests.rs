use std::path::PathBuf;

use shared::{Nonce, RunId, StepName};

use super::*;
use crate::session::core::StepKey;

fn step(argv: &[&str], env: &[(&str, &str)]) -> WorkStep {
    WorkStep {
        key: StepKey { run: RunId::new("r1").unwrap(), seq: 3, attempt: 2 },
        step: StepName::new("test").unwrap(),
        round: 1,
        nonce: Nonce::from_bits(1),
        rev: 1,
        argv: argv.iter().map(ToString::to_string).collect(),
        env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        timeout: None,
        inputs: Vec::new(),
        work_id: "gerrit:I5c9".to_owned(),
        first_on_node: true,
        agent: None,
    }
}

fn room() -> Room {
    Room {
        run: PathBuf::from("/w/run"),
        input: PathBuf::from("/w/in"),
        out: PathBuf::from("/w/out"),
        cache: PathBuf::from("/c"),
        task: PathBuf::from("/w/task"),
    }
}

fn make(step: &WorkStep) -> Result<Program, ProgramError> {
    let own = |name: &str| (name == "PATH").then(|| OsString::from("/usr/bin"));
    program(step, &NodeId::new("yard/0").unwrap(), &room(), &["PATH".into(), "LANG".into()], own)
}

fn get<'a>(program: &'a Program, name: &str) -> Option<&'a str> {
    program.env.get(OsStr::new(name)).and_then(|it| it.to_str())
}

#[test]
fn a_program_sees_the_agents_names_and_what_may_pass() {
    let program = make(&step(&["make"], &[("REPO", "https://x")])).unwrap();
    for (name, value) in [
        ("IN", "/w/in"),
        ("OUT", "/w/out"),
        ("CACHE", "/c"),
        ("ATTEMPT", "2"),
        ("ROUND", "1"),
        ("RUN_ID", "r1"),
        ("STEP_ID", "test"),
        ("NODE_ID", "yard/0"),
        ("WORK_ID", "gerrit:I5c9"),
        ("REPO", "https://x"),
        ("PATH", "/usr/bin"),
    ] {
        assert_eq!(get(&program, name), Some(value), "{name}");
    }
    assert_eq!(program.env.len(), 11, "and nothing else");
}

#[test]
fn every_name_of_the_grammar_has_a_value() {
    let names = agent_names(&step(&["x"], &[]), &NodeId::new("yard").unwrap(), &room());
    for name in AGENT_NAMES {
        assert!(names.get(name).is_some_and(|value| !value.is_empty()), "{name}");
    }
}

#[test]
fn arguments_see_everything_and_values_see_each_other() {
    let step = step(&["tool", "$OUT/x", "${DIR}/$$HOME"], &[("DIR", "$BASE/d"), ("BASE", "$IN"), ("OUT", "no")]);
    let program = make(&step).unwrap();
    assert_eq!(program.argv, ["tool", "/w/out/x", "/w/in/d/$HOME"]);
    assert_eq!(get(&program, "OUT"), Some("/w/out"), "the agent's names win");
}

#[test]
fn the_contract_wins_over_what_is_passed() {
    assert_eq!(get(&make(&step(&["x"], &[("PATH", "/opt")])).unwrap(), "PATH"), Some("/opt"));
}

#[test]
fn what_cannot_be_expanded_says_where() {
    let said = |step: &WorkStep| make(step).unwrap_err().to_string();
    assert!(said(&step(&["x", "$NOBODY"], &[])).starts_with("run[1]: $NOBODY is not known"));
    assert!(said(&step(&["x"], &[("A", "$NOBODY")])).starts_with("env.A: $NOBODY"));
    assert_eq!(said(&step(&["x"], &[("A", "$B"), ("B", "$A")])), "env.A: it refers to itself");
    assert_eq!(said(&step(&[], &[])), "the step names no program");
    assert_eq!(said(&step(&[""], &[])), "the step names no program");
}

#[test]
fn what_would_grow_without_end_is_refused_by_name() {
    let tenfold = |name: &str| format!("${name}").repeat(10);
    // Each is ten times the one before it, and the last one ninety megabytes.
    let mut env = vec![("A0".to_owned(), "x".repeat(900))];
    env.extend((1..6).map(|n| (format!("A{n}"), tenfold(&format!("A{}", n - 1)))));
    let said = |argv: &[&str], env: &[(String, String)]| {
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        make(&step(argv, &env)).unwrap_err().to_string()
    };
    assert_eq!(said(&["x"], &env), "env.A4: it expands to more than 1048576 bytes");
    // In the arguments, one by one and together.
    let big = [("BIG".to_owned(), "x".repeat(600_000))];
    assert_eq!(said(&["x", "$BIG$BIG"], &big), "run[1]: it expands to more than 1048576 bytes");
    assert_eq!(
        said(&["x", "$BIG", "$BIG"], &big),
        "run[2]: it expands to more than 1048576 bytes, with what stands before it"
    );
    let both = [big[0].clone(), ("BOTH".to_owned(), "$BIG".to_owned())];
    assert_eq!(said(&["x"], &both), "env.BOTH: it expands to more than 1048576 bytes, with what stands before it");
    // What stays small is found out in no time, too: each value is made once.
    let mut env = vec![("B00".to_owned(), String::new())];
    env.extend((1..30).map(|n| (format!("B{n:02}"), tenfold(&format!("B{:02}", n - 1)))));
    let names: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(get(&make(&step(&["x"], &names)).unwrap(), "B29"), Some(""));
    // And no chain is deep enough to end the agent.
    let mut chain = vec![("C0".to_owned(), String::new())];
    chain.extend((1..=100_000).map(|n| (format!("C{n}"), format!("$C{}", n - 1))));
    assert!(said(&["x"], &chain).ends_with("it refers to others more than 32 deep"));
}

#[test]
fn a_program_with_a_slash_is_relative_to_the_runs_folder() {
    let run = Path::new("/w/run");
    assert_eq!(file("./src/judge", run), "/w/run/./src/judge");
    assert_eq!(file("/bin/true", run), "/bin/true");
    assert_eq!(file("make", run), "make");
}

use shared::{Nonce, RunId, StepName};

use super::*;
use crate::{
    config::{Config, Layers, Need},
    session::core::StepKey,
};

/// What the text of a configuration makes.
fn harnesses(text: &str) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("yard.toml");
    fs::write(&path, format!("name = \"yard\"\n{text}")).unwrap();
    Config::load(&Layers { config: Some(path), ..Layers::default() }, Need::All).map_err(|e| e.to_string())
}

fn step(task: &AgentTask) -> WorkStep {
    WorkStep {
        key: StepKey { run: RunId::new("r1").unwrap(), seq: 3, attempt: 2 },
        step: StepName::new("fix").unwrap(),
        round: 1,
        nonce: Nonce::from_bits(1),
        rev: 1,
        argv: Vec::new(),
        env: [("WHAT".to_owned(), "the leak".to_owned()), ("MAX_TURNS".to_owned(), "not ours".to_owned())].into(),
        timeout: None,
        inputs: Vec::new(),
        work_id: String::new(),
        first_on_node: true,
        agent: Some(Box::new(task.clone())),
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn room(&self) -> Room {
        let dir = |name: &str| self.0.path().join(name);
        Room { run: dir("run"), input: dir("in"), out: dir("out"), cache: dir("c"), task: dir("task") }
    }
}

fn make(config: &str, task: &AgentTask) -> (Place, Result<Program, HarnessError>) {
    let place = Place(tempfile::tempdir().unwrap());
    let config = harnesses(config).unwrap();
    let own = |name: &str| matches!(name, "PATH" | "KEY").then(|| OsString::from("passed"));
    let node = NodeId::new("yard").unwrap();
    let made = program(&step(task), task, &config.harnesses, &node, &place.room(), &["PATH".into()], own);
    (place, made)
}

fn task(schema: Option<&str>, max_turns: Option<u32>) -> AgentTask {
    AgentTask {
        harness: "x".into(),
        prompt: "Mend $WHAT in $RUN_ID for 5$$".into(),
        schema: schema.map(str::to_owned),
        max_turns,
    }
}

const ALL: &str = "[harness.x]\ncommand = [\"prog\", \"--brief={prompt_file}\", \"{prompt}\", [\"--turns\", \"{max_turns}\"], \
                   [\"--schema\", \"{schema_file}\"], \"{answer_file}\", \"{\\\"a\\\": {}}\"]\npass_env = [\"KEY\"]\n";

#[test]
fn a_command_is_filled_in_and_the_prompt_expanded() {
    let (place, made) = make(ALL, &task(Some("{}"), Some(7)));
    let (program, room) = (made.unwrap(), place.room());
    let path = |path: &Path| path.display().to_string();
    let brief = format!("--brief={}", path(&room.task.join("prompt.md")));
    let (schema, answer) = (path(&room.task.join("schema.json")), path(&room.out.join("answer.json")));
    let wanted =
        ["prog", &brief, "Mend the leak in r1 for 5$", "--turns", "7", "--schema", &schema, &answer, "{\"a\": {}}"];
    assert_eq!(program.argv, wanted);
    assert_eq!(fs::read_to_string(room.task.join("prompt.md")).unwrap(), "Mend the leak in r1 for 5$");
    assert_eq!(fs::read_to_string(&schema).unwrap(), "{}");
    let get = |name: &str| program.env.get(std::ffi::OsStr::new(name)).and_then(|it| it.to_str());
    assert_eq!((get("MAX_TURNS"), get("ANSWER_FILE")), (Some("7"), Some(answer.as_str())));
    assert_eq!((get("KEY"), get("WHAT"), get("STEP_ID")), (Some("passed"), Some("the leak"), Some("fix")));
    assert_eq!(program.stdin, None, "a placeholder took the prompt");
    assert!(!program.capture);
}

#[test]
fn what_the_step_does_not_say_is_left_out() {
    let (_place, made) = make(ALL, &task(None, None));
    let program = made.unwrap();
    assert!(!program.argv.iter().any(|arg| arg.starts_with("--turns") || arg == "--schema"), "{:?}", program.argv);
    for name in ["MAX_TURNS", "SCHEMA_FILE"] {
        assert!(!program.env.contains_key(std::ffi::OsStr::new(name)), "{name}: the contract's is not ours");
    }
    let (place, made) = make("[harness.x]\ncommand = [\"prog\"]\nanswer = \"stdout\"\n", &task(None, None));
    let program = made.unwrap();
    assert_eq!(program.stdin, Some(place.room().task.join("prompt.md")));
    assert!(program.capture);
}

#[test]
fn what_cannot_be_started_says_what_there_is() {
    let said = |config: &str, task: &AgentTask| make(config, task).1.unwrap_err().to_string();
    let known = "[harness.a]\ncommand = [\"p\"]\n[harness.b]\ncommand = [\"p\"]\n";
    assert!(said(known, &task(None, None)).starts_with("this node has no harness \"x\"; it has a, b."));
    assert!(said("", &task(None, None)).contains("it has none"));
    let needs = "[harness.x]\ncommand = [\"p\", \"{max_turns}\"]\n";
    assert!(said(needs, &task(None, None)).contains("{max_turns}, and the step does not say it"));
    let bad = AgentTask { prompt: "$NOBODY".into(), ..task(None, None) };
    assert!(said(ALL, &bad).starts_with("agent.prompt: $NOBODY is not known"));
}

#[test]
fn an_answer_is_found_in_what_was_printed() {
    let text = |found: Result<Vec<u8>, String>| String::from_utf8(found.unwrap()).unwrap();
    assert_eq!(text(answer_in(b"{\"n\": 1}\n", None)), "{\"n\": 1}\n");
    assert_eq!(text(answer_in(b"not JSON", None)), "not JSON", "the mediator says what is wrong");
    assert_eq!(text(answer_in(b"{\"r\": {\"n\": 1}}", Some("/r"))), "{\"n\":1}");
    assert!(answer_in(b"oops", Some("/r")).unwrap_err().contains("not JSON"));
    assert!(answer_in(b"{}", Some("/r")).unwrap_err().contains("nothing at /r"));
}

#[tokio::test]
async fn an_answer_is_not_written_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    std::os::unix::fs::symlink(&victim, out.join(ANSWER_FILE)).unwrap();
    keep_answer(&Printed::default(), None, &out).await.unwrap();
    assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
    assert_eq!(fs::read_to_string(out.join(ANSWER_FILE)).unwrap(), "");
}

#[test]
fn a_harness_that_makes_no_sense_says_where_and_what_instead() {
    for (text, want) in [
        ("[harness]\nx = 1\n", "harness x: must be a table: [harness.x]"),
        ("[harness.x]\n", "harness x: has no `command`"),
        ("[harness.x]\ncommand = [\"p\"]\ncomand = 1\n", "unknown key `comand`"),
        ("[harness.x]\ncommand = []\n", "x.command must be a list of texts"),
        ("[harness.x]\ncommand = [1]\n", "x.command must be a list of texts"),
        ("[harness.x]\ncommand = [\"./p\"]\n", "name a program on the PATH, or write its whole path"),
        ("[harness.x]\ncommand = [\"{prompt}\"]\n", "must start with the name of a program"),
        ("[harness.x]\ncommand = [\"p\", \"{promt}\"]\n", "has {promt}, which is none of {prompt}, {prompt_file}"),
        ("[harness.x]\ncommand = [\"p\", [\"--x\"]]\n", "has a list without a placeholder"),
        ("[harness.x]\ncommand = [\"p\"]\nanswer = \"mail\"\n", "x.answer must be \"file\" or \"stdout\""),
        ("[harness.x]\ncommand = [\"p\"]\npointer = \"/a\"\n", "means something with answer = \"stdout\" only"),
        ("[harness.x]\ncommand = [\"p\"]\nanswer = \"stdout\"\npointer = \"a\"\n", "must be a JSON pointer"),
        ("[harness.x]\ncommand = [\"p\"]\npass_env = [\"ENODE_TOKEN\"]\n", "x.pass_env must not hold"),
    ] {
        let said = harnesses(text).unwrap_err();
        assert!(said.contains(want) && said.contains("yard.toml"), "{text}: {said}");
    }
}

#[test]
fn each_harness_is_advertised_by_itself() {
    let text = "[[capability]]\nname = \"agent\"\nattrs = { model = \"large\", harness = \"no\" }\n[harness.a]\n\
                command = [\"p\"]\n[harness.b]\ncommand = [\"p\", [\"{max_turns}\"]]\nanswer = \"stdout\"\npointer = \"/r\"\n";
    let config = harnesses(text).unwrap();
    let said: Vec<_> = config
        .capabilities
        .iter()
        .map(|it| (it.name.as_str(), it.attrs["harness"].to_string(), it.attrs["model"].to_string()))
        .collect();
    assert_eq!(said, [("agent", "a".into(), "large".into()), ("agent", "b".into(), "large".into())]);
    let (_, shown, from) = config.shown().into_iter().find(|(key, _, _)| *key == "harness").unwrap();
    let wanted = serde_json::json!({
        "a": {"command": ["p"], "answer": "file"},
        "b": {"command": ["p", ["{max_turns}"]], "answer": "stdout", "pointer": "/r"},
    });
    assert_eq!(shown, wanted);
    assert!(from.contains("yard.toml"), "{from}");
    assert!(
        config.warnings.iter().any(|it| it.contains("harness a: p is not on this machine")),
        "{:?}",
        config.warnings
    );
    let there = harnesses("[harness.a]\ncommand = [\"sh\"]\n[harness.b]\ncommand = [\"/bin/sh\"]\n").unwrap();
    assert!(!there.warnings.iter().any(|it| it.contains("harness")), "{:?}", there.warnings);
}

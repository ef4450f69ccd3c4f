//! `contract`.

use super::{run_with, *};

#[tokio::test]
async fn the_example_passes_lint() {
    let example = run_with("", &["contract", "example"]).await;
    assert_eq!(example.exit, Exit::Ok);
    let ran = run_with(&example.out, &["contract", "lint", "-"]).await;
    assert_eq!(ran.to_string(), "exit 0\n-- stdout\n-- stderr\nstdin: ok\n");
}

#[tokio::test]
async fn the_schema_is_json() {
    let ran = run_with("", &["contract", "schema"]).await;
    let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(schema["properties"]["steps"].is_object());
}

#[tokio::test]
async fn lint_goes_on_behind_a_bad_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let bad = file("bad.yaml", "requires: []\nsteps: []\nstepz: 1\n");
    let good = file("good.yaml", &run_with("", &["contract", "example"]).await.out);
    let large = file("large.yaml", &"# filler\n".repeat(200_000));
    let gone = folder.path().join("gone.yaml").display().to_string();
    let pipe = folder.path().join("pipe.yaml").display().to_string();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let ran = run_with("", &["contract", "lint", &bad, &gone, &large, &pipe, &good]).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(ran.out.lines().any(|line| line.starts_with(&format!("{bad}:"))), "{ran}");
    assert!(ran.out.contains("stepz"), "{ran}");
    assert!(ran.out.contains(&format!("{gone}: cannot read it: No such file")), "{ran}");
    assert!(ran.out.contains(&format!("{large}: it is larger than 1048576 bytes")), "{ran}");
    assert!(ran.out.contains(&format!("{pipe}: cannot read it: it is a pipe")), "{ran}");
    assert_eq!(ran.err, format!("{good}: ok\n"));

    let ran = run_with("", &["contract", "lint", &bad, &gone, "--output", "json"]).await;
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(found[0]["file"], bad.as_str());
    assert_eq!(
        found.as_array().unwrap().last().unwrap()["message"].as_str().unwrap().get(..14),
        Some("cannot read it")
    );
}

#[tokio::test]
async fn a_form_that_is_no_schema_has_its_line_and_hides_nothing() {
    let contract = "requires: [{as: b, capability: c}]\nsteps:\n- id: q\n  ask:\n    question: ok?\n    form:\n      properties:\n        \
                    ok: {type: objekt}\n- {id: s, uses: b, run: 'ls -l'}\n";
    let ran = run_with(contract, &["contract", "lint", "-"]).await;
    insta::assert_snapshot!(ran, @r#"
    exit 2
    -- stdout
    stdin:8:20: steps[0].ask.form.properties.ok.type: is not a JSON Schema: there is no type "objekt"; write object, array, string, number, integer, boolean or null
    stdin:9:25: steps[1].run: must be a list, but 'ls -l' is text; write [ls, -l]
    -- stderr
    "#);
}

#[test]
fn a_problem_is_one_line_as_compilers_write_it() {
    let problem = |path: &str, position, message: &str| shared::contract::Problem {
        path: path.into(),
        position,
        message: message.into(),
    };
    let error = shared::contract::ContractError {
        problems: vec![
            problem("steps[1].needs[0]", Some((7, 21)), "there is no step \"fetsh\""),
            problem("", None, "bad\x1b[2J\nsecond line"),
        ],
    };
    let lines = crate::cli::contract::lines("a.yaml".as_ref(), &error);
    insta::assert_snapshot!(lines.join("\n"), @r#"
    a.yaml:7:21: steps[1].needs[0]: there is no step "fetsh"
    a.yaml: bad\u{1b}[2J\nsecond line
    "#);
}

#[tokio::test]
async fn nothing_invalid_is_sent() {
    let fake = Fake::start().await;
    for command in ["submit", "dry-run"] {
        let ran = run_changed(&fake, &[command, "-"], |io| {
            io.stdin = Box::new(Cursor::new("requires: []\nsteps: []\nstepz: 1\n"));
        })
        .await;
        assert_eq!(ran.exit, Exit::Refused);
        assert!(ran.err.starts_with("error: this contract is not valid\nstdin:"), "{ran}");
        assert!(ran.err.ends_with("one to start from.\n"), "{ran}");
    }
    assert!(fake.lines().asked.is_empty());
}

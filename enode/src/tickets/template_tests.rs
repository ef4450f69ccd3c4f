use super::{super::fake_tests::Fake, *};

fn made(templates: &Templates, text: &str) -> Result<Contract, TemplateError> {
    let fake = Fake::new(&[("a.md", text)]);
    let queue = fake.folder.read().unwrap();
    let run = RunId::new("r1").unwrap();
    templates.make(&queue, &queue.tickets()[0], &run).map(|text| contract::parse(&text).unwrap())
}

fn command(text: &str) -> Templates {
    Templates { command: Some(text.to_owned()), capability: "build".to_owned(), folder: None }
}

fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Templates) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let templates = Templates { folder: Some(dir.path().to_owned()), command: None, capability: "build".to_owned() };
    (dir, templates)
}

#[test]
fn a_command_gets_the_ticket_as_it_is() {
    let text = "---\ntitle: It's $5\nkind: work\n---\nRun `$HOME` $(x) ${y}\n";
    let contract = made(&command("test -n \"$TICKET_BODY\" && cat $IN/ticket.md"), text).unwrap();
    assert_eq!((contract.run_id.unwrap().as_str(), contract.work.unwrap().change_id.as_str()), ("r1", "a"));
    let expanded = |name: &str| contract::expand(&contract.env[name], |_| None).unwrap();
    assert_eq!(expanded("TICKET_BODY"), "Run `$HOME` $(x) ${y}\n");
    assert_eq!(
        (expanded("TICKET_TITLE"), expanded("TICKET_KIND"), expanded("TICKET")),
        ("It's $5".into(), "work".into(), "a".into())
    );
}

#[test]
fn r10_the_kind_names_the_template_and_leads_nowhere_else() {
    let of = |capability: &str| {
        format!("requires: [{{as: w, capability: {capability}}}]\nsteps: [{{id: s, uses: w, run: ['true']}}]\n")
    };
    let (_dir, templates) = folder(&[("work.yaml", &of("one")), ("default.yaml", &of("two"))]);
    for (kind, capability) in [("work", "one"), ("other", "two"), ("", "two"), ("../work", "two"), ("a/b", "two")] {
        let contract = made(&templates, &format!("---\nkind: {kind}\n---\n")).unwrap();
        assert_eq!(contract.requires[0].capability, capability, "{kind}");
    }
    let (_dir, templates) = folder(&[("work.yaml", &of("one"))]);
    let said = made(&templates, "---\nkind: other\n---\n").unwrap_err().to_string();
    assert!(said.contains("put other.yaml or default.yaml"), "{said}");
}

/// Refused, it would be tried three times within a moment, and then a person would be asked.
#[test]
fn whatever_a_template_says_its_run_waits_for_a_machine() {
    let reject =
        "requires: [{as: w, capability: c}]\nsteps: [{id: s, uses: w, run: ['true']}]\nwhen_unmatched: reject\n";
    let (_dir, in_folder) = folder(&[("default.yaml", reject)]);
    for templates in [in_folder, command("true")] {
        let contract = made(&templates, "---\n---\n").unwrap();
        assert_eq!(contract.when_unmatched, WhenUnmatched::Queue);
    }
}

#[test]
fn what_cannot_be_run_says_why() {
    let asking = "requires: [{as: w, capability: c}]\nsteps: [{id: s, timeout: 1h, ask: {question: q}}]\n";
    let unknown = "requires: [{as: w, capability: c}]\nsteps: [{id: s, uses: w, run: [echo, $TICKET_BODY]}]\n";
    let slip = "env: {TICKT: ''}\nrequires: [{as: w, capability: c}]\nsteps: [{id: s, uses: w, run: [echo, $TICKT]}]\n";
    for (template, says) in [
        (asking, "step s asks with a timeout"),
        (unknown, "set it in `env`"),
        (slip, "env.TICKT: did you mean TICKET?"),
        ("x: y", "default.yaml: "),
    ] {
        let (_dir, templates) = folder(&[("default.yaml", template)]);
        let error = made(&templates, "---\n---\n").unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(templates.usable("any"), Err(error), "before any ticket is taken");
    }
    let said = made(&command("true"), &format!("---\n---\n{}", "x".repeat(LONGEST + 1))).unwrap_err().to_string();
    assert!(said.contains("120001 bytes"), "{said}");
    let said = made(&command("true"), "---\n---\nx\0y").unwrap_err().to_string();
    assert!(said.contains("NUL"), "{said}");
}

#[test]
fn the_answers_of_people_are_part_of_what_a_run_reads() {
    let fake = Fake::new(&[
        ("a.md", "---\ndeps: [q]\nawaiting: q\n---\nbody\n\n## 질문 1\n\nwhich?\n"),
        ("q.done.md", "---\nkind: answer\n---\n## 답변 1\n\nthe left one\n"),
    ]);
    let queue = fake.folder.read().unwrap();
    let ticket = queue.tickets().iter().find(|it| it.stem.as_str() == "a").unwrap();
    assert!(body(&queue, ticket).ends_with("which?\n\n## 답변 1\n\nthe left one\n"));
}

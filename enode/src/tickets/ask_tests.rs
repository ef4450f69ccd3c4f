use shared::ticket::{Hold, line};

use super::{
    super::{
        fake_tests::Fake,
        runs::{Answered, Ask, OpenRun, Queued, RunOf},
    },
    *,
};

const GO: &str = r#"{"type": "object", "required": ["go"], "properties": {"go": {"enum": ["yes", "no"]}, "n": {"type": "integer"}, "note": {"type": "string"}}}"#;
const ONE: &str = r#"{"type": "object", "properties": {"text": {"type": "string"}}}"#;

#[test]
fn what_a_person_writes_becomes_what_the_form_wants() {
    for (text, form, json) in [
        ("yes", None, r#""yes""#),
        ("true", None, "true"),
        ("{\"a\": 1}", None, r#"{"a":1}"#),
        ("```json\n{\"a\": 1}\n```", None, r#"{"a":1}"#),
        ("go: yes", Some(GO), r#"{"go":"yes"}"#),
        ("- `go: yes`\nn = 3\nnote: 1\ntwo lines\n", Some(GO), r#"{"go":"yes","n":3,"note":"1\ntwo lines"}"#),
        ("{\"go\": \"no\"}", Some(GO), r#"{"go":"no"}"#),
        ("no", Some(GO), r#"{"go":"no"}"#),
        ("12", Some(ONE), r#"{"text":"12"}"#),
        ("a: b", Some(ONE), r#"{"text":"a: b"}"#),
        ("yes", Some("not JSON"), r#""yes""#),
        ("3", Some(r#"{"type": "integer"}"#), "3"),
    ] {
        assert_eq!(to_json(text, form), json, "{text}");
    }
}

/// As the question lists them, whatever stands in a word of the list.
#[test]
fn an_answer_that_the_listed_fields_do_not_allow_is_told_what_to_write() {
    const FORM: &str = r#"{"required": ["go", "n"], "properties": {"go": {"enum": ["yes", "no", "yes or no", 3]},
        "n": {"type": "integer"}, "note": {"type": "string"}}}"#;
    let body = format!("## 질문 1\n\nGo?\n\n{}\n", shape(&serde_json::from_str(FORM).unwrap()));
    for good in
        ["go: yes\nn: 1", "go: yes or no\nn: x", "go: 3\nn: 1\nnote: a: b", r#"{"go": "no", "n": 2, "other": true}"#]
    {
        assert_eq!(fits(&body, good), Ok(()), "{good}");
    }
    for (bad, says) in [
        ("go: maybe\nn: 1", "go: write yes or no or yes or no or 3"),
        ("go: yes", "n: is missing"),
        ("yes", "go: is missing"),
        ("go: e\nn: 1", "go: write"),
    ] {
        let said = fits(&body, bad).unwrap_err();
        assert!(said.contains(says), "{bad}: {said}");
    }
    assert_eq!(fits("## 질문 1\n\n- `go: …` (yes or no)\n", "anything"), Ok(()), "a list of somebody else's");
    assert_eq!(fits(&format!("{body}\n## 질문 2\n\nAnd now?\n"), "anything"), Ok(()), "only the last question counts");
}

const ASKING: &str =
    "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n<!-- asked by run r1 step ok attempt 1 -->\n?\n";

#[test]
fn an_answer_is_one_new_file_and_there_is_one() {
    let fake = Fake::new(&[("a.md", ASKING), ("b.md", "---\n---\n")]);
    let stem = |text: &str| Stem::new(text).unwrap();
    for (name, text, says) in [("nope", "x", "no ticket nope"), ("b", "x", "asks nothing"), ("a", " \n", "is empty")] {
        let said = answer(&fake.folder, &stem(name), text).unwrap_err().to_string();
        assert!(said.contains(says), "{said}");
    }
    assert_eq!(answer(&fake.folder, &stem("a"), "yes").unwrap(), "q.done.md");
    assert_eq!(fake.text("a.md"), ASKING);
    assert!(fake.text("q.done.md").ends_with("---\n\n## 답변 1\n\nyes\n"));
    // A second answer is told of the first, by either name.
    for name in ["a", "q"] {
        let said = answer(&fake.folder, &stem(name), "no").unwrap_err().to_string();
        assert!(said.contains("a was answered already, in q.done.md"), "{said}");
    }
    // An open draft of a person is in the way, and is said to be.
    let fake = Fake::new(&[("a.md", ASKING), ("q.md", "---\n---\n")]);
    let said = answer(&fake.folder, &stem("q"), "yes").unwrap_err().to_string();
    assert!(said.contains("a file q.md already"), "{said}");
}

#[test]
fn r41_a_done_ticket_that_a_person_opens_again_asks_and_can_be_answered() {
    let fake = Fake::new(&[("a.done.md", ASKING)]);
    assert_eq!(line(&fake.folder.read().unwrap()).len(), 0, "what is done asks nothing");
    std::fs::rename(fake.folder.at("a.done.md"), fake.folder.at("a.md")).unwrap();
    let hold = || line(&fake.folder.read().unwrap())[0].hold.clone();
    assert!(matches!(hold(), Some(Hold::AnswerWait { .. })));
    answer(&fake.folder, &Stem::new("a").unwrap(), "go on").unwrap();
    assert_eq!(hold(), None, "and is taken");
    assert_eq!(fake.text("a.md"), ASKING, "nobody touches its deps");
}

/// A mediator whose step takes one answer. Whoever wants to answer waits until the other one wants to, too.
struct OneAnswer {
    origin: Origin,
    both: tokio::sync::Barrier,
    taken: std::sync::Mutex<Vec<String>>,
}

impl Runs for OneAnswer {
    async fn reach(&self) -> Result<(), Trouble> {
        Ok(())
    }
    async fn get(&self, _: &RunId) -> Result<RunNow, Trouble> {
        let is_answered = !self.taken.lock().unwrap().is_empty();
        let asks = Question { origin: self.origin.clone(), text: "?".to_owned() };
        Ok(RunNow::Open { asking: if is_answered { Vec::new() } else { vec![asks] } })
    }
    async fn changed(&self, run: &RunId, _: &RunNow) -> Result<RunNow, Trouble> {
        self.get(run).await
    }
    async fn queued(&self, _: &RunId) -> Result<Option<Queued>, Trouble> {
        Ok(None)
    }
    async fn runs_of(&self, _: &str) -> Result<Vec<RunOf>, Trouble> {
        Ok(Vec::new())
    }
    async fn open_runs(&self, _: &str) -> Result<Vec<OpenRun>, Trouble> {
        Ok(Vec::new())
    }
    async fn submit(&self, _: &RunId, _: &[u8]) -> Result<(), Trouble> {
        Ok(())
    }
    async fn asks(&self) -> Result<Vec<Ask>, Trouble> {
        self.both.wait().await;
        Ok(Vec::new())
    }
    async fn answered(&self, _: &Origin) -> Result<Option<Answered>, Trouble> {
        Ok(None)
    }
    async fn answer(&self, _: &Origin, json: &str) -> Result<(), Trouble> {
        let mut taken = self.taken.lock().unwrap();
        if !taken.is_empty() {
            return Err(Trouble::Refused("step ok asks nothing".to_owned()));
        }
        taken.push(json.to_owned());
        Ok(())
    }
    async fn cancel(&self, _: &RunId) -> Result<(), Trouble> {
        Ok(())
    }
}

#[test]
fn of_two_workers_that_pass_on_one_answer_at_once_neither_asks_a_person_again() {
    let fake = Fake::new(&[("a.wip.md", ASKING), ("q.done.md", "---\nkind: answer\n---\nto the left\n")]);
    let runs = OneAnswer {
        origin: Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 1 },
        both: tokio::sync::Barrier::new(2),
        taken: std::sync::Mutex::default(),
    };
    let queue = fake.folder.read().unwrap();
    let ticket = queue.find(&Stem::new("a").unwrap()).unwrap();
    let run = RunId::new("r1").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pass = || pass_on(&fake.folder, &runs, &queue, ticket, &run);
    let (one, other) = runtime.block_on(async { tokio::join!(pass(), pass()) });
    for passed in [one, other] {
        assert!(matches!(passed, Ok(Passed::On)));
    }
    assert_eq!(*runs.taken.lock().unwrap(), ["\"to the left\""]);
}

#[test]
fn who_answers_a_ticket_in_hand_is_told_who_has_it_or_that_nobody_says_so() {
    let said = |keys: &str| {
        let held = ASKING.replace("title: t\n", &format!("title: t\n{keys}"));
        let fake = Fake::new(&[("a.wip.md", &held)]);
        answer(&fake.folder, &Stem::new("a").unwrap(), "yes").unwrap_err().to_string()
    };
    let asks = "a asks nobody while it is in progress:";
    assert_eq!(said("owner: kim\n"), format!("{asks} kim has it"));
    assert_eq!(said(""), format!("{asks} somebody has it, and the file does not say who"));
    assert_eq!(said("owner:  \n"), said(""));
}

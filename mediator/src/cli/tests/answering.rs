//! `answer`: what somebody writes becomes what the form wants.

use proto::v1::{AskView, ListAsksResponse};

use super::{messages::*, *};

fn open(step: &str, form: &str) -> AskView {
    AskView { run_id: "r".into(), step: step.into(), form: form.into(), ..AskView::default() }
}

async fn sent(fake: &Fake, args: &[&str]) -> String {
    fake.lines().asked.clear();
    let ran = run(fake, &[&["answer", "r"], args].concat()).await;
    assert_eq!(ran.exit, Exit::Ok, "{ran}");
    let asked = fake.lines().asked.iter().rfind(|asked| asked.starts_with("answer: ")).cloned().unwrap();
    asked.split("answer: \"").nth(1).unwrap().trim_end_matches("\" }").replace("\\\"", "'")
}

#[tokio::test]
async fn a_text_field_takes_text() {
    let fake = Fake::start().await;
    let form = r#"{"properties": {"note": {"type": "string"}, "n": {"type": "integer"}, "word": {"enum": ["1", 2]}}}"#;
    fake.lines().list_asks.then(Ok(ListAsksResponse { observed_at: 0, asks: vec![open("ok", form)] }));
    fake.lines().answer.then(Ok(runs().runs.remove(0)));
    for (args, wanted) in [
        (&["note=5"][..], "{'note':'5'}"),
        (&["note=true", "n=5"], "{'note':'true','n':5}"),
        (&["word=1"], "{'word':'1'}"),
        (&["word=2"], "{'word':2}"),
        (&["other=5"], "{'other':5}"),
        (&["--step", "else", "note=5"], "{'note':5}"),
        (&["--json", "{\"note\": 5}"], "{'note': 5}"),
    ] {
        assert_eq!(sent(&fake, args).await, wanted, "{args:?}");
    }
    // Which of two forms is meant is for the mediator to ask.
    fake.lines().list_asks = fake::Script::default();
    fake.lines().list_asks.then(Ok(ListAsksResponse { observed_at: 0, asks: vec![open("a", form), open("b", form)] }));
    assert_eq!(sent(&fake, &["note=5"]).await, "{'note':5}");
    assert_eq!(sent(&fake, &["--step", "b", "note=5"]).await, "{'note':'5'}");
}

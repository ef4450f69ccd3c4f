use super::{
    super::{
        fake_tests::{Fake, Table},
        runs::Question,
    },
    *,
};

const ASKING: &str =
    "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n<!-- asked by run r1 step ok attempt 1 -->\n?\n";

fn settle_with(fake: &Fake, table: &Table) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(needless_questions(&fake.folder, table)).unwrap()
}

#[test]
fn a_question_that_nobody_asks_any_more_is_settled() {
    let origin = Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 1 };
    let asking = |origin: Origin| RunNow::Open { asking: vec![Question { origin, text: String::new() }] };
    for (now, is_settled) in [
        (asking(origin.clone()), false),
        (asking(Origin { attempt: 2, ..origin }), true),
        (RunNow::Open { asking: Vec::new() }, true),
        (RunNow::Succeeded, true),
        // Perhaps it is another fleet's mediator that does not know it.
        (RunNow::Unknown, false),
    ] {
        let fake = Fake::new(&[("a.md", ASKING), ("b.md", "---\ndeps: [z]\nawaiting: z\n---\n## 질문 1\n?\n")]);
        let settled = settle_with(&fake, &Table::of(&[("r1", now.clone())]));
        assert_eq!(
            (settled.len() == 1, fake.names().contains(&"q.done.md".to_owned())),
            (is_settled, is_settled),
            "{now:?}"
        );
    }
}

/// While the mediator was asked, a person has answered and the next question came: that one nobody has answered.
#[test]
fn what_is_settled_is_the_question_that_was_looked_at() {
    let fake = Fake::new(&[("a.md", ASKING)]);
    let folder = fake.folder.clone();
    let goes_on = move || {
        std::fs::write(folder.at("q.done.md"), "---\nkind: answer\n---\nyes\n").unwrap();
        let next = ASKING.replace("[q]", "[q, p]").replace("awaiting: q", "awaiting: p");
        std::fs::write(folder.at("a.md"), format!("{next}\n## 질문 2\n\nAnd now?\n")).unwrap();
    };
    let table = Table::of(&[("r1", RunNow::Succeeded)]);
    let table = Table { meanwhile: Some(("get r1", Box::new(goes_on))), ..table };
    assert_eq!(settle_with(&fake, &table), Vec::<String>::new());
    assert_eq!(fake.names(), ["a.md", "q.done.md"]);
}

/// A person has ended it by hand, by command or by renaming: its Run would keep its nodes for an answer that never comes.
#[test]
fn a_run_that_asks_for_a_ticket_that_is_done_is_cancelled() {
    let fake = Fake::new(&[]);
    let tag = QueueLock::acquire(&fake.folder).unwrap().tag().unwrap();
    let (ours, theirs) = (format!("t{tag}-1"), "tother-1".to_owned());
    let asks = |run: &str| ASKING.replace("run r1", &format!("run {run}"));
    let end = |files: &[(&str, &str)]| {
        for name in fake.names() {
            std::fs::remove_file(fake.folder.at(&name)).unwrap();
        }
        for (name, text) in files {
            std::fs::write(fake.folder.at(name), text).unwrap();
        }
        let open = |run: &String| {
            let origin = Origin { run: run.clone(), step: "ok".to_owned(), attempt: 1 };
            (run.clone(), RunNow::Open { asking: vec![Question { origin, text: String::new() }] })
        };
        let table = Table { runs: [&ours, &theirs].map(open).into(), ..Table::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cancelled = runtime.block_on(questions_of_done(&fake.folder, &table)).unwrap();
        assert_eq!(table.count("cancel"), cancelled.len());
        (cancelled, table.count("asks"))
    };
    let none = Vec::new();
    assert_eq!(end(&[("a.done.md", &asks(&ours))]), (vec![RunId::new(&ours).unwrap()], 1));
    assert_eq!(end(&[("a.done.md", &asks(&theirs))]), (none.clone(), 1), "a copy of another queue's");
    assert_eq!(end(&[("a.md", &asks(&ours))]), (none.clone(), 0), "it waits for its answer");
    assert_eq!(end(&[("a.wip.md", &asks(&ours))]), (none.clone(), 0), "a person has it in hand");
    assert_eq!(end(&[("a.done.md", &asks(&ours)), ("q.done.md", "yes\n")]), (none.clone(), 0), "it is answered");
    let slip = [("a.md", &*asks(&ours)), ("a.done.md", "---\n---\nyes\n")];
    assert_eq!(end(&slip), (none, 0), "an answer under a wrong name");
}

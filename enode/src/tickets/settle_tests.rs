use super::{
    super::{
        fake_tests::{Fake, Table},
        runs::{Answered, Question},
    },
    *,
};

const ASKING: &str =
    "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n<!-- asked by run r1 step ok attempt 1 -->\n?\n";

fn settle_all(fake: &Fake, table: &Table) -> Settled {
    let (runtime, mut done) = (tokio::runtime::Builder::new_current_thread().build().unwrap(), Settled::default());
    runtime.block_on(settle(&fake.folder, table, &mut done)).unwrap();
    done
}

fn settle_with(fake: &Fake, table: &Table) -> Vec<String> {
    settle_all(fake, table).settled
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
        (RunNow::Failed("it broke".to_owned()), true),
        (RunNow::Stopped("it was cancelled".to_owned()), true),
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
        if let RunNow::Failed(why) | RunNow::Stopped(why) = now {
            let text = fake.text("q.done.md");
            assert!(text.contains("has ended") && text.contains(&why), "{text}");
        }
    }
}

/// What was said the mediator tells nobody while the Run goes on; but who, and when.
#[test]
fn an_answer_that_was_given_elsewhere_is_told_of_with_who_gave_it_and_where_it_stands() {
    let by = Answered { by: "kim".to_owned(), at: shared::Timestamp::from_millis(1_800_000_000_000) };
    for now in [RunNow::Open { asking: Vec::new() }, RunNow::Succeeded] {
        let fake = Fake::new(&[("a.md", ASKING)]);
        let table = Table { answered: Some(by.clone()), ..Table::of(&[("r1", now)]) };
        assert_eq!(settle_with(&fake, &table), ["q.done.md"]);
        let text = fake.text("q.done.md");
        assert!(text.contains("by kim at 2027-01-15T08:00:00") && text.contains("`mediator record r1`"), "{text}");
        assert!(!text.contains("perhaps"), "{text}");
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
    let asks = ASKING.replace("run r1", &format!("run {ours}"));
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
        let works = [&ours, &theirs].map(|run| (run.clone(), "ticket:a".to_owned()));
        let table = Table { runs: [&ours, &theirs].map(open).into(), works: works.into(), ..Table::default() };
        let cancelled = settle_all(&fake, &table).cancelled;
        assert_eq!((table.count("cancel"), table.count("asks")), (cancelled.len(), 1), "{files:?}");
        cancelled
    };
    let run = vec![RunId::new(&ours).unwrap()];
    assert_eq!(end(&[("a.done.md", &asks)]), run);
    assert_eq!(end(&[("a.done.md", "---\n---\n")]), run, "before the question stood in it");
    assert_eq!(end(&[("a.done.md", &asks), ("q.done.md", "yes\n")]), run, "nobody hands the answer on");
    assert_eq!(end(&[("a.md", &asks)]), [], "it waits for its answer");
    assert_eq!(end(&[("a.md", &asks), ("b.done.md", &asks)]), [], "a copy of it is another ticket");
    assert_eq!(end(&[("a.wip.md", &asks)]), [], "a person has it in hand");
    for answer in ["---\n---\nyes\n", "yes\n"] {
        assert_eq!(end(&[("a.md", &*asks), ("a.done.md", answer)]), [], "an answer under a wrong name");
    }
}

/// Its worker died, or has left it in the line: nobody follows it who would see that a person has renamed its ticket.
#[test]
fn a_run_that_nobody_follows_is_cancelled_when_a_person_has_renamed_its_ticket() {
    let tag = QueueLock::acquire(&Fake::new(&[]).folder).unwrap().tag().unwrap();
    let (ours, theirs) = (format!("t{tag}-1"), "tother-1".to_owned());
    let (held, plain) = (format!("---\ntitle: t\nsession_id: {ours}\n---\n"), "---\ntitle: t\n---\n");
    let end = |files: &[(&str, &str)]| {
        let fake = Fake::new(&[files, &[(".tickets.lock", &*format!("{tag}\n"))]].concat());
        let open = |run: &String| (run.clone(), RunNow::Open { asking: Vec::new() });
        let works = [&ours, &theirs].map(|run| (run.clone(), "ticket:a".to_owned()));
        let table = Table { runs: [&ours, &theirs].map(open).into(), works: works.into(), ..Table::default() };
        let cancelled = settle_all(&fake, &table).cancelled;
        assert_eq!(table.count("cancel"), cancelled.len(), "{files:?}");
        let left: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(fake.files().into_iter().collect::<Vec<_>>(), left, "no name and no text is changed");
        cancelled
    };
    let run = vec![RunId::new(&ours).unwrap()];
    assert_eq!(end(&[("a.done.md", &held)]), run);
    assert_eq!(end(&[("a.done.md", plain)]), [], "done of another Run, or by hand: it has no part in it");
    assert_eq!(end(&[("a.done.md", &held), ("a.wip.md", "half sa")]), [], "one of the two is being saved");
    assert_eq!(end(&[("a.md", &held)]), run);
    assert_eq!(end(&[("a.md", plain)]), [], "whoever takes it next goes on with that Run");
    assert_eq!(end(&[("a.wip.md", &held)]), [], "it is worked on");
    assert_eq!(end(&[("a.done.md", &held), ("a.wip.md", &held)]), [], "nobody knows which one is meant");
    assert_eq!(end(&[("b.md", &held)]), [], "a copy is another ticket");
    assert_eq!(end(&[]), [], "a folder that is away");
}

/// Somebody else's Run, or one that ends by itself at this very moment.
#[test]
fn a_run_that_cannot_be_cancelled_keeps_nobody_from_the_others_and_one_that_has_ended_is_not_called_cancelled() {
    let tag = QueueLock::acquire(&Fake::new(&[]).folder).unwrap().tag().unwrap();
    let runs = [format!("t{tag}-1"), format!("t{tag}-2")];
    let text = |run: &str| format!("---\ntitle: t\nsession_id: {run}\n---\n");
    let cases = [
        Table { denies: Some("cancel"), ..Table::default() },
        Table { refuses: Some("cancel"), ..Table::default() },
        Table { ends_at: Some("list"), ..Table::default() },
    ];
    for table in cases {
        let lock = format!("{tag}\n");
        let fake = Fake::new(&[("a.done.md", &text(&runs[0])), ("b.md", &text(&runs[1])), (".tickets.lock", &lock)]);
        let works = [(&runs[0], "ticket:a"), (&runs[1], "ticket:b")].map(|(run, of)| (run.clone(), of.to_owned()));
        let open = runs.each_ref().map(|run| (run.clone(), RunNow::Open { asking: Vec::new() }));
        let table = Table { runs: open.into(), works: works.into(), ..table };
        assert_eq!(settle_all(&fake, &table).cancelled, []);
        assert_eq!((table.count("get"), table.count("cancel")), (2, 0));
    }
}

use shared::ticket::question::Origin;

use super::{
    super::{
        fake_tests::{Fake, Table},
        runs::Question,
    },
    *,
};

fn held(keys: &str) -> String {
    format!("---\ntitle: t\n{keys}---\nbody\n")
}

fn reap_now(fake: &Fake, table: &Table, now: Timestamp) -> Result<Vec<Reaped>, Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut reaped = Vec::new();
    runtime.block_on(reap(&fake.folder, table, now, GRACE, &mut reaped)).map(|()| reaped)
}

/// What becomes of one ticket in progress, `after` seconds from now.
fn check(keys: &str, table: &Table, after: u64, expected: &str) {
    let fake = Fake::new(&[("a.wip.md", &held(keys))]);
    let before = fake.files();
    let reaped = reap_now(&fake, table, crate::clock::now() + Duration::from_secs(after)).unwrap();
    assert_eq!(fake.names(), [expected], "{keys}: {reaped:?}");
    if expected == "a.wip.md" {
        assert_eq!((reaped.len(), fake.files()), (0, before), "{keys}");
    }
}

fn open() -> RunNow {
    RunNow::Open { asking: Vec::new() }
}

#[test]
fn r31_r34_its_run_decides() {
    let table =
        Table::of(&[("ok", RunNow::Succeeded), ("bad", RunNow::Failed("it broke".to_owned())), ("open", open())]);
    let keys = |run: &str| format!("session_id: {run}\nassigned_at: 2020-01-01T00:00:00Z\nowner: me\n");
    check(&keys("ok"), &table, 0, "a.done.md");
    check(&keys("bad"), &table, 0, "a.md");
    check(&keys("unknown"), &table, 0, "a.md");
    // Never by time alone.
    check(&keys("open"), &table, 1_000_000, "a.wip.md");
    // A session of the earlier tool is no Run.
    check(&keys("'not an id'"), &table, 0, "a.md");
}

/// A drain and a cancel are somebody's word against a Run, not the ticket's fault: however often, nobody is asked.
#[test]
fn what_somebody_has_ended_counts_as_no_attempt() {
    let table = Table::of(&[("r1", RunNow::Stopped("Run r1 failed (cancelled by ann)".to_owned()))]);
    let fake = Fake::new(&[("a.wip.md", &held("session_id: r1\nattempts: 2\n"))]);
    let reaped = reap_now(&fake, &table, crate::clock::now()).unwrap();
    assert!(matches!(reaped[0].deed, Deed::Reclaimed { attempts: 2, .. }), "{reaped:?}");
    let text = fake.text("a.md");
    assert!(text.contains("\nattempts: 2\n") && !text.contains("## 질문"), "{text}");
}

#[test]
fn r32_a_run_that_is_not_known_yet_has_three_minutes() {
    let table = Table::default();
    let keys = format!("session_id: r1\nassigned_at: {}\n", crate::clock::now());
    check(&keys, &table, 170, "a.wip.md");
    check(&keys, &table, 190, "a.md");
    check("session_id: r1\nassigned_at: yesterday\n", &table, 0, "a.md");
}

#[test]
fn r24_r25_what_says_no_owner_has_three_minutes_and_a_hand_claim_for_ever() {
    let table = Table::default();
    check("", &table, 170, "a.wip.md");
    check("session_id:\nowner: ''\n", &table, 190, "a.md");
    check("owner: ann\n", &table, 1_000_000, "a.wip.md");
    check("pid: 7\n", &table, 1_000_000, "a.wip.md");
    check("claimed_at: 2020-01-01T00:00:00Z\n", &table, 1_000_000, "a.wip.md");
}

/// A ticket that kills its worker between claim and Run must not do so for ever.
#[test]
fn r26_what_was_killed_before_it_said_which_run_counts_as_well() {
    let late = crate::clock::now() + Duration::from_secs(190);
    for (attempts, after) in [(0, "\nattempts: 1\n"), (1, "\nattempts: 2\n"), (2, "\nawaiting: a-answer-1\n")] {
        let fake = Fake::new(&[("a.wip.md", &held(&format!("attempts: {attempts}\n")))]);
        reap_now(&fake, &Table::default(), late).unwrap();
        assert!(fake.text("a.md").contains(after), "{attempts}: {:?}", fake.files());
    }
    let fake = Fake::new(&[("a.wip.md", &format!("{}\n## 블록\n\nI cannot.\n", held("")))]);
    reap_now(&fake, &Table::default(), late).unwrap();
    assert!(fake.text("a.md").contains("\nawaiting: a-answer-1\n"), "R27: {:?}", fake.files());
}

#[test]
fn a_claim_counts_from_the_claim_and_not_from_the_text() {
    let fake = Fake::new(&[("a.md", &held(""))]);
    let file = std::fs::File::options().write(true).open(fake.folder.at("a.md")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000)).unwrap();
    super::super::claim::next(&fake.folder, |_| true, |_, _| {}).unwrap().unwrap();
    assert_eq!(reap_now(&fake, &Table::default(), crate::clock::now()).unwrap(), []);
    assert_eq!(fake.names(), ["a.wip.md"]);
}

#[test]
fn an_unreachable_mediator_reclaims_nothing() {
    let table = Table { silent: true, ..Table::default() };
    for keys in ["", "session_id: r1\nassigned_at: 2020-01-01T00:00:00Z\n"] {
        let fake = Fake::new(&[("a.wip.md", &held(keys))]);
        let before = fake.files();
        let trouble = reap_now(&fake, &table, crate::clock::now() + Duration::from_secs(1_000)).unwrap_err();
        assert!(matches!(trouble, Trouble::Silent { .. }));
        assert_eq!(fake.files(), before);
    }
}

#[test]
fn only_what_is_in_progress_is_looked_at() {
    let keys = "session_id: r1\n";
    let fake = Fake::new(&[("a.md", &held(keys)), ("b.done.md", &held(keys)), ("c.wip.md", "no frontmatter")]);
    let (before, table) = (fake.files(), Table::default());
    assert_eq!(reap_now(&fake, &table, crate::clock::now() + Duration::from_secs(1_000)).unwrap(), []);
    assert_eq!(fake.files(), before);
    assert!(table.heard.lock().unwrap().is_empty());
}

#[test]
fn a_run_that_asks_while_its_worker_is_gone_is_heard() {
    let origin = Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 2 };
    let asking = vec![Question { origin: origin.clone(), text: "Ship it?".to_owned() }];
    let mut table = Table::of(&[("r1", RunNow::Open { asking })]);
    table.form = Some(r#"{"properties": {"go": {"enum": ["yes", "no"]}}, "required": ["go"]}"#.to_owned());
    let fake = Fake::new(&[("a.wip.md", &held("session_id: r1\n"))]);
    let reaped = reap_now(&fake, &table, crate::clock::now()).unwrap();
    assert!(matches!(&reaped[0].deed, Deed::Asked { awaiting, .. } if awaiting.as_str() == "a-answer-1"));
    let text = fake.text("a.md");
    assert_eq!(Origin::of_last(&text), Some(origin));
    assert!(text.contains("Ship it?\n\nAnswer with one line for each:\n\n- `go: …` (yes or no)\n"), "{text}");
    assert!(!text.contains("session_id"), "{text}");
}

/// The other one is through with it while this one still asks the mediator.
#[test]
fn r22_of_two_reapers_the_second_changes_nothing() {
    let failed = || [("r1", RunNow::Failed("x".to_owned()))];
    let fake = std::sync::Arc::new(Fake::new(&[("a.wip.md", &held("session_id: r1\n"))]));
    let (theirs, first) = (fake.clone(), std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
    let reaps = first.clone();
    let other = move || {
        let fake = theirs.clone();
        let reap = move || reap_now(&fake, &Table::of(&failed()), crate::clock::now()).unwrap();
        reaps.lock().unwrap().extend(std::thread::spawn(reap).join().unwrap());
    };
    let table = Table { meanwhile: Some(("get r1", Box::new(other))), ..Table::of(&failed()) };
    let second = reap_now(&fake, &table, crate::clock::now()).unwrap();
    assert!(matches!(first.lock().unwrap()[0].deed, Deed::Reclaimed { attempts: 1, .. }));
    assert_eq!(second[0].deed, Deed::Lost);
    assert_eq!(fake.names(), ["a.md"]);
    assert!(fake.text("a.md").contains("attempts: 1\n"));
}

/// An editor writes an answer in several steps: what cannot be read yet is no reason to ask again.
#[test]
fn a_ticket_whose_answer_cannot_be_read_yet_goes_back_and_waits_for_it() {
    for half in ["", "---\nkind: ans", "---\nkind: answer\n---\n", "---\nkind: answer\n---\n\n## 답변 1\n"] {
        let origin = Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 1 };
        let table = Table::of(&[("r1", RunNow::Open { asking: vec![Question { origin, text: "?".to_owned() }] })]);
        let asked = format!(
            "{}\n## 질문 1\n\n<!-- asked by run r1 step ok attempt 1 -->\n\n?\n",
            held("deps: [q]\nawaiting: q\nsession_id: r1\nassigned_at: 2020-01-01T00:00:00Z\n")
        );
        let fake = Fake::new(&[("a.wip.md", &asked), ("q.done.md", half)]);
        reap_now(&fake, &table, crate::clock::now()).unwrap();
        let text = fake.text("a.md");
        assert!(text.contains("awaiting: q\n") && text.matches("## 질문").count() == 1, "{half:?}: {text}");
        assert_eq!(table.count("answer"), 0);
        // Also after a while: mending that very file is all that is to be done.
        let fake_too = Fake::new(&[("a.wip.md", &asked), ("q.done.md", half)]);
        reap_now(&fake_too, &table, crate::clock::now() + Duration::from_secs(3600)).unwrap();
        let text = fake_too.text("a.md");
        assert!(text.contains("awaiting: q\n") && text.matches("## 질문").count() == 1, "{half:?}: {text}");
        let next = || super::super::claim::next(&fake.folder, |_| true, |_, _| {}).unwrap();
        assert!(next().is_none(), "{half:?}: nobody takes it");
        std::fs::write(fake.folder.at("q.done.md"), "---\nkind: answer\n---\nyes\n").unwrap();
        assert!(next().is_some());
    }
}

/// Killed between taking a ticket up again and passing its answer on: the person has answered, and is not asked twice.
#[test]
fn an_answer_that_is_there_is_passed_on_and_nobody_is_asked_twice() {
    let origin = Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 1 };
    let table = Table::of(&[("r1", RunNow::Open { asking: vec![Question { origin, text: "?".to_owned() }] })]);
    let asked = format!(
        "{}\n## 질문 1\n\n<!-- asked by run r1 step ok attempt 1 -->\n\n?\n",
        held("deps: [q]\nawaiting: q\nsession_id: r1\nassigned_at: 2020-01-01T00:00:00Z\n")
    );
    let fake = Fake::new(&[("a.wip.md", &asked), ("q.done.md", "---\nkind: answer\n---\nyes\n")]);
    assert_eq!(reap_now(&fake, &table, crate::clock::now()).unwrap(), []);
    assert_eq!(fake.text("a.wip.md"), asked);
    assert_eq!(table.heard.lock().unwrap().last().unwrap(), "answer r1 ok \"yes\"");
}

/// `touch` may set any time, also one that has not come.
#[test]
fn a_ticket_from_the_future_goes_back_as_well() {
    let fake = Fake::new(&[("a.wip.md", &held(""))]);
    let future = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
    std::fs::File::options().write(true).open(fake.folder.at("a.wip.md")).unwrap().set_modified(future).unwrap();
    assert_eq!(reap_now(&fake, &Table::default(), crate::clock::now()).unwrap(), []);
    reap_now(&fake, &Table::default(), crate::clock::now() + GRACE + Duration::from_secs(1)).unwrap();
    assert_eq!(fake.names(), ["a.md"]);
}

/// Two look at once, and the other one was faster.
#[test]
fn a_step_that_was_answered_since_its_run_was_seen_asks_nobody_again() {
    let origin = Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 1 };
    let asked = "session_id: r1\nowner: me\ndeps: [q]\nawaiting: q\n";
    let body = "\n## 질문 1\n\n<!-- asked by run r1 step ok attempt 1 -->\n\n?\n";
    let answer = ("q.done.md", "---\nkind: answer\n---\nyes\n");
    let fake = Fake::new(&[("a.wip.md", &format!("{}{body}", held(asked))), answer]);
    let before = fake.files();
    let queue = fake.folder.read().unwrap();
    let ticket = queue.find(&Stem::new("a").unwrap()).unwrap();
    let judged = |asking: Origin| {
        let seen = RunNow::Open { asking: vec![Question { origin: asking, text: "?".to_owned() }] };
        let (now, table) = (crate::clock::now(), Table::of(&[("r1", open())]));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(judge(&fake.folder, &table, &queue, ticket, seen, now, GRACE)).unwrap()
    };
    assert_eq!(judged(origin.clone()), None);
    assert_eq!(fake.files(), before);
    // The next question is another one.
    let next = judged(Origin { step: "next".to_owned(), ..origin });
    assert!(matches!(next, Some(Deed::Asked { .. })), "{next:?}");
}

/// A contract may name who answers. That says nothing of the other tickets, and asking the mediator would end the worker.
#[test]
fn an_answer_that_others_must_give_is_asked_for_again_and_ends_nobodys_work() {
    let origin = Origin { run: "r1".to_owned(), step: "ok".to_owned(), attempt: 1 };
    let asking = RunNow::Open { asking: vec![Question { origin, text: "?".to_owned() }] };
    let table = Table { is_answered_by_others: true, ..Table::of(&[("r1", asking), ("r2", RunNow::Succeeded)]) };
    let asked = format!(
        "{}\n## 질문 1\n\n<!-- asked by run r1 step ok attempt 1 -->\n\n?\n",
        held("deps: [q]\nawaiting: q\nsession_id: r1\nowner: me\n")
    );
    let files = [("a.wip.md", &*asked), ("b.wip.md", &held("session_id: r2\n")), ("q.done.md", "yes\n")];
    let fake = Fake::new(&files);
    reap_now(&fake, &table, crate::clock::now()).unwrap();
    assert_eq!(fake.names(), ["a.md", "b.done.md", "q.done.md"]);
    let text = fake.text("a.md");
    assert!(text.contains("who may answer") && text.contains("mediator answer r1") && text.contains("> yes"), "{text}");
    assert_eq!(table.count("answer"), 0);
}

/// Somebody has edited it under both of its names. Which text counts nobody else can tell, and so it is said.
#[test]
fn a_ticket_that_cannot_go_back_is_said_to_have_a_file_beside_it() {
    let table = Table::of(&[("r1", RunNow::Failed("it broke".to_owned()))]);
    let files = [("a.wip.md", &*held("session_id: r1\n")), ("a.md", "---\ntitle: t\n---\nanother text\n")];
    let fake = Fake::new(&files);
    let before = fake.files();
    let reaped = reap_now(&fake, &table, crate::clock::now()).unwrap();
    assert_eq!(reaped[0].deed, Deed::Beside { file: "a.md".to_owned() });
    assert_eq!(fake.files(), before);
    std::fs::remove_file(fake.folder.at("a.md")).unwrap();
    reap_now(&fake, &table, crate::clock::now()).unwrap();
    assert_eq!(fake.names(), ["a.md"]);
}

use super::{
    super::{fake_tests::Fake, links::Links},
    *,
};

const HELD: &str = "---\ntitle: t\ndeps:\n  - old\nsession_id: r1\nassigned_at: x\nowner: me\nsquad: z\n---\nbody\n";

fn stem() -> Stem {
    Stem::new("a").unwrap()
}

fn attempt() -> Return {
    Return::Attempt("it broke".to_owned())
}

fn give(fake: &Fake, session: Option<&str>, how: &Return) -> Returned {
    give_back(&fake.folder, &stem(), session, how, Timestamp::from_millis(1_700_000_000_000)).unwrap()
}

/// A text without the place in line, which the file's birth decides.
fn plain(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("created_at:")).collect()
}

#[test]
fn a_ticket_that_goes_back_loses_its_owner_and_keeps_everything_else() {
    for links in [Links::Kernel, Links::Refused] {
        let fake = Fake::with(&[("a.wip.md", HELD)], links);
        let born = fake.folder.read().unwrap().tickets()[0].created_ns;
        assert_eq!(give(&fake, Some("r1"), &Return::Plain), Returned::Open { attempts: 0 });
        assert_eq!(fake.names(), ["a.md"]);
        assert_eq!(plain(&fake.text("a.md")), "---\ntitle: t\ndeps:\n  - old\nsquad: z\n---\nbody\n");
        assert_eq!(fake.folder.read().unwrap().tickets()[0].created_ns, born, "and its place in line");
        assert_eq!(give(&fake, None, &attempt()), Returned::Lost, "it is not in progress any more");
    }
}

#[test]
fn a_ticket_with_the_longest_name_can_ask() {
    let stem = "가".repeat(60);
    let fake = Fake::new(&[(&format!("{stem}.wip.md"), HELD)]);
    let how = Return::Ask { text: "which?".to_owned(), origin: None };
    let now = Timestamp::from_millis(1_700_000_000_000);
    let asked = give_back(&fake.folder, &Stem::new(&stem).unwrap(), Some("r1"), &how, now).unwrap();
    let Returned::Asked { awaiting } = asked else { panic!("{asked:?}") };
    assert!(awaiting.as_str().starts_with('가') && awaiting.as_str().ends_with("-answer-1"), "{awaiting}");
}

#[test]
fn r26_the_third_attempt_is_a_question_that_keeps_the_old_deps() {
    let fake = Fake::new(&[("a.wip.md", HELD)]);
    for (session, attempts) in [(Some("r1"), 1), (None, 2)] {
        assert_eq!(give(&fake, session, &attempt()), Returned::Open { attempts });
        assert!(fake.text("a.md").contains(&format!("\nattempts: {attempts}\n")));
        std::fs::rename(fake.folder.at("a.md"), fake.folder.at("a.wip.md")).unwrap();
    }
    let awaiting = Stem::new("a-answer-1").unwrap();
    assert_eq!(give(&fake, None, &attempt()), Returned::Asked { awaiting });
    let text = plain(&fake.text("a.md"));
    assert!(
        text.starts_with(
            "---\ntitle: t\ndeps: [old, a-answer-1]\nsquad: z\nattempts: 0\nawaiting: a-answer-1\n\
             asked_at: 2023-11-14T22:13:20.000Z\n---\nbody\n\n## 질문 1\n"
        ),
        "{text}"
    );
    assert!(text.contains("because: it broke"));
    assert_eq!(shared::ticket::order::candidates(&fake.folder.read().unwrap()).count(), 0);
}

/// A person has claimed what asks, or renamed it, and let it go again.
#[test]
fn a_question_without_an_answer_stays_the_one_that_is_asked() {
    const ASKED: &str = "---\ntitle: t\nattempts: 2\ndeps: [old, q]\nawaiting: q\nowner: me\n---\n## 질문 1\n\n\
                         <!-- asked by run r1 step ok attempt 1 -->\n\n?\n";
    let origin = |step: &str| Some(Origin { run: "r1".to_owned(), step: step.to_owned(), attempt: 1 });
    let ask = |origin| Return::Ask { text: "?".to_owned(), origin };
    for how in [Return::Plain, attempt(), ask(None), ask(origin("ok"))] {
        let fake = Fake::new(&[("a.wip.md", ASKED)]);
        assert_eq!(give(&fake, None, &how), Returned::Asked { awaiting: Stem::new("q").unwrap() }, "{how:?}");
        assert_eq!(plain(&fake.text("a.md")), ASKED.replace("owner: me\n", ""), "{how:?}");
    }
    // The step was answered elsewhere, and the next one asks.
    let fake = Fake::new(&[("a.wip.md", ASKED)]);
    assert!(matches!(give(&fake, None, &ask(origin("next"))), Returned::Asked { .. }));
    let text = fake.text("a.md");
    assert!(text.contains("\ndeps: [old, a-answer-2]\nawaiting: a-answer-2\n"), "{text}");
}

#[test]
fn r27_a_fresh_block_asks_at_once_and_an_old_one_does_not() {
    let fresh = format!("{HELD}\n## 블록\nno key\n");
    let fake = Fake::new(&[("a.wip.md", &fresh)]);
    assert!(matches!(give(&fake, Some("r1"), &attempt()), Returned::Asked { .. }));
    let fake = Fake::new(&[("a.wip.md", &format!("{fresh}\n## 질문 1\nwhat key?\n"))]);
    assert_eq!(give(&fake, Some("r1"), &attempt()), Returned::Open { attempts: 1 });
}

#[test]
fn r30_a_ticket_in_other_hands_is_left_alone() {
    let fake = Fake::new(&[("a.wip.md", HELD)]);
    let before = fake.files();
    assert_eq!(give(&fake, Some("r2"), &attempt()), Returned::Lost);
    assert_eq!(fake.files(), before);
}

#[test]
fn r22_where_the_open_name_is_taken_nothing_is_changed() {
    for links in [Links::Kernel, Links::Refused] {
        let fake = Fake::with(&[("a.wip.md", HELD), ("a.md", "---\ntitle: a fragment\n---\n")], links);
        let before = fake.files();
        assert_eq!(give(&fake, Some("r1"), &attempt()), Returned::Beside { file: "a.md".to_owned() });
        assert_eq!(fake.files(), before, "R23: also the owner keys are still there");
    }
}

/// A person has saved it late, under its open name: what was saved goes back in line, and no attempt is lost.
#[test]
fn what_was_saved_late_goes_back_in_line() {
    for links in [Links::Kernel, Links::Refused] {
        let late = "---\ntitle: t\ndeps: [old]\n---\nbody\nA late thought.\n";
        let fake = Fake::with(&[("a.wip.md", HELD), ("a.md", late)], links);
        assert_eq!(give(&fake, Some("r1"), &attempt()), Returned::Open { attempts: 1 });
        assert_eq!(fake.names(), ["a.md"]);
        let text = fake.text("a.md");
        assert!(text.contains("\nattempts: 1\n") && text.ends_with("A late thought.\n"), "{text}");
        assert!(!text.contains("session_id"), "{text}");
    }
}

/// What was claimed and not assigned yet, moved away by a person, and taken by another one.
#[test]
fn r30_whoever_has_no_run_yet_gives_back_and_ends_nothing_that_has_one() {
    let fake = Fake::new(&[("a.wip.md", HELD)]);
    assert_eq!(give(&fake, None, &Return::Plain), Returned::Lost);
    assert!(!super::super::finish::finish(&fake.folder, &stem(), None).unwrap());
    assert_eq!(fake.text("a.wip.md"), HELD);
}

#[test]
fn an_answer_gets_a_name_that_no_file_has() {
    let fake = Fake::new(&[("a.wip.md", HELD), ("a-answer-1.md", "# a draft"), ("a-answer-2.done.md", "")]);
    let how = Return::Ask { text: "?".to_owned(), origin: None };
    assert_eq!(give(&fake, Some("r1"), &how), Returned::Asked { awaiting: Stem::new("a-answer-3").unwrap() });
}

#[test]
fn r47_unassigning_an_open_ticket_removes_session_id_and_nothing_else() {
    let fake = Fake::new(&[("a.md", HELD)]);
    assert!(clear_accident(&fake.folder, &stem()).unwrap());
    assert_eq!(fake.text("a.md"), HELD.replace("session_id: r1\n", ""));
    assert!(!clear_accident(&fake.folder, &stem()).unwrap());
    assert_eq!(shared::ticket::order::accidents(&fake.folder.read().unwrap()).count(), 0);
}

/// Such a name cannot stand in a list on one line.
#[test]
fn whatever_a_ticket_is_called_it_can_ask() {
    for odd in ["it's urgent", "a,b", "\"x\"", "[x]", " x", "x\u{2028}y", "'"] {
        let deps = "---\ntitle: t\ndeps:\n  - old\n  - c,d\nsession_id: r1\n---\nbody\n";
        let fake = Fake::new(&[(&format!("{odd}.wip.md"), deps)]);
        let stem = Stem::new(odd).unwrap();
        let how = Return::Ask { text: "which?".to_owned(), origin: None };
        let asked = give_back(&fake.folder, &stem, Some("r1"), &how, Timestamp::default()).unwrap();
        let Returned::Asked { awaiting } = asked else { panic!("{odd}: {asked:?}") };
        assert!(!awaiting.as_str().contains([',', '[', ']', '"', '\'', '\u{2028}']), "{odd}: {awaiting}");
        let queue = fake.folder.read().unwrap();
        let ticket = queue.find(&stem).unwrap();
        let deps = ["old", "c,d", awaiting.as_str()].map(|it| Stem::new(it).unwrap());
        assert_eq!((ticket.deps.as_slice(), ticket.awaiting.as_ref()), (&deps[..], Some(&awaiting)), "{odd}");
    }
}

/// The queue's own question begins a new count; the question of a Run is none of its failures.
#[test]
fn r26_what_a_run_asks_forgives_no_attempt() {
    let fake = Fake::new(&[("a.wip.md", &HELD.replace("squad: z", "attempts: 2"))]);
    let how = Return::Ask { text: "which?".to_owned(), origin: None };
    assert!(matches!(give(&fake, Some("r1"), &how), Returned::Asked { .. }));
    std::fs::rename(fake.folder.at("a.md"), fake.folder.at("a.wip.md")).unwrap();
    std::fs::write(fake.folder.at("a-answer-1.done.md"), "this one\n").unwrap();
    assert!(matches!(give(&fake, None, &attempt()), Returned::Asked { .. }), "{:?}", fake.files());
    assert!(fake.text("a.md").contains("\nattempts: 0\n"));
}

/// Asking makes a copy beside the ticket: a person who moves or saves the ticket in that moment keeps what is theirs, and the
/// copy is no fragment that hides it.
#[test]
fn r28_a_ticket_that_is_moved_or_saved_while_a_question_is_appended_stays_as_it_is() {
    type Way = fn(&std::path::Path);
    let ways: [(&str, Way); 3] = [
        ("moved", |folder| std::fs::rename(folder.join("a.wip.md"), folder.join("a.done.md")).unwrap()),
        ("saved in place", |folder| std::fs::write(folder.join("a.wip.md"), "theirs").unwrap()),
        ("saved by rename", |folder| {
            std::fs::write(folder.join(".a~"), HELD).unwrap();
            std::fs::rename(folder.join(".a~"), folder.join("a.wip.md")).unwrap();
        }),
    ];
    for links in [Links::Kernel, Links::Refused] {
        for point in ["back.drafted", "back.linked"] {
            for (way, happens) in ways {
                let fake = Fake::with(&[("a.wip.md", HELD)], links);
                let folder = fake.folder.clone();
                // What has moved before its copy is named never gets one, not even for a moment.
                let noted = move || assert_ne!(point, "back.drafted", "{way}: a copy is being named");
                fail::meanwhile::at(vec![
                    (point, Box::new(move || happens(folder.path()))),
                    ("back.noted", Box::new(noted)),
                ]);
                let how = Return::Ask { text: "which?".to_owned(), origin: None };
                assert_eq!(give(&fake, Some("r1"), &how), Returned::Lost, "{point} {way}");
                let theirs = match way {
                    "moved" => ("a.done.md", HELD),
                    "saved in place" => ("a.wip.md", "theirs"),
                    _ => ("a.wip.md", HELD),
                };
                let left: Vec<(String, String)> = fake.files().into_iter().collect();
                assert_eq!(left, [(theirs.0.to_owned(), theirs.1.to_owned())], "{point} {way}");
            }
        }
    }
}

/// A file system that fails has moved and changed nothing.
#[test]
fn what_the_file_system_says_is_not_told_as_somebody_who_was_faster() {
    // What has its open name already is ended by the next one who looks.
    for (point, next) in [("back.drafted", Returned::Open { attempts: 0 }), ("back.linked", Returned::Lost)] {
        let fake = Fake::new(&[("a.wip.md", HELD)]);
        let (here, away) = (fake.folder.path().to_owned(), fake.folder.path().with_extension("away"));
        let (breaks, aside) = (here.clone(), away.clone());
        let happens = move || {
            std::fs::rename(&breaks, &aside).unwrap();
            std::fs::write(&breaks, "no folder").unwrap();
        };
        fail::meanwhile::at(vec![(point, Box::new(happens))]);
        let said = give_back(&fake.folder, &stem(), Some("r1"), &Return::Plain, Timestamp::default());
        fail::meanwhile::at(Vec::new());
        std::fs::remove_file(&here).unwrap();
        std::fs::rename(&away, &here).unwrap();
        assert_eq!(said.map_err(|error| error.kind()), Err(io::ErrorKind::NotADirectory), "{point}");
        assert_eq!(give(&fake, Some("r1"), &Return::Plain), next, "{point}");
        assert_eq!(fake.names().into_iter().filter(|name| name.ends_with(".md")).collect::<Vec<_>>(), ["a.md"]);
    }
}

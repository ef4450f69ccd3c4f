use super::{
    super::{fake_tests::Fake, links::Links},
    *,
};

fn next_of(fake: &Fake) -> Option<String> {
    next(&fake.folder, |_| true, |_, _| {}).unwrap().map(|it| it.ticket.stem.to_string())
}

#[test]
fn the_first_candidate_is_taken_and_what_waits_is_not() {
    let fake = Fake::new(&[
        ("a.md", "---\npriority: 1\n---\n"),
        ("b.md", "---\ndeps: [nope]\npriority: 5\n---\n"),
        ("c.md", "---\nsession_id: x\npriority: 5\n---\n"),
        ("d.md", "---\npriority: 4\n---\n"),
        ("e.md", "no frontmatter"),
        ("f.done.md", "---\n---\n"),
        ("f.md", "---\npriority: 5\n---\n"),
    ]);
    assert_eq!(next_of(&fake), Some("d".to_owned()));
    // R17: the one of priority 1 waits for it.
    assert_eq!(next_of(&fake), None);
    std::fs::rename(fake.folder.at("d.wip.md"), fake.folder.at("d.done.md")).unwrap();
    assert_eq!(next_of(&fake), Some("a".to_owned()));
    assert_eq!(fake.text("a.wip.md"), "---\npriority: 1\n---\n", "a claim changes no byte");
}

#[test]
fn all_workers_of_a_queue_know_its_tag() {
    let fake = Fake::new(&[("a.md", "---\n---\n"), ("b.md", "---\n---\n")]);
    let tags: Vec<String> = (0..2).map(|_| next(&fake.folder, |_| true, |_, _| {}).unwrap().unwrap().tag).collect();
    assert_eq!(tags[0], tags[1]);
    assert!(tags[0].len() == 8);
}

#[test]
fn r06_a_decomposed_name_is_claimed_under_its_composed_one() {
    let fake = Fake::new(&[("\u{1100}\u{1161}.md", "---\ntitle: t\n---\n")]);
    assert_eq!(next_of(&fake), Some("\u{ac00}".to_owned()));
    assert_eq!(fake.names(), ["\u{ac00}.wip.md"]);
}

#[test]
fn r25_a_hand_claim_says_who_has_it_and_no_run() {
    let fake = Fake::new(&[("a.md", "---\ntitle: t\npriority: 1\n---\nbody\n"), ("b.wip.md", "---\n---\n")]);
    let stem = |text: &str| Stem::new(text).unwrap();
    let now = Timestamp::from_millis(1_700_000_000_000);
    by_hand(&fake.folder, &stem("a"), "ann", now).unwrap();
    let text = fake.text("a.wip.md");
    assert!(
        text.contains("\nowner: ann\nclaimed_at: 2023-11-14T22:13:20.000Z\n") && !text.contains("session_id"),
        "{text}"
    );
    let error = |text: &str| by_hand(&fake.folder, &stem(text), "bob", now).unwrap_err().to_string();
    assert!(error("a").contains("in progress already"));
    assert!(error("nope").contains("enode tickets list"));
    std::fs::write(fake.folder.at("c.md"), "---\ndeps: [a]\n---\n").unwrap();
    assert!(error("c").contains("waits for a"));
    std::fs::write(fake.folder.at("d.md"), "---\nsession_id: x\n---\n").unwrap();
    assert!(error("d").contains("unassign d"));
    std::fs::write(fake.folder.at("e.md"), "nothing").unwrap();
    assert!(error("e").contains("frontmatter"));
}

#[test]
fn a_claim_in_which_nothing_could_be_written_is_undone_and_another_stays() {
    for links in [Links::Kernel, Links::Refused] {
        let fake = Fake::with(&[("a.md", "---\ntitle: t\n---\n")], links);
        let before = fake.files();
        let claimed = next(&fake.folder, |_| true, |_, _| {}).unwrap().unwrap();
        undo(&fake.folder, &claimed.ticket).unwrap();
        assert_eq!(fake.files(), before);
        let claimed = next(&fake.folder, |_| true, |_, _| {}).unwrap().unwrap();
        let run = RunId::new("r1").unwrap();
        assign(&fake.folder, &claimed.ticket, &run, "me", Timestamp::default()).unwrap();
        let before = fake.files();
        undo(&fake.folder, &claimed.ticket).unwrap();
        assert_eq!(fake.files(), before, "a Run may have it");
        std::fs::write(fake.folder.at("b.md"), "---\ntitle: t\n---\n").unwrap();
        let ticket = by_hand(&fake.folder, &Stem::new("b").unwrap(), "ann", Timestamp::default()).unwrap();
        let before = fake.files();
        undo(&fake.folder, &ticket).unwrap();
        assert_eq!(fake.files(), before, "a person has it");
    }
}

/// A claim that cannot be written would keep the ticket for nobody.
#[test]
fn a_hand_claim_that_is_refused_has_changed_nothing() {
    let asks = "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n?\n";
    let fake = Fake::new(&[("a.md", asks)]);
    let (before, stem) = (fake.files(), Stem::new("a").unwrap());
    let claim = |owner: &str| by_hand(&fake.folder, &stem, owner, Timestamp::default());
    assert!(claim("me\nsession_id: x").unwrap_err().to_string().contains("--owner"));
    assert_eq!(fake.files(), before);
    claim("me").unwrap();
    assert_eq!(fake.names(), ["a.wip.md"], "who could answer may do it himself");
}

#[test]
fn a_ticket_that_was_taken_away_is_not_written_to() {
    let fake = Fake::new(&[("a.md", "---\n---\n")]);
    let claimed = next(&fake.folder, |_| true, |_, _| {}).unwrap().unwrap();
    std::fs::rename(fake.folder.at("a.wip.md"), fake.folder.at("a.done.md")).unwrap();
    let run = RunId::new("r1").unwrap();
    let error = assign(&fake.folder, &claimed.ticket, &run, "me", Timestamp::default()).unwrap_err();
    assert!(matches!(error, ClaimError::Moved(_)));
    assert_eq!(fake.names(), ["a.done.md"]);
}

/// Moved away by a person between its claim and its first word, and claimed again by another worker.
#[test]
fn r30_a_ticket_that_another_run_has_by_now_is_not_written_to() {
    let held = "---\nsession_id: r2\n---\n";
    let fake = Fake::new(&[("a.md", "---\n---\n")]);
    let claimed = next(&fake.folder, |_| true, |_, _| {}).unwrap().unwrap();
    std::fs::write(fake.folder.at("a.wip.md"), held).unwrap();
    let run = RunId::new("r1").unwrap();
    let error = assign(&fake.folder, &claimed.ticket, &run, "me", Timestamp::default()).unwrap_err();
    assert!(matches!(error, ClaimError::Moved(_)));
    assert_eq!(fake.text("a.wip.md"), held);
}

/// The count and the claim are one critical section: of many who count none in progress at once, one claims.
#[test]
fn r19_of_many_who_count_at_once_one_takes_a_ticket_of_priority_one() {
    let names: Vec<String> = (0..8).map(|at| format!("t{at}.md")).collect();
    for round in 0..20 {
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "---\npriority: 1\n---\n")).collect();
        let fake = Fake::new(&files);
        let start = std::sync::Barrier::new(8);
        let claimed: usize = std::thread::scope(|scope| {
            let one = |_| {
                scope.spawn(|| {
                    start.wait();
                    usize::from(next(&fake.folder, |_| true, |_, _| {}).unwrap().is_some())
                })
            };
            let all: Vec<_> = (0..8).map(one).collect();
            all.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert_eq!(claimed, 1, "round {round}");
    }
}

/// An attribute, another one's file in a folder where everybody may write, or a second name that leads elsewhere: of the
/// other tickets that says nothing.
#[test]
fn a_ticket_that_cannot_be_moved_is_left_and_the_next_one_is_taken() {
    let of = |priority: u8| format!("---\npriority: {priority}\n---\n");
    for name in ["a.wip.md", "a.done.md"] {
        let fake = Fake::new(&[("a.md", &of(5)), ("b.md", &of(4))]);
        std::os::unix::fs::symlink("nowhere", fake.folder.at(name)).unwrap();
        assert_eq!(next_of(&fake), Some("b".to_owned()), "{name}");
    }
    for links in [Links::Kernel, Links::Refused] {
        let fake = Fake::with(&[("a.md", &of(5)), ("b.md", &of(4))], links);
        let attribute = |word: &str| {
            let mut chattr = std::process::Command::new("chattr");
            chattr.arg(word).arg(fake.folder.at("a.md")).stderr(std::process::Stdio::null());
            chattr.status().is_ok_and(|it| it.success())
        };
        // Only root may, and not on every file system.
        if !attribute("+i") {
            continue;
        }
        let mut failed = Vec::new();
        let claimed = next(&fake.folder, |_| true, |ticket, error| failed.push(format!("{} {error}", ticket.stem)));
        assert!(attribute("-i"));
        assert_eq!(claimed.unwrap().map(|it| it.ticket.stem.to_string()), Some("b".to_owned()));
        assert!(failed.len() == 1 && failed[0].starts_with("a Operation not permitted"), "{failed:?}");
        assert_eq!(fake.names(), ["a.md", "b.wip.md"], "nothing is half done");
    }
}

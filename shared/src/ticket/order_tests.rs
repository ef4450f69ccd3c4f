use proptest::prelude::*;

use super::*;
use crate::ticket::{Document, Status, Suffixes, Unread, Warning, order, state::total_and_surplus};

/// A queue of `NAME` and frontmatter lines; earlier ones were born earlier.
fn queue(files: &[(&str, &str)]) -> Queue {
    let suffixes = Suffixes::default();
    let (mut tickets, mut unread) = (Vec::new(), Vec::new());
    for (born, (name, keys)) in files.iter().enumerate() {
        let file = format!("{name}.md");
        let (stem, lane) = suffixes.read(&file).unwrap();
        match Document::parse(keys.as_bytes().to_vec()) {
            Err(_) if keys.starts_with('!') => {
                unread.push(Unread { file, name: Some((stem, lane)), why: (*keys).to_owned(), plain: None });
            }
            _ => {
                let text = Document::parse(format!("---\n{keys}\n---\n").into_bytes()).unwrap();
                tickets.push(Arc::new(Ticket::new(stem, lane, file, Arc::new(text), born as i64)));
            }
        }
    }
    Queue::new(tickets, unread)
}

fn shown(queue: &Queue) -> Vec<String> {
    line(queue).iter().map(|entry| format!("{}:{}", entry.ticket.stem, entry.effective.get())).collect()
}

fn taken(queue: &Queue) -> Vec<String> {
    candidates(queue).map(|entry| entry.ticket.stem.to_string()).collect()
}

#[test]
fn r12_higher_priority_first_then_the_oldest() {
    for (files, expected) in [
        (&[("a", "priority: 1"), ("b", "priority: 3"), ("c", "priority: 5")][..], &["c:5", "b:3", "a:1"][..]),
        (&[("c", ""), ("b", ""), ("a", "")], &["c:3", "b:3", "a:3"]),
        (
            &[("b", "created_at: 2026-01-01T00:00:00Z"), ("a", "created_at: 2026-01-01T00:00:00Z"), ("c", "")],
            &["c:3", "a:3", "b:3"],
        ),
        (
            &[
                ("late", "created_at: 2026-01-01T00:00:00.000000002Z"),
                ("early", "created_at: 2026-01-01T00:00:00.000000001Z"),
            ],
            &["early:3", "late:3"],
        ),
    ] {
        assert_eq!(shown(&queue(files)), expected);
    }
}

#[test]
fn r13_what_is_no_priority_counts_as_three_and_only_what_was_written_is_warned_about() {
    let it =
        queue(&[("a", ""), ("b", "priority: 9"), ("c", "priority: abc"), ("d", "priority:"), ("e", "priority: 0")]);
    assert_eq!(shown(&it), ["a:3", "b:3", "c:3", "d:3", "e:3"]);
    let warned: Vec<_> = it.tickets().iter().map(|ticket| it.warnings(ticket)).collect();
    let bad = |text: &str| vec![Warning::BadPriority(text.to_owned())];
    assert_eq!(warned, [vec![], bad("9"), bad("abc"), vec![], bad("0")]);
}

#[test]
fn r14_a_chain_inherits_from_its_end() {
    let it = queue(&[
        ("d", ""),
        ("c", "deps: [d]"),
        ("b", "deps: [c]"),
        ("a", "priority: 5\ndeps: [b]"),
        ("x", "priority: 4"),
    ]);
    assert_eq!(shown(&it), ["d:5", "c:5", "b:5", "a:5", "x:4"]);
    assert_eq!(taken(&it), ["d", "x"]);
}

#[test]
fn r15_a_cycle_ends_at_its_own_priority_and_is_found() {
    let it = queue(&[("a", "deps: [b]"), ("b", "deps: [a]"), ("c", "deps: [a]"), ("d", "deps: [d]"), ("e", "")]);
    assert_eq!(shown(&it), ["a:3", "b:3", "c:3", "d:3", "e:3"]);
    assert_eq!(taken(&it), ["e"]);
    assert_eq!(cycles(&it).iter().map(|group| format!("{group:?}")).collect::<Vec<_>>(), ["[\"a\", \"b\"]", "[\"d\"]"]);
}

#[test]
fn r16_in_progress_tickets_inherit_and_pass_on_and_done_ones_do_neither() {
    let it = queue(&[("a", ""), ("b.wip", "deps: [a]"), ("c", "priority: 5\ndeps: [b]")]);
    assert_eq!(shown(&it), ["a:5", "c:5"]);
    assert_eq!(effective(&it).get("b").map(|it| it.get()), Some(5));
    let it = queue(&[("a", ""), ("b.done", "deps: [a]\npriority: 4"), ("c", "priority: 5\ndeps: [b]")]);
    assert_eq!(shown(&it), ["c:5", "a:3"]);
}

#[test]
fn r17_priority_one_waits_for_everything_in_progress_and_says_for_how_many() {
    let it = queue(&[("a", "priority: 1"), ("b.wip", "")]);
    assert_eq!(line(&it)[0].hold, Some(Hold::LowestWaits { in_progress: 1 }));
    assert_eq!(Status::of(&it, &it.tickets()[0]), Status::Open, "it has no word of its own");
    assert_eq!(taken(&queue(&[("a", "priority: 1"), ("b.done", "")])), ["a"]);
    // By name: also one that cannot be read.
    assert!(taken(&queue(&[("a", "priority: 1"), ("b.wip", "!broken")])).is_empty());
    // Once it has inherited more it is no longer held.
    let it = queue(&[("a", "priority: 1"), ("b.wip", ""), ("c", "priority: 2\ndeps: [a]")]);
    assert_eq!((shown(&it), taken(&it)), (vec!["a:2".to_owned(), "c:2".to_owned()], vec!["a".to_owned()]));
}

#[test]
fn r03_r05_what_waits_for_deps_keeps_its_place_and_is_no_candidate() {
    let it = queue(&[("a", "deps: [b, nope, c]"), ("b.done", ""), ("c.wip", ""), ("d", "")]);
    assert_eq!(shown(&it), ["a:3", "d:3"]);
    let unmet = ["nope", "c"].map(|stem| Stem::new(stem).unwrap()).to_vec();
    assert_eq!(line(&it)[0].hold, Some(Hold::DepsWait { unmet }));
    assert_eq!(it.warnings(&it.tickets()[0]), [Warning::MissingDep(Stem::new("nope").unwrap())]);
    assert_eq!(taken(&it), ["d"]);
}

#[test]
fn r08_a_ticket_that_is_shown_under_another_name_is_warned_about_and_still_found_by_its_stem() {
    let it = queue(&[
        ("a", "ticket: zzz"),
        ("b", "deps: [zzz]"),
        ("c", "ticket: a"),
        ("re-d", "ticket: d"),
        ("e", "ticket: e"),
    ]);
    let warned = |stem: &str| it.warnings(it.find(&Stem::new(stem).unwrap()).unwrap());
    assert_eq!(warned("a"), [Warning::ShownOtherwise("zzz".to_owned())]);
    assert_eq!(warned("b"), [Warning::MissingDep(Stem::new("zzz").unwrap())]);
    assert_eq!(warned("c"), [Warning::ShownOtherwise("a".to_owned())]);
    assert_eq!((warned("re-d"), warned("d"), warned("e")), (vec![], vec![], vec![]));
}

#[test]
fn r09_of_two_files_of_one_stem_the_later_lane_speaks() {
    for (files, lane) in [
        (&[("a", ""), ("a.done", "")][..], Lane::Done),
        (&[("a.done", ""), ("a", "")], Lane::Done),
        (&[("a.wip", ""), ("a", "")], Lane::InProgress),
        (&[("a", ""), ("a.wip", "")], Lane::InProgress),
        (&[("a", ""), ("a.done", "!broken")], Lane::Done),
    ] {
        let it = queue(&[files, &[("b", "deps: [a]")]].concat());
        assert_eq!(it.lane(&Stem::new("a").unwrap()), Some(lane), "{files:?}");
        assert_eq!(it.twins().len(), 1, "{files:?}");
        let expected: &[&str] = if lane == Lane::Done { &["b"] } else { &[] };
        assert_eq!(taken(&it), expected, "{files:?}");
    }
}

#[test]
fn r11_r45_r48_an_open_ticket_with_a_session_stands_in_no_line_and_is_the_surplus() {
    let it = queue(&[
        ("a", "session_id: s\ndeps: [x]\nawaiting: x"),
        ("b", "session_id: ''"),
        ("c", "deps: [x]"),
        ("d", ""),
    ]);
    assert_eq!(shown(&it), ["b:3", "c:3", "d:3"], "an empty one is none");
    assert_eq!(accidents(&it).map(|it| it.stem.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(total_and_surplus(&it), (4, 1));
    let status: Vec<_> = it.tickets().iter().map(|ticket| Status::of(&it, ticket)).collect();
    assert_eq!(status, [Status::Assigned, Status::Open, Status::DepsWait, Status::Open]);
    let in_lanes = status.iter().filter(|it| it.lane().is_some()).count();
    assert_eq!(in_lanes + 1, 4);
    // It still waits, so what it waits for inherits.
    let it = queue(&[("a", "session_id: s\npriority: 5\ndeps: [b]"), ("b", "")]);
    assert_eq!(shown(&it), ["b:5"]);
}

#[test]
fn r40_an_answer_unlocks_the_moment_that_it_is_there_and_nothing_else_changes() {
    let asking = ("a", "deps: [x, q1]\nawaiting: q1");
    let (x, q1) = (Stem::new("x").unwrap(), Stem::new("q1").unwrap());
    let it = queue(&[asking, ("x", "")]);
    assert_eq!(line(&it)[0].hold, Some(Hold::AnswerWait { awaiting: q1.clone(), unmet: vec![x.clone(), q1.clone()] }));
    let it = queue(&[asking, ("x.done", "")]);
    assert_eq!(line(&it)[0].hold, Some(Hold::AnswerWait { awaiting: q1.clone(), unmet: vec![q1.clone()] }));
    // One that is open unlocks nothing.
    let it = queue(&[asking, ("x.done", ""), ("q1", "kind: answer")]);
    assert_eq!(Status::of_entry(&line(&it)[0]), Status::AnswerWait);
    assert_eq!(it.warnings(it.find(&q1).unwrap()), [Warning::OpenAnswer]);
    // Nor does one that says nothing, or cannot be read.
    for (answer, warnings) in [("kind: answer", &[Warning::EmptyAnswer][..]), ("!empty, and made by hand", &[])] {
        let it = queue(&[asking, ("x.done", ""), ("q1.done", answer)]);
        assert_eq!(line(&it)[0].hold, Some(Hold::AnswerWait { awaiting: q1.clone(), unmet: vec![q1.clone()] }));
        assert_eq!(it.find(&q1).map_or(Vec::new(), |answer| it.warnings(answer)), warnings);
    }
    for answer in ["kind: answer\n---\nyes", ""] {
        let it = queue(&[asking, ("x.done", ""), ("q1.done", answer)]);
        assert_eq!((taken(&it), shown(&it)), (vec!["a".to_owned()], vec!["a:3".to_owned()]));
        assert_eq!(it.warnings(&it.tickets()[0]), [], "awaiting stays");
    }
    let it = queue(&[asking, ("x", ""), ("q1.done", "")]);
    assert_eq!(line(&it)[0].hold, Some(Hold::DepsWait { unmet: vec![x] }));
    let it = queue(&[("a", "awaiting: q1")]);
    assert_eq!(taken(&it), ["a"], "a mark locks nothing");
    assert_eq!(it.warnings(&it.tickets()[0]), [Warning::MarkedNotLocked(q1)]);
}

#[test]
fn r45_the_six_words_show_what_they_name_and_all_of_them_show_everything() {
    for status in Status::ALL {
        assert_eq!(Status::read(status.as_str()), Some(status));
        let shown: Vec<_> = Status::ALL.into_iter().filter(|choice| status.is_shown_by(*choice)).collect();
        let expected = match status {
            Status::AnswerWait => vec![Status::DepsWait, Status::AnswerWait],
            Status::Open | Status::DepsWait | Status::Assigned | Status::InProgress | Status::Done => vec![status],
        };
        assert_eq!(shown, expected);
    }
}

type Drawn = Vec<(u8, u8, u8, Vec<usize>)>;

fn drawn() -> impl Strategy<Value = Drawn> {
    prop::collection::vec((0..6u8, 0..4u8, 0..3u8, prop::collection::vec(0..12usize, 0..3)), 1..12)
}

fn build(drawn: &Drawn) -> Queue {
    let files: Vec<(String, String)> = drawn
        .iter()
        .enumerate()
        .map(|(at, (priority, lane, session, deps))| {
            let lane = [".wip", ".done", "", ""][usize::from(*lane)];
            let deps: Vec<String> = deps.iter().map(|dep| format!("t{dep}")).collect();
            let session = if *session == 0 { "session_id: s\n" } else { "" };
            (format!("t{at}{lane}"), format!("{session}priority: {priority}\ndeps: [{}]", deps.join(", ")))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, keys)| (name.as_str(), keys.as_str())).collect();
    queue(&files)
}

/// By the words of the rule, without looking at how [`effective`] does it.
fn plain_effective(queue: &Queue, ticket: &Ticket, path: &mut Vec<Stem>) -> Priority {
    let mut highest = ticket.priority;
    path.push(ticket.stem.clone());
    for waiter in queue.tickets().iter().filter(|it| it.lane != Lane::Done) {
        if path.contains(&waiter.stem) {
            continue;
        }
        if waiter.deps.iter().any(|dep| queue.find(dep).is_some_and(|it| it.stem == ticket.stem)) {
            highest = highest.max(plain_effective(queue, waiter, path));
        }
    }
    path.pop();
    highest
}

proptest! {
    #[test]
    fn every_open_ticket_is_in_line_once_or_an_accident(drawn in drawn()) {
        let it = build(&drawn);
        let open = it.tickets().iter().filter(|it| it.lane == Lane::Waiting).count();
        prop_assert_eq!(line(&it).len() + accidents(&it).count(), open);
        for entry in line(&it) {
            prop_assert_eq!(entry.hold.is_none(), taken(&it).contains(&entry.ticket.stem.to_string()));
            prop_assert_eq!(Status::of_entry(&entry), Status::of(&it, &entry.ticket));
        }
    }

    #[test]
    fn inheritance_is_what_the_rule_says(drawn in drawn()) {
        let it = build(&drawn);
        let effective = effective(&it);
        for ticket in it.tickets().iter().filter(|it| it.lane != Lane::Done) {
            prop_assert_eq!(effective[&ticket.stem], plain_effective(&it, ticket, &mut Vec::new()), "{}", ticket.stem);
        }
    }

    #[test]
    fn the_line_does_not_depend_on_how_the_folder_is_listed(drawn in drawn(), turn in 0..12usize) {
        let it = build(&drawn);
        let mut files: Vec<Arc<Ticket>> = it.tickets().to_vec();
        let turn = turn % files.len();
        files.rotate_left(turn);
        prop_assert_eq!(shown(&Queue::new(files, Vec::new())), shown(&it));
    }

    #[test]
    fn nobody_takes_what_is_in_a_cycle(drawn in drawn()) {
        let it = build(&drawn);
        let looped: Vec<Stem> = order::cycles(&it).into_iter().flatten().collect();
        for entry in candidates(&it) {
            prop_assert!(!looped.contains(&entry.ticket.stem));
        }
        // A ticket is in a cycle when it waits for itself, however far.
        for ticket in it.tickets().iter().filter(|it| it.lane != Lane::Done) {
            let (mut seen, mut todo) = (Vec::new(), vec![ticket.clone()]);
            while let Some(next) = todo.pop() {
                for dep in next.deps.iter().filter_map(|dep| it.find(dep)).filter(|it| it.lane != Lane::Done) {
                    if !seen.contains(&dep.stem) {
                        seen.push(dep.stem.clone());
                        todo.push(dep.clone());
                    }
                }
            }
            prop_assert_eq!(seen.contains(&ticket.stem), looped.contains(&ticket.stem), "{}", ticket.stem);
        }
    }
}

use shared::ticket::question::Origin;

use super::{
    super::{
        fake_tests::{Fake, Happens, Table},
        runs::{Question, RunNow},
    },
    *,
};

const OPEN: &str = "---\ntitle: t\ncreated_at: 2026-01-01T00:00:00Z\n---\nbody\n";

fn worker(fake: &Fake, runs: Table) -> Worker<Table> {
    let templates = Templates { folder: None, command: Some("true".to_owned()), capability: "build".to_owned() };
    let (folder, owner, pace) = (fake.folder.clone(), "me".to_owned(), Duration::from_millis(10));
    Worker::new(folder, runs, templates, owner, pace)
}

/// Works until `until` holds, or for as long as nothing must happen.
fn work(worker: &Worker<Table>, stop: &CancellationToken, until: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let waits = async {
            while !until() {
                tokio::time::sleep(Duration::from_millis(5).std()).await;
            }
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(worker.run(false, stop), waits);
        assert_eq!(ended, Ok(Ended::Stopped));
    });
}

fn stopping(stop: &CancellationToken) -> Happens {
    let stop = stop.clone();
    Box::new(move || stop.cancel())
}

/// An editor that saves in place: for a moment nothing is in the file.
fn saving(fake: &Fake) -> Happens {
    let path = fake.folder.at("a.wip.md");
    Box::new(move || {
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        let path = path.clone();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(150));
            std::fs::write(path, text).unwrap();
        });
    })
}

#[test]
fn a_ticket_that_is_being_saved_is_not_taken_for_lost() {
    for word in ["open", "submit"] {
        let fake = Fake::new(&[("a.md", OPEN)]);
        let worker =
            worker(&fake, Table { meanwhile: Some((word, saving(&fake))), is_quiet: true, ..Table::default() });
        let is_followed = || worker.runs.count("changed") == 1;
        let is_late = passed(5_000);
        work(&worker, &CancellationToken::new(), || is_followed() || is_late());
        assert!(is_followed(), "{word}: {:?}", worker.runs.heard.lock().unwrap());
        assert_eq!(worker.runs.count("cancel"), 0, "{word}");
    }
}

/// Whether so much time has passed.
fn passed(millis: u64) -> impl Fn() -> bool {
    let start = clock::boot_time();
    move || start.until(clock::boot_time()) >= Duration::from_millis(millis)
}

/// Told to end between claim and submission: certainly no Run is there.
#[test]
fn a_worker_that_is_stopped_before_it_submits_gives_its_ticket_back_as_it_was() {
    for word in ["open", "reach"] {
        let fake = Fake::new(&[("a.md", OPEN)]);
        let stop = CancellationToken::new();
        let worker = worker(&fake, Table { meanwhile: Some((word, stopping(&stop))), ..Table::default() });
        work(&worker, &stop, || stop.is_cancelled());
        assert_eq!(fake.files().into_iter().collect::<Vec<_>>(), [("a.md".to_owned(), OPEN.to_owned())], "{word}");
        assert_eq!(worker.runs.count("submit"), 0);
    }
}

/// From the submission on its Run may be there, and goes on.
#[test]
fn a_worker_that_is_stopped_later_leaves_its_ticket_to_the_next_one() {
    let fake = Fake::new(&[("a.md", OPEN)]);
    let stop = CancellationToken::new();
    let worker =
        worker(&fake, Table { meanwhile: Some(("submit", stopping(&stop))), is_quiet: true, ..Table::default() });
    work(&worker, &stop, || stop.is_cancelled());
    assert!(fake.text("a.wip.md").contains("\nsession_id: "));
}

#[test]
fn a_run_that_is_followed_is_watched_by_one_call_however_often_the_queue_is_looked_after() {
    let fake = Fake::new(&[("a.md", OPEN), ("b.wip.md", "---\nsession_id: r1\n---\n")]);
    let open = RunNow::Open { asking: Vec::new() };
    let worker = worker(&fake, Table { is_quiet: true, ..Table::of(&[("r1", open)]) });
    work(&worker, &CancellationToken::new(), || worker.runs.count("get r1") >= 5);
    assert_eq!(worker.runs.count("changed"), 1);
}

/// Also by whoever follows it: a mediator that has just been asked may know it in a moment.
#[test]
fn a_followed_run_that_is_not_known_has_its_grace_as_well() {
    let fake = Fake::new(&[("a.md", OPEN)]);
    let worker = worker(&fake, Table::default());
    work(&worker, &CancellationToken::new(), || worker.runs.count("get") >= 3);
    assert!(fake.text("a.wip.md").contains("\nsession_id: "));
    assert_eq!(worker.runs.count("submit"), 1);
}

#[test]
fn of_many_workers_one_looks_after_the_queue() {
    let held = |at: usize| (format!("t{at}.wip.md"), format!("---\nsession_id: r{at}\n---\n"));
    let files: Vec<(String, String)> = (0..8).map(held).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let fake = Fake::new(&files);
    let runs: Vec<String> = (0..8).map(|at| format!("r{at}")).collect();
    let open: Vec<(&str, RunNow)> =
        runs.iter().map(|run| (run.as_str(), RunNow::Open { asking: Vec::new() })).collect();
    let workers: Vec<_> = (0..8).map(|_| worker(&fake, Table::of(&open))).collect();
    let (start, rounds) = (clock::boot_time(), 20);
    std::thread::scope(|scope| {
        for worker in &workers {
            scope.spawn(|| work(worker, &CancellationToken::new(), passed(50 * rounds)));
        }
    });
    let rounds = usize::try_from(start.until(clock::boot_time()).std().as_millis()).unwrap() / 50;
    let asked: usize = workers.iter().map(|it| it.runs.count("get")).sum();
    // Each looks at its beginning; then one of all in 40 ms.
    let most = 8 * 8 + 8 * (rounds * 5 / 4 + 2);
    assert!(asked >= 8 * 8 + 8 * 3 && asked <= most, "{asked} questions, {most} at most");
}

/// Nobody would know otherwise why it is not taken.
#[test]
fn a_ticket_that_no_template_is_for_is_told_of_once() {
    let fake = Fake::new(&[("a.md", "---\nkind: odd\n---\n")]);
    let worker = Worker { templates: Templates::default(), ..worker(&fake, Table::default()) };
    let tell = || {
        let ticket = fake.folder.read().unwrap().tickets()[0].clone();
        let why = worker.templates.usable(&ticket.kind).unwrap_err().to_string();
        worker.not_warned_of(Left::from([(why, vec![ticket.stem.clone()])])).len()
    };
    assert_eq!([tell(), tell()], [1, 0]);
    std::fs::write(fake.folder.at("a.md"), "---\nkind: other one\n---\n").unwrap();
    assert_eq!([tell(), tell()], [1, 0], "of another kind it is another matter");
}

/// A ticket that asked in a Run which has succeeded since, as it is in line.
fn asked(keys: &str) -> String {
    format!(
        "---\ntitle: t\n{keys}deps: [q]\nawaiting: q\n---\nbody\n\n## 질문 1\n\n\
         <!-- asked by run t0123abcd-1 step ok attempt 1 -->\n\n?\n"
    )
}

/// Works on one ticket that asked, until it is submitted or done.
fn work_on_asked(file: &str, keys: &str) -> (Fake, usize) {
    let answer = ("q.done.md", "---\nkind: answer\n---\nyes\n");
    let fake = Fake::new(&[(file, &asked(keys)), answer, (".tickets.lock", "0123abcd\n")]);
    let mut table = Table::of(&[("t0123abcd-1", RunNow::Succeeded)]);
    table.works.insert("t0123abcd-1".to_owned(), "ticket:a".to_owned());
    let worker = worker(&fake, table);
    let (is_late, done) = (passed(5_000), fake.folder.at(&file.replace(".md", ".done.md")));
    work(&worker, &CancellationToken::new(), || worker.runs.count("submit") > 0 || done.exists() || is_late());
    let submitted = worker.runs.count("submit");
    (fake, submitted)
}

#[test]
fn a_ticket_whose_run_succeeded_while_nobody_looked_is_done_and_says_which_run_it_was() {
    let (fake, submitted) = work_on_asked("a.md", "");
    assert_eq!(submitted, 0);
    assert!(fake.text("a.done.md").contains("\nsession_id: t0123abcd-1\n"), "{:?}", fake.files());
}

/// It was done, a person has opened it again and taken its session away: there is work to do.
#[test]
fn r41_a_done_ticket_that_a_person_opens_again_is_worked_on_again() {
    let (fake, submitted) = work_on_asked("a.md", "assigned_at: 2026-01-01T00:00:00Z\nowner: me\n");
    assert_eq!((submitted, fake.folder.at("a.done.md").exists()), (1, false), "{:?}", fake.files());
}

/// The line by which a question finds its Run is copied with the file.
#[test]
fn a_copy_of_a_ticket_that_asked_is_work_of_its_own() {
    let (fake, submitted) = work_on_asked("b.md", "");
    assert_eq!((submitted, fake.folder.at("b.done.md").exists()), (1, false), "{:?}", fake.files());
}

/// The lock's file has the queue's tag, and a hidden file is lost easily. The Run that asks is named in the text.
#[test]
fn an_answer_finds_the_run_that_asked_also_where_the_queues_tag_is_lost() {
    let answer = ("q.done.md", "---\nkind: answer\n---\nyes\n");
    let fake = Fake::new(&[("a.md", &asked("")), answer]);
    let origin = Origin { run: "t0123abcd-1".to_owned(), step: "ok".to_owned(), attempt: 1 };
    let asking = vec![Question { origin, text: "?".to_owned() }];
    let open = RunNow::Open { asking };
    let worker = worker(&fake, Table { is_quiet: true, ..Table::of(&[("t0123abcd-1", open)]) });
    let is_late = passed(5_000);
    work(&worker, &CancellationToken::new(), || worker.runs.count("changed") > 0 || is_late());
    assert_eq!((worker.runs.count("submit"), worker.runs.count("answer t0123abcd-1 ok")), (0, 1), "{:?}", fake.files());
}

/// By another fleet's mediator, or by a clock that goes wrong: it has cost an attempt and no second Run.
#[test]
fn what_went_back_while_its_run_is_open_goes_on_with_that_run() {
    let held = "---\ntitle: t\nsession_id: t0123abcd-1\nassigned_at: 2026-01-01T00:00:00Z\n---\n";
    let fake = Fake::new(&[("a.wip.md", held), (".tickets.lock", "0123abcd\n")]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(reap::reap(&fake.folder, &Table::default(), clock::now(), reap::GRACE, &mut Vec::new())).unwrap();
    assert!(fake.text("a.md").contains("\nattempts: 1\n"));
    let open = RunNow::Open { asking: Vec::new() };
    let worker = worker(&fake, Table { is_quiet: true, ..Table::of(&[("t0123abcd-1", open)]) });
    let is_late = passed(5_000);
    work(&worker, &CancellationToken::new(), || worker.runs.count("changed") > 0 || is_late());
    assert_eq!(worker.runs.count("submit"), 0);
    assert!(fake.text("a.wip.md").contains("\nsession_id: t0123abcd-1\n"), "{:?}", fake.files());
}

/// One with an odd name, one that nobody can make a Run of, and one of which the mediator wants to hear nothing.
#[test]
fn what_is_wrong_with_one_ticket_ends_no_worker() {
    let bad = OPEN.replace("body", "no program takes a \0");
    let later = OPEN.replace("title: t", "title: t\npriority: 2");
    let fake = Fake::new(&[("it's, [urgent].md", &bad), ("a.md", &bad), ("b.md", &later), ("refused.md", OPEN)]);
    let table = Table { is_quiet: true, refuses: Some("open ticket:refused"), ..Table::default() };
    let worker = worker(&fake, table);
    let is_late = passed(5_000);
    work(&worker, &CancellationToken::new(), || worker.runs.count("changed") > 0 || is_late());
    assert!(fake.text("b.wip.md").contains("session_id"), "{:?}", fake.files());
    for file in ["it's, [urgent].md", "a.md", "refused.md"] {
        assert!(fake.text(file).contains("## 질문 1"), "{:?}", fake.files());
    }
    let line = shared::ticket::line(&fake.folder.read().unwrap());
    assert!(line.iter().all(|it| matches!(it.hold, Some(shared::ticket::Hold::AnswerWait { .. }))), "{line:?}");
}

/// The reaper ends it, once there is a machine.
#[test]
fn a_run_that_no_machine_serves_keeps_its_worker_from_its_own_kind_only() {
    let of = |kind: &str, day: u32| format!("---\ntitle: t\nkind: {kind}\ncreated_at: 2026-01-0{day}T00:00:00Z\n---\n");
    let fake = Fake::new(&[("a.md", &of("rare", 1)), ("b.md", &of("rare", 2)), ("c.md", &of("plain", 3))]);
    let table = Table { is_quiet: true, unserved: Some(r#""change_id":"a""#), ..Table::default() };
    let worker = worker(&fake, table);
    let is_late = passed(10_000);
    work(&worker, &CancellationToken::new(), || worker.runs.count("changed") > 1 || is_late());
    assert_eq!(fake.names(), ["a.wip.md", "b.md", "c.wip.md"], "{:?}", worker.runs.heard.lock().unwrap());

    // A worker that is started anew, or another one, sees by the Run what is left.
    // Also where the mediator is late.
    let silent_for = Mutex::new(1);
    let other =
        self::worker(&fake, Table { is_quiet: true, unserved: Some("nothing"), silent_for, ..Table::default() });
    *other.runs.waiting.lock().unwrap() = worker.runs.waiting.lock().unwrap().clone();
    let turns = || other.runs.count("reach");
    work(&other, &CancellationToken::new(), || turns() > 5);
    assert!(
        fake.folder.at("b.md").exists() && other.runs.count("submit") == 0,
        "{:?}",
        other.runs.heard.lock().unwrap()
    );

    // With a machine its kind is worked on again.
    let fake = Fake::new(&[("a.md", &of("rare", 1)), ("b.md", &of("rare", 2))]);
    let worker =
        self::worker(&fake, Table { is_quiet: true, unserved: Some(r#""change_id":"a""#), ..Table::default() });
    let (is_late, turns) = (passed(10_000), || worker.runs.count("reach"));
    work(&worker, &CancellationToken::new(), || {
        if turns() > 3 {
            worker.runs.waiting.lock().unwrap().clear();
        }
        worker.runs.count("changed") > 1 || is_late()
    });
    assert!(turns() > 3 && fake.names() == ["a.wip.md", "b.wip.md"], "{:?}", worker.runs.heard.lock().unwrap());
}

#[test]
fn a_kind_whose_template_was_changed_is_tried_again() {
    const CONTRACT: &str = "requires: [{as: w, capability: c}]\nsteps: [{id: s, uses: w, run: ['true']}]\n";
    let of = |day: u32| format!("---\ntitle: t\nkind: rare\ncreated_at: 2026-01-0{day}T00:00:00Z\n---\n");
    let (fake, templates) = (Fake::new(&[("a.md", &of(1)), ("b.md", &of(2))]), tempfile::tempdir().unwrap());
    let write = || std::fs::write(templates.path().join("rare.yaml"), CONTRACT).unwrap();
    write();
    let table = Table { is_quiet: true, unserved: Some(r#""change_id":"a""#), ..Table::default() };
    let mut worker = worker(&fake, table);
    worker.templates = Templates { folder: Some(templates.path().to_owned()), ..Templates::default() };
    let (is_late, mended) = (passed(10_000), std::cell::Cell::new(false));
    work(&worker, &CancellationToken::new(), || {
        if worker.runs.count("reach") > 3 && !mended.replace(true) {
            assert_eq!(fake.names(), ["a.wip.md", "b.md"]);
            write();
        }
        worker.runs.count("changed") > 1 || is_late()
    });
    assert!(mended.get() && fake.names() == ["a.wip.md", "b.wip.md"], "{:?}", worker.runs.heard.lock().unwrap());
}

/// However rarely it looks for new files.
#[test]
fn a_worker_with_a_slow_pace_looks_after_the_others_all_the_same() {
    let fake = Fake::new(&[]);
    let mut worker = worker(&fake, Table::default());
    worker.pace = Duration::from_secs(3_600);
    let (is_late, turns) = (passed(5_000), || worker.runs.count("reach"));
    work(&worker, &CancellationToken::new(), || turns() > 3 || is_late());
    assert!(turns() > 3, "{:?}", worker.runs.heard.lock().unwrap());
}

/// One worker that follows the Run of `a`, while somebody does something to the queue; `b` comes next. Gives back how it ended
/// and what was asked of the mediator.
fn meanwhile(
    fake: &Fake,
    refuses: Option<&'static str>,
    then: impl Fn(),
    until: impl Fn(&Table) -> bool,
) -> (Result<Ended, Trouble>, Worker<Table>) {
    let open = RunNow::Open { asking: Vec::new() };
    let mut table = Table { is_quiet: true, refuses, ..Table::of(&[("t0123abcd-1", open)]) };
    table.works.insert("t0123abcd-1".to_owned(), "ticket:a".to_owned());
    let (worker, stop, happened) = (worker(fake, table), CancellationToken::new(), std::cell::Cell::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (is_late, heard) = (passed(5_000), &worker.runs);
    let ended = runtime.block_on(async {
        let waits = async {
            while !(is_late() || happened.get() && until(heard)) {
                if heard.count("changed t0123abcd-1") > 0 && !happened.replace(true) {
                    then();
                }
                tokio::time::sleep(Duration::from_millis(5).std()).await;
            }
            stop.cancel();
        };
        tokio::join!(worker.run(false, &stop), waits).0
    });
    assert!(happened.get(), "it never followed: {:?}", heard.heard.lock().unwrap());
    (ended, worker)
}

const FOLLOWED: [(&str, &str); 3] =
    [("a.md", OPEN), ("b.md", "---\ntitle: next\npriority: 2\n---\n"), (".tickets.lock", "0123abcd\n")];

/// Who takes the file out of the worker's hand means that it is to stop.
#[test]
fn the_run_of_a_ticket_that_a_person_renames_is_cancelled() {
    for name in ["a.done.md", "a.md"] {
        let fake = Fake::new(&FOLLOWED);
        let renames = || std::fs::rename(fake.folder.at("a.wip.md"), fake.folder.at(name)).unwrap();
        // Whoever looks after the queue hears of no open Run.
        let (ended, worker) = meanwhile(&fake, Some("list"), renames, |table| table.count("submit") > 0);
        assert_eq!(ended, Ok(Ended::Stopped));
        let heard = worker.runs.heard.lock().unwrap().clone();
        assert_eq!(heard.iter().filter(|it| *it == "cancel t0123abcd-1").count(), 1, "{name}: {heard:?}");
        assert_eq!(fake.names(), [name, "b.wip.md"], "the next one's turn");
        let text = fake.text(name);
        assert!(text.contains("\nsession_id: t0123abcd-1\n") && !text.contains("attempts"), "{text}");
    }
}

#[test]
fn a_worker_that_may_not_cancel_the_run_of_a_renamed_ticket_goes_on_with_the_next() {
    let fake = Fake::new(&FOLLOWED);
    let renames = || std::fs::rename(fake.folder.at("a.wip.md"), fake.folder.at("a.done.md")).unwrap();
    let (ended, worker) = meanwhile(&fake, Some("cancel"), renames, |table| table.count("submit") > 0);
    assert_eq!((ended, worker.runs.count("submit")), (Ok(Ended::Stopped), 1));
}

/// What programs do with a ticket, and what may be a folder that is out of reach, ends no Run.
#[test]
fn a_run_is_not_cancelled_for_a_ticket_that_is_not_renamed() {
    let asks = "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\nbody\n\n## 질문 1\n\n?\n";
    let held = |fake: &Fake| fake.folder.at("a.wip.md");
    let asked_by_another = |fake: &Fake| {
        std::fs::write(fake.folder.at("a.md"), asks).unwrap();
        std::fs::remove_file(held(fake)).unwrap();
    };
    let given_back = |fake: &Fake| {
        std::fs::write(fake.folder.at("a.md"), OPEN.replace("title: t", "title: t\nattempts: 1\ndeps: [z]")).unwrap();
        std::fs::remove_file(held(fake)).unwrap();
    };
    let gone = |fake: &Fake| std::fs::remove_file(held(fake)).unwrap();
    let beside = |fake: &Fake| assert!(std::fs::copy(held(fake), fake.folder.at("a.done.md")).is_ok());
    type Does<'a> = (&'a str, &'a dyn Fn(&Fake));
    let cases: [Does; 4] =
        [("asked", &asked_by_another), ("given back", &given_back), ("gone", &gone), ("beside", &beside)];
    for (what, does) in cases {
        let fake = Fake::new(&FOLLOWED);
        let (ended, worker) = meanwhile(&fake, None, || does(&fake), |table| table.count("submit") > 0);
        assert_eq!((ended, worker.runs.count("submit")), (Ok(Ended::Stopped), 1), "{what}");
        assert_eq!(worker.runs.count("cancel"), 0, "{what}");
    }
    let fake = Fake::new(&FOLLOWED);
    let away = fake.folder.path().with_extension("away");
    let (ended, worker) = meanwhile(&fake, None, || std::fs::rename(fake.folder.path(), &away).unwrap(), |_| false);
    std::fs::rename(&away, fake.folder.path()).unwrap();
    assert!(matches!(ended, Err(Trouble::Folder(_))), "{ended:?}");
    assert_eq!(worker.runs.count("cancel"), 0);
}

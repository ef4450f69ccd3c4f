use super::{
    super::fake_tests::{Fake, Happens, Table},
    *,
};

const OPEN: &str = "---\ntitle: t\ncreated_at: 2026-01-01T00:00:00Z\n---\nbody\n";

fn worker(fake: &Fake, runs: Table) -> Worker<Table> {
    let templates = Templates { folder: None, command: Some("true".to_owned()), capability: "build".to_owned() };
    let (folder, owner, pace) = (fake.folder.clone(), "me".to_owned(), Duration::from_millis(10));
    Worker { folder, runs, templates, owner, pace, looked: Mutex::default(), told: Mutex::default() }
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
    // Each looks at its beginning; then one of all, and now and then two at once.
    let most = 8 * 8 + 8 * rounds * 4;
    assert!(asked >= 8 * 8 + 8 * 3 && asked <= most, "{asked} questions, {most} at most");
}

/// Nobody would know otherwise why it is not taken.
#[test]
fn a_ticket_that_no_template_is_for_is_told_of_once() {
    let fake = Fake::new(&[("a.md", "---\nkind: odd\n---\n")]);
    let worker = Worker { templates: Templates::default(), ..worker(&fake, Table::default()) };
    let tell = || worker.untold(vec![fake.folder.read().unwrap().tickets()[0].clone()]).len();
    assert_eq!([tell(), tell()], [1, 0]);
    std::fs::write(fake.folder.at("a.md"), "---\nkind: other one\n---\n").unwrap();
    assert_eq!([tell(), tell()], [1, 0], "of another kind it is another matter");
}

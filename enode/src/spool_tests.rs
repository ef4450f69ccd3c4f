use super::*;

fn node() -> NodeId {
    NodeId::new("yard/1").unwrap()
}

fn record(run: &str) -> Record {
    Record {
        run_id: RunId::new(run).unwrap(),
        seq: 2,
        attempt: 1,
        step_id: StepName::new("test").unwrap(),
        nonce: Nonce::from_bits(7),
        outcome: Outcome::Completed { exit_code: 3 },
        log_bytes: 5,
        out: PathBuf::from("/somewhere/out"),
        artifacts: vec![Artifact { name: "a".into(), size: 1, sha256: "00".into() }],
        ended_at: Timestamp::from_millis(1_700_000_000_000),
        refused: None,
    }
}

/// But for spare files.
fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn a_result_is_there_again_after_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    fs::write(spool.log_path(&record("r").key()), "hello").unwrap();
    spool.put(&record("r")).unwrap();
    let again = Spool::open(state.path(), &node()).unwrap();
    assert_eq!(again.load().unwrap(), [record("r")]);
    again.remove(&record("r").key());
    assert_eq!(names(&state.path().join("spool/yard@1")), Vec::<String>::new());
}

#[test]
fn results_come_back_in_the_order_in_which_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), &node()).unwrap();
    // Neither the order of their names nor the one in which they were written.
    for (attempt, ended) in [(2, 30), (1, 20), (3, 10)] {
        spool.put(&Record { attempt, ended_at: Timestamp::from_millis(ended), ..record("r") }).unwrap();
    }
    let attempts: Vec<u32> = spool.load().unwrap().iter().map(|it| it.attempt).collect();
    assert_eq!(attempts, [3, 1, 2]);
}

#[test]
fn what_a_crash_left_half_done_is_no_result() {
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    spool.put(&record("whole")).unwrap();
    let dir = state.path().join("spool/yard@1");
    fs::write(dir.join("half_0_1.json.tmp"), "{\"run_id\":").unwrap();
    fs::write(dir.join("torn_0_1.json"), "{\"run_id\":").unwrap();
    fs::write(dir.join("orphan_0_1.log"), "it ran").unwrap();
    assert_eq!(spool.load().unwrap(), [record("whole")]);
    assert_eq!(names(&dir), ["whole_2_1.json"]);
    assert_eq!(names(&state.path().join("refused/yard@1")), ["orphan_0_1.log", "torn_0_1.json"], "nothing is deleted");
}

#[test]
fn a_refused_result_is_kept_with_the_reason_and_its_log() {
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    fs::write(spool.log_path(&record("r").key()), "hello").unwrap();
    spool.put(&record("r")).unwrap();
    spool.refuse(&record("r"), "STALE: too late");
    assert!(spool.load().unwrap().is_empty());
    let kept = state.path().join("refused/yard@1");
    assert_eq!(names(&kept), ["r_2_1.json", "r_2_1.log"]);
    let record: Record = serde_json::from_slice(&fs::read(kept.join("r_2_1.json")).unwrap()).unwrap();
    assert_eq!(record.refused.as_deref(), Some("STALE: too late"));
}

#[test]
fn a_result_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    spool.put(&record("r")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state.path().join("spool/yard@1/r_2_1.json")), 0o600);
    assert_eq!(mode(&state.path().join("spool/yard@1")), 0o700);
}

#[test]
fn a_failed_write_leaves_the_old_content_and_no_litter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    write_durably(&path, b"old").unwrap();
    // A folder in the way of the temporary file is a failure that root cannot write through either.
    fs::create_dir(dir.path().join("file.tmp")).unwrap();
    assert!(write_durably(&path, b"new").is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_result_is_synced_with_or_without_a_log() {
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    let one = record("r");
    assert!(spool.keep(&one.key()).is_ok(), "acknowledged meanwhile");
    spool.put(&one).unwrap();
    spool.keep(&one.key()).unwrap();
    fs::write(spool.log_path(&one.key()), b"line\n").unwrap();
    spool.keep(&one.key()).unwrap();
    assert_eq!(spool.load().unwrap(), [one]);
}

#[test]
fn files_go_round_and_nothing_of_one_result_is_in_the_next() {
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    let (long, short) = (record("a-run-with-a-long-name"), record("r"));
    for (one, log) in [(&long, ""), (&short, "said\n"), (&long, "")] {
        let mut file = spool.create_log(&one.key()).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        file.write_all(log.as_bytes()).unwrap();
        spool.put(one).unwrap();
        assert_eq!(spool.load().unwrap(), std::slice::from_ref(one));
        spool.remove(&one.key());
        assert_eq!(names(&state.path().join("spool/yard@1")), [""; 0]);
    }
}

#[test]
fn a_spool_that_a_step_has_removed_is_made_again() {
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    let gone = || ["spool", "refused"].iter().for_each(|it| drop(fs::remove_dir_all(state.path().join(it))));
    let key = record("r").key();
    gone();
    spool.create_log(&key).unwrap();
    gone();
    spool.put(&record("r")).unwrap();
    gone();
    spool.create_log(&key).unwrap();
    spool.refuse(&record("r"), "why");
    assert_eq!(names(&state.path().join("refused/yard@1")), ["r_2_1.json", "r_2_1.log"]);
}

#[test]
fn a_pipe_in_the_spool_is_not_waited_for() {
    let state = tempfile::tempdir().unwrap();
    let spool = Spool::open(state.path(), &node()).unwrap();
    let pipe = state.path().join("spool/yard@1/r_2_1.json");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(spool.load().unwrap(), []);
    assert!(!pipe.exists(), "it is set aside");
}

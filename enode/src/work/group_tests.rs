use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use super::*;

struct Started(Child);

impl Started {
    fn new(script: &str, run: &str) -> Self {
        let mut command = Command::new("/bin/sh");
        Self(command.args(["-c", script]).env("RUN_ID", run).process_group(0).spawn().unwrap())
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Its own group only, and its leader is not reaped yet.
        assert!(kill_process_group(self.group(), Signal::KILL).is_ok());
        drop(self.0.wait());
    }
}

fn notes() -> (tempfile::TempDir, Notes, RunId) {
    let state = tempfile::tempdir().unwrap();
    let notes = Notes::open(state.path(), &NodeId::new("yard/0").unwrap()).unwrap();
    (state, notes, RunId::new("left").unwrap())
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_program_name_may_hold_anything() {
    let text = "42 (a b) c) d) S 1 77 77 0 -1 4194560 95 0 0 0 0 0 0 0 20 0 1 0 123456 2658304 199";
    assert_eq!(parse_stat(text), Some(Stat { state: 'S', parent: 1, group: 77, started: 123_456 }));
    for bad in ["", "42", "42 (x)", "42 (x) S 1"] {
        assert_eq!(parse_stat(bad), None, "{bad}");
    }
}

#[tokio::test]
async fn what_an_earlier_life_left_is_killed() {
    let (_state, notes, run) = notes();
    let left = Started::new("trap '' TERM; sleep 1000 & wait", "left");
    notes.write(left.group(), &run, Path::new("/nowhere/out")).unwrap();
    assert!(is_alive(left.group()));
    assert!(notes.sweep(LONG).await);
    assert!(!is_alive(left.group()));
    assert!(notes.sweep(LONG).await, "nothing is left to do");
}

#[tokio::test]
async fn a_note_that_a_step_has_removed_is_made_again() {
    let (state, notes, run) = notes();
    fs::remove_dir_all(state.path().join("groups")).unwrap();
    notes.intend(&run, Path::new("/nowhere/out")).unwrap();
    let left = Started::new("sleep 1000", "left");
    notes.write(left.group(), &run, Path::new("/nowhere/out")).unwrap();
    let next_life = Notes::open(state.path(), &NodeId::new("yard/0").unwrap()).unwrap();
    assert!(next_life.sweep(LONG).await);
    assert!(!is_alive(left.group()));
}

#[tokio::test]
async fn a_group_without_its_leader_is_killed_if_a_member_names_the_run() {
    for (run_of_member, killed) in [("left", true), ("foreign", false)] {
        let (_state, notes, run) = notes();
        let mut left = Started::new("sleep 1000 & exit 0", run_of_member);
        let group = left.group();
        notes.write(group, &run, Path::new("/nowhere/out")).unwrap();
        left.0.wait().unwrap();
        assert!(is_alive(group), "the member holds it");
        assert!(notes.sweep(LONG).await);
        assert_eq!(!is_alive(group), killed, "{run_of_member}");
        if !killed {
            kill_process_group(group, Signal::KILL).unwrap();
            assert!(gone(group, LONG).await);
        }
        // The leader is reaped: the group must not be signalled again.
        std::mem::forget(left);
    }
}

#[tokio::test]
async fn somebody_elses_group_with_the_same_number_is_spared() {
    let (state, notes, run) = notes();
    let other = Started::new("sleep 1000", "left");
    notes.write(other.group(), &run, Path::new("/nowhere/out")).unwrap();
    let path = state.path().join("groups/yard@0.json");
    let mut note: Note = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    note.started += 1;
    fs::write(&path, serde_json::to_vec(&note).unwrap()).unwrap();
    assert!(notes.sweep(LONG).await);
    assert!(is_alive(other.group()), "its leader started at another time");
    note.started -= 1;
    note.boot = "another boot".to_owned();
    fs::write(&path, serde_json::to_vec(&note).unwrap()).unwrap();
    assert!(notes.sweep(LONG).await);
    assert!(is_alive(other.group()), "it was another boot");
}

#[tokio::test]
async fn what_started_before_it_could_be_noted_is_found_by_its_environment() {
    let (state, notes, run) = notes();
    let (ours, theirs) = (state.path().join("ours"), state.path().join("theirs"));
    let start = |out: &Path| {
        let mut command = Command::new("/bin/sh");
        let command =
            command.args(["-c", "echo; trap '' TERM; sleep 1000 & wait"]).env("RUN_ID", "left").env("OUT", out);
        let mut child = command.stdout(std::process::Stdio::piped()).process_group(0).spawn().unwrap();
        // It has its own environment once it says something.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        Started(child)
    };
    let (left, other) = (start(&ours), start(&theirs));
    notes.intend(&run, &ours).unwrap();
    assert!(notes.sweep(LONG).await);
    assert!(!is_alive(left.group()));
    assert!(is_alive(other.group()), "another agent works for the same Run");
}

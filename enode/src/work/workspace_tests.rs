use super::*;
use crate::work::tree::make_read_only;

fn key(seq: u32, attempt: u32) -> StepKey {
    StepKey { run: RunId::new("r").unwrap(), seq, attempt }
}

fn rooms() -> (tempfile::TempDir, Rooms) {
    let state = tempfile::tempdir().unwrap();
    let rooms = Rooms::open(state.path(), &NodeId::new("yard/0").unwrap()).unwrap();
    (state, rooms)
}

const OLD: Nonce = Nonce::from_bits(1);
const NEW: Nonce = Nonce::from_bits(2);

#[test]
fn steps_of_a_lease_share_the_working_directory_and_nothing_else() {
    let (_state, rooms) = rooms();
    let first = rooms.enter(&key(0, 1), OLD, true).unwrap();
    fs::write(first.run.join("src"), "x").unwrap();
    fs::write(first.out.join("report"), "x").unwrap();
    fs::write(first.cache.join("kept"), "x").unwrap();
    let second = rooms.enter(&key(1, 1), OLD, false).unwrap();
    assert_eq!(first.run, second.run);
    assert!(second.run.join("src").exists());
    assert_eq!(fs::read_dir(&second.out).unwrap().count(), 0);
    assert!(first.out.join("report").exists(), "it may still be on its way");
    assert!(second.cache.join("kept").exists());
}

#[test]
fn the_first_step_of_a_lease_finds_an_empty_folder() {
    let (_state, rooms) = rooms();
    let old = rooms.enter(&key(0, 1), OLD, true).unwrap();
    fs::write(old.run.join("left"), "x").unwrap();
    let new = rooms.enter(&key(0, 2), NEW, true).unwrap();
    assert_eq!(fs::read_dir(&new.run).unwrap().count(), 0);
}

#[test]
fn a_later_step_without_its_folder_is_lost() {
    let (_state, rooms) = rooms();
    assert!(matches!(rooms.enter(&key(1, 1), OLD, false), Err(RoomError::Lost(_))), "no folder");
    let room = rooms.enter(&key(0, 1), OLD, true).unwrap();
    assert!(matches!(rooms.enter(&key(1, 1), NEW, false), Err(RoomError::Lost(_))), "another lease's folder");
    fs::remove_dir_all(&room.run).unwrap();
    assert!(matches!(rooms.enter(&key(1, 1), OLD, false), Err(RoomError::Lost(_))), "its inside is gone");
}

#[test]
fn removing_an_ended_lease_spares_the_next_one() {
    let (_state, rooms) = rooms();
    let run = RunId::new("r").unwrap();
    let room = rooms.enter(&key(0, 2), NEW, true).unwrap();
    rooms.remove(&(run.clone(), OLD)).unwrap();
    assert!(room.run.exists());
    rooms.remove(&(run.clone(), NEW)).unwrap();
    assert!(!room.run.exists());
    rooms.remove(&(run, NEW)).unwrap();
}

#[test]
fn found_are_leases_with_a_mark_and_the_rest_is_removed() {
    let (state, rooms) = rooms();
    rooms.enter(&key(0, 1), OLD, true).unwrap();
    let litter = state.path().join("work/yard@0/half");
    fs::create_dir(&litter).unwrap();
    assert_eq!(rooms.found().unwrap(), [(RunId::new("r").unwrap(), OLD)]);
    assert!(!litter.exists());
}

#[test]
fn what_a_program_made_unwritable_is_removed_too() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/file"), "x").unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("spared"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
    make_read_only(&tree.join("a")).unwrap();
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
    assert!(outside.join("spared").exists(), "links are not followed");
    remove_tree(&tree).unwrap();
}

#[test]
fn a_spare_folder_that_cannot_be_removed_is_passed_over() {
    // A folder that is a mount point, or lies on a disk that fails, cannot be made in a test; a long name can: nothing of
    // that name can be looked at.
    let work = tempfile::tempdir().unwrap();
    let path = free_name(work.path()).unwrap();
    assert!(path.ends_with(SPARE));
    let error = free_name(&work.path().join("x".repeat(300))).unwrap_err().to_string();
    assert!(error.contains("cannot remove ") && error.contains(".spare"), "{error}");
}

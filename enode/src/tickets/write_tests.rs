use std::os::unix::fs::MetadataExt;

use shared::ticket::Suffixes;

use super::{super::links::Links, *};

fn folder() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::with(dir.path(), Suffixes::default(), Links::Kernel).unwrap();
    (dir, folder)
}

fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_text_is_replaced_as_a_whole_with_its_mode() {
    let (_dir, folder) = folder();
    fs::write(folder.at("a.md"), "old").unwrap();
    fs::set_permissions(folder.at("a.md"), fs::Permissions::from_mode(0o440)).unwrap();
    let read = folder.read_file("a.md").unwrap();
    replace(&folder, "a.md", &read, b"new", "t").unwrap();
    assert_eq!(fs::read(folder.at("a.md")).unwrap(), b"new");
    assert_eq!(fs::metadata(folder.at("a.md")).unwrap().mode() & 0o777, 0o440);
    assert_eq!(names(&folder), ["a.md"]);
}

#[test]
fn r22_r28_a_name_that_has_moved_on_is_not_brought_back() {
    let (_dir, folder) = folder();
    fs::write(folder.at("a.wip.md"), "old").unwrap();
    let read = folder.read_file("a.wip.md").unwrap();
    fs::rename(folder.at("a.wip.md"), folder.at("a.done.md")).unwrap();
    assert!(matches!(replace(&folder, "a.wip.md", &read, b"new", "t"), Err(WriteError::Moved)));
    assert_eq!(names(&folder), ["a.done.md"], "no fragment");
    assert_eq!(fs::read(folder.at("a.done.md")).unwrap(), b"old");
}

#[test]
fn what_somebody_saved_meanwhile_stays() {
    let (_dir, folder) = folder();
    for in_place in [true, false] {
        fs::write(folder.at("a.md"), "old").unwrap();
        let read = folder.read_file("a.md").unwrap();
        if in_place {
            fs::write(folder.at("a.md"), "theirs").unwrap();
        } else {
            fs::write(folder.at("a.md~"), "theirs").unwrap();
            fs::rename(folder.at("a.md~"), folder.at("a.md")).unwrap();
        }
        assert!(matches!(replace(&folder, "a.md", &read, b"ours", "t"), Err(WriteError::Moved)));
        assert_eq!((fs::read(folder.at("a.md")).unwrap(), names(&folder).len()), (b"theirs".to_vec(), 1));
    }
}

/// In the moment that no check can close: only the kernel's call decides.
#[test]
fn r22_a_name_that_moves_on_after_the_check_is_not_brought_back() {
    let (_dir, folder) = folder();
    fs::write(folder.at("a.md"), "old").unwrap();
    let read = folder.read_file("a.md").unwrap();
    let ours = draft(&folder, b"ours", Some(&read)).unwrap();
    assert!(is_same(&folder.at("a.md"), &read).unwrap());
    fs::rename(folder.at("a.md"), folder.at("a.done.md")).unwrap();
    assert!(matches!(exchange(ours, &folder.at("a.md"), &read, "t"), Err(WriteError::Moved)));
    assert_eq!(names(&folder), ["a.done.md"]);
    assert_eq!(fs::read(folder.at("a.done.md")).unwrap(), b"old");
}

#[test]
fn what_somebody_saved_after_the_check_stays() {
    let (_dir, folder) = folder();
    fs::write(folder.at("a.md"), "old").unwrap();
    let read = folder.read_file("a.md").unwrap();
    let ours = draft(&folder, b"ours", Some(&read)).unwrap();
    fs::write(folder.at("a.md~"), "theirs").unwrap();
    fs::rename(folder.at("a.md~"), folder.at("a.md")).unwrap();
    assert!(matches!(exchange(ours, &folder.at("a.md"), &read, "t"), Err(WriteError::Moved)));
    assert_eq!((fs::read(folder.at("a.md")).unwrap(), names(&folder).len()), (b"theirs".to_vec(), 1));
}

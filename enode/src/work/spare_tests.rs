use std::{
    fs::Permissions,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use super::*;
use crate::work::tree::make_read_only;

struct Place {
    _dir: tempfile::TempDir,
    home: std::path::PathBuf,
    spare: std::path::PathBuf,
}

/// A Run's folder with one attempt.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let (home, spare) = (dir.path().join("r"), dir.path().join(SPARE));
    furnish(&home, Nonce::from_bits(1)).unwrap();
    furnish_attempt(&home.join("0-1")).unwrap();
    Place { _dir: dir, home, spare }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

fn all(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(all(&path).iter().map(|below| format!("{name}/{below}")));
        }
        found.push(name);
    }
    found.sort();
    found
}

#[test]
fn what_is_kept_is_empty_and_the_same_folders() {
    let place = place();
    fs::create_dir_all(place.home.join("run/target/deep")).unwrap();
    fs::write(place.home.join("run/.hidden"), "x").unwrap();
    fs::write(place.home.join("0-1/in/file"), "x").unwrap();
    fs::create_dir(place.home.join("0-1/task")).unwrap();
    fs::create_dir_all(place.home.join("1-1/out")).unwrap();
    make_read_only(&place.home.join("0-1/in")).unwrap();
    let before = ["run", "0-1/out"].map(|name| inode(&place.home.join(name)));
    assert!(keep(&place.home, &place.spare).unwrap());
    assert!(!place.home.exists());
    let left = all(&place.spare);
    assert!(left.iter().all(|it| ["lease", "run", "next", "next/in", "next/out"].contains(&it.as_str())), "{left:?}");
    assert_eq!(inode(&place.spare.join("run")), before[0]);
    furnish(&place.spare, Nonce::from_bits(2)).unwrap();
    furnish_attempt(&place.spare.join(NEXT)).unwrap();
    assert_eq!(fs::metadata(place.spare.join("next/in")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read_to_string(place.spare.join(LEASE)).unwrap(), Nonce::from_bits(2).reveal());
}

#[test]
fn a_second_spare_folder_is_not_kept() {
    let place = place();
    furnish(&place.spare, Nonce::from_bits(2)).unwrap();
    assert!(!keep(&place.home, &place.spare).unwrap_or(false));
    assert!(place.home.exists());
}

#[test]
fn what_a_program_has_put_where_the_next_attempt_is_made_is_removed() {
    for attempt in ["0-1", "nothing"] {
        let place = place();
        drop(fs::rename(place.home.join("0-1"), place.home.join(attempt)));
        fs::create_dir_all(place.home.join("next/out")).unwrap();
        fs::write(place.home.join("next/out/file"), "x").unwrap();
        assert!(keep(&place.home, &place.spare).unwrap());
        let left = all(&place.spare);
        assert!(!left.contains(&"next/out/file".to_owned()), "{left:?}");
    }
}

#[test]
fn a_link_in_place_of_the_working_directory_is_not_the_next_ones() {
    let place = place();
    let run = place.home.join(RUN);
    fs::remove_dir(&run).unwrap();
    std::os::unix::fs::symlink("/", &run).unwrap();
    assert!(keep(&place.home, &place.spare).unwrap());
    assert!(!place.spare.join(RUN).is_symlink());
}

#[test]
fn what_a_program_has_attached_to_its_working_directory_is_not_the_next_ones() {
    let place = place();
    let run = place.home.join(RUN);
    if rustix::fs::setxattr(&run, "user.note", b"x", rustix::fs::XattrFlags::empty()).is_err() {
        // Nothing can be attached on this file system.
        return;
    }
    assert!(keep(&place.home, &place.spare).unwrap());
    assert!(!place.spare.join(RUN).exists());
}

#[test]
fn a_mode_that_a_program_has_set_is_set_back() {
    let place = place();
    fs::set_permissions(place.home.join(RUN), Permissions::from_mode(0o777)).unwrap();
    assert!(keep(&place.home, &place.spare).unwrap());
    assert_eq!(fs::metadata(place.spare.join(RUN)).unwrap().mode() & 0o7777, 0o700);
}

/// Sets or clears a flag. False: this user or this file system cannot.
fn flag(path: &Path, flag: IFlags, on: bool) -> bool {
    let dir = File::open(path).unwrap();
    let Ok(mut flags) = rustix::fs::ioctl_getflags(&dir) else { return false };
    flags.set(flag, on);
    rustix::fs::ioctl_setflags(&dir, flags).is_ok()
}

#[test]
fn flags_that_a_program_has_set_are_not_the_next_ones() {
    for (name, of) in [(RUN, IFlags::NODUMP), (RUN, IFlags::NOATIME), ("0-1/out", IFlags::NODUMP)] {
        let place = place();
        if flag(&place.home.join(name), of, true) {
            assert!(keep(&place.home, &place.spare).unwrap(), "{name}");
            let left = all(&place.spare);
            let name = name.replace("0-1", "next");
            assert!(!left.contains(&name), "{left:?}");
        }
    }
    let place = place();
    if flag(&place.home, IFlags::NODUMP, true) {
        assert!(!keep(&place.home, &place.spare).unwrap());
    }
}

#[test]
fn what_a_program_has_made_immutable_is_removed() {
    for of in [IFlags::IMMUTABLE, IFlags::APPEND] {
        let place = place();
        let run = place.home.join(RUN);
        fs::write(run.join("file"), "x").unwrap();
        if flag(&run.join("file"), of, true) && flag(&run, of, true) {
            drop(keep(&place.home, &place.spare));
            remove_tree(&place.home).unwrap();
            assert!(!place.home.exists(), "{of:?}");
        }
    }
}

#[test]
fn a_mark_that_a_program_has_replaced_is_not_the_next_ones() {
    let place = place();
    fs::remove_file(place.home.join(LEASE)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.home.join(LEASE), rustix::fs::Mode::RWXU).unwrap();
    assert!(keep(&place.home, &place.spare).unwrap());
    assert!(!place.spare.join(LEASE).exists());
    furnish(&place.spare, Nonce::from_bits(2)).unwrap();
}

use std::process::{Command, Stdio};

use shared::ticket::Suffixes;

use super::{super::links::Links, *};

fn folder(dir: &Path, links: Links) -> Folder {
    Folder::with(dir, Suffixes::default(), links).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const TEXT: &[u8] = b"\xef\xbb\xbf---\r\ntitle: x\r\n---\r\nb\xc3\xb6dy\x00";

/// Saves a file by rename, as many editors do, at these points of a claim.
fn saving(dir: &Path, saves: &[(&'static str, &'static str)]) {
    let save = |(point, text): &(&'static str, &'static str)| {
        let (dir, text) = (dir.to_owned(), *text);
        let happens: fail::meanwhile::Happens = Box::new(move || {
            fs::write(dir.join("draft"), text).unwrap();
            fs::rename(dir.join("draft"), dir.join("a.md")).unwrap();
        });
        (*point, happens)
    };
    fail::meanwhile::at(saves.iter().map(save).collect());
}

#[test]
fn what_an_editor_saves_at_any_moment_of_a_claim_is_not_lost() {
    let (first, second) = (("claim.linked", "new"), ("claim.aside", "newest"));
    let written = ("claim.written", "new");
    for (links, saves, taken, left) in [
        (Links::Kernel, &[first][..], Err(Lost::Gone), &[("a.md", "new")][..]),
        (Links::Kernel, &[first, second], Err(Lost::Gone), &[("a.md", "newest")]),
        // After the claim it is a late save, and both are there.
        (Links::Kernel, &[second], Ok(()), &[("a.md", "newest"), ("a.wip.md", "old")]),
        (Links::Refused, &[written], Err(Lost::Gone), &[("a.md", "new")]),
        (Links::Refused, &[second], Ok(()), &[("a.md", "newest"), ("a.wip.md", "old")]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.md"), "old").unwrap();
        saving(dir.path(), saves);
        assert_eq!(take(&folder(dir.path(), links), "a.md", "a.wip.md", "claim").unwrap(), taken, "{saves:?}");
        fail::meanwhile::at(Vec::new());
        let text = |name: &String| fs::read_to_string(dir.path().join(name)).unwrap();
        let found: Vec<(String, String)> = names(dir.path()).into_iter().map(|it| (it.clone(), text(&it))).collect();
        let left: Vec<(String, String)> = left.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(found, left, "{links:?} {saves:?}");
    }
}

/// Between any look at a name and its removal.
#[test]
fn a_name_is_removed_only_while_it_stands_for_the_file_that_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path(), Links::Kernel);
    fs::write(folder.at("a.md"), "old").unwrap();
    let meant = folder.stamp("a.md").unwrap();
    saving(dir.path(), &[]);
    fs::write(folder.at("draft"), "new").unwrap();
    fs::rename(folder.at("draft"), folder.at("a.md")).unwrap();
    let remove = || remove_only(&folder, "a.md", "claim", |now| now.same_text(&meant)).unwrap();
    assert!(!remove());
    assert_eq!((fs::read_to_string(folder.at("a.md")).unwrap().as_str(), names(dir.path()).len()), ("new", 1));
    fs::remove_file(folder.at("a.md")).unwrap();
    assert!(remove(), "somebody has repaired it already");
}

#[test]
fn r01_r02_one_takes_a_name_and_the_others_hear_why_not() {
    for links in [Links::Kernel, Links::Refused] {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), links);
        fs::write(dir.path().join("a.md"), TEXT).unwrap();
        fs::set_permissions(dir.path().join("a.md"), std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
        assert_eq!(take(&folder, "a.md", "a.wip.md", "claim").unwrap(), Ok(()));
        assert_eq!(take(&folder, "a.md", "a.wip.md", "claim").unwrap(), Err(Lost::Gone), "{links:?}");
        fs::write(dir.path().join("a.md"), "another").unwrap();
        assert_eq!(take(&folder, "a.md", "a.wip.md", "claim").unwrap(), Err(Lost::Taken));
        assert_eq!(names(dir.path()), ["a.md", "a.wip.md"]);
        assert_eq!(fs::read(dir.path().join("a.wip.md")).unwrap(), TEXT);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(dir.path().join("a.wip.md")).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o444, "{links:?}: also a read-only ticket can be claimed, and stays read-only");
        assert_eq!(fs::read(dir.path().join("a.md")).unwrap(), b"another");
    }
}

#[test]
fn a_new_name_is_given_once() {
    for links in [Links::Kernel, Links::Refused] {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), links);
        let draft = || super::super::write::draft(&folder, b"new", None).unwrap();
        assert_eq!(publish(&folder, draft(), "a.md", "new").unwrap(), Ok(()));
        assert_eq!(publish(&folder, draft(), "a.md", "new").unwrap(), Err(Lost::Taken));
        assert_eq!(names(dir.path()), ["a.md"], "no draft is left");
    }
}

/// A process of the race below: takes the name as soon as it may, without any lock.
#[test]
#[ignore = "is started by the test of the race"]
fn racer() {
    let Some(dir) = std::env::var_os("RACE_IN") else { return };
    let links = if std::env::var_os("RACE_REFUSES").is_some() { Links::Refused } else { Links::Kernel };
    let folder = folder(Path::new(&dir), links);
    while !folder.at("go").exists() {
        std::thread::yield_now();
    }
    let won = take(&folder, "a.md", "a.wip.md", "claim").unwrap().is_ok();
    std::process::exit(if won { 10 } else { 11 });
}

/// The kernel decides also among those who know no lock.
#[test]
fn r01_r02_of_24_processes_without_a_lock_one_takes_a_name() {
    for refuses in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.md"), TEXT).unwrap();
        let start = |_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "tickets::moves::tests::racer", "--ignored"]).env("RACE_IN", dir.path());
            if refuses {
                command.env("RACE_REFUSES", "1");
            }
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let racers: Vec<_> = (0..24).map(start).collect();
        fs::write(dir.path().join("go"), "").unwrap();
        let codes: Vec<_> = racers.into_iter().map(|mut it| it.wait().unwrap().code().unwrap()).collect();
        assert_eq!(codes.iter().filter(|code| **code == 10).count(), 1, "{codes:?}");
        assert_eq!(codes.iter().filter(|code| **code == 11).count(), 23, "{codes:?}");
        assert_eq!(names(dir.path()), ["a.wip.md", "go"]);
        assert_eq!(fs::read(dir.path().join("a.wip.md")).unwrap(), TEXT);
    }
}

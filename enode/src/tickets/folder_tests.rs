use super::*;
use shared::ticket::line;

fn folder() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::with(dir.path(), Suffixes::default(), Links::Kernel).unwrap();
    (dir, folder)
}

/// Makes a file old enough that its stamp is believed.
fn age(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(1_700_000_000_000_000_001);
    file.set_modified(past).unwrap();
}

fn titles(queue: &Queue) -> Vec<String> {
    queue.tickets().iter().map(|it| it.title.clone()).collect()
}

#[test]
fn what_is_no_ticket_is_said_and_the_rest_is_read() {
    let (dir, folder) = folder();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("good.md"), "---\ntitle: good\n---\n").unwrap();
    std::fs::write(at("crlf.md"), "\u{feff}---\r\ntitle: crlf\r\n---\r\n").unwrap();
    std::fs::write(at("bare.md"), "# Notes\n").unwrap();
    std::fs::write(at("open.wip.md"), "---\ntitle: x\n").unwrap();
    std::fs::write(at("bytes.md"), b"---\ntitle: \xff\n---\n").unwrap();
    std::fs::write(at(".hidden.md"), "---\ntitle: hidden\n---\n").unwrap();
    std::fs::write(at("notes.txt"), "x").unwrap();
    std::fs::create_dir(at("folder.md")).unwrap();
    std::fs::create_dir(at("sub")).unwrap();
    std::fs::write(at("sub/inner.md"), "---\ntitle: inner\n---\n").unwrap();
    std::os::unix::fs::symlink(at("good.md"), at("link.md")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe.md"), rustix::fs::Mode::RWXU).unwrap();
    std::fs::write(at(&format!("{}.md", "x".repeat(200))), "---\n---\n").unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff.md");
    std::fs::write(dir.path().join(odd), "---\n---\n").unwrap();
    let queue = folder.read().unwrap();
    assert_eq!(titles(&queue), ["crlf", "good"]);
    let unread: Vec<(&str, &str)> = queue.unread().iter().map(|it| (it.file.as_str(), it.why.as_str())).collect();
    for (file, why) in [
        ("bare.md", "begin the file with a line `---`"),
        ("bytes.md", "line 2 is not UTF-8"),
        ("link.md", "not a regular file"),
        ("open.wip.md", "write a line `---` after"),
        ("pipe.md", "not a regular file"),
        ("\u{fffd}.md", "its name is not UTF-8"),
    ] {
        assert!(unread.iter().any(|it| it.0 == file && it.1.contains(why)), "{file}: {unread:?}");
    }
    assert_eq!(unread.len(), 7);
    assert_eq!(queue.in_progress(), 1, "by its name");
}

/// Until the stamp of a file is believed.
fn settle(folder: &Folder, name: &str) {
    let stamp = folder.stamp(name).unwrap();
    while !stamp.is_settled(clock::now_ns()) {
        std::thread::yield_now();
    }
}

#[test]
fn r46_an_edit_of_the_same_size_is_seen() {
    let (dir, folder) = folder();
    let path = dir.path().join("a.md");
    let write = |path: &Path, title: &str| {
        std::fs::write(path, format!("---\ntitle: {title}\n---\n")).unwrap();
        age(path);
    };
    // Each time the last text is known, and believed to be the file's.
    let known = |title: &str| {
        settle(&folder, "a.md");
        folder.read().unwrap();
        assert_eq!(titles(&folder.read().unwrap()), [title]);
        assert!(folder.cache.lock().unwrap()["a.md"].is_settled);
    };
    write(&path, "one");
    known("one");
    // The modification time put back, as `cp -p` does: the kernel's own remains.
    write(&path, "two");
    assert_eq!(titles(&folder.read().unwrap()), ["two"]);
    known("two");
    // Another file under the same name.
    write(&dir.path().join("new"), "ten");
    std::fs::rename(dir.path().join("new"), &path).unwrap();
    assert_eq!(titles(&folder.read().unwrap()), ["ten"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(titles(&folder.read().unwrap()), [""; 0]);
}

/// Two writes in one tick of the clock leave one stamp. A kernel that stamps finely never shows that, so the cache is
/// made to look as it would.
#[test]
fn r46_a_stamp_that_is_too_young_is_not_believed() {
    let (dir, folder) = folder();
    let path = dir.path().join("a.md");
    for is_settled in [false, true] {
        std::fs::write(&path, "---\ntitle: one\n---\n").unwrap();
        folder.read().unwrap();
        std::fs::write(&path, "---\ntitle: two\n---\n").unwrap();
        let stamp = folder.stamp("a.md").unwrap();
        if let Some(cached) = folder.cache.lock().unwrap().get_mut("a.md") {
            (cached.stamp, cached.is_settled) = (stamp, is_settled);
        }
        let expected = if is_settled { "one" } else { "two" };
        assert_eq!(titles(&folder.read().unwrap()), [expected]);
    }
}

#[test]
fn a_stamp_is_believed_once_a_later_write_would_change_it() {
    const SECOND: i64 = 1_000_000_000;
    for (modified, changed, now, is_settled) in [
        (7, 7, 7, false),
        (7, 7, 100_000_000, false),
        (7, 7, 100_000_008, true),
        (7, 100_000_000, 100_000_008, false),
        (SECOND, SECOND, 2 * SECOND, false),
        (SECOND, SECOND, 4 * SECOND, true),
        // The clock was set back, or another machine's is ahead.
        (9 * SECOND + 1, 7, 2 * SECOND, false),
    ] {
        let stamp = Stamp { inode: (1, 1), size: 1, modified_ns: modified, changed_ns: changed };
        assert_eq!(stamp.is_settled(now), is_settled, "{modified} {changed} {now}");
    }
}

/// What is not read again is the very same ticket in memory.
#[test]
fn of_five_thousand_files_only_the_changed_one_is_read_again() {
    let (dir, folder) = folder();
    for at in 0..5_000 {
        std::fs::write(dir.path().join(format!("t{at:04}.md")), format!("---\ntitle: t{at:04}\n---\n")).unwrap();
    }
    // The last writes are younger than a tick.
    settle(&folder, "t4999.md");
    let first = folder.read().unwrap();
    assert_eq!(line(&first).len(), 5_000);
    std::fs::write(dir.path().join("t1234.md"), "---\ntitle: other\n---\n").unwrap();
    let second = folder.read().unwrap();
    let changed: Vec<&str> = first
        .tickets()
        .iter()
        .zip(second.tickets())
        .filter(|(before, after)| !Arc::ptr_eq(before, after))
        .map(|(_, after)| after.title.as_str())
        .collect();
    assert_eq!(changed, ["other"]);
}

#[test]
fn a_ticket_of_ten_mebibytes_is_one_and_keeps_its_bytes() {
    let (dir, folder) = folder();
    let text = format!("---\ntitle: big\n---\n{}", "0123456789abcde\n".repeat(10 << 16));
    std::fs::write(dir.path().join("big.md"), &text).unwrap();
    let queue = folder.read().unwrap();
    assert_eq!(queue.tickets()[0].text.to_bytes(), text.as_bytes());
}

#[test]
fn a_folder_that_is_none_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for (name, says) in [("nowhere", "make it"), ("file", "is not a folder")] {
        let said = Folder::with(&dir.path().join(name), Suffixes::default(), Links::Kernel).unwrap_err().to_string();
        assert!(said.contains(says), "{said}");
    }
}

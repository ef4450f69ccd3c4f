//! Tells of changes in a folder as they happen, where the file system does.
//!
//! A hint and no more: shared folders often tell nothing of what other machines do, and events get lost. Whoever uses it
//! also looks by itself from time to time. The folder is watched, not a file: editors replace files, and a watch on one
//! would follow the old one.

use std::{ffi::OsStr, path::Path};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};

/// Calls `heard` with the name of each entry of `folder` that changes, and with `None` where that is not known, until
/// the watcher is dropped. It is called on a thread of the watcher's own, and must not wait.
///
/// # Errors
/// Where the folder cannot be watched.
pub(crate) fn changes(
    folder: &Path,
    heard: impl Fn(Option<&OsStr>) + Send + 'static,
) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| match event {
        Ok(event) if is_reading(&event.kind) => {}
        Ok(event) if !event.paths.is_empty() => event.paths.iter().for_each(|path| heard(path.file_name())),
        // No path: events were lost.
        Ok(_) | Err(_) => heard(None),
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// The same for a queue, without what is hidden: that is no ticket but a draft, or the lock, which every worker opens all
/// the time.
///
/// # Errors
/// Where the folder cannot be watched.
pub(crate) fn of_queue(
    folder: &Path,
    heard: impl Fn(Option<&OsStr>) + Send + 'static,
) -> notify::Result<RecommendedWatcher> {
    changes(folder, move |name| {
        if !name.is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            heard(name);
        }
    })
}

/// Our own reading makes such events; answering them would never end.
fn is_reading(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Access(kind) if !matches!(kind, AccessKind::Close(AccessMode::Write)))
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn what_is_hidden_in_a_queue_is_not_told() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, heard) = mpsc::channel();
        let _watcher = of_queue(dir.path(), move |name| {
            let _sent = sender.send(name.map(OsStr::to_owned));
        })
        .unwrap();
        for name in [".tickets.lock", ".draft", "a.md"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        std::fs::rename(dir.path().join(".draft"), dir.path().join("b.md")).unwrap();
        let mut names = Vec::new();
        while names.last().is_none_or(|name| name != "b.md") {
            names.push(heard.recv_timeout(Duration::from_secs(30)).unwrap().unwrap());
        }
        names.dedup();
        assert_eq!(names, ["a.md", "b.md"]);
    }

    #[test]
    fn what_changes_is_told_by_name_and_reading_is_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, heard) = mpsc::channel();
        std::fs::write(dir.path().join("old"), "x").unwrap();
        let _watcher = changes(dir.path(), move |name| {
            let _sent = sender.send(name.map(OsStr::to_owned));
        })
        .unwrap();
        std::fs::read(dir.path().join("old")).unwrap();
        std::fs::read_dir(dir.path()).unwrap().count();
        std::fs::write(dir.path().join("new"), "x").unwrap();
        std::fs::rename(dir.path().join("new"), dir.path().join("newer")).unwrap();
        let mut names = Vec::new();
        while names.last().is_none_or(|name| name != "newer") {
            names.push(heard.recv_timeout(Duration::from_secs(30)).unwrap().unwrap());
        }
        names.dedup();
        assert_eq!(names, ["new", "newer"]);
    }
}

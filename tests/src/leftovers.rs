//! Processes of an agent's steps that outlive it: after `kill -9` nobody ends them, and what they wait for goes with the
//! test's folder. The agent's own tests include this file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process};

/// Ends every process whose environment names this folder, as that of each step does.
pub fn end_all_of(folder: &Path) {
    // What is ended first may have started another one. As long as that takes, but not for ever.
    let is_over = (0..2_000).any(|_| {
        let left = of(folder);
        for pid in &left {
            // One that has ended meanwhile is no error.
            let _ended = kill_process(*pid, Signal::KILL);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        left.is_empty()
    });
    assert!(is_over || std::thread::panicking(), "processes of {} do not end", folder.display());
}

/// Every process whose environment names this folder. Zombies have none.
#[must_use]
pub fn of(folder: &Path) -> Vec<Pid> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let names = |path: &PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.windows(folder.len()).any(|part| part == folder)
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let pid = |path: PathBuf| Pid::from_raw(path.file_name()?.to_str()?.parse().ok()?);
    processes.filter(names).filter_map(pid).collect()
}

//! Processes of an agent's steps that outlive it: after `kill -9` nobody ends them, and what they wait for goes with the
//! test's folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait_until;

/// Ends every process whose environment names this folder, as that of each step does.
pub fn end_all_of(folder: &Path) {
    // What is ended first may have started another one.
    wait_until("no process of a step is left", || {
        let left = of(folder);
        for pid in &left {
            // One that has ended meanwhile is no error.
            let _ = kill_process(*pid, Signal::KILL);
        }
        left.is_empty()
    });
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

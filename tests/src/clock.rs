//! Machines whose wall clock is wrong.

use std::path::PathBuf;

/// The environment in which a program believes that it is this much later, as `faketime` writes it: `+1d`, `-1d`.
///
/// Only the wall clock: a machine's monotonic and boot clocks have no date that could be wrong.
///
/// # Panics
/// When libfaketime is not installed: a test that runs with the right time would show nothing.
#[must_use]
pub fn shifted(by: &str) -> Vec<(&'static str, String)> {
    let library = library().expect("libfaketime is missing: `make test` installs Debian's package faketime");
    vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", by.to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        // Files are as new as they are: it is not their clock that is wrong.
        ("NO_FAKE_STAT", "1".to_owned()),
    ]
}

/// `/usr/lib/TRIPLET/faketime/libfaketimeMT.so.1`, the one for programs with threads.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?;
    folders.filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketimeMT.so.1"))).find(|path| path.exists())
}

//! What is being done to two names of one stem, noted before the second name is made and only under the gate. So
//! whoever comes after a killed process tells its half-done work from an editor that saves late under the old name: by
//! their texts the two can be the same.

use std::{fs, io, io::Write};

use super::{Folder, moves::remove};

const FILE: &str = ".tickets.begun";

/// Notes the name in progress that is being made or given back.
pub(super) fn note(folder: &Folder, in_progress: &str) -> io::Result<()> {
    let mut file = fs::File::create(folder.at(FILE))?;
    file.write_all(in_progress.as_bytes())?;
    // The names that follow may last through a loss of power.
    file.sync_all()
}

/// The name that was noted last, if its process did not come to an end.
pub(super) fn left(folder: &Folder) -> io::Result<Option<String>> {
    match fs::read(folder.at(FILE)) {
        Ok(name) => Ok(Some(String::from_utf8_lossy(&name).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Nothing is being done any more.
pub(super) fn over(folder: &Folder) -> io::Result<()> {
    remove(folder, FILE)
}

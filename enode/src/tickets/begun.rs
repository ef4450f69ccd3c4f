//! What is being done to two names of one stem, noted before the second name is made and only under the queue's lock. So
//! whoever comes after a killed process tells its half-done work from an editor that saves late under the old name: by
//! their texts the two can be the same.

use std::{
    fs::{OpenOptions, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
};

use super::{Folder, hidden, write};

const FILE: &str = ".tickets.begun";
/// Longer than any file's name.
const LONGEST: u64 = 4_096;

/// Notes the name that is being made, or the name in progress that is being given back.
pub(super) fn note(folder: &Folder, name: &str) -> io::Result<()> {
    // On the disk before any name that follows, which may last through a loss of power.
    let draft = write::draft(folder, name.as_bytes(), None)?;
    // Whoever comes next must read it, whatever the mask of this process.
    std::fs::set_permissions(&draft, Permissions::from_mode(hidden::MODE))?;
    std::fs::rename(&draft, folder.at(FILE))
}

/// The name that was noted last, if its process did not come to an end.
pub(super) fn left(folder: &Folder) -> io::Result<Option<String>> {
    let file = match hidden::open(folder, FILE, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut name = Vec::new();
    file.take(LONGEST).read_to_end(&mut name)?;
    Ok(Some(String::from_utf8_lossy(&name).into_owned()))
}

/// Nothing is being done any more.
pub(super) fn over(folder: &Folder) -> io::Result<()> {
    folder.remove(FILE)
}

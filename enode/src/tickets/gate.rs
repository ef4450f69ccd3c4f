//! The one critical section of everybody who changes names in a queue: what is counted in it still holds when a name
//! is taken in it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
};

use super::Folder;
use crate::clock;

const FILE: &str = ".tickets.lock";
const TAG: usize = 8;

/// Held until it is dropped, or its process ends.
pub(super) struct Gate {
    file: File,
}

impl Gate {
    /// Waits until nobody else is inside. Blocks the thread.
    pub(super) fn enter(folder: &Folder) -> io::Result<Self> {
        let path = folder.at(FILE);
        let context =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot lock {}: {error}", path.display()));
        // Other users of a shared folder come after us.
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o666).open(&path);
        let file = file.map_err(context)?;
        file.lock().map_err(context)?;
        Ok(Self { file })
    }

    /// A random name of this queue, the same for all its workers. It tells the Runs of two queues apart that have a
    /// ticket with the same stem.
    pub(super) fn tag(&mut self) -> io::Result<String> {
        let mut text = String::new();
        (&mut self.file).take(64).read_to_string(&mut text)?;
        let known = text.trim();
        if known.len() == TAG && known.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(known.to_owned());
        }
        let tag = clock::random_hex(TAG);
        self.file.set_len(0)?;
        io::Seek::rewind(&mut self.file)?;
        writeln!(self.file, "{tag}")?;
        self.file.sync_all()?;
        Ok(tag)
    }
}

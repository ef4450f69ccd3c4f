//! Work on files, where it may take its time.

use std::{io, sync::Arc};

use rustix::io::Errno;

use super::{Folder, runs::Trouble};

/// File work on a thread that may wait for the queue's lock.
pub(super) async fn off<T: Send + 'static>(
    folder: &Arc<Folder>,
    work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
) -> Result<T, Trouble> {
    let (folder, place) = (folder.clone(), folder.path().to_owned());
    let done = tokio::task::spawn_blocking(move || work(&folder)).await;
    let done = done.unwrap_or_else(|died| Err(io::Error::other(died.to_string())));
    done.map_err(|error| match is_of_one_file(&error) {
        true if Errno::from_io_error(&error) == Some(Errno::PERM) => {
            Trouble::Refused(format!("{error}: look whose its file is, and what attributes that has"))
        }
        true => Trouble::Refused(error.to_string()),
        false => Trouble::Folder(format!("{} cannot be worked on: {error}", place.display())),
    })
}

/// Whether an error says something of one file only: of its text, of its owner and attributes, of what has its name. Others
/// of the folder are worked on all the same.
pub(super) fn is_of_one_file(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    error.kind() == io::ErrorKind::InvalidData
        || matches!(errno, Some(Errno::PERM | Errno::ISDIR | Errno::LOOP | Errno::NXIO | Errno::NAMETOOLONG))
}

//! Work on files, where it may take its time.

use std::{io, sync::Arc};

use super::{Folder, runs::Trouble};

/// File work on a thread that may wait for the queue's lock.
pub(super) async fn off<T: Send + 'static>(
    folder: &Arc<Folder>,
    work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
) -> Result<T, Trouble> {
    let folder = folder.clone();
    let done = tokio::task::spawn_blocking(move || work(&folder)).await;
    let done = done.unwrap_or_else(|died| Err(io::Error::other(died.to_string())));
    done.map_err(|error| match error.kind() {
        // One file: it is said in `change`.
        io::ErrorKind::InvalidData => Trouble::Refused(error.to_string()),
        _ => Trouble::Folder(format!("the queue cannot be worked on: {error}")),
    })
}

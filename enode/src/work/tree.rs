//! Whole trees of files: removed whatever a program has made of them, and made read-only.

use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path};

/// Removes a folder and everything in it, also what a program has made unwritable. Nothing there is fine.
///
/// # Errors
/// As the file system says.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(metadata) if !metadata.is_dir() => return fs::remove_file(path),
        Ok(_) => {}
    }
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

/// Makes every folder below writable. Links are not followed.
fn open_up(dir: &Path) -> io::Result<()> {
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Makes a tree read-only, files and folders.
///
/// # Errors
/// As the file system says.
pub fn make_read_only(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_read_only(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o444))?;
        }
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o555))
}

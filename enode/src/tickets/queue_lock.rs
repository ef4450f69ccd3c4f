//! The one critical section of everybody who changes names in a queue: what is counted in it still holds when a name
//! is taken in it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
};

use shared::Duration;

use super::{Folder, hidden};
use crate::clock;

const FILE: &str = ".tickets.lock";
const TAG: usize = 8;

/// Held until it is dropped, or its process ends.
pub(super) struct QueueLock {
    file: File,
}

impl QueueLock {
    /// Waits until nobody else is inside. Blocks the thread.
    pub(super) fn acquire(folder: &Folder) -> io::Result<Self> {
        let path = folder.at(FILE);
        let context =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot lock {}: {error}", path.display()));
        let file = match hidden::open_or_make(folder, FILE) {
            // Locking it, and reading the tag that is there, needs no more.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                hidden::open(folder, FILE, OpenOptions::new().read(true))
            }
            opened => opened,
        };
        let file = file.map_err(context)?;
        file.lock().map_err(context)?;
        Ok(Self { file })
    }

    /// A random name of this queue, the same for all its workers. It tells the Runs of two queues apart that have a
    /// ticket with the same stem.
    pub(super) fn tag(&mut self) -> io::Result<String> {
        let mut text = Vec::new();
        (&mut self.file).take(64).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let known = text.trim();
        if known.len() == TAG && known.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(known.to_owned());
        }
        let tag = clock::random_hex(TAG);
        self.write(&tag).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => ": let everybody write it who works on the queue",
                _ => "",
            };
            let why = format!("{FILE} cannot be written ({error}){advice}");
            io::Error::new(error.kind(), why)
        })?;
        Ok(tag)
    }

    fn write(&mut self, tag: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        io::Seek::rewind(&mut self.file)?;
        writeln!(self.file, "{tag}")?;
        self.file.sync_all()
    }
}

/// Takes the turn in looking after the tickets in progress, of all who come at once one. `false`: somebody has had it so
/// short a time ago.
pub(super) fn take_look(folder: &Folder, within: Duration) -> io::Result<bool> {
    let _lock = QueueLock::acquire(folder)?;
    if is_looked_after(folder, within) {
        return Ok(false);
    }
    note_look(folder);
    Ok(true)
}

/// Notes that somebody looks after them now: the time of the file that everybody has anyway. Where that cannot be
/// written, everybody looks.
pub(super) fn note_look(folder: &Folder) {
    stamp(folder, rustix::fs::UTIME_NOW);
}

/// It came to nothing: whoever cannot ask the mediator keeps nobody from it. Only the owner of the file can say so; a
/// worker of somebody else keeps the others from it until the next turn.
pub(super) fn give_look_back(folder: &Folder) {
    stamp(folder, 0);
}

fn stamp(folder: &Folder, nanoseconds: rustix::fs::Nsecs) {
    use rustix::fs::{Timespec, Timestamps, futimens};
    let Ok(file) = hidden::open(folder, FILE, OpenOptions::new().write(true)) else { return };
    // Both times: only so now is allowed to whoever may write the file, and not to its owner alone.
    let time = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let _unwritten = futimens(&file, &Timestamps { last_access: time, last_modification: time });
}

/// Whether somebody has looked so short a time ago. By a clock that goes otherwise nobody has: that costs a few
/// questions, and no ticket its look.
fn is_looked_after(folder: &Folder, within: Duration) -> bool {
    let Ok(stamp) = folder.stamp(FILE) else { return false };
    let age = i128::from(clock::now_ns()) - i128::from(stamp.modified_ns);
    u128::try_from(age).is_ok_and(|age| age < within.std().as_nanos())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::PermissionsExt,
        process::{Command, Stdio},
    };

    use super::{super::fake_tests::Fake, *};

    /// A process of the test below: holds the lock until it is killed.
    #[test]
    #[ignore = "is started by the test of the lock"]
    fn holder() {
        let Some(dir) = std::env::var_os("HOLD_IN") else { return };
        let dir = std::path::PathBuf::from(dir);
        let folder =
            Folder::with(&dir, shared::ticket::Suffixes::default(), super::super::links::Links::Kernel).unwrap();
        let _lock = QueueLock::acquire(&folder).unwrap();
        std::fs::write(dir.join("held"), "").unwrap();
        loop {
            std::thread::park();
        }
    }

    /// A folder comes from anywhere, from a shared disk or from a clone: what lies under our names may lead out of it.
    #[test]
    fn what_is_no_file_of_ours_under_our_names_is_refused_and_what_it_leads_to_stays() {
        use std::{os::unix::fs::symlink, sync::mpsc, time::Duration as Std};
        let asking = "---\ntitle: t\n---\n";
        for name in [FILE, ".tickets.begun"] {
            for kind in ["link", "pipe", "folder", "second name"] {
                let (fake, outside) = (
                    Fake::with(&[("a.md", asking)], super::super::links::Links::Refused),
                    tempfile::tempdir().unwrap(),
                );
                let (victim, path) = (outside.path().join("victim"), fake.folder.at(name));
                std::fs::write(&victim, "theirs").unwrap();
                std::fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
                match kind {
                    "link" => symlink(&victim, &path).unwrap(),
                    "folder" => std::fs::create_dir(&path).unwrap(),
                    "pipe" => rustix::fs::mknodat(
                        rustix::fs::CWD,
                        &path,
                        rustix::fs::FileType::Fifo,
                        rustix::fs::Mode::RWXU,
                        0,
                    )
                    .unwrap(),
                    _ => std::fs::hard_link(&victim, &path).unwrap(),
                }
                let (done, ends) = mpsc::channel();
                let folder = fake.folder.clone();
                std::thread::spawn(move || {
                    let claimed = super::super::claim::next(&folder, |_| true, |_, _| {});
                    let _nobody_waits = done.send(claimed.map(|it| it.map(|it| it.ticket.stem.clone())));
                });
                let claimed = ends.recv_timeout(Std::from_secs(10)).expect("it waits for nobody");
                let said = claimed.unwrap_err().to_string();
                assert!(said.contains(name) && said.contains("remove it"), "{name} {kind}: {said}");
                note_look(&fake.folder);
                assert_eq!(std::fs::read_to_string(&victim).unwrap(), "theirs", "{name} {kind}");
                let mode = std::fs::metadata(&victim).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{name} {kind}");
            }
        }
    }

    /// The kernel's lock on a file that stays: nothing is stale, and who loses has nothing to delete.
    #[test]
    fn r21_the_lock_of_a_killed_process_is_free_and_its_file_is_never_replaced() {
        let fake = Fake::new(&[]);
        drop(QueueLock::acquire(&fake.folder).unwrap());
        let inode = fake.folder.stamp(FILE).unwrap().inode;
        let mut holder = Command::new(std::env::current_exe().unwrap());
        holder.args(["--exact", "tickets::queue_lock::tests::holder", "--ignored"]).env("HOLD_IN", fake.folder.path());
        let mut holder = holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = clock::boot_time();
        while !fake.folder.at("held").exists() {
            let is_late = start.until(clock::boot_time()) > Duration::from_secs(30);
            assert!(!is_late && holder.try_wait().unwrap().is_none(), "it never held it");
            std::thread::yield_now();
        }
        let other = File::options().write(true).open(fake.folder.at(FILE)).unwrap();
        assert!(other.try_lock().is_err(), "it is held");
        drop(other);
        holder.kill().unwrap();
        holder.wait().unwrap();
        drop(QueueLock::acquire(&fake.folder).unwrap());
        assert_eq!(fake.folder.stamp(FILE).unwrap().inode, inode);
    }
}

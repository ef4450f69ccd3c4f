//! The output of a program on its way from the pipe to a file.
//!
//! The file is what the upload reads, so that a mediator that is away, or a program that floods, costs disk and
//! not memory. It costs so much disk and no more: what comes after that, and what finds no room on a full disk, is
//! read and counted, so that the program is not held up, and the report's `log_bytes` shows that the log is truncated.

use std::io;

use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::session::upload::Written;

/// After the group is gone: how long the pipe may stay silent before somebody outside is taken to hold it open.
const SILENCE: std::time::Duration = std::time::Duration::from_millis(200);
/// And how long somebody outside may go on writing.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Most of what a program prints that is kept to find an answer in it.
const PRINTED: usize = 16 << 20;

/// What a program printed.
#[derive(Debug, Default)]
pub struct Printed {
    bytes: Vec<u8>,
    too_much: bool,
}

impl Printed {
    fn keep(&mut self, data: &[u8]) {
        self.too_much |= self.bytes.len() + data.len() > PRINTED;
        if !self.too_much {
            self.bytes.extend_from_slice(data);
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// There was more than is kept.
    pub fn whole(&self) -> Result<&[u8], String> {
        if self.too_much {
            return Err(format!("it printed more than {} MiB: there is no answer to be found in it", PRINTED >> 20));
        }
        Ok(&self.bytes)
    }
}

/// Reads from a pipe that is there; for ever from one that is not.
async fn read_some(pipe: &mut Option<pipe::Receiver>, buffer: &mut [u8]) -> io::Result<usize> {
    match pipe {
        Some(pipe) => pipe.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// A log file that is being written.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    written: watch::Sender<Written>,
    /// Bytes that may still be written.
    room: u64,
    /// Bytes that found no room.
    lost: u64,
}

impl LogFile {
    /// Into a file that is empty, at most so many bytes.
    #[must_use]
    pub fn new(file: std::fs::File, limit: u64) -> Self {
        Self { file: file.into(), written: watch::Sender::new(Written::default()), room: limit, lost: 0 }
    }

    /// Follows how far it is written.
    #[must_use]
    pub fn written(&self) -> watch::Receiver<Written> {
        self.written.subscribe()
    }

    /// Appends.
    pub async fn append(&mut self, data: &[u8]) {
        let fits = if self.lost > 0 { 0 } else { data.len().min(usize::try_from(self.room).unwrap_or(usize::MAX)) };
        let (mut data, rest) = data.split_at(fits);
        if !data.is_empty() {
            let stored = async {
                self.file.write_all(data).await?;
                self.file.flush().await
            };
            match stored.await {
                Ok(()) => {
                    self.written.send_modify(|it| it.bytes += data.len() as u64);
                    self.room -= data.len() as u64;
                    data = &[];
                }
                Err(e) => tracing::error!(error = %e, "no room for the log in the spool: the rest of it is lost"),
            }
        }
        if data.is_empty() && !rest.is_empty() && self.lost == 0 {
            let spooled = self.written.borrow().bytes;
            tracing::warn!(
                bytes = spooled,
                "the log of a step is as long as `log_bytes` allows: the rest of it is lost"
            );
        }
        self.lost += (data.len() + rest.len()) as u64;
    }

    /// Copies everything from the pipes until they end, or until `over` says that the group is gone and what is
    /// left in them has been read. What comes from `printed` is kept as well.
    pub async fn copy(
        mut self,
        pipe: pipe::Receiver,
        printed: Option<pipe::Receiver>,
        over: CancellationToken,
    ) -> (Self, Printed) {
        let mut kept = Printed::default();
        let (mut pipe, mut printed) = (Some(pipe), printed);
        let (mut buffer, mut other) = (vec![0; 64 * 1024], vec![0; if printed.is_some() { 64 * 1024 } else { 0 }]);
        let mut enough = std::pin::pin!(async {
            over.cancelled().await;
            tokio::time::sleep(PATIENCE).await;
        });
        while pipe.is_some() || printed.is_some() {
            let silence = async {
                over.cancelled().await;
                tokio::time::sleep(SILENCE).await;
            };
            let read = tokio::select! {
                biased;
                () = &mut enough => None,
                read = read_some(&mut pipe, &mut buffer) => Some((read, false)),
                read = read_some(&mut printed, &mut other) => Some((read, true)),
                () = silence => None,
            };
            let Some((read, is_printed)) = read else {
                let note = "[enode] a process outside the group keeps the output open; the rest is not logged\n";
                self.append(note.as_bytes()).await;
                break;
            };
            let ended = match read {
                Ok(0) => true,
                Ok(read) => {
                    let data = if is_printed { &other[..read] } else { &buffer[..read] };
                    if is_printed {
                        kept.keep(data);
                    }
                    self.append(data).await;
                    false
                }
                Err(e) => {
                    tracing::error!(error = %e, "cannot read the output of a program");
                    true
                }
            };
            if ended {
                *(if is_printed { &mut printed } else { &mut pipe }) = None;
            }
        }
        (self, kept)
    }

    /// No more will come. Returns how many bytes there were, lost ones included.
    pub fn close(self) -> u64 {
        self.written.send_modify(|it| it.closed = true);
        self.written.borrow().bytes + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_disk_holds_up_nobody_and_shows_in_the_count() {
        let mut log = LogFile::new(std::fs::File::options().write(true).open("/dev/full").unwrap(), 100);
        let written = log.written();
        log.append(b"12345").await;
        log.append(b"678").await;
        assert_eq!(written.borrow().bytes, 0);
        assert_eq!(log.close(), 8, "fewer stored than this is a truncated log");
    }

    #[tokio::test]
    async fn a_log_takes_so_much_disk_and_no_more_and_the_program_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (reader, mut writer) = io::pipe().unwrap();
        let pipe = pipe::Receiver::from_owned_fd(reader.into()).unwrap();
        // More than a pipe holds: it ends only if somebody goes on reading.
        let program = tokio::task::spawn_blocking(move || {
            (0..40).for_each(|_| io::Write::write_all(&mut writer, &[b'x'; 10_000]).unwrap());
        });
        let log = LogFile::new(std::fs::File::create(&path).unwrap(), 12_345);
        let log = log.copy(pipe, None, CancellationToken::new()).await.0;
        program.await.unwrap();
        assert_eq!(log.close(), 400_000, "all of it is counted");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 12_345);
    }

    #[tokio::test]
    async fn a_pipe_that_an_outsider_holds_open_does_not_hold_up_the_step() {
        let dir = tempfile::tempdir().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let pipe = pipe::Receiver::from_owned_fd(reader.into()).unwrap();
        io::Write::write_all(&mut writer, b"last words\n").unwrap();
        let over = CancellationToken::new();
        over.cancel();
        let log =
            LogFile::new(std::fs::File::create(dir.path().join("log")).unwrap(), 1_000).copy(pipe, None, over).await.0;
        log.close();
        let text = std::fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(text.starts_with("last words\n[enode] a process outside the group"), "{text}");
        drop(writer);
    }
}

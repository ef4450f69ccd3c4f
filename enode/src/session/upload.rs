//! Bulk data of one attempt: its log and its output files up, its input files down.
//!
//! A log is a file that may still grow; it is sent by offset, so that a broken upload goes on where the
//! mediator says it stands. Nothing here holds more than a chunk in memory.

use std::{
    collections::HashSet,
    io::SeekFrom,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
};

use futures::{Stream, StreamExt as _};
use proto::v1;
use shared::Nonce;
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _},
    sync::watch,
};

use super::{
    core::{Speaker, StepKey},
    link::{Link, PartStream},
    node::{Node, Superseded},
    patience::{LOG_PATIENCE, Patience},
    retry::{Backoff, CallError, Kind},
    wire::{self, Input},
};
use crate::{clock, spool::Artifact};

/// Bytes per message.
const CHUNK: usize = 64 * 1024;
/// Most files that one request names.
pub const PAGE: usize = 1000;
/// After so many bytes a log upload asks how far the mediator is.
const LOG_WINDOW: u64 = 8 * 1024 * 1024;
/// So many answers without progress, and the rest of the log is given up.
const FRUITLESS: u32 = 5;

/// How far a log has been written here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes in the file.
    pub bytes: u64,
    /// No more will come.
    pub closed: bool,
}

/// Calls on behalf of one node.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The connection.
    pub link: Arc<Link>,
    /// The node.
    pub node: Arc<Node>,
}

impl Caller {
    /// Makes a call in the node's name. A refusal that only says that the message was older than the agent's
    /// newest stream comes back as [`Kind::Retry`].
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn speak<T, F>(&self, call: impl FnOnce(Arc<Link>, Speaker) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let who = self.node.speaker();
        match call(self.link.clone(), who.clone()).await {
            Err(error) if error.kind == Kind::Superseded => match self.node.superseded(&who, &error.message) {
                Superseded::Resend => Err(CallError { kind: Kind::Retry, ..error }),
                Superseded::Idle => Err(error),
            },
            answer => answer,
        }
    }

    /// Waits until the mediator has accepted who speaks for the node.
    pub async fn accepted(&self) {
        // An error means that the node is gone, and then nobody waits any more.
        drop(self.node.life().wait_for(Option::is_some).await);
    }

    /// Sends a log until it is closed and stored as a whole.
    ///
    /// # Errors
    /// A refusal for good, or no progress for too long once the log is closed; what can be repeated is repeated.
    pub async fn put_log(
        &self,
        key: &StepKey,
        nonce: Nonce,
        path: &Path,
        mut written: watch::Receiver<Written>,
    ) -> Result<(), CallError> {
        let mut stored = 0;
        let mut backoff = Backoff::new();
        let mut fruitless = 0;
        let (mut most, mut patience) = (0, Patience::default());
        // After a failure the first message is empty: it only asks how far the mediator is.
        let mut ask = false;
        let mut rewound = false;
        loop {
            let now = *written
                .wait_for(|it| it.closed || it.bytes > stored)
                .await
                .map_err(|_| CallError::refused("the writer of the log is gone"))?;
            if now.bytes <= stored && !ask {
                return Ok(());
            }
            self.accepted().await;
            let part = LogPart { from: stored, ask, path: path.to_owned(), written: written.clone() };
            let send = |link: Arc<Link>, who| async move {
                let messages = part.messages(wire::attempt(&who, key, nonce)).await?;
                link.put_log(messages).await
            };
            let answer = tokio::select! {
                answer = self.speak(send) => answer,
                () = unanswered(written.clone()) => Err(CallError::unanswered(LOG_PATIENCE)),
            };
            match answer {
                Ok(now_stored) => {
                    let now_stored = u64::try_from(now_stored).unwrap_or(0);
                    if now_stored > most {
                        most = now_stored;
                        patience.progress();
                    }
                    let progress = ask || now_stored > stored;
                    fruitless = if progress { 0 } else { fruitless + 1 };
                    (stored, ask) = (now_stored, false);
                    if fruitless >= FRUITLESS {
                        return Err(CallError::refused(format!("the mediator keeps only {stored} bytes of this log")));
                    }
                    if progress {
                        backoff.reset();
                    } else {
                        backoff.pause(self.node.interval()).await;
                    }
                }
                Err(e) if matches!(e.kind, Kind::Retry | Kind::Denied | Kind::Superseded) => {
                    if written.borrow().closed && patience.is_over(&e, clock::boot_time()) {
                        return Err(CallError::refused(format!("no progress for {LOG_PATIENCE}: {e}")));
                    }
                    tracing::debug!(step = %key, error = %e, "the log will be sent again");
                    ask = stored > 0 || now.bytes > 0;
                    backoff.pause(self.node.interval()).await;
                }
                Err(e) if e.kind == Kind::Refused && stored > 0 && !rewound => {
                    // The mediator may have lost what it had stored; what it has it skips.
                    tracing::warn!(step = %key, error = %e, "the log will be sent from its start");
                    (stored, ask, rewound) = (0, false, true);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Stores output files. What the mediator has already, from an upload that broke or under another name, is
    /// only named.
    ///
    /// # Errors
    /// [`CallError`] names the file; [`Kind::Checksum`] too when it has changed.
    pub async fn put_artifacts(
        &self,
        key: &StepKey,
        nonce: Nonce,
        out: &Path,
        artifacts: &[Artifact],
    ) -> Result<(), CallError> {
        let mut missing = HashSet::new();
        for page in artifacts.chunks(PAGE) {
            let size = |it: &Artifact| i64::try_from(it.size).unwrap_or(i64::MAX);
            let blobs = page.iter().map(|it| v1::BlobRef { sha256: it.sha256.clone(), size: size(it) }).collect();
            let ask = |link: Arc<Link>, who| async move {
                let attempt = Some(wire::attempt(&who, key, nonce));
                link.find_missing_blobs(v1::FindMissingBlobsRequest { attempt, blobs }).await
            };
            let places = self.speak(ask).await?;
            let found = places.into_iter().filter_map(|place| page.get(usize::try_from(place).ok()?));
            missing.extend(found.map(|it| it.sha256.clone()));
        }
        let send = |link: Arc<Link>, who| async move {
            let attempt = wire::attempt(&who, key, nonce);
            link.put_artifacts(artifact_messages(attempt, out.to_owned(), artifacts.to_vec(), missing)).await
        };
        self.speak(send).await
    }

    /// Fetches input files, at most [`PAGE`].
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn get_artifacts(&self, key: &StepKey, nonce: Nonce, inputs: &[Input]) -> Result<PartStream, CallError> {
        let ask = |link: Arc<Link>, who| async move {
            let attempt = Some(wire::attempt(&who, key, nonce));
            let sha256 = inputs.iter().map(|it| it.sha256.clone()).collect();
            link.get_artifacts(v1::GetArtifactsRequest { attempt, sha256 }).await
        };
        self.speak(ask).await
    }
}

/// One upload of a part of a log.
struct LogPart {
    from: u64,
    ask: bool,
    path: PathBuf,
    written: watch::Receiver<Written>,
}

impl LogPart {
    async fn messages(
        self,
        attempt: v1::AttemptRef,
    ) -> Result<impl Stream<Item = v1::PutLogRequest> + Send + 'static, CallError> {
        let failed = |e: std::io::Error| CallError::refused(format!("cannot read the log again: {e}"));
        let mut file = File::open(&self.path).await.map_err(failed)?;
        file.seek(SeekFrom::Start(self.from)).await.map_err(failed)?;
        let end = self.from.saturating_add(LOG_WINDOW);
        let mut first = Some(attempt);
        Ok(futures::stream::unfold((file, self.from), move |(mut file, offset)| {
            let attempt = first.take();
            let ask = self.ask && attempt.is_some();
            let over = (self.ask && !ask) || offset >= end;
            let mut written = self.written.clone();
            async move {
                if over {
                    return None;
                }
                if ask {
                    let message = v1::PutLogRequest { attempt, offset: i64::try_from(offset).ok()?, data: Vec::new() };
                    return Some((message, (file, offset)));
                }
                let now = *written.wait_for(|it| it.closed || it.bytes > offset).await.ok()?;
                let length = usize::try_from(now.bytes.saturating_sub(offset)).unwrap_or(CHUNK).min(CHUNK);
                if length == 0 {
                    return None;
                }
                let mut data = vec![0; length];
                // A file that is shorter than was written ends the part; the answer shows that nothing came.
                file.read_exact(&mut data).await.ok()?;
                let message = v1::PutLogRequest { attempt, offset: i64::try_from(offset).ok()?, data };
                Some((message, (file, offset.saturating_add(length as u64))))
            }
        }))
    }
}

/// A closed log has waited long for an answer. Before that an upload may last as long as its step.
async fn unanswered(mut written: watch::Receiver<Written>) {
    // A writer that is gone writes no more either.
    drop(written.wait_for(|it| it.closed).await);
    tokio::time::sleep(LOG_PATIENCE.std()).await;
}

/// The attempt, then header and bytes of each file. One file is open at a time, and each content is sent once.
fn artifact_messages(
    attempt: v1::AttemptRef,
    out: PathBuf,
    artifacts: Vec<Artifact>,
    mut missing: HashSet<String>,
) -> impl Stream<Item = v1::PutArtifactsRequest> + Send + 'static {
    use v1::put_artifacts_request::Part;
    let first = futures::stream::once(std::future::ready(Part::Attempt(attempt)));
    let files = futures::stream::iter(artifacts).flat_map(move |it| {
        let content = missing.remove(&it.sha256).then(|| (out.join(&it.name), it.size));
        let size = i64::try_from(it.size).unwrap_or(i64::MAX);
        let header = Part::Header(v1::ArtifactHeader { name: it.name, size, sha256: it.sha256 });
        let data = futures::stream::iter(content).flat_map(|(path, size)| file_data(path, size)).map(Part::Data);
        futures::stream::once(std::future::ready(header)).chain(data)
    });
    first.chain(files).map(|part| v1::PutArtifactsRequest { part: Some(part) })
}

/// A file that cannot be read, or shrank, ends early; the mediator then refuses it by its size and name.
fn file_data(path: PathBuf, size: u64) -> impl Stream<Item = Vec<u8>> + Send + 'static {
    let failed = |path: &Path, error: &std::io::Error| {
        tracing::warn!(path = %path.display(), %error, "cannot read an output file");
    };
    futures::stream::unfold((path, None, size), move |(path, file, left)| async move {
        if left == 0 {
            return None;
        }
        let opened = match file {
            Some(file) => Ok(file),
            None => File::open(&path).await,
        };
        let mut file: File = opened.inspect_err(|e| failed(&path, e)).ok()?;
        let mut data = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
        let read = pin!(file.read(&mut data)).await.inspect_err(|e| failed(&path, e)).ok().filter(|read| *read > 0)?;
        data.truncate(read);
        Some((data, (path, Some(file), left.saturating_sub(read as u64))))
    })
}

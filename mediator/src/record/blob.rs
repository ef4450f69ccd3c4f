//! Blobs: the files that steps left, named by their content, each once per Run.
//!
//! A blob is written beside its place, hashed on the way, synced, and appears whole and read-only or not at
//! all. Many are synced and published together: a sync waits for the disk, and waiting once for a group costs
//! hardly more than for one file. A writer that is dropped leaves nothing behind.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
};

use shared::RunId;
use tempfile::{NamedTempFile, TempPath};

use super::{
    Digest, Inner, RecordError, RecordStore, blocking,
    digest::Hasher,
    gate::{Gate, lock},
    layout::BLOBS,
    sync::{sync_dir, sync_file, sync_file_system},
};

/// A blob of known size, open for reading.
#[derive(Debug)]
pub struct Blob {
    /// Its size in bytes.
    pub size: u64,
    /// Its content.
    pub file: tokio::fs::File,
}

/// A blob being written.
#[derive(Debug)]
pub struct BlobWriter {
    /// Away only while a write is under way; a write that failed or was given up does not bring it back.
    draft: Option<Draft>,
}

/// A blob that is what was announced, closed but not yet published. Dropped, it is gone.
#[derive(Debug)]
pub struct ReadyBlob {
    path: TempPath,
    digest: Digest,
}

/// From so many on, files are synced together with whatever else is on their file system.
const TOGETHER: usize = 8;

#[derive(Debug)]
struct Draft {
    inner: Arc<Inner>,
    file: NamedTempFile,
    hasher: Hasher,
    size: u64,
}

impl RecordStore {
    /// Begins a file of an open Run.
    ///
    /// # Errors
    /// [`RecordError::Sealed`], [`RecordError::NoSpace`], [`RecordError::Io`].
    pub async fn blob_writer(&self, run: &RunId) -> Result<BlobWriter, RecordError> {
        let run = run.clone();
        self.blocking(move |inner| {
            drop(inner.gate(&run).enter()?);
            let tmp = &inner.layout.tmp;
            let file = tempfile::Builder::new()
                .permissions(Permissions::from_mode(0o444))
                .tempfile_in(tmp)
                .map_err(RecordError::io("create a file in", tmp))?;
            let draft = Draft { inner: inner.clone(), file, hasher: Hasher::default(), size: 0 };
            Ok(BlobWriter { draft: Some(draft) })
        })
        .await
    }

    /// Whether a Run, open or sealed, has this file.
    ///
    /// # Errors
    /// [`RecordError::Checksum`] where it has one of another size; [`RecordError::Io`].
    pub async fn has_blob(&self, run: &RunId, expected_size: u64, expected: &Digest) -> Result<bool, RecordError> {
        let (run, expected) = (run.clone(), *expected);
        self.blocking(move |inner| {
            let Some((path, file)) = inner.layout.find_blob(&run, &expected)? else { return Ok(false) };
            let size = file.metadata().map_err(RecordError::io("read", &path))?.len();
            if size != expected_size {
                return Err(RecordError::Checksum { expected, expected_size, actual: expected, size });
            }
            Ok(true)
        })
        .await
    }

    /// Publishes files of an open Run together; they are durable then, and so is every file of it that
    /// [`Self::has_blob`] has found: another writer may have renamed one and not yet synced the folder.
    ///
    /// # Errors
    /// [`RecordError::Sealed`], [`RecordError::NoSpace`], [`RecordError::Io`]; then those that were published
    /// stay, and nobody has been promised them.
    pub async fn publish(&self, run: &RunId, blobs: Vec<ReadyBlob>) -> Result<(), RecordError> {
        let run = run.clone();
        self.blocking(move |inner| {
            sync_blobs(inner, &blobs)?;
            let gate = inner.gate(&run);
            let _open = gate.enter()?;
            let home = inner.layout.open(&run);
            let dir = home.join(BLOBS);
            make_dirs(&gate, &inner.layout.runs, &home, &dir)?;
            for blob in blobs {
                let path = dir.join(blob.digest.to_string());
                // Publishing is a rename over whatever another writer of the same bytes has put there.
                blob.path.persist(&path).map_err(|error| RecordError::io("store", &path)(error.error))?;
            }
            sync_dir(&dir)
        })
        .await
    }

    /// Opens a file of a Run, open or sealed.
    ///
    /// # Errors
    /// [`RecordError::NoBlob`], [`RecordError::Io`].
    pub async fn open_blob(&self, run: &RunId, digest: &Digest) -> Result<Blob, RecordError> {
        let (run, digest) = (run.clone(), *digest);
        self.blocking(move |inner| {
            let (path, file) = inner.layout.find_blob(&run, &digest)?.ok_or(RecordError::NoBlob { run, digest })?;
            let size = file.metadata().map_err(RecordError::io("read", &path))?.len();
            Ok(Blob { size, file: file.into() })
        })
        .await
    }

    /// Stores bytes of the mediator's own.
    ///
    /// # Errors
    /// [`RecordError::NoSpace`], [`RecordError::Io`], [`RecordError::Sealed`].
    pub async fn put_small(&self, run: &RunId, digest: &Digest, bytes: &[u8]) -> Result<(), RecordError> {
        let mut writer = self.blob_writer(run).await?;
        writer.write(bytes.to_vec()).await?;
        let ready = writer.ready(bytes.len() as u64, digest).await?;
        self.publish(run, vec![ready]).await
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`RecordError::TooLarge`], [`RecordError::NoBlob`], [`RecordError::Io`].
    pub async fn read_small(&self, run: &RunId, digest: &Digest, limit: u64) -> Result<Vec<u8>, RecordError> {
        let (run, digest) = (run.clone(), *digest);
        self.blocking(move |inner| {
            let (path, file) = inner.layout.find_blob(&run, &digest)?.ok_or(RecordError::NoBlob { run, digest })?;
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, limit.saturating_add(1)), &mut bytes)
                .map_err(RecordError::io("read", &path))?;
            if bytes.len() as u64 > limit {
                return Err(RecordError::TooLarge { what: format!("file {digest}"), limit });
            }
            Ok(bytes)
        })
        .await
    }
}

impl BlobWriter {
    /// Adds bytes. After an error the file is gone and the writer of no more use.
    ///
    /// # Errors
    /// [`RecordError::TooLarge`], [`RecordError::NoSpace`], [`RecordError::Io`].
    pub async fn write(&mut self, bytes: Vec<u8>) -> Result<(), RecordError> {
        let mut draft = self.take()?;
        self.draft = Some(blocking(move || draft.write(&bytes).map(|()| draft)).await?);
        Ok(())
    }

    /// Closes the file if it is what was announced.
    ///
    /// # Errors
    /// [`RecordError::Checksum`]; then nothing is left of it.
    pub async fn ready(mut self, expected_size: u64, expected: &Digest) -> Result<ReadyBlob, RecordError> {
        let (draft, expected) = (self.take()?, *expected);
        blocking(move || draft.ready(expected_size, expected)).await
    }

    fn take(&mut self) -> Result<Draft, RecordError> {
        self.draft.take().ok_or_else(|| RecordError::Io {
            action: "go on writing",
            path: "a file that has failed".into(),
            source: io::ErrorKind::BrokenPipe.into(),
        })
    }
}

impl Draft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        let limit = self.inner.limits.blob_bytes;
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > limit {
            return Err(RecordError::TooLarge { what: "a file that a step left".to_owned(), limit });
        }
        self.hasher.update(bytes);
        self.file.as_file_mut().write_all(bytes).map_err(RecordError::io("write", self.file.path()))
    }

    fn ready(self, expected_size: u64, expected: Digest) -> Result<ReadyBlob, RecordError> {
        let actual = self.hasher.finish();
        if (self.size, actual) != (expected_size, expected) {
            return Err(RecordError::Checksum { expected, expected_size, actual, size: self.size });
        }
        Ok(ReadyBlob { path: self.file.into_temp_path(), digest: actual })
    }
}

/// Waits until the bytes are on the disk. An error of a write-back that came before the file is opened again is
/// reported here all the same: the kernel keeps it until somebody has seen it.
fn sync_blobs(inner: &Inner, blobs: &[ReadyBlob]) -> Result<(), RecordError> {
    if blobs.len() >= TOGETHER {
        let tmp = &inner.layout.tmp;
        return sync_file_system(tmp).map_err(|error| RecordError::io("sync", tmp)(error.into()));
    }
    for blob in blobs {
        let file = fs::File::open(&blob.path).map_err(RecordError::io("open", &blob.path))?;
        sync_file(&file, &blob.path)?;
    }
    Ok(())
}

/// Makes a Run's folder for blobs, durably. Under a lock, so that nobody relies on it a moment too early.
fn make_dirs(gate: &Gate, runs: &Path, home: &Path, dir: &Path) -> Result<(), RecordError> {
    let mut made = lock(&gate.blobs_made);
    if !*made {
        fs::create_dir_all(dir).map_err(RecordError::io("create", dir))?;
        sync_dir(home)?;
        sync_dir(runs)?;
        *made = true;
    }
    Ok(())
}

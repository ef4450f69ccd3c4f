//! A Record as a tar: the same bytes every time.
//!
//! POSIX ustar, sorted by name, below one folder named after the Run; every file is 0444, owned by 0:0 and as
//! old as the Run's end. A name that ustar cannot hold comes in a pax header before its file. The stream
//! holds one file and one chunk at a time.

use std::{collections::VecDeque, fs::File, io, path::PathBuf, sync::Arc};

use futures::{Stream, TryStreamExt};
use shared::RunId;
use tar::{EntryType, Header};
use tokio::io::AsyncRead;

use super::{
    RecordError, RecordStore, blocking,
    layout::MANIFEST,
    log,
    manifest::{FileEntry, Manifest},
};

const BLOCK: usize = 512;
const CHUNK: usize = 256 * 1024;

/// A Record being streamed.
#[derive(Debug)]
pub struct RecordTar {
    dir: PathBuf,
    /// The folder in the archive.
    name: RunId,
    mtime: u64,
    /// Path and size of what is still to come.
    files: VecDeque<(String, u64)>,
    current: Option<Current>,
    ended: bool,
}

#[derive(Debug)]
struct Current {
    file: Arc<File>,
    path: PathBuf,
    size: u64,
    read: u64,
}

impl RecordStore {
    /// The sealed Record of a Run as a reproducible tar.
    ///
    /// # Errors
    /// [`RecordError::NotSealed`], [`RecordError::Damaged`], [`RecordError::Io`].
    pub async fn tar(&self, run: &RunId) -> Result<RecordTar, RecordError> {
        let name = run.clone();
        self.blocking(move |inner| {
            let dir = inner.layout.sealed(&name);
            if !dir.exists() {
                return Err(RecordError::NotSealed(name));
            }
            let manifest = Manifest::read(&dir)?;
            let path = dir.join(MANIFEST);
            let size = path.metadata().map_err(RecordError::io("read", &path))?.len();
            let mut files: Vec<_> =
                manifest.files.into_iter().map(|FileEntry { path, size, .. }| (path, size)).collect();
            files.push((MANIFEST.to_owned(), size));
            files.sort_unstable();
            let mtime = u64::try_from(manifest.ended_at.millis() / 1_000).unwrap_or_default();
            Ok(RecordTar { dir, name, mtime, files: files.into(), current: None, ended: false })
        })
        .await
    }
}

impl RecordTar {
    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// [`RecordError::Damaged`] when a file is not as long as the manifest says, [`RecordError::Io`].
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        if let Some(mut current) = self.current.take() {
            let bytes = current.next().await?;
            if current.read < current.size {
                self.current = Some(current);
            }
            return Ok(Some(bytes));
        }
        if let Some((path, size)) = self.files.pop_front() {
            let headers = self.headers(&path, size);
            let current = Current::open(self.dir.join(path), size).await?;
            // An empty file is a header and nothing more.
            self.current = Some(current).filter(|current| current.size > 0);
            return Ok(Some(headers));
        }
        let last = !std::mem::replace(&mut self.ended, true);
        Ok(last.then(|| vec![0; 2 * BLOCK]))
    }

    /// The same as a stream of chunks.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<u8>, RecordError>> + Send + use<> {
        futures::stream::try_unfold(self, |mut tar| async move { Ok(tar.next().await?.map(|bytes| (bytes, tar))) })
    }

    /// The same for readers.
    pub fn into_reader(self) -> impl AsyncRead + Send + use<> {
        let stream = self.into_stream().map_ok(io::Cursor::new).map_err(io::Error::other);
        tokio_util::io::StreamReader::new(Box::pin(stream))
    }

    fn headers(&self, path: &str, size: u64) -> Vec<u8> {
        let path = format!("{}/{path}", self.name);
        let mut header = self.header(EntryType::Regular, size);
        if header.set_path(&path).is_ok() {
            return finished(header);
        }
        let record = pax_path(&path);
        let mut pax = self.header(EntryType::XHeader, record.len() as u64);
        set_short_name(&mut pax, "pax");
        let mut bytes = finished(pax);
        bytes.extend(record.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        // For readers that know no pax headers.
        let mut header = self.header(EntryType::Regular, size);
        set_short_name(&mut header, path.rsplit('/').next().unwrap_or(&path));
        bytes.extend(finished(header));
        bytes
    }

    fn header(&self, kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o444);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(self.mtime);
        header
    }
}

impl Current {
    async fn open(path: PathBuf, size: u64) -> Result<Self, RecordError> {
        blocking(move || {
            let file = File::open(&path).map_err(RecordError::io("open", &path))?;
            let len = file.metadata().map_err(RecordError::io("read", &path))?.len();
            if len != size {
                return Err(RecordError::Damaged { path, why: format!("has {len} bytes instead of {size}") });
            }
            Ok(Self { file: Arc::new(file), path, size, read: 0 })
        })
        .await
    }

    /// The next chunk, filled up to a whole block at the file's end.
    async fn next(&mut self) -> Result<Vec<u8>, RecordError> {
        let (file, path, from) = (self.file.clone(), self.path.clone(), self.read);
        let mut bytes = blocking(move || log::read(&file, from, CHUNK).map_err(RecordError::io("read", &path))).await?;
        self.read += bytes.len() as u64;
        if bytes.is_empty() || self.read > self.size {
            return Err(RecordError::Damaged { path: self.path.clone(), why: "changed while it was read".to_owned() });
        }
        if self.read == self.size {
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        Ok(bytes)
    }
}

fn finished(mut header: Header) -> Vec<u8> {
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// Names here are ASCII, so any byte is a character.
fn set_short_name(header: &mut Header, name: &str) {
    for (to, from) in header.as_old_mut().name.iter_mut().zip(name.bytes()) {
        *to = from;
    }
}

/// `LENGTH path=PATH\n`, where the length counts its own digits.
fn pax_path(path: &str) -> String {
    let rest = format!(" path={path}\n");
    let mut length = rest.len();
    while length != length.to_string().len() + rest.len() {
        length = length.to_string().len() + rest.len();
    }
    format!("{length}{rest}")
}

//! What a node stores beside its reports: logs and files. Fenced by the lease's nonce, outside the fleet's
//! transactions.
//!
//! Files come many in a stream and are kept in groups: written, synced and published together, and then noted in one
//! statement that holds the fence. So a row never names bytes that could still be lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use shared::{Nonce, RunId, Seq, domain::Speaker};

use super::Services;
use crate::{
    error::Error,
    fail::{self, Side},
    record::{BlobWriter, Digest, ReadyBlob, RecordError},
    store::{ArtifactRow, Fence},
};

/// One attempt as an agent names it: who, what, under which permit.
#[derive(Debug, Clone)]
pub struct AttemptKey {
    /// Who speaks.
    pub who: Speaker,
    /// The Run.
    pub run: RunId,
    /// The step.
    pub seq: Seq,
    /// The execution.
    pub attempt: u32,
    /// The permit.
    pub nonce: Nonce,
}

impl AttemptKey {
    fn fence(&self) -> Fence {
        Fence {
            run: self.run.clone(),
            seq: self.seq,
            attempt: self.attempt,
            node: self.who.node.clone(),
            instance: self.who.instance.clone(),
            nonce: self.nonce,
        }
    }
}

impl Services {
    /// Refuses a node whose lease on this work has ended.
    ///
    /// # Errors
    /// `Stale`; a store that is not available.
    pub async fn fence(&self, key: &AttemptKey) -> Result<(), Error> {
        if self.store.lease_holds(&key.fence()).await? { Ok(()) } else { Err(stale()) }
    }

    /// Appends to an attempt's log; returns how much of it is stored.
    ///
    /// # Errors
    /// A gap before `offset`, a sealed Run, a full disk.
    pub async fn append_log(&self, key: &AttemptKey, offset: u64, data: Vec<u8>) -> Result<u64, Error> {
        Ok(self.records.append_log(&key.run, key.seq, key.attempt, offset, data).await?)
    }

    /// Which of these contents, by place, a Run does not have.
    ///
    /// # Errors
    /// One that it has with another size; files that cannot be read.
    pub async fn missing_blobs(&self, key: &AttemptKey, blobs: &[(Digest, u64)]) -> Result<Vec<usize>, Error> {
        let mut missing = Vec::new();
        for (place, (digest, size)) in blobs.iter().enumerate() {
            if !self.records.has_blob(&key.run, *size, digest).await? {
                missing.push(place);
            }
        }
        Ok(missing)
    }

    /// Begins to take files of an attempt.
    #[must_use]
    pub fn upload(&self, key: AttemptKey) -> Upload {
        Upload { services: self.clone(), key, current: None, group: Group::default(), noted: 0 }
    }
}

/// Most files in a group. Their paths and names are what it holds in memory.
const GROUP_FILES: usize = 256;
/// After so many bytes a group is synced: what a broken stream has sent for nothing is about this much and one file.
const GROUP_BYTES: u64 = 32 << 20;

/// Files of one attempt on their way in. Dropped, it leaves the groups that are noted and nothing else.
pub struct Upload {
    services: Services,
    key: AttemptKey,
    current: Option<Incoming>,
    group: Group,
    noted: u64,
}

/// The file that is being received; the only one that is open.
#[derive(Debug)]
struct Incoming {
    name: String,
    digest: Digest,
    size: u64,
    /// None until bytes come.
    writer: Option<BlobWriter>,
}

/// Files that are whole, and not yet noted.
#[derive(Debug, Default)]
struct Group {
    blobs: Vec<ReadyBlob>,
    contents: BTreeSet<(Digest, u64)>,
    bytes: u64,
    /// By name: a name that comes twice counts once, with what came last.
    rows: BTreeMap<String, ArtifactRow>,
}

impl Upload {
    /// Ends the file before, and begins one.
    ///
    /// # Errors
    /// Of the file before: not what was announced, or its group could not be kept; the fence.
    pub async fn begin(&mut self, name: String, digest: Digest, size: u64) -> Result<(), Error> {
        self.end().await?;
        if self.group.rows.len() >= GROUP_FILES || self.group.bytes >= GROUP_BYTES {
            self.keep().await?;
        }
        self.current = Some(Incoming { name, digest, size, writer: None });
        Ok(())
    }

    /// Bytes of the file that was begun.
    ///
    /// # Errors
    /// None was begun; too many bytes; a full disk.
    pub async fn data(&mut self, data: Vec<u8>) -> Result<(), Error> {
        let Some(file) = &mut self.current else { return Err(Error::invalid("data", "must come after a header")) };
        let writer = match &mut file.writer {
            Some(writer) => writer,
            none => none.insert(self.services.records.blob_writer(&self.key.run).await?),
        };
        Ok(writer.write(data).await.map_err(RecordError::of(&file.name))?)
    }

    /// Keeps the rest. All files are durable and noted then; returns how many.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.end().await?;
        self.keep().await?;
        Ok(self.noted)
    }

    async fn end(&mut self) -> Result<(), Error> {
        let Some(Incoming { name, digest, size, writer }) = self.current.take() else { return Ok(()) };
        if let Some(ready) = self.content(&digest, size, writer).await.map_err(RecordError::of(&name))? {
            self.group.blobs.push(ready);
            self.group.contents.insert((digest, size));
            self.group.bytes = self.group.bytes.saturating_add(size);
        }
        let (seq, attempt) = (self.key.seq, self.key.attempt);
        let row = ArtifactRow { seq, attempt, name: name.clone(), sha256: digest.to_string(), size };
        self.group.rows.insert(name, row);
        Ok(())
    }

    /// What is to be published for a file; nothing where its content is here already.
    async fn content(
        &self,
        digest: &Digest,
        size: u64,
        writer: Option<BlobWriter>,
    ) -> Result<Option<ReadyBlob>, RecordError> {
        let records = &self.services.records;
        let writer = match writer {
            Some(writer) => writer,
            None if self.group.contents.contains(&(*digest, size)) => return Ok(None),
            None if records.has_blob(&self.key.run, size, digest).await? => return Ok(None),
            // Empty, or its bytes are missing: then the sizes differ.
            None => records.blob_writer(&self.key.run).await?,
        };
        Ok(Some(writer.ready(size, digest).await?))
    }

    /// Makes the group durable, then notes it.
    async fn keep(&mut self) -> Result<(), Error> {
        let Group { blobs, rows, .. } = mem::take(&mut self.group);
        if rows.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = rows.into_values().collect();
        // A lease may have ended since the call began. Where it ends after this, what is published without a row is at
        // most one group, which nobody can name; the sealing removes it.
        self.services.fence(&self.key).await?;
        self.services.records.publish(&self.key.run, blobs).await?;
        fail::commit(Side::Before, "files");
        if !self.services.store.put_artifacts(&self.key.fence(), &rows).await? {
            return Err(stale());
        }
        fail::commit(Side::After, "files");
        self.noted += rows.len() as u64;
        Ok(())
    }
}

fn stale() -> Error {
    Error::from(shared::domain::Refusal::Stale("the lease of this work has ended"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::Kind,
        record::{Limits, RecordStore},
        service::bench::{Bench, one_step, speaker},
    };
    use shared::domain::Policy;

    #[tokio::test]
    async fn a_file_over_the_limit_is_named_and_those_of_earlier_groups_stay() {
        let mut bench = Bench::new().await;
        bench.advert("n1", "build", Policy::default()).await;
        bench.submit("r", &one_step("build")).await;
        let step = bench.claim("n1").await;
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { blob_bytes: 5, ..Limits::default() };
        bench.services.records = RecordStore::with_limits(dir.path(), limits).unwrap();
        let (who, nonce) = (speaker("n1"), step.nonce);
        let key = AttemptKey { who, run: step.run.clone(), seq: step.seq, attempt: step.attempt, nonce };
        let mut upload = bench.services.upload(key);
        for i in 0..=GROUP_FILES {
            let content = format!("{i}").into_bytes();
            upload.begin(format!("small{i}"), Digest::of(&content), content.len() as u64).await.unwrap();
            upload.data(content).await.unwrap();
        }
        upload.begin("large".to_owned(), Digest::of(b"123456"), 6).await.unwrap();
        upload.data(b"12345".to_vec()).await.unwrap();
        let refused = upload.data(b"6".to_vec()).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::TooLarge, "{refused}");
        assert!(refused.to_string().contains("\"large\""), "{refused}");
        drop(upload);
        let noted = bench.services.store.read().await.unwrap().artifacts(&step.run).await.unwrap();
        assert_eq!(noted.len(), GROUP_FILES);
        let drafts = std::fs::read_dir(dir.path().join("runs/.tmp/own")).unwrap();
        assert_eq!(drafts.count(), 0, "nothing half done is left");
    }

    #[tokio::test]
    async fn bytes_of_a_lease_that_has_ended_meanwhile_are_not_published() {
        let mut bench = Bench::new().await;
        bench.advert("n1", "build", Policy::default()).await;
        bench.submit("r", &one_step("build")).await;
        let step = bench.claim("n1").await;
        let (who, nonce) = (speaker("n1"), step.nonce);
        let key = AttemptKey { who, run: step.run.clone(), seq: step.seq, attempt: step.attempt, nonce };
        let mut upload = bench.services.upload(key);
        upload.begin("late".to_owned(), Digest::of(b"late"), 4).await.unwrap();
        upload.data(b"late".to_vec()).await.unwrap();
        bench.cancel("r").await;
        assert_eq!(upload.finish().await.unwrap_err().kind(), Kind::Stale);
        assert!(!bench.services.records.has_blob(&step.run, 4, &Digest::of(b"late")).await.unwrap());
        let drafts = std::fs::read_dir(bench.drafts()).unwrap().flatten();
        assert_eq!(drafts.map(|it| std::fs::read_dir(it.path()).unwrap().count()).sum::<usize>(), 0, "nothing is left");
    }
}

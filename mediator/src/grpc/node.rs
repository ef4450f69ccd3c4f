//! `NodeService`: the calls of an agent.

use std::pin::Pin;

use futures::{Stream, StreamExt, stream};
use proto::v1::{self, node_service_server::NodeService};
use tonic::{Request, Response, Status, Streaming};

use super::convert;
use crate::{
    auth::Identity,
    error::Error,
    record::BlobWriter,
    service::{
        Services,
        claim::{Work, WorkStream},
        hub::Signal,
        upload::AttemptKey,
    },
};

/// Bytes in one message of a download.
const CHUNK: usize = 256 * 1024;

/// The service.
#[derive(Clone)]
pub struct Node {
    services: Services,
    artifact_bytes: u64,
}

impl Node {
    /// The service over these use cases; files larger than `artifact_bytes` are refused.
    #[must_use]
    pub const fn new(services: Services, artifact_bytes: u64) -> Self {
        Self { services, artifact_bytes }
    }
}

type ServerStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl NodeService for Node {
    async fn advertise(
        &self,
        request: Request<v1::AdvertiseRequest>,
    ) -> Result<Response<v1::AdvertiseResponse>, Status> {
        let who = Identity::of(&request)?;
        let advert = convert::advert(request.into_inner(), &who)?;
        let advertised = self.services.advertise(advert).await?;
        Ok(Response::new(convert::advertised(advertised)))
    }

    type WorkStream = ServerStream<v1::WorkItem>;

    async fn work(&self, request: Request<v1::WorkRequest>) -> Result<Response<Self::WorkStream>, Status> {
        let who = Identity::of(&request)?;
        let speaker = convert::speaker(request.into_inner().node, &who)?;
        let work = self.services.open_work(speaker).await?;
        Ok(Response::new(Box::pin(stream::unfold(Some(work), next_item))))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        let who = Identity::of(&request)?;
        let command = convert::report(request.into_inner(), &who)?;
        let reply = self.services.report(command).await?;
        Ok(Response::new(v1::ReportResponse { step_state: reply.step_state, run_state: reply.run_state.to_owned() }))
    }

    async fn put_log(
        &self,
        request: Request<Streaming<v1::PutLogRequest>>,
    ) -> Result<Response<v1::PutLogResponse>, Status> {
        let who = Identity::of(&request)?;
        let mut chunks = request.into_inner();
        let mut key: Option<AttemptKey> = None;
        let mut stored = 0;
        while let Some(chunk) = chunks.message().await? {
            let attempt = match (&key, chunk.attempt) {
                (Some(key), _) => key,
                (None, attempt) => {
                    let named = convert::attempt(attempt, &who)?;
                    self.services.fence(&named, "PutLog").await?;
                    key.insert(named)
                }
            };
            let offset = convert::size("offset", chunk.offset)?;
            stored = self.services.append_log(attempt, offset, &chunk.data).await?;
        }
        Ok(Response::new(v1::PutLogResponse { stored: convert::wire_size(stored) }))
    }

    async fn put_artifact(
        &self,
        request: Request<Streaming<v1::PutArtifactRequest>>,
    ) -> Result<Response<v1::PutArtifactResponse>, Status> {
        use v1::put_artifact_request::Part;
        let who = Identity::of(&request)?;
        let mut parts = request.into_inner();
        let Some(v1::PutArtifactRequest { part: Some(Part::Header(header)) }) = parts.message().await? else {
            return Err(Error::invalid("header", "the first message must be the header").into());
        };
        let key = convert::attempt(header.attempt, &who)?;
        let name = convert::artifact_name(header.name)?;
        let sha256 = convert::sha256(header.sha256)?;
        let size = convert::size("size", header.size)?;
        if size > self.artifact_bytes {
            return Err(Error::TooLarge { what: format!("file {name}"), limit: self.artifact_bytes }.into());
        }
        self.services.fence(&key, "PutArtifact").await?;
        let known = self.services.records.has_blob(&key.run, &sha256).await.map_err(Error::from)?;
        if !known {
            let mut blob: BlobWriter = self.services.records.put_blob(&key.run).await.map_err(Error::from)?;
            while let Some(part) = parts.message().await? {
                match part.part {
                    Some(Part::Data(data)) => blob.write(&data).await.map_err(Error::from)?,
                    Some(Part::Header(_)) | None => {
                        return Err(Error::invalid("part", "after the header only data may follow").into());
                    }
                }
            }
            blob.finish(size, &sha256).await.map_err(Error::from)?;
        }
        self.services.note_artifact(&key, name, sha256, size).await?;
        Ok(Response::new(v1::PutArtifactResponse { known }))
    }

    type GetArtifactStream = ServerStream<v1::Chunk>;

    async fn get_artifact(
        &self,
        request: Request<v1::GetArtifactRequest>,
    ) -> Result<Response<Self::GetArtifactStream>, Status> {
        let who = Identity::of(&request)?;
        let request = request.into_inner();
        let key = convert::attempt(request.attempt, &who)?;
        let sha256 = convert::sha256(request.sha256)?;
        self.services.fence(&key, "GetArtifact").await?;
        let file = self.services.records.open_blob(&key.run, &sha256).await.map_err(Error::from)?;
        let chunks = tokio_util::io::ReaderStream::with_capacity(file, CHUNK).map(|chunk| match chunk {
            Ok(data) => Ok(v1::Chunk { data: data.to_vec() }),
            Err(error) => Err(Status::data_loss(format!("reading a stored file failed: {error}"))),
        });
        Ok(Response::new(Box::pin(chunks)))
    }
}

/// The next message of a work stream. An error is sent once and ends it.
async fn next_item(work: Option<WorkStream>) -> Option<(Result<v1::WorkItem, Status>, Option<WorkStream>)> {
    let mut work = work?;
    match work.next().await {
        Ok(Some(item)) => Some((Ok(wire(item)), Some(work))),
        Ok(None) => None,
        Err(error) => Some((Err(error.into()), None)),
    }
}

fn wire(work: Work) -> v1::WorkItem {
    use v1::work_item::Item;
    let item = match work {
        Work::Opened(stream) => Item::Opened(v1::WorkOpened { stream: stream.to_string() }),
        Work::Step(step, inputs) => Item::Step(convert::step(*step, inputs)),
        Work::Signal(Signal::Stop { run, nonce, rev }) => {
            Item::Stop(v1::StopRun { run_id: run.to_string(), nonce: nonce.reveal(), rev })
        }
        Work::Signal(Signal::AdvertNow | Signal::Work) => Item::AdvertNow(v1::AdvertNow {}),
    };
    v1::WorkItem { item: Some(item) }
}

//! `NodeService`: the calls of an agent.

use futures::StreamExt;
use proto::v1::{self, node_service_server::NodeService};
use tonic::{Request, Response, Status, Streaming};

use super::{
    access::identity,
    convert::{from_wire, to_wire, work},
    stream::{Outgoing, pulled},
};
use crate::{
    error::Error,
    record::Digest,
    service::{Services, claim::WorkStream, upload::AttemptKey},
};

/// Bytes in one message of a download.
const CHUNK: usize = 256 * 1024;

/// The service.
#[derive(Clone)]
pub(super) struct Node(pub(super) Services);

#[tonic::async_trait]
impl NodeService for Node {
    async fn advertise(
        &self,
        request: Request<v1::AdvertiseRequest>,
    ) -> Result<Response<v1::AdvertiseResponse>, Status> {
        let who = identity(&request)?;
        let advert = from_wire::advert(&request.into_inner(), &who)?;
        let advertised = self.0.advertise(advert).await?;
        Ok(Response::new(to_wire::advertised(&advertised)))
    }

    type WorkStream = Outgoing<v1::WorkItem>;

    async fn work(&self, request: Request<v1::WorkRequest>) -> Result<Response<Self::WorkStream>, Status> {
        let who = identity(&request)?;
        let speaker = from_wire::speaker(request.into_inner().node.as_ref(), &who)?;
        let stream = self.0.open_work(speaker).await?;
        Ok(Response::new(pulled(stream, |mut stream: WorkStream| async move {
            Ok(stream.next().await?.map(|item| (work::work(item), stream)))
        })))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        let who = identity(&request)?;
        let reply = self.0.report(from_wire::report(request.into_inner(), &who)?).await?;
        Ok(Response::new(v1::ReportResponse { step_state: reply.step_state, run_state: reply.run_state.to_owned() }))
    }

    async fn put_log(
        &self,
        request: Request<Streaming<v1::PutLogRequest>>,
    ) -> Result<Response<v1::PutLogResponse>, Status> {
        let who = identity(&request)?;
        let mut chunks = request.into_inner();
        let mut named: Option<AttemptKey> = None;
        let mut stored = 0;
        while let Some(chunk) = chunks.message().await? {
            let key = match named.take() {
                Some(key) => key,
                None => from_wire::attempt(chunk.attempt.as_ref(), &who)?,
            };
            // A stream can outlive the lease that it was opened under.
            self.0.fence(&key).await?;
            let offset = from_wire::size("offset", chunk.offset)?;
            stored = self.0.append_log(&key, offset, chunk.data).await?;
            named = Some(key);
        }
        Ok(Response::new(v1::PutLogResponse { stored: to_wire::size(stored) }))
    }

    async fn put_artifact(
        &self,
        request: Request<Streaming<v1::PutArtifactRequest>>,
    ) -> Result<Response<v1::PutArtifactResponse>, Status> {
        use v1::put_artifact_request::Part;
        let who = identity(&request)?;
        let mut parts = request.into_inner();
        let Some(v1::PutArtifactRequest { part: Some(Part::Header(header)) }) = parts.message().await? else {
            return Err(Error::invalid("header", "must be the first message").into());
        };
        let key = from_wire::attempt(header.attempt.as_ref(), &who)?;
        let name = from_wire::artifact_name("name", header.name)?;
        let digest = from_wire::digest("sha256", &header.sha256)?;
        let size = from_wire::size("size", header.size)?;
        self.0.fence(&key).await?;
        let known = self.0.records.has_blob(&key.run, size, &digest).await.map_err(Error::from)?;
        if !known {
            self.receive(&key, &digest, size, parts).await?;
        }
        self.0.note_artifact(&key, name, &digest, size).await?;
        Ok(Response::new(v1::PutArtifactResponse { known }))
    }

    type GetArtifactStream = Outgoing<v1::Chunk>;

    async fn get_artifact(
        &self,
        request: Request<v1::GetArtifactRequest>,
    ) -> Result<Response<Self::GetArtifactStream>, Status> {
        let who = identity(&request)?;
        let request = request.into_inner();
        let key = from_wire::attempt(request.attempt.as_ref(), &who)?;
        let digest = from_wire::digest("sha256", &request.sha256)?;
        self.0.fence(&key).await?;
        let blob = self.0.records.open_blob(&key.run, &digest).await.map_err(Error::from)?;
        let chunks = tokio_util::io::ReaderStream::with_capacity(blob.file, CHUNK).map(|chunk| match chunk {
            Ok(data) => Ok(v1::Chunk { data: data.to_vec() }),
            Err(error) => Err(Error::Internal(format!("reading a stored file failed: {error}")).into()),
        });
        Ok(Response::new(Box::pin(chunks)))
    }
}

impl Node {
    async fn receive(
        &self,
        key: &AttemptKey,
        digest: &Digest,
        size: u64,
        mut parts: Streaming<v1::PutArtifactRequest>,
    ) -> Result<(), Status> {
        use v1::put_artifact_request::Part;
        let mut blob = self.0.records.blob_writer(&key.run).await.map_err(Error::from)?;
        while let Some(part) = parts.message().await? {
            let Some(Part::Data(data)) = part.part else {
                return Err(Error::invalid("part", "must be data after the header").into());
            };
            blob.write(data).await.map_err(Error::from)?;
        }
        Ok(blob.finish(size, digest).await.map_err(Error::from)?)
    }
}

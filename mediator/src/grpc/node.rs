//! `NodeService`: the calls of an agent.

use futures::{Stream, StreamExt, TryStreamExt};
use proto::v1::{self, node_service_server::NodeService};
use tokio_util::io::ReaderStream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    access::identity,
    convert::{from_wire, to_wire, work},
    stream::{Outgoing, pulled},
};
use crate::{
    error::Error,
    record::Blob,
    service::{Services, claim::WorkStream, upload::AttemptKey},
};

/// Bytes in one message of a download.
const CHUNK: usize = 256 * 1024;
/// Most files that one request may name.
const MOST: usize = 1000;

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

    async fn find_missing_blobs(
        &self,
        request: Request<v1::FindMissingBlobsRequest>,
    ) -> Result<Response<v1::FindMissingBlobsResponse>, Status> {
        let who = identity(&request)?;
        let request = request.into_inner();
        let key = from_wire::attempt(request.attempt.as_ref(), &who)?;
        not_too_many("blobs", request.blobs.len())?;
        let blob = |it: &v1::BlobRef| Ok((from_wire::digest("sha256", &it.sha256)?, from_wire::size("size", it.size)?));
        let blobs: Vec<_> = request.blobs.iter().map(blob).collect::<Result<_, Error>>()?;
        self.0.fence(&key).await?;
        let missing = self.0.missing_blobs(&key, &blobs).await?;
        let missing = missing.into_iter().filter_map(|place| u32::try_from(place).ok()).collect();
        Ok(Response::new(v1::FindMissingBlobsResponse { missing }))
    }

    async fn put_artifacts(
        &self,
        request: Request<Streaming<v1::PutArtifactsRequest>>,
    ) -> Result<Response<v1::PutArtifactsResponse>, Status> {
        use v1::put_artifacts_request::Part;
        let who = identity(&request)?;
        let mut parts = request.into_inner();
        let Some(v1::PutArtifactsRequest { part: Some(Part::Attempt(attempt)) }) = parts.message().await? else {
            return Err(Error::invalid("attempt", "must be the first message").into());
        };
        let key = from_wire::attempt(Some(&attempt), &who)?;
        self.0.fence(&key).await?;
        let mut upload = self.0.upload(key);
        while let Some(message) = parts.message().await? {
            match message.part {
                Some(Part::Header(header)) => {
                    let name = from_wire::artifact_name("name", header.name)?;
                    let digest = from_wire::digest("sha256", &header.sha256)?;
                    upload.begin(name, digest, from_wire::size("size", header.size)?).await?;
                }
                Some(Part::Data(data)) => upload.data(data).await?,
                Some(Part::Attempt(_)) | None => {
                    return Err(Error::invalid("part", "must be a header or data after the attempt").into());
                }
            }
        }
        let files = upload.finish().await?;
        Ok(Response::new(v1::PutArtifactsResponse { files: to_wire::size(files) }))
    }

    type GetArtifactsStream = Outgoing<v1::ArtifactPart>;

    async fn get_artifacts(
        &self,
        request: Request<v1::GetArtifactsRequest>,
    ) -> Result<Response<Self::GetArtifactsStream>, Status> {
        let who = identity(&request)?;
        let request = request.into_inner();
        let key = from_wire::attempt(request.attempt.as_ref(), &who)?;
        not_too_many("sha256", request.sha256.len())?;
        let wanted = request.sha256.iter().map(|it| from_wire::digest("sha256", it));
        let wanted: Vec<_> = wanted.collect::<Result<_, Error>>()?;
        self.0.fence(&key).await?;
        let (records, run) = (self.0.records.clone(), key.run);
        // Each is opened when the one before has been sent: one descriptor, however many there are.
        let files = futures::stream::iter((0..).zip(wanted)).then(move |(place, digest)| {
            let (records, run) = (records.clone(), run.clone());
            async move {
                let blob = records.open_blob(&run, &digest).await.map_err(Error::from)?;
                Ok::<_, Status>(file_parts(place, blob))
            }
        });
        Ok(Response::new(Box::pin(files.try_flatten())))
    }
}

fn not_too_many(field: &str, many: usize) -> Result<(), Error> {
    if many <= MOST { Ok(()) } else { Err(Error::invalid(field, format!("must be at most {MOST}; ask in parts"))) }
}

fn file_parts(place: u32, blob: Blob) -> impl Stream<Item = Result<v1::ArtifactPart, Status>> {
    use v1::artifact_part::Part;
    let message = |part| v1::ArtifactPart { part: Some(part) };
    let data = ReaderStream::with_capacity(blob.file, CHUNK).map(move |chunk| match chunk {
        Ok(data) => Ok(message(Part::Data(data.to_vec()))),
        Err(error) => Err(Error::Internal(format!("reading a stored file failed: {error}")).into()),
    });
    futures::stream::iter([Ok(message(Part::File(place)))]).chain(data)
}

//! A mediator for tests: it does what a test tells it, and keeps everything it hears.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use proto::v1::{
    self,
    node_service_server::{NodeService, NodeServiceServer},
    work_item::Item,
};
use sha2::{Digest as _, Sha256};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};
use tokio_stream::{Stream, StreamExt as _, wrappers::TcpListenerStream, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Everything the mediator knows and was told.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) rev: i64,
    pub(crate) instance: String,
    pub(crate) stream: String,
    pub(crate) leases: Vec<v1::LeaseGrant>,
    pub(crate) policy: Option<v1::Policy>,
    pub(crate) interval_ms: i64,
    pub(crate) ttl_ms: i64,
    /// Adverts are refused with this, work and reports too.
    pub(crate) refuse: Option<Status>,
    /// Reports are applied and not answered, so many times.
    pub(crate) lose_answers: u32,
    /// The next advert is answered only when this fires, with what was true when it came.
    pub(crate) hold_advert: Option<Arc<Notify>>,
    /// And it is refused with this.
    pub(crate) refuse_held: Option<Status>,
    /// How many adverts wait for that.
    pub(crate) held: u32,
    /// Reports are refused with this.
    pub(crate) refuse_reports: Option<Status>,
    pub(crate) adverts: Vec<v1::AdvertiseRequest>,
    pub(crate) reports: Vec<v1::ReportRequest>,
    pub(crate) streams_opened: u32,
    pub(crate) logs: BTreeMap<String, Vec<u8>>,
    pub(crate) log_calls: u32,
    /// Log calls break after their first message, so many times.
    pub(crate) break_logs: u32,
    pub(crate) artifacts: BTreeMap<String, Vec<u8>>,
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    pub(crate) run_state: String,
    answered: BTreeMap<String, v1::ReportResponse>,
    work: Option<mpsc::UnboundedSender<Result<v1::WorkItem, Status>>>,
}

#[derive(Clone)]
pub(crate) struct Fake {
    world: Arc<Mutex<World>>,
    changed: watch::Sender<u64>,
}

pub(crate) struct Served {
    pub(crate) fake: Fake,
    pub(crate) url: String,
    server: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}

pub(crate) fn refusal(code: tonic::Code, reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "fleet.v1", std::collections::HashMap::new());
    Status::with_error_details(code, "told by the test", details)
}

pub(crate) fn superseded() -> Status {
    refusal(tonic::Code::FailedPrecondition, "SUPERSEDED")
}

pub(crate) fn stale() -> Status {
    refusal(tonic::Code::FailedPrecondition, "STALE")
}

pub(crate) fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) async fn serve() -> Served {
    let world = World { rev: 1, interval_ms: 50, ttl_ms: 60_000, run_state: "RUNNING".to_owned(), ..World::default() };
    let fake = Fake { world: Arc::new(Mutex::new(world)), changed: watch::Sender::new(0) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let service = NodeServiceServer::new(fake.clone());
    let server = tokio::spawn(async move {
        let router = tonic::transport::Server::builder().add_service(service);
        router.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
    });
    Served { fake, url: format!("http://{address}"), server }
}

impl Fake {
    /// Changes the world.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let result = change(&mut self.world.lock().unwrap());
        self.changed.send_modify(|count| *count += 1);
        result
    }

    /// Waits until the world is as the test wants it.
    pub(crate) async fn until<T>(&self, what: &str, look: impl Fn(&World) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        let wait = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = look(&self.world.lock().unwrap()) {
                    return found;
                }
                changes.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(Duration::from_secs(30), wait).await {
            Ok(found) => found,
            Err(_) => {
                let world = self.world.lock().unwrap();
                panic!("never came: {what}\nlast advert: {:?}\nreports: {:?}", world.adverts.last(), world.reports)
            }
        }
    }

    /// Waits for an advert that comes from now on and looks like this.
    pub(crate) async fn advert(
        &self,
        what: &str,
        look: impl Fn(&v1::AdvertiseRequest) -> bool,
    ) -> v1::AdvertiseRequest {
        let after = self.with(|world| world.adverts.len());
        self.until(what, |world| world.adverts.iter().skip(after).find(|it| look(it)).cloned()).await
    }

    /// Grants a lease. Its nonce is made of the number.
    pub(crate) fn grant(&self, run: &str, number: u8) -> String {
        let nonce = format!("{number:032x}");
        self.with(|world| {
            world.rev += 1;
            world.leases = vec![v1::LeaseGrant { run_id: run.to_owned(), nonce: nonce.clone() }];
        });
        nonce
    }

    /// Takes every lease away.
    pub(crate) fn release(&self) {
        self.with(|world| {
            world.rev += 1;
            world.leases.clear();
        });
    }

    /// Sends an item over the open work stream.
    pub(crate) async fn send(&self, item: Item) {
        self.until("an open work stream", |world| {
            let work = world.work.as_ref()?;
            work.send(Ok(v1::WorkItem { item: Some(item.clone()) })).ok()
        })
        .await;
    }

    pub(crate) fn break_stream(&self) {
        self.with(|world| world.work = None);
    }

    /// A step of the lease that holds now.
    pub(crate) fn step(&self, seq: u32, argv: &[&str]) -> v1::Step {
        self.with(|world| {
            let lease = world.leases.first().expect("grant a lease first");
            v1::Step {
                run_id: lease.run_id.clone(),
                seq,
                step_id: format!("step{seq}"),
                attempt: 1,
                round: 0,
                nonce: lease.nonce.clone(),
                rev: world.rev,
                argv: argv.iter().map(ToString::to_string).collect(),
                first_on_node: seq == 0,
                ..v1::Step::default()
            }
        })
    }

    pub(crate) async fn report(&self, what: &str) -> v1::ReportRequest {
        self.until(what, |world| world.reports.first().cloned()).await
    }

    fn hear<T>(
        &self,
        check: Option<&v1::NodeRef>,
        change: impl FnOnce(&mut World) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.with(|world| {
            if let Some(status) = &world.refuse {
                return Err(status.clone());
            }
            if let Some(node) = check
                && (node.instance != world.instance
                    || !(world.stream.is_empty() || node.streams.contains(&world.stream)))
            {
                return Err(superseded());
            }
            change(world)
        })
    }
}

pub(crate) fn key(step: &v1::StepRef) -> String {
    format!("{}/{}/{}", step.run_id, step.seq, step.attempt)
}

type Out<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl NodeService for Fake {
    async fn advertise(
        &self,
        request: Request<v1::AdvertiseRequest>,
    ) -> Result<Response<v1::AdvertiseResponse>, Status> {
        let advert = request.into_inner();
        let node = advert.node.clone().unwrap();
        let answer = self.with(|world| {
            world.adverts.push(advert.clone());
            if let Some(status) = &world.refuse {
                return Err(status.clone());
            }
            if world.instance != node.instance {
                if !world.instance.is_empty() && !advert.replaces.contains(&world.instance) {
                    return Err(superseded());
                }
                world.instance.clone_from(&node.instance);
                world.stream.clear();
                world.work = None;
            }
            let policy = advert.policy.clone().unwrap_or_default();
            if world.policy.clone().unwrap_or_default().drain != policy.drain {
                world.rev += 1;
            }
            world.policy = Some(policy);
            Ok(v1::AdvertiseResponse {
                rev: world.rev,
                leases: world.leases.clone(),
                policy: world.policy.clone(),
                interval_ms: world.interval_ms,
                ttl_ms: world.ttl_ms,
                stream: world.stream.clone(),
            })
        });
        if let Some(gate) = self.with(|world| {
            let gate = world.hold_advert.take();
            world.held += u32::from(gate.is_some());
            gate
        }) {
            gate.notified().await;
            if let Some(status) = self.with(|world| world.refuse_held.take()) {
                return Err(status);
            }
        }
        answer.map(Response::new)
    }

    type WorkStream = Out<v1::WorkItem>;

    async fn work(&self, request: Request<v1::WorkRequest>) -> Result<Response<Self::WorkStream>, Status> {
        let node = request.into_inner().node.unwrap();
        let items = self.hear(Some(&node), |world| {
            let (work, items) = mpsc::unbounded_channel();
            world.stream = node.streams.last().unwrap().clone();
            let opened = Item::Opened(v1::WorkOpened { stream: world.stream.clone() });
            work.send(Ok(v1::WorkItem { item: Some(opened) })).unwrap();
            world.work = Some(work);
            world.streams_opened += 1;
            Ok(items)
        })?;
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(items))))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        let report = request.into_inner();
        let node = report.node.clone().unwrap();
        self.hear(None, |world| {
            world.reports.push(report.clone());
            let key = key(report.step.as_ref().unwrap());
            if let Some(answer) = world.answered.get(&key) {
                return Ok(answer.clone());
            }
            if let Some(status) = &world.refuse_reports {
                return Err(status.clone());
            }
            if node.instance != world.instance {
                return Err(superseded());
            }
            if !world.leases.iter().any(|it| it.nonce == report.nonce) {
                return Err(stale());
            }
            let answer = v1::ReportResponse { step_state: "DONE".to_owned(), run_state: world.run_state.clone() };
            world.answered.insert(key, answer.clone());
            if world.run_state != "RUNNING" {
                world.rev += 1;
                world.leases.clear();
            }
            if world.lose_answers > 0 {
                world.lose_answers -= 1;
                return Err(Status::unavailable("the answer was lost"));
            }
            Ok(answer)
        })
        .map(Response::new)
    }

    async fn put_log(
        &self,
        request: Request<Streaming<v1::PutLogRequest>>,
    ) -> Result<Response<v1::PutLogResponse>, Status> {
        let mut parts = request.into_inner();
        let mut attempt = None;
        self.with(|world| world.log_calls += 1);
        while let Some(part) = parts.next().await {
            let part = part?;
            if let Some(first) = part.attempt {
                self.hear(first.node.as_ref(), |_| Ok(()))?;
                attempt = Some(key(&first.step.unwrap()));
            }
            let key = attempt.clone().ok_or_else(|| Status::invalid_argument("no attempt"))?;
            let cut = self.with(|world| {
                let log = world.logs.entry(key).or_default();
                let offset = usize::try_from(part.offset).unwrap();
                // What is stored already is skipped; a gap is not filled.
                if let Some(new) = log.len().checked_sub(offset).and_then(|known| part.data.get(known..)) {
                    log.extend_from_slice(new);
                }
                let cut = world.break_logs > 0 && !part.data.is_empty();
                world.break_logs -= u32::from(cut);
                cut
            });
            if cut {
                return Err(Status::unavailable("broken by the test"));
            }
        }
        let stored = self.with(|world| attempt.and_then(|key| world.logs.get(&key).map(Vec::len)).unwrap_or(0));
        Ok(Response::new(v1::PutLogResponse { stored: i64::try_from(stored).unwrap() }))
    }

    async fn find_missing_blobs(
        &self,
        request: Request<v1::FindMissingBlobsRequest>,
    ) -> Result<Response<v1::FindMissingBlobsResponse>, Status> {
        let request = request.into_inner();
        let missing = self.hear(request.attempt.unwrap().node.as_ref(), |world| {
            let known: Vec<_> = world.artifacts.values().map(|data| sha256(data)).collect();
            let blobs = (0..).zip(&request.blobs);
            Ok(blobs.filter(|(_, it)| !known.contains(&it.sha256)).map(|(place, _)| place).collect())
        })?;
        Ok(Response::new(v1::FindMissingBlobsResponse { missing }))
    }

    async fn put_artifacts(
        &self,
        request: Request<Streaming<v1::PutArtifactsRequest>>,
    ) -> Result<Response<v1::PutArtifactsResponse>, Status> {
        use v1::put_artifacts_request::Part;
        let mut parts = request.into_inner();
        let Some(Part::Attempt(attempt)) = parts.next().await.transpose()?.and_then(|it| it.part) else {
            return Err(Status::invalid_argument("no attempt"));
        };
        self.hear(attempt.node.as_ref(), |_| Ok(()))?;
        let mut files: Vec<(v1::ArtifactHeader, Vec<u8>)> = Vec::new();
        while let Some(part) = parts.next().await {
            match part?.part {
                Some(Part::Header(header)) => files.push((header, Vec::new())),
                Some(Part::Data(more)) => files.last_mut().unwrap().1.extend(more),
                other => return Err(Status::invalid_argument(format!("{other:?}"))),
            }
        }
        let known = self.with(|world| world.artifacts.clone());
        let known = known.into_values().chain(files.iter().map(|it| it.1.clone()));
        let known: BTreeMap<_, _> = known.map(|data| (sha256(&data), data)).collect();
        for (header, data) in &files {
            let data = if data.is_empty() { known.get(&header.sha256).unwrap_or(data) } else { data };
            if sha256(data) != header.sha256 || i64::try_from(data.len()).unwrap() != header.size {
                return Err(refusal(tonic::Code::DataLoss, "CHECKSUM"));
            }
            self.with(|world| world.artifacts.insert(header.name.clone(), data.clone()));
        }
        Ok(Response::new(v1::PutArtifactsResponse { files: i64::try_from(files.len()).unwrap() }))
    }

    type GetArtifactsStream = Out<v1::ArtifactPart>;

    async fn get_artifacts(
        &self,
        request: Request<v1::GetArtifactsRequest>,
    ) -> Result<Response<Self::GetArtifactsStream>, Status> {
        use v1::artifact_part::Part;
        let wanted = request.into_inner();
        let parts = self.hear(wanted.attempt.unwrap().node.as_ref(), |world| {
            let mut parts = Vec::new();
            for (place, sha256) in (0..).zip(&wanted.sha256) {
                let data = world.blobs.get(sha256).ok_or_else(|| refusal(tonic::Code::NotFound, "NOT_FOUND"))?;
                parts.push(Part::File(place));
                parts.extend(data.chunks(3).map(|chunk| Part::Data(chunk.to_vec())));
            }
            Ok(parts)
        })?;
        let parts = parts.into_iter().map(|part| Ok(v1::ArtifactPart { part: Some(part) }));
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }
}

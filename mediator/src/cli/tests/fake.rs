//! A mediator of the wire only: it answers what a test wrote down, and keeps what it was asked.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    thread::JoinHandle,
};

use futures::{StreamExt, stream::BoxStream};
use proto::v1::{
    fleet_service_server::{FleetService, FleetServiceServer},
    run_service_server::{RunService, RunServiceServer},
    *,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

type Told<T> = Result<T, Status>;

/// Answers in their order; the last one stays.
pub(super) struct Script<T>(VecDeque<T>);

impl<T> Default for Script<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Clone> Script<T> {
    pub(super) fn then(&mut self, answer: T) -> &mut Self {
        self.0.push_back(answer);
        self
    }

    fn next(&mut self) -> Result<T, Status> {
        let last = self.0.len() == 1;
        let next = if last { self.0.front().cloned() } else { self.0.pop_front() };
        next.ok_or_else(|| Status::unimplemented("the test wrote no answer for this call"))
    }
}

/// What a stream says, and whether it then stays silent instead of ending.
#[derive(Clone)]
pub(super) struct Says<T> {
    pub(super) items: Vec<Told<T>>,
    pub(super) hangs: bool,
}

impl<T: Clone + Send + 'static> Says<T> {
    pub(super) fn then_ends(items: Vec<T>) -> Self {
        Self { items: items.into_iter().map(Ok).collect(), hangs: false }
    }

    pub(super) fn then_hangs(items: Vec<T>) -> Self {
        Self { items: items.into_iter().map(Ok).collect(), hangs: true }
    }

    pub(super) fn then_fails(items: Vec<T>, status: Status) -> Self {
        Self { items: items.into_iter().map(Ok).chain([Err(status)]).collect(), hangs: false }
    }

    fn stream(self) -> BoxStream<'static, Told<T>> {
        let items = futures::stream::iter(self.items);
        if self.hangs { items.chain(futures::stream::pending()).boxed() } else { items.boxed() }
    }
}

#[derive(Default)]
pub(super) struct Lines {
    pub(super) submit: Script<Told<SubmitResponse>>,
    pub(super) dry_run: Script<Told<DryRunResponse>>,
    pub(super) get_run: Script<Told<RunDetail>>,
    pub(super) list_runs: Script<Told<ListRunsResponse>>,
    pub(super) watch_run: Script<Told<Says<RunDetail>>>,
    pub(super) cancel: Script<Told<RunView>>,
    pub(super) list_asks: Script<Told<ListAsksResponse>>,
    pub(super) answer: Script<Told<RunView>>,
    pub(super) explain: Script<Told<ExplainResponse>>,
    pub(super) get_log: Script<Told<Says<LogChunk>>>,
    pub(super) get_record: Script<Told<Says<Chunk>>>,
    pub(super) list_nodes: Script<Told<ListNodesResponse>>,
    pub(super) list_leases: Script<Told<ListLeasesResponse>>,
    pub(super) watch_fleet: Script<Told<Says<Event>>>,
    /// Every request as `call: its debug form`.
    pub(super) asked: Vec<String>,
    pub(super) submitted: Vec<SubmitRequest>,
    pub(super) authorization: Option<String>,
}

/// The running fake. Dropping it ends it.
pub(super) struct Fake {
    lines: Arc<Mutex<Lines>>,
    pub(super) address: SocketAddr,
    server: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Fake {
    pub(super) async fn start() -> Self {
        let mut fake = Self { lines: Arc::default(), address: SocketAddr::from(([127, 0, 0, 1], 0)), server: None };
        fake.serve().await;
        fake
    }

    /// Listens, after [`Fake::stop`] at the same address. On a runtime of its own: when that is dropped the open
    /// connections break, as they do when a process dies.
    pub(super) async fn serve(&mut self) {
        let listener = std::net::TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        let (stop, lines) = (CancellationToken::new(), Arc::clone(&self.lines));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (_, health) = tonic_health::server::health_reporter();
                let routes = tonic::transport::Server::builder()
                    .add_service(health)
                    .add_service(RunServiceServer::new(Wire(Arc::clone(&lines))))
                    .add_service(FleetServiceServer::new(Wire(lines)));
                let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
                tokio::select! {
                    served = routes.serve_with_incoming(incoming) => served.unwrap(),
                    () = stopped.cancelled() => {}
                }
            });
        });
        self.server = Some((stop, thread));
    }

    pub(super) fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often this call was made.
    pub(super) fn asked(&self, call: &str) -> usize {
        self.lines().asked.iter().filter(|asked| asked.starts_with(call)).count()
    }

    pub(super) async fn stop(&mut self) {
        if let Some((stop, thread)) = self.server.take() {
            stop.cancel();
            tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some((stop, _)) = &self.server {
            stop.cancel();
        }
    }
}

struct Wire(Arc<Mutex<Lines>>);

impl Wire {
    fn hear<T: std::fmt::Debug>(&self, call: &str, request: &Request<T>) -> MutexGuard<'_, Lines> {
        let mut lines = self.0.lock().unwrap();
        lines.asked.push(format!("{call}: {:?}", request.get_ref()));
        lines.authorization =
            request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        lines
    }
}

#[tonic::async_trait]
impl RunService for Wire {
    type WatchRunStream = BoxStream<'static, Told<RunDetail>>;
    type GetLogStream = BoxStream<'static, Told<LogChunk>>;
    type GetRecordStream = BoxStream<'static, Told<Chunk>>;

    async fn submit(&self, request: Request<SubmitRequest>) -> Told<Response<SubmitResponse>> {
        let mut lines = self.hear("submit", &request);
        let request = request.into_inner();
        lines.submitted.push(request.clone());
        let mut answer = lines.submit.next()??;
        if let Some(run) = &mut answer.run {
            run.run_id = request.run_id;
        }
        Ok(Response::new(answer))
    }
    async fn dry_run(&self, request: Request<SubmitRequest>) -> Told<Response<DryRunResponse>> {
        Ok(Response::new(self.hear("dry_run", &request).dry_run.next()??))
    }
    async fn get_run(&self, request: Request<GetRunRequest>) -> Told<Response<RunDetail>> {
        Ok(Response::new(self.hear("get_run", &request).get_run.next()??))
    }
    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Told<Response<ListRunsResponse>> {
        Ok(Response::new(self.hear("list_runs", &request).list_runs.next()??))
    }
    async fn watch_run(&self, request: Request<GetRunRequest>) -> Told<Response<Self::WatchRunStream>> {
        Ok(Response::new(self.hear("watch_run", &request).watch_run.next()??.stream()))
    }
    async fn list_asks(&self, request: Request<ListAsksRequest>) -> Told<Response<ListAsksResponse>> {
        Ok(Response::new(self.hear("list_asks", &request).list_asks.next()??))
    }

    async fn answer(&self, request: Request<AnswerRequest>) -> Told<Response<RunView>> {
        Ok(Response::new(self.hear("answer", &request).answer.next()??))
    }

    async fn cancel(&self, request: Request<CancelRequest>) -> Told<Response<RunView>> {
        Ok(Response::new(self.hear("cancel", &request).cancel.next()??))
    }
    async fn explain(&self, request: Request<ExplainRequest>) -> Told<Response<ExplainResponse>> {
        Ok(Response::new(self.hear("explain", &request).explain.next()??))
    }
    async fn get_log(&self, request: Request<GetLogRequest>) -> Told<Response<Self::GetLogStream>> {
        Ok(Response::new(self.hear("get_log", &request).get_log.next()??.stream()))
    }
    async fn get_record(&self, request: Request<GetRunRequest>) -> Told<Response<Self::GetRecordStream>> {
        Ok(Response::new(self.hear("get_record", &request).get_record.next()??.stream()))
    }
}

#[tonic::async_trait]
impl FleetService for Wire {
    type WatchFleetStream = BoxStream<'static, Told<Event>>;

    async fn list_nodes(&self, request: Request<ListNodesRequest>) -> Told<Response<ListNodesResponse>> {
        Ok(Response::new(self.hear("list_nodes", &request).list_nodes.next()??))
    }
    async fn list_leases(&self, request: Request<ListLeasesRequest>) -> Told<Response<ListLeasesResponse>> {
        Ok(Response::new(self.hear("list_leases", &request).list_leases.next()??))
    }
    async fn list_capabilities(&self, _: Request<ListCapabilitiesRequest>) -> Told<Response<ListCapabilitiesResponse>> {
        Err(Status::unimplemented("no command asks for it"))
    }
    async fn watch_fleet(&self, request: Request<WatchFleetRequest>) -> Told<Response<Self::WatchFleetStream>> {
        Ok(Response::new(self.hear("watch_fleet", &request).watch_fleet.next()??.stream()))
    }
}

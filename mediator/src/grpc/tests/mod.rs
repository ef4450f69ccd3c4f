//! The whole edge over loopback: a real server, real clients, a real store.

mod credentials;
mod door;
mod files;
mod frames;
mod limits;
mod lookups;
mod pages;
mod secrets;
mod streams;
mod table;
mod uploads;

use std::net::SocketAddr;

use proto::v1::{fleet_service_client::FleetServiceClient, run_service_client::RunServiceClient};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tonic::{
    Request,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use super::*;
use crate::{
    auth::{Role, create_token},
    config::{ClientAuth, TlsFiles},
    service::{bench::Bench, sample::id},
    tls,
};

fn server_tls(pki: &tls::Pki, client_ca: Option<&std::path::Path>) -> tls::ServerTls {
    let client_auth = if client_ca.is_some() { ClientAuth::Optional } else { ClientAuth::None };
    let (cert, key) = (pki.server_cert.clone(), pki.server_key.clone());
    tls::ServerTls::new(TlsFiles { cert, key, client_ca: client_ca.map(Into::into), client_auth }).unwrap()
}

#[derive(Clone)]
struct Bearer(String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value: MetadataValue<_> = format!("Bearer {}", self.0).parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}

type Client = InterceptedService<Channel, Bearer>;

struct Server {
    bench: Bench,
    at: SocketAddr,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(None).await
    }

    async fn start_with(tls: Option<tls::ServerTls>) -> Self {
        Self::start_limited(tls, tls::Limits::default(), Limits::default()).await
    }

    async fn start_limited(tls: Option<tls::ServerTls>, connections: tls::Limits, limits: Limits) -> Self {
        let bench = Bench::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let pages = http::Pages::new(bench.services.clone(), recorder.handle());
        let health = HealthReporter::new();
        set_serving(&health, true).await;
        let routes = routes(&bench.services, pages, &health, &limits).unwrap();
        let auth = Auth::new(bench.services.store.clone(), bench.clock.clone());
        let stop = bench.services.stop.clone();
        let serving = tokio::spawn(serve(routes, auth, limits, tls::incoming(listener, tls, connections), stop));
        Self { bench, at, serving }
    }

    async fn token(&self, role: Role) -> String {
        let (store, clock) = (&self.bench.services.store, &self.bench.clock);
        create_token(store, clock, role, id(&format!("a-{role}")), None, None).await.unwrap().secret
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.at)).unwrap().connect().await.unwrap()
    }

    async fn runs(&self, role: Role) -> RunServiceClient<Client> {
        RunServiceClient::with_interceptor(self.channel().await, Bearer(self.token(role).await))
    }

    async fn fleet(&self, role: Role) -> FleetServiceClient<Client> {
        FleetServiceClient::with_interceptor(self.channel().await, Bearer(self.token(role).await))
    }

    /// One HTTP/1.1 request; the status line's number, the head and the body.
    async fn get(&self, path: &str, token: Option<&str>) -> (u16, String, String) {
        let mut socket = TcpStream::connect(self.at).await.unwrap();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{token}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    /// Stops the server and waits until it has.
    async fn stop(self) {
        self.bench.services.stop.cancel();
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), self.serving).await;
        ended.expect("the server ends by itself").unwrap().unwrap();
    }
}

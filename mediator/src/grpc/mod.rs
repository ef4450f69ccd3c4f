//! The listener: gRPC and HTTP on one port, one door before both.
//!
//! `tonic` is known here, in the agent's session and in the command line, and nowhere else. Handlers parse,
//! call one use case and write the answer; they decide nothing.

mod access;
pub mod convert;
mod files;
mod fleet;
mod guard;
mod io;
mod node;
mod prompt;
mod quota;
mod run;
mod status;
mod stream;
mod watch;

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::{Stream, StreamExt};
use proto::v1::{
    fleet_service_server::FleetServiceServer, node_service_server::NodeServiceServer,
    run_service_server::RunServiceServer,
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body, service::Routes, transport::Server};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

pub use access::identity;
pub use quota::Quota;
pub use stream::Outgoing;

use crate::{auth::Auth, http, service::Services, tls::Connection};

/// What callers may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one message. Must leave room for a contract of the greatest size, so that one that is too
    /// large is told what is wrong with it.
    pub message_bytes: usize,
    /// Most calls of one connection under way, streams included. An agent of a machine with many nodes keeps a
    /// work stream open per node and a log upload per step; a limit that these could use up would hold back its
    /// adverts, and with them its leases.
    pub streams_per_connection: u32,
    /// Until the first request of a connection is whole, and until the one message of a call is.
    pub header: Duration,
    /// For a connection without any request.
    pub idle: Duration,
    /// For a client that takes nothing of what it is sent.
    pub stall: Duration,
    /// A connection that says nothing is asked whether it is still there this often, and given up when it does
    /// not answer within as long.
    pub keepalive: Duration,
    /// By caller.
    pub quota: Quota,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 4 << 20,
            streams_per_connection: 4_096,
            header: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            stall: Duration::from_secs(300),
            keepalive: Duration::from_secs(20),
            quota: Quota::default(),
        }
    }
}

/// Bytes in flight per stream and per connection: enough for files over a slow line.
const WINDOWS: (u32, u32) = (1 << 20, 4 << 20);

/// All services, health, reflection and all HTTP pages.
///
/// # Errors
/// When the protocol's own description cannot be read: a fault of the build.
pub fn routes(
    services: &Services,
    pages: http::Pages,
    health: &HealthReporter,
    limits: &Limits,
) -> Result<Routes, tonic_reflection::server::Error> {
    use tonic_reflection::server::Builder;
    let described = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let most = limits.message_bytes;
    let runs = RunServiceServer::new(run::Runs(services.clone())).max_decoding_message_size(most);
    let fleet = FleetServiceServer::new(fleet::Fleet(services.clone())).max_decoding_message_size(most);
    let node = NodeServiceServer::new(node::Node(services.clone())).max_decoding_message_size(most);
    let grpc = Routes::new(runs)
        .add_service(fleet)
        .add_service(node)
        .add_service(HealthServer::new(HealthService::from_health_reporter(health.clone())))
        .add_service(described().build_v1()?)
        .add_service(described().build_v1alpha()?);
    Ok(Routes::from(grpc.into_axum_router().merge(http::router(pages)).fallback(unknown)))
}

/// No such path, said in the caller's protocol.
async fn unknown(request: ::http::request::Parts) -> ::http::Response<Body> {
    if access::is_grpc(&request.headers) {
        Status::unimplemented(format!("there is no method {}", request.uri.path())).into_http()
    } else {
        let path = request.uri.path();
        let error = crate::error::Error::NotFound(format!("page {path}; there are {}", http::PATHS.join(", ")));
        http::problem::response(&error).map(Body::new)
    }
}

/// Tells health clients that the mediator serves, or that it is about to stop.
pub async fn set_serving(health: &HealthReporter, serving: bool) {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in ["", "fleet.v1.NodeService", "fleet.v1.RunService", "fleet.v1.FleetService"] {
        health.set_service_status(service, status).await;
    }
}

/// Serves until `stop` is cancelled and every connection is over. Streams end by themselves then, so this
/// takes as long as the longest request that is under way.
///
/// # Errors
/// When a service cannot be set up for a connection; a broken connection is not an error.
pub async fn serve(
    routes: Routes,
    auth: Auth,
    limits: Limits,
    incoming: impl Stream<Item = Connection> + Send,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let patience = io::Patience { header: limits.header, idle: limits.idle, stall: limits.stall };
    let incoming = incoming.map(move |connection| Ok::<_, std::io::Error>(io::Io::new(connection, patience)));
    let door = access::DoorLayer::new(auth.clone(), limits);
    let guards = door.guards();
    let serving = Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(limits.keepalive))
        .http2_keepalive_timeout(Some(limits.keepalive))
        .concurrency_limit_per_connection(limits.streams_per_connection as usize)
        .max_concurrent_streams(limits.streams_per_connection)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .layer(door)
        .add_routes(routes.prepare())
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned());
    tokio::select! {
        served = serving => served,
        () = guards.look_after(&auth) => Ok(()),
    }
}

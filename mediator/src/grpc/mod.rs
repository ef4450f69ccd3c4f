//! The listener: gRPC and HTTP on one port, one door before both.
//!
//! `tonic` is known here, in the agent's session and in the command line, and nowhere else. Handlers parse,
//! call one use case and write the answer; they decide nothing.

mod access;
pub mod convert;
mod files;
mod fleet;
mod io;
mod node;
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
pub use stream::Outgoing;

use crate::{auth::Auth, http, service::Services, tls::Connection};

/// A connection that says nothing is asked whether it is still there this often.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// And given up when it does not answer within this.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Most calls of one connection under way, streams included. An agent of a machine with many nodes keeps a
/// work stream open per node and a log upload per step; a limit that these could use up would hold back its
/// adverts, and with them its leases.
const CALLS_PER_CONNECTION: u32 = 4_096;
/// Bytes in flight per stream and per connection: enough for files over a slow line.
const WINDOWS: (u32, u32) = (1 << 20, 4 << 20);

/// All services, health, reflection and all HTTP pages. `message_bytes` must leave room for a contract of the
/// greatest size, so that one that is too large is told what is wrong with it.
///
/// # Errors
/// When the protocol's own description cannot be read: a fault of the build.
pub fn routes(
    services: &Services,
    pages: http::Pages,
    health: &HealthReporter,
    message_bytes: usize,
) -> Result<Routes, tonic_reflection::server::Error> {
    use tonic_reflection::server::Builder;
    let described = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let runs = RunServiceServer::new(run::Runs(services.clone())).max_decoding_message_size(message_bytes);
    let fleet = FleetServiceServer::new(fleet::Fleet(services.clone()));
    let node = NodeServiceServer::new(node::Node(services.clone())).max_decoding_message_size(message_bytes);
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
    incoming: impl Stream<Item = Connection> + Send,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let incoming = incoming.map(|connection| Ok::<_, std::io::Error>(io::Io(connection)));
    Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .concurrency_limit_per_connection(CALLS_PER_CONNECTION as usize)
        .max_concurrent_streams(CALLS_PER_CONNECTION)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .layer(access::DoorLayer(auth))
        .add_routes(routes.prepare())
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await
}

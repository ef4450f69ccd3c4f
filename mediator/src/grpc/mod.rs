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
pub(crate) mod watch;

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
/// Most requests of one connection that are worked on at once; streams that are open do not count.
const REQUESTS_PER_CONNECTION: usize = 256;
/// Most streams of one connection. An agent of a machine with many nodes keeps one open per node.
const STREAMS_PER_CONNECTION: u32 = 4_096;
/// Room beside a contract of the greatest size in a message.
const SLACK: usize = 64 << 10;

/// Most bytes in a message that may carry a contract.
pub const CONTRACT_MESSAGE: usize = 4 * shared::contract::MAX_BYTES + SLACK;

/// All services, health, reflection and all HTTP pages.
///
/// # Errors
/// When the protocol's own description cannot be read: a fault of the build.
pub fn routes(
    services: &Services,
    pages: http::Pages,
    health: &HealthReporter,
) -> Result<Routes, tonic_reflection::server::Error> {
    use tonic_reflection::server::Builder;
    let described = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let runs = RunServiceServer::new(run::Runs(services.clone())).max_decoding_message_size(CONTRACT_MESSAGE);
    let fleet = FleetServiceServer::new(fleet::Fleet(services.clone()));
    let node = NodeServiceServer::new(node::Node(services.clone()));
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
        .concurrency_limit_per_connection(REQUESTS_PER_CONNECTION)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .layer(access::DoorLayer(auth))
        .add_routes(routes.prepare())
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await
}

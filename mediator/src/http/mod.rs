//! Pages for people and tools: read only, one snapshot each, never cached.
//!
//! Who may read them is decided at the door (`grpc::access`), which both protocols share. `axum` is known
//! here and nowhere else.

mod page;
pub mod problem;
mod query;

use std::convert::Infallible;

use axum::{
    Json, Router,
    extract::{Path, Query, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{self, Sse},
    },
    routing::get,
};
use futures::{Stream, stream};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use shared::RunId;

use crate::{
    error::Error,
    metrics,
    service::{Services, follow::EventFeed, ready::Readiness},
};

/// Every page.
pub const PATHS: [&str; 8] =
    ["/v1/nodes", "/v1/runs", "/v1/runs/{id}", "/v1/leases", "/v1/events", "/metrics", "/healthz", "/readyz"];

/// What the pages need.
#[derive(Clone)]
pub struct Pages {
    /// The use cases.
    pub services: Services,
    /// What `/metrics` shows.
    pub metrics: PrometheusHandle,
    /// What `/readyz` shows.
    pub ready: Readiness,
}

impl Pages {
    /// Pages of these use cases.
    #[must_use]
    pub fn new(services: Services, metrics: PrometheusHandle) -> Self {
        Self { services, metrics, ready: Readiness::default() }
    }
}

/// All pages.
pub fn router(pages: Pages) -> Router {
    let [nodes, runs, run, leases, events, metrics, healthz, readyz] = PATHS;
    Router::new()
        .route(nodes, get(nodes_page))
        .route(runs, get(runs_page))
        .route(run, get(run_page))
        .route(leases, get(leases_page))
        .route(events, get(events_page))
        .route(metrics, get(metrics_page))
        .route(healthz, get(|| async { no_store("ok\n") }))
        .route(readyz, get(ready_page))
        .method_not_allowed_fallback(only_read)
        .with_state(pages)
}

/// Nothing is written through the pages.
async fn only_read(method: axum::http::Method) -> Response {
    let error =
        Error::invalid("method", format!("is {method}; these pages are read with GET, runs are submitted over gRPC"));
    let mut response = error.into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

type Pairs = Query<Vec<(String, String)>>;

fn no_store(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn json<T: Serialize>(page: T) -> Response {
    no_store(Json(page))
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        problem::response(&self).into_response()
    }
}

async fn nodes_page(State(pages): State<Pages>, Query(pairs): Pairs) -> Result<Response, Error> {
    query::none(pairs)?;
    Ok(json(page::Nodes::from(pages.services.nodes().await?)))
}

async fn runs_page(State(pages): State<Pages>, Query(pairs): Pairs) -> Result<Response, Error> {
    let filter = query::runs(pairs)?;
    Ok(json(page::Runs::from(pages.services.runs(filter).await?)))
}

async fn run_page(
    State(pages): State<Pages>,
    id: Result<Path<String>, PathRejection>,
    Query(pairs): Pairs,
) -> Result<Response, Error> {
    query::none(pairs)?;
    let Path(id) = id.map_err(|e| Error::invalid("id", e.body_text()))?;
    let id = RunId::new(&id).map_err(|e| Error::invalid("id", e.to_string()))?;
    Ok(json(page::Detail::from(pages.services.run(&id).await?)))
}

async fn leases_page(State(pages): State<Pages>, Query(pairs): Pairs) -> Result<Response, Error> {
    query::none(pairs)?;
    Ok(json(page::Leases::from(pages.services.leases().await?)))
}

/// Server-sent events: `id` is the event's number, so that a browser that reconnects misses none.
async fn events_page(State(pages): State<Pages>, headers: HeaderMap, Query(pairs): Pairs) -> Result<Response, Error> {
    let last = headers.get("last-event-id").map(HeaderValue::as_bytes);
    let feed = EventFeed::open(pages.services, query::events(pairs, last)?).await?;
    let sse = Sse::new(events(feed)).keep_alive(sse::KeepAlive::new().interval(std::time::Duration::from_secs(15)));
    Ok(no_store(sse))
}

fn events(feed: EventFeed) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    stream::unfold(feed, |mut feed| async move {
        // The mediator stops or the store is gone: the browser reconnects and says where it was.
        let event = match feed.next().await {
            Ok(event) => event,
            Err(error) => {
                error.note();
                return None;
            }
        };
        let (seq, kind) = (event.seq.to_string(), event.kind.clone());
        let data = serde_json::to_string(&page::Event::from(event)).ok()?;
        Some((Ok(sse::Event::default().id(seq).event(kind).data(data)), feed))
    })
}

async fn metrics_page(State(pages): State<Pages>) -> Result<Response, Error> {
    metrics::counted(pages.services.counts().await?);
    let text = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok(no_store((text, pages.metrics.render())))
}

/// Ready means that the store and the state directory can be written, and that the mediator is not about to stop.
async fn ready_page(State(pages): State<Pages>) -> Response {
    match pages.ready.ask(&pages.services).await {
        Ok(()) => no_store("ready\n"),
        Err(why) => no_store((StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))),
    }
}

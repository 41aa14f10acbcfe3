//! The admin listener: metrics, health and the API over HTTP.
//!
//! Requests are small. Metrics, health and the page's shell are open to every client that reaches the address; the API
//! (`/api/v1`) needs a key, whose role says which requests it may send (`access`). The HTTP library bounds a request's head (100 lines, about 400 kB), `bounded`
//! the number of connections and their silence. Only a request that changes a cluster waits for servers, and not for long.

mod access;
mod bounded;
mod digests;
mod error;
mod explain;
mod handle;
mod health;
mod history;
mod limits;
mod listener;
mod metrics;
mod orders;
mod page;
mod plan_watch;
mod rest;
mod secured;
mod sessions;
mod shared;
mod status;
mod steering;
#[cfg(test)]
mod testing;
mod threads;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::map_response;
use axum::response::IntoResponse;
use axum::routing::get;

pub use self::bounded::CONNECTIONS_MAX;
pub use self::digests::ask_digests;
pub use self::error::StartError;
pub use self::explain::{Explain, Explained, Explainer};
pub use self::handle::{AdminHandle, start};
pub use self::history::Growth;
pub use self::listener::{Bound, bind};
pub use self::metrics::{METRICS, Metric, MetricKind};
pub use self::orders::{Answered, Order, Orders};
pub use self::secured::AdminTls;
pub use self::sessions::{Kill, Later, Sessions};
use self::shared::Shared;
pub use self::shared::{ResultCache, Sources};
pub use self::status::{
    ChangeFigures, ChannelReport, ClusterStatus, Clusters, Diagnosis, Figures, JournalLine, LineKind, Lines,
    ServerFigures, ServerReport, Severity, StateChange, Status,
};
pub use self::steering::{Answer, Busy, Steering};

/// The media type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page::shell))
        .route("/assets/{name}", get(page::asset))
        .nest("/api/v1", rest::router(&shared))
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready_page))
        .layer(map_response(page::harden))
        .with_state(shared)
}

async fn metrics_page(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], metrics::render(&shared))
}

async fn ready_page(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let readiness = health::readiness(&shared);
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, readiness.words)
}

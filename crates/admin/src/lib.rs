//! The admin listener: metrics, health and the API over HTTP.
//!
//! Requests are small. Metrics and health are open to whoever reaches the address, the API (`/api/v1`) to whoever shows the
//! key. The HTTP library bounds a request's head (100 lines, about 400 kB), `bounded`
//! the number of connections and their silence. Only a request that changes a cluster waits for servers, and not for long.

mod auth;
mod bounded;
mod error;
mod handle;
mod health;
mod listener;
mod metrics;
mod rest;
mod shared;
mod status;
mod steering;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;

pub use self::bounded::CONNECTIONS_MAX;
pub use self::error::StartError;
pub use self::handle::{AdminHandle, start};
pub use self::listener::{Bound, bind};
pub use self::metrics::{Kind as MetricKind, METRICS, Metric};
use self::shared::Shared;
pub use self::shared::{ResultCache, Sources};
pub use self::status::{
    ChangeFigures, ChannelReport, ClusterStatus, Clusters, Diagnosis, Figures, JournalLine, LineKind, Lines,
    ServerFigures, ServerReport, Status,
};
pub use self::steering::{Answer, Busy, Steering};

/// The media type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

fn router(shared: Arc<Shared>) -> Router {
    let api = rest::router().layer(from_fn_with_state(shared.clone(), auth::must_be_shown));
    Router::new()
        .route(
            "/",
            get(|| async {
                "Sqluice: /metrics /healthz /readyz /api/v1/clusters /api/v1/digests /api/v1/rules /api/v1/events/tail \
                 /api/v1/cache\n"
            }),
        )
        .nest("/api/v1", api)
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready_page))
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

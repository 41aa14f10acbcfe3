//! The admin listener: metrics, health and the API over HTTP.
//!
//! Requests are small. Metrics and health are open to whoever reaches the address, the API (`/api/v1`) to whoever shows the
//! key. The HTTP library bounds a request's head (100 lines, about 400 kB), `bounded`
//! the number of connections and their silence. Only a request that changes a cluster waits for servers, and not for long.

mod auth;
mod bounded;
mod health;
pub(crate) mod metrics;
mod rest;
mod status;
mod steering;

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;

use self::bounded::Bounded;
pub use self::bounded::CONNECTIONS_MAX;
pub use self::status::{
    ChangeFigures, ChannelReport, ClusterStatus, Clusters, Diagnosis, Figures, JournalLine, LineKind, Lines,
    ServerFigures, ServerReport, Status,
};
pub use self::steering::{Accepted, Answer, Busy, Command, Refused, Steering};
use crate::error::StartError;
use crate::status::Shared;

/// The media type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A listening socket, not yet served.
pub(crate) enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Bound {
    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Bound::Tcp(listener) => listener.local_addr().ok(),
            Bound::Unix(_) => None,
        }
    }
}

/// Listens, so that a wrong address is told before anything starts.
pub(crate) fn bind(address: &config::Address) -> Result<Bound, StartError> {
    let listen = || match address {
        config::Address::Tcp { host, port } => {
            let listener = std::net::TcpListener::bind((&**host, *port))?;
            listener.set_nonblocking(true)?;
            Ok(Bound::Tcp(listener))
        }
        config::Address::Unix(path) => {
            // A socket that a killed process left behind would be in the way; anything else is not ours to remove.
            let left_behind = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
                && std::os::unix::net::UnixStream::connect(path).is_err();
            if left_behind {
                std::fs::remove_file(path)?;
            }
            let listener = std::os::unix::net::UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok(Bound::Unix(listener))
        }
    };
    listen().map_err(|cause: io::Error| StartError::AdminAddress { address: address.to_string(), cause })
}

/// Serves until the task is aborted.
pub(crate) async fn serve(bound: Bound, shared: Arc<Shared>) {
    let app = router(shared);
    let served = match bound {
        Bound::Tcp(listener) => match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => axum::serve(bounded(listener), app).await,
            Err(error) => Err(error),
        },
        Bound::Unix(listener) => match tokio::net::UnixListener::from_std(listener) {
            Ok(listener) => axum::serve(bounded(listener), app).await,
            Err(error) => Err(error),
        },
    };
    if let Err(error) = served {
        tracing::error!("the admin listener ended: {error}");
    }
}

fn bounded<L>(listener: L) -> Bounded<L> {
    Bounded::new(listener, bounded::CONNECTIONS_MAX, bounded::SILENCE_MAX)
}

fn router(shared: Arc<Shared>) -> Router {
    let api = rest::router().layer(from_fn_with_state(shared.clone(), auth::must_be_shown));
    Router::new()
        .route(
            "/",
            get(|| async {
                "Sqluice: /metrics /healthz /readyz /api/v1/clusters /api/v1/digests /api/v1/rules /api/v1/cache\n"
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

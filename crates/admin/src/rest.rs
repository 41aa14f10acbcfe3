//! The API, `/api/v1`: one file for each resource, and here their paths.

mod cache;
mod cache_digests;
mod clusters;
mod digests;
mod events;
mod query;
mod rules;
mod tier;
mod warm;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::{get, put};

pub(super) use self::cache::{counts as cache_counts, known_rights};
pub(super) use self::rules::hits as rule_hits;
use crate::shared::Shared;

/// Largest body of a request; the API's are a handful of words.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The paths of the API, below `/api/v1`. Whoever nests it has to ask for the key.
pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/digests", get(digests::list).delete(digests::reset))
        .route("/clusters", get(clusters::list))
        .route("/clusters/{cluster}", get(clusters::one))
        .route("/clusters/{cluster}/journal", get(clusters::journal))
        .route("/clusters/{cluster}/{action}", put(clusters::act))
        .route("/clusters/{cluster}/servers/{server}/{action}", put(clusters::act_on_server))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .route("/rules", get(rules::list))
        .route("/events/tail", get(events::tail))
        .route("/cache", get(cache::show).delete(cache::wipe))
        .route("/cache/digests", get(cache_digests::digests))
        .route("/cache/warm", get(warm::show).put(warm::start))
        .route("/cache/candidates", get(cache_digests::candidates))
        .fallback(|| async { StatusCode::NOT_FOUND })
}

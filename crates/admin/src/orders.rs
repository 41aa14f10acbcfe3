//! Orders to the API from within the process: the SQL console gives them. They go the way of every request, but for the key: their
//! role is known already.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::Value;
use tower_service::Service as _;

use crate::access::{Giver, Role};
use crate::rest;
use crate::sessions::Later;
use crate::shared::Shared;

/// Bytes of an answer that are read: plans are the longest.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Takes orders.
pub trait Orders: Send + Sync {
    /// Carries an order out as the API does. It is recorded, and becomes an event.
    fn give(&self, order: Order) -> Later<Answered>;
}

/// A request of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its method.
    pub method: &'static str,
    /// Its path below `/api/v1`.
    pub path: String,
    /// Its body.
    pub body: String,
    /// The role of its giver, in its word.
    pub role: &'static str,
    /// The address that it comes from.
    pub client: Option<IpAddr>,
    /// The order in the words of its giver.
    pub words: String,
}

/// The reply of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// Its page, or a text.
    pub page: Value,
}

impl Answered {
    fn of(status: StatusCode, bytes: &[u8]) -> Answered {
        let text = || Value::String(String::from_utf8_lossy(bytes).trim_end().to_owned());
        Answered { status: status.as_u16(), page: serde_json::from_slice(bytes).unwrap_or_else(|_| text()) }
    }
}

/// The API of this process.
pub(crate) struct Api(Router);

impl Api {
    pub(crate) fn of(shared: &Arc<Shared>) -> Api {
        Api(rest::router(shared).with_state(shared.clone()))
    }
}

impl Orders for Api {
    fn give(&self, order: Order) -> Later<Answered> {
        let Order { method, path, body, role, client, words } = order;
        let mut api = self.0.clone();
        let giver = Giver { way: "console", role: Role::of_word(role), client, words };
        let request = Request::builder().method(method).uri(path).extension(giver).body(Body::from(body));
        Box::pin(async move {
            let request = match request {
                Ok(request) => request,
                Err(error) => return Answered::of(StatusCode::BAD_REQUEST, error.to_string().as_bytes()),
            };
            let Ok(response) = api.call(request).await;
            let (head, body) = response.into_parts();
            match to_bytes(body, ANSWER_BYTES_MAX).await {
                Ok(bytes) => Answered::of(head.status, &bytes),
                Err(error) => Answered::of(StatusCode::INTERNAL_SERVER_ERROR, error.to_string().as_bytes()),
            }
        })
    }
}

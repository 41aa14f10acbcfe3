//! Asks each request of the API for the role that it needs, and records each change.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::keys::Role;
use super::peer::Peer;
use super::record::ChangeRecord;
use crate::shared::Shared;

/// Characters of a body that the record keeps.
const ORDER_CHARS_MAX: usize = 300;

/// The role that a request needs.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) role: Role,
    /// The largest body, in bytes.
    pub(crate) body_max: usize,
}

/// The giver of an order from within the process. No request that came over a socket has one.
#[derive(Clone)]
pub(crate) struct Giver {
    /// The way of the order.
    pub(crate) way: &'static str,
    /// The role.
    pub(crate) role: Role,
    /// The address that it comes from.
    pub(crate) client: Option<IpAddr>,
    /// The order in the giver's words.
    pub(crate) words: String,
}

impl Giver {
    /// The key of a request had this role.
    fn by_key(role: Role, client: Option<IpAddr>, request: &Request) -> Giver {
        let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |original| &original.0);
        Giver { way: "api", role, client, words: format!("{} {uri}", request.method()) }
    }
}

impl Guard {
    /// Lets a request through whose key has the role.
    pub(crate) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
        if comes_from_elsewhere(request.headers()) {
            return refusal(StatusCode::FORBIDDEN, "requests of other sites are refused");
        }
        if guard.role == Role::Nobody {
            return next.run(request).await;
        }
        let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
        if let Some(giver) = request.extensions().get::<Giver>().cloned() {
            return guard.change(giver, request, next).await;
        }
        let peer = Peer::of(&request);
        let role = match guard.shared.access.role(request.headers(), is_change, peer, Instant::now()) {
            Ok(role) => role,
            Err((status, words)) => {
                guard.note_refused(&request, peer, status);
                return refusal(status, &words);
            }
        };
        if !is_change {
            return match guard.lacks(role) {
                Some(words) => refusal(StatusCode::FORBIDDEN, &words),
                None => next.run(request).await,
            };
        }
        guard.change(Giver::by_key(role, peer, &request), request, next).await
    }

    /// A wrong key becomes an event. Their pace is limited for each address, and so is that of the events.
    fn note_refused(&self, request: &Request, client: Option<IpAddr>, status: StatusCode) {
        let shows_key = request.headers().contains_key(header::AUTHORIZATION);
        let Some(events) = self.shared.events.as_ref().filter(|_| shows_key && status == StatusCode::UNAUTHORIZED)
        else {
            return;
        };
        let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |original| &original.0);
        let (at, order) = (SystemTime::now(), String::new());
        let text = format!("{} {}", request.method(), uri.path()).chars().take(ORDER_CHARS_MAX).collect();
        let (role, result) = (Some(Role::Nobody.word()), status.to_string());
        let refused = ChangeRecord { at, kind: "login", way: "api", role, client, text, order, result };
        events.put(refused.as_event().into());
    }

    fn lacks(&self, role: Role) -> Option<String> {
        let (needed, own) = (self.role.word(), role.word());
        (role < self.role).then(|| format!("this needs the role {needed}; your key has the role {own}"))
    }

    /// A change is recorded, whatever becomes of it.
    async fn change(&self, giver: Giver, request: Request, next: Next) -> Response {
        let Giver { way, role, client, words: text } = giver;
        let (parts, body) = request.into_parts();
        let Ok(body) = to_bytes(body, self.body_max).await else {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
        };
        let order = String::from_utf8_lossy(&body).chars().take(ORDER_CHARS_MAX).collect::<String>();
        let mut entry = Entry { shared: &self.shared, way, role, client, text, order, result: None };
        let response = match self.lacks(role) {
            Some(words) => refusal(StatusCode::FORBIDDEN, &words),
            None => next.run(Request::from_parts(parts, Body::from(body))).await,
        };
        entry.result = Some(response.status());
        response
    }
}

/// A change that is recorded when its request ends, in whatever way.
struct Entry<'a> {
    shared: &'a Shared,
    way: &'static str,
    role: Role,
    client: Option<IpAddr>,
    text: String,
    order: String,
    result: Option<StatusCode>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let result =
            self.result.map_or_else(|| "the client left before the reply".to_owned(), |status| status.to_string());
        self.shared.note(ChangeRecord {
            at: SystemTime::now(),
            kind: "order",
            way: self.way,
            role: Some(self.role.word()),
            client: self.client,
            text: std::mem::take(&mut self.text),
            order: std::mem::take(&mut self.order),
            result,
        });
    }
}

/// Browsers say which site a request comes from.
fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(site, Some(b"cross-site" | b"same-site"))
}

fn refusal(status: StatusCode, words: &str) -> Response {
    let mut refusal = (status, format!("{words}\n")).into_response();
    match status {
        StatusCode::UNAUTHORIZED => {
            refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::TOO_MANY_REQUESTS => {
            refusal.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        _ => {}
    }
    refusal
}

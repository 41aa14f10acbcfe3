//! `/api/v1/login`: a key becomes a cookie, so that the page need not keep the key.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::BODY_BYTES_MAX;
use super::digests::json_page;
use crate::access::{ChangeRecord, LIFE, Login, Peer};
use crate::shared::Shared;

/// GET: the role of this login, and the token that changes need.
pub(super) async fn show(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    match shared.access.login(&headers, Instant::now()) {
        Some(login) => json_page(&page(&login)),
        None => (StatusCode::UNAUTHORIZED, "you are not logged in\n").into_response(),
    }
}

/// POST: logs in.
pub(super) async fn log_in(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (peer, is_tls) = (Peer::of(&request), Peer::is_tls(&request));
    let Ok(body) = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n").into_response();
    };
    let Some(key) = read_key(&body) else {
        return (StatusCode::BAD_REQUEST, "the body is {\"key\": \"…\"}\n").into_response();
    };
    let found = shared.access.log_in(key.as_bytes(), peer, Instant::now());
    let (role, result) = match &found {
        Ok(login) => (login.role.word(), StatusCode::OK),
        Err((status, _)) => ("nobody", *status),
    };
    shared.note(ChangeRecord {
        way: "api",
        at: SystemTime::now(),
        kind: "login",
        role: Some(role),
        client: peer,
        text: "login to the page".to_owned(),
        order: String::new(),
        result: result.to_string(),
    });
    match found {
        Ok(login) => with_cookie(&shared, &login.cookie, LIFE.as_secs(), is_tls, json_page(&page(&login))),
        Err((status, words)) => (status, words + "\n").into_response(),
    }
}

/// DELETE: logs out.
pub(super) async fn log_out(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.access.log_out(request.headers());
    with_cookie(&shared, "", 0, Peer::is_tls(&request), json_page(&json!({ "result": "done" })))
}

fn page(login: &Login) -> Value {
    json!({ "role": login.role.word(), "token": login.token })
}

fn read_key(body: &[u8]) -> Option<String> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(mut object)) if object.len() == 1 => match object.remove("key") {
            Some(Value::String(key)) => Some(key),
            _ => None,
        },
        _ => None,
    }
}

/// A cookie that came over TLS goes back over TLS only.
fn with_cookie(shared: &Shared, value: &str, life_s: u64, is_tls: bool, mut response: Response) -> Response {
    let (name, secure) = (shared.access.cookie_name(), if is_tls { "; Secure" } else { "" });
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life_s}{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

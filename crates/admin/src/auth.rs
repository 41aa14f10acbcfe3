//! The key of the API: a request must show it. Without a key in the configuration the API is closed.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use config::Secret;
use subtle::ConstantTimeEq;

use crate::shared::Shared;

/// Lets a request through that shows the key.
pub(super) async fn must_be_shown(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match check(shared.key().as_ref(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, words)) => {
            let mut refusal = (status, words).into_response();
            if status == StatusCode::UNAUTHORIZED {
                refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            refusal
        }
    }
}

fn check(key: Option<&Secret>, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
    let Some(key) = key else {
        return Err((StatusCode::FORBIDDEN, "the API is closed: the configuration has no admin.key\n"));
    };
    let shown = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
    let shown = match shown.split_at_checked(BEARER.len()) {
        Some((scheme, shown)) if scheme.eq_ignore_ascii_case(BEARER) => shown,
        _ => return Err((StatusCode::UNAUTHORIZED, "show the key, as Authorization: Bearer KEY\n")),
    };
    match bool::from(key.expose().ct_eq(shown)) {
        true => Ok(()),
        false => Err((StatusCode::UNAUTHORIZED, "this is not the key\n")),
    }
}

const BEARER: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    fn status(key: Option<&str>, shown: Option<&str>) -> u16 {
        let key = key.map(Secret::new);
        let mut headers = HeaderMap::new();
        if let Some(shown) = shown {
            headers.insert(header::AUTHORIZATION, shown.parse().unwrap());
        }
        check(key.as_ref(), &headers).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn only_the_key_opens() {
        assert_eq!(status(Some("hush hush"), Some("Bearer hush hush")), 200);
        assert_eq!(status(Some("hush hush"), Some("bearer hush hush")), 200);
        for wrong in ["Bearer hush", "Bearer hush hush ", "Bearer ", "Bearer", "Basic hush hush", "hush hush", ""] {
            assert_eq!(status(Some("hush hush"), Some(wrong)), 401, "{wrong}");
        }
        assert_eq!(status(Some("hush hush"), None), 401);
        for shown in [None, Some("Bearer "), Some("Bearer hush hush")] {
            assert_eq!(status(None, shown), 403);
        }
    }
}

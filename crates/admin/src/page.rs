//! The operator's page: its shell and assets, from the binary.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The built page: names and bytes. Empty if the page was not built before the binary.
const ASSETS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));
const SHELL: &str = "index.html";

/// The rights of the page in a browser: it loads its own script and style, and talks to its own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const NOT_BUILT: &str = "This binary has no page: ui/dist was empty when it was built.\n\
    Build the page, then the binary: ./dev ui && cargo build --release\n\n\
    Sqluice: /metrics /healthz /readyz, and with the key /api/v1/openapi.json, which lists the API\n";

/// GET `/`: the shell. It has no data, so it needs no key.
pub(crate) async fn shell() -> Response {
    match find(SHELL) {
        Some(bytes) => file(SHELL, bytes, "no-cache"),
        None => NOT_BUILT.into_response(),
    }
}

/// GET `/assets/{name}`. A name has a hash of its content: browsers may keep it.
pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    match find(&name).filter(|_| name != SHELL) {
        Some(bytes) => file(&name, bytes, "public, max-age=31536000, immutable"),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Headers of every reply.
pub(crate) async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn find(name: &str) -> Option<&'static [u8]> {
    ASSETS.iter().find(|(own, _)| *own == name).map(|(_, bytes)| *bytes)
}

fn file(name: &str, bytes: &'static [u8], kept: &'static str) -> Response {
    let media_type = match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    ([(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, kept)], bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_names_assets_that_are_there() {
        let Some(shell) = find(SHELL) else {
            assert!(ASSETS.is_empty() && NOT_BUILT.contains("./dev ui"), "a page that was not built has no part");
            return;
        };
        let shell = std::str::from_utf8(shell).unwrap();
        let named: Vec<&str> = shell.split("\"assets/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(named.len(), 3, "{shell}");
        assert!(named.iter().all(|name| find(name).is_some()), "{named:?}");
        // The policy would refuse it.
        assert!(!shell.contains("<style") && !shell.contains("style=") && !shell.contains("onload"), "{shell}");
    }
}

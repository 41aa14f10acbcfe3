//! etcd's JSON gateway: one request after the other over a connection that is kept, to whichever endpoint answers.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use net::tls::ClientTls;
use serde_json::{Value, json};

use crate::monitor::link;
use crate::task::{Owned, own};

/// Largest answer; what is asked for is a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Buffer of a connection, which bounds the head of an answer.
const BUFFER_BYTES: usize = 16 << 10;
/// Tries of one request beyond one for each endpoint.
const EXTRA_TRIES: usize = 2;
/// Longest text of etcd's that is passed on, in characters.
const TEXT_MAX: usize = 200;

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// No endpoint answered; each with its reason.
    #[error("{0}")]
    Unreachable(String),
    /// etcd's own word.
    #[error("etcd says {0}")]
    Refused(String),
    /// An answer that is none.
    #[error("{0}")]
    Protocol(String),
}

/// The failure of one try.
enum Tried {
    /// The connection broke; it may have been too old.
    Lost(String),
    /// Another endpoint may do better.
    Elsewhere(String),
    /// The token is no longer good.
    Token,
    /// No endpoint would say anything else.
    Final(Trouble),
}

pub(super) struct Gateway {
    endpoints: Vec<config::Address>,
    tls: ClientTls,
    user: Option<(String, config::Secret)>,
    /// Longest that one try may take.
    limit: Duration,
    /// The endpoint that is asked first.
    current: usize,
    connection: Option<Connection>,
    token: Option<HeaderValue>,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _task: Owned,
}

impl Gateway {
    /// Asks these endpoints, each for at most `limit` at a time.
    pub(super) fn new(etcd: config::Etcd, tls: ClientTls, limit: Duration) -> Gateway {
        let user = etcd.user.map(|user| (user.to_string(), etcd.password.unwrap_or_else(|| config::Secret::new([]))));
        Gateway { endpoints: etcd.endpoints, tls, user, limit, current: 0, connection: None, token: None }
    }

    /// Asks for `/v3/PATH`. A request may reach etcd twice.
    pub(super) async fn call(&mut self, path: &str, body: &Value) -> Result<Value, Trouble> {
        let mut reasons = Vec::new();
        let (mut proven_again, mut opened_again) = (false, false);
        // Beside each endpoint's: a connection that was kept may have ended meanwhile, and a token may be one of before.
        for _ in 0..self.endpoints.len() + EXTRA_TRIES {
            let kept = self.connection.is_some();
            let tried = match tokio::time::timeout(self.limit, self.once(path, body)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(tried)) => tried,
                Err(_) => Tried::Elsewhere("no answer in time".into()),
            };
            match tried {
                Tried::Final(trouble) => return Err(trouble),
                Tried::Token if proven_again => return Err(Trouble::Refused("that the token is not valid".into())),
                Tried::Token => {
                    self.token = None;
                    proven_again = true;
                }
                Tried::Lost(_) if kept && !opened_again => {
                    self.connection = None;
                    opened_again = true;
                }
                Tried::Lost(reason) | Tried::Elsewhere(reason) => {
                    self.connection = None;
                    reasons.push(format!("{}: {reason}", self.endpoints[self.current]));
                    self.current = (self.current + 1) % self.endpoints.len();
                    if reasons.len() >= self.endpoints.len() {
                        break;
                    }
                }
            }
        }
        Err(Trouble::Unreachable(reasons.join("; ")))
    }

    async fn once(&mut self, path: &str, body: &Value) -> Result<Value, Tried> {
        if self.token.is_none()
            && let Some((user, password)) = &self.user
        {
            let proof = json!({ "name": user, "password": String::from_utf8_lossy(password.expose()) });
            let answer = self.exchange("auth/authenticate", &proof).await?;
            let token = answer["token"].as_str().and_then(|token| HeaderValue::from_str(token).ok());
            let mut token = token.ok_or_else(|| Tried::Final(Trouble::Protocol("the login gave no token".into())))?;
            token.set_sensitive(true);
            self.token = Some(token);
        }
        self.exchange(path, body).await
    }

    async fn exchange(&mut self, path: &str, body: &Value) -> Result<Value, Tried> {
        let lost = |error: hyper::Error| Tried::Lost(error.to_string());
        let endpoint = &self.endpoints[self.current];
        let mut request = Request::post(format!("/v3/{path}"))
            .header(HOST, endpoint.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| Tried::Final(Trouble::Protocol(error.to_string())))?;
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => open(endpoint, &self.tls).await.map_err(Tried::Elsewhere)?,
        };
        connection.sender.ready().await.map_err(lost)?;
        let answer = connection.sender.send_request(request).await.map_err(lost)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Tried::Lost(error.to_string()))?.to_bytes();
        // Only a connection whose answer was read whole is good for another one.
        self.connection = Some(connection);
        judge(status, &body)
    }
}

/// The value of an answer.
fn judge(status: StatusCode, body: &[u8]) -> Result<Value, Tried> {
    let page: Option<Value> = serde_json::from_slice(body).ok();
    // An error in the middle of a stream comes with a good status.
    let reported = |page: &Value| {
        let error = page.get("error").or_else(|| page["result"].get("error"))?;
        let words = error.as_str().or_else(|| error["message"].as_str()).unwrap_or("something unknown");
        Some(words.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect::<String>())
    };
    let error = page.as_ref().and_then(reported);
    match (status, page, error) {
        (StatusCode::OK, Some(page), None) => Ok(page),
        (StatusCode::OK, None, _) => Err(Tried::Elsewhere("it says something that is not JSON".into())),
        (StatusCode::UNAUTHORIZED, ..) => Err(Tried::Token),
        (status, _, error) => {
            let words = error.unwrap_or_else(|| status.to_string());
            // "revision of auth store is old": rights were changed since the login.
            if words.contains("auth store is old") || words.contains("invalid auth token") {
                Err(Tried::Token)
            } else if status.is_client_error() {
                Err(Tried::Final(Trouble::Refused(words)))
            } else {
                Err(Tried::Elsewhere(format!("it says {words}")))
            }
        }
    }
}

async fn open(endpoint: &config::Address, tls: &ClientTls) -> Result<Connection, String> {
    let stream = net::open(&link::address(endpoint), tls).await.map_err(|error| error.to_string())?;
    let mut builder = Builder::new();
    builder.max_buf_size(BUFFER_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // The task that waits for an answer gets its errors.
    let task = own(async move { drop(connection.await) });
    Ok(Connection { sender, _task: task })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let of = |status: u16, body: &str| judge(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert_eq!(of(200, r#"{"ID":"7"}"#).ok(), Some(json!({ "ID": "7" })));
        assert!(matches!(of(200, "<html>"), Err(Tried::Elsewhere(_))));
        let no_leader = of(503, r#"{"error":"etcdserver: no leader","code":14}"#);
        assert!(matches!(no_leader, Err(Tried::Elsewhere(words)) if words == "it says etcdserver: no leader"));
        assert!(matches!(of(401, r#"{"error":"etcdserver: invalid auth token"}"#), Err(Tried::Token)));
        assert!(matches!(of(400, r#"{"error":"etcdserver: revision of auth store is old"}"#), Err(Tried::Token)));
        let denied = of(403, r#"{"error":"etcdserver: permission denied"}"#);
        assert!(
            matches!(denied, Err(Tried::Final(Trouble::Refused(words))) if words == "etcdserver: permission denied")
        );
        // A stream's errors come behind a good status.
        let stream = of(200, r#"{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}"#);
        assert!(matches!(stream, Err(Tried::Elsewhere(words)) if words == "it says etcdserver: no leader"));
    }
}

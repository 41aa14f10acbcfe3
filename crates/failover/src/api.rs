//! A client of Sqluice's API: one request, one answer.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

/// The key that opens the API.
pub(crate) const KEY: &str = "a key for measurements";
/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Longest silence; a switchover is waited for up to a minute.
const ANSWER_LIMIT: Duration = Duration::from_secs(75);
/// Largest answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Asks for `/api/v1/clusters/main` and this path; gives status and page.
///
/// # Errors
/// Nobody answers, or not as the API does.
pub(crate) fn ask(admin: SocketAddr, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, Value)> {
    let mut stream = TcpStream::connect_timeout(&admin, CONNECT_LIMIT).context("cannot reach the API")?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let length = body.len();
    let request = format!(
        "{method} /api/v1/clusters/main{path} HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer {KEY}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).context("the API does not answer")?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the API's answer has no head")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer has no status")?;
    Ok((status, serde_json::from_str(body).with_context(|| format!("the API says {body:?}"))?))
}

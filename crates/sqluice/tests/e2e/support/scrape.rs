//! The admin address, as a monitoring system asks it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// GETs a page: its status and body.
pub async fn http(address: &str, path: &str) -> (u16, String) {
    http_with(address, "GET", path, None).await
}

/// Asks for a page, showing a key or not: its status and body.
pub async fn http_with(address: &str, method: &str, path: &str, key: Option<&str>) -> (u16, String) {
    http_send(address, method, path, key, "").await
}

/// The same with a body.
pub async fn http_send(address: &str, method: &str, path: &str, key: Option<&str>, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let key = key.map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    let request = format!("{head}{key}\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = whole(&mut stream).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP answer: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    (status, body.to_owned())
}

/// All of an answer: a server may leave the connection open behind it.
async fn whole(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let length = |bytes: &[u8]| {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let lines = std::str::from_utf8(&bytes[..head]).ok()?.lines();
        let mut pairs = lines.filter_map(|line| line.split_once(':'));
        let body = pairs.rfind(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1;
        Some(head + body.trim().parse::<usize>().ok()?)
    };
    while length(&bytes).is_none_or(|length| bytes.len() < length) && stream.read_buf(&mut bytes).await.unwrap() > 0 {}
    String::from_utf8(bytes).unwrap()
}

/// The figures of one moment.
pub struct Metrics(Vec<(String, f64)>);

impl Metrics {
    pub async fn read(address: &str) -> Metrics {
        let (status, body) = http(address, "/metrics").await;
        assert_eq!(status, 200, "{body}");
        let lines = body.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let parsed = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a sample: {line}"));
            (series.to_owned(), value.parse().unwrap_or_else(|_| panic!("not a number: {line}")))
        });
        Metrics(parsed.collect())
    }

    /// The sum of all series of this name whose labels hold all of `labels` (`server="db1"`). A server that has had no
    /// connection yet has no series: that is zero.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let wanted = |series: &str| {
            let (own, rest) = series.split_once('{').unwrap_or((series, ""));
            own == name && labels.iter().all(|label| rest.contains(label))
        };
        let found: Vec<f64> = self.0.iter().filter(|(series, _)| wanted(series)).map(|(_, value)| *value).collect();
        assert!(!found.is_empty() || name.starts_with("sqluice_server_"), "no series {name} with {labels:?}");
        found.iter().sum()
    }

    /// Reasons of pins that hold now.
    pub fn pins(&self) -> Vec<String> {
        let held =
            self.0.iter().filter(|(series, value)| series.starts_with("sqluice_pinned_sessions{") && *value != 0.0);
        held.map(|(series, _)| series.split('"').nth(1).unwrap_or_default().to_owned()).collect()
    }

    /// Statements that only read, as sent to this server.
    pub fn reads(&self, server: &str) -> f64 {
        self.sum("sqluice_server_reads_total", &[&format!("server=\"{server}\"")])
    }

    /// Statements that only a primary may run, as sent to this server.
    pub fn writes(&self, server: &str) -> f64 {
        self.sum("sqluice_server_writes_total", &[&format!("server=\"{server}\"")])
    }
}

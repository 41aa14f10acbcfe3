//! The way to a collector: HTTP requests, one at a time.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::OtlpSettings;
use super::message::Response;

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longest time of a request, its answer included.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Longest pause that a collector can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Answers in a row after which the pause grows no more.
const LONGER_MAX: u32 = 4;
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Most characters of an answer in an error.
const WORDS_MAX: usize = 200;

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Logs,
    Traces,
    Metrics,
}

impl Signal {
    fn path(self) -> &'static str {
        match self {
            Signal::Logs => "/v1/logs",
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }
}

/// The collector refuses these bytes, and would again.
#[derive(Debug)]
pub(super) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    agent: ureq::Agent,
    endpoint: String,
    headers: HeaderMap,
    gzip: bool,
    /// It wants no request before.
    pause_until: Option<Instant>,
    /// Answers in a row that ask for another try, and for no time until then.
    busy: u32,
}

impl Collector {
    /// A collector; the first request connects.
    ///
    /// # Errors
    /// The certificates cannot be read, or the header is none.
    pub(super) fn new(settings: &OtlpSettings) -> io::Result<Collector> {
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("sqluice/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections_per_host(1)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_global(Some(REQUEST_MAX));
        if settings.endpoint.starts_with("https:") {
            config = config.tls_config(tls(settings)?);
        }
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/x-protobuf"));
        if settings.gzip {
            headers.insert("content-encoding", HeaderValue::from_static("gzip"));
        }
        if let Some((name, value)) = &settings.header {
            let name: HeaderName = name.parse().map_err(io::Error::other)?;
            let mut value: HeaderValue = value.parse().map_err(|_| io::Error::other("the header's value is none"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let endpoint = settings.endpoint.trim_end_matches('/').to_owned();
        Ok(Collector {
            agent: config.build().new_agent(),
            endpoint,
            headers,
            gzip: settings.gzip,
            pause_until: None,
            busy: 0,
        })
    }

    /// Whether requests are compressed, and say so.
    #[cfg(test)]
    pub(super) fn compresses(&self) -> bool {
        self.gzip && self.headers["content-encoding"] == "gzip"
    }

    /// Sends a request. Gives how many of its records the collector rejects, or its refusal of all of it.
    ///
    /// # Errors
    /// It cannot be reached, or cannot take anything now.
    pub(super) fn send(&mut self, signal: Signal, body: &[u8]) -> io::Result<Result<u64, Refused>> {
        if let Some(until) = self.pause_until.take_if(|until| *until > Instant::now()) {
            self.pause_until = Some(until);
            return Err(io::Error::other("the collector asks for a pause"));
        }
        let url = format!("{}{}", self.endpoint, signal.path());
        let mut request = self.agent.post(&url);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        let compressed = if self.gzip { gzip(body)? } else { Vec::new() };
        let body = if self.gzip { &compressed } else { body };
        let mut answer = request.send(body).map_err(|error| io::Error::other(format!("{url}: {error}")))?;
        let status = answer.status();
        let asked = pause(answer.headers(), SystemTime::now()).filter(|_| !status.is_success());
        let pause = asked.or_else(|| self.longer(status));
        self.pause_until = pause.map(|pause| Instant::now() + pause);
        let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let said = read.unwrap_or_default();
        match status {
            status if status.is_success() => Ok(Ok(rejected(signal, &said))),
            // OpenTelemetry's collector answers with 500 if a component behind its receiver refuses the data for good.
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::INTERNAL_SERVER_ERROR => Ok(Err(Refused(format!("{url}: {status}: {}", words(&said))))),
            status => Err(io::Error::other(format!("{url}: {status}: {}", words(&said)))),
        }
    }

    /// The pause after an answer that asks for another try without a time: longer with each such answer in a row. The first
    /// has none, because the caller waits a second of its own.
    fn longer(&mut self, status: StatusCode) -> Option<Duration> {
        if !matches!(status.as_u16(), 429 | 502..=504) {
            self.busy = 0;
            return None;
        }
        let seconds = (1 << self.busy.min(LONGER_MAX)) - 1;
        self.busy += 1;
        Some(Duration::from_secs(seconds))
    }
}

/// Compresses at the fast level: records of one batch are alike, and become small at any.
pub(super) fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// How many records an answer says were rejected.
fn rejected(signal: Signal, answer: &[u8]) -> u64 {
    let partial = Response::decode(answer).ok().and_then(|response| response.partial_success);
    let Some(partial) = partial.filter(|partial| partial.rejected > 0 || !partial.error_message.is_empty()) else {
        return 0;
    };
    let (path, words) = (signal.path(), words(partial.error_message.as_bytes()));
    tracing::warn!(path, rejected = partial.rejected, words, "the collector rejects some of what it got");
    u64::try_from(partial.rejected).unwrap_or(0)
}

/// The words of an answer, without what a log cannot show.
fn words(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    text.chars().filter(|character| !character.is_control()).take(WORDS_MAX).collect()
}

/// The pause that a collector asks for: in seconds, or up to a date.
fn pause(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get("retry-after")?.to_str().ok()?.trim();
    let pause = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = SystemTime::from(OffsetDateTime::parse(value, &Rfc2822).ok()?);
            until.duration_since(now).unwrap_or_default()
        }
    };
    Some(pause.min(PAUSE_MAX))
}

fn tls(settings: &OtlpSettings) -> io::Result<TlsConfig> {
    let roots = match &settings.ca_file {
        None => system_roots()?,
        Some(path) => {
            let pem = std::fs::read(path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
            let certificate = |item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            };
            let found: Vec<Certificate<'static>> = parse_pem(&pem).filter_map(certificate).collect();
            if found.is_empty() {
                return Err(io::Error::other(format!("{} holds no certificate", path.display())));
            }
            found
        }
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = RootCerts::Specific(Arc::new(roots));
    Ok(TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build())
}

fn system_roots() -> io::Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    match (found.certs.is_empty(), found.errors.into_iter().next()) {
        (true, Some(error)) => Err(io::Error::other(format!("the system's certificates: {error}"))),
        (true, None) => Err(io::Error::other("the system has no certificates; set ca_file")),
        (false, _) => Ok(found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_in_seconds_or_up_to_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_470);
        let asked = |value: &'static str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static("retry-after"), HeaderValue::from_static(value))]);
            pause(&headers, now).map(|pause| pause.as_secs())
        };
        assert_eq!((asked("7"), asked("3600"), asked("soon"), asked("-1")), (Some(7), Some(60), None, None));
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), Some(10));
        assert_eq!(asked("Wed, 21 Oct 2015 07:27:00 GMT"), Some(0), "it has passed");
        assert_eq!(pause(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_busy_collector_is_asked_less_and_less_often() {
        let settings = OtlpSettings {
            endpoint: "http://127.0.0.1:1".into(),
            header: None,
            ca_file: None,
            gzip: false,
            logs: None,
            spans: true,
        };
        let mut collector = Collector::new(&settings).unwrap();
        let mut pauses = |status: u16, count: usize| -> Vec<u64> {
            let status = StatusCode::from_u16(status).unwrap();
            (0..count).filter_map(|_| collector.longer(status)).map(|pause| pause.as_secs()).collect()
        };
        assert_eq!(pauses(503, 6), [0, 1, 3, 7, 15, 15]);
        assert_eq!((pauses(200, 1), pauses(429, 2)), (vec![], vec![0, 1]));
    }
}

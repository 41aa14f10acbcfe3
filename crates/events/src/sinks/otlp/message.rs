//! The messages of OTLP 1.x, as far as logs and spans need them.
//!
//! Source: <https://github.com/open-telemetry/opentelemetry-proto>. The published crate of these messages brings OpenTelemetry's SDK
//! with it, of which nothing is used here.

use prost::{Message, Oneof};

/// The severities that are used: numbers and texts of OpenTelemetry.
pub(super) const INFO: (i32, &str) = (9, "INFO");
pub(super) const WARN: (i32, &str) = (13, "WARN");

/// Kinds of spans.
pub(super) const INTERNAL: i32 = 1;
pub(super) const SERVER: i32 = 2;
pub(super) const CLIENT: i32 = 3;

/// The status of a span that failed.
pub(super) const FAILED: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "AnyKind", tags = "1, 2, 3, 4")]
    pub(super) value: Option<AnyKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AnyKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Float(f64),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

/// `LogRecord`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Log {
    #[prost(fixed64, tag = "1")]
    pub(super) time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(super) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(super) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(super) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed32, tag = "8")]
    pub(super) flags: u32,
    #[prost(bytes = "vec", tag = "9")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    pub(super) span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    pub(super) observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    pub(super) event_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    log_records: Vec<Log>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_logs: Vec<ScopeLogs>,
}

/// `ExportLogsServiceRequest`
#[derive(Clone, PartialEq, Message)]
struct LogsRequest {
    #[prost(message, repeated, tag = "1")]
    resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

/// `Span`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub(super) flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

/// `ExportTraceServiceRequest`
#[derive(Clone, PartialEq, Message)]
struct SpansRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

/// `ExportLogsServiceResponse`, `ExportTraceServiceResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Response {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

/// The bytes of a request with log records.
pub(super) fn logs(node: &str, log_records: Vec<Log>) -> Vec<u8> {
    let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records }];
    LogsRequest { resource_logs: vec![ResourceLogs { resource: Some(resource(node)), scope_logs }] }.encode_to_vec()
}

/// The bytes of a request with spans.
pub(super) fn spans(node: &str, spans: Vec<Span>) -> Vec<u8> {
    let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
    SpansRequest { resource_spans: vec![ResourceSpans { resource: Some(resource(node)), scope_spans }] }.encode_to_vec()
}

/// An attribute.
pub(super) fn attribute(key: impl Into<String>, value: AnyKind) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }) }
}

/// An attribute that is text.
pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, AnyKind::Text(value.to_owned()))
}

pub(super) fn resource(node: &str) -> Resource {
    let attributes = vec![
        text("service.name", "sqluice"),
        text("service.instance.id", node),
        text("service.version", env!("CARGO_PKG_VERSION")),
    ];
    Resource { attributes }
}

pub(super) fn scope() -> Scope {
    Scope { name: "sqluice".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

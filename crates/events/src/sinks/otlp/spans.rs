//! A query as spans: itself, and below it the wait for a connection, the server's time, and the sending of the reply.

use std::hash::BuildHasher as _;

use foldhash::quality::FixedState;
use serde_json::Value;

use super::Line;
use super::message::{AnyKind, CLIENT, FAILED, INTERNAL, KeyValue, SERVER, Span, Status, attribute, text};
use super::record::{self, attributes, bytes, end_ns};

/// The trace is recorded.
const SAMPLED: u32 = 1;
/// Fields that a span has under a name of OpenTelemetry's conventions, or in a place of its own.
const ELSEWHERE: &[&str] = &[
    "v",
    "ts",
    "node",
    "kind",
    "trace_id",
    "span_id",
    "traced",
    "form",
    "text",
    "schema",
    "user",
    "client",
    "rows_sent",
    "times",
];

/// The spans of a query; none if its line tells no times.
pub(super) fn of_query(line: &Line) -> Vec<Span> {
    made(line).unwrap_or_default()
}

fn made(line: &Line) -> Option<Vec<Span>> {
    let times = line.get("times")?;
    let ns = |field: &str| times.get(field).and_then(Value::as_u64).map(|micros| micros.saturating_mul(1_000));
    let end = end_ns(line)?;
    let start = end.saturating_sub(ns("total")?);
    let trace_id = bytes(line, "trace_id");
    let span = |child: u8, name: &str, kind: i32, start: u64, end: u64| Span {
        trace_id: trace_id.clone(),
        span_id: id(line, child).to_vec(),
        parent_span_id: if child == 0 { bytes(line, "span_id") } else { id(line, 0).to_vec() },
        name: name.to_owned(),
        kind,
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        attributes: Vec::new(),
        status: None,
        flags: SAMPLED,
    };
    let mut query = span(0, "query", SERVER, start, end);
    query.attributes = conventions(line);
    query.attributes.extend(attributes(line, ELSEWHERE));
    query.status = line.get("error").map(|error| {
        let message = error.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        Status { message, code: FAILED }
    });
    let mut spans = vec![query];
    if let (Some(wait), Some(first)) = (ns("wait"), ns("first")) {
        let there = (start + wait).min(end);
        let first_byte = (there + first).min(end);
        let mut server = span(2, "server", CLIENT, there, first_byte);
        server.attributes = vec![
            text("db.system.name", "mysql"),
            text("sqluice.server", record::text(line, "server")),
            text("sqluice.role", record::text(line, "role")),
        ];
        spans.extend([
            span(1, "pool wait", INTERNAL, start, there),
            server,
            span(3, "sending", INTERNAL, first_byte, end),
        ]);
    }
    Some(spans)
}

/// The attributes that OpenTelemetry has names for.
fn conventions(line: &Line) -> Vec<KeyValue> {
    let mut found = vec![text("db.system.name", "mysql")];
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            found.push(text(name, value));
        }
    };
    let sent = record::text(line, "text");
    put("db.query.text", if sent.is_empty() { record::text(line, "form") } else { sent });
    put("db.namespace", record::text(line, "schema"));
    put("user.name", record::text(line, "user"));
    let client = record::text(line, "client");
    let (address, port) = client.rsplit_once(':').unwrap_or((client, ""));
    put("client.address", address.trim_start_matches('[').trim_end_matches(']'));
    let code = line.get("error").and_then(|error| error.get("code")).map(Value::to_string).unwrap_or_default();
    put("db.response.status_code", &code);
    put("error.type", &code);
    let whole = |name: &str, value: Option<i64>| value.map(|value| attribute(name, AnyKind::Whole(value)));
    found.extend(whole("client.port", port.parse().ok()));
    found.extend(whole("db.response.returned_rows", line.get("rows_sent").and_then(Value::as_i64)));
    found
}

/// The id of a query's span, or of one below it: the same each time that it is sent.
pub(super) fn id(line: &Line, child: u8) -> [u8; 8] {
    let seq = line.get("seq").and_then(Value::as_u64).unwrap_or(0);
    let of = (record::text(line, "node"), record::text(line, "ts"), seq, child);
    FixedState::default().hash_one(of).max(1).to_be_bytes()
}

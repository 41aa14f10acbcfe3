//! An event as a log record: its fields are attributes, with dots between the names of inner ones.

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Line;
use super::message::{AnyKind, AnyValue, INFO, KeyValue, Log, WARN, attribute};
use super::spans;
use crate::block::Class;

/// In front of the name of each field.
const PREFIX: &str = "sqluice";
/// The caller records the trace.
const SAMPLED: u32 = 1;
/// Fields that a record has in a place of its own.
const ELSEWHERE: &[&str] = &["ts", "node", "trace_id", "span_id", "traced"];

/// The record of an event.
pub(super) fn log(line: &Line, class: Class, observed_ns: u64) -> Log {
    let kind = text(line, "kind");
    let is_bad = class.has(Class::FAILED) || line.get("ok") == Some(&Value::Bool(false)) || kind == "gap";
    let (severity_number, severity_text) = if is_bad { WARN } else { INFO };
    let traced = line.get("traced") == Some(&Value::Bool(true));
    // A record of a query that is a span of its own belongs to that.
    let span_id = if traced { spans::id(line, 0).to_vec() } else { bytes(line, "span_id") };
    Log {
        time_unix_nano: end_ns(line).unwrap_or(observed_ns),
        severity_number,
        severity_text: severity_text.to_owned(),
        body: Some(AnyValue { value: Some(AnyKind::Text(body(line).to_owned())) }),
        attributes: attributes(line, ELSEWHERE),
        flags: if traced { SAMPLED } else { 0 },
        trace_id: bytes(line, "trace_id"),
        span_id,
        observed_time_unix_nano: observed_ns,
        event_name: format!("{PREFIX}.{kind}"),
    }
}

/// The words that a reader sees first.
fn body(line: &Line) -> &str {
    ["text", "form", "reason", "action", "kind"]
        .iter()
        .map(|field| text(line, field))
        .find(|text| !text.is_empty())
        .unwrap_or("")
}

/// The fields of an event but these.
pub(super) fn attributes(line: &Line, but: &[&str]) -> Vec<KeyValue> {
    let mut found = Vec::with_capacity(line.len());
    for (name, value) in line.iter().filter(|(name, _)| !but.contains(&name.as_str())) {
        put(&format!("{PREFIX}.{name}"), value, &mut found);
    }
    found
}

fn put(name: &str, value: &Value, out: &mut Vec<KeyValue>) {
    let value = match value {
        Value::Null => return,
        Value::Bool(flag) => AnyKind::Flag(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => AnyKind::Whole(whole),
            None => AnyKind::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => AnyKind::Text(text.clone()),
        Value::Object(inner) => {
            return inner.iter().for_each(|(inner, value)| put(&format!("{name}.{inner}"), value, out));
        }
        list @ Value::Array(_) => AnyKind::Text(list.to_string()),
    };
    out.push(attribute(name, value));
}

/// The end of what the event is about, in nanoseconds since 1970.
pub(super) fn end_ns(line: &Line) -> Option<u64> {
    let at = OffsetDateTime::parse(text(line, "ts"), &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos()).ok()
}

/// A field that is text; empty if it is not there.
pub(super) fn text<'a>(line: &'a Line, field: &str) -> &'a str {
    line.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A field that is an id in hexadecimal digits.
pub(super) fn bytes(line: &Line, field: &str) -> Vec<u8> {
    let digits = text(line, field).as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_chunks::<2>().0.iter();
    pairs.map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<_>>().unwrap_or_default()
}

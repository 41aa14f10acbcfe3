//! `[events.otlp.NAME]`, and the settings of traces in `[events]`.

use std::sync::Arc;
use std::time::Duration;

use crate::parse::secrets;
use crate::read::{Reader, Table};
use crate::settings::events as events_keys;
use crate::settings::events::otlp as keys;
use crate::{EventOtlp, Events, OtlpCompression, Secret, TraceKeep};

/// Most tags that events keep.
const TAGS_MAX: usize = 16;
/// Longest name of a tag.
const TAG_BYTES_MAX: usize = 64;

pub(super) fn read(reader: &mut Reader, table: &Table, has_admin: bool) -> Option<EventOtlp> {
    let endpoint = reader.text(table, &keys::ENDPOINT);
    let (logs, traces) = (reader.flag(table, &keys::LOGS), reader.flag(table, &keys::TRACES));
    let metrics = Duration::from_secs(reader.number(table, &keys::METRICS).into());
    let compression = reader.choice(table, &keys::COMPRESSION, OtlpCompression::ALL, OtlpCompression::word);
    let header = read_header(reader, table);
    let ca_file = secrets::certificate(reader, table, &keys::CA_FILE).map(|pem| pem.path);
    let endpoint = endpoint?;
    let mut wrong = |key, message: &str| reader.problem(table.place(key), table.key(key), message.to_owned());
    let encrypted = endpoint.strip_prefix("https://");
    match encrypted.or(endpoint.strip_prefix("http://")) {
        None => wrong(&keys::ENDPOINT, "the address begins with http:// or https://, as in \"http://127.0.0.1:4318\""),
        Some(rest) if rest.is_empty() || rest.starts_with(['/', ':']) => {
            wrong(&keys::ENDPOINT, "a host is needed, as in \"http://127.0.0.1:4318\"");
        }
        Some(rest) if rest.contains(['@', '?', '#', ' ']) => {
            wrong(&keys::ENDPOINT, "the address has no user, no query and no space; a key goes into a header");
        }
        Some(_) => {}
    }
    if encrypted.is_none() && ca_file.is_some() {
        wrong(&keys::CA_FILE, "it has no effect without `https://` in `endpoint`");
    }
    if !logs && !traces && metrics.is_zero() {
        wrong(&keys::LOGS, "without `logs`, `traces` and `metrics_s` nothing is sent");
    }
    if !metrics.is_zero() && !has_admin {
        wrong(&keys::METRICS, "metrics are made by the admin listener: set admin.address");
    }
    if encrypted.is_none() && header.is_some() {
        let message = "without `https` the header is readable on its way";
        reader.warn(table.place(&keys::HEADER), table.key(&keys::HEADER), message);
    }
    let compression = compression.unwrap_or(OtlpCompression::Off);
    Some(EventOtlp { endpoint, header, ca_file, logs, traces, metrics, compression })
}

fn read_header(reader: &mut Reader, table: &Table) -> Option<(Arc<str>, Secret)> {
    let value_keys = [&keys::HEADER_VALUE, &keys::HEADER_VALUE_FILE, &keys::HEADER_VALUE_ENV];
    let (name, value) = secrets::account(reader, table, &keys::HEADER, value_keys);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.as_ref().is_some_and(|name| !name.bytes().all(is_name)) {
        let message = "the name of a header has letters, digits, - and _";
        reader.problem(table.place(&keys::HEADER), table.key(&keys::HEADER), message);
    }
    let is_value = |byte: &u8| (b' '..=b'~').contains(byte);
    if value.as_ref().is_some_and(|value| !value.expose().iter().all(is_value)) {
        let message = "the value of a header is ASCII, without control characters";
        reader.problem(table.place(&keys::HEADER), table.key(&keys::HEADER), message);
    }
    if name.is_some() && value.is_none() {
        let message = "the header has no value; `header_value` or its kin is missing";
        reader.problem(table.place(&keys::HEADER), table.key(&keys::HEADER), message);
    }
    name.zip(value)
}

/// Names with commas between.
pub(super) fn read_tags(reader: &mut Reader, events: &Table) -> Vec<Arc<str>> {
    let text = reader.text(events, &events_keys::TAGS).unwrap_or_default();
    let listed = if &*text == "off" { "" } else { &text };
    let names: Vec<Arc<str>> =
        listed.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Arc::from).collect();
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let wrong = names.iter().find(|name| name.len() > TAG_BYTES_MAX || !name.bytes().all(is_good));
    let message = match wrong {
        Some(name) => format!("'{name}' is no name of a tag: up to {TAG_BYTES_MAX} letters, digits, dots, - and _"),
        None if names.len() > TAGS_MAX => format!("there are more than {TAGS_MAX} tags"),
        None => return names,
    };
    reader.problem(events.place(&events_keys::TAGS), events.key(&events_keys::TAGS), message);
    names
}

/// Of the queries without a trace, one in so many begins one; 0 is none.
pub(super) fn read_sample(reader: &mut Reader, events: &Table, has_spans: bool) -> u32 {
    let sample = reader.number(events, &events_keys::TRACE_SAMPLE);
    if sample > 0 && !has_spans {
        let message = "it has no effect without a sink with `traces = true` in [events.otlp.NAME]";
        reader.warn(events.place(&events_keys::TRACE_SAMPLE), events.key(&events_keys::TRACE_SAMPLE), message);
    }
    sample
}

/// The queries that become spans at their end.
pub(super) fn read_keep(reader: &mut Reader, table: &Table, events: &Events) -> TraceKeep {
    let keep =
        reader.choice(table, &events_keys::TRACE_KEEP, TraceKeep::ALL, TraceKeep::word).unwrap_or(TraceKeep::Off);
    let message = match keep {
        TraceKeep::Off => return keep,
        _ if !events.has_spans() => "it has no effect without a sink with `traces = true` in [events.otlp.NAME]",
        TraceKeep::Slow if events.slow.is_zero() => {
            "without `slow_ms` no query is slow; only those with errors are kept"
        }
        TraceKeep::Errors | TraceKeep::Slow => return keep,
    };
    reader.warn(table.place(&events_keys::TRACE_KEEP), table.key(&events_keys::TRACE_KEEP), message);
    keep
}

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use super::*;
    use crate::EventTarget;

    fn with(more: &str) -> Result<(EventOtlp, String), String> {
        let text = format!("[events.otlp.all]\nendpoint = \"http://h:4318\"\n{more}");
        let loaded = parsed(&text).map_err(|errors| errors.to_string())?;
        let EventTarget::Otlp(otlp) = &loaded.config.events.sinks["otlp.all"].target else { panic!() };
        let warnings = loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        Ok((otlp.clone(), warnings))
    }

    #[test]
    fn a_collector_needs_an_address() {
        let (otlp, _) = with("").unwrap();
        assert_eq!((&*otlp.endpoint, otlp.logs, otlp.traces, otlp.header), ("http://h:4318", true, false, None));
        assert_eq!(otlp.compression, OtlpCompression::Off);
        assert_eq!(with("compression = \"gzip\"\n").unwrap().0.compression, OtlpCompression::Gzip);
        for (endpoint, error) in [
            ("h:4318", "begins with http://"),
            ("http://", "a host is needed"),
            ("http://:4318", "a host is needed"),
            ("https://user@h", "no user"),
        ] {
            let said = parsed(&format!("[events.otlp.x]\nendpoint = \"{endpoint}\"\n")).unwrap_err().to_string();
            assert!(said.contains(error), "{said}");
        }
        for (more, error) in [
            ("logs = false\n", "nothing is sent"),
            ("compression = \"zip\"\n", "gzip"),
            ("metrics_s = 5\n", "set admin.address"),
            ("header = \"a b\"\nheader_value = \"x\"\n", "the name of a header"),
            ("header = \"a\"\n", "the header has no value"),
            ("header_value = \"a\"\n", "`header_value` needs `header`"),
            ("header = \"a\"\nheader_value = \"a\\nb\"\n", "is ASCII"),
        ] {
            let said = with(more).unwrap_err();
            assert!(said.contains(error), "{said}");
        }
    }

    #[test]
    fn the_header_is_a_secret() {
        let (otlp, warnings) = with("header = \"authorization\"\nheader_value = \"Bearer open sesame\"\n").unwrap();
        assert!(warnings.contains("readable on its way"), "{warnings}");
        assert!(!format!("{otlp:?}").contains("open sesame"));
        assert_eq!(otlp.header.unwrap().1.expose(), b"Bearer open sesame");
    }

    #[test]
    fn tags_are_names_and_a_sample_needs_spans() {
        let loaded = parsed("[events]\ntags = \"route, job,\"\ntrace_sample = 10\n").unwrap();
        assert_eq!(loaded.config.events.tags, ["route".into(), "job".into()]);
        assert!(loaded.warnings.iter().any(|warning| warning.to_string().contains("`traces = true`")));
        assert_eq!(parsed("").unwrap().config.events.tags[0], "application".into());
        assert!(parsed("[events]\ntags = \"off\"\n").unwrap().config.events.tags.is_empty());
        let many = "a, ".repeat(TAGS_MAX + 1);
        for (tags, error) in [("a b", "is no name of a tag"), (&*many, "more than 16 tags")] {
            let said = parsed(&format!("[events]\ntags = \"{tags}\"\n")).unwrap_err().to_string();
            assert!(said.contains(error), "{said}");
        }
        let (otlp, warnings) = with("traces = true\n[events]\ntrace_sample = 10\n").unwrap();
        assert!(otlp.traces && !warnings.contains("no effect"), "{warnings}");
        for (events, warning) in [
            ("trace_keep = \"errors\"\n", None),
            ("trace_keep = \"slow\"\n", Some("no query is slow")),
            ("trace_keep = \"slow\"\nslow_ms = 100\n", None),
        ] {
            let (_, warnings) = with(&format!("traces = true\n[events]\n{events}")).unwrap();
            assert_eq!(warnings.contains("trace_keep"), warning.is_some(), "{warnings}");
            assert!(warning.is_none_or(|warning| warnings.contains(warning)), "{warnings}");
        }
        assert!(with("[events]\ntrace_keep = \"errors\"\n").unwrap().1.contains("`traces = true`"));
    }
}

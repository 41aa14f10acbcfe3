//! `[events.otlp.NAME]`

use super::super::{Form, Kind, Section, Setting, Unit, Word, live, whole};
use super::{MASK, MASK_FIELDS, SINK_QUERIES, TEXT};
use crate::OtlpCompression;

/// `otlp` of the events
pub static OTLP: Section = Section {
    key: "otlp",
    form: Form::Named,
    doc: "OpenTelemetry collectors: each event as a log record, queries of recorded traces as spans, and metrics, in OTLP \
          over HTTP (protobuf).",
    settings: &[
        &ENDPOINT,
        &LOGS,
        &TRACES,
        &METRICS,
        &COMPRESSION,
        &SINK_QUERIES,
        &TEXT,
        &MASK,
        &MASK_FIELDS,
        &HEADER,
        &HEADER_VALUE,
        &HEADER_VALUE_FILE,
        &HEADER_VALUE_ENV,
        &CA_FILE,
    ],
    sections: &[],
};

/// `endpoint`
pub static ENDPOINT: Setting = live(
    "endpoint",
    Kind::Text { default: None, max: 512 },
    "The address of the collector, with `http://` or `https://`. Sqluice adds `/v1/logs`, `/v1/traces` and `/v1/metrics`.",
)
.required()
.example("\"http://127.0.0.1:4318\"");
/// `logs`
pub static LOGS: Setting =
    live("logs", Kind::Flag { default: true }, "Whether events are sent as log records, those that `queries` chooses.");
/// `traces`
pub static TRACES: Setting = live(
    "traces",
    Kind::Flag { default: false },
    "Whether spans are sent: of each query whose client records its trace, and of those that `events.trace_sample` \
     chooses. Such queries become events, whatever `events.queries` says.",
);
/// `metrics_s`
pub static METRICS: Setting = whole(
    "metrics_s",
    Unit::Seconds,
    0,
    0,
    3600,
    Some("off"),
    "The metrics of the page `/metrics` are sent each time that so many seconds have passed. It needs `admin.address`.",
);
/// `compression`
pub static COMPRESSION: Setting = live(
    "compression",
    Kind::Choice {
        default: Some(OtlpCompression::Off.word()),
        words: &[
            Word::new(OtlpCompression::Off.word(), "none"),
            Word::new(OtlpCompression::Gzip.word(), "gzip, with the header `Content-Encoding`"),
        ],
    },
    "The compression of requests. It saves bytes on the network, and costs CPU time of the sink's thread.",
);
/// `header`
pub static HEADER: Setting = live(
    "header",
    Kind::Text { default: None, max: 128 },
    "The name of a header that each request has, such as the one with the collector's key.",
)
.example("\"authorization\"");
/// `header_value`
pub static HEADER_VALUE: Setting = live(
    "header_value",
    Kind::Secret,
    "The value of that header, such as `Bearer …`. A file or the environment keeps it out of this file.",
);
/// `header_value_file`
pub static HEADER_VALUE_FILE: Setting =
    live("header_value_file", Kind::Path, "A file with the value; Sqluice ignores one line end after it.");
/// `header_value_env`
pub static HEADER_VALUE_ENV: Setting =
    live("header_value_env", Kind::Variable, "An environment variable with the value.");
/// `ca_file`
pub static CA_FILE: Setting = live(
    "ca_file",
    Kind::Path,
    "A PEM file with the certificates of authorities, for `https`. Without it, those of the system.",
)
.example("\"/etc/sqluice/collector-ca.pem\"");

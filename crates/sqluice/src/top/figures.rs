//! The figures of one moment, as `/metrics` and the API give them.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

/// The figures of one moment.
#[derive(Debug)]
pub(super) struct Figures {
    /// When they were asked for.
    pub(super) at: Instant,
    /// Samples of `/metrics`: name with labels, and value.
    samples: BTreeMap<String, f64>,
    /// Digests, by hash, user and schema.
    pub(super) digests: BTreeMap<(String, String, String), Digest>,
    /// The sessions, the busy ones first.
    pub(super) sessions: Vec<Value>,
    /// How many there are.
    pub(super) sessions_all: u64,
    /// How many of them run a query.
    pub(super) running: u64,
}

/// A digest's counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Digest {
    pub(super) text: String,
    /// The clusters that ran it, with commas between them.
    pub(super) clusters: String,
    pub(super) statements: f64,
    pub(super) errors: f64,
    pub(super) rows: f64,
    /// Statements that shared a connection with reads of other sessions.
    pub(super) pipelined: f64,
    pub(super) time_us: f64,
    pub(super) p95_us: f64,
}

impl Figures {
    /// Reads the pages.
    ///
    /// # Errors
    /// The API has no list of digests: it is another version.
    pub(super) fn read(
        at: Instant,
        metrics: &str,
        digests: &Value,
        (sessions, running): (Value, u64),
    ) -> anyhow::Result<Figures> {
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let samples = metrics.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect();
        let list = digests["digests"].as_array().context("the API gives no digests")?;
        let digest = |row: &Value| {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let number = |key: &str| row[key].as_f64().unwrap_or(0.0);
            let clusters = row["clusters"].as_array().map_or(&[][..], Vec::as_slice);
            let clusters: Vec<&str> = clusters.iter().filter_map(Value::as_str).collect();
            let figures = Digest {
                text: text("text"),
                clusters: clusters.join(","),
                statements: number("statements"),
                errors: number("errors"),
                rows: number("rows_sent") + number("rows_affected"),
                pipelined: number("pipelined"),
                time_us: number("time_us"),
                p95_us: number("time_us_p95"),
            };
            ((text("hash"), text("user"), text("schema")), figures)
        };
        let digests = list.iter().map(digest).collect();
        let sessions_all = sessions["all"].as_u64().unwrap_or(0);
        let sessions = match sessions {
            Value::Object(mut page) => match page.remove("sessions") {
                Some(Value::Array(sessions)) => sessions,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        Ok(Figures { at, samples, digests, sessions, sessions_all, running })
    }

    /// The sum of a metric's samples whose labels contain this.
    pub(super) fn sum(&self, name: &str, label: &str) -> f64 {
        let of_metric = |series: &str| series.split('{').next() == Some(name) && series.contains(label);
        self.samples.iter().filter(|(series, _)| of_metric(series)).map(|(_, value)| value).sum()
    }

    /// The values of a label in a metric's samples, in their order.
    pub(super) fn labels(&self, name: &str, label: &str) -> Vec<String> {
        let start = format!("{label}=\"");
        let mut found: Vec<String> = Vec::new();
        for series in self.samples.keys().filter(|series| series.split('{').next() == Some(name)) {
            let value = series.split_once(&start).and_then(|(_, rest)| rest.split('"').next());
            found.extend(value.filter(|value| !found.iter().any(|known| known == value)).map(str::to_owned));
        }
        found
    }
}

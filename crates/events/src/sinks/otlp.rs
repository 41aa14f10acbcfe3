//! An OpenTelemetry collector as a sink: each event as a log record, and queries of recorded traces as spans, in OTLP over HTTP
//! (protobuf).
//!
//! Records and spans are made of the events' lines, so that they come out of the spool like any other sink's, and the collector may be
//! away for hours.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::batch::{Batch, Row, Takes};
use crate::block::{Class, micros};

mod collector;
mod message;
mod metric_message;
mod metrics;
mod push;
mod record;
mod spans;

use collector::{Collector, Refused, Signal};
use message::{Log, Span};
pub use push::{MetricsPush, PushTarget};

/// An event's line.
type Line = Map<String, Value>;

/// The settings of a collector.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Its address: `http://` or `https://`, host and port. The paths of OTLP follow.
    pub endpoint: String,
    /// A header of each request: its name and its value.
    pub header: Option<(String, String)>,
    /// Certificates of authorities for `https`; `None` is the system's.
    pub ca_file: Option<PathBuf>,
    /// Requests are compressed.
    pub gzip: bool,
    /// The queries that become log records; `None`: no event does. With [`OtlpSettings::spans`] the sink itself takes all.
    pub logs: Option<Takes>,
    /// Queries of recorded traces become spans.
    pub spans: bool,
}

impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtlpSettings { endpoint, header, ca_file, gzip, logs, spans } = self;
        let header = header.as_ref().map(|(name, _)| name);
        f.debug_struct("OtlpSettings")
            .field("endpoint", endpoint)
            .field("header", &header)
            .field("ca_file", ca_file)
            .field("gzip", gzip)
            .field("logs", logs)
            .field("spans", spans)
            .finish()
    }
}

/// A collector, and how far the batch in hand is.
#[derive(Debug)]
pub(super) struct OtlpOutput {
    settings: OtlpSettings,
    collector: Collector,
    /// The batch whose records the collector has already, by its next number, and the numbers of events that it refused.
    logged: Option<(u64, u64)>,
}

impl OtlpOutput {
    /// A collector; the first write connects.
    ///
    /// # Errors
    /// The certificates of authorities cannot be read.
    pub(super) fn open(settings: &OtlpSettings) -> io::Result<OtlpOutput> {
        Ok(OtlpOutput { collector: Collector::new(settings)?, settings: settings.clone(), logged: None })
    }

    /// Sends a batch. Gives the numbers of events that the collector refuses for good: it has a gap for them.
    pub(super) fn write(&mut self, batch: &Batch, node: &str) -> io::Result<u64> {
        let lines = self.lines(batch);
        let refused = match self.logged {
            // Its spans were not taken the last time.
            Some((next, refused)) if next == batch.next => refused,
            _ => self.write_logs(&lines, node)?,
        };
        self.logged = Some((batch.next, refused));
        self.write_spans(&lines, node)?;
        self.logged = None;
        Ok(refused)
    }

    /// The lines that become a record or spans.
    fn lines(&self, batch: &Batch) -> Vec<(Row, Line)> {
        let wanted = |row: &Row| self.is_logged(row.class) || self.makes_spans(row.class);
        let parse = |(row, line): (Row, &[u8])| Some((row, serde_json::from_slice(line).ok()?));
        batch.rows().filter(|(row, _)| wanted(row)).filter_map(parse).collect()
    }

    fn is_logged(&self, class: Class) -> bool {
        self.settings.logs.is_some_and(|logs| logs.takes(class))
    }

    fn makes_spans(&self, class: Class) -> bool {
        self.settings.spans && class.has(Class::TRACED)
    }

    fn write_logs(&mut self, lines: &[(Row, Line)], node: &str) -> io::Result<u64> {
        let now = now_ns();
        let logged = |(row, _): &&(Row, Line)| self.is_logged(row.class);
        let logs = lines.iter().filter(logged).map(|(row, line)| (*row, record::log(line, row.class, now)));
        let logs: Vec<(Row, Log)> = logs.collect();
        self.send_logs(&logs, node)
    }

    /// Sends records. Those that the collector refuses are looked for, half by half, so that it has all others.
    fn send_logs(&mut self, logs: &[(Row, Log)], node: &str) -> io::Result<u64> {
        if logs.is_empty() {
            return Ok(0);
        }
        let records = logs.iter().map(|(_, log)| log.clone()).collect();
        match self.collector.send(Signal::Logs, &message::logs(node, records))? {
            Ok(rejected) => Ok(rejected),
            Err(refused) => match logs {
                [(row, _)] => self.send_gap(*row, &refused, node),
                logs => {
                    let (first, second) = logs.split_at(logs.len() / 2);
                    Ok(self.send_logs(first, node)? + self.send_logs(second, node)?)
                }
            },
        }
    }

    /// Sends a gap in the place of a record that the collector refuses. If it refuses that as well, it takes nothing now.
    fn send_gap(&mut self, row: Row, refused: &Refused, node: &str) -> io::Result<u64> {
        let lost = row.last.saturating_sub(row.first).saturating_add(1);
        let mut line = Vec::new();
        crate::line::gap(row.first, lost, node, SystemTime::now(), &mut line);
        let line: Line = serde_json::from_slice(&line)?;
        let records = vec![record::log(&line, Class::default(), now_ns())];
        match self.collector.send(Signal::Logs, &message::logs(node, records))? {
            Ok(_) => Ok(lost),
            Err(_) => Err(io::Error::other(refused.to_string())),
        }
    }

    /// Sends spans. Those that the collector refuses are lost: there is no gap in a trace.
    fn write_spans(&mut self, lines: &[(Row, Line)], node: &str) -> io::Result<()> {
        let traced = |(row, _): &&(Row, Line)| self.makes_spans(row.class);
        let spans: Vec<Span> = lines.iter().filter(traced).flat_map(|(_, line)| spans::of_query(line)).collect();
        if spans.is_empty() {
            return Ok(());
        }
        let count = spans.len();
        if let Err(refused) = self.collector.send(Signal::Traces, &message::spans(node, spans))? {
            tracing::warn!(%refused, spans = count, "the collector refuses spans; they are lost");
        }
        Ok(())
    }
}

/// Nanoseconds since 1970.
fn now_ns() -> u64 {
    micros(SystemTime::now()).saturating_mul(1_000)
}

#[cfg(test)]
mod tests;

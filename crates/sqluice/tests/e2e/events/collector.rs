//! A receiver of OTLP over HTTP, which can go away and come back. It decodes by OpenTelemetry's published messages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Map, Value};

/// How often it looks whether it has to end.
const STEP: Duration = Duration::from_millis(5);

/// Records and spans, as they came.
#[derive(Default)]
pub struct Got {
    pub logs: Vec<LogRecord>,
    pub spans: Vec<Span>,
    pub metrics: Vec<Metric>,
    pub resources: Vec<Map<String, Value>>,
}

/// The receiver. It keeps its port and what it got while it is away.
pub struct Collector {
    pub port: u16,
    pub got: Arc<Mutex<Got>>,
    serving: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Collector {
    pub fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut collector = Collector { port, got: Arc::default(), serving: None };
        collector.serve(listener);
        collector
    }

    /// Goes away, in the middle of whatever comes.
    pub fn stop(&mut self) {
        let (ending, thread) = self.serving.take().unwrap();
        ending.store(true, Ordering::SeqCst);
        thread.join().unwrap();
    }

    pub fn come_back(&mut self) {
        self.serve(TcpListener::bind(("127.0.0.1", self.port)).unwrap());
    }

    /// The events in its records: the numbers and forms, as the file of events has them.
    pub fn events(&self) -> Vec<Value> {
        let fields = |log: &LogRecord| {
            let named = attributes(&log.attributes).into_iter();
            Value::Object(named.map(|(name, value)| (name.trim_start_matches("sqluice.").to_owned(), value)).collect())
        };
        self.got.lock().unwrap().logs.iter().map(fields).collect()
    }

    fn serve(&mut self, listener: TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let ending = Arc::new(AtomicBool::new(false));
        let (ends, got) = (ending.clone(), self.got.clone());
        let thread = std::thread::spawn(move || {
            let mut readers = Vec::new();
            while !ends.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (ends, got) = (ends.clone(), got.clone());
                        readers.push(std::thread::spawn(move || while answer(&stream, &ends, &got).is_some() {}));
                    }
                    Err(_) => std::thread::sleep(STEP),
                }
            }
            drop(listener);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        self.serving = Some((ending, thread));
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if self.serving.is_some() {
            self.stop();
        }
    }
}

/// A stream that ends when the receiver goes away.
struct Until<'a>(&'a TcpStream, &'a AtomicBool);

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        while !self.1.load(Ordering::SeqCst) {
            match self.0.read(bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
        Ok(0)
    }
}

/// Answers one request; `None` when there is none any more.
fn answer(stream: &TcpStream, ends: &AtomicBool, got: &Mutex<Got>) -> Option<()> {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let mut reader = BufReader::with_capacity(1, Until(stream, ends));
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_lowercase();
        match line.split_once(": ") {
            None if line.is_empty() => break,
            None => path = line.split(' ').nth(1)?.to_owned(),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("content-type", value)) => assert_eq!(value, "application/x-protobuf"),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    Until(stream, ends).read_exact(&mut body).ok()?;
    take(&path, &body, &mut got.lock().unwrap());
    let mut out = stream;
    out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n").ok()
}

fn take(path: &str, body: &[u8], got: &mut Got) {
    match path {
        "/v1/logs" => {
            for one in ExportLogsServiceRequest::decode(body).unwrap().resource_logs {
                got.resources.push(attributes(&one.resource.unwrap().attributes));
                got.logs.extend(one.scope_logs.into_iter().flat_map(|scope| scope.log_records));
            }
        }
        "/v1/traces" => {
            for one in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                got.resources.push(attributes(&one.resource.unwrap().attributes));
                got.spans.extend(one.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        "/v1/metrics" => {
            for one in ExportMetricsServiceRequest::decode(body).unwrap().resource_metrics {
                got.resources.push(attributes(&one.resource.unwrap().attributes));
                got.metrics.extend(one.scope_metrics.into_iter().flat_map(|scope| scope.metrics));
            }
        }
        path => panic!("nobody sends to {path}"),
    }
}

/// Attributes by their names.
pub fn attributes(all: &[KeyValue]) -> Map<String, Value> {
    let value = |attribute: &KeyValue| match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
        AnyValue::StringValue(text) => text.clone().into(),
        AnyValue::IntValue(whole) => (*whole).into(),
        AnyValue::BoolValue(flag) => (*flag).into(),
        other => panic!("{other:?}"),
    };
    all.iter().map(|attribute| (attribute.key.clone(), value(attribute))).collect()
}

//! A collector of OpenTelemetry as a sink: events as log records, queries as spans.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use lab::Family;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::collector::{Collector, attributes};
use super::receiver::assert_complete;
use super::tags::{CALLER, TRACE, parent};
use super::{form_begins, lines, start_with};
use crate::support::{Authority, all, authority, error, until};

pub fn sections(folder: &Path, collector: &str, events: &str, sink: &str) -> String {
    format!(
        "[events]\nnode = \"n1\"\n{events}\n[events.spool]\npath = \"{0}/spool\"\n\
         [events.file]\npath = \"{0}/events.jsonl\"\n\
         [events.otlp.all]\nendpoint = \"{collector}\"\ntraces = true\n{sink}\n",
        folder.display()
    )
}

async fn has(collector: &Collector, form: &str) {
    until(form, async || collector.events().iter().any(|event| form_begins(event, form)).then_some(())).await;
}

/// The spans of the query with this form, itself first.
fn spans(collector: &Collector, form: &str) -> Vec<Span> {
    let got = collector.got.lock().unwrap();
    let is_it = |span: &&Span| attributes(&span.attributes).get("db.query.text").is_some_and(|text| text == form);
    let Some(query) = got.spans.iter().find(is_it) else { return Vec::new() };
    let below = got.spans.iter().filter(|span| span.parent_span_id == query.span_id);
    [query].into_iter().chain(below).cloned().collect()
}

#[tokio::test]
async fn a_collector_gets_every_event_and_span_through_its_outage() {
    let folder = tempfile::tempdir().unwrap();
    let mut collector = Collector::start();
    let address = format!("http://127.0.0.1:{}/", collector.port);
    let more = sections(folder.path(), &address, "queries = \"all\"", "");
    let front = start_with(Family::MariaDb, "e2e_events_otlp", &more).await;
    let mut client = crate::statements::within(&front, "e2e_events_otlp").await;
    let tags = |flags: &str| format!("/*application='Shop',traceparent='{}'*/", parent(CALLER, flags));
    all(&mut client, &format!("SELECT SLEEP(0.05), v FROM items WHERE id = 1 {}", tags("01"))).await;
    has(&collector, "SELECT SLEEP").await;

    collector.stop();
    for _ in 0..50 {
        all(&mut client, "SELECT id FROM items").await;
    }
    assert_eq!(error(&mut client, &format!("SELECT 1 FROM missing {}", tags("01"))).await.0, 1146);
    all(&mut client, &format!("SELECT v FROM items {}", tags("00"))).await;
    until("failures", async || {
        let metrics = front.metrics().await;
        (metrics.sum("sqluice_events_sink_failures_total", &["sink=\"otlp.all\""]) > 0.0).then_some(())
    })
    .await;
    collector.come_back();
    all(&mut client, "SELECT id, v FROM items").await;
    has(&collector, "SELECT id, v").await;

    assert_complete("the collector", &collector.events());
    let query = |form: &'static str| move |event: &serde_json::Value| form_begins(event, form);
    let events = collector.events();
    assert_eq!(events.iter().filter(|event| query("SELECT id FROM")(event)).count(), 50);
    let failed = events.iter().find(|event| query("SELECT ? FROM missing")(event)).unwrap();
    assert_eq!((&failed["error.code"], &failed["tags.application"]), (&1146.into(), &"Shop".into()), "{failed}");
    {
        let got = collector.got.lock().unwrap();
        let record = got.logs.iter().find(|log| log.trace_id == decoded(TRACE) && log.severity_number == 13).unwrap();
        assert_eq!((&*record.event_name, record.severity_text.as_str()), ("sqluice.query", "WARN"));
        assert!(got.resources.iter().all(|one| one["service.name"] == "sqluice" && one["service.instance.id"] == "n1"));
    }
    let of_query = until("the spans", async || {
        let spans = spans(&collector, "SELECT SLEEP(?), v FROM items WHERE id = ?");
        (spans.len() == 4).then_some(spans)
    })
    .await;
    let names: Vec<&str> = of_query.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["query", "pool wait", "server", "sending"]);
    let (query, server) = (&of_query[0], &of_query[2]);
    assert_eq!((&query.parent_span_id, &query.trace_id), (&decoded(CALLER), &decoded(TRACE)));
    let inside = |span: &Span| {
        span.start_time_unix_nano >= query.start_time_unix_nano
            && span.end_time_unix_nano <= query.end_time_unix_nano
            && span.trace_id == query.trace_id
    };
    assert!(of_query.iter().all(inside), "{of_query:?}");
    let slept = server.end_time_unix_nano - server.start_time_unix_nano;
    assert!(slept >= 50_000_000, "{slept}");
    let of_failed = spans(&collector, "SELECT ? FROM missing");
    assert_eq!(of_failed[0].status.as_ref().map(|status| status.code), Some(2), "{of_failed:?}");
    assert!(spans(&collector, "SELECT v FROM items").is_empty(), "its client does not record it");
    assert!(spans(&collector, "SELECT id FROM items").is_empty(), "it has no trace");
}

fn decoded(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// A query whose trace is recorded becomes an event whatever else is chosen, and so do some that begin a trace.
#[tokio::test]
async fn recorded_traces_are_events_and_others_are_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let collector = Collector::start();
    let address = format!("http://127.0.0.1:{}", collector.port);
    let rule = "[[rule]]\nname = \"quiet\"\ndigest_regex = \"^SELECT ., v\"\nlog = \"off\"";
    let sink = format!("logs = false\n{rule}");
    let off = sections(folder.path(), &address, "queries = \"off\"", &sink);
    let mut front = start_with(Family::MariaDb, "e2e_otlp_sampled", &off).await;
    let mut client = crate::statements::within(&front, "e2e_otlp_sampled").await;
    all(&mut client, "SELECT id FROM items").await;
    all(&mut client, &format!("SELECT 5, v FROM items /*traceparent='{}'*/", parent(CALLER, "01"))).await;
    all(&mut client, &format!("SELECT v FROM items /*traceparent='{}'*/", parent(CALLER, "01"))).await;
    until("its spans", async || (spans(&collector, "SELECT v FROM items").len() == 4).then_some(())).await;
    let form = |form: &str| lines(&file).iter().filter(|line| form_begins(line, form)).count();
    until("its event", async || (form("SELECT v FROM items") == 1).then_some(())).await;
    assert_eq!(
        (form("SELECT ?, v"), spans(&collector, "SELECT ?, v FROM items").len()),
        (0, 0),
        "a rule leaves it out"
    );
    assert_eq!((form("SELECT id"), collector.got.lock().unwrap().logs.len()), (0, 0));

    let text = off.replace("queries = \"off\"", "queries = \"off\"\ntrace_sample = 4");
    front.reload(|setup| setup.more = text);
    until("sampled queries", async || {
        for _ in 0..8 {
            all(&mut client, "SELECT id, v FROM items").await;
        }
        (!spans(&collector, "SELECT id, v FROM items").is_empty()).then_some(())
    })
    .await;
    let query = &spans(&collector, "SELECT id, v FROM items")[0];
    assert!(query.parent_span_id.is_empty() && query.trace_id.len() == 16, "{query:?}");
    let ids: Vec<String> = lines(&file)
        .iter()
        .filter(|line| form_begins(line, "SELECT id, v"))
        .map(|line| line["trace_id"].to_string())
        .collect();
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len(), "each has a trace of its own");
}

/// The end of a query decides: slow and failed ones become spans, also in traces that their client does not record.
#[tokio::test]
async fn slow_and_failed_queries_keep_their_traces() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start();
    let address = format!("http://127.0.0.1:{}", collector.port);
    let events = "queries = \"off\"\nslow_ms = 200\ntrace_keep = \"slow\"";
    let more = sections(folder.path(), &address, events, "logs = false");
    let mut front = start_with(Family::MariaDb, "e2e_otlp_kept", &more).await;
    let mut client = crate::statements::within(&front, "e2e_otlp_kept").await;
    let unrecorded = format!("/*traceparent='{}'*/", parent(CALLER, "00"));
    all(&mut client, &format!("SELECT id FROM items {unrecorded}")).await;
    all(&mut client, "SELECT v FROM items").await;
    all(&mut client, &format!("SELECT SLEEP(0.25), v FROM items WHERE id = 1 {unrecorded}")).await;
    assert_eq!(error(&mut client, "SELECT 1 FROM missing").await.0, 1146);
    let kept = async |form: &'static str| {
        until(form, async || Some(spans(&collector, form)).filter(|spans| spans.len() == 4)).await.remove(0)
    };
    let slow = kept("SELECT SLEEP(?), v FROM items WHERE id = ?").await;
    assert_eq!((&slow.trace_id, &slow.parent_span_id), (&decoded(TRACE), &decoded(CALLER)));
    let failed = kept("SELECT ? FROM missing").await;
    assert!(failed.trace_id.len() == 16 && failed.trace_id != slow.trace_id && failed.parent_span_id.is_empty());
    assert!(["SELECT id FROM items", "SELECT v FROM items"].iter().all(|form| spans(&collector, form).is_empty()));

    let text = more.replace("\"slow\"", "\"errors\"");
    front.reload(|setup| setup.more = text);
    until("a slow query that is not kept", async || {
        let before = collector.got.lock().unwrap().spans.len();
        all(&mut client, "SELECT SLEEP(0.25), id FROM items WHERE id = 1").await;
        assert_eq!(error(&mut client, "SELECT 1, 2 FROM missing").await.0, 1146);
        until("the failed one", async || (collector.got.lock().unwrap().spans.len() > before).then_some(())).await;
        let got = collector.got.lock().unwrap();
        let newest = got.spans[before..].iter().filter(|span| span.name == "query");
        let forms = newest.map(|span| attributes(&span.attributes)["db.query.text"].clone());
        forms.eq(["SELECT ?, ? FROM missing"]).then_some(())
    })
    .await;
}

/// The page of metrics goes to a collector as well, with the same names and values.
#[tokio::test]
async fn metrics_are_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start();
    let address = format!("http://127.0.0.1:{}", collector.port);
    let sink = "logs = false\nmetrics_s = 1";
    let more = sections(folder.path(), &address, "queries = \"off\"", sink);
    let front = start_with(Family::MariaDb, "e2e_events_pushed", &more).await;
    let mut client = crate::statements::within(&front, "e2e_events_pushed").await;
    for _ in 0..20 {
        all(&mut client, "SELECT id FROM items").await;
    }
    let page = front.metrics().await;
    let logins = page.sum("sqluice_logins_total", &[]);
    let pushed = until("the metrics behind the queries", async || {
        let got = collector.got.lock().unwrap();
        let newest = |name: &str| got.metrics.iter().rev().find(|metric| metric.name == name)?.data.clone();
        let (Some(Data::Sum(logins)), Some(Data::Gauge(info)), Some(Data::Histogram(latency))) =
            (newest("sqluice_logins_total"), newest("sqluice_build_info"), newest("sqluice_server_latency_seconds"))
        else {
            return None;
        };
        let counted: u64 = latency.data_points.iter().map(|point| point.count).sum();
        (counted >= 20).then_some((logins, info, latency))
    })
    .await;
    let (sum, info, latency) = pushed;
    assert_eq!((sum.is_monotonic, sum.data_points[0].value), (true, Some(NumberValue::AsDouble(logins))));
    assert!(!attributes(&info.data_points[0].attributes)["version"].as_str().unwrap().is_empty());
    for point in &latency.data_points {
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1, "{point:?}");
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count, "{point:?}");
    }
}

/// A collector behind TLS that notes what it gets: path, key, and how many bytes.
const ENCRYPTED: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        self.rfile.read(length)
        print(self.path, self.headers["x-key"], length, flush=True)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_collector_behind_tls_gets_the_header_and_an_unknown_one_gets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = authority().sign();
    let said = folder.path().join("said");
    let python = std::env::var("SQLUICE_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(python);
    command.args(["-c", ENCRYPTED]).args([certificate, key]).stdin(Stdio::null());
    let _server = Killed(command.stdout(std::fs::File::create(&said).unwrap()).spawn().unwrap());
    let read = || std::fs::read_to_string(&said).unwrap();
    let port = until("the server", async || read().lines().next().map(str::to_owned)).await;

    let other = Authority::new();
    let sink = |ca: &Path| format!("ca_file = \"{}\"\nheader = \"x-key\"\nheader_value = \"quiet\"\n", ca.display());
    let wrong = sink(&other.file());
    let more = sections(folder.path(), &format!("https://127.0.0.1:{port}"), "queries = \"all\"", &wrong);
    let mut front = start_with(Family::MariaDb, "e2e_events_tls", &more).await;
    until("the refusal of an unknown authority", async || front.log().contains("certificate").then_some(())).await;
    assert_eq!(read().lines().count(), 1, "{}", read());
    let known = more.replace(&wrong, &sink(&authority().file()));
    front.reload(|setup| setup.more = known);
    until("a request", async || read().contains("/v1/logs quiet ").then_some(())).await;
    assert!(!front.log().contains("quiet"), "the header is a secret");
}

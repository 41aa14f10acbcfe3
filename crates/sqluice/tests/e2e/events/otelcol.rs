//! A real OpenTelemetry collector as a sink: what it writes down, through outages and refusals. `./dev otelcol` runs these.

use lab::{Family, OtelCollector};
use net::query::Client;
use serde_json::{Map, Value, json};

use super::otlp::sections;
use super::receiver::{assert_complete, numbers};
use super::tags::{CALLER, TRACE, parent};
use super::{form_begins, start_with};
use crate::support::{Front, all, blocking, error, http, until};

/// The records, spans and metrics that the collector has written down.
#[derive(Default)]
struct Written {
    logs: Vec<Value>,
    spans: Vec<Value>,
    metrics: Vec<Value>,
}

impl Written {
    /// Records, spans and metrics, each with its attributes as a plain object, and those of its resource.
    fn by(collector: &OtelCollector) -> Written {
        let mut written = Written::default();
        for request in collector.requests() {
            let request: Value = serde_json::from_str(&request).unwrap();
            for (list, [resources, scopes, items]) in [
                (&mut written.logs, ["resourceLogs", "scopeLogs", "logRecords"]),
                (&mut written.spans, ["resourceSpans", "scopeSpans", "spans"]),
                (&mut written.metrics, ["resourceMetrics", "scopeMetrics", "metrics"]),
            ] {
                for resource in each(&request[resources]) {
                    let of_resource = attributes(&resource["resource"]["attributes"]);
                    for item in each(&resource[scopes]).flat_map(|scope| each(&scope[items])) {
                        let mut item = item.clone();
                        item["attributes"] = attributes(&item["attributes"]).into();
                        item["resource"] = of_resource.clone().into();
                        list.push(item);
                    }
                }
            }
        }
        written
    }

    /// The events in its records: the numbers and forms, as the file of events has them.
    fn events(&self) -> Vec<Value> {
        let fields = |log: &Value| {
            let named = log["attributes"].as_object().unwrap().iter();
            Value::Object(
                named.map(|(name, value)| (name.trim_start_matches("sqluice.").into(), value.clone())).collect(),
            )
        };
        self.logs.iter().map(fields).collect()
    }

    fn log(&self, form: &str) -> Option<&Value> {
        self.logs.iter().find(|log| log["body"]["stringValue"] == form)
    }

    /// The spans of the query with this form, itself first.
    fn spans(&self, form: &str) -> Vec<&Value> {
        let query = self.spans.iter().find(|span| span["attributes"]["db.query.text"] == form);
        let below = self.spans.iter().filter(|span| query.is_some_and(|query| span["parentSpanId"] == query["spanId"]));
        query.into_iter().chain(below).collect()
    }

    /// The newest values of a metric.
    fn metric(&self, name: &str) -> Option<&Value> {
        self.metrics.iter().rev().find(|metric| metric["name"] == name)
    }
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Attributes by their names. In JSON a whole number of OTLP is text.
fn attributes(list: &Value) -> Map<String, Value> {
    let plain = |value: &Value| match value.as_object().unwrap().iter().next().unwrap() {
        (kind, Value::String(text)) if kind == "intValue" => json!(text.parse::<i64>().unwrap()),
        (_, value) => value.clone(),
    };
    each(list).map(|pair| (pair["key"].as_str().unwrap().to_owned(), plain(&pair["value"]))).collect()
}

fn nanoseconds(item: &Value, field: &str) -> u64 {
    item[field].as_str().unwrap().parse().unwrap()
}

async fn started() -> OtelCollector {
    blocking(OtelCollector::start).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn until_written<T>(what: &str, collector: &OtelCollector, look: impl Fn(&Written) -> Option<T>) -> T {
    until(what, async || look(&Written::by(collector))).await
}

/// Waits until the sink has failed once more than before.
async fn until_failures(front: &Front, before: f64) -> f64 {
    until("a failure", async || {
        let failures = front.metrics().await.sum("sqluice_events_sink_failures_total", &["sink=\"otlp.all\""]);
        (failures > before).then_some(failures)
    })
    .await
}

async fn repeat(client: &mut Client, sql: &str, times: usize) {
    for _ in 0..times {
        all(client, sql).await;
    }
}

fn traced(sql: &str) -> String {
    format!("{sql} /*application='Shop',traceparent='{}'*/", parent(CALLER, "01"))
}

async fn check_content(family: Family, database: &str, more: &str) {
    let folder = tempfile::tempdir().unwrap();
    let collector = started().await;
    let settings = sections(folder.path(), &collector.endpoint(), "queries = \"all\"", more);
    let front = start_with(family, database, &settings).await;
    let mut client = crate::statements::within(&front, database).await;
    all(&mut client, &traced("SELECT SLEEP(0.05), v FROM items WHERE id = 1")).await;
    assert_eq!(error(&mut client, &traced("SELECT 1 FROM missing")).await.0, 1146);
    repeat(&mut client, "SELECT id FROM items", 20).await;
    assert_eq!(front.refused(lab::APP_USER, "no password").await.0, 1045);
    let form = "SELECT SLEEP(?), v FROM items WHERE id = ?";
    let written = until_written("all of it", &collector, |written| {
        let refused = written.logs.iter().any(|log| log["attributes"]["sqluice.ok"] == false);
        let latency = &written.metric("sqluice_server_latency_seconds")?["histogram"]["dataPoints"];
        let counted: u64 = each(latency).map(|point| nanoseconds(point, "count")).sum();
        let is_there = refused && counted >= 20 && written.spans("SELECT ? FROM missing").len() == 4;
        (is_there && written.spans(form).len() == 4).then(|| Written::by(&collector))
    })
    .await;
    check_logs(&written, form, database);
    check_spans(&written, form);
    check_metrics(&front, &collector).await;
}

fn check_logs(written: &Written, form: &str, database: &str) {
    assert_complete("the collector", &written.events());
    let slept = written.log(form).unwrap();
    assert_eq!((&slept["traceId"], &slept["eventName"]), (&json!(TRACE), &json!("sqluice.query")), "{slept}");
    assert_eq!((&slept["severityNumber"], &slept["severityText"]), (&json!(9), &json!("INFO")), "{slept}");
    assert_eq!(slept["spanId"], written.spans(form)[0]["spanId"], "{slept}");
    for (name, value) in [
        ("sqluice.kind", json!("query")),
        ("sqluice.schema", json!(database)),
        ("sqluice.user", json!(lab::APP_USER)),
        ("sqluice.tags.application", json!("Shop")),
        ("sqluice.rows_sent", json!(1)),
        ("sqluice.tls", json!(false)),
    ] {
        assert_eq!(slept["attributes"][name], value, "{name} of {slept}");
    }
    let total = slept["attributes"]["sqluice.times.total"].as_u64().unwrap();
    assert!(total >= 50_000, "{slept}");
    let (at, observed) = (nanoseconds(slept, "timeUnixNano"), nanoseconds(slept, "observedTimeUnixNano"));
    assert!(at <= observed && observed - at < 60_000_000_000, "{slept}");
    let failed = written.log("SELECT ? FROM missing").unwrap();
    assert_eq!((&failed["severityText"], &failed["attributes"]["sqluice.error.code"]), (&json!("WARN"), &json!(1146)));
    let refused = written.logs.iter().find(|log| log["attributes"]["sqluice.ok"] == false).unwrap();
    assert_eq!((&refused["eventName"], &refused["severityText"]), (&json!("sqluice.login"), &json!("WARN")));
    assert!(refused["body"]["stringValue"].as_str().unwrap().contains("denied"), "{refused}");
    let all = written.logs.iter().chain(&written.spans).chain(&written.metrics);
    for one in all {
        let resource = &one["resource"];
        assert_eq!((&resource["service.name"], &resource["service.instance.id"]), (&json!("sqluice"), &json!("n1")));
        assert!(resource["service.version"].is_string(), "{resource}");
    }
}

fn check_spans(written: &Written, form: &str) {
    let spans = written.spans(form);
    let [query, wait, server, sending] = spans[..] else { panic!("{spans:?}") };
    let shown: Vec<_> =
        spans.iter().map(|span| (span["name"].as_str().unwrap(), span["kind"].as_u64().unwrap())).collect();
    // The kinds are SERVER, INTERNAL and CLIENT.
    assert_eq!(shown, [("query", 2), ("pool wait", 1), ("server", 3), ("sending", 1)]);
    assert_eq!((&query["traceId"], &query["parentSpanId"]), (&json!(TRACE), &json!(CALLER)), "{query}");
    let (start, end) = ("startTimeUnixNano", "endTimeUnixNano");
    let of = nanoseconds;
    assert!(of(query, start) == of(wait, start) && of(wait, end) == of(server, start), "{spans:?}");
    assert!(of(server, end) == of(sending, start) && of(sending, end) == of(query, end), "{spans:?}");
    assert!(of(server, end) - of(server, start) >= 50_000_000, "{server}");
    assert!(spans.iter().all(|span| span["traceId"] == TRACE && span["flags"] == 1), "{spans:?}");
    assert_eq!(query["attributes"]["db.system.name"], "mysql", "{query}");
    assert!(server["attributes"]["sqluice.server"].is_string(), "{server}");
    let failed = written.spans("SELECT ? FROM missing")[0];
    assert_eq!(
        (&failed["status"]["code"], &failed["attributes"]["error.type"]),
        (&json!(2), &json!("1146")),
        "{failed}"
    );
}

async fn check_metrics(front: &Front, collector: &OtelCollector) {
    let page = http(&front.admin, "/metrics").await.1;
    let mut lines = page.lines().peekable();
    let mut families = Vec::new();
    while let Some(line) = lines.next() {
        let has_samples = lines.peek().is_some_and(|next| !next.starts_with('#'));
        families.extend(line.strip_prefix("# TYPE ").filter(|_| has_samples).and_then(|line| line.split(' ').next()));
    }
    assert!(families.len() > 50, "{families:?}");
    let counted = front.metrics().await.sum("sqluice_logins_total", &[]);
    let written = until_written("the families of the page", collector, |written| {
        let logins = written.metric("sqluice_logins_total")?;
        let values = each(&logins["sum"]["dataPoints"]).map(|point| point["asDouble"].as_f64().unwrap());
        let is_there = values.sum::<f64>() == counted && families.iter().all(|name| written.metric(name).is_some());
        is_there.then(|| Written::by(collector))
    })
    .await;
    let logins = &written.metric("sqluice_logins_total").unwrap()["sum"];
    assert_eq!((&logins["isMonotonic"], &logins["aggregationTemporality"]), (&json!(true), &json!(2)), "{logins}");
    let info = &written.metric("sqluice_build_info").unwrap()["gauge"]["dataPoints"][0];
    assert!(attributes(&info["attributes"])["version"].is_string(), "{info}");
    for point in each(&written.metric("sqluice_server_latency_seconds").unwrap()["histogram"]["dataPoints"]) {
        let counts: Vec<u64> =
            each(&point["bucketCounts"]).map(|count| count.as_str().unwrap().parse().unwrap()).collect();
        assert_eq!(counts.len(), each(&point["explicitBounds"]).count() + 1, "{point}");
        assert_eq!(counts.iter().sum::<u64>(), nanoseconds(point, "count"), "{point}");
    }
}

#[tokio::test]
#[ignore = "needs the collector that ./dev otelcol builds"]
async fn a_collector_reads_records_spans_and_metrics_as_they_are_meant() {
    check_content(Family::MariaDb, "e2e_otelcol", "metrics_s = 1").await;
}

#[tokio::test]
#[ignore = "needs the collector that ./dev otelcol builds"]
async fn a_collector_reads_compressed_requests_as_the_others() {
    check_content(Family::MariaDb, "e2e_otelcol_gzip", "metrics_s = 1\ncompression = \"gzip\"").await;
}

/// Nothing is lost while the collector is away for some seconds.
#[tokio::test]
#[ignore = "needs the collector that ./dev otelcol builds"]
async fn an_outage_of_the_collector_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut collector = started().await;
    let settings = sections(folder.path(), &collector.endpoint(), "queries = \"all\"", "");
    let front = start_with(Family::MariaDb, "e2e_otelcol_away", &settings).await;
    let mut client = crate::statements::within(&front, "e2e_otelcol_away").await;
    repeat(&mut client, "SELECT id FROM items", 50).await;
    let collector = blocking(move || {
        collector.stop().unwrap();
        collector
    });
    let mut collector = collector.await;
    repeat(&mut client, "SELECT id, v FROM items", 200).await;
    all(&mut client, &traced("SELECT v FROM items")).await;
    let failures = until_failures(&front, 0.0).await;
    until_failures(&front, failures + 2.0).await;
    let collector = blocking(move || {
        collector.restart().unwrap();
        collector
    });
    let collector = collector.await;
    all(&mut client, "SELECT v, id FROM items").await;
    until_written("the last query", &collector, |written| written.log("SELECT v, id FROM items").map(drop)).await;
    until_written("the spans", &collector, |written| (written.spans("SELECT v FROM items").len() == 4).then_some(()))
        .await;
    let events = Written::by(&collector).events();
    assert_complete("the collector", &events);
    let away = events.iter().filter(|event| form_begins(event, "SELECT id, v FROM"));
    assert_eq!(numbers(&away.cloned().collect::<Vec<_>>()).len(), 200);
}

/// An answer that asks for another try loses nothing; an answer that refuses a record leaves a gap for that record alone.
#[tokio::test]
#[ignore = "needs the collector that ./dev otelcol builds"]
async fn answers_are_treated_as_the_specification_tells() {
    let folder = tempfile::tempdir().unwrap();
    let collector = started().await;
    let settings = sections(folder.path(), &collector.endpoint(), "queries = \"all\"", "");
    let front = start_with(Family::MariaDb, "e2e_otelcol_answers", &settings).await;
    let mut client = crate::statements::within(&front, "e2e_otelcol_answers").await;
    let (mut failures, mut count) = (0.0, 0);
    // 503, 429 with a pause, and a refusal of everything: 500 and 400. None of them may lose an event.
    for fault in ["retry", "busy", "permanent", "invalid"] {
        collector.answer_with(fault).unwrap();
        count += 1;
        let columns = ", v".repeat(count);
        repeat(&mut client, &format!("SELECT id{columns} FROM items"), 30).await;
        failures = until_failures(&front, failures).await;
        failures = until_failures(&front, failures).await;
        let form = format!("SELECT id{columns} FROM items");
        assert!(Written::by(&collector).log(&form).is_none(), "{fault}");
        collector.answer_with("").unwrap();
        until_written(fault, &collector, |written| written.log(&form).map(drop)).await;
    }
    assert_complete("the collector", &Written::by(&collector).events());
    assert!(Written::by(&collector).events().iter().all(|event| event["kind"] != "gap"));

    // 500 and 400 for one form: its events are gaps, and all others arrive.
    for (fault, refused) in [("permanent", "SELECT 7"), ("invalid", "SELECT 8")] {
        let form = refused.replace(['7', '8'], "?");
        let (refused, form) = (format!("{refused}, id FROM items"), format!("{form}, id FROM items"));
        collector.answer_with(&format!("{fault} {form}")).unwrap();
        repeat(&mut client, "SELECT v FROM items", 10).await;
        all(&mut client, &refused).await;
        all(&mut client, &format!("SELECT 1, {count} FROM items")).await;
        let gaps = |written: &Written| written.events().iter().filter(|event| event["kind"] == "gap").count();
        let before = gaps(&Written::by(&collector));
        until_written("the gap", &collector, |written| (gaps(written) > before).then_some(())).await;
        assert!(Written::by(&collector).log(&form).is_none());
        count += 1;
    }
    repeat(&mut client, "SELECT v, v FROM items", 10).await;
    until_written("those behind", &collector, |written| written.log("SELECT v, v FROM items").map(drop)).await;
    assert_complete("the collector", &Written::by(&collector).events());
}

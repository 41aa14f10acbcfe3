use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::message::{AnyKind, KeyValue};
use super::*;
use crate::block::{Block, Lines};
use crate::masks::Masks;
use crate::redaction::Literals;
use crate::sinks::batch::Choice;

const LINE: &str = r#"{"v":1,"seq":7,"ts":"2026-11-27T12:00:01.000500Z","node":"n1","kind":"query","session":12,
    "client":"[::1]:4711","user":"app","tls":true,"schema":"shop","form":"SELECT ?","server":"db1","role":"primary",
    "error":{"code":1062,"sqlstate":"23000"},"rows_sent":3,"times":{"wait":100,"first":250,"total":400},
    "trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331","traced":true,"tags":{"route":"/x"}}"#;
const TRACED: Class = Class(17);

fn line(text: &str) -> Line {
    serde_json::from_str(text).unwrap()
}

fn shown(attributes: &[KeyValue]) -> Vec<String> {
    let value = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        AnyKind::Text(text) => text,
        AnyKind::Whole(whole) => whole.to_string(),
        AnyKind::Flag(flag) => flag.to_string(),
        AnyKind::Float(float) => float.to_string(),
    };
    attributes.iter().map(|attribute| format!("{}={}", attribute.key, value(attribute))).collect()
}

#[test]
fn a_record_has_all_fields_as_attributes() {
    let log = record::log(&line(LINE), TRACED.with(Class::FAILED, true), 5);
    assert_eq!((log.time_unix_nano, log.observed_time_unix_nano), (1_795_780_801_000_500_000, 5));
    assert_eq!((log.severity_number, &*log.event_name, log.flags), (13, "sqluice.query", 1));
    assert_eq!((log.trace_id.len(), log.span_id), (16, spans::id(&line(LINE), 0).to_vec()));
    assert_eq!(log.body.unwrap().value, Some(AnyKind::Text("SELECT ?".into())));
    let attributes = shown(&log.attributes);
    for expected in [
        "sqluice.error.code=1062",
        "sqluice.times.total=400",
        "sqluice.tls=true",
        "sqluice.tags.route=/x",
        "sqluice.seq=7",
    ] {
        assert!(attributes.iter().any(|attribute| attribute == expected), "{expected} of {attributes:?}");
    }
    let login = record::log(&line(r#"{"kind":"login","ok":false,"reason":"Access denied"}"#), Class::default(), 5);
    assert_eq!((login.severity_number, login.time_unix_nano, login.trace_id), (13, 5, vec![]));
    assert_eq!(login.body.unwrap().value, Some(AnyKind::Text("Access denied".into())));
    let order = r#"{"kind":"admin","user":"nobody","way":"api","action":"PUT /x","ok":false,"result":"wrong key"}"#;
    let order = record::log(&line(order), Class::default(), 5);
    assert_eq!((order.severity_number, &*order.event_name), (13, "sqluice.admin"));
    assert_eq!(order.body.unwrap().value, Some(AnyKind::Text("PUT /x".into())));
    assert!(shown(&order.attributes).contains(&"sqluice.result=wrong key".into()));
}

#[test]
fn a_query_has_its_times_as_spans_below_it() {
    let line = line(LINE);
    let made = spans::of_query(&line);
    let (end, micro) = (1_795_780_801_000_500_000, 1_000);
    let times: Vec<_> =
        made.iter().map(|span| (&*span.name, end - span.start_time_unix_nano, end - span.end_time_unix_nano)).collect();
    let expected = [("query", 400, 0), ("pool wait", 400, 300), ("server", 300, 50), ("sending", 50, 0)];
    assert_eq!(times, expected.map(|(name, start, end)| (name, start * micro, end * micro)));
    assert_eq!(made[0].parent_span_id, record::bytes(&line, "span_id"));
    assert!(made[1..].iter().all(|span| span.parent_span_id == made[0].span_id && span.trace_id == made[0].trace_id));
    let ids: std::collections::HashSet<_> = made.iter().map(|span| &span.span_id).collect();
    assert_eq!((ids.len(), made[0].status.as_ref().unwrap().code), (4, 2));
    let attributes = shown(&made[0].attributes);
    for expected in [
        "db.query.text=SELECT ?",
        "db.namespace=shop",
        "db.response.status_code=1062",
        "client.address=::1",
        "client.port=4711",
        "sqluice.session=12",
    ] {
        assert!(attributes.iter().any(|attribute| attribute == expected), "{expected} of {attributes:?}");
    }
    assert!(spans::of_query(&Line::new()).is_empty());
    let mut cached = line.clone();
    cached.insert("times".into(), serde_json::json!({"total": 5}));
    assert_eq!(spans::of_query(&cached).len(), 1, "no server had it");
}

/// A collector that gives these answers, one after the other, and shows what it gets: the path, and how many bytes.
fn collector(answers: Vec<&'static str>) -> (String, Receiver<(String, usize)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            sender.send(request(&mut stream)).unwrap();
            let (head, body) = answer.split_once("\n\n").unwrap_or((answer, ""));
            let more = format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            stream.write_all(format!("HTTP/1.1 {head}\r\n{more}").as_bytes()).unwrap();
        }
    });
    (address, receiver)
}

fn request(stream: &mut TcpStream) -> (String, usize) {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap().to_lowercase();
    assert!(head.contains("content-type: application/x-protobuf") && head.contains("x-key: quiet"), "{head}");
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap().parse().unwrap();
    stream.read_exact(&mut vec![0; length]).unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), length)
}

fn output(endpoint: String, logs: Option<Takes>) -> OtlpOutput {
    let header = Some(("X-Key".into(), "quiet".into()));
    let settings = OtlpSettings { endpoint, header, ca_file: None, gzip: false, logs, spans: true };
    assert!(!format!("{settings:?}").contains("quiet"));
    OtlpOutput::open(&settings).unwrap()
}

/// Two queries, the second one traced.
fn batch() -> Batch {
    let mut block = Block::begin(7, SystemTime::now());
    fn form(form: &[u8]) -> Lines<'_> {
        Lines { form, ..Lines::default() }
    }
    block.put(7, Class::QUERY, form(b"{\"seq\":7,\"kind\":\"query\"}\n"));
    block.put(8, TRACED, form(format!("{}\n", LINE.replace('\n', "")).as_bytes()));
    let mut batch = Batch::from(7);
    batch.take_block(
        &block,
        Choice { takes: Takes::All, literals: Literals::None, masks: &Masks::default(), node: "n1" },
    );
    batch
}

fn paths(receiver: &Receiver<(String, usize)>) -> Vec<String> {
    receiver.try_iter().map(|(path, _)| path).collect()
}

#[test]
fn records_and_spans_go_to_their_paths_and_each_is_tried_until_it_is_there() {
    let (address, receiver) = collector(vec!["503 Busy", "200 OK", "502 Bad Gateway", "200 OK", "200 OK"]);
    let mut output = output(address, Some(Takes::All));
    let said = output.write(&batch(), "n1").unwrap_err().to_string();
    assert!(said.contains("/v1/logs") && said.contains("503") && !said.contains("quiet"), "{said}");
    output.write(&batch(), "n1").unwrap_err();
    assert_eq!(output.write(&batch(), "n1").unwrap(), 0, "the records are not sent again");
    assert_eq!(paths(&receiver), ["/v1/logs", "/v1/logs", "/v1/traces", "/v1/traces"]);
}

#[test]
fn requests_are_compressed_if_the_operator_wants_it() {
    let settings = |gzip| OtlpSettings {
        endpoint: "http://127.0.0.1:1".into(),
        header: None,
        ca_file: None,
        gzip,
        logs: None,
        spans: true,
    };
    let compresses = |gzip| Collector::new(&settings(gzip)).unwrap().compresses();
    assert_eq!((compresses(true), compresses(false)), (true, false));
    let numbered = |seq: u64| line(&LINE.replace("\"seq\":7", &format!("\"seq\":{seq}")));
    let logs = (0..500).map(|seq| record::log(&numbered(seq), TRACED, seq * 997)).collect();
    let body = message::logs("n1", logs);
    let compressed = super::collector::gzip(&body).unwrap();
    let mut read = Vec::new();
    flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut read).unwrap();
    assert!(read == body && compressed.len() < body.len() / 8, "{} of {}", compressed.len(), body.len());
}

#[test]
fn a_refused_record_is_found_and_becomes_a_gap() {
    for bad in ["400 Bad Request", "500 Internal Server Error"] {
        let (address, receiver) = collector(vec![bad, "200 OK", bad, "200 OK", bad]);
        let mut output = output(address, Some(Takes::All));
        assert_eq!(output.write(&batch(), "n1").unwrap(), 1);
        assert_eq!(paths(&receiver).len(), 5, "both, the first, the second, its gap, and the spans, which are lost");
    }
}

/// A partial success is a success, and the request must not be sent again.
#[test]
fn records_that_a_collector_rejects_are_counted_and_not_sent_again() {
    // partial_success { rejected: 1, error_message: "no" }
    let partial = "200 OK\n\n\u{a}\u{6}\u{8}\u{1}\u{12}\u{2}no";
    let (address, receiver) = collector(vec![partial, "202 Accepted"]);
    let mut output = output(address, Some(Takes::All));
    assert_eq!(output.write(&batch(), "n1").unwrap(), 1);
    assert_eq!(paths(&receiver), ["/v1/logs", "/v1/traces"]);
}

#[test]
fn a_collector_that_takes_nothing_keeps_the_batch() {
    let bad = "400 Bad Request";
    let (address, _receiver) = collector(vec![bad, bad, bad]);
    let said = output(address, Some(Takes::All)).write(&batch(), "n1").unwrap_err().to_string();
    assert!(said.contains("400"), "{said}");
}

#[test]
fn a_pause_is_kept_and_spans_may_go_alone() {
    let (address, receiver) = collector(vec!["429 Slow\r\nretry-after: 30", "200 OK"]);
    let mut output = output(address, None);
    output.write(&batch(), "n1").unwrap_err();
    let said = output.write(&batch(), "n1").unwrap_err().to_string();
    assert!(said.contains("asks for a pause"), "{said}");
    assert_eq!(paths(&receiver), ["/v1/traces"]);
}

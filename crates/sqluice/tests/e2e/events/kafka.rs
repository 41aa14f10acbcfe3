//! Kafka as a sink, with a real broker that is killed, and a topic that goes and comes back.

use std::path::Path;

use lab::{Family, KAFKA_PASSWORD, KAFKA_USER, Kafka, TlsFiles};
use serde_json::Value;

use super::receiver::{assert_complete, numbers};
use super::{assert_gapless, form_begins, lines, start_with};
use crate::support::{Authority, Front, all, authority, blocking, signal, until};

/// Most events of a batch.
const BATCH_MAX: usize = 4_096;

fn sections(folder: &Path, kafka: &Kafka) -> String {
    format!(
        "[events]\nqueries = \"all\"\nnode = \"n1\"\n[events.spool]\npath = \"{0}/spool\"\n\
         [events.file]\npath = \"{0}/events.jsonl\"\n\
         [events.kafka.audit]\nbrokers = [\"{1}\"]\ntopic = \"audit\"\nkey = \"user\"\n",
        folder.display(),
        kafka.endpoint()
    )
}

/// The messages of the topic.
fn messages(kafka: &Kafka) -> Vec<Value> {
    let text = kafka.messages("audit").unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The messages of the topic, once the last query is among them.
async fn messages_with_last(kafka: &Kafka, columns: usize) -> Vec<Value> {
    let form = last_form(columns);
    until("the last query at the broker", async || {
        let there = messages(kafka);
        there.iter().any(|event| form_begins(event, &form)).then_some(there)
    })
    .await
}

/// The query that ends a part of the load.
fn last_form(columns: usize) -> String {
    format!("SELECT id{} FROM items", ", v".repeat(columns))
}

/// Runs queries, of which the last one has so many columns.
async fn queries(front: &Front, count: usize, columns: usize) {
    let mut client = crate::statements::within(front, "e2e_events_kafka").await;
    for _ in 0..count {
        all(&mut client, "SELECT v FROM items").await;
    }
    all(&mut client, &last_form(columns)).await;
}

/// Waits until the broker has acknowledged everything, the last query included.
async fn until_there(front: &Front, folder: &Path, columns: usize) {
    let form = last_form(columns);
    until("the last query in the file", async || {
        lines(&folder.join("events.jsonl")).iter().any(|line| form_begins(line, &form)).then_some(())
    })
    .await;
    until("everything at the broker", async || {
        let metrics = front.metrics().await;
        let of = |name: &str, sink: &str| {
            metrics.sum(&format!("sqluice_events_sink_{name}"), &[&format!("sink=\"{sink}\"")])
        };
        (of("behind_seconds", "kafka.audit") == 0.0
            && of("written_total", "kafka.audit") >= of("written_total", "file"))
        .then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_event_reaches_kafka_through_kills_of_both() {
    let mut kafka = blocking(Kafka::start).await.unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let settings = sections(folder.path(), &kafka);
    kafka.create_topic("audit").unwrap();
    let mut kills = 0;
    for round in 0..3 {
        let mut front = start_with(Family::MariaDb, "e2e_events_kafka", &settings).await;
        queries(&front, 300, 1).await;
        if round == 1 {
            // The broker goes in the middle, and is away while the program is killed.
            kafka.kill();
            queries(&front, 300, 2).await;
        }
        signal(front.pid(), "KILL");
        front.ended().await;
        kills += 1;
    }
    let front = start_with(Family::MariaDb, "e2e_events_kafka", &settings).await;
    queries(&front, 100, 3).await;
    kafka = blocking(move || {
        kafka.restart().unwrap();
        kafka
    })
    .await;
    // It goes and comes back once more while the program runs.
    kafka.kill();
    queries(&front, 200, 4).await;
    kafka = blocking(move || {
        kafka.restart().unwrap();
        kafka
    })
    .await;
    queries(&front, 10, 5).await;
    until_there(&front, folder.path(), 5).await;
    let in_file = lines(&folder.path().join("events.jsonl"));
    assert_gapless(&in_file);
    let there = messages_with_last(&kafka, 5).await;
    let twice = assert_complete("the topic", &there);
    assert!(there.iter().all(|event| event["kind"] != "gap"));
    assert!(numbers(&there).is_superset(&numbers(&in_file)), "{:?}", numbers(&in_file).last());
    assert!(twice <= kills * BATCH_MAX && twice < there.len(), "{twice} of {}", there.len());
    eprintln!("{} events, {twice} of them twice after {kills} kills", there.len());

    // The topic goes. Its events go with it; those behind it are all in the new one.
    kafka.delete_topic("audit").unwrap();
    queries(&front, 50, 6).await;
    kafka.create_topic("audit").ok();
    queries(&front, 50, 7).await;
    until_there(&front, folder.path(), 7).await;
    let again = messages_with_last(&kafka, 7).await;
    let numbers = numbers(&again);
    let (first, last) = (*numbers.first().unwrap(), *numbers.last().unwrap());
    assert!(numbers.into_iter().eq(first..=last), "there is a hole between {first} and {last}");
}

#[tokio::test]
async fn events_reach_kafka_by_tls_and_a_login() {
    let (certificate, key) = authority().sign();
    let tls = TlsFiles { authority: authority().file(), certificate, key };
    let kafka = blocking(move || Kafka::start_secured(&tls)).await.unwrap_or_else(|error| panic!("{error}"));
    for topic in ["scram", "plain", "audit"] {
        kafka.create_topic(topic).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let stranger = Authority::new();
    let sink = |name: &str, sasl: &str, authority: &Authority, password: &str| {
        let file = folder.path().join(format!("{name}-password"));
        std::fs::write(&file, password).unwrap();
        let (brokers, ca) = (kafka.secure_endpoint(), authority.file());
        format!(
            "[events.kafka.{name}]\nbrokers = [\"{brokers}\"]\ntopic = \"{name}\"\ntls = true\nca_file = \"{}\"\n\
             sasl = \"{sasl}\"\nuser = \"{KAFKA_USER}\"\npassword_file = \"{}\"\n",
            ca.display(),
            file.display()
        )
    };
    let settings = [
        "[events]\nqueries = \"all\"\nnode = \"n1\"\n".to_owned(),
        sink("scram", "scram-sha-512", authority(), KAFKA_PASSWORD),
        sink("plain", "plain", authority(), KAFKA_PASSWORD),
        sink("wrong", "scram-sha-512", authority(), "not-it"),
        sink("stranger", "plain", &stranger, KAFKA_PASSWORD),
    ];
    let front = start_with(Family::MariaDb, "e2e_events_kafka_tls", &settings.concat()).await;
    let mut client = crate::statements::within(&front, "e2e_events_kafka_tls").await;
    for _ in 0..50 {
        all(&mut client, "SELECT v FROM items").await;
    }
    let of = async |name: &str, sink: &str| {
        let sink = format!("sink=\"kafka.{sink}\"");
        front.metrics().await.sum(&format!("sqluice_events_sink_{name}"), &[&sink])
    };
    for sink in ["scram", "plain"] {
        until("50 events at the broker", async || (of("written_total", sink).await >= 50.0).then_some(())).await;
        let text = kafka.messages(sink).unwrap();
        assert!(text.lines().filter(|line| line.contains("SELECT v FROM items")).count() >= 50, "{sink}: {text}");
    }
    for sink in ["wrong", "stranger"] {
        until("a failure", async || (of("failures_total", sink).await >= 1.0).then_some(())).await;
        assert_eq!(of("written_total", sink).await, 0.0, "{sink}");
    }
    for reason in ["Authentication failed", "certificate verify failed"] {
        until("the reason in the log", async || front.log().contains(reason).then_some(())).await;
    }
    assert!(!front.log().contains(KAFKA_PASSWORD) && !front.log().contains("not-it"), "a password is in the log");
}

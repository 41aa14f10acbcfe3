//! The spool: every event reaches every sink, through kills and outages.

use std::path::Path;

use lab::Family;
use net::query::Client;
use serde_json::Value;

use super::receiver::{Receiver, assert_complete, numbers};
use super::{assert_gapless, form_begins, lines, start_with};
use crate::support::{Front, all, signal, until};

/// All queries into a file and to a receiver, through a spool in this folder.
fn sections(folder: &Path, receiver: &Receiver, spool: &str) -> String {
    format!(
        "[events]\nqueries = \"all\"\nnode = \"n1\"\n[events.spool]\npath = \"{0}/spool\"\n{spool}\n\
         [events.file]\npath = \"{0}/events.jsonl\"\n[events.syslog.siem]\naddress = \"127.0.0.1:{1}\"\n",
        folder.display(),
        receiver.port
    )
}

/// Runs this query until it is told to end, over this and that restart.
async fn queries(client: &mut Client, count: usize) {
    for _ in 0..count {
        all(client, "SELECT v FROM items").await;
    }
}

/// Waits until a sink has a query of this form.
async fn has(what: &str, events: impl Fn() -> Vec<Value>, form: &str) {
    until(what, async || events().iter().any(|event| form_begins(event, form)).then_some(())).await;
}

/// Kills the program in the middle of its work.
async fn kill(mut front: Front) {
    signal(front.pid(), "KILL");
    front.ended().await;
}

#[tokio::test]
async fn every_event_reaches_every_sink_through_kills_and_outages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let mut receiver = Receiver::start();
    let settings = sections(folder.path(), &receiver, "");
    for round in 0..4 {
        let front = start_with(Family::MariaDb, "e2e_events_spool", &settings).await;
        let mut client = crate::statements::within(&front, "e2e_events_spool").await;
        queries(&mut client, 50).await;
        match round {
            // The receiver is down while the program is killed, and comes back while it is not running.
            1 => receiver.stop(),
            2 => receiver.come_back(),
            _ => {}
        }
        queries(&mut client, 200 + 37 * round).await;
        kill(front).await;
    }
    let front = start_with(Family::MariaDb, "e2e_events_spool", &settings).await;
    let mut client = crate::statements::within(&front, "e2e_events_spool").await;
    all(&mut client, "SELECT id, v FROM items").await;
    has("the last query in the file", || lines(&file), "SELECT id, v").await;
    has("the last query at the receiver", || receiver.events(), "SELECT id, v").await;
    let in_file = lines(&file);
    assert_gapless(&in_file);
    let gaps =
        |events: &[Value]| -> Vec<Value> { events.iter().filter(|event| event["kind"] == "gap").cloned().collect() };
    assert_eq!(gaps(&in_file), Vec::<Value>::new());
    assert_eq!(in_file.iter().filter(|line| line["kind"] == "start").count(), 5);
    let received = receiver.events();
    let twice = assert_complete("the receiver", &received);
    assert_eq!(gaps(&received), Vec::<Value>::new());
    assert!(numbers(&received).is_superset(&numbers(&in_file)));
    // Batches are those of 20 ms here. A kill costs one, an outage those of five seconds.
    assert!(twice < in_file.len() / 2, "{twice} of {}", in_file.len());
}

/// A full spool lets the oldest events go, and the sink that lacks them says exactly which.
#[tokio::test]
async fn a_full_spool_leaves_an_exact_gap_at_the_sink_that_was_down() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let mut receiver = Receiver::start();
    let settings = sections(folder.path(), &receiver, "max_bytes = \"1MiB\"").replace(
        "[events.file]",
        "[events.files.texts]\ntext = \"text\"\nqueries = \"off\"\npath = \"/dev/null\"\n[events.file]",
    );
    let front = start_with(Family::MariaDb, "e2e_events_full", &settings).await;
    let mut client = crate::statements::within(&front, "e2e_events_full").await;
    all(&mut client, "SELECT 1 FROM items").await;
    has("a query at the receiver", || receiver.events(), "SELECT ? FROM items").await;
    receiver.stop();
    // Texts of noise, which nothing compresses: more than the spool holds.
    let mut state = 1_u64;
    // The sink may still read the first segment that goes: it has it open.
    let mut unread = std::collections::BTreeSet::new();
    while unread.len() < 4 {
        for _ in 0..20 {
            let noise: String = (0..4_000)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    format!("{:04x}", state >> 48)
                })
                .collect();
            all(&mut client, &format!("SELECT '{noise}' FROM items")).await;
        }
        unread.insert(front.metrics().await.sum("sqluice_events_spool_removed_unread_total", &[]) as u64);
    }
    all(&mut client, "SELECT id, v FROM items").await;
    receiver.come_back();
    has("the last query at the receiver", || receiver.events(), "SELECT id, v").await;
    has("the last query in the file", || lines(&file), "SELECT id, v").await;
    assert_gapless(&lines(&file));
    assert!(lines(&file).iter().all(|line| line["kind"] != "gap"));
    let received = receiver.events();
    assert_complete("the receiver", &received);
    let gaps: Vec<&Value> = received.iter().filter(|event| event["kind"] == "gap").collect();
    let lost: u64 = gaps.iter().map(|gap| gap["lost"].as_u64().unwrap()).sum();
    let metrics = front.metrics().await;
    assert!(lost > 0 && lost <= metrics.sum("sqluice_events_spool_removed_unread_total", &[]) as u64 + 1, "{gaps:?}");
    assert_eq!(lost, metrics.sum("sqluice_events_sink_dropped_total", &["sink=\"syslog.siem\""]) as u64, "{gaps:?}");
    let in_gaps = |seq: u64| gaps.iter().any(|gap| (gap["from"].as_u64()..=gap["to"].as_u64()).contains(&Some(seq)));
    let there = received.iter().filter(|event| event["kind"] != "gap");
    assert!(there.map(|event| event["seq"].as_u64().unwrap()).all(|seq| !in_gaps(seq)), "{gaps:?}");
    assert!(metrics.sum("sqluice_events_spool_bytes", &[]) <= f64::from(1 << 20));
}

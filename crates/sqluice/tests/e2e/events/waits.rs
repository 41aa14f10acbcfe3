//! Sessions that wait while a sink takes nothing.

use std::time::{Duration, Instant};

use lab::Family;
use net::query::Client;
use serde_json::Value;

use super::receiver::{Receiver, assert_complete};
use super::{assert_gapless, event, lines, start_with};
use crate::statements;
use crate::support::{Front, all, until};

fn sections(receiver: &Receiver, more: &str) -> String {
    format!(
        "[events]\nqueries = \"all\"\n{more}\n[events.syslog.far]\naddress = \"127.0.0.1:{}\"\ntext = \"text\"\n",
        receiver.port
    )
}

/// Statements so long that few of them fill all room.
fn long(number: usize) -> String {
    format!("DO '{}', {number}", "x".repeat(60_000))
}

/// Sends statements until one has waited so long; gives how many there were.
async fn send_until_it_waits(client: &mut Client, wait: Duration) -> usize {
    for number in 1..20_000 {
        let begun = Instant::now();
        all(client, &long(number)).await;
        if begun.elapsed() >= wait {
            return number;
        }
    }
    panic!("nothing waits");
}

async fn waits(front: &Front) -> f64 {
    front.metrics().await.sum("sqluice_events_waits_total", &[])
}

fn is_last(event: &Value) -> bool {
    event["form"] == "SELECT ? AS last_one"
}

/// Nothing is lost while the sink takes nothing, and all goes on when it does.
#[tokio::test]
async fn sessions_wait_for_a_sink_that_stands_still_and_nothing_is_lost() {
    let mut receiver = Receiver::start();
    let settings = sections(&receiver, "when_full = \"wait\"\nwait_max_ms = 120000");
    let front = start_with(Family::MariaDb, "e2e_events_wait", &settings).await;
    let mut client = statements::within(&front, "e2e_events_wait").await;
    until("the login at the receiver", async || (!receiver.messages().is_empty()).then_some(())).await;
    receiver.stop();
    let sent = {
        let mut sending = std::pin::pin!(send_until_it_waits(&mut client, Duration::from_millis(1_500)));
        let mut waits_since = None;
        loop {
            if let Ok(sent) = tokio::time::timeout(Duration::from_millis(50), &mut sending).await {
                break sent;
            }
            if waits_since.is_none() && waits(&front).await > 0.0 {
                waits_since = Some(Instant::now());
            }
            if waits_since.is_some_and(|since: Instant| since.elapsed() > Duration::from_secs(3)) {
                receiver.come_back();
                // Once.
                waits_since = Some(Instant::now() + Duration::from_secs(3_600));
            }
        }
    };
    assert!(sent > 100, "{sent}: all room was used first");
    all(&mut client, "SELECT 'x' AS last_one").await;
    until("the last event", async || receiver.events().iter().any(is_last).then_some(())).await;
    let received = receiver.events();
    assert_complete("the receiver", &received);
    assert!(received.iter().all(|event| event["kind"] != "gap"));
    assert_eq!(front.metrics().await.sum("sqluice_events_lost_total", &[]), 0.0);
    assert!(!front.log().contains("in vain"), "{}", front.log());
}

/// The wait has a limit. Behind it sessions go on, events are lost with a gap, and the log says so.
#[tokio::test]
async fn a_wait_in_vain_ends_and_becomes_a_gap() {
    let mut receiver = Receiver::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let settings = sections(&receiver, "when_full = \"wait\"\nwait_max_ms = 5000");
    let settings = format!("{settings}[events.file]\npath = \"{}\"\n", file.display());
    let front = start_with(Family::MariaDb, "e2e_events_vain", &settings).await;
    let mut client = statements::within(&front, "e2e_events_vain").await;
    receiver.stop();
    until("an error in the log", async || {
        all(&mut client, &long(0)).await;
        front.log().contains("in vain for this sink").then_some(())
    })
    .await;
    assert!(waits(&front).await > 0.0);
    // No statement waits for this sink any more, although it still takes nothing. The file, which takes all, may be waited for.
    for number in 0..400 {
        let before = Instant::now();
        all(&mut client, &long(number)).await;
        assert!(before.elapsed() < Duration::from_secs(5), "a statement waited {:?}", before.elapsed());
    }
    assert_eq!(front.log().matches("in vain").count(), 1, "{}", front.log());
    all(&mut client, "SELECT 'x' AS last_one").await;
    event(&file, "the last query", is_last).await;
    assert_gapless(&lines(&file));
    receiver.come_back();
    // Events behind the gap find room again.
    until("the last event", async || {
        all(&mut client, "SELECT 'x' AS last_one").await;
        receiver.events().iter().any(is_last).then_some(())
    })
    .await;
    let received = receiver.events();
    assert_complete("the receiver", &received);
    assert!(received.iter().any(|event| event["kind"] == "gap"));
}

//! Several sinks at once: each gets every event, whatever happens to another one.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use lab::Family;
use serde_json::Value;

use super::receiver::{Receiver, assert_complete};
use super::{assert_gapless, form_begins, lines, start_with};
use crate::support::{Front, all, error, signal, until};

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// The events on standard output, which is the file of the log here: its other lines are no objects.
fn stdout(front: &Front) -> Vec<Value> {
    front.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn has(what: &str, events: impl Fn() -> Vec<Value>, form: &str) {
    until(what, async || events().iter().any(|event| form_begins(event, form)).then_some(())).await;
}

#[tokio::test]
async fn a_receiver_that_is_down_holds_no_other_sink_and_gets_everything_later() {
    let folder = tempfile::tempdir().unwrap();
    let (file, errors, socket) =
        (folder.path().join("events.jsonl"), folder.path().join("errors.jsonl"), folder.path().join("log"));
    let mut receiver = Receiver::start();
    let sections = format!(
        "[events]\nqueries = \"all\"\nnode = \"n1\"\n[events.file]\npath = {}\n\
         [events.files.errors]\npath = {}\nqueries = \"errors\"\n[events.stdout]\nenabled = true\n\
         [events.syslog.siem]\naddress = \"127.0.0.1:{}\"\nfacility = \"auth\"\n",
        quoted(&file),
        quoted(&errors),
        receiver.port
    );
    let mut front = start_with(Family::MariaDb, "e2e_events_sinks", &sections).await;
    let mut client = crate::statements::within(&front, "e2e_events_sinks").await;
    all(&mut client, "SELECT v FROM items").await;
    has("the query at the receiver", || receiver.events(), "SELECT v FROM items").await;

    receiver.stop();
    for _ in 0..50 {
        all(&mut client, "SELECT id FROM items").await;
    }
    assert_eq!(error(&mut client, "SELECT 1 FROM missing").await.0, 1146);
    all(&mut client, "SELECT id, v FROM items").await;
    has("the query in the file", || lines(&file), "SELECT id, v").await;
    has("the query on standard output", || stdout(&front), "SELECT id, v").await;
    until("failures", async || {
        let metrics = front.metrics().await;
        let of = |name: &str| metrics.sum(&format!("sqluice_events_sink_{name}"), &["sink=\"syslog.siem\""]);
        (of("failures_total") > 0.0 && of("behind_seconds") > 0.0).then_some(())
    })
    .await;

    receiver.come_back();
    has("the query at the receiver that came back", || receiver.events(), "SELECT id, v").await;
    let warned = receiver.messages().into_iter().find(|message| message.contains("\"code\":1146")).unwrap();
    assert!(warned.starts_with("<36>1 ") && warned.contains(" n1 sqluice "), "{warned}");

    // A reload adds a sink, and the others go on.
    let local = UnixDatagram::bind(&socket).unwrap();
    local.set_nonblocking(true).unwrap();
    let more = format!("{sections}[events.syslog.local]\naddress = \"unix:{}\"\n", socket.display());
    front.reload(|setup| setup.more = more);
    until("a message at the new sink", async || {
        all(&mut client, "SELECT 5 FROM items").await;
        let mut bytes = [0; 4096];
        local.recv(&mut bytes).ok().filter(|read| bytes[..*read].ends_with(b"}"))
    })
    .await;
    all(&mut client, "SELECT 5, 6 FROM items").await;
    has("the last query at the receiver", || receiver.events(), "SELECT ?, ? FROM").await;
    has("the last query in the file", || lines(&file), "SELECT ?, ? FROM").await;
    has("the last query on standard output", || stdout(&front), "SELECT ?, ? FROM").await;
    assert_gapless(&lines(&file));
    assert_gapless(&stdout(&front));
    assert_complete("the receiver", &receiver.events());
    let of_errors = lines(&errors);
    assert!(of_errors.iter().all(|line| line["kind"] != "query" || !line["error"].is_null()), "{of_errors:?}");
    assert!(of_errors.iter().any(|line| line["error"]["code"] == 1146));
}

/// SIGUSR1 gives the file another name, and the process goes on; a file that was moved is made anew at once.
#[tokio::test]
async fn a_signal_rotates_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, moved) = (folder.path().join("events.jsonl"), folder.path().join("moved"));
    let more = format!("[events]\nqueries = \"all\"\n[events.file]\npath = \"{}\"\n", file.display());
    let mut front = start_with(Family::MariaDb, "e2e_events_signal", &more).await;
    let mut client = crate::statements::within(&front, "e2e_events_signal").await;
    all(&mut client, "SELECT 1 FROM items").await;
    super::event(&file, "the first query", |line| form_begins(line, "SELECT ? FROM items")).await;
    signal(front.pid(), "USR1");
    let others = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".zst")).count()
    };
    until("the file with another name", async || (others() == 1).then_some(())).await;
    all(&mut client, "SELECT 2, 3 FROM items").await;
    super::event(&file, "the next query", |line| form_begins(line, "SELECT ?, ? FROM items")).await;
    assert!(!lines(&file).iter().any(|line| form_begins(line, "SELECT ? FROM items")));
    std::fs::rename(&file, &moved).unwrap();
    signal(front.pid(), "USR1");
    until("a new file", async || file.exists().then_some(())).await;
    assert!(front.is_running() && others() == 1);
    all(&mut client, "SELECT 4, 5, 6 FROM items").await;
    super::event(&file, "the last query", |line| form_begins(line, "SELECT ?, ?, ? FROM items")).await;
}

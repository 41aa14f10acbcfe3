//! The classifier's judgement of a statement, and the act of a real server: the texts of MariaDB's own tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::{Family, Replication, ReplicationOptions};
use net::client::Target;
use net::query::{self, Client, Limits};
use sql::{Access, Dialect, Encoding, Kind, Modes, NoFunctions};
use wire::auth::Credential;

/// Debian's package mariadb-test.
const CORPUS: &str = "/usr/share/mysql/mysql-test/main";
/// How long texts are tried.
const LIMIT: Duration = Duration::from_secs(20);
/// Errors of a server that must not write: read_only, a READ ONLY transaction.
const REFUSALS: [u16; 2] = [1290, 1792];

/// One-line statements that nothing stands in front of; what else the files hold is for another program.
fn statements() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(CORPUS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "test") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let mut fresh = true;
        for line in text.lines() {
            let statement = line.trim();
            let whole =
                fresh && statement.ends_with(';') && !statement.starts_with(['#', '-']) && !statement.contains('$');
            fresh = statement.is_empty() || statement.ends_with(';') || statement.starts_with(['#', '-']);
            if whole && statement.len() < 2000 {
                found.insert(statement.trim_end_matches(';').to_owned());
            }
        }
    }
    found
}

#[tokio::test]
async fn what_is_said_to_read_only_is_nothing_that_a_server_refuses_to_a_reader() {
    if !Path::new(CORPUS).exists() {
        lab::skip(&format!("{CORPUS} is not there (Debian's package mariadb-test-data)"));
        return;
    }
    let server = tokio::task::spawn_blocking(|| {
        let server = Replication::start(ReplicationOptions::new(Family::MariaDb, 0)).unwrap();
        server.primary().set_read_only(true).unwrap();
        server
    });
    let server = server.await.unwrap();
    let address = server.primary().address().to_string().parse().unwrap();
    let target = Target::plain(address, Duration::from_secs(10));
    let connect = async || {
        let mut login = query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
        login.schema = Some(lab::APP_DATABASE.into());
        let mut client = Client::connect(&target, login, Limits::default()).await.unwrap();
        client.query("SET max_statement_time = 1, session_track_state_change = ON").await.unwrap();
        client
    };
    let dialect =
        Dialect { family: sql::Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::Utf8 };
    let mut client = connect().await;
    let (mut tried, mut accepted, mut careful, mut wrong) = (0, 0, 0, Vec::new());
    let started = Instant::now();
    for text in statements() {
        let said = sql::classify(text.as_bytes(), &dialect, &NoFunctions);
        let reads = said.access == Access::Read;
        // Of what the primary is said to need, queries alone can be too careful.
        let plain = said.transaction.is_none() && said.effects.is_empty() && (reads || said.kind == Kind::Select);
        if !plain || matches!(said.kind, Kind::Empty) || started.elapsed() > LIMIT {
            continue;
        }
        tried += u32::from(reads);
        client.query("START TRANSACTION READ ONLY").await.unwrap();
        match client.query(&text).await {
            Ok(_) if !reads => careful += 1,
            Ok(results) => {
                accepted += 1;
                // Type, length and value of a state change; views that are looked at in other schemas and SET STATEMENT are
                // told without being one.
                let changed =
                    results.iter().any(|result| result.session_state.windows(3).any(|bytes| bytes == [2, 1, b'1']));
                let lower = text.to_lowercase();
                let reported = lower.starts_with("set statement") || lower.contains("information_schema");
                if changed && said.kind == Kind::Select && !reported {
                    wrong.push(format!("changes the session: {text}"));
                }
                if !client.status().contains(wire::Status::IN_TRANSACTION) {
                    wrong.push(format!("ends the transaction: {text}"));
                }
            }
            Err(error) => match error.code() {
                Some(code) if reads && REFUSALS.contains(&code) => wrong.push(format!("{code}: {text}")),
                Some(_) => {}
                None => client = connect().await,
            },
        }
        client.query("ROLLBACK").await.unwrap();
    }
    println!("{tried} texts are said to read only; a reader's server ran {accepted} of them, and {careful} more");
    assert!(careful * 5 < accepted, "too careful with {careful} texts");
    assert!(tried > 1000 && accepted > 300, "{tried} {accepted}");
    assert!(wrong.is_empty(), "{} are not what they are said to be:\n{}", wrong.len(), wrong.join("\n"));
}

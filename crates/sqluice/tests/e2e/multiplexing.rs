//! Thousands of clients over a few connections: all are served, and none sees another's state.

use std::sync::Arc;
use std::time::Duration;

use lab::Family;
use net::query::{Client, Parameter};
use tokio::sync::Barrier;

use net::tls::ClientTls;

use crate::support::{Front, all, app, blocking, calm, until};

const CONNECTIONS: usize = 20;
const SCHEMAS: usize = 4;

fn clients() -> usize {
    std::env::var("SQLUICE_E2E_CLIENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

/// The values that one client sets, and must get ever after.
struct Own {
    set: Vec<String>,
    answers: Vec<String>,
}

impl Own {
    fn new(number: usize, family: Family) -> Own {
        let pick = |words: &[&str]| words[number % words.len()].to_owned();
        let mode =
            pick(&["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT,ANSI_QUOTES", "STRICT_ALL_TABLES"]);
        let mode = if mode.starts_with("PIPES") && family == Family::MySql { "ANSI_QUOTES".into() } else { mode };
        let charset = pick(&["latin1", "utf8mb4", "ascii"]);
        let isolation =
            pick(&["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED", "READ COMMITTED"]);
        let schema = format!("many_{}", number % SCHEMAS);
        let zone = format!("{}{:02}:{:02}", if number.is_multiple_of(2) { '+' } else { '-' }, number % 12, number % 60);
        Own {
            set: vec![
                format!("USE {schema}"),
                format!("SET sql_mode = '{mode}', time_zone = '{zone}', @mine = 'client {number}'"),
                format!("SET NAMES {charset}"),
                format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"),
                format!("SET sql_select_limit = {}", 1000 + number),
            ],
            answers: vec![
                schema,
                mode,
                zone,
                format!("client {number}"),
                charset,
                isolation.replace(' ', "-"),
                (1000 + number).to_string(),
                // The table's own: the schema is really that of the statement, not only what a function says.
                (number % SCHEMAS).to_string(),
            ],
        }
    }

    fn question(family: Family) -> String {
        let isolation = if family == Family::MariaDb { "tx_isolation" } else { "transaction_isolation" };
        format!(
            "SELECT DATABASE(), @@sql_mode, @@time_zone, @mine, @@character_set_client, @@{isolation}, \
             @@sql_select_limit, (SELECT n FROM which)"
        )
    }

    fn check(&self, row: &[Option<Vec<u8>>]) {
        let got: Vec<_> =
            row.iter().map(|v| String::from_utf8_lossy(v.as_deref().unwrap_or(b"NULL")).into_owned()).collect();
        assert_eq!(got, self.answers);
    }
}

async fn one(client: &mut Client, own: &Own, family: Family, set_up: &Barrier) {
    for text in &own.set {
        all(client, text).await;
    }
    set_up.wait().await;
    let question = Own::question(family);
    let prepared = client.prepare(&format!("{question}, ?")).await.unwrap();
    for round in 0..3 {
        let place = if round == 1 { "/* sqluice: primary */ " } else { "" };
        own.check(&client.query_one(format!("{place}{question}")).await.unwrap().rows[0]);
        let results = client.execute(&prepared, &[Parameter::Int(round)]).await.unwrap();
        let (last, row) = results[0].rows[0].split_last().unwrap();
        assert_eq!(last.as_deref(), Some(round.to_string().as_bytes()));
        own.check(row);
    }
    client.close(prepared).await.unwrap();
}

/// Many clients, each with its own state.
pub async fn check(family: Family, clients: usize) {
    let servers = calm(family).await;
    blocking(|| {
        let schemas = (0..SCHEMAS).map(|n| {
            format!("CREATE DATABASE IF NOT EXISTS many_{n}; CREATE OR REPLACE VIEW many_{n}.which AS SELECT {n} AS n;")
        });
        servers.primary().sql(&schemas.collect::<String>()).unwrap();
        servers.wait_in_sync(Duration::from_secs(20)).unwrap();
    })
    .await;
    let front = Front::start(servers, |setup| {
        setup.pool = format!("max_connections_per_server = {CONNECTIONS}\nwait_ms = 60000");
    })
    .await;
    let set_up = Arc::new(Barrier::new(clients));
    let front = Arc::new(front);
    let mut arriving = Vec::new();
    for _ in 0..clients {
        let front = front.clone();
        arriving.push(tokio::spawn(async move { front.connect(app(), ClientTls::disabled()).await }));
    }
    let (mut arrived, mut refused) = (Vec::new(), Vec::new());
    for client in arriving {
        match client.await.unwrap() {
            Ok(client) => arrived.push(client),
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert!(refused.is_empty(), "{} of {clients} clients that come at once are refused: {}", refused.len(), refused[0]);
    let mut tasks = Vec::new();
    for (number, mut client) in arrived.into_iter().enumerate() {
        let set_up = set_up.clone();
        tasks.push(tokio::spawn(async move {
            one(&mut client, &Own::new(number, family), family, &set_up).await;
            client
        }));
    }
    let mut connected = Vec::new();
    for task in tasks {
        connected.push(task.await.unwrap());
    }
    let metrics = front.metrics().await;
    assert_eq!(metrics.sum("sqluice_sessions", &[]), clients as f64);
    front.is_pinned_by(&[]).await;
    assert_eq!(metrics.sum("sqluice_own_errors_total", &[]), 0.0);
    for server in ["db1", "db2", "db3"] {
        let open = metrics.sum("sqluice_server_connections", &[&format!("server=\"{server}\"")]);
        assert!(open <= CONNECTIONS as f64, "{open} connections to {server}");
        assert!(open > 0.0);
    }
    drop(connected);
    until("all sessions to end", async || (front.metrics().await.sum("sqluice_sessions", &[]) == 0.0).then_some(()))
        .await;
}

#[tokio::test]
async fn many_clients_over_few_connections_keep_their_own_state() {
    check(Family::MariaDb, clients()).await;
}

//! Sessions move from a busy worker to another one: by themselves, because an operator orders it, and while somebody kills them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::Family;
use net::client::Target;
use net::query::{Client, Limits, Parameter, Statement};
use net::tls::ClientTls;
use serde_json::{Value, json};
use wire::compress::Algorithm;

use crate::statements;
use crate::support::{
    Front, SOON, all, any_certificate, app, calm, error, has_mysql, http_send, http_with, until, value,
};

const KEY: &str = "open sesame";
/// Clients that connect before those of one worker leave.
const CLIENTS: usize = 12;

async fn start(family: Family, database: &str, relieve: &str) -> Front {
    let sql = "CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40));\
               INSERT INTO items (v) VALUES ('a'), ('b'), ('c')";
    let (front, servers) = statements::start(family, database, sql).await;
    drop(front);
    Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.proxy = format!("workers = 2\ndrain_ms = 200\n{relieve}");
        setup.listener = "compression = \"all\"".into();
    })
    .await
}

async fn page(front: &Front, path: &str) -> Value {
    let (status, body) = http_with(&front.admin, "GET", &format!("/api/v1{path}"), Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// The worker of each of these sessions; `None` of one that is gone.
async fn workers_of(front: &Front, ids: &[u64]) -> Vec<Option<u64>> {
    let page = page(front, "/sessions?limit=1000").await;
    let sessions = page["sessions"].as_array().unwrap();
    let worker = |id: &u64| sessions.iter().find(|session| session["id"] == json!(id))?["worker"].as_u64();
    ids.iter().map(worker).collect()
}

/// Has a worker give sessions to the other one.
async fn order(front: &Front, worker: u64, body: &str) -> (u16, String) {
    http_send(&front.admin, "PUT", &format!("/api/v1/workers/{worker}/relieve"), Some(KEY), body).await
}

async fn id(client: &mut Client) -> u64 {
    value(client, "SELECT CONNECTION_ID()").await.parse().unwrap()
}

async fn connect(front: &Front, tls: ClientTls, compression: Option<Algorithm>) -> Client {
    let target = Target { tls, compression, ..Target::plain(front.address.parse().unwrap(), Duration::from_secs(60)) };
    let limits = Limits { timeout: Duration::from_secs(60), ..Limits::default() };
    Client::connect(&target, app(), limits).await.unwrap()
}

/// A client, and the state that its session must have on whichever worker.
struct Watched {
    client: Client,
    id: u64,
    number: i64,
    statement: Statement,
    insert_id: String,
    family: Family,
    /// A read of three rows: FOUND_ROWS() is 3 behind it.
    read: &'static str,
}

/// Its connection alone knows FOUND_ROWS(), until another statement is sent.
const COUNTED_BY_SERVER: &str = "SELECT SQL_CALC_FOUND_ROWS id FROM items WHERE id <= 3 LIMIT 1";
const COUNTED: &str = "SELECT id FROM items WHERE id <= 3";

impl Watched {
    async fn begin(mut client: Client, family: Family, database: &str, number: i64, read: &'static str) -> Watched {
        client.init_db(database).await.unwrap();
        let id = id(&mut client).await;
        all(&mut client, &format!("SET @number = {number}, SESSION sort_buffer_size = {}", 65_536 + number * 1024))
            .await;
        all(&mut client, &format!("SET time_zone = '+0{}:30', NAMES latin1", number % 10)).await;
        let statement = client.prepare("SELECT CONCAT(?, '-', @number) FROM items WHERE id = 1").await.unwrap();
        let mut watched = Watched { client, id, number, statement, insert_id: String::new(), family, read };
        watched.leave().await;
        watched
    }

    /// Leaves results that a later statement asks for.
    async fn leave(&mut self) {
        all(&mut self.client, &format!("INSERT INTO items (v) VALUES ('of {}')", self.number)).await;
        self.insert_id = value(&mut self.client, "SELECT LAST_INSERT_ID()").await;
        assert_ne!(self.insert_id, "0");
        all(&mut self.client, self.read).await;
    }

    /// The results of before, and the state. The session may have moved between any two statements.
    async fn check(&mut self) {
        let Watched { client, number, .. } = self;
        let found = value(client, "SELECT FOUND_ROWS()").await;
        assert_eq!(found, "3", "FOUND_ROWS() of {number}");
        let state = "SELECT CONCAT_WS(' ', @number, @@sort_buffer_size, @@time_zone, @@character_set_client, DATABASE() IS NULL)";
        let expected = format!("{number} {} +0{}:30 latin1 0", 65_536 + *number * 1024, *number % 10);
        assert_eq!(value(client, state).await, expected);
        assert_eq!(value(client, "SELECT LAST_INSERT_ID()").await, self.insert_id, "of {number}");
        let rows = client.execute(&self.statement, &[Parameter::Int(7)]).await.unwrap();
        assert_eq!(rows[0].scalar().unwrap(), format!("7-{number}"), "{:?}", self.family);
        let missing = error(client, "SELECT nothing").await;
        assert_eq!(missing.0, 1054);
        let warnings = client.query_one("SHOW WARNINGS").await.unwrap();
        assert_eq!(warnings.rows.len(), 1, "the message of {number}");
        assert_eq!(id(client).await, self.id, "CONNECTION_ID()");
        all(client, self.read).await;
    }
}

/// Clients of one worker only: others came to the other one, and left.
async fn on_one_worker(front: &Front, family: Family, database: &str, read: &'static str) -> (u64, Vec<Watched>) {
    let mut clients = Vec::new();
    for number in 0..CLIENTS as i64 {
        clients.push(Watched::begin(front.client().await, family, database, number, read).await);
    }
    let ids: Vec<u64> = clients.iter().map(|client| client.id).collect();
    let workers = workers_of(front, &ids).await;
    let busy = workers[0].unwrap();
    let (stay, leave): (Vec<_>, Vec<_>) =
        clients.into_iter().zip(workers).partition(|(_, worker)| *worker == Some(busy));
    assert!(stay.len() >= 2 && leave.len() >= 2, "{} and {}", stay.len(), leave.len());
    drop(leave);
    (busy, stay.into_iter().map(|(client, _)| client).collect())
}

async fn they_spread_by_themselves(family: Family, database: &str) {
    let front = start(family, database, "relieve_above_percent = 1").await;
    let (_, clients) = on_one_worker(&front, family, database, COUNTED_BY_SERVER).await;
    let ids: Vec<u64> = clients.iter().map(|client| client.id).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) {
                    client.check().await;
                    client.leave().await;
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    until("both workers have busy sessions", async || {
        assert!(!running.iter().any(|one| one.is_finished()), "a client has seen an error");
        let workers = workers_of(&front, &ids).await;
        [0, 1].iter().all(|worker| workers.contains(&Some(*worker))).then_some(())
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    for one in running {
        assert!(one.await.unwrap() > 0);
    }
    // A relief is counted when its last session has moved, or was waited for in vain.
    until("the moves are counted", async || {
        let metrics = front.metrics().await;
        assert_eq!(metrics.sum("sqluice_sessions_moved_total", &["reason=\"order\""]), 0.0);
        let now = page(&front, "/now").await;
        let workers = now["workers"].as_array().unwrap();
        let sum = |key: &str| workers.iter().map(|worker| worker[key].as_u64().unwrap()).sum::<u64>();
        let is_counted = metrics.sum("sqluice_sessions_moved_total", &["reason=\"busy\""]) >= 1.0;
        (is_counted && sum("sessions_given") == sum("sessions_taken")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn busy_sessions_of_one_worker_spread_by_themselves() {
    they_spread_by_themselves(Family::MariaDb, "e2e_workers").await;
}

#[tokio::test]
async fn busy_sessions_of_one_worker_spread_by_themselves_with_mysql() {
    if has_mysql() {
        they_spread_by_themselves(Family::MySql, "e2e_workers_mysql").await;
    }
}

/// Idle sessions, with and without TLS and compression, move, and one of them back; one in a transaction stays.
async fn an_operator_moves_them(family: Family, database: &str) {
    let front = start(family, database, "relieve_above_percent = 0").await;
    let mut clients = Vec::new();
    // Two of each kind, one after the other, go to both workers.
    for number in 0..16 {
        let tls = if number / 2 % 2 == 0 { ClientTls::disabled() } else { any_certificate() };
        let client = connect(&front, tls, (number / 4 % 2 == 1).then_some(Algorithm::Zlib)).await;
        clients.push(Watched::begin(client, family, database, number, COUNTED).await);
    }
    let ids: Vec<u64> = clients.iter().map(|client| client.id).collect();
    let workers = workers_of(&front, &ids).await;
    let from = workers[0].unwrap();
    let (mut kept, left): (Vec<_>, Vec<_>) = clients.into_iter().zip(workers).partition(|(_, at)| *at == Some(from));
    assert_eq!((kept.len(), left.len()), (8, 8));
    drop(left);
    let (mut in_transaction, _) = kept.pop().unwrap();
    all(&mut in_transaction.client, "BEGIN").await;
    all(&mut in_transaction.client, "UPDATE items SET v = 'open' WHERE id = 2").await;
    until("the others have left", async || (front.metrics().await.sum("sqluice_sessions", &[]) == 8.0).then_some(()))
        .await;

    let (status, text) = order(&front, from, "{\"to\": 1}").await;
    assert_eq!((status, &*text), (400, "the body has no key \"to\"; there is: dry_run\n"));
    let (status, text) = order(&front, 2, "").await;
    assert_eq!((status, &*text), (404, "there is no worker 2; there are 2, counted from 0\n"));
    let to = 1 - from;
    let (status, text) = order(&front, to, "").await;
    let even = format!("worker {to} is no busier than the others, and has no more sessions\n");
    assert_eq!((status, text), (409, even));
    let plan = json!({ "worker": from, "to": to, "share": 0.5, "of": "sessions", "dry_run": true });
    let calm = until("the figures show idle workers", async || {
        let (status, text) = order(&front, from, "{\"dry_run\": true}").await;
        let page: Value = serde_json::from_str(&text).unwrap_or_default();
        (status == 200 && page["of"] == "sessions").then_some(page)
    });
    assert_eq!(calm.await, plan);
    let (status, text) = order(&front, from, "").await;
    let there: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &there["chosen"], &there["moved"]), (200, &json!(4), &json!(4)), "{there}");
    // One of each kind, in the order of their ids.
    let ids: Vec<u64> = kept.iter().map(|(client, _)| client.id).collect();
    let there = [to, to, to, to, from, from, from].map(Some);
    assert_eq!(workers_of(&front, &ids).await, there);
    for (client, _) in &mut kept {
        client.check().await;
        client.leave().await;
        client.check().await;
    }
    assert_eq!(workers_of(&front, &ids).await, there);

    kept.truncate(4);
    let (status, text) = until("the others have left", async || {
        let is_over = front.metrics().await.sum("sqluice_sessions", &[]) == 5.0;
        let answer = if is_over { order(&front, to, "").await } else { (0, String::new()) };
        (answer.0 == 200).then_some(answer)
    })
    .await;
    let back: Value = serde_json::from_str(&text).unwrap();
    assert!(status == 200 && back["moved"].as_u64() >= Some(1), "{back}");
    for (client, _) in &mut kept {
        client.check().await;
    }
    assert_eq!(workers_of(&front, &[in_transaction.id]).await, [Some(from)], "it is in a transaction");
    all(&mut in_transaction.client, "ROLLBACK").await;
    assert_eq!(value(&mut in_transaction.client, "SELECT v FROM items WHERE id = 2").await, "b");
    let metrics = front.metrics().await;
    let moved = 4.0 + back["moved"].as_f64().unwrap();
    assert_eq!(metrics.sum("sqluice_sessions_moved_total", &["reason=\"order\""]), moved);
    assert_eq!(metrics.sum("sqluice_sessions", &[]), 5.0);
    let changes = page(&front, "/changes").await.to_string();
    assert!(changes.contains(&format!("PUT /api/v1/workers/{from}/relieve")), "{changes}");
}

#[tokio::test]
async fn an_operator_moves_sessions_whatever_their_connections() {
    an_operator_moves_them(Family::MariaDb, "e2e_workers_order").await;
}

#[tokio::test]
async fn an_operator_moves_sessions_whatever_their_connections_with_mysql() {
    if has_mysql() {
        an_operator_moves_them(Family::MySql, "e2e_workers_order_mysql").await;
    }
}

/// A session that is killed while it moves ends on either worker, and leaves nothing behind.
#[tokio::test]
async fn a_session_that_moves_can_be_killed() {
    let front = start(Family::MariaDb, "e2e_workers_kill", "relieve_above_percent = 0").await;
    let mut killer = front.client().await;
    let (mut rounds, mut moved) = (0, 0.0);
    // Until some have moved before they were killed.
    while rounds < 3 || moved == 0.0 {
        rounds += 1;
        assert!(rounds < 50, "no session has moved");
        let (busy, mut clients) = on_one_worker(&front, Family::MariaDb, "e2e_workers_kill", COUNTED).await;
        let kills = async {
            for client in clients.iter().rev() {
                all(&mut killer, &format!("KILL {}", client.id)).await;
            }
        };
        tokio::join!(order(&front, busy, ""), kills);
        moved = front.metrics().await.sum("sqluice_sessions_moved_total", &["reason=\"order\""]);
        for client in &mut clients {
            assert!(client.client.query("SELECT 1").await.is_err(), "{} lives", client.id);
        }
        let ids: Vec<u64> = clients.iter().map(|client| client.id).collect();
        until("all are gone", async || workers_of(&front, &ids).await.iter().all(Option::is_none).then_some(())).await;
        until("no session is counted but one", async || {
            (front.metrics().await.sum("sqluice_sessions", &[]) == 1.0).then_some(())
        })
        .await;
    }
    let listener = front.metrics().await.sum("sqluice_listener_sessions", &[]);
    assert_eq!(listener, 1.0);
    assert_eq!(value(&mut killer, "SELECT 7").await, "7");
}

/// The packets of an execution that asks for no cursor, and of the rows that stayed for COM_STMT_FETCH.
async fn execution_without_cursor(client: &mut Client, statement: &Statement) -> Vec<(u8, Vec<u8>)> {
    let id = statement.id.to_le_bytes();
    let execute = [&[0x17], &id[..], &[0, 1, 0, 0, 0]].concat();
    let fetch = [&[0x1c], &id[..], &[9, 0, 0, 0]].concat();
    let mut packets = Vec::new();
    client.send_raw(&execute).await.unwrap();
    // A head, a column, and an OK in place of the rows.
    for _ in 0..3 {
        packets.push(client.read_raw().await.unwrap());
    }
    client.send_raw(&fetch).await.unwrap();
    while packets.len() == 3 || packets.last().is_some_and(|(_, payload)| payload[0] != 0xfe) {
        packets.push(client.read_raw().await.unwrap());
    }
    packets
}

/// Prepares a statement whose first execution opens a cursor, and reads that to its end.
async fn first_with_cursor(client: &mut Client) -> Statement {
    let statement = client.prepare("SELECT id FROM items WHERE id <= 3").await.unwrap();
    let opened = client.open_cursor(&statement, &[]).await.unwrap();
    assert_eq!(client.fetch(&statement, opened.columns, 9).await.unwrap().rows.len(), 3);
    statement
}

/// From then on MySQL keeps the rows of each execution for COM_STMT_FETCH, whichever worker the session has moved to.
#[tokio::test]
async fn a_statement_that_has_opened_a_cursor_moves_as_such() {
    if !has_mysql() {
        return;
    }
    const DATABASE: &str = "e2e_workers_cursor";
    let front = start(Family::MySql, DATABASE, "relieve_above_percent = 0").await;
    let server = calm(Family::MySql).await.primary().address();
    let mut direct =
        Client::connect(&Target::plain(server.to_string().parse().unwrap(), SOON), app(), Limits::default())
            .await
            .unwrap();
    direct.init_db(DATABASE).await.unwrap();
    let statement = first_with_cursor(&mut direct).await;
    let expected = execution_without_cursor(&mut direct, &statement).await;
    assert_eq!(expected.len(), 7, "{expected:?}");

    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = front.client().await;
        client.init_db(DATABASE).await.unwrap();
        let (id, statement) = (id(&mut client).await, first_with_cursor(&mut client).await);
        clients.push((client, id, statement));
    }
    let ids: Vec<u64> = clients.iter().map(|(_, id, _)| *id).collect();
    let workers = workers_of(&front, &ids).await;
    let from = workers[0].unwrap();
    let mut kept: Vec<_> =
        clients.into_iter().zip(workers).filter(|(_, worker)| *worker == Some(from)).map(|(kept, _)| kept).collect();
    assert_eq!(kept.len(), 2);
    until("a session to move", async || {
        let (status, text) = order(&front, from, "").await;
        let there: Value = serde_json::from_str(&text).unwrap_or_default();
        (status == 200 && there["moved"] == json!(1)).then_some(())
    })
    .await;
    let ids: Vec<u64> = kept.iter().map(|(_, id, _)| *id).collect();
    let mut workers = workers_of(&front, &ids).await;
    workers.sort_unstable();
    assert_eq!(workers, [Some(0), Some(1)]);
    for (client, _, statement) in &mut kept {
        assert_eq!(execution_without_cursor(client, statement).await, expected);
        assert_eq!(execution_without_cursor(client, statement).await, expected);
    }
}

//! Servers die, freeze and change places while clients work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::{Family, Replication, ReplicationOptions};
use net::tls::ClientTls;
use tokio::task::JoinHandle;

use crate::support::{Front, SOON, all, app, blocking, calm, error, failing, families, has_mysql, said, until, value};

/// Clients that read one row after the other.
struct Readers {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<(Vec<String>, Duration)>>,
}

impl Readers {
    async fn start(front: &Front, count: usize) -> Readers {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for number in 0..count {
            let mut client = front.client().await;
            let (stop, done) = (stop.clone(), done.clone());
            tasks.push(tokio::spawn(async move {
                let (mut errors, mut longest) = (Vec::new(), Duration::ZERO);
                while !stop.load(Ordering::Relaxed) && errors.len() < 3 {
                    let id = (done.fetch_add(1, Ordering::Relaxed) + number as u64) % 100 + 1;
                    let begun = Instant::now();
                    match client.query_one(format!("SELECT v FROM app.failing WHERE id = {id}")).await {
                        Ok(result) => assert_eq!(result.scalar().as_deref(), Some(&*(id * 7).to_string())),
                        Err(error) => errors.push(format!("after {:?}: {error}", begun.elapsed())),
                    }
                    longest = longest.max(begun.elapsed());
                }
                (errors, longest)
            }));
        }
        Readers { stop, done, tasks }
    }

    /// Waits until so many more reads were done.
    async fn go_on(&self, reads: u64) {
        let goal = self.done.load(Ordering::Relaxed) + reads;
        until("reads to go on", async || (self.done.load(Ordering::Relaxed) >= goal).then_some(())).await;
    }

    /// All errors of all clients, and the longest that one statement took.
    async fn end(self) -> (Vec<String>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut errors, mut longest) = (Vec::new(), Duration::ZERO);
        for task in self.tasks {
            let (mut own, slowest) = task.await.unwrap();
            errors.append(&mut own);
            longest = longest.max(slowest);
        }
        (errors, longest)
    }
}

async fn fill(servers: &'static Replication) {
    blocking(move || {
        let rows: Vec<String> = (1..=100).map(|id| format!("({id}, {})", id * 7)).collect();
        let rows = rows.join(",");
        servers
            .primary()
            .sql(&format!(
                "CREATE TABLE IF NOT EXISTS app.failing (id INT PRIMARY KEY, v INT); \
                 REPLACE INTO app.failing VALUES {rows}"
            ))
            .unwrap();
        servers.wait_in_sync(Duration::from_secs(20)).unwrap();
    })
    .await;
}

/// The server (its name in the configuration) that is replica number `nth`.
fn replica(servers: &Replication, nth: usize) -> (usize, String) {
    let index = (0..3).filter(|index| *index != servers.primary_index()).nth(nth).unwrap();
    (index, format!("db{}", index + 1))
}

async fn grows(front: &Front, server: &str, by: f64) {
    let before = front.metrics().await.reads(server);
    until("a replica to get reads", async || (front.metrics().await.reads(server) >= before + by).then_some(())).await;
}

/// A replica is killed under load.
pub async fn check_killed_replica(family: Family) {
    let servers = failing(family).await;
    fill(&servers).await;
    let front = Front::start(&servers, |_| {}).await;
    let readers = Readers::start(&front, 32).await;
    let cluster = *servers;
    let (index, name) = replica(cluster, 0);
    grows(&front, &name, 200.0).await;
    blocking(move || cluster.server(index).kill9()).await;
    readers.go_on(2000).await;
    blocking(move || cluster.server(index).restart().unwrap()).await;
    grows(&front, &name, 200.0).await;
    let (errors, longest) = readers.end().await;
    let retries = front.metrics().await.sum("sqluice_server_retries_total", &[&format!("server=\"{name}\"")]);
    eprintln!("{family:?} kill -9 of a replica: {retries} reads tried again, the longest took {longest:?}");
    assert_eq!(errors, [""; 0]);
}

#[tokio::test]
async fn a_killed_replica_costs_no_client_an_error() {
    check_killed_replica(Family::MariaDb).await;
}

#[tokio::test]
async fn a_frozen_replica_delays_reads_for_a_bounded_time() {
    let servers = failing(Family::MariaDb).await;
    fill(&servers).await;
    let front = Front::start(&servers, |setup| setup.monitor += "\ntimeout_ms = 300").await;
    let readers = Readers::start(&front, 16).await;
    let cluster = *servers;
    let (index, name) = replica(cluster, 0);
    grows(&front, &name, 100.0).await;
    blocking(move || cluster.server(index).freeze().unwrap()).await;
    let begun = Instant::now();
    // New statements avoid it as soon as it is suspect; those in flight there must not wait for ever.
    readers.go_on(1000).await;
    eprintln!("reads go on elsewhere {:?} after the freeze", begun.elapsed());
    let used = format!("server=\"{name}\"");
    let stuck = async || {
        let metrics = front.metrics().await;
        metrics.sum("sqluice_server_connections", &[&used, "state=\"used\""])
    };
    let freed = until("statements in flight on the frozen server to be tried elsewhere", async || {
        if begun.elapsed() > Duration::from_secs(8) {
            return Some(Err(stuck().await));
        }
        (stuck().await == 0.0).then(|| Ok(begun.elapsed()))
    })
    .await;
    blocking(move || cluster.server(index).thaw().unwrap()).await;
    grows(&front, &name, 100.0).await;
    let (errors, longest) = readers.end().await;
    eprintln!("freeze of a replica: in flight freed: {freed:?}, the longest read took {longest:?}");
    assert_eq!(errors, [""; 0]);
    assert!(freed.is_ok(), "statements in flight on a frozen server wait until it thaws: {freed:?}");
}

#[tokio::test]
async fn writes_follow_a_primary_that_somebody_moved() {
    let servers = failing(Family::MariaDb).await;
    blocking({
        let cluster = *servers;
        move || {
            let sql =
                "DROP TABLE IF EXISTS app.moved; CREATE TABLE app.moved (client INT, n INT, PRIMARY KEY (client, n))";
            cluster.primary().sql(sql).unwrap();
        }
    })
    .await;
    let front = Front::start(&servers, |_| {}).await;
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut writers = Vec::new();
    for number in 0..16 {
        let mut client = front.client().await;
        let (stop, written) = (stop.clone(), written.clone());
        writers.push(tokio::spawn(async move {
            let (mut acknowledged, mut errors) = (Vec::new(), Vec::new());
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                match client.query(format!("INSERT INTO app.moved VALUES ({number}, {n})")).await {
                    Ok(_) => {
                        acknowledged.push((number, n));
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => errors.push(said(&error)),
                }
                assert!(errors.len() < 100, "{:?}", errors.last());
            }
            (acknowledged, errors)
        }));
    }
    let more = async |count: u64| {
        let goal = written.load(Ordering::Relaxed) + count;
        until("writes to go on", async || (written.load(Ordering::Relaxed) >= goal).then_some(())).await;
    };
    more(200).await;
    let cluster = *servers;
    let (index, name) = replica(cluster, 0);
    let begun = Instant::now();
    blocking(move || cluster.promote(index).unwrap()).await;
    let promoted = begun.elapsed();
    until("writes to reach the new primary", async || (front.metrics().await.writes(&name) >= 100.0).then_some(()))
        .await;
    eprintln!("promoting took {promoted:?}; 100 writes had gone to the new primary after {:?}", begun.elapsed());
    more(200).await;
    stop.store(true, Ordering::Relaxed);
    let (mut acknowledged, mut errors) = (Vec::new(), Vec::new());
    for writer in writers {
        let (mut own, mut failed) = writer.await.unwrap();
        acknowledged.append(&mut own);
        errors.append(&mut failed);
    }
    eprintln!("a moved primary: {} writes, {} errors: {:?}", acknowledged.len(), errors.len(), errors.first());
    // The old primary's own words for a write that came a moment too late (1290), or a connection that it cut.
    assert!(errors.iter().all(|(code, _)| matches!(code, 1290 | 2013)), "{errors:?}");
    // The old primary is read-only for at most an interval before it is noticed.
    assert!(errors.len() <= 16 * 5, "{}", errors.len());
    let rows = blocking(move || {
        cluster.wait_in_sync(SOON).unwrap();
        cluster.primary().sql("SELECT client, n FROM app.moved").unwrap()
    })
    .await;
    let kept: std::collections::HashSet<(i32, i32)> = rows
        .lines()
        .map(|line| {
            let (client, n) = line.split_once('\t').unwrap();
            (client.parse().unwrap(), n.parse().unwrap())
        })
        .collect();
    let lost: Vec<_> = acknowledged.iter().filter(|row| !kept.contains(row)).collect();
    assert!(lost.is_empty(), "acknowledged, but not there: {lost:?}");
}

#[tokio::test]
async fn with_all_servers_down_errors_say_why_and_service_returns_by_itself() {
    let servers = failing(Family::MariaDb).await;
    let front = Front::start(&servers, |setup| setup.listener = "hold_ms = 1000".into()).await;
    let mut client = front.client().await;
    all(&mut client, "CREATE TABLE IF NOT EXISTS app.down (n INT)").await;
    let cluster = *servers;
    blocking(move || cluster.servers().iter().for_each(|server| server.kill9())).await;
    for sql in ["INSERT INTO app.down VALUES (1)", "SELECT 1 FROM app.down"] {
        let begun = Instant::now();
        // The first statements find the pool's connections dead, and may get an error.
        let (code, message) = error(&mut client, sql).await;
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(6), "{sql}: {waited:?}");
        assert!(waited >= Duration::from_millis(900), "{sql}: not held, but failed after {waited:?}: {message}");
        assert_eq!(code, 1290, "{message}");
        assert!(message.contains("cluster 'main' became available within 10"), "{message}");
    }
    until("the reason to name the servers' state", async || {
        let (_, message) = error(&mut client, "INSERT INTO app.down VALUES (1)").await;
        let named = ["db1", "db2", "db3"].iter().all(|name| message.contains(name));
        (named && message.contains("down")).then_some(())
    })
    .await;
    let (ready, why) = crate::support::http(&front.admin, "/readyz").await;
    assert_eq!(ready, 503, "{why}");
    assert!(why.contains("db1") && why.contains("db2"), "{why}");
    blocking(move || {
        std::thread::scope(|scope| {
            cluster.servers().iter().for_each(|server| drop(scope.spawn(|| server.restart().unwrap())));
        });
    })
    .await;
    until("writes to be taken again", async || client.query("INSERT INTO app.down VALUES (2)").await.ok()).await;
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT MAX(n) FROM app.down").await, "2");
    front.knows(2).await;
    let mut other = front.client().await;
    all(&mut other, "SELECT 1 FROM app.down").await;
}

/// Statements that run on any of the servers and hold this word.
async fn running(servers: &'static Replication, word: &'static str) -> Vec<(usize, u64)> {
    blocking(move || {
        let mut found = Vec::new();
        for (index, server) in servers.servers().iter().enumerate() {
            let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE";
            let reported = server.sql(&format!("{list} '%{word}%' AND ID <> CONNECTION_ID()")).unwrap();
            found.extend(reported.lines().filter_map(|line| Some((index, line.trim().parse().ok()?))));
        }
        found
    })
    .await
}

/// An operator ends statements that run too long, on the server itself and through the program.
async fn check_killed_statements(family: Family) {
    let servers = calm(family).await;
    let front = Front::start(servers, |_| {}).await;
    for (text, word, through) in [
        ("SELECT SLEEP(50) AS killed_read", "killed_read", false),
        ("/* sqluice: primary */ SELECT SLEEP(50) AS killed_on_primary", "killed_on_primary", false),
        ("SELECT SLEEP(50) AS killed_through", "killed_through", true),
    ] {
        let mut client = front.client().await;
        let id = value(&mut client, "SELECT CONNECTION_ID()").await;
        let query = tokio::spawn(async move { client.query(text).await.map(drop) });
        let (index, thread) = until("the statement", async || running(servers, word).await.first().copied()).await;
        // Long enough for an operator.
        tokio::time::sleep(Duration::from_millis(100)).await;
        match through {
            true => drop(all(&mut front.client().await, &format!("KILL {id}")).await),
            false => blocking(move || drop(servers.servers()[index].sql(&format!("KILL {thread}")).unwrap())).await,
        }
        let ended = query.await.unwrap();
        assert!(ended.is_err(), "{text}: {ended:?}");
        assert_eq!(running(servers, word).await, [], "{text} runs again");
    }
    assert_eq!(front.metrics().await.sum("sqluice_server_retries_total", &[]), 0.0);
}

#[tokio::test]
async fn a_statement_that_was_killed_is_not_run_again() {
    check_killed_statements(Family::MariaDb).await;
}

#[tokio::test]
async fn a_statement_that_was_killed_is_not_run_again_mysql() {
    if has_mysql() {
        check_killed_statements(Family::MySql).await;
    }
}

/// A schema that exists on the primary alone is found there, by a session that begins in it and by one that chooses it.
async fn check_lacking_replicas(family: Family) {
    let servers = calm(family).await;
    blocking(move || {
        let sql = "DROP DATABASE IF EXISTS e2e_lacking; CREATE DATABASE e2e_lacking; \
                   CREATE TABLE e2e_lacking.t (id INT PRIMARY KEY); INSERT INTO e2e_lacking.t VALUES (7)";
        servers.primary().sql(sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
        let replicas = servers.servers().iter().filter(|server| server.port() != servers.primary().port());
        replicas.for_each(|server| drop(server.sql("SET sql_log_bin = 0; DROP DATABASE e2e_lacking").unwrap()));
    })
    .await;
    let front = Front::start(servers, |setup| setup.listener = "consistency = \"none\"".into()).await;
    let mut within = app();
    within.schema = Some("e2e_lacking".into());
    let mut begun = front.connect(within, ClientTls::disabled()).await.unwrap();
    let mut chosen = front.client().await;
    chosen.init_db("e2e_lacking").await.unwrap();
    for client in [&mut begun, &mut chosen] {
        for _ in 0..6 {
            assert_eq!(value(client, "SELECT 1").await, "1");
            assert_eq!(value(client, "SELECT id FROM t").await, "7");
            all(client, "START TRANSACTION READ ONLY").await;
            assert_eq!(value(client, "SELECT id FROM t").await, "7");
            all(client, "COMMIT").await;
        }
    }
    assert_eq!(error(&mut begun, "USE e2e_nowhere").await.0, 1049);
}

#[tokio::test]
async fn a_schema_that_replicas_lack_is_found_on_the_primary() {
    check_lacking_replicas(Family::MariaDb).await;
}

#[tokio::test]
async fn a_schema_that_replicas_lack_is_found_on_the_primary_mysql() {
    if has_mysql() {
        check_lacking_replicas(Family::MySql).await;
    }
}

/// The docs say so of a cluster of one server: no other one could do better.
#[tokio::test]
async fn the_only_server_refuses_writes_itself_when_it_is_read_only() {
    for family in families() {
        let start = move || Replication::start(ReplicationOptions::new(family, 0)).unwrap();
        let servers = Arc::new(blocking(start).await);
        let set_read_only = async |on: bool| {
            let servers = servers.clone();
            blocking(move || servers.primary().set_read_only(on).unwrap()).await;
        };
        let front = Front::start(&servers, |setup| setup.kind = "standalone").await;
        let mut client = front.client().await;
        all(&mut client, "CREATE TABLE IF NOT EXISTS app.only_server (a INT)").await;
        let mut within = front.client().await;
        all(&mut within, "BEGIN").await;
        all(&mut within, "SELECT COUNT(*) FROM app.only_server").await;
        set_read_only(true).await;
        let begun = Instant::now();
        for client in [&mut client, &mut within] {
            let (code, words) = error(client, "INSERT INTO app.only_server VALUES (1)").await;
            assert_eq!(code, 1290, "{family:?} {words}");
            assert!(words.contains("read-only"), "{words}");
        }
        // A transaction goes on behind it, and so does the session.
        assert_eq!(value(&mut within, "SELECT COUNT(*) FROM app.only_server").await, "0");
        all(&mut within, "COMMIT").await;
        assert!(begun.elapsed() < Duration::from_secs(5), "nothing waits for another server");
        set_read_only(false).await;
        all(&mut client, "INSERT INTO app.only_server VALUES (1)").await;
        all(&mut client, "DROP TABLE app.only_server").await;
    }
}

//! The results that writes invalidate; no read is older than promised.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn a_write_ends_what_was_read_from_its_tables_and_no_more() {
    for family in families() {
        accounts(
        calm(family).await,
        "DROP VIEW IF EXISTS app.cache_view; DROP VIEW IF EXISTS app.cache_clock; DROP TABLE IF EXISTS app.cache_child; \
         DROP TABLE IF EXISTS app.cache_parent; CREATE TABLE app.cache_parent (id INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO app.cache_parent VALUES (1), (2); \
         CREATE TABLE app.cache_child (id INT, FOREIGN KEY (id) REFERENCES app.cache_parent (id) ON DELETE CASCADE) ENGINE=InnoDB; \
         INSERT INTO app.cache_child VALUES (1), (2); \
         DROP TABLE IF EXISTS app.cache_counted; CREATE TABLE app.cache_counted (n INT); DROP TABLE IF EXISTS app.cache_log; CREATE TABLE app.cache_log (n INT); \
         CREATE TRIGGER app.cache_counts AFTER INSERT ON app.cache_counted FOR EACH ROW INSERT INTO app.cache_log VALUES (1); \
         CREATE VIEW app.cache_view AS SELECT id FROM app.cache_child; \
         CREATE VIEW app.cache_clock AS SELECT id, NOW(6) AS t FROM app.cache_child",
    )
    .await;
        let rules = rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000");
        let front = start(family, "cache_other", &rules).await;
        let mut client = front.client().await;
        let (child, view) = ("SELECT COUNT(*) FROM cache_child", "SELECT COUNT(*) FROM cache_view");
        let (log, other) = ("SELECT COUNT(*) FROM cache_log", "SELECT n FROM cache_other WHERE id = 1");
        for read in [child, view, log, other] {
            all(&mut client, read).await;
            assert!(is_hit(&front, &mut client, read).await, "{read}: {}", of_rule(&front, "all").await);
        }
        all(&mut client, "DELETE FROM cache_parent WHERE id = 1").await;
        assert!(is_hit(&front, &mut client, other).await, "another table was written");
        assert!(is_hit(&front, &mut client, log).await);
        assert_eq!(value(&mut client, child).await, "1", "a foreign key has written it");
        assert_eq!(value(&mut client, view).await, "1", "a view is what it reads");
        all(&mut client, "INSERT INTO cache_counted VALUES (5)").await;
        assert_eq!(value(&mut client, log).await, "1", "a trigger has written it");
        // A transaction ends what it has written, all of it.
        for read in [child, log, other] {
            all(&mut client, read).await;
        }
        all(&mut client, "BEGIN").await;
        all(&mut client, "DELETE FROM cache_child").await;
        all(&mut client, "UPDATE cache_log SET n = 2").await;
        all(&mut client, "COMMIT").await;
        assert!(is_hit(&front, &mut client, other).await);
        assert!(!is_hit(&front, &mut client, log).await);
        assert_eq!(value(&mut client, child).await, "0");
        // A view's value of the clock must not be kept.
        let before = refused(&front, "all", "unknown_tables").await;
        all(&mut client, "SELECT t FROM cache_clock").await;
        assert_eq!(refused(&front, "all", "unknown_tables").await, before + 1);
    }
}

#[tokio::test]
async fn a_transaction_that_is_older_than_the_first_answer_ends_it() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "DROP TABLE IF EXISTS app.cache_older; CREATE TABLE app.cache_older (n INT); INSERT INTO app.cache_older VALUES (1)").await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.listener = "consistency = \"none\"\nsplit = \"primary\"".into();
        setup.more = rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000");
    })
    .await;
    let (mut writer, mut reader) = (front.client().await, front.client().await);
    all(&mut writer, "BEGIN").await;
    all(&mut writer, "UPDATE cache_older SET n = 2").await;
    let read = "SELECT n FROM cache_older";
    until_hit(&front, &mut reader, read).await;
    assert_eq!(value(&mut reader, read).await, "1");
    all(&mut writer, "COMMIT").await;
    assert_eq!(value(&mut reader, read).await, "2");
}

async fn check_writes(family: Family, consistency: &str) {
    let table = &*format!("cache_{consistency}");
    let servers = calm(family).await;
    accounts(
        servers,
        &format!("DROP TABLE IF EXISTS app.{table}; CREATE TABLE app.{table} (id INT PRIMARY KEY, n INT)"),
    )
    .await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.listener = format!("consistency = \"{consistency}\"");
        setup.more = rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\ncache_stale_ms = 1000");
    })
    .await;
    play(&front, table, consistency).await;
}

/// Whether these statements have changed the row. They may lose against other members' writes. Where they found a newer value
/// they have written nothing: the writer of that one may not have been told yet, and until then no read must find it.
async fn is_written(client: &mut Client, statements: &[&str]) -> bool {
    let mut rows = 0;
    for statement in statements {
        match client.query(statement).await {
            Ok(results) => rows += results.iter().map(|result| result.affected).sum::<u64>(),
            Err(error) => {
                assert_eq!(error.code(), Some(1213), "{statement}: {error}");
                return false;
            }
        }
    }
    rows > 0
}

/// Sessions write rows of an empty table and read them. None reads older than its own write; where reads must find what any
/// session has written, none reads older than what anybody was told.
pub(super) async fn play(front: &Front, table: &str, consistency: &str) {
    const SESSIONS: usize = 8;
    const PLAYED: Duration = Duration::from_secs(4);
    let own = consistency == "session";
    let reported: Arc<[AtomicU64]> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let next = Arc::new(AtomicU64::new(1_000));
    let mut setup = front.client().await;
    all(&mut setup, &format!("INSERT INTO {table} VALUES (0, 0), (1, 0), (2, 0), (3, 0)")).await;
    until_hit(front, &mut setup, &format!("SELECT COUNT(*) FROM {table}")).await;
    let end = Instant::now() + PLAYED;
    let mut tasks = Vec::new();
    for session in 0..SESSIONS {
        let written = if own { (0..4).map(|_| AtomicU64::new(0)).collect() } else { reported.clone() };
        let (mut client, next, table) = (front.client().await, next.clone(), table.to_owned());
        tasks.push(tokio::spawn(async move {
            let mut random = session as u64 + 1;
            let mut below = |n: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % n
            };
            let mut reads = 0_u32;
            while Instant::now() < end {
                let id = below(4);
                if below(12) == 0 {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    let write = format!("UPDATE {table} SET n = {n} WHERE id = {id} AND n < {n}");
                    let statements: &[&str] = if below(2) == 0 { &[&write] } else { &["BEGIN", &write, "COMMIT"] };
                    if !is_written(&mut client, statements).await {
                        continue;
                    }
                    // Reads from now on must see it.
                    written[id as usize].fetch_max(n, Ordering::SeqCst);
                } else {
                    let must = written[id as usize].load(Ordering::SeqCst);
                    let seen: u64 =
                        value(&mut client, &format!("SELECT n FROM {table} WHERE id = {id}")).await.parse().unwrap();
                    assert!(seen >= must, "row {id}: {must} was written, {seen} was read");
                    reads += 1;
                }
            }
            reads
        }));
    }
    for task in tasks {
        assert!(task.await.unwrap() > 10);
    }
    let counts = of_rule(front, "all").await;
    assert!(counts["hits"].as_u64() > Some(100), "the cache must have answered: {counts}");
}

#[tokio::test]
async fn nobody_reads_older_than_is_promised() {
    for family in families() {
        check_writes(family, "session").await;
        check_writes(family, "cluster").await;
    }
}

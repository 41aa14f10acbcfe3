//! The result cache in front of real servers: what it answers, what it must not, and that nobody reads older than its own write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::Family;
use net::query::{Client, Parameter};
use serde_json::Value;

use crate::login::accounts;
use crate::support::{Front, all, calm, has_mysql, http_with, until, value};

const KEY: &str = "open sesame";

fn rule(name: &str, lines: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\n{lines}\n")
}

/// Sqluice with these rules, in front of servers with a table of their own for the test.
async fn start(family: Family, table: &str, rules: &str) -> Front {
    let servers = calm(family).await;
    accounts(
        servers,
        &format!(
            "DROP TABLE IF EXISTS app.{table}; CREATE TABLE app.{table} (id INT PRIMARY KEY, n INT); \
             INSERT INTO app.{table} VALUES (1, 10), (2, 20), (3, 30)"
        ),
    )
    .await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = rules.to_owned();
    })
    .await;
    let mut client = front.client().await;
    knows_tables(&front, &mut client, &format!("SELECT COUNT(*) AS known FROM {table}")).await;
    assert_eq!(wipe(&front, "").await.0, 200);
    front
}

/// Waits until the tables' catalogue was read: before, nothing is kept.
async fn knows_tables(front: &Front, client: &mut Client, read: &str) {
    until("an answer from the cache", async || is_hit(front, client, read).await.then_some(())).await;
}

async fn wipe(front: &Front, query: &str) -> (u16, String) {
    http_with(&front.admin, "DELETE", &format!("/api/v1/cache{query}"), Some(KEY)).await
}

async fn page(front: &Front) -> Value {
    let (status, body) = http_with(&front.admin, "GET", "/api/v1/cache", Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

async fn of_rule(front: &Front, rule: &str) -> Value {
    let page = page(front).await;
    page["rules"].as_array().unwrap().iter().find(|one| one["rule"] == rule).cloned().unwrap_or_default()
}

async fn hits(front: &Front, rule: &str) -> u64 {
    of_rule(front, rule).await["hits"].as_u64().unwrap_or(0)
}

async fn refused(front: &Front, rule: &str, reason: &str) -> u64 {
    of_rule(front, rule).await["refused"][reason].as_u64().unwrap_or(0)
}

/// Whether the cache answers this.
async fn is_hit(front: &Front, client: &mut Client, sql: &str) -> bool {
    let before = hits(front, "all").await;
    all(client, sql).await;
    hits(front, "all").await > before
}

async fn check_answers(family: Family, table: &str) {
    let front = start(family, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let (mut one, mut two) = (front.client().await, front.client().await);
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    assert_eq!(value(&mut one, &read).await, "10");
    assert!(is_hit(&front, &mut one, &read).await);
    assert!(is_hit(&front, &mut two, &read).await, "sessions of one user share answers");
    assert_eq!(value(&mut two, &read).await, "10");

    // A write by anybody ends it, before the writer hears of its write.
    all(&mut two, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
    assert_eq!(value(&mut one, &read).await, "11");
    assert_eq!(value(&mut two, &read).await, "11");
    assert!(is_hit(&front, &mut two, &read).await);

    // In a transaction servers answer, and nobody sees it before it is committed.
    all(&mut two, "BEGIN").await;
    all(&mut two, &format!("UPDATE {table} SET n = 12 WHERE id = 1")).await;
    assert_eq!(value(&mut two, &read).await, "12");
    assert!(is_hit(&front, &mut one, &read).await);
    assert_eq!(value(&mut one, &read).await, "11");
    all(&mut two, "COMMIT").await;
    assert_eq!(value(&mut one, &read).await, "12");
    assert!(refused(&front, "all", "pinned").await > 0);

    // A definition, too.
    knows_tables(&front, &mut one, &read).await;
    all(&mut two, &format!("ALTER TABLE {table} ADD COLUMN more INT DEFAULT 5")).await;
    assert!(!is_hit(&front, &mut one, &read).await);
    assert_eq!(value(&mut one, &format!("SELECT more FROM {table} WHERE id = 1")).await, "5");
    knows_tables(&front, &mut one, &read).await;

    // What is left for the next statement is as behind a server's answer.
    let rows = format!("SELECT id FROM {table} ORDER BY id LIMIT 2");
    for _ in 0..2 {
        all(&mut one, "SELECT CAST('x' AS SIGNED)").await;
        all(&mut one, &rows).await;
        assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "2");
        all(&mut one, &format!("UPDATE {table} SET n = n WHERE id = 0")).await;
        all(&mut one, &rows).await;
        assert!(is_hit(&front, &mut one, &rows).await);
        assert_eq!(value(&mut one, "SELECT ROW_COUNT()").await, "-1");
        all(&mut one, &rows).await;
        assert_eq!(all(&mut one, "SHOW WARNINGS").await[0].rows.len(), 0);
    }
}

#[tokio::test]
async fn answers_are_given_until_something_is_written() {
    check_answers(Family::MariaDb, "cache_answers").await;
}

#[tokio::test]
async fn answers_are_given_until_something_is_written_with_mysql() {
    if has_mysql() {
        check_answers(Family::MySql, "cache_answers").await;
    }
}

#[tokio::test]
async fn found_rows_are_kept_with_their_answer() {
    let table = "cache_found";
    let front =
        start(Family::MariaDb, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let (mut one, mut two) = (front.client().await, front.client().await);
    let read = format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} ORDER BY id LIMIT 1");
    for (client, hit) in [(&mut one, false), (&mut two, true)] {
        assert_eq!(is_hit(&front, client, &read).await, hit);
        assert_eq!(value(client, "SELECT FOUND_ROWS()").await, "3");
        assert_eq!(value(client, "SELECT FOUND_ROWS()").await, "1", "the rows of the question before");
    }
    // The connection went back: a session that kept it would not ask the cache.
    assert!(is_hit(&front, &mut one, &read).await);
    assert!(is_hit(&front, &mut one, &read).await);

    all(&mut two, &format!("INSERT INTO {table} VALUES (4, 40)")).await;
    for _ in 0..2 {
        assert_eq!(value(&mut one, &read).await, "1");
        assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "4");
    }
    // Others are asked for, and no answer stands in between.
    assert!(is_hit(&front, &mut one, &read).await);
    assert_eq!(value(&mut one, &format!("SELECT COUNT(*) FROM {table}")).await, "4");
    assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "1");
    // Without a row of its own, and with a union.
    for (read, found) in [
        (format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} LIMIT 1 OFFSET 100"), "4"),
        (format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} UNION ALL SELECT n FROM {table} LIMIT 2"), "8"),
    ] {
        for hit in [false, true] {
            assert_eq!(is_hit(&front, &mut one, &read).await, hit, "{read}");
            assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, found, "{read}");
        }
    }
}

#[tokio::test]
async fn what_changes_the_answer_is_part_of_the_question() {
    let table = "cache_keys";
    accounts(
        calm(Family::MariaDb).await,
        "CREATE OR REPLACE USER e2e_cache@'%' IDENTIFIED BY 'x'; GRANT SELECT ON app.* TO e2e_cache@'%'; \
         CREATE OR REPLACE TABLE app.cache_times (t TIMESTAMP); INSERT INTO app.cache_times VALUES ('2020-01-01 00:00:00')",
    )
    .await;
    let front = start(
        Family::MariaDb,
        table,
        &[
            rule("own", "digest_regex = ' AS own '\ncache = \"on\"\ncache_ttl_ms = 600000"),
            rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\ncache_shared = true"),
        ]
        .concat(),
    )
    .await;
    let mut client = front.client().await;
    let time = "SELECT t FROM cache_times";
    all(&mut client, "SET time_zone = '+00:00'").await;
    let here = value(&mut client, time).await;
    assert!(is_hit(&front, &mut client, time).await);
    all(&mut client, "SET time_zone = '+03:00'").await;
    let there = value(&mut client, time).await;
    assert_ne!(here, there);
    all(&mut client, "SET time_zone = '+00:00'").await;
    assert!(is_hit(&front, &mut client, time).await);
    assert_eq!(value(&mut client, time).await, here);
    // The schema, the mode, and each byte of the text.
    let text = format!("SELECT COUNT(*) FROM {table}");
    all(&mut client, &text).await;
    assert!(is_hit(&front, &mut client, &text).await);
    all(&mut client, "SET sql_mode = 'ANSI'").await;
    assert!(!is_hit(&front, &mut client, &text).await);
    all(&mut client, "SET sql_mode = DEFAULT").await;
    assert!(!is_hit(&front, &mut client, &format!("{text} ")).await);
    // What changes nothing does not count.
    all(&mut client, "SET wait_timeout = 1234").await;
    assert!(is_hit(&front, &mut client, &format!("{text} ")).await);
    // Without `cache_shared` each user has its own answers, with it they share.
    let mut other = front.login("e2e_cache", "x").await.unwrap();
    other.init_db(lab::APP_DATABASE).await.unwrap();
    let own = format!("SELECT n AS own FROM {table} WHERE id = 3");
    for client in [&mut client, &mut other] {
        for _ in 0..2 {
            assert_eq!(value(client, &own).await, "30");
        }
    }
    assert_eq!(hits(&front, "own").await, 2);
}

#[tokio::test]
async fn what_may_not_be_kept_is_answered_by_servers_and_counted() {
    let table = "cache_refused";
    let front =
        start(Family::MariaDb, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let mut client = front.client().await;
    let known = hits(&front, "all").await;
    for (sql, reason) in [
        (format!("SELECT NOW(6), n FROM {table}"), "volatile_function"),
        (format!("SELECT RAND() FROM {table}"), "volatile_function"),
        (format!("SELECT n FROM {table} FOR UPDATE"), "locks"),
        (format!("SELECT SQL_NO_CACHE n FROM {table}"), "asked"),
        (format!("/* sqluice: primary */ SELECT n FROM {table}"), "hint"),
        ("SELECT 1".to_owned(), "no_table"),
        ("SELECT COUNT(*) FROM information_schema.tables".to_owned(), "server_tables"),
        (format!("SELECT CAST('x' AS SIGNED), n FROM {table}"), "warnings"),
        (format!("SELECT nothing FROM {table}"), "failed"),
    ] {
        let before = refused(&front, "all", reason).await;
        for _ in 0..2 {
            // Whether it fails is the server's affair.
            let _ = client.query(&sql).await;
        }
        assert!(refused(&front, "all", reason).await >= before + 2, "{sql}: {}", of_rule(&front, "all").await);
    }
    assert_eq!(hits(&front, "all").await, known);
    // A session with a user variable asks, one with autocommit off does not.
    all(&mut client, "SET autocommit = 0").await;
    value(&mut client, &format!("SELECT n FROM {table} WHERE id = 1")).await;
    let counts = of_rule(&front, "all").await["refused"].clone();
    assert!(counts["autocommit_off"].as_u64() > Some(0) || counts["pinned"].as_u64() > Some(0), "{counts}");
}

#[tokio::test]
async fn prepared_statements_are_answered_by_their_parameters() {
    let table = "cache_prepared";
    let front =
        start(Family::MariaDb, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let (mut one, mut two) = (front.client().await, front.client().await);
    let text = format!("SELECT n FROM {table} WHERE id = ?");
    let number = |number: i64| Parameter::Int(number);
    let (first, second) = (one.prepare(&text).await.unwrap(), two.prepare(&text).await.unwrap());
    for (id, n) in [(1, "10"), (2, "20")] {
        assert_eq!(one.execute(&first, &[number(id)]).await.unwrap()[0].scalar().unwrap(), n);
    }
    let before = hits(&front, "all").await;
    for (id, n) in [(2, "20"), (1, "10"), (2, "20")] {
        assert_eq!(one.execute(&first, &[number(id)]).await.unwrap()[0].scalar().unwrap(), n);
        assert_eq!(two.execute(&second, &[number(id)]).await.unwrap()[0].scalar().unwrap(), n);
    }
    assert_eq!(hits(&front, "all").await - before, 6, "{}", of_rule(&front, "all").await);
    // A parameter of another type is another question, and the text alone is one of its own.
    let text_parameter = Parameter::Bytes(b"2".to_vec());
    assert_eq!(two.execute(&second, &[text_parameter]).await.unwrap()[0].scalar().unwrap(), "20");
    assert_eq!(value(&mut two, &format!("SELECT n FROM {table} WHERE id = 2")).await, "20");
    assert_eq!(hits(&front, "all").await - before, 6);
    all(&mut two, &format!("UPDATE {table} SET n = 21 WHERE id = 2")).await;
    assert_eq!(one.execute(&first, &[number(2)]).await.unwrap()[0].scalar().unwrap(), "21");
    // What was prepared in another state is another question.
    all(&mut one, "SET sql_mode = 'ANSI'").await;
    let before = hits(&front, "all").await;
    assert_eq!(one.execute(&first, &[number(1)]).await.unwrap()[0].scalar().unwrap(), "10");
    assert_eq!(hits(&front, "all").await, before);
    assert_eq!(one.execute(&first, &[number(1)]).await.unwrap()[0].scalar().unwrap(), "10");
    assert_eq!(hits(&front, "all").await, before + 1);
}

#[tokio::test]
async fn comments_say_what_the_cache_shall_do() {
    let table = "cache_comments";
    let front =
        start(Family::MariaDb, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let mut client = front.client().await;
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    all(&mut client, &read).await;
    assert!(is_hit(&front, &mut client, &read).await);
    // Past the proxy, so that nothing ends the answer.
    accounts(calm(Family::MariaDb).await, &format!("UPDATE app.{table} SET n = 77 WHERE id = 1")).await;
    assert_eq!(value(&mut client, &read).await, "10");
    assert_eq!(value(&mut client, &format!("/*nocache*/ {read}")).await, "77");
    assert_eq!(value(&mut client, &read).await, "10");
    assert_eq!(value(&mut client, &format!("/* sqluice: primary cache=on */ {read}")).await, "77");
    assert_eq!(value(&mut client, &format!("/* sqluice: ttl=600000 */ {read}")).await, "10");
    assert_eq!(value(&mut client, &format!("/* sqluice: ttl=0 */ {read}")).await, "77");
    assert_eq!(value(&mut client, &read).await, "77", "it was kept");
    accounts(calm(Family::MariaDb).await, &format!("UPDATE app.{table} SET n = 78 WHERE id = 1")).await;
    assert_eq!(value(&mut client, &format!("/*wipe*/{read}")).await, "78");
    assert!(is_hit(&front, &mut client, &read).await);
    assert_eq!(value(&mut client, &read).await, "78");
}

#[tokio::test]
async fn replies_beyond_the_bound_stream_and_are_not_kept() {
    let table = "cache_large";
    let front = start(
        Family::MariaDb,
        table,
        &format!(
            "[cache]\nentry_max = \"4KiB\"\n{}",
            rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")
        ),
    )
    .await;
    let mut client = front.client().await;
    let large = format!("SELECT REPEAT('x', 100000) FROM {table}");
    for _ in 0..3 {
        assert_eq!(all(&mut client, &large).await[0].rows.len(), 3);
    }
    assert!(refused(&front, "all", "too_large").await >= 3);
    assert!(!is_hit(&front, &mut client, &large).await);
    assert!(page(&front).await["bytes"].as_u64().unwrap() < 4096, "only that it is too large is remembered");
}

#[tokio::test]
async fn advice_counts_and_answers_nothing() {
    let table = "cache_advise";
    let front =
        start(Family::MariaDb, table, &rule("all", "cluster = \"main\"\ncache = \"advise\"\ncache_ttl_ms = 600000"))
            .await;
    let mut client = front.client().await;
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    let reads = async || front.metrics().await.sum("sqluice_server_reads_total", &[]);
    let (before, known) = (reads().await, hits(&front, "all").await);
    for _ in 0..5 {
        assert_eq!(value(&mut client, &read).await, "10");
    }
    // A client has its answer a moment before that is counted.
    until("five answers of servers", async || (reads().await - before >= 5.0).then_some(())).await;
    assert_eq!(reads().await - before, 5.0);
    assert_eq!(hits(&front, "all").await - known, 4);
    assert_eq!(front.metrics().await.sum("sqluice_cache_hits_total", &["rule=\"all\""]), known as f64 + 4.0);
    assert_eq!(of_rule(&front, "all").await["bytes"], 0);
}

#[tokio::test]
async fn what_is_wiped_is_asked_anew() {
    let table = "cache_wipe";
    let front =
        start(Family::MariaDb, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let mut client = front.client().await;
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    for query in ["", "?rule=all", "?cluster=main", &format!("?table=app.{table}&cluster=main")] {
        all(&mut client, &read).await;
        assert!(is_hit(&front, &mut client, &read).await);
        let (status, body) = wipe(&front, query).await;
        assert_eq!(
            (status, serde_json::from_str::<Value>(&body).unwrap()["answers"].as_u64()),
            (200, Some(1)),
            "{body}"
        );
        assert!(!is_hit(&front, &mut client, &read).await);
    }
    for query in ["?rule=other", "?table=app.other", "?cluster=other"] {
        assert!(wipe(&front, query).await.1.contains("\"answers\":0"), "{query}");
    }
    assert!(is_hit(&front, &mut client, &read).await);
    assert_eq!(wipe(&front, "?table=x").await.0, 400);
    assert_eq!(http_with(&front.admin, "DELETE", "/api/v1/cache", None).await.0, 401);
}

#[tokio::test]
async fn a_write_ends_what_was_read_from_its_tables_and_no_more() {
    accounts(
        calm(Family::MariaDb).await,
        "DROP VIEW IF EXISTS app.cache_view; DROP VIEW IF EXISTS app.cache_clock; DROP TABLE IF EXISTS app.cache_child; \
         CREATE OR REPLACE TABLE app.cache_parent (id INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO app.cache_parent VALUES (1), (2); \
         CREATE TABLE app.cache_child (id INT, FOREIGN KEY (id) REFERENCES app.cache_parent (id) ON DELETE CASCADE) ENGINE=InnoDB; \
         INSERT INTO app.cache_child VALUES (1), (2); \
         CREATE OR REPLACE TABLE app.cache_counted (n INT); CREATE OR REPLACE TABLE app.cache_log (n INT); \
         CREATE TRIGGER app.cache_counts AFTER INSERT ON app.cache_counted FOR EACH ROW INSERT INTO app.cache_log VALUES (1); \
         CREATE VIEW app.cache_view AS SELECT id FROM app.cache_child; \
         CREATE VIEW app.cache_clock AS SELECT id, NOW(6) AS t FROM app.cache_child",
    )
    .await;
    let rules = rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000");
    let front = start(Family::MariaDb, "cache_other", &rules).await;
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
    // What a view tells of the clock is no answer to keep.
    let before = refused(&front, "all", "unknown_tables").await;
    all(&mut client, "SELECT t FROM cache_clock").await;
    assert_eq!(refused(&front, "all", "unknown_tables").await, before + 1);
}

#[tokio::test]
async fn a_transaction_that_is_older_than_the_first_answer_ends_it() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE TABLE app.cache_older (n INT); INSERT INTO app.cache_older VALUES (1)").await;
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
    knows_tables(&front, &mut reader, read).await;
    assert_eq!(value(&mut reader, read).await, "1");
    all(&mut writer, "COMMIT").await;
    assert_eq!(value(&mut reader, read).await, "2");
}

/// Sessions write rows and read them. None reads older than its own write; where reads must find what any session has written, none
/// reads older than what anybody was told.
async fn check_writes(family: Family, consistency: &str) {
    let (table, own) = (&*format!("cache_{consistency}"), consistency == "session");
    const SESSIONS: usize = 8;
    const PLAYED: Duration = Duration::from_secs(4);
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
    let told: Arc<[AtomicU64]> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let next = Arc::new(AtomicU64::new(1_000));
    let mut setup = front.client().await;
    all(&mut setup, &format!("INSERT INTO {table} VALUES (0, 0), (1, 0), (2, 0), (3, 0)")).await;
    knows_tables(&front, &mut setup, &format!("SELECT COUNT(*) FROM {table}")).await;
    let end = Instant::now() + PLAYED;
    let mut tasks = Vec::new();
    for session in 0..SESSIONS {
        let written = if own { (0..4).map(|_| AtomicU64::new(0)).collect() } else { told.clone() };
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
                    if below(2) == 0 {
                        all(&mut client, &write).await;
                    } else {
                        all(&mut client, "BEGIN").await;
                        all(&mut client, &write).await;
                        all(&mut client, "COMMIT").await;
                    }
                    // Whoever asks from now on must see it.
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
    let counts = of_rule(&front, "all").await;
    assert!(counts["hits"].as_u64() > Some(100), "the cache must have answered: {counts}");
}

#[tokio::test]
async fn nobody_reads_older_than_is_promised() {
    check_writes(Family::MariaDb, "session").await;
    check_writes(Family::MariaDb, "cluster").await;
}

#[tokio::test]
async fn nobody_reads_older_than_is_promised_with_mysql() {
    if has_mysql() {
        check_writes(Family::MySql, "session").await;
        check_writes(Family::MySql, "cluster").await;
    }
}

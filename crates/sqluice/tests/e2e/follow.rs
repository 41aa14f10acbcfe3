//! Answers that are followed: what is written around Sqluice, or through another one, ends them, and they are never older than the delay that is
//! shown.

mod others;
pub mod play;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::{Family, Replication, ReplicationOptions};
use net::query::{Client, Limits};

use crate::login::accounts;
use crate::support::cache::{KEY, hits, is_hit, page, until_hit};
use crate::support::{Front, Setup, all, app, blocking, calm, has_mysql, until, value};

const RULE: &str = "[[rule]]\nname = \"all\"\ncluster = \"main\"\ncache = \"on\"\ncache_freshness = \"follow\"\n";
/// `follow_delay_max_ms`
const DELAY_MAX: Duration = Duration::from_millis(2_000);

fn follows(setup: &mut Setup) {
    let (user, password) = (lab::REPL_USER, lab::REPL_PASSWORD);
    setup.admin = format!("key = \"{KEY}\"");
    if !setup.cluster.contains("replication = ") {
        setup.cluster.push_str(&format!("\nreplication = {{ user = \"{user}\", password = \"{password}\" }}"));
    }
    setup.more = format!("[cache]\nfollow_delay_max_ms = {}\n{RULE}", DELAY_MAX.as_millis());
}

/// Connects to the primary past all proxies.
pub(crate) async fn direct(servers: &Replication) -> Client {
    let target =
        net::client::Target::plain(servers.primary().address().to_string().parse().unwrap(), Duration::from_secs(15));
    Client::connect(&target, app(), Limits::default()).await.unwrap()
}

/// A table of the test's own with two rows, one that refers to it, and a view of it.
async fn make(family: Family, table: &str) {
    accounts(
        calm(family).await,
        &format!(
            "DROP TABLE IF EXISTS app.{table}_child; DROP TABLE IF EXISTS app.{table}; \
             CREATE TABLE app.{table} (id INT PRIMARY KEY, n INT) ENGINE=InnoDB; INSERT INTO app.{table} VALUES (1, 10), (2, 20); \
             CREATE TABLE app.{table}_child (id INT, FOREIGN KEY (id) REFERENCES app.{table} (id) ON DELETE CASCADE) ENGINE=InnoDB; \
             INSERT INTO app.{table}_child VALUES (1), (2); \
             CREATE OR REPLACE VIEW app.{table}_view AS SELECT id, n FROM app.{table} WHERE id = 1"
        ),
    )
    .await;
}

/// Nobody's rights count: those that other tests change would have answers asked for anew.
async fn start(family: Family, table: &str) -> Front {
    make(family, table).await;
    let shared = |setup: &mut Setup| {
        follows(setup);
        setup.more.push_str("cache_shared = true\n");
    };
    Front::start(calm(family).await, shared).await
}

/// How often something was changed that nobody knows, so that all answers had to be asked for anew.
async fn ended_all(front: &Front) -> u64 {
    page(front).await["ends"]["main"]["all"].as_u64().unwrap_or(0)
}

/// A write on the server itself invalidates the results that depend on it, and no other ones.
async fn check_around(family: Family) {
    let table = "follow_around";
    let front = start(family, table).await;
    let (mut client, mut around) = (front.client().await, direct(calm(family).await).await);
    let (read, child) = (format!("SELECT n FROM {table} WHERE id = 1"), format!("SELECT COUNT(*) FROM {table}_child"));
    let view = format!("SELECT n FROM {table}_view");
    let sees = async |client: &mut Client, read: &str, expected: &str| {
        let written = Instant::now();
        until(expected, async || (value(client, read).await == expected).then_some(())).await;
        assert!(written.elapsed() < DELAY_MAX, "{read}: {:?}", written.elapsed());
    };
    for text in [&read, &child, &view] {
        until_hit(&front, &mut client, text).await;
    }
    all(&mut around, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
    sees(&mut client, &read, "11").await;
    sees(&mut client, &view, "11").await;
    // A foreign key's rows are in no log.
    until_hit(&front, &mut client, &child).await;
    all(&mut around, &format!("DELETE FROM {table} WHERE id = 2")).await;
    sees(&mut client, &child, "1").await;
    // A definition.
    until_hit(&front, &mut client, &view).await;
    all(
        &mut around,
        &format!("CREATE OR REPLACE VIEW {table}_view AS SELECT id, n + 100 AS n FROM {table} WHERE id = 1"),
    )
    .await;
    sees(&mut client, &view, "111").await;
    until_hit(&front, &mut client, &view).await;
    all(&mut around, &format!("ALTER TABLE {table} ADD more INT DEFAULT 5")).await;
    sees(&mut client, &format!("SELECT more FROM {table} WHERE id = 1"), "5").await;
    // Results of untouched tables stay, in spite of all heartbeats. Definitions by other tests on these servers
    // invalidate all results.
    until("half a second without anybody's definition", async || {
        let all_before = ended_all(&front).await;
        until_hit(&front, &mut client, &child).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let stays = is_hit(&front, &mut client, &child).await;
        assert!(stays || ended_all(&front).await > all_before, "{}", page(&front).await);
        stays.then_some(())
    })
    .await;
    let delay = page(&front).await["follow"]["main"]["delay_ms"].as_u64().unwrap();
    assert!(delay < 1_000, "{delay}");
}

#[tokio::test]
async fn what_is_written_around_it_ends_answers() {
    check_around(Family::MariaDb).await;
}

#[tokio::test]
async fn what_is_written_around_it_ends_answers_with_mysql() {
    if has_mysql() {
        check_around(Family::MySql).await;
    }
}

/// A row's change on the server itself ends what was read of it and of its table, but not what was read of other rows.
async fn check_rows(family: Family) {
    let table = "follow_rows";
    accounts(calm(family).await, "SET GLOBAL binlog_row_metadata = 'FULL'").await;
    let front = start(family, table).await;
    let (mut client, mut around) = (front.client().await, direct(calm(family).await).await);
    let row = |id: u32| format!("SELECT COALESCE(MAX(n), 0) FROM {table} WHERE id = {id}");
    let (one, two, none, sum) = (row(1), row(2), row(7), format!("SELECT SUM(n) FROM {table}"));
    let prepared = client.prepare(&format!("SELECT n FROM {table} WHERE id = ?")).await.unwrap();
    let asked_anew = async || page(&front).await["rules"][0]["misses"].as_u64();
    let (all_at_first, mut left_alone) = (ended_all(&front).await, 0);
    for (write, changed, expected) in [
        ("UPDATE TABLE SET n = 21 WHERE id = 2", vec![&two, &sum], "21"),
        ("INSERT INTO TABLE VALUES (7, 70)", vec![&none, &sum], "70"),
        ("UPDATE TABLE SET id = 8 WHERE id = 7", vec![&none], "0"),
        ("UPDATE TABLE SET id = 2 WHERE id = 8 OR id = 9", vec![], ""),
        ("DELETE FROM TABLE WHERE id = 2", vec![&two, &sum], "0"),
        ("UPDATE TABLE SET id = 2, n = 72 WHERE id = 8", vec![&two, &sum], "72"),
    ] {
        let all_before = ended_all(&front).await;
        for read in [&one, &two, &none, &sum] {
            until_hit(&front, &mut client, read).await;
        }
        let execute = async |client: &mut Client| {
            client.execute(&prepared, &[net::query::Parameter::Int(1)]).await.unwrap()[0].scalar().unwrap().into_owned()
        };
        let value_of_one = until("the answer to the prepared statement to be kept", async || {
            let before = hits(&front, "all").await;
            let value = execute(&mut client).await;
            (hits(&front, "all").await > before).then_some(value)
        })
        .await;
        // Its key is taken: nothing changes.
        if around.query(write.replace("TABLE", table)).await.is_err() {
            assert!(changed.is_empty(), "{write}");
        }
        for read in &changed {
            let expected = if **read == sum { value(&mut around, &sum).await } else { expected.to_owned() };
            until(write, async || (value(&mut client, read).await == expected).then_some(())).await;
        }
        // The answers to reads of another row are not asked for anew.
        let before = asked_anew().await;
        until_hit(&front, &mut client, &one).await;
        assert_eq!(execute(&mut client).await, value_of_one);
        let is_left_alone = asked_anew().await == before;
        assert!(is_left_alone || ended_all(&front).await > all_before, "{write}: {}", page(&front).await);
        left_alone += u32::from(is_left_alone);
    }
    assert!(left_alone > 0, "other tests ended all answers each time");
    let ends = &page(&front).await["ends"]["main"];
    // A foreign key may have written the other table with each of them.
    assert!(ends["by_table"].as_u64() >= Some(5) || ended_all(&front).await > all_at_first, "{ends}");
}

#[tokio::test]
async fn a_row_that_is_written_around_it_ends_by_itself() {
    check_rows(Family::MariaDb).await;
}

#[tokio::test]
async fn a_row_that_is_written_around_it_ends_by_itself_with_mysql() {
    if has_mysql() {
        check_rows(Family::MySql).await;
    }
}

/// Where the log cannot be followed servers answer, and each statement counts.
#[tokio::test]
async fn without_the_right_to_read_the_log_servers_answer() {
    let table = "follow_not";
    drop(start(Family::MariaDb, table).await);
    let front = Front::start(calm(Family::MariaDb).await, |setup| {
        follows(setup);
        setup.cluster = "slow_start_s = 0".into();
    })
    .await;
    let mut client = front.client().await;
    for _ in 0..20 {
        assert_eq!(value(&mut client, &format!("SELECT n FROM {table} WHERE id = 1")).await, "10");
    }
    let page = page(&front).await;
    assert_eq!(
        (&page["rules"][0]["hits"], &page["rules"][0]["refused"]["not_following"]),
        (&0.into(), &20.into()),
        "{page}"
    );
    assert!(page["follow"]["main"]["delay_ms"].is_null(), "{page}");
    assert!(front.log().contains("REPLICATION SLAVE"), "{}", front.log());
}

/// When nobody writes, not even the monitor, the log is followed all the same, and a first write is seen.
async fn check_quiet(family: Family) {
    let table = "follow_quiet";
    make(family, table).await;
    let front = Front::start(calm(family).await, |setup| {
        follows(setup);
        setup.monitor.push_str("\nheartbeat = \"off\"");
    })
    .await;
    let (mut client, mut around) = (front.client().await, direct(calm(family).await).await);
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    for n in 11..14 {
        until_hit(&front, &mut client, &read).await;
        all(&mut around, &format!("UPDATE {table} SET n = {n} WHERE id = 1")).await;
        until("the write", async || (value(&mut client, &read).await == n.to_string()).then_some(())).await;
    }
}

/// MySQL from 8.3 on: transactions whose GTIDs have tags end answers like all others, and answers are kept again behind them.
#[tokio::test]
async fn what_is_written_with_a_tag_ends_answers() {
    if !has_mysql() {
        return;
    }
    // Of its own: what a server has executed with a tag it has for ever.
    let options = ReplicationOptions {
        init_sql: "CREATE TABLE app.tagged (id INT PRIMARY KEY, n INT); INSERT INTO app.tagged VALUES (1, 10)".into(),
        ..ReplicationOptions::new(Family::MySql, 0)
    };
    let servers = Arc::new(blocking(move || Replication::start(options).unwrap()).await);
    let front = Front::start(&servers, follows).await;
    let (mut client, read) = (front.client().await, "SELECT n FROM tagged WHERE id = 1");
    for n in 11..14 {
        until_hit(&front, &mut client, read).await;
        let (servers, write) =
            (servers.clone(), format!("SET gtid_next = 'AUTOMATIC:tag'; UPDATE app.tagged SET n = {n}"));
        blocking(move || servers.primary().sql(&write).unwrap()).await;
        let written = Instant::now();
        until("the write", async || (value(&mut client, read).await == n.to_string()).then_some(())).await;
        assert!(written.elapsed() < DELAY_MAX, "{:?}", written.elapsed());
    }
    let executed = blocking(move || servers.primary().sql("SELECT @@global.gtid_executed").unwrap()).await;
    assert!(executed.contains(":tag:"), "{executed}");
}

#[tokio::test]
async fn a_quiet_log_is_followed() {
    check_quiet(Family::MariaDb).await;
    if has_mysql() {
        check_quiet(Family::MySql).await;
    }
}

//! A read never goes to a replica that lacks what its session has written, and replicas get their share of the others.

use std::time::{Duration, Instant};

use lab::{Family, Replication};
use net::query::{Client, Parameter};
use net::tls::ClientTls;
use wire::Capabilities;

use crate::support::{Front, Metrics, all, app, blocking, failing, has_mysql, value};

/// Clients that write and read at the same time.
pub const CLIENTS: usize = 12;
/// Writes of each client, each followed by reads.
const CYCLES: usize = 100;

/// A delay that is longer than any test. Of a few seconds next to nothing may be left: replicas count in whole ones, and
/// where they compare their clock with the primary's as a second begins, they take it for one that is a second behind.
pub const FOR_LONG: &[u32] = &[60, 60];

/// Has replicas apply everything this much later.
pub async fn delay(servers: &'static Replication, family: Family, seconds: &'static [u32]) {
    blocking(move || {
        for (replica, seconds) in servers.replicas().zip(seconds) {
            let sql = match family {
                Family::MariaDb => {
                    format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={seconds}; START SLAVE")
                }
                Family::MySql => {
                    format!("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}; START REPLICA")
                }
            };
            replica.sql(&sql).unwrap();
        }
    })
    .await;
}

/// One row for each client; on all servers before anything is delayed.
pub async fn table(servers: &'static Replication, name: &'static str) {
    let rows: Vec<String> = (0..CLIENTS).map(|client| format!("({client}, 0)")).collect();
    let sql = format!(
        "USE app; DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (id INT PRIMARY KEY, v BIGINT); \
         INSERT INTO {name} VALUES {}",
        rows.join(", ")
    );
    blocking(move || {
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(Duration::from_secs(30)).unwrap();
    })
    .await;
}

pub fn replica_reads(metrics: &Metrics) -> f64 {
    metrics.reads("db2") + metrics.reads("db3")
}

pub fn routed(metrics: &Metrics, reason: &str) -> f64 {
    metrics.sum("sqluice_routes_total", &[&format!("reason=\"{reason}\"")])
}

/// Writes in one of many ways, each of which ends with another kind of reply.
pub async fn write(client: &mut Client, way: usize, table: &str, id: usize, v: usize) {
    let update = format!("UPDATE {table} SET v = {v} WHERE id = {id}");
    match way {
        0 => drop(all(client, &update).await),
        1 => {
            let statement = client.prepare(format!("UPDATE {table} SET v = ? WHERE id = ?")).await.unwrap();
            let parameters = [Parameter::Int(v as i64), Parameter::Int(id as i64)];
            client.execute(&statement, &parameters).await.unwrap();
            client.close(statement).await.unwrap();
        }
        2 => {
            all(client, "BEGIN").await;
            all(client, &update).await;
            all(client, "COMMIT").await;
        }
        3 => {
            all(client, "SET autocommit = 0").await;
            all(client, &update).await;
            all(client, "COMMIT").await;
            all(client, "SET autocommit = 1").await;
        }
        4 => drop(all(client, &format!("DO 1; {update}; SELECT 1")).await),
        5 => {
            all(client, "BEGIN").await;
            all(client, &update).await;
            // Commits what is open.
            all(client, &format!("CREATE TABLE IF NOT EXISTS {table}_{id} (n INT)")).await;
        }
        6 => {
            for sql in ["XA START '{}'", &update, "XA END '{}'", "XA PREPARE '{}'", "XA COMMIT '{}'"] {
                all(client, &sql.replace("{}", &format!("x{id}"))).await;
            }
        }
        7 => {
            for sql in ["SET autocommit = 0", &update, "SET autocommit = 1"] {
                all(client, sql).await;
            }
        }
        8 => drop(all(client, &format!("SET @way = 8; {update}")).await),
        _ => drop(all(client, &format!("CALL {table}_put({v}, {id})")).await),
    }
}

pub const WAYS: usize = 10;

/// Writes and reads what was written, again and again.
async fn cycles(mut client: Client, table: &'static str, id: usize) {
    let text = format!("SELECT v FROM {table} WHERE id = {id}");
    let prepared = client.prepare(format!("SELECT v FROM {table} WHERE id = ?")).await.unwrap();
    for v in 1..=CYCLES {
        let way = (id + v) % WAYS;
        write(&mut client, way, table, id, v).await;
        match v % 3 {
            0 => all(&mut client, "SET @seen = 1").await.truncate(0),
            1 if v % 20 == 1 => client.reset_connection().await.unwrap(),
            1 if v % 20 == 11 => {
                client.change_user(app()).await.unwrap();
            }
            _ => {}
        }
        assert_eq!(value(&mut client, &text).await, v.to_string(), "as text, behind a write of kind {way}");
        if v % 20 == 1 || v % 20 == 11 {
            continue; // Prepared statements may be gone with the reset.
        }
        all(&mut client, "START TRANSACTION READ ONLY").await;
        assert_eq!(value(&mut client, &text).await, v.to_string(), "in a transaction, behind kind {way}");
        all(&mut client, "COMMIT").await;
        let _ = &prepared;
    }
}

async fn prepared_cycles(mut client: Client, table: &'static str, id: usize) {
    let put = client.prepare(format!("UPDATE {table} SET v = ? WHERE id = ?")).await.unwrap();
    let get = client.prepare(format!("SELECT v FROM {table} WHERE id = ?")).await.unwrap();
    let id = Parameter::Int(id as i64);
    for v in 1..=CYCLES as i64 {
        client.execute(&put, &[Parameter::Int(v), id.clone()]).await.unwrap();
        for _ in 0..3 {
            let got = client.execute(&get, std::slice::from_ref(&id)).await.unwrap();
            assert_eq!(got[0].scalar().as_deref(), Some(&*v.to_string()), "prepared");
        }
    }
}

async fn run_all(front: &Front, table: &'static str, without_tracker_room: bool) {
    let mut running = tokio::task::JoinSet::new();
    for id in 0..CLIENTS {
        let mut login = app();
        if without_tracker_room {
            login.capabilities -= Capabilities::DEPRECATE_EOF;
        }
        let client = front.connect(login, ClientTls::disabled()).await.unwrap();
        if id % 3 == 0 {
            running.spawn(prepared_cycles(client, table, id));
        } else {
            running.spawn(cycles(client, table, id));
        }
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

pub async fn procedure(servers: &'static Replication, table: &'static str) {
    let sql = format!(
        "USE app; DROP PROCEDURE IF EXISTS {table}_put;\nDELIMITER //\nCREATE PROCEDURE {table}_put(a INT, b INT) \
         BEGIN SELECT 1; UPDATE {table} SET v = a WHERE id = b; SELECT 2; END//\nDELIMITER ;\n"
    );
    blocking(move || servers.primary().sql(&sql).map(drop).unwrap()).await;
}

/// Replicas a second behind, which is fresh enough for them to serve.
pub async fn check_delayed(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "late").await;
    procedure(servers, "late").await;
    blocking(|| servers.wait_in_sync(Duration::from_secs(30)).unwrap()).await;
    let front = Front::start(servers, |_| {}).await;
    delay(servers, family, &[1, 1]).await;
    front.knows(2).await;
    run_all(&front, "late", false).await;
    let metrics = front.metrics().await;
    assert!(routed(&metrics, "own_write") > (CLIENTS * CYCLES) as f64, "{}", routed(&metrics, "own_write"));
    delay(servers, family, &[0, 0]).await;
}

/// Replicas whose applying threads stop and start all the time.
pub async fn check_halting(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "halting").await;
    procedure(servers, "halting").await;
    blocking(|| servers.wait_in_sync(Duration::from_secs(30)).unwrap()).await;
    let front = Front::start(servers, |_| {}).await;
    let (tell, reported) = std::sync::mpsc::channel::<()>();
    let halting = tokio::task::spawn_blocking(move || {
        let (stop, start) = match family {
            Family::MariaDb => ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD"),
            Family::MySql => ("STOP REPLICA SQL_THREAD", "START REPLICA SQL_THREAD"),
        };
        while reported.recv_timeout(Duration::from_millis(30)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            for replica in servers.replicas() {
                replica.sql(stop).unwrap();
                std::thread::sleep(Duration::from_millis(40));
                replica.sql(start).unwrap();
            }
        }
    });
    run_all(&front, "halting", true).await;
    drop(tell);
    halting.await.unwrap();
    let metrics = front.metrics().await;
    assert!(routed(&metrics, "own_write") > 0.0);
    assert!(replica_reads(&metrics) > 0.0, "replicas never had what was written");
}

/// Behind a write, reads soon go to replicas again; with `consistency_wait_ms` nearly all do.
pub async fn check_share(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "shared").await;
    for (listener, share_min) in [("", 0.2), ("consistency_wait_ms = 2000", 0.9)] {
        let front = Front::start(servers, |setup| setup.listener = listener.into()).await;
        let mut client = front.client().await;
        let before = front.metrics().await;
        let mut reads = 0.0;
        for v in 1..=40 {
            all(&mut client, &format!("UPDATE shared SET v = {v} WHERE id = 1")).await;
            let written = Instant::now();
            while written.elapsed() < Duration::from_millis(50) {
                assert_eq!(value(&mut client, "SELECT v FROM shared WHERE id = 1").await, v.to_string());
                reads += 1.0;
            }
        }
        let after = front.metrics().await;
        let share = (replica_reads(&after) - replica_reads(&before)) / reads;
        eprintln!("{family:?} {listener}: {share:.2} of {reads} reads on replicas");
        assert!(share > share_min, "{listener}: {share:.2} of {reads} reads on replicas");
        let waits = after.sum("sqluice_replica_waits_total", &[]);
        assert_eq!(waits > 0.0, !listener.is_empty(), "{waits}");
    }
}

/// A statement may say that it does not need its session's writes, and so may a user.
#[tokio::test]
async fn a_read_may_do_without() {
    let servers = failing(Family::MariaDb).await;
    let servers: &'static Replication = &servers;
    delay(servers, Family::MariaDb, &[0, 0]).await;
    table(servers, "without").await;
    let front = Front::start(servers, |_| {}).await;
    let careless = Front::start(servers, |setup| setup.more = "[user.app]\nconsistency = \"none\"".into()).await;
    delay(servers, Family::MariaDb, FOR_LONG).await;
    front.knows(2).await;
    let mut client = front.client().await;
    all(&mut client, "UPDATE without SET v = 7 WHERE id = 1").await;
    assert_eq!(value(&mut client, "/* sqluice: consistency=none */ SELECT v FROM without WHERE id = 1").await, "0");
    assert_eq!(value(&mut client, "SELECT v FROM without WHERE id = 1").await, "7");
    let mut client = careless.client().await;
    all(&mut client, "UPDATE without SET v = 8 WHERE id = 1").await;
    assert_eq!(value(&mut client, "SELECT v FROM without WHERE id = 1").await, "0");
    delay(servers, Family::MariaDb, &[0, 0]).await;
}

/// A write past the binary log is read on its server.
#[tokio::test]
async fn unlogged_writes_are_read_where_they_are() {
    let servers = failing(Family::MariaDb).await;
    let servers: &'static Replication = &servers;
    table(servers, "unlogged").await;
    blocking(move || {
        let grants =
            "GRANT SELECT, UPDATE ON app.* TO logless@'%' IDENTIFIED BY 'x'; GRANT BINLOG ADMIN ON *.* TO logless@'%'";
        servers.primary().sql(grants).unwrap();
        servers.wait_in_sync(Duration::from_secs(30)).unwrap();
    })
    .await;
    let front = Front::start(servers, |_| {}).await;
    let mut client = front.login("logless", "x").await.unwrap();
    all(&mut client, "SET sql_log_bin = 0").await;
    all(&mut client, "UPDATE app.unlogged SET v = 7 WHERE id = 1").await;
    all(&mut client, "SET sql_log_bin = 1").await;
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        assert_eq!(value(&mut client, "SELECT v FROM app.unlogged WHERE id = 1").await, "7");
    }
}

/// One replica is a second behind the other; reads of one session do not jump between the two.
pub async fn check_no_way_back(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "back").await;
    let front = Front::start(servers, |_| {}).await;
    delay(servers, family, &[1, 0]).await;
    front.knows(2).await;
    let (mut writer, mut reader) = (front.client().await, front.client().await);
    let start = Instant::now();
    let now_ms = move || start.elapsed().as_millis() as i64;
    let writing = tokio::spawn(async move {
        while now_ms() < 4_000 {
            all(&mut writer, &format!("UPDATE back SET v = {} WHERE id = 1", now_ms())).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let (mut newest, mut reads, mut back) = (0, 0, 0);
    while now_ms() < 4_000 {
        let seen: i64 = value(&mut reader, "SELECT v FROM back WHERE id = 1").await.parse().unwrap();
        // Positions are read every 100 ms here, and later if the machine does not run the monitor: reads go by older ones then.
        // Without a look at positions half of all reads go back by a second.
        back += i32::from(seen < newest - 500);
        reads += 1;
        newest = newest.max(seen);
    }
    writing.await.unwrap();
    assert!(newest > 2_000, "{newest}");
    assert!(back * 20 <= reads, "{back} of {reads} reads went back");
    let metrics = front.metrics().await;
    assert!(replica_reads(&metrics) > 100.0, "{}", replica_reads(&metrics));
    delay(servers, family, &[0, 0]).await;
}

/// Writes of others that a session has read on the primary are still there when its next read could go to a replica.
pub async fn check_seen_on_primary(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "seen").await;
    let front = Front::start(servers, |_| {}).await;
    delay(servers, family, &[1, 1]).await;
    front.knows(2).await;
    let (mut other, mut reader) = (front.client().await, front.client().await);
    let read = "SELECT v FROM seen WHERE id = 1";
    let ways: [&[&str]; 4] = [&["BEGIN", read, "COMMIT"], &["BEGIN", read, "ROLLBACK"], &["FOR UPDATE"], &["HINT"]];
    for (way, steps) in (1..).zip(ways.iter().cycle().take(12)) {
        all(&mut other, &format!("UPDATE seen SET v = {way} WHERE id = 1")).await;
        match steps {
            ["FOR UPDATE"] => assert_eq!(value(&mut reader, &format!("{read} FOR UPDATE")).await, way.to_string()),
            ["HINT"] => {
                assert_eq!(value(&mut reader, &format!("/* sqluice: primary */ {read}")).await, way.to_string());
            }
            steps => {
                for step in *steps {
                    all(&mut reader, step).await;
                }
            }
        }
        // More than once: the position of what was seen is told meanwhile.
        for _ in 0..20 {
            assert_eq!(value(&mut reader, read).await, way.to_string(), "after {steps:?}");
        }
    }
    assert!(routed(&front.metrics().await, "earlier_read") > 0.0);
    // When the replicas have it, they serve again. Not delayed any more: MariaDB may then take a second for each change.
    delay(servers, family, &[0, 0]).await;
    blocking(move || servers.wait_in_sync(Duration::from_secs(30)).unwrap()).await;
    let before = replica_reads(&front.metrics().await);
    let until = Instant::now() + Duration::from_secs(30);
    while replica_reads(&front.metrics().await) == before {
        assert!(Instant::now() < until, "no replica serves the session again");
        for _ in 0..20 {
            all(&mut reader, read).await;
        }
    }
}

#[tokio::test]
async fn what_was_seen_on_the_primary_stays() {
    check_seen_on_primary(Family::MariaDb).await;
}

#[tokio::test]
async fn mysql_what_was_seen_on_the_primary_stays() {
    if has_mysql() {
        check_seen_on_primary(Family::MySql).await;
    }
}

#[tokio::test]
async fn delayed_replicas_are_not_asked_too_early() {
    check_delayed(Family::MariaDb).await;
}

#[tokio::test]
async fn halting_replicas_are_not_asked_too_early() {
    check_halting(Family::MariaDb).await;
}

#[tokio::test]
async fn replicas_get_their_share() {
    check_share(Family::MariaDb).await;
}

#[tokio::test]
async fn reads_do_not_go_back() {
    check_no_way_back(Family::MariaDb).await;
}

#[tokio::test]
async fn mysql_delayed_replicas_are_not_asked_too_early() {
    if has_mysql() {
        check_delayed(Family::MySql).await;
    }
}

#[tokio::test]
async fn mysql_halting_replicas_are_not_asked_too_early() {
    if has_mysql() {
        check_halting(Family::MySql).await;
    }
}

#[tokio::test]
async fn mysql_replicas_get_their_share() {
    if has_mysql() {
        check_share(Family::MySql).await;
    }
}

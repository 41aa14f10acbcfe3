//! Limits of pools: what waits, in which order, what it is told, and what is closed when.

use std::time::{Duration, Instant};

use lab::Family;
use net::query::Client;
use tokio::task::JoinHandle;

use crate::login::accounts;
use crate::support::{Front, SOON, all, blocking, calm, error, families, has_mysql, until, value};

/// Clients that hold a connection of the primary.
async fn holding(front: &Front) -> Client {
    let mut client = front.client().await;
    all(&mut client, "BEGIN").await;
    all(&mut client, "SELECT 1").await;
    client
}

/// Runs a statement beside the test; returns when so many wait.
async fn waiting(front: &Front, sql: String, waiters: f64) -> JoinHandle<Client> {
    let mut client = front.client().await;
    let task = tokio::spawn(async move {
        all(&mut client, &sql).await;
        client
    });
    until("the statement to wait", async || {
        (front.metrics().await.sum("sqluice_pool_waiting_statements", &[]) == waiters).then_some(())
    })
    .await;
    task
}

#[tokio::test]
async fn who_waits_in_vain_hears_for_what_why_and_how_long() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.pool = "max_connections_per_server = 1\nwait_ms = 300\nwait_max = 1".into();
    })
    .await;
    let mut second = front.client().await;
    let mut third = front.client().await;
    let mut holder = holding(&front).await;
    let begun = Instant::now();
    let (code, message) = error(&mut second, "/* sqluice: primary */ SELECT 2").await;
    assert!(begun.elapsed() >= Duration::from_millis(290));
    assert_eq!(code, 1203);
    for words in ["sqluice: waited 3", "'db1'", "max_connections_per_server"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    // A replica's pool is another one.
    assert_eq!(value(&mut second, "SELECT 3").await, "3");
    let waits = tokio::spawn(async move {
        let reported = error(&mut second, "/* sqluice: primary */ SELECT 4").await;
        (second, reported)
    });
    until("one to wait", async || {
        (front.metrics().await.sum("sqluice_pool_waiting_statements", &[]) == 1.0).then_some(())
    })
    .await;
    // One too many does not wait until its own time is over, of which it would be told otherwise.
    let (code, message) = error(&mut third, "/* sqluice: primary */ SELECT 5").await;
    assert!(message.contains("wait_max") && code == 1203, "{message}");
    let (mut second, reported) = waits.await.unwrap();
    assert_eq!(reported.0, 1203);
    all(&mut holder, "COMMIT").await;
    assert_eq!(value(&mut second, "/* sqluice: primary */ SELECT 6").await, "6");
    assert_eq!(front.metrics().await.sum("sqluice_pool_wait_timeouts_total", &[]), 2.0);
}

#[tokio::test]
async fn who_came_first_is_served_first() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE TABLE app.queue (n INT AUTO_INCREMENT PRIMARY KEY, who INT)").await;
    let front = Front::start(servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = "max_connections_per_server = 1".into();
    })
    .await;
    // They log in first: their schema is checked on the only connection, too.
    let mut holder = holding(&front).await;
    let mut waiters = Vec::new();
    for who in 1..=5 {
        waiters.push(waiting(&front, format!("INSERT INTO app.queue (who) VALUES ({who})"), f64::from(who)).await);
    }
    all(&mut holder, "COMMIT").await;
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let order = value(&mut holder, "/* sqluice: primary */ SELECT GROUP_CONCAT(who ORDER BY n) FROM app.queue").await;
    assert_eq!(order, "1,2,3,4,5");
}

#[tokio::test]
async fn a_user_gets_no_more_connections_than_allowed() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE USER e2e_many@'%' IDENTIFIED BY 'm'").await;
    let front = Front::start(servers, |setup| {
        setup.pool = "wait_ms = 300".into();
        setup.more = "[user.e2e_many]\nmax_connections = 1".into();
    })
    .await;
    let mut first = front.login("e2e_many", "m").await.unwrap();
    let mut second = front.login("e2e_many", "m").await.unwrap();
    all(&mut first, "BEGIN").await;
    all(&mut first, "SELECT 1").await;
    let (code, message) = error(&mut second, "SELECT 1").await;
    assert_eq!(code, 1203);
    assert!(message.contains("max_connections"), "{message}");
    assert_eq!(value(&mut front.client().await, "SELECT 7").await, "7");
    all(&mut first, "ROLLBACK").await;
    assert_eq!(value(&mut second, "SELECT 8").await, "8");
}

#[tokio::test]
async fn the_limits_of_a_server_and_of_the_cluster_hold() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.pool = "max_connections_per_server = 50\nmax_connections = 6".into();
        setup.servers[0] = setup.servers[0].replace(" }", ", max_connections = 2 }");
    })
    .await;
    let mut tasks = Vec::new();
    for number in 0..24 {
        let mut client = front.client().await;
        tasks.push(tokio::spawn(async move {
            for round in 0..15 {
                let hint = if (number + round) % 2 == 0 { "/* sqluice: primary */ " } else { "" };
                all(&mut client, &format!("{hint}SELECT SLEEP(0.01)")).await;
            }
        }));
    }
    let (mut most_primary, mut most) = (0.0_f64, 0.0_f64);
    while !tasks.iter().all(JoinHandle::is_finished) {
        let metrics = front.metrics().await;
        most_primary = most_primary.max(metrics.sum("sqluice_server_connections", &["server=\"db1\""]));
        most = most.max(metrics.sum("sqluice_server_connections", &[]));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!((3.0..=6.0).contains(&most), "{most} connections of 6 to all servers");
    assert!(most_primary <= 2.0, "{most_primary} connections to a server that takes 2");
}

#[tokio::test]
async fn the_clusters_limit_serves_all_servers_and_workers() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| setup.pool = "max_connections = 2\nwait_ms = 2000".into()).await;
    let client = async || front.login(lab::APP_USER, lab::APP_PASSWORD).await.unwrap();
    // The first and the third client are at one worker, the second at the other.
    let (mut one, mut other, mut third) = (client().await, client().await, client().await);
    all(&mut one, "BEGIN").await;
    all(&mut one, "SELECT 1").await;
    all(&mut third, "/* sqluice: server=db2 */ SELECT 2").await;
    // Both places are at the first worker now, one of them idle: it must not keep anybody waiting.
    for server in ["db3", "db2", "db1", "db3"] {
        all(&mut other, &format!("/* sqluice: server={server} */ SELECT 3")).await;
        all(&mut third, &format!("/* sqluice: server={server} */ SELECT 4")).await;
    }
}

#[tokio::test]
async fn idle_connections_are_closed_but_for_the_warm_minimum() {
    let servers = calm(Family::MariaDb).await;
    let idle = async |front: &Front| front.metrics().await.sum("sqluice_server_connections", &["state=\"idle\""]);
    let front = Front::start(servers, |setup| setup.pool = "idle_timeout_s = 1".into()).await;
    let mut client = front.client().await;
    all(&mut client, "SELECT 1").await;
    all(&mut client, "DO 1").await;
    until("idle connections", async || (idle(&front).await >= 1.0).then_some(())).await;
    until("idle connections to be closed", async || (idle(&front).await == 0.0).then_some(())).await;
    all(&mut client, "SELECT 1").await;
    // Each worker keeps its part for servers that it has used: with one worker that is all of it.
    let front = Front::start(servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = "idle_timeout_s = 1\nmin_idle = 2".into();
    })
    .await;
    let mut client = front.client().await;
    for server in ["db1", "db2", "db3"] {
        all(&mut client, &format!("/* sqluice: server={server} */ SELECT 1")).await;
    }
    until("each server to have its warm minimum", async || {
        let metrics = front.metrics().await;
        let of =
            |server| metrics.sum("sqluice_server_connections", &[&format!("server=\"{server}\""), "state=\"idle\""]);
        (["db1", "db2", "db3"].map(of) == [2.0; 3]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_was_killed_while_idle_costs_no_error() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE USER e2e_killed@'%' IDENTIFIED BY 'k'; GRANT ALL ON app.* TO e2e_killed@'%'")
        .await;
    accounts(servers, "CREATE TABLE IF NOT EXISTS app.killed (n INT)").await;
    let front = Front::start(servers, |_| {}).await;
    let mut client = front.login("e2e_killed", "k").await.unwrap();
    for round in 0..5 {
        all(&mut client, "SELECT 1 FROM app.killed").await;
        all(&mut client, &format!("INSERT INTO app.killed VALUES ({round})")).await;
        blocking(move || {
            for server in servers.servers() {
                server.sql("KILL USER e2e_killed").unwrap();
            }
        })
        .await;
        until("the servers to have closed them", async || {
            blocking(move || {
                let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'e2e_killed'";
                servers.servers().iter().all(|server| server.sql(sql).unwrap().trim() == "0").then_some(())
            })
            .await
        })
        .await;
        all(&mut client, &format!("INSERT INTO app.killed VALUES ({round})")).await;
        all(&mut client, "SELECT 1 FROM app.killed").await;
    }
    assert_eq!(front.metrics().await.sum("sqluice_own_errors_total", &[]), 0.0);
}

#[tokio::test]
async fn connections_beyond_the_sessions_and_of_dropped_users_are_closed() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE USER e2e_leaves@'%' IDENTIFIED BY 'leaves'").await;
    let front = Front::start(servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = "spare_timeout_s = 1".into();
    })
    .await;
    let idle = async || front.metrics().await.sum("sqluice_server_connections", &["server=\"db1\"", "state=\"idle\""]);
    let (one, two, mut three) = (holding(&front).await, holding(&front).await, holding(&front).await);
    for client in [one, two] {
        client.quit().await.unwrap();
    }
    all(&mut three, "COMMIT").await;
    until("two of three to be closed", async || (idle().await == 1.0).then_some(())).await;
    // The session that is left has one, however long it rests; a user who is gone has none.
    let mut leaves = front.login("e2e_leaves", "leaves").await.unwrap();
    all(&mut leaves, "/* sqluice: primary */ SELECT 1").await;
    // The reply may be here before the connection is back.
    until("both to be idle", async || (idle().await == 2.0).then_some(())).await;
    accounts(servers, "DROP USER e2e_leaves@'%'").await;
    // A login that fails has the accounts read again.
    front.refused("e2e_leaves", "wrong").await;
    until("the dropped user's to be closed", async || (idle().await == 1.0).then_some(())).await;
}

/// As PHP's clients do it, one for each page.
async fn choose_schema_late(front: &Front, schema: &str, by_text: bool) -> Client {
    let mut client = front.login(lab::APP_USER, lab::APP_PASSWORD).await.unwrap();
    all(&mut client, "SET NAMES utf8mb4").await;
    assert!(!value(&mut client, "SELECT @@SESSION.sql_mode").await.is_empty());
    all(&mut client, "SET SESSION sql_mode='NO_ENGINE_SUBSTITUTION'").await;
    match by_text {
        true => drop(all(&mut client, &format!("USE {schema}")).await),
        false => client.init_db(schema).await.unwrap(),
    }
    assert_eq!(value(&mut client, "SELECT DATABASE()").await, schema);
    assert_eq!(value(&mut client, "SELECT n FROM late").await, schema);
    client
}

#[tokio::test]
async fn clients_that_choose_their_schema_late_use_connections_again() {
    for family in [Family::MariaDb].into_iter().chain(has_mysql().then_some(Family::MySql)) {
        let servers = calm(family).await;
        let table = |schema: &str| {
            format!(
                "CREATE DATABASE IF NOT EXISTS {schema}; DROP TABLE IF EXISTS {schema}.late; \
                 CREATE TABLE {schema}.late (n VARCHAR(20)); INSERT INTO {schema}.late VALUES ('{schema}'); "
            )
        };
        accounts(servers, &(table("app") + &table("e2e_late"))).await;
        let front = Front::start_on(&[servers.primary().address().to_string()], |_| {}).await;
        until("a primary", async || {
            (front.metrics().await.sum("sqluice_cluster_has_primary", &[]) >= 1.0).then_some(())
        })
        .await;
        let opened = async || front.metrics().await.sum("sqluice_server_connections_opened_total", &[]);
        // Each worker has connections of its own.
        for page in 0..8 {
            choose_schema_late(&front, "app", page % 2 == 0).await;
        }
        let before = opened().await;
        for page in 0..40 {
            choose_schema_late(&front, if page % 3 == 0 { "e2e_late" } else { "app" }, page % 2 == 0).await;
        }
        assert!(opened().await <= before + 2.0, "{before} connections, and {} then", opened().await);

        // A statement that could differ between schemas is refused as by a server, and finds no other session's schema.
        let mut client = front.login(lab::APP_USER, lab::APP_PASSWORD).await.unwrap();
        for _ in 0..3 {
            all(&mut client, "SET NAMES utf8mb4").await;
            assert_eq!(error(&mut client, "SELECT n FROM late").await.0, 1046);
            assert_eq!(all(&mut client, "SELECT DATABASE()").await[0].rows[0][0], None);
            assert_eq!(error(&mut client, "USE e2e_nothing").await.0, 1049);
            assert_eq!(error(&mut client, "CREATE TABLE late_too (n INT)").await.0, 1046);
        }
    }
}

/// A server that allows fewer connections than the pool: who waits for one goes on when another worker has one to give.
async fn check_server_limit(family: Family, tls: bool) {
    let servers = calm(family).await;
    let sql = "DROP USER IF EXISTS e2e_short@'%'; CREATE USER e2e_short@'%' IDENTIFIED BY 'e2e-Short-1' WITH MAX_USER_CONNECTIONS 1";
    blocking(move || {
        servers.primary().sql(sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
    })
    .await;
    let front = Front::start(servers, |setup| {
        setup.listener = "hold_ms = 60000".into();
        if tls {
            setup.server_tls = "mode = \"required\"".into();
        }
    })
    .await;
    // One after the other they go to both workers.
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(front.login("e2e_short", "e2e-Short-1").await.unwrap());
    }
    let mut first = clients.remove(0);
    all(&mut first, "BEGIN").await;
    let waiting: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            tokio::spawn(async move {
                assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT 1").await, "1");
                client
            })
        })
        .collect();
    until("all to wait", async || (front.metrics().await.sum("sqluice_held_statements", &[]) >= 3.0).then_some(()))
        .await;
    let begun = Instant::now();
    all(&mut first, "COMMIT").await;
    for client in waiting {
        client.await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let opened = front.metrics().await.sum("sqluice_server_connections", &["server=\"db1\""]);
    assert!(opened <= 1.0, "{opened}");
}

/// No connection that comes free helps an account whose logins of the hour are used up: its server says so at once, and so does Sqluice.
#[tokio::test]
async fn logins_beyond_those_of_an_hour_are_refused_at_once() {
    for family in families() {
        let servers = calm(family).await;
        let sql = "DROP USER IF EXISTS e2e_hour@'%'; CREATE USER e2e_hour@'%' IDENTIFIED BY 'e2e-Hour-1'";
        blocking(move || {
            servers.primary().sql(sql).unwrap();
            servers.wait_in_sync(SOON).unwrap();
        })
        .await;
        let front = Front::start(servers, |setup| setup.listener = "hold_ms = 60000".into()).await;
        let mut first = front.login("e2e_hour", "e2e-Hour-1").await.unwrap();
        assert_eq!(value(&mut first, "SELECT 1").await, "1");
        // MySQL counts the login that brings the limit, too.
        let sql = "ALTER USER e2e_hour@'%' WITH MAX_CONNECTIONS_PER_HOUR 2";
        blocking(move || servers.primary().sql(sql).unwrap()).await;
        let begun = Instant::now();
        let mut refused = 0;
        for _ in 0..6 {
            let code = match front.login("e2e_hour", "e2e-Hour-1").await {
                Ok(mut client) => {
                    client.query("/* sqluice: primary */ SELECT 1").await.err().and_then(|error| error.code())
                }
                Err(error) => error.server_error().map(|said| said.code),
            };
            assert!(matches!(code, None | Some(1226)), "{code:?}");
            refused += u32::from(code.is_some());
        }
        assert!(refused >= 3, "{family:?}: {refused} refused");
        assert!(begun.elapsed() < Duration::from_secs(20), "{family:?}: {:?}", begun.elapsed());
    }
}

/// Room for a login that its server refuses is made once: what is idle in a full pool is others'.
#[tokio::test]
async fn refused_logins_leave_others_their_connections() {
    const POOL: usize = 4;
    for family in families() {
        let servers = calm(family).await;
        let sql = "DROP USER IF EXISTS e2e_spent@'%'; CREATE USER e2e_spent@'%' IDENTIFIED BY 'e2e-Spent-1'";
        blocking(move || {
            servers.primary().sql(sql).unwrap();
            servers.wait_in_sync(SOON).unwrap();
        })
        .await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            setup.pool = format!("max_connections_per_server = {POOL}");
        })
        .await;
        let mut spent = front.login("e2e_spent", "e2e-Spent-1").await.unwrap();
        assert_eq!(value(&mut spent, "/* sqluice: primary */ SELECT 1").await, "1");
        drop(spent);
        let sql = "ALTER USER e2e_spent@'%' WITH MAX_CONNECTIONS_PER_HOUR 1";
        blocking(move || servers.primary().sql(sql).unwrap()).await;
        let mut refused = 0;
        let mut opened = Vec::new();
        while refused < 10 {
            // The pool is full of the others' connections.
            let mut others = Vec::new();
            for _ in 0..POOL {
                let mut other = front.login(lab::APP_USER, lab::APP_PASSWORD).await.unwrap();
                all(&mut other, "BEGIN").await;
                all(&mut other, "SELECT 1").await;
                others.push(other);
            }
            for other in &mut others {
                all(other, "COMMIT").await;
            }
            let labels = ["server=\"db1\""];
            opened.push(front.metrics().await.sum("sqluice_server_connections_opened_total", &labels));
            let error = match front.login("e2e_spent", "e2e-Spent-1").await {
                Ok(mut client) => {
                    client.query("/* sqluice: primary */ SELECT 1").await.err().and_then(|error| error.code())
                }
                Err(error) => error.server_error().map(|said| said.code),
            };
            refused += u32::from(error == Some(1226));
            assert!(opened.len() < 20, "{family:?}: {error:?}");
        }
        // A second later another login is tried; this took some of them at most.
        let anew = opened.last().unwrap() - opened[1];
        assert!(anew <= 5.0, "{family:?}: {opened:?}");
    }
}

#[tokio::test]
async fn a_connection_that_a_server_refuses_comes_from_another_worker() {
    for family in families() {
        check_server_limit(family, false).await;
        check_server_limit(family, true).await;
    }
}

//! Events run on the primary only, also after a change of primary.

use super::*;

/// One that runs, one that an operator has disabled, which looks the same on a replica, and on MariaDB one whose definer may
/// write on a server that is read-only.
fn created(family: Family) -> String {
    let insert = |kind: &str| format!("INSERT INTO app.ticks (server, kind) VALUES (@@server_id, '{kind}')");
    let mut sql = format!(
        "CREATE TABLE app.ticks (id BIGINT AUTO_INCREMENT PRIMARY KEY, server INT, kind VARCHAR(9)); \
         SET NAMES latin1; \
         CREATE DEFINER = {app}@'%' EVENT app.`tick``s` ON SCHEDULE EVERY 1 SECOND DO {}; \
         CREATE DEFINER = {app}@'%' EVENT app.asleep ON SCHEDULE EVERY 1 SECOND DISABLE DO {}; ",
        insert("runs"),
        insert("asleep"),
        app = lab::APP_USER
    );
    let rights = match family {
        Family::MariaDb => {
            sql += &format!("CREATE EVENT app.of_root ON SCHEDULE EVERY 1 SECOND DO {}; ", insert("root"));
            "EVENT, BINLOG ADMIN, SET USER, SUPER"
        }
        Family::MySql => "EVENT, SET_ANY_DEFINER",
    };
    sql + &format!("GRANT {rights} ON *.* TO {}@'%'", lab::MONITOR_USER)
}

/// Each server's events: name, status, definer, character set.
async fn reported(cluster: &Cluster, server: usize) -> String {
    let sql = "SELECT EVENT_NAME, IF(STATUS LIKE '%SIDE_DISABLED', 'REPLICA', STATUS), DEFINER, CHARACTER_SET_CLIENT, \
               COLLATION_CONNECTION FROM information_schema.EVENTS ORDER BY 1";
    cluster.on(server, move |server| server.sql(sql).unwrap()).await
}

/// Events run on this server alone of those that are there.
async fn run_on(cluster: &Cluster, primary: usize, there: &[usize], family: Family) {
    let kinds = if family == Family::MariaDb { "root\nruns\n" } else { "runs\n" };
    until("the events to be enabled on the primary", async || {
        (reported(cluster, primary).await.matches("\tENABLED\t").count() == kinds.lines().count()).then_some(())
    })
    .await;
    for server in there {
        let reported = reported(cluster, *server).await;
        assert!(reported.contains("tick`s") && !reported.contains("\tutf8"), "as it was created: {reported}");
        assert_eq!(reported.matches(&format!("\t{}@%\t", lab::APP_USER)).count(), 2, "{reported}");
        assert_eq!(reported.contains("\tENABLED\t"), *server == primary, "db{}: {reported}", server + 1);
    }
    // No event need have run yet.
    let last = cluster.on(primary, |server| server.sql("SELECT COALESCE(MAX(id), 0) FROM app.ticks").unwrap()).await;
    let last = last.trim().to_owned();
    until("events to run", async || {
        let sql = format!("SELECT kind FROM app.ticks WHERE id > {last} GROUP BY kind HAVING COUNT(*) > 1 ORDER BY 1");
        (cluster.on(primary, move |server| server.sql(&sql).unwrap()).await == kinds).then_some(())
    })
    .await;
    for server in there {
        let sql = format!("SELECT DISTINCT server = @@server_id FROM app.ticks WHERE id > {last}");
        let own = cluster.on(*server, move |server| server.sql(&sql).unwrap()).await;
        let as_primary = if *server == primary { "1\n" } else { "0\n" };
        assert!(own == as_primary || (*server != primary && own.is_empty()), "db{}: {own}", server + 1);
    }
}

/// Kills db2, the primary, while no event can commit there: one that does as the server is killed may leave a transaction that no
/// other server has, and then db2 is kept out for good.
async fn kill_between_events(cluster: &Cluster) {
    const LOCKED: &str = "DO SLEEP(600)";
    let servers = cluster.servers().clone();
    let locked = move || servers.server(1).sql(&format!("FLUSH TABLES WITH READ LOCK; {LOCKED}")).map(drop);
    let locked = tokio::task::spawn_blocking(locked);
    until("events to be locked out", async || {
        let sql = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = '{LOCKED}'");
        (cluster.on(1, move |server| server.sql(&sql).unwrap()).await == "1\n").then_some(())
    })
    .await;
    let ticks =
        |server: usize| cluster.on(server, |server| server.sql("SELECT COUNT(*), MAX(id) FROM app.ticks").unwrap());
    let all = ticks(1).await;
    for replica in [0, 2] {
        let text = "replicas to have what the events have just written";
        until(text, async || (ticks(replica).await == all).then_some(())).await;
    }
    cluster.on(1, Server::kill9).await;
    assert!(locked.await.unwrap().is_err(), "the lock was held to the end");
}

async fn check(family: Family) {
    let cluster = Cluster::start(family).await;
    let sql = created(family);
    cluster.on(0, move |server| server.sql(&sql).unwrap()).await;
    for server in 0..3 {
        if family == Family::MySql {
            // A server that starts writable would run its events before anybody could tell it not to.
            cluster.on(server, |server| server.sql("SET PERSIST_ONLY event_scheduler = OFF").unwrap()).await;
        }
        // Each new primary gets the setting of the old one.
        let word = if server == 0 { "ON" } else { "OFF" };
        cluster.on(server, move |server| server.sql(&format!("SET GLOBAL event_scheduler = {word}")).unwrap()).await;
    }
    // No server falls silent here, and one on a busy machine may take its time in a switchover.
    let front = cluster.front_changed("", |setup| setup.monitor += "\ntimeout_ms = 5000").await;
    front.knows(2).await;
    run_on(&cluster, 0, &[0, 1, 2], family).await;

    for (to, primary) in [("db2", 1), ("db1", 0), ("db2", 1)] {
        front.knows(2).await;
        let done = command(&front, &["switchover", "--to", to]).await.output();
        assert!(done.contains(&format!("primary is {to}")), "{done}");
        run_on(&cluster, primary, &[0, 1, 2], family).await;
    }

    kill_between_events(&cluster).await;
    let page = until("another primary", async || {
        let page = status(&front).await;
        (page["primary"].is_string() && page["primary"] != "db2").then_some(page)
    })
    .await;
    let new = index(&page["primary"]);
    run_on(&cluster, new, &[0, 2], family).await;
    cluster.on(1, |server| server.restart().unwrap()).await;
    until("the old primary to follow", async || {
        let old = &status(&front).await["servers"][1];
        (old["role"] == "replica" && old["serves_reads"] == json!(true)).then_some(())
    })
    .await;
    run_on(&cluster, new, &[0, 1, 2], family).await;
    assert!(
        reported(&cluster, new).await.contains("asleep\tREPLICA\t") || new == 0,
        "what did not run before does not"
    );
    let asleep = cluster.on(new, |server| server.sql("SELECT COUNT(*) FROM app.ticks WHERE kind = 'asleep'").unwrap());
    assert_eq!(asleep.await, "0\n");
}

#[tokio::test]
async fn events_run_on_the_primary_only() {
    check(Family::MariaDb).await;
}

#[tokio::test]
async fn events_run_on_the_primary_only_mysql() {
    if has_mysql() {
        check(Family::MySql).await;
    }
}

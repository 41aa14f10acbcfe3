//! KILL and lists of processes: whose sessions a client sees and ends.

use std::time::{Duration, Instant};

use lab::{Family, Replication, ReplicationOptions};
use net::query::{Client, QueryError};

use crate::parity::lone;
use crate::support::{Front, SOON, all, blocking, calm, error, families, until, value};

/// A second cluster of the same process, in front of the same server, with a listener of the same name: `other`.
pub fn with_second_cluster(address: &str) -> String {
    format!(
        "[cluster.other]\nkind = \"standalone\"\nservers.only = {{ address = \"{address}\" }}\n\
         monitor = {{ user = \"{}\", password = \"{}\", interval_ms = 100, heartbeat = \"off\" }}\n\
         [listener.other]\naddress = \"127.0.0.1:0\"\ncluster = \"other\"\n",
        lab::MONITOR_USER,
        lab::MONITOR_PASSWORD
    )
}

/// A client of another listener.
async fn client_of(front: &Front, listener: &str, user: &str) -> Client {
    let address = front.listener(listener).parse().unwrap();
    let target = net::client::Target::plain(address, Duration::from_secs(20));
    let login = net::query::login(user, wire::auth::Credential::password("pw"));
    Client::connect(&target, login, net::query::Limits::default()).await.unwrap()
}

fn id(client: &Client) -> u32 {
    client.greeting().connection_id
}

/// The ids that a client is shown.
async fn shown(client: &mut Client) -> Vec<u32> {
    let result = client.query_one("SHOW PROCESSLIST").await.unwrap();
    let id = |row: &net::query::Row| String::from_utf8_lossy(row[0].as_deref().unwrap()).parse().unwrap();
    result.rows.iter().map(id).collect()
}

async fn has_ended(client: &mut Client) {
    let said = client.query("SELECT 1").await.unwrap_err();
    assert!(matches!(said, QueryError::Io(_) | QueryError::Broken) || said.code() == Some(1927), "{said}");
}

/// Writes are sent with a mark in front, and shown as their clients sent them.
#[tokio::test]
async fn lists_of_processes_show_writes_without_marks() {
    for family in families() {
        let servers = calm(family).await;
        let front = Front::start(servers, |_| {}).await;
        let (mut writer, mut looker) = (front.client().await, front.client().await);
        all(&mut looker, "CREATE TABLE IF NOT EXISTS app.e2e_marked (a INT)").await;
        let write = "INSERT INTO app.e2e_marked SELECT SLEEP(4)";
        let writing = tokio::spawn(async move { all(&mut writer, write).await });
        // The server itself shows that there is a mark.
        let shown = || blocking(move || servers.primary().sql("SHOW FULL PROCESSLIST").unwrap());
        let marked = until("the write", async || Some(shown().await).filter(|list| list.contains(write))).await;
        assert!(marked.contains("/*sq:"), "{marked}");
        let text = |row: &net::query::Row| row[7].as_deref().map(String::from_utf8_lossy).map(|text| text.into_owned());
        let prepared = looker.prepare("SHOW FULL PROCESSLIST").await.unwrap();
        let lists = [
            looker.query_one("SHOW FULL PROCESSLIST").await.unwrap(),
            looker.query_one("SELECT * FROM information_schema.PROCESSLIST").await.unwrap(),
            looker.execute(&prepared, &[]).await.unwrap().remove(0),
        ];
        for (number, list) in lists.iter().enumerate() {
            let texts: Vec<String> = list.rows.iter().filter_map(text).collect();
            assert!(texts.iter().any(|text| text == write), "{family:?} {number} {texts:?}");
            assert!(!texts.iter().any(|text| text.contains("/*sq:")), "{family:?} {number} {texts:?}");
        }
        writing.await.unwrap();
        all(&mut looker, "DROP TABLE app.e2e_marked").await;
    }
}

#[tokio::test]
async fn no_cluster_sees_or_kills_the_sessions_of_another() {
    for family in families() {
        let servers = lone(family).await;
        let sql = "CREATE USER IF NOT EXISTS stranger@'%' IDENTIFIED BY 'pw';";
        blocking(move || servers.primary().sql(sql).unwrap()).await;
        let address = servers.primary().address().to_string();
        let front = Front::start(servers, |setup| setup.more = with_second_cluster(&address)).await;
        let mut victim = front.client().await;
        all(&mut victim, "BEGIN").await;
        all(&mut victim, "SELECT 1").await;
        let mut stranger = until("a login", async || front.login("stranger", "pw").await.ok()).await;
        let mut outsider = client_of(&front, "other", "stranger").await;
        for form in ["KILL", "KILL QUERY", "KILL CONNECTION"] {
            let (code, _) = error(&mut outsider, &format!("{form} {}", id(&victim))).await;
            assert_eq!(code, 1094, "{family:?} {form}");
            let (code, said) = error(&mut stranger, &format!("{form} {}", id(&victim))).await;
            assert_eq!((code, said), (1095, format!("You are not owner of thread {}", id(&victim))), "{family:?}");
        }
        let seen = shown(&mut outsider).await;
        assert!(seen.contains(&id(&outsider)) && !seen.contains(&id(&victim)) && !seen.contains(&id(&stranger)));
        let seen = shown(&mut stranger).await;
        assert!(seen.contains(&id(&stranger)) && !seen.contains(&id(&victim)), "a user without PROCESS sees his own");
        // The transaction goes on.
        assert!(victim.status().contains(wire::Status::IN_TRANSACTION));
        assert_eq!(value(&mut victim, "SELECT 2").await, "2");
        all(&mut victim, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn administrators_kill_idle_sessions_and_those_of_a_user() {
    for family in families() {
        let servers = lone(family).await;
        let sql = "CREATE USER IF NOT EXISTS idler@'%' IDENTIFIED BY 'pw', chief@'%' IDENTIFIED BY 'pw';
                   GRANT ALL ON *.* TO chief@'%';";
        blocking(move || servers.primary().sql(sql).unwrap()).await;
        let front = Front::start(servers, |_| {}).await;
        let mut chief = until("a login", async || front.login("chief", "pw").await.ok()).await;
        let mut idle = until("a login", async || front.login("idler", "pw").await.ok()).await;
        let mut other = front.client().await;
        // It has no backend connection, and is in the list as on a server.
        assert_eq!(value(&mut idle, "SELECT 1").await, "1");
        until("the idle sessions in the list", async || {
            let seen = shown(&mut chief).await;
            [id(&idle), id(&other), id(&chief)].iter().all(|id| seen.contains(id)).then_some(())
        })
        .await;
        let (code, _) = error(&mut other, &format!("KILL {}", id(&idle))).await;
        assert_eq!(code, 1095);
        all(&mut chief, &format!("KILL QUERY {}", id(&idle))).await;
        assert_eq!(value(&mut chief, "SELECT ROW_COUNT()").await, "0");
        assert_eq!(value(&mut idle, "SELECT 1").await, "1");
        all(&mut chief, &format!("KILL {}", id(&idle))).await;
        has_ended(&mut idle).await;
        // Its socket is closed before it leaves the list, as on a server.
        until("the end of the killed session", async || (!shown(&mut chief).await.contains(&id(&idle))).then_some(()))
            .await;
        let (code, said) = error(&mut chief, &format!("KILL {}", id(&idle))).await;
        assert_eq!((code, said), (1094, format!("Unknown thread id: {}", id(&idle))));
        let (code, _) = error(&mut chief, "KILL 1000000000").await;
        assert_eq!(code, 1094, "an id of the server's own");
        if family == Family::MariaDb {
            let mut one = front.login("idler", "pw").await.unwrap();
            let mut two = front.login("idler", "pw").await.unwrap();
            assert_eq!(all(&mut other, "KILL USER idler").await[0].affected, 0);
            assert_eq!(value(&mut one, "SELECT 1").await, "1");
            assert_eq!(all(&mut chief, "KILL HARD CONNECTION USER idler@'%'").await[0].affected, 2);
            has_ended(&mut one).await;
            has_ended(&mut two).await;
            let mut three = front.login("idler", "pw").await.unwrap();
            let kill = chief.prepare("KILL CONNECTION USER idler").await.unwrap();
            assert_eq!(chief.execute(&kill, &[]).await.unwrap()[0].affected, 1);
            has_ended(&mut three).await;
        }
    }
}

/// A statement that waits for a connection is on no server yet. KILL QUERY ends its wait, and leaves the session and what it runs next.
#[tokio::test]
async fn a_statement_that_waits_for_a_connection_can_be_killed() {
    for (family, pipelines) in families().flat_map(|family| [(family, "off"), (family, "always")]) {
        let servers = lone(family).await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            setup.pool = "max_connections_per_server = 1\nwait_ms = 30000".into();
            setup.listener = format!("pipelines = \"{pipelines}\"");
        })
        .await;
        let (mut holder, mut killer, mut victim) = (front.client().await, front.client().await, front.client().await);
        all(&mut holder, "BEGIN").await;
        all(&mut holder, "SELECT 1").await;
        let id = id(&victim);
        let waiting = tokio::spawn(async move {
            let before = Instant::now();
            let refused = error(&mut victim, "SELECT 'it waits'").await;
            assert!(before.elapsed() < Duration::from_secs(25), "it has waited for the connection");
            (refused, victim)
        });
        until("the wait", async || {
            let metrics = front.metrics().await;
            (metrics.sum("sqluice_sessions_by_state", &["state=\"waits_for_connection\""]) >= 1.0).then_some(())
        })
        .await;
        all(&mut killer, &format!("KILL QUERY {id}")).await;
        let (refused, mut victim) = waiting.await.unwrap();
        assert_eq!(refused, (1317, "Query execution was interrupted".to_owned()), "{family:?} {pipelines}");
        // A kill that comes between two statements ends neither.
        all(&mut killer, &format!("KILL QUERY {id}")).await;
        all(&mut holder, "COMMIT").await;
        assert_eq!(value(&mut victim, "SELECT 'it lives'").await, "it lives");
    }
}

/// In a transaction the value of the variable is read for KILL alone.
#[tokio::test]
async fn a_variable_whose_value_only_the_server_knows_names_the_session_to_kill() {
    for family in families() {
        let servers = lone(family).await;
        let front = Front::start(servers, |_| {}).await;
        let (mut killer, mut victim) = (front.client().await, front.client().await);
        let id = id(&victim);
        all(&mut victim, "SELECT 1").await;
        all(&mut killer, "BEGIN").await;
        all(&mut killer, &format!("SELECT id FROM information_schema.PROCESSLIST WHERE id = {id} INTO @e2e_victim"))
            .await;
        all(&mut killer, "KILL @e2e_victim").await;
        has_ended(&mut victim).await;
        assert_eq!(value(&mut killer, "SELECT @e2e_victim").await, id.to_string(), "{family:?}");
        all(&mut killer, "COMMIT").await;
    }
}

#[tokio::test]
async fn a_servers_own_id_kills_the_session_that_it_serves() {
    for family in families() {
        let servers = lone(family).await;
        let front = Front::start(servers, |_| {}).await;
        let (mut killer, mut victim) = (front.client().await, front.client().await);
        all(&mut victim, "BEGIN").await;
        all(&mut victim, "SELECT 1 /* to be killed by the server's id */").await;
        // Other tests have transactions on this server, too.
        let sql = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx \
                   JOIN information_schema.PROCESSLIST ON ID = trx_mysql_thread_id WHERE DB = 'par_own_id'";
        all(&mut victim, "CREATE DATABASE IF NOT EXISTS par_own_id").await;
        all(&mut victim, "USE par_own_id").await;
        all(&mut victim, "CREATE TABLE IF NOT EXISTS par_own_id.t (v INT) ENGINE = InnoDB").await;
        all(&mut victim, "BEGIN").await;
        all(&mut victim, "INSERT INTO par_own_id.t VALUES (1)").await;
        let on_server = blocking(move || servers.primary().sql(sql).unwrap()).await;
        let on_server = on_server.split_whitespace().last().unwrap().to_owned();
        assert_ne!(on_server, id(&victim).to_string());
        all(&mut killer, &format!("KILL {on_server}")).await;
        has_ended(&mut victim).await;
    }
}

/// Every list of connections knows a session by the id of its greeting.
#[tokio::test]
async fn lists_of_the_performance_schema_know_the_greetings_id() {
    for family in families() {
        let config = vec!["performance_schema=ON".to_owned()];
        let options = ReplicationOptions { config, ..ReplicationOptions::new(family, 0) };
        let servers = blocking(|| Replication::start(options).unwrap()).await;
        let sql = "CREATE USER chief@'%' IDENTIFIED BY 'pw'; GRANT ALL ON *.* TO chief@'%' WITH GRANT OPTION;
                   CREATE TABLE app.t (v INT) ENGINE = InnoDB";
        servers.primary().sql(sql).unwrap();
        let front = Front::start(&servers, |setup| setup.proxy = "workers = 1\ndrain_ms = 200".into()).await;
        let mut chief = until("a login", async || front.login("chief", "pw").await.ok()).await;
        let me = id(&chief);
        all(&mut chief, "BEGIN").await;
        all(&mut chief, "INSERT INTO app.t VALUES (1)").await;
        let mut asks = vec![
            format!("SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = {me}"),
            format!(
                "SELECT PROCESSLIST_ID = {me} FROM performance_schema.threads t WHERE t.processlist_id = CONNECTION_ID()"
            ),
            "SELECT COUNT(DISTINCT PROCESSLIST_ID) FROM performance_schema.session_connect_attrs \
             WHERE PROCESSLIST_ID = CONNECTION_ID()"
                .to_owned(),
            format!("SELECT COUNT(*) FROM sys.processlist WHERE conn_id = {me}"),
            format!("SELECT COUNT(*) FROM sys.`x$session` WHERE conn_id = {me}"),
            format!("SELECT trx_mysql_thread_id = {me} FROM information_schema.innodb_trx"),
        ];
        if family == Family::MySql {
            asks.push(
"SELECT COUNT(*) FROM performance_schema.events_statements_current e JOIN performance_schema.threads t \
             USING (THREAD_ID) WHERE t.PROCESSLIST_ID = CONNECTION_ID() AND e.SQL_TEXT IS NOT NULL"
                .to_owned(),
);
            asks.push("SELECT PS_THREAD_ID(CONNECTION_ID()) = PS_CURRENT_THREAD_ID()".into());
            asks.push(format!("SELECT sys.ps_thread_id({me}) = PS_CURRENT_THREAD_ID()"));
            asks.push(format!("SELECT COUNT(*) FROM performance_schema.processlist WHERE ID = {me}"));
        }
        for ask in asks {
            assert_eq!(value(&mut chief, &ask).await, "1", "{family:?} {ask}");
        }
        let variable = "SHOW VARIABLES LIKE 'pseudo_thread%'";
        let shown = chief.query_one(variable).await.unwrap().rows;
        assert_eq!(shown[0][1].as_deref(), Some(me.to_string().as_bytes()));
        all(&mut chief, "COMMIT").await;
        // A value that a session has set is its own.
        all(&mut chief, "SET pseudo_thread_id = 77").await;
        assert_eq!(value(&mut chief, "SELECT CONNECTION_ID() + @@pseudo_thread_id").await, "154");
        let mut other = front.login("chief", "pw").await.unwrap();
        assert_eq!(value(&mut other, "SELECT CONNECTION_ID()").await, id(&other).to_string());
        all(&mut other, "CREATE OR REPLACE VIEW app.who AS SELECT CONNECTION_ID() AS id").await;
        assert_ne!(value(&mut other, "SELECT id FROM app.who").await, "77");
        assert_eq!(value(&mut chief, "SELECT CONNECTION_ID() + @@pseudo_thread_id").await, "154");
    }
}

/// `/* sqluice: direct */` shows the ids that the server has: those of connections, not those of sessions.
async fn direct(family: Family, database: &str) {
    let (front, _) = crate::statements::start(family, database, "CREATE TABLE t (a INT)").await;
    let mut client = crate::statements::within(&front, database).await;
    // A transaction keeps the connection, so that all lists have it.
    all(&mut client, "BEGIN").await;
    all(&mut client, "INSERT INTO t VALUES (1)").await;
    let own: u64 = value(&mut client, "SELECT CONNECTION_ID()").await.parse().unwrap();
    let number = |row: &Vec<Option<Vec<u8>>>| String::from_utf8_lossy(row[0].as_ref().unwrap()).parse::<u64>().unwrap();
    let ids = async |client: &mut Client, text: &str| {
        all(client, text).await.remove(0).rows.iter().map(number).collect::<Vec<_>>()
    };
    let lists = ["SHOW PROCESSLIST", "SELECT ID FROM information_schema.PROCESSLIST", "SHOW FULL PROCESSLIST"];
    for text in lists {
        assert!(ids(&mut client, text).await.contains(&own), "{text}");
        for direct in [format!("/* sqluice: direct */ {text}"), format!("/* sqluice: primary direct */ {text}")] {
            let found = ids(&mut client, &direct).await;
            assert!(!found.is_empty() && found.iter().all(|id| *id < 1 << 30), "{direct}: {found:?}");
        }
    }
    // The same for a prepared statement, and within the schema.
    let read = "/* sqluice: direct */ SELECT CAST(MAX(ID) AS CHAR), COUNT(*) FROM information_schema.PROCESSLIST";
    let prepared = client.prepare(read).await.unwrap();
    let found = client.execute(&prepared, &[]).await.unwrap().remove(0);
    assert!(String::from_utf8_lossy(found.rows[0][0].as_ref().unwrap()).trim().len() < 8, "{:?}", found.rows);
    client.init_db("information_schema").await.unwrap();
    let found = ids(&mut client, "/* sqluice: direct */ SELECT ID FROM PROCESSLIST").await;
    assert!(!found.is_empty() && found.iter().all(|id| *id < 1 << 30), "{found:?}");
    assert_eq!(value(&mut client, "/* sqluice: direct */ SELECT CONNECTION_ID()").await, own.to_string());
}

#[tokio::test]
async fn direct_lists_have_the_servers_ids() {
    direct(Family::MariaDb, "e2e_direct").await;
}

#[tokio::test]
async fn direct_lists_have_the_servers_ids_mysql() {
    direct(Family::MySql, "e2e_direct_mysql").await;
}

/// With `/* sqluice: direct */` each list of connections is that of the server, which root sees there; on a replica, too.
async fn direct_lists(family: Family) {
    let config = vec!["performance_schema=ON".to_owned()];
    let options = ReplicationOptions { config, ..ReplicationOptions::new(family, 1) };
    let servers = blocking(|| Replication::start(options).unwrap()).await;
    let sql = "CREATE USER chief@'%' IDENTIFIED BY 'pw'; GRANT ALL ON *.* TO chief@'%' WITH GRANT OPTION;
               CREATE TABLE app.t (v INT PRIMARY KEY) ENGINE = InnoDB; INSERT INTO app.t VALUES (1)";
    servers.primary().sql(sql).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let front = Front::start(&servers, |setup| setup.proxy = "workers = 1\ndrain_ms = 200".into()).await;
    let mut chief = until("a login", async || front.login("chief", "pw").await.ok()).await;
    let mut other = front.login("chief", "pw").await.unwrap();
    let roots = |server: &lab::Server, text: &str| -> Vec<u64> {
        server.sql(text).unwrap().lines().filter_map(|line| line.trim().parse().ok()).collect()
    };
    let of_chief = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'chief' ORDER BY ID";
    // Each of both has a connection to the primary; only that of the first is in a transaction.
    all(&mut chief, "BEGIN").await;
    all(&mut other, "SELECT GET_LOCK('direct', 1)").await;
    let two = roots(servers.primary(), of_chief);
    assert_eq!(two.len(), 2, "{two:?}");
    all(&mut chief, "INSERT INTO app.t VALUES (2)").await;
    let in_transaction = roots(servers.primary(), "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx");
    let mut lists = vec![
        (of_chief, &two),
        ("SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE PROCESSLIST_USER = 'chief' ORDER BY 1", &two),
        (
            "SELECT DISTINCT PROCESSLIST_ID FROM performance_schema.session_connect_attrs JOIN performance_schema.threads \
             USING (PROCESSLIST_ID) WHERE PROCESSLIST_USER = 'chief' ORDER BY 1",
            &two,
        ),
        ("SELECT conn_id FROM sys.processlist WHERE user LIKE 'chief@%' ORDER BY 1", &two),
        ("SELECT conn_id FROM sys.`x$session` WHERE user LIKE 'chief@%' ORDER BY 1", &two),
        ("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx", &in_transaction),
    ];
    if family == Family::MySql {
        lists.push(("SELECT ID FROM performance_schema.processlist WHERE USER = 'chief' ORDER BY ID", &two));
        lists.push((
            "SELECT DISTINCT t.PROCESSLIST_ID FROM performance_schema.events_statements_current e \
             JOIN performance_schema.threads t USING (THREAD_ID) WHERE t.PROCESSLIST_USER = 'chief' ORDER BY 1",
            &two,
        ));
    }
    let number = |row: &net::query::Row| String::from_utf8_lossy(row[0].as_deref().unwrap()).parse::<u64>().unwrap();
    let sessions: Vec<u64> = [id(&chief), id(&other)].map(u64::from).into();
    for (text, expected) in &lists {
        let direct = format!("/* sqluice: direct */ {text}");
        let found: Vec<u64> = all(&mut chief, &direct).await.remove(0).rows.iter().map(number).collect();
        assert_eq!(found, **expected, "{family:?} {text}");
        let prepared = chief.prepare(&direct).await.unwrap();
        let found: Vec<u64> = chief.execute(&prepared, &[]).await.unwrap().remove(0).rows.iter().map(number).collect();
        assert_eq!(found, **expected, "{family:?} prepared: {text}");
        // Without the word the same list has sessions.
        let found: Vec<u64> = all(&mut chief, text).await.remove(0).rows.iter().map(number).collect();
        assert!(found.iter().all(|id| sessions.contains(id)) && !found.is_empty(), "{family:?} {text}: {found:?}");
    }
    // A SET reads the same list.
    all(
        &mut chief,
        "/* sqluice: direct */ SET @least = (SELECT MIN(ID) FROM information_schema.PROCESSLIST WHERE USER = 'chief')",
    )
    .await;
    assert_eq!(value(&mut chief, "SELECT @least").await, two[0].to_string());
    assert_eq!(value(&mut chief, "/* sqluice: direct */ SELECT CONNECTION_ID()").await, id(&chief).to_string());
    assert_eq!(roots(servers.primary(), "SELECT IS_USED_LOCK('direct')").len(), 1);
    // A server's id is what KILL takes, too.
    let of_other = roots(servers.primary(), "SELECT IS_USED_LOCK('direct')")[0];
    all(&mut chief, &format!("KILL {of_other}")).await;
    has_ended(&mut other).await;
    assert_eq!(value(&mut chief, "SELECT COUNT(*) FROM app.t").await, "2", "the killer goes on");
    all(&mut chief, "COMMIT").await;
    // An idle connection of the pool is a row of the server's list alone.
    let replica = servers.replicas().next().unwrap();
    assert_eq!(value(&mut chief, "/* sqluice: server=db2 */ SELECT COUNT(*) FROM app.t WHERE v = 1").await, "1");
    let idle = roots(replica, of_chief);
    assert!(!idle.is_empty());
    let of_replica = format!("/* sqluice: direct server=db2 */ {of_chief}");
    let found: Vec<u64> = all(&mut chief, &of_replica).await.remove(0).rows.iter().map(number).collect();
    assert_eq!(found, idle, "{family:?}");
}

#[tokio::test]
async fn direct_lists_are_those_of_the_server() {
    direct_lists(Family::MariaDb).await;
}

#[tokio::test]
async fn direct_lists_are_those_of_the_server_mysql() {
    direct_lists(Family::MySql).await;
}

//! The steps on real servers.

mod events;

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::observation::Receiver;
use lab::{Binaries, Family, Replication, ReplicationOptions, Server};
use net::query::{Client, Limits};
use net::tls::ClientTls;
use tokio::time::Instant;

use super::*;
use crate::monitor::link::ServerAccess;

fn families() -> Vec<Family> {
    Binaries::find().unwrap().families()
}

/// Three servers with semi-synchronous replication.
fn cluster(family: Family) -> Replication {
    let mut options = ReplicationOptions::new(family, 2);
    options.config = match family {
        Family::MariaDb => vec!["rpl_semi_sync_slave_enabled=ON".into()],
        Family::MySql => vec![
            "plugin_load_add=semisync_source.so".into(),
            "plugin_load_add=semisync_replica.so".into(),
            "rpl_semi_sync_replica_enabled=ON".into(),
        ],
    };
    options.init_sql = "CREATE TABLE app.t (id INT PRIMARY KEY)".into();
    let cluster = Replication::start(options).unwrap();
    cluster.primary().sql(&format!("SET GLOBAL {} = ON", as_source(family))).unwrap();
    cluster
}

fn as_source(family: Family) -> &'static str {
    match family {
        Family::MariaDb => "rpl_semi_sync_master_enabled",
        Family::MySql => "rpl_semi_sync_source_enabled",
    }
}

async fn open(server: &Server, user: &str, password: &str) -> Client {
    let access = ServerAccess {
        address: net::Address::Tcp { host: "127.0.0.1".into(), port: server.port() },
        tls: ClientTls::disabled(),
        user: user.into(),
        password: config::Secret::new(password),
        announce: None,
    };
    let limits = Limits { timeout: Duration::from_secs(30), ..Limits::default() };
    access.open(Duration::from_secs(5), limits).await.unwrap()
}

async fn monitor(server: &Server) -> Client {
    let mut client = open(server, lab::MONITOR_USER, lab::MONITOR_PASSWORD).await;
    client.query("SET SESSION sql_mode = ''").await.unwrap();
    client
}

fn hand(client: &mut Client) -> Hand<'_> {
    Hand::new(client, Instant::now() + Duration::from_secs(10))
}

fn ours(cluster: &Replication) -> Ours {
    Ours(cluster.servers().iter().map(|server| ("127.0.0.1".into(), server.port())).collect())
}

fn source(server: &Server) -> Source {
    Source { host: "127.0.0.1".into(), port: server.port() }
}

fn account() -> Account {
    Account { user: lab::REPL_USER.into(), password: config::Secret::new(lab::REPL_PASSWORD), tls: false }
}

/// A column of the replication status.
fn status(server: &Server, columns: [&str; 2]) -> String {
    let sql = match server.family() {
        Family::MariaDb => "SHOW ALL SLAVES STATUS",
        Family::MySql => "SHOW REPLICA STATUS",
    };
    let text = server.sql_vertical(sql).unwrap();
    let value = |line: &str| {
        let (name, value) = line.trim().split_once(':')?;
        columns.contains(&name).then(|| value.trim().to_owned())
    };
    text.lines().find_map(value).unwrap_or_default()
}

fn is_read_only(server: &Server) -> bool {
    let variable = match server.family() {
        Family::MariaDb => "@@global.read_only",
        Family::MySql => "@@global.super_read_only",
    };
    server.sql(&format!("SELECT {variable}")).unwrap().trim() == "1"
}

fn semi_sync_source(server: &Server) -> bool {
    server.sql(&format!("SELECT @@global.{}", as_source(server.family()))).unwrap().trim() == "1"
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

#[test]
fn the_primary_moves_and_the_old_one_follows() {
    for family in families() {
        let cluster = cluster(family);
        run(moves(&cluster));
    }
}

/// A client that reads on a server which, with MySQL, refuses the writes of most users only.
async fn reader_of_mostly_read_only(server: &Server) -> Client {
    if server.family() == Family::MySql {
        server.sql("SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 1").unwrap();
    }
    open(server, lab::APP_USER, lab::APP_PASSWORD).await
}

/// A client that keeps a server from becoming read-only, which somebody has made writable.
async fn client_in_the_way(server: &Server) -> Client {
    server.sql("SET GLOBAL read_only = 0").unwrap();
    let mut client = open(server, lab::APP_USER, lab::APP_PASSWORD).await;
    client.query("LOCK TABLES app.t WRITE").await.unwrap();
    client
}

async fn moves(cluster: &Replication) {
    let (old, new, third) = (cluster.server(0), cluster.server(1), cluster.server(2));
    let ours = ours(cluster);
    // The operator's choice for the third server stays through the change.
    third
        .sql(match third.family() {
            Family::MariaDb => {
                "STOP SLAVE; CHANGE MASTER TO MASTER_HEARTBEAT_PERIOD=0.7, MASTER_CONNECT_RETRY=7, \
                 IGNORE_DOMAIN_IDS=(9); START SLAVE"
            }
            Family::MySql => {
                "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD=0.7, SOURCE_CONNECT_RETRY=7; \
                 START REPLICA"
            }
        })
        .unwrap();
    let (mut on_old, mut on_new, mut on_third) = (monitor(old).await, monitor(new).await, monitor(third).await);
    on_old.query("SELECT 1").await.unwrap();
    let mut holds_lock = open(old, lab::APP_USER, lab::APP_PASSWORD).await;
    holds_lock.query("LOCK TABLES app.t WRITE").await.unwrap();
    let mut in_transaction = open(old, lab::APP_USER, lab::APP_PASSWORD).await;
    in_transaction.query("BEGIN").await.unwrap();

    // Without cutting, a lock is waited for, and then reported.
    let soon = Instant::now() + Duration::from_millis(1500);
    let failed = set_read_only(&mut Hand::new(&mut on_old, soon), true, Clients::Stay).await.unwrap_err();
    assert_eq!(failed.kind, FailedKind::TimedOut, "{failed}");
    let mut on_old = monitor(old).await;
    set_read_only(&mut hand(&mut on_old), true, Clients::End).await.unwrap();
    assert!(is_read_only(old));
    set_read_only(&mut hand(&mut on_old), true, Clients::End).await.unwrap();
    assert!(holds_lock.query("SELECT 1").await.is_err() && in_transaction.query("SELECT 1").await.is_err());
    let _late = open(old, lab::APP_USER, lab::APP_PASSWORD).await;
    assert_eq!(end_sessions(&mut hand(&mut on_old), &[lab::APP_USER]).await.unwrap(), 0);
    assert_eq!(end_sessions(&mut hand(&mut on_old), &[]).await.unwrap(), 1);

    // The second server takes over, and doing it twice is doing it once.
    for _ in 0..2 {
        stop_receiver(&mut hand(&mut on_new), &ours, false).await.unwrap();
        wait_applied(&mut hand(&mut on_new), &ours, "").await.unwrap();
    }
    for _ in 0..2 {
        promote(&mut hand(&mut on_new), &ours).await.unwrap();
        assert!(!is_read_only(new) && semi_sync_source(new));
        assert_eq!(status(new, ["Master_Host", "Source_Host"]), "");
    }
    let mut reads = reader_of_mostly_read_only(third).await;
    for _ in 0..2 {
        follow(&mut hand(&mut on_third), &ours, &source(new), None).await.unwrap();
    }
    assert!(is_read_only(third));
    reads.query("SELECT COUNT(*) FROM app.t").await.unwrap();
    assert_eq!(status(third, ["Master_Port", "Source_Port"]), new.port().to_string());
    assert_eq!(status(third, ["Connect_Retry", "Connect_Retry"]), "7");
    let period = match third.family() {
        Family::MariaDb => status(third, ["Slave_heartbeat_period", ""]),
        Family::MySql => {
            let table = "performance_schema.replication_connection_configuration";
            third.sql(&format!("SELECT HEARTBEAT_INTERVAL FROM {table}")).unwrap().trim().to_owned()
        }
    };
    assert_eq!(period, "0.700");
    if third.family() == Family::MariaDb {
        assert_eq!(status(third, ["Replicate_Ignore_Domain_Ids", ""]), "9");
    }

    // The old primary has no channel: without an account it cannot follow.
    let failed = follow(&mut hand(&mut on_old), &ours, &source(new), None).await.unwrap_err();
    assert!(failed.text.contains("replication.user"), "{failed}");
    let wrong = Account { password: config::Secret::new("wrong"), ..account() };
    let soon = Instant::now() + Duration::from_secs(3);
    let failed = follow(&mut Hand::new(&mut on_old, soon), &ours, &source(new), Some(&wrong)).await.unwrap_err();
    assert!(failed.text.contains("denied"), "{failed}");
    let mut on_old = monitor(old).await;
    old.sql(forget(old.family())).unwrap();
    let mut in_the_way = client_in_the_way(old).await;
    for _ in 0..2 {
        follow(&mut hand(&mut on_old), &ours, &source(new), Some(&account())).await.unwrap();
    }
    assert!(is_read_only(old) && !semi_sync_source(old));
    assert!(in_the_way.query("SELECT 1").await.is_err());

    new.sql("INSERT INTO app.t VALUES (1)").unwrap();
    let position = match new.family() {
        Family::MariaDb => new.sql("SELECT @@global.gtid_binlog_pos").unwrap(),
        Family::MySql => new.sql("SELECT @@global.gtid_executed").unwrap().replace("\\n", ""),
    };
    for (server, client) in [(old, &mut on_old), (third, &mut on_third)] {
        wait_applied(&mut hand(client), &ours, position.trim()).await.unwrap();
        assert_eq!(server.sql("SELECT COUNT(*) FROM app.t").unwrap(), "1\n");
    }
}

#[test]
fn commits_that_wait_for_ever_do_not_keep_a_server_writable() {
    for family in families() {
        let cluster = cluster(family);
        run(waits(&cluster));
    }
}

async fn waits(cluster: &Replication) {
    let (old, new) = (cluster.server(0), cluster.server(1));
    let ours = ours(cluster);
    old.sql(match old.family() {
        Family::MariaDb => "SET GLOBAL rpl_semi_sync_master_timeout = 4294967295",
        Family::MySql => "SET GLOBAL rpl_semi_sync_source_timeout = 4294967295",
    })
    .unwrap();
    for replica in [new, cluster.server(2)] {
        stop_receiver(&mut hand(&mut monitor(replica).await), &ours, false).await.unwrap();
    }
    let mut commits = Vec::new();
    for number in 1..=4 {
        let mut client = open(old, lab::APP_USER, lab::APP_PASSWORD).await;
        let work = match number % 2 {
            0 => format!("INSERT INTO app.t VALUES ({number})"),
            _ => format!("BEGIN; INSERT INTO app.t VALUES ({number}); COMMIT"),
        };
        commits.push(tokio::spawn(async move { client.query(work).await.map(drop) }));
    }
    let mut on_old = monitor(old).await;
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE State LIKE 'Waiting for semi-sync ACK%'";
    let deadline = Instant::now() + Duration::from_secs(10);
    while on_old.query_one(waiting).await.unwrap().scalar().is_none_or(|count| count == "0") {
        assert!(Instant::now() < deadline, "no commit waits");
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        let until = Instant::now() + Duration::from_secs(2);
        let second = async || Ok(monitor(old).await);
        fence(&mut Hand::new(&mut on_old, until), second).await.unwrap();
        assert!(is_read_only(old));
    }
    for commit in commits {
        assert!(commit.await.unwrap().is_err(), "a client was told of a commit that nobody acknowledged");
    }
    // It gives acknowledgements when it follows, and waits for them when it is the primary again.
    match old.family() {
        Family::MariaDb => set_read_only(&mut hand(&mut on_old), false, Clients::Stay).await.unwrap(),
        Family::MySql => {
            assert!(!semi_sync_source(old));
            promote(&mut hand(&mut on_old), &ours).await.unwrap();
        }
    }
    assert!(semi_sync_source(old) && !is_read_only(old));
}

#[test]
fn what_was_received_is_never_thrown_away() {
    for family in families() {
        let cluster = cluster(family);
        run(received(&cluster));
    }
}

async fn received(cluster: &Replication) {
    let (primary, replica) = (cluster.server(0), cluster.server(1));
    let ours = ours(cluster);
    let mut client = monitor(replica).await;
    let (stop, start) = match replica.family() {
        Family::MariaDb => ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD"),
        Family::MySql => ("STOP REPLICA SQL_THREAD", "START REPLICA SQL_THREAD"),
    };
    replica.sql(stop).unwrap();
    let before = status(replica, ["Gtid_IO_Pos", "Retrieved_Gtid_Set"]);
    // Semi-synchronous: the insert is over when a replica has received it; this one may be a moment later.
    primary.sql("INSERT INTO app.t VALUES (2)").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while status(replica, ["Gtid_IO_Pos", "Retrieved_Gtid_Set"]) == before {
        assert!(Instant::now() < deadline, "nothing was received");
        tokio::task::yield_now().await;
    }
    let stopped = stop_receiver(&mut hand(&mut client), &ours, true).await;
    match replica.family() {
        // With both threads stopped, MariaDB throws away what it has received as soon as one of them starts.
        Family::MariaDb => assert!(stopped.unwrap_err().text.contains("throw away"), "refuses for another reason"),
        Family::MySql => {
            stopped.unwrap();
            let failed = wait_applied(&mut hand(&mut client), &ours, "").await.unwrap_err();
            assert!(failed.kind == FailedKind::Refused && failed.text.contains("it was stopped"), "{failed}");
        }
    }
    let failed = promote(&mut hand(&mut client), &ours).await.unwrap_err();
    assert_eq!(failed.kind, FailedKind::Refused, "{failed}");
    assert_eq!(replica.sql("SELECT @@global.read_only").unwrap(), "1\n");
    assert_eq!(status(replica, ["Master_Port", "Source_Port"]), primary.port().to_string());
    // A lock keeps the applier from finishing in time.
    let mut lock = monitor(replica).await;
    lock.query("FLUSH TABLES WITH READ LOCK").await.unwrap();
    replica.sql(start).unwrap();
    stop_receiver(&mut hand(&mut client), &ours, true).await.unwrap();
    let failed = promote(&mut hand(&mut client), &ours).await.unwrap_err();
    assert!(failed.kind == FailedKind::Refused && failed.text.contains("has not applied"), "{failed}");
    let soon = Instant::now() + Duration::from_millis(400);
    let failed = wait_applied(&mut Hand::new(&mut client, soon), &ours, "").await.unwrap_err();
    assert_eq!(failed.kind, FailedKind::TimedOut, "{failed}");
    drop(lock);
    let mut client = monitor(replica).await;
    wait_applied(&mut hand(&mut client), &ours, "").await.unwrap();
    promote(&mut hand(&mut client), &ours).await.unwrap();
    assert_eq!(replica.sql("SELECT COUNT(*) FROM app.t").unwrap(), "1\n");
}

#[test]
fn a_receiver_is_stopped_at_once_although_its_source_is_frozen_and_what_it_received_stays() {
    let cluster = cluster(Family::MariaDb);
    run(frozen(&cluster));
}

async fn frozen(cluster: &Replication) {
    let (primary, replica) = (cluster.server(0), cluster.server(1));
    let ours = ours(cluster);
    let mut client = monitor(replica).await;
    let running = async |client: &mut Client| {
        while channel::read(&mut hand(client), &ours).await.unwrap().unwrap().receiver != Receiver::Running {
            tokio::task::yield_now().await;
        }
    };
    let mut quickest = Duration::MAX;
    for row in 1..=3 {
        running(&mut client).await;
        let mut lock = monitor(replica).await;
        lock.query("FLUSH TABLES WITH READ LOCK").await.unwrap();
        let before = status(replica, ["Gtid_IO_Pos", ""]);
        primary.sql(&format!("INSERT INTO app.t VALUES ({row})")).unwrap();
        while status(replica, ["Gtid_IO_Pos", ""]) == before {
            tokio::task::yield_now().await;
        }
        primary.freeze().unwrap();
        let began = Instant::now();
        stop_receiver(&mut hand(&mut client), &ours, true).await.unwrap();
        quickest = quickest.min(began.elapsed());
        assert_eq!(status(replica, ["Slave_IO_Running", ""]), "No");
        assert_eq!(replica.sql("SELECT @@global.rpl_semi_sync_slave_kill_conn_timeout").unwrap(), "5\n");
        drop(lock);
        let mut another = monitor(replica).await;
        wait_applied(&mut hand(&mut another), &ours, "").await.unwrap();
        assert_eq!(replica.sql("SELECT COUNT(*) FROM app.t").unwrap(), format!("{row}\n"));
        primary.thaw().unwrap();
        client.query("START SLAVE IO_THREAD").await.unwrap();
    }
    // On a machine that has much else to do the right moment can be missed, which costs a second.
    assert!(quickest < Duration::from_millis(900), "{quickest:?}");
}

fn forget(family: Family) -> &'static str {
    match family {
        Family::MariaDb => "STOP SLAVE; RESET SLAVE ALL",
        Family::MySql => "STOP REPLICA; RESET REPLICA ALL",
    }
}

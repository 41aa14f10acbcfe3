//! The lab against real servers: MariaDB always, MySQL when `SQLUICE_MYSQLD` names one.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqluice_lab::{Binaries, Family, LabError, Replication, ReplicationOptions, Server, ServerOptions, TlsFiles};

#[allow(clippy::unwrap_used, reason = "a helper of tests")]
fn families() -> Vec<Family> {
    Binaries::find().unwrap().families()
}

fn gone(pid: u32) -> bool {
    !PathBuf::from(format!("/proc/{pid}")).exists()
}

#[test]
fn a_server_answers_and_leaves_nothing_behind() {
    for family in families() {
        let server =
            Server::start(ServerOptions { init_sql: "CREATE DATABASE early;".into(), ..ServerOptions::new(family) })
                .unwrap();
        assert_eq!(server.sql("SELECT 1 + 1; SHOW DATABASES LIKE 'early'").unwrap(), "2\nearly\n");
        assert_eq!(server.sql_with_names("SELECT 7 AS n").unwrap(), "n\n7\n");
        let version = server.sql("SELECT VERSION()").unwrap();
        assert_eq!(version.contains("MariaDB"), family == Family::MariaDb, "{version}");
        TcpStream::connect(server.address()).unwrap();
        let (pid, folder) = (server.pid().unwrap(), server.folder().to_path_buf());
        assert!(server.socket_path().exists());
        drop(server);
        assert!(gone(pid));
        assert!(!folder.exists());
    }
}

#[test]
fn a_refused_statement_is_an_error_with_the_servers_words() {
    for family in families() {
        let server = Server::start(ServerOptions::new(family)).unwrap();
        let error = server.sql("SELECT * FROM nowhere.nothing").unwrap_err();
        assert!(matches!(&error, LabError::Sql { message, .. } if message.contains("nowhere")), "{error}");
    }
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let config = vec!["no_such_setting=1".to_owned()];
    let error = Server::start(ServerOptions { config, ..ServerOptions::new(Family::MariaDb) }).unwrap_err();
    let LabError::Start { log, .. } = &error else { panic!("{error}") };
    assert!(log.contains("no_such_setting"), "{log}");
}

#[test]
fn committed_rows_survive_kill9() {
    for family in families() {
        let server = Server::start(ServerOptions::new(family)).unwrap();
        server
            .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1), (2)")
            .unwrap();
        let (port, pid) = (server.port(), server.pid().unwrap());
        server.kill9();
        assert!(gone(pid));
        assert!(!server.is_running());
        assert!(matches!(server.freeze(), Err(LabError::NotRunning { .. })));
        assert!(TcpStream::connect(server.address()).is_err());
        server.restart().unwrap();
        assert_eq!(server.port(), port);
        assert_eq!(server.sql("SELECT COUNT(*) FROM d.t").unwrap(), "2\n");
    }
}

#[test]
fn a_frozen_server_answers_after_thawing() {
    let server = Server::start(ServerOptions::new(Family::MariaDb)).unwrap();
    server.freeze().unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", server.pid().unwrap())).unwrap();
    assert!(state.contains(") T "), "{state}");
    assert!(server.is_running());
    server.thaw().unwrap();
    assert_eq!(server.sql("SELECT 1").unwrap(), "1\n");
}

#[test]
fn read_only_stays_over_a_restart() {
    let server = Server::start(ServerOptions::new(Family::MariaDb)).unwrap();
    assert_eq!(server.sql("SELECT @@read_only").unwrap(), "0\n");
    server.set_read_only(true).unwrap();
    server.restart().unwrap();
    assert_eq!(server.sql("SELECT @@read_only").unwrap(), "1\n");
}

#[test]
fn replicas_hold_what_the_primary_holds() {
    for family in families() {
        let cluster = Replication::start(ReplicationOptions::new(family, 2)).unwrap();
        let ids: Vec<u32> = cluster.servers().iter().map(Server::server_id).collect();
        assert_eq!(ids, [1, 2, 3]);
        cluster
            .primary()
            .sql("CREATE TABLE app.t (id INT PRIMARY KEY, v TEXT); INSERT INTO app.t VALUES (1, 'é'), (2, NULL)")
            .unwrap();
        cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
        let sums = cluster.checksums("app").unwrap();
        assert_eq!(sums[0].len(), 1);
        assert_ne!(sums[0]["app.t"], "0");
        assert_eq!(sums[0], sums[1]);
        assert_eq!(sums[0], sums[2]);
        for replica in cluster.replicas() {
            assert_eq!(replica.sql("SELECT @@read_only").unwrap(), "1\n");
            let users = replica.sql("SELECT user FROM mysql.user WHERE host = '%' ORDER BY user").unwrap();
            assert_eq!(users, "app\nrepl\nsqluice\n");
        }
    }
}

#[test]
fn a_killed_replica_catches_up() {
    let cluster = Replication::start(ReplicationOptions::new(Family::MariaDb, 1)).unwrap();
    cluster.server(1).kill9();
    cluster.primary().sql("CREATE TABLE app.t (id INT PRIMARY KEY); INSERT INTO app.t VALUES (1)").unwrap();
    cluster.server(1).restart().unwrap();
    cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
    assert_eq!(cluster.server(1).sql("SELECT id FROM app.t").unwrap(), "1\n");
}

#[test]
fn the_primary_can_be_moved() {
    for family in families() {
        let cluster = Replication::start(ReplicationOptions::new(family, 2)).unwrap();
        cluster.primary().sql("CREATE TABLE app.t (id INT PRIMARY KEY); INSERT INTO app.t VALUES (1)").unwrap();
        cluster.promote(2).unwrap();
        assert_eq!(cluster.primary().server_id(), 3);
        let read_only = |index: usize| cluster.server(index).sql("SELECT @@read_only").unwrap();
        assert_eq!([read_only(0), read_only(1), read_only(2)], ["1\n", "1\n", "0\n"]);
        cluster.primary().sql("INSERT INTO app.t VALUES (2)").unwrap();
        cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
        for server in cluster.servers() {
            assert_eq!(server.sql("SELECT id FROM app.t ORDER BY id").unwrap(), "1\n2\n");
        }
    }
}

#[test]
fn a_dead_primary_can_be_replaced_and_rejoin() {
    for family in families() {
        let cluster = Replication::start(ReplicationOptions::new(family, 2)).unwrap();
        cluster.primary().sql("CREATE TABLE app.t (id INT PRIMARY KEY); INSERT INTO app.t VALUES (1)").unwrap();
        cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
        cluster.server(0).kill9();
        cluster.promote(1).unwrap();
        cluster.primary().sql("INSERT INTO app.t VALUES (2)").unwrap();
        cluster.server(0).restart().unwrap();
        cluster.rejoin(0).unwrap();
        cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
        let sums = cluster.checksums("app").unwrap();
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    }
}

#[test]
fn what_only_one_has_of_a_dead_primary_is_fetched_and_what_none_has_is_forgotten() {
    for family in families() {
        let cluster = Replication::start(ReplicationOptions::new(family, 2)).unwrap();
        let stop = if family == Family::MariaDb { "STOP SLAVE" } else { "STOP REPLICA" };
        cluster
            .primary()
            .sql("CREATE TABLE app.t (id INT PRIMARY KEY, n INT); INSERT INTO app.t VALUES (1, 1)")
            .unwrap();
        cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
        cluster.server(1).sql(stop).unwrap();
        cluster.primary().sql("INSERT INTO app.t VALUES (2, 1)").unwrap();
        let has_it = |count: &&str| cluster.server(2).sql("SELECT COUNT(*) FROM app.t").unwrap().trim() == *count;
        while !has_it(&"2") {
            std::thread::yield_now();
        }
        cluster.server(2).sql(stop).unwrap();
        cluster.primary().sql("INSERT INTO app.t VALUES (3, 1)").unwrap();
        cluster.server(0).kill9();
        cluster.promote(1).unwrap();
        // More than what the dead one has alone, so that its position would look like one from before.
        let writes: String = (0..5).map(|n| format!("REPLACE INTO app.t VALUES ({}, 2);", 3 + n)).collect();
        cluster.primary().sql(&writes).unwrap();
        cluster.server(0).restart().unwrap();
        cluster.rejoin(0).unwrap();
        cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
        for server in cluster.servers() {
            assert_eq!(server.sql("SELECT COUNT(*), SUM(n) FROM app.t").unwrap(), "7\t12\n", "{family:?}");
        }
        cluster.promote(0).unwrap();
        cluster.primary().sql("DELETE FROM app.t").unwrap();
        cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
    }
}

#[test]
fn a_replica_that_logged_more_than_it_noted_can_rejoin() {
    let cluster = Replication::start(ReplicationOptions::new(Family::MariaDb, 1)).unwrap();
    cluster.primary().sql("CREATE TABLE app.t (id INT PRIMARY KEY)").unwrap();
    cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
    // The state that a kill between logging a statement and noting its position leaves.
    let replica = cluster.server(1);
    let back = "STOP SLAVE; SET GLOBAL gtid_strict_mode = OFF; \
                SET GLOBAL gtid_slave_pos = CONCAT('0-1-', SUBSTRING_INDEX(@@GLOBAL.gtid_slave_pos, '-', -1) - 1); \
                SET GLOBAL gtid_strict_mode = ON";
    replica.sql(back).unwrap();
    assert_eq!(replica.sql("SELECT @@GLOBAL.gtid_slave_pos = @@GLOBAL.gtid_binlog_pos").unwrap(), "0\n");
    cluster.rejoin(1).unwrap();
    cluster.primary().sql("INSERT INTO app.t VALUES (1)").unwrap();
    cluster.wait_in_sync(Duration::from_secs(10)).unwrap();
    assert_eq!(replica.sql("SELECT id FROM app.t").unwrap(), "1\n");
}

#[test]
fn a_replica_that_cannot_catch_up_is_named() {
    let cluster = Replication::start(ReplicationOptions::new(Family::MariaDb, 1)).unwrap();
    cluster.server(1).sql("STOP SLAVE").unwrap();
    cluster.primary().sql("CREATE TABLE app.t (id INT PRIMARY KEY)").unwrap();
    let started = Instant::now();
    let error = cluster.wait_in_sync(Duration::from_millis(200)).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(error.contains(&cluster.server(1).port().to_string()), "{error}");
    assert!(error.contains("Slave_SQL_Running: No"), "{error}");
}

#[test]
fn servers_offer_tls_with_the_given_files() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Some(TlsFiles { authority: certificate.clone(), certificate, key });
    for family in families() {
        let options = ReplicationOptions { tls: tls.clone(), ..ReplicationOptions::new(family, 1) };
        let cluster = Replication::start(options).unwrap();
        // That it caught up says that the connection works; this, that it is encrypted.
        let status = cluster.server(1).sql_vertical(match family {
            Family::MariaDb => "SHOW ALL SLAVES STATUS",
            Family::MySql => "SHOW REPLICA STATUS",
        });
        assert!(status.unwrap().contains("_SSL_Allowed: Yes"));
    }
}

#[test]
fn servers_end_with_the_process_that_started_them() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serve_until_killed", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.into_iter().find(|line| line.contains("serving ")).unwrap();
    let (_, words) = line.split_once("serving ").unwrap();
    let (pid, folder) = words.split_once(' ').unwrap();
    let (pid, folder): (u32, _) = (pid.parse().unwrap(), PathBuf::from(folder));
    assert!(!gone(pid) && folder.is_dir());
    owner.kill().unwrap();
    owner.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while folder.exists() || !gone(pid) {
        assert!(Instant::now() < deadline, "process {pid} or {} is still there", folder.display());
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "the process that servers_end_with_the_process_that_started_them kills"]
fn serve_until_killed() {
    let server = Server::start(ServerOptions::new(Family::MariaDb)).unwrap();
    println!("serving {} {}", server.pid().unwrap(), server.folder().display());
    // Nothing is ever written to it; it ends with the other process, should that one fail.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

//! The SQL that `sqluice init` prints, run on real servers: it gives the monitor user what it needs, and no more.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

#[path = "../src/init/grants.rs"]
mod grants;

use std::process::{Command, Output};

use grants::{ClusterKindArg, Grantee, plain, sql};
use lab::{Binaries, Family, Server, ServerBinary, ServerOptions};

const USER: &str = "o'watcher";
const PASSWORD: &str = "Hush-1'hush";
const SCHEMA: &str = "sq_luice";

fn families() -> Vec<Family> {
    let families = Binaries::find().unwrap().families();
    assert!(!families.is_empty());
    families
}

/// Runs statements as a user.
fn run_as(user: &str, server: &Server, binary: &ServerBinary, statements: &str) -> Output {
    let mut command = Command::new(&binary.client);
    command.args(["--no-defaults", "--batch", "--skip-column-names", "--protocol=socket"]);
    command.arg(format!("--socket={}", server.socket_path().display())).arg(format!("--user={user}"));
    command.arg("--execute").arg(statements).env("MYSQL_PWD", PASSWORD).output().unwrap()
}

/// Runs statements as the monitor user.
fn run(server: &Server, binary: &ServerBinary, statements: &str) -> Output {
    run_as(USER, server, binary, statements)
}

fn allowed(server: &Server, binary: &ServerBinary, statements: &str) -> String {
    let output = run(server, binary, statements);
    assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn denied(server: &Server, binary: &ServerBinary, statements: &str) {
    let output = run(server, binary, statements);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.to_lowercase().contains("denied"), "{statements}: {error}");
}

fn grantee(failover: bool) -> Grantee<'static> {
    Grantee {
        user: USER,
        host: "%",
        password: PASSWORD,
        heartbeat_schema: SCHEMA,
        kind: ClusterKindArg::Replication,
        failover,
    }
}

#[test]
fn with_failover_the_monitor_can_replace_a_primary_and_without_it_cannot() {
    for family in families() {
        let binary = Binaries::find().unwrap().server(family).unwrap().clone();
        let server = Server::start(ServerOptions::new(family)).unwrap();
        let (grants_family, statements): (_, &[&str]) = match family {
            Family::MariaDb => (
                grants::Family::Mariadb,
                &[
                    "SET GLOBAL read_only = 1; SET GLOBAL read_only = 0",
                    "STOP SLAVE ''; SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos",
                    "CHANGE MASTER '' TO MASTER_HOST = 'h', MASTER_PORT = 1, MASTER_USE_GTID = slave_pos",
                    "RESET SLAVE '' ALL",
                    "SET GLOBAL rpl_semi_sync_slave_enabled = 1; SET GLOBAL rpl_semi_sync_slave_enabled = 0",
                    "SET GLOBAL rpl_semi_sync_master_enabled = 1; SET GLOBAL rpl_semi_sync_master_enabled = 0",
                    "SHOW MASTER STATUS",
                ],
            ),
            Family::MySql => (
                grants::Family::Mysql,
                &[
                    "SET GLOBAL super_read_only = 1; SET GLOBAL read_only = 0",
                    "STOP REPLICA FOR CHANNEL ''",
                    "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', SOURCE_PORT = 1, SOURCE_AUTO_POSITION = 1",
                    "RESET REPLICA ALL FOR CHANNEL ''",
                ],
            ),
        };
        server.sql(&sql(grants_family, &grantee(false))).unwrap();
        server.sql(&format!("CREATE USER app@'%' IDENTIFIED BY '{}'", PASSWORD.replace('\'', "''"))).unwrap();
        let watching_may = ["SHOW MASTER STATUS"];
        for statement in statements.iter().filter(|statement| !watching_may.contains(statement)) {
            denied(&server, &binary, statement);
        }
        server.sql(&sql(grants_family, &grantee(true))).unwrap();
        for statement in statements {
            allowed(&server, &binary, statement);
        }
        std::thread::scope(|scope| {
            let client = scope.spawn(|| run_as("app", &server, &binary, "SELECT SLEEP(60)"));
            while !allowed(&server, &binary, "SHOW PROCESSLIST").contains("\tapp\t") && !client.is_finished() {
                std::thread::yield_now();
            }
            let list = allowed(&server, &binary, "SHOW PROCESSLIST");
            let id = list.lines().find(|line| line.contains("\tapp\t")).and_then(|line| line.split('\t').next());
            allowed(&server, &binary, &format!("KILL {}", id.unwrap()));
            assert!(!client.join().unwrap().status.success());
        });
        denied(&server, &binary, "SELECT * FROM mysql.db");
        denied(&server, &binary, "CREATE USER somebody");

        // The grants in the comment are enough to move events.
        server
            .sql("CREATE DATABASE shop; CREATE DEFINER = app@'%' EVENT shop.e ON SCHEDULE EVERY 1 DAY DO SELECT 1")
            .unwrap();
        let change = "SET SESSION sql_log_bin = 0; ALTER DEFINER = app@'%' EVENT shop.e DISABLE ON SLAVE";
        denied(&server, &binary, change);
        let printed = sql(grants_family, &grantee(true));
        let rights: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        let rights: Vec<&str> = rights.into_iter().filter(|line| line.starts_with("GRANT EVENT, ")).collect();
        assert_eq!(rights.len(), 1, "{printed}");
        server.sql(rights[0]).unwrap();
        allowed(&server, &binary, change);
        let scheduler = "SET GLOBAL event_scheduler = ON";
        if family == Family::MariaDb {
            denied(&server, &binary, scheduler);
            let right =
                printed.lines().find_map(|line| line.strip_prefix("-- ").filter(|sql| sql.starts_with("GRANT SUPER ")));
            server.sql(right.unwrap()).unwrap();
        }
        allowed(&server, &binary, scheduler);
    }
}

fn check(family: Family) {
    let binary = Binaries::find().unwrap().server(family).unwrap().clone();
    let server = Server::start(ServerOptions::new(family)).unwrap();
    let grants_family = match family {
        Family::MariaDb => grants::Family::Mariadb,
        Family::MySql => grants::Family::Mysql,
    };
    assert!(plain(USER) && plain(PASSWORD) && !plain("a\\b"));
    let sql = sql(grants_family, &grantee(false));
    server.sql(&sql).unwrap();
    server.sql(&sql).unwrap();
    server
        .sql(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT); \
             CREATE FUNCTION shop.f() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM shop.t); \
             CREATE FUNCTION shop.g() RETURNS INT DETERMINISTIC MODIFIES SQL DATA RETURN 1;",
        )
        .unwrap();

    let status = match family {
        Family::MariaDb => "SHOW ALL REPLICAS STATUS",
        Family::MySql => "SHOW REPLICA STATUS",
    };
    allowed(&server, &binary, status);
    if family == Family::MySql {
        for table in ["connection_status", "connection_configuration", "applier_status"] {
            allowed(&server, &binary, &format!("SELECT * FROM performance_schema.replication_{table}"));
        }
    }
    let accounts = match family {
        Family::MariaDb => "SELECT Host, User, Priv FROM mysql.global_priv WHERE User = 'root'",
        Family::MySql => {
            "SELECT Host, User, plugin, authentication_string, ssl_type, ssl_cipher, x509_issuer, x509_subject, \
             account_locked, password_expired, password_last_changed, password_lifetime FROM mysql.user \
             WHERE User = 'root'"
        }
    };
    assert!(allowed(&server, &binary, accounts).starts_with("localhost\troot\t"));
    // The monitor's reading of each family, with the bodies.
    let functions = match family {
        Family::MariaDb => {
            "SELECT name, sql_data_access, body_utf8 <> '' FROM mysql.proc WHERE db = 'shop' ORDER BY name"
        }
        Family::MySql => {
            "SELECT ROUTINE_NAME, SQL_DATA_ACCESS, ROUTINE_DEFINITION <> '' FROM information_schema.ROUTINES \
             WHERE ROUTINE_SCHEMA = 'shop' ORDER BY ROUTINE_NAME"
        }
    };
    let (reads, modifies) = match family {
        Family::MariaDb => ("READS_SQL_DATA", "MODIFIES_SQL_DATA"),
        Family::MySql => ("READS SQL DATA", "MODIFIES SQL DATA"),
    };
    let routines = allowed(&server, &binary, functions);
    assert_eq!(routines, format!("f\t{reads}\t1\ng\t{modifies}\t1\n"));
    let heartbeat = format!(
        "CREATE DATABASE IF NOT EXISTS {SCHEMA}; \
         CREATE TABLE IF NOT EXISTS {SCHEMA}.beat (id INT PRIMARY KEY, at BIGINT); \
         INSERT INTO {SCHEMA}.beat VALUES (1, 1) ON DUPLICATE KEY UPDATE at = 2; SELECT at FROM {SCHEMA}.beat"
    );
    assert_eq!(allowed(&server, &binary, &heartbeat), "1\n");
    assert_eq!(allowed(&server, &binary, &heartbeat), "2\n");

    denied(&server, &binary, "SELECT * FROM shop.t");
    denied(&server, &binary, "SELECT * FROM mysql.db");
    denied(&server, &binary, "CREATE DATABASE other");
    denied(&server, &binary, "CREATE DATABASE sqxluice");
    denied(&server, &binary, "CREATE USER somebody");
}

#[test]
fn the_printed_grants_are_enough_and_not_more() {
    for family in families() {
        check(family);
    }
}

#[test]
fn the_monitor_can_end_a_statement_of_somebody_else() {
    for family in families() {
        let binary = Binaries::find().unwrap().server(family).unwrap().clone();
        let server = Server::start(ServerOptions::new(family)).unwrap();
        let grants_family = match family {
            Family::MariaDb => grants::Family::Mariadb,
            Family::MySql => grants::Family::Mysql,
        };
        server.sql(&sql(grants_family, &grantee(false))).unwrap();
        let slow = "SELECT SLEEP(60)";
        server.sql(&format!("CREATE USER app@'%' IDENTIFIED BY '{}'", PASSWORD.replace('\'', "''"))).unwrap();
        std::thread::scope(|scope| {
            let victim = scope.spawn(|| run_as("app", &server, &binary, slow));
            let find = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = '{slow}'");
            let id = loop {
                let id = server.sql(&find).unwrap();
                if !id.is_empty() || victim.is_finished() {
                    break id;
                }
            };
            allowed(&server, &binary, &format!("KILL {id}"));
            let error = String::from_utf8(victim.join().unwrap().stderr).unwrap();
            assert!(error.contains("ERROR"), "the session went on: {error}");
        });
    }
}

//! The start values of sessions: the primary's global values at the login, on any server.

use lab::Family;

use crate::follow::direct;
use crate::support::{Front, SOON, all, error, failing, families, value};

const LENGTH: &str = "SELECT @@session.max_sort_length, @@session.div_precision_increment";

#[tokio::test]
async fn sessions_begin_with_the_primary_s_defaults_and_keep_them() {
    check_defaults(Family::MariaDb).await;
}

pub async fn check_defaults(family: Family) {
    let rights = if family == Family::MariaDb { "SUPER" } else { "SYSTEM_VARIABLES_ADMIN" };
    let identified = "IDENTIFIED BY 'e2e-Defaults-1'";
    let sql = format!("CREATE USER e2e_defaults@'%' {identified}; GRANT {rights} ON *.* TO e2e_defaults@'%'");
    // Nobody else may see what is changed here.
    let servers = failing(family).await;
    servers.primary().sql(&sql).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let front = Front::start(&servers, |_| {}).await;
    for server in servers.servers().iter().filter(|server| server.port() != servers.primary().port()) {
        server.sql("SET GLOBAL div_precision_increment = 7").unwrap();
    }
    // The catalog is read again, and finds that the replicas differ, when somebody changes a default.
    let mut root = front.login("e2e_defaults", "e2e-Defaults-1").await.unwrap();
    let mut before = front.client().await;
    assert_eq!(value(&mut before, "SELECT @@session.max_sort_length").await, "1024");
    for length in [2000, 3000] {
        all(&mut root, &format!("SET GLOBAL max_sort_length = {length}")).await;
        let mut fresh = front.client().await;
        for _ in 0..8 {
            let seen = fresh.query_one(LENGTH).await.unwrap();
            let seen = [seen.text(0, "@@session.max_sort_length"), seen.text(0, "@@session.div_precision_increment")];
            assert_eq!(seen.map(|text| text.unwrap().into_owned()), [length.to_string(), "4".into()]);
        }
        all(&mut fresh, "SET max_sort_length = 100").await;
        all(&mut fresh, "SET max_sort_length = DEFAULT").await;
        assert_eq!(value(&mut fresh, "SELECT @@max_sort_length").await, length.to_string());
        all(&mut fresh, "SET max_sort_length = 100").await;
        assert_eq!(value(&mut fresh, "SELECT @@max_sort_length").await, "100");
        for _ in 0..8 {
            assert_eq!(value(&mut before, "SELECT @@session.max_sort_length").await, "1024", "as it began");
        }
    }
    all(&mut root, "SET GLOBAL autocommit = OFF").await;
    let mut without = front.client().await;
    let mut directly = direct(&servers).await;
    for client in [&mut without, &mut directly] {
        assert_eq!(value(client, "SELECT @@autocommit").await, "0");
    }
    // MySQL sets the flag all the same, until the session itself sets the variable.
    assert_eq!(without.status(), directly.status());
    all(&mut root, "SET GLOBAL autocommit = ON").await;
    all(&mut root, "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'").await;
    let (mut escaping, mut directly) = (front.client().await, direct(&servers).await);
    for client in [&mut escaping, &mut directly] {
        client.reset_connection().await.unwrap();
    }
    assert_eq!(escaping.status(), directly.status(), "clients escape texts by these flags");
    all(&mut root, "SET GLOBAL sql_mode = DEFAULT").await;
    all(&mut root, "SET GLOBAL max_sort_length = DEFAULT").await;
    assert_eq!(value(&mut without, "SELECT @@autocommit").await, "0");
    for server in servers.servers() {
        server.sql("SET GLOBAL div_precision_increment = DEFAULT").unwrap();
    }
    servers.primary().sql("DROP USER e2e_defaults@'%'").unwrap();
}

#[tokio::test]
async fn defaults_that_no_session_may_choose_keep_no_client_out() {
    let servers = failing(Family::MariaDb).await;
    let sql = "CREATE USER e2e_chooser@'%' IDENTIFIED BY 'e2e-Chooser-1'; GRANT ALL ON *.* TO e2e_chooser@'%'";
    servers.primary().sql(sql).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let front = Front::start(&servers, |_| {}).await;
    let mut root = front.login("e2e_chooser", "e2e-Chooser-1").await.unwrap();
    for (default, changed) in [
        ("enforce_storage_engine = DEFAULT", "enforce_storage_engine = 'InnoDB'"),
        ("innodb_tmpdir = NULL", "innodb_tmpdir = '/tmp'"),
        ("log_disabled_statements = DEFAULT", "log_disabled_statements = 'slave'"),
        ("max_insert_delayed_threads = DEFAULT", "max_insert_delayed_threads = 7"),
        ("sql_mode = DEFAULT", "sql_mode = 'ORACLE'"),
        ("system_versioning_asof = DEFAULT", "system_versioning_asof = '2020-01-01 00:00:00'"),
    ] {
        for set in [changed, default] {
            all(&mut root, &format!("SET GLOBAL {set}")).await;
            let mut plain = front.client().await;
            assert_eq!(value(&mut plain, "SELECT 1").await, "1", "{set}");
        }
    }
    let log = front.log();
    assert!(!log.contains("a session's state was refused") && !log.contains("could not be read"), "{log}");
    servers.primary().sql("DROP USER e2e_chooser@'%'").unwrap();
}

/// The reply to SET GLOBAL must not come before those know of it who log in behind it, at whichever worker.
#[tokio::test]
async fn a_login_right_behind_a_change_of_a_default_begins_with_it() {
    let servers = failing(Family::MariaDb).await;
    let sql =
        "CREATE OR REPLACE USER e2e_changer@'%' IDENTIFIED BY 'e2e-Changer-1'; GRANT ALL ON *.* TO e2e_changer@'%'";
    servers.primary().sql(sql).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let front = Front::start(&servers, |setup| setup.proxy = "workers = 4\ndrain_ms = 200".into()).await;
    let mut root = front.login("e2e_changer", "e2e-Changer-1").await.unwrap();
    for round in 0..60 {
        let precision = (5 + round % 20).to_string();
        let set = root.prepare(format!("SET GLOBAL div_precision_increment = {precision}")).await.unwrap();
        root.execute(&set, &[]).await.unwrap();
        let mut fresh = front.client().await;
        assert_eq!(value(&mut fresh, "SELECT @@div_precision_increment").await, precision, "round {round}");
    }
    servers.primary().sql("SET GLOBAL div_precision_increment = DEFAULT; DROP USER e2e_changer@'%'").unwrap();
}

/// A session has set a variable that its user may set no more, and comes to a new connection.
#[tokio::test]
async fn a_write_does_not_run_behind_a_state_that_a_server_refuses() {
    for family in families() {
        let servers = failing(family).await;
        let user = "e2e_refused";
        let privilege = if family == Family::MariaDb { "BINLOG ADMIN" } else { "SESSION_VARIABLES_ADMIN" };
        let sql = format!(
            "DROP USER IF EXISTS {user}@'%'; CREATE USER {user}@'%' IDENTIFIED BY 'e2e-Refused-1';
             GRANT {privilege} ON *.* TO {user}@'%'; GRANT ALL ON app.* TO {user}@'%';
             DROP TABLE IF EXISTS app.e2e_refused; CREATE TABLE app.e2e_refused (a INT)"
        );
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
        let front = Front::start(&servers, |_| {}).await;
        let mut client = front.login(user, "e2e-Refused-1").await.unwrap();
        all(&mut client, "SET SESSION binlog_row_image = 'MINIMAL'").await;
        all(&mut client, "INSERT INTO app.e2e_refused VALUES (1)").await;
        servers.primary().sql(&format!("REVOKE {privilege} ON *.* FROM {user}@'%'")).unwrap();
        let ids = format!("SELECT id FROM information_schema.PROCESSLIST WHERE user = '{user}'");
        for id in servers.primary().sql(&ids).unwrap().lines().filter_map(|line| line.trim().parse::<u64>().ok()) {
            servers.primary().sql(&format!("KILL {id}")).unwrap();
        }
        assert_eq!(error(&mut client, "INSERT INTO app.e2e_refused VALUES (2)").await.0, 1227, "{family:?}");
        let count = servers.primary().sql("SELECT COUNT(*) FROM app.e2e_refused").unwrap();
        assert_eq!(count.split_whitespace().last(), Some("1"), "{family:?}");
    }
}

/// Limits that servers set for all sessions cut none of the lists short that the monitor reads.
#[tokio::test]
async fn defaults_that_limit_queries_do_not_limit_the_monitor() {
    for family in families() {
        let servers = failing(family).await;
        let account = |name: &str| format!("CREATE USER {name}@'%' IDENTIFIED BY 'e2e-Limited-1'");
        let names = ["e2e_limited_1", "e2e_limited_2", "e2e_limited_3"];
        servers.primary().sql(&names.map(account).join("; ")).unwrap();
        servers.wait_in_sync(SOON).unwrap();
        let time = if family == Family::MariaDb { "max_statement_time" } else { "max_execution_time" };
        let all_limits = |values: [&str; 4]| {
            let names = ["sql_select_limit", "max_join_size", "sql_big_selects", time];
            let sets = names.iter().zip(values).map(|(name, value)| format!("SET GLOBAL {name} = {value}"));
            let sql = sets.collect::<Vec<_>>().join("; ");
            servers.servers().iter().for_each(|server| drop(server.sql(&sql).unwrap()));
        };
        all_limits(["1", "1", "0", if family == Family::MariaDb { "0.000001" } else { "1" }]);
        let front = Front::start(&servers, |_| {}).await;
        front.knows(2).await;
        for name in names {
            drop(
                front.login(name, "e2e-Limited-1").await.unwrap_or_else(|error| panic!("{family:?}, {name}: {error}")),
            );
        }
        let log = front.log();
        assert!(!log.contains("could not be read"), "{family:?}: {log}");
        all_limits(["DEFAULT", "DEFAULT", "1", "0"]);
        let drops = names.map(|name| format!("DROP USER {name}@'%'"));
        servers.primary().sql(&drops.join("; ")).unwrap();
    }
}

/// A session's next connection is opened right behind a change of a default, before Sqluice has read the new one.
#[tokio::test]
async fn a_session_keeps_its_default_on_a_connection_that_is_opened_right_behind_a_change() {
    for family in families() {
        let servers = failing(family).await;
        let rights = if family == Family::MariaDb { "SUPER" } else { "SYSTEM_VARIABLES_ADMIN" };
        let sql = format!(
            "DROP USER IF EXISTS e2e_behind@'%'; CREATE USER e2e_behind@'%' IDENTIFIED BY 'e2e-Behind-1'; \
             GRANT {rights} ON *.* TO e2e_behind@'%'"
        );
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
        for precision in 5..10 {
            // Nobody has heard of the change before.
            let front = Front::start(&servers, |setup| {
                setup.listener = "split = \"primary\"".into();
                setup.proxy = "workers = 1\ndrain_ms = 200".into();
            })
            .await;
            let (mut client, mut other) = (front.client().await, front.client().await);
            let mut root = front.login("e2e_behind", "e2e-Behind-1").await.unwrap();
            assert_eq!(value(&mut client, "SELECT @@div_precision_increment").await, "4");
            all(&mut root, &format!("SET GLOBAL div_precision_increment = {precision}")).await;
            // It takes the client's connection.
            all(&mut other, "BEGIN").await;
            all(&mut other, "SELECT 1").await;
            let seen = value(&mut client, "SELECT @@div_precision_increment").await;
            all(&mut root, "SET GLOBAL div_precision_increment = 4").await;
            assert_eq!(seen, "4", "{family:?}, {precision}");
        }
        servers.primary().sql("DROP USER e2e_behind@'%'").unwrap();
    }
}

/// The default of a variable changes under a session that has set the variable by its other name.
#[tokio::test]
async fn a_variable_with_two_names_keeps_the_value_that_a_session_gave_it_by_either() {
    let servers = failing(Family::MariaDb).await;
    let sql = "CREATE OR REPLACE USER e2e_names@'%' IDENTIFIED BY 'e2e-Names-1'; GRANT ALL ON *.* TO e2e_names@'%'";
    servers.primary().sql(sql).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let front = Front::start(&servers, |_| {}).await;
    let mut root = front.login("e2e_names", "e2e-Names-1").await.unwrap();
    for (default, own, seen) in [
        ("default_storage_engine = MyISAM", "storage_engine = MEMORY", "MEMORY"),
        ("long_query_time = 7", "@@session.log_slow_query_time = 3", "3.000000"),
        ("log_slow_query_time = 8", "@@session.long_query_time = 4", "4.000000"),
        ("tmp_memory_table_size = 2097152", "tmp_table_size = 1048576", "1048576"),
        ("min_examined_row_limit = 9", "log_slow_min_examined_row_limit = 5", "5"),
        ("alter_algorithm = INPLACE", "old_alter_table = COPY", "COPY"),
    ] {
        let name = own.trim_start_matches("@@session.").split(' ').next().unwrap();
        let (default_name, _) = default.split_once(' ').unwrap();
        let (before, mut client) =
            (value(&mut root, &format!("SELECT @@global.{default_name}")).await, front.client().await);
        all(&mut client, &format!("SET {own}")).await;
        all(&mut root, &format!("SET GLOBAL {default}")).await;
        // The next one to log in begins with it, so that all know of it.
        drop(front.client().await);
        for _ in 0..6 {
            assert_eq!(value(&mut client, &format!("SELECT @@session.{name}")).await, seen, "{own}");
        }
        let quoted = if before.starts_with(|c: char| c.is_ascii_digit()) { before } else { format!("'{before}'") };
        all(&mut root, &format!("SET GLOBAL {default_name} = {quoted}")).await;
    }
    servers.primary().sql("DROP USER e2e_names@'%'").unwrap();
}

#[tokio::test]
async fn a_deprecated_default_leaves_no_warning_to_a_client() {
    let servers = failing(Family::MariaDb).await;
    let sql = "CREATE USER e2e_chooser@'%' IDENTIFIED BY 'e2e-Chooser-1'; GRANT ALL ON *.* TO e2e_chooser@'%'";
    servers.primary().sql(sql).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let front = Front::start(&servers, |setup| setup.pool = "max_connections_per_server = 1".into()).await;
    let mut root = front.login("e2e_chooser", "e2e-Chooser-1").await.unwrap();
    for set in ["SET GLOBAL max_tmp_tables = 20", "SET GLOBAL max_tmp_tables = DEFAULT"] {
        all(&mut root, set).await;
        let mut plain = front.client().await;
        let rows = plain.query_one("SHOW WARNINGS").await.unwrap().rows;
        assert_eq!(rows.len(), 0, "{rows:?}");
        assert_eq!(value(&mut plain, "SELECT @@warning_count").await, "0");
    }
    servers.primary().sql("DROP USER e2e_chooser@'%'").unwrap();
}

#[tokio::test]
async fn what_a_replica_refuses_to_set_is_the_primary_s_to_judge() {
    let servers = failing(Family::MariaDb).await;
    servers.primary().sql("SET GLOBAL query_cache_size = 1048576; SET GLOBAL query_cache_type = ON").unwrap();
    let front = Front::start(&servers, |_| {}).await;
    let mut client = front.client().await;
    for _ in 0..4 {
        all(&mut client, "SET query_cache_type = DEMAND").await;
        assert_eq!(value(&mut client, "SELECT @@session.query_cache_type").await, "DEMAND");
        assert_eq!(value(&mut client, "SELECT 1").await, "1", "where no replica can take the session's state");
    }
    assert_eq!(error(&mut client, "SET query_cache_type = 'nonsense'").await.0, 1231);
    servers.primary().sql("SET GLOBAL query_cache_type = OFF; SET GLOBAL query_cache_size = DEFAULT").unwrap();
}

#[tokio::test]
async fn sessions_begin_with_the_primary_s_values_right_after_a_start() {
    let servers = failing(Family::MariaDb).await;
    let others = || servers.servers().iter().filter(|server| server.port() != servers.primary().port());
    for server in others() {
        server.sql("SET GLOBAL div_precision_increment = 7").unwrap();
    }
    // A replica's position is known first when the primary is read last.
    let addresses: Vec<String> = servers.servers().iter().rev().map(|server| server.address().to_string()).collect();
    for _ in 0..5 {
        let front = Front::start_on(&addresses, |_| {}).await;
        let mut first = front.client().await;
        for _ in 0..4 {
            assert_eq!(value(&mut first, "SELECT @@session.div_precision_increment").await, "4");
            assert_eq!(value(&mut first, "SELECT 1 / 3").await, "0.3333");
        }
    }
    for server in others() {
        server.sql("SET GLOBAL div_precision_increment = DEFAULT").unwrap();
    }
}

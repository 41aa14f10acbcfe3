//! The accounts that every lab cluster has.

use crate::Family;

/// The application's user, from any host.
pub const APP_USER: &str = "app";
/// The password of [`APP_USER`].
pub const APP_PASSWORD: &str = "app-secret";
/// A database that the application finds.
pub const APP_DATABASE: &str = "app";
/// The user that Sqluice watches servers with.
pub const MONITOR_USER: &str = "sqluice";
/// The password of [`MONITOR_USER`].
pub const MONITOR_PASSWORD: &str = "sqluice-secret";
/// The database that [`MONITOR_USER`] may create and write, for the heartbeat.
pub const MONITOR_DATABASE: &str = "sqluice";
/// The user that replicas read the binary log with.
pub const REPL_USER: &str = "repl";
/// The password of [`REPL_USER`].
pub const REPL_PASSWORD: &str = "repl-secret";

/// The application's rights: all but those of an administrator. Above all nothing that sees past `read_only`.
pub const APP_PRIVILEGES: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, RELOAD, PROCESS, REFERENCES, INDEX, ALTER, \
                              CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, \
                              ALTER ROUTINE, EVENT, TRIGGER, SHOW DATABASES";

/// Statements that create the accounts and the application's database. On a primary, before replicas attach, so that
/// they replicate.
///
/// Passwords are kept as `mysql_native_password` in MariaDB and as `caching_sha2_password` in MySQL.
pub fn accounts_sql(family: Family) -> String {
    let mut sql = format!("CREATE DATABASE {APP_DATABASE};\n");
    for (user, password) in [(APP_USER, APP_PASSWORD), (MONITOR_USER, MONITOR_PASSWORD), (REPL_USER, REPL_PASSWORD)] {
        let identified = match family {
            Family::MariaDb => format!("VIA mysql_native_password USING PASSWORD('{password}')"),
            Family::MySql => format!("WITH caching_sha2_password BY '{password}'"),
        };
        sql.push_str(&format!("CREATE USER {user}@'%' IDENTIFIED {identified};\n"));
    }
    // The monitor reads replication status, accounts, how stored functions use data, what triggers and views do (these
    // are shown to who may read them). It also ends statements.
    // Behind that, what failover needs: to see and end sessions, to refuse writes, and to change replication.
    let monitor = match family {
        Family::MariaDb => {
            "REPLICA MONITOR, BINLOG MONITOR, CONNECTION ADMIN, TRIGGER, SHOW VIEW, \
             PROCESS, READ_ONLY ADMIN, REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN, RELOAD"
        }
        Family::MySql => {
            "REPLICATION CLIENT, CONNECTION_ADMIN, SHOW_ROUTINE, TRIGGER, SHOW VIEW, \
             PROCESS, SYSTEM_VARIABLES_ADMIN, SYSTEM_USER, REPLICATION_SLAVE_ADMIN, GROUP_REPLICATION_ADMIN, RELOAD"
        }
    };
    sql.push_str(&format!(
        "GRANT {APP_PRIVILEGES} ON *.* TO {APP_USER}@'%';\n\
         GRANT {monitor} ON *.* TO {MONITOR_USER}@'%';\n\
         GRANT SELECT ON mysql.* TO {MONITOR_USER}@'%';\n\
         GRANT SELECT ON {APP_DATABASE}.* TO {MONITOR_USER}@'%';\n\
         GRANT CREATE, INSERT, UPDATE, SELECT ON {MONITOR_DATABASE}.* TO {MONITOR_USER}@'%';\n\
         GRANT REPLICATION SLAVE ON *.* TO {REPL_USER}@'%';\n"
    ));
    if family == Family::MariaDb {
        // MariaDB shows the query of a view only to who may read the view.
        sql.push_str(&format!("GRANT SELECT ON {APP_DATABASE}.* TO {MONITOR_USER}@'%';\n"));
    }
    if family == Family::MySql {
        // Where a channel's options are, when its source was heard, and who belongs to a replication group.
        for table in [
            "connection_configuration",
            "connection_status",
            "applier_status",
            "group_members",
            "group_member_stats",
            "applier_status_by_worker",
        ] {
            let table = format!("performance_schema.replication_{table}");
            sql.push_str(&format!("GRANT SELECT ON {table} TO {MONITOR_USER}@'%';\n"));
        }
    }
    sql
}

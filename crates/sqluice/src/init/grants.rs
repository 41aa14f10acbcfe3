//! The SQL that gives the monitor user its rights, and nothing more.
//!
//! Sources: MariaDB's documentation of the privileges REPLICA MONITOR (from 10.5.9), REPLICATION REPLICA ADMIN and
//! CONNECTION ADMIN (from 10.5.2), and of SHOW CREATE FUNCTION for what SELECT on `mysql.proc` opens; MySQL's manual on
//! privileges and on stored routines (SHOW_ROUTINE from 8.0.20).

/// The two families of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Family {
    /// MariaDB 10.4 and later.
    Mariadb,
    /// MySQL 8.0 and later, and what is built from its source.
    Mysql,
}

/// How the servers keep the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ClusterKindArg {
    /// One server.
    Standalone,
    /// One primary and its replicas.
    Replication,
    /// Members of a Galera group, or of a Percona XtraDB Cluster.
    Galera,
    /// Members of a replication group of MySQL.
    GroupReplication,
    /// SQL nodes of a MySQL NDB Cluster.
    Ndb,
}

/// Whom the rights are for.
#[derive(Clone, Debug)]
pub(crate) struct Grantee<'a> {
    /// User name.
    pub(crate) user: &'a str,
    /// From where it logs in, as in accounts: `%` is everywhere.
    pub(crate) host: &'a str,
    /// The password it gets.
    pub(crate) password: &'a str,
    /// The schema of the heartbeat table.
    pub(crate) heartbeat_schema: &'a str,
    /// Of what kind the cluster is.
    pub(crate) kind: ClusterKindArg,
    /// Whether Sqluice may replace a primary, and not only watch.
    pub(crate) failover: bool,
}

/// The statements, each behind the reason for it. They can be run more than once.
pub(crate) fn sql(family: Family, grantee: &Grantee) -> String {
    let account = format!("{}@{}", text(grantee.user), text(grantee.host));
    let place = match grantee.kind {
        ClusterKindArg::Standalone => "-- Run this as an administrator.\n",
        ClusterKindArg::Replication => {
            "-- Run this as an administrator on the primary; replication brings it to the replicas.\n"
        }
        ClusterKindArg::Galera | ClusterKindArg::GroupReplication => {
            "-- Run this as an administrator on a member that takes writes; the group brings it to the others.\n"
        }
        ClusterKindArg::Ndb => "-- Run this as an administrator on each SQL node.\n",
    };
    let mut sql = format!("{place}\n-- The user itself. If it is there already, its password stays what it is.\n");
    sql.push_str(&format!("CREATE USER IF NOT EXISTS {account} IDENTIFIED BY {};\n", text(grantee.password)));
    sql.push_str(&match family {
        Family::Mariadb => mariadb(&account),
        Family::Mysql => mysql(&account),
    });
    // Members of the others do not follow one another with a lag that it could measure.
    if matches!(
        grantee.kind,
        ClusterKindArg::Standalone | ClusterKindArg::Replication | ClusterKindArg::GroupReplication
    ) {
        let schema = schema_pattern(grantee.heartbeat_schema);
        sql.push_str(&format!(
            "\n\
             -- A heartbeat row, to measure lag. Without it Sqluice uses the servers' own values, in whole seconds.\n\
             GRANT CREATE, SELECT, INSERT, UPDATE ON {schema}.* TO {account};\n"
        ));
    }
    match grantee.kind {
        ClusterKindArg::GroupReplication => sql.push_str(&group_replication(&account)),
        ClusterKindArg::Ndb => sql.push_str(&format!(
            "\n\
             -- The state of the data nodes, and the nodes with the same data. The views read other tables of the schema.\n\
             GRANT SELECT ON ndbinfo.* TO {account};\n"
        )),
        ClusterKindArg::Standalone | ClusterKindArg::Replication | ClusterKindArg::Galera => {}
    }
    sql.push_str(&tables(family, &account));
    sql.push_str(&sharing(family, &account));
    if grantee.failover {
        sql.push_str(&failover(family, &account));
    }
    sql
}

/// The privileges that every cluster of MariaDB needs.
fn mariadb(account: &str) -> String {
    format!(
        "\n\
         -- SHOW ALL REPLICAS STATUS: the source of each replica, the state of its threads, its lag.\n\
         -- MariaDB 10.5.0 to 10.5.8 instead: GRANT REPLICATION REPLICA ADMIN ON *.* TO {account};\n\
         -- MariaDB 10.4 instead:             GRANT REPLICATION CLIENT ON *.* TO {account};\n\
         GRANT REPLICA MONITOR ON *.* TO {account};\n\
         \n\
         -- To log in when a server has no free connection, and to end statements of clients that are gone.\n\
         -- MariaDB 10.4 has only SUPER for this: leave it out there.\n\
         GRANT CONNECTION ADMIN ON *.* TO {account};\n\
         \n\
         -- To check logins: accounts, plugins and password hashes. Without it Sqluice passes each login to\n\
         -- a server.\n\
         GRANT SELECT (Host, User, Priv) ON mysql.global_priv TO {account};\n\
         \n\
         -- Stored functions that only read: a SELECT with them may go to a replica. Without it such a SELECT\n\
         -- goes to the primary.\n\
         GRANT SELECT ON mysql.proc TO {account};\n"
    )
}

/// The privileges that every cluster of MySQL needs.
fn mysql(account: &str) -> String {
    format!(
        "\n\
         -- SHOW REPLICA STATUS: the source of each replica, the state of its threads, its lag.\n\
         GRANT REPLICATION CLIENT ON *.* TO {account};\n\
         -- The same if that statement hangs; and whether replicas still receive from a primary that Sqluice cannot reach.\n\
         GRANT SELECT ON performance_schema.replication_connection_status TO {account};\n\
         GRANT SELECT ON performance_schema.replication_connection_configuration TO {account};\n\
         GRANT SELECT ON performance_schema.replication_applier_status TO {account};\n\
         \n\
         -- To log in when a server has no free connection, and to end statements of clients that are gone.\n\
         GRANT CONNECTION_ADMIN ON *.* TO {account};\n\
         \n\
         -- To check logins: accounts, plugins and password hashes. Without it Sqluice passes each login to\n\
         -- a server.\n\
         GRANT SELECT (Host, User, plugin, authentication_string, ssl_type, ssl_cipher, x509_issuer, x509_subject,\n\
         \x20 account_locked, password_expired, password_last_changed, password_lifetime) ON mysql.user TO {account};\n\
         \n\
         -- Stored functions that only read: a SELECT with them may go to a replica. Without it such a SELECT goes\n\
         -- to the primary. MySQL before 8.0.20 has only SELECT on all schemas for this: leave it out there.\n\
         GRANT SHOW_ROUTINE ON *.* TO {account};\n"
    )
}

/// The privileges to see triggers, views and columns, for those who want or need them.
fn tables(family: Family, account: &str) -> String {
    format!(
        "\n\
         -- To see triggers and views: for consistency = \"table\", for the result cache, and if triggers or functions of\n\
         -- views set variables, take locks or create temporary tables: other sessions see what they leave otherwise.\n\
         -- With it the user can create triggers, too.\n\
         -- GRANT TRIGGER, SHOW VIEW ON *.* TO {account};\n\
         -- Servers show views only to users that may read them: GRANT SELECT ON the schemas that have views.\n\
         -- The same for columns: with the columns of keys the result cache invalidates by row{}.\n\
         -- This is enough instead of SELECT, and shows no data:\n\
         -- GRANT REFERENCES ON *.* TO {account};\n",
        match family {
            Family::Mariadb => ". Without any column of a table it caches nothing from it",
            Family::Mysql => "",
        }
    )
}

/// The privileges to read the state of a replication group.
fn group_replication(account: &str) -> String {
    let mut sql =
        String::from("\n-- The members of the group, their states, the primary, and the applied transactions.\n");
    for table in [
        "replication_group_members",
        "replication_group_member_stats",
        "replication_connection_status",
        "replication_applier_status_by_worker",
    ] {
        sql.push_str(&format!("GRANT SELECT ON performance_schema.{table} TO {account};\n"));
    }
    sql.push_str(&format!(
        "-- For `sqluice switchover`: the group moves its primary.\n\
         GRANT GROUP_REPLICATION_ADMIN ON *.* TO {account};\n\
         -- To find a write whose reply was lost with the primary, in the new primary's binary log.\n\
         GRANT REPLICATION SLAVE ON *.* TO {account};\n"
    ));
    sql
}

/// The privileges to read users' privileges, for the result cache.
fn sharing(family: Family, account: &str) -> String {
    let mut sql = String::from(
        "\n\
         -- Only for the result cache: users with the same privileges share results. Without it each user has its own.\n",
    );
    let tables: &[&str] = match family {
        Family::Mariadb => &["db", "tables_priv", "roles_mapping", "proxies_priv"],
        Family::Mysql => {
            sql.push_str(&format!(
                "-- GRANT SELECT (Select_priv, Super_priv, User_attributes) ON mysql.user TO {account};\n"
            ));
            &["db", "tables_priv", "role_edges", "default_roles", "global_grants", "proxies_priv"]
        }
    };
    for table in tables {
        sql.push_str(&format!("-- GRANT SELECT ON mysql.{table} TO {account};\n"));
    }
    sql
}

/// The privileges to replace a primary, beside those to watch.
fn failover(family: Family, account: &str) -> String {
    match family {
        Family::Mariadb => format!(
            "\n\
             -- Failover and switchover. MariaDB 10.4 has SUPER instead of the first three, and 10.5.1 BINLOG ADMIN.\n\
             -- To switch read_only on and off.\n\
             GRANT READ_ONLY ADMIN ON *.* TO {account};\n\
             -- To change the source of a replica, and its position.\n\
             GRANT REPLICATION SLAVE ADMIN ON *.* TO {account};\n\
             -- Semi-synchronous replication follows the role: the primary waits for acknowledgements.\n\
             GRANT REPLICATION MASTER ADMIN ON *.* TO {account};\n\
             -- The filters of the binary log: Sqluice promotes no server that has any.\n\
             GRANT BINLOG MONITOR ON *.* TO {account};\n\
             -- The list of sessions, to end those of clients on an old primary.\n\
             GRANT PROCESS ON *.* TO {account};\n\
             -- RESET SLAVE ALL: a new primary forgets its source.\n\
             GRANT RELOAD ON *.* TO {account};\n\
             -- An old primary that becomes a replica reads the binary log with this account.\n\
             GRANT REPLICATION SLAVE ON *.* TO {account};\n\
             \n\
             -- Only if the servers have events (CREATE EVENT): Sqluice disables them on an old primary and enables them on the new one.\n\
             -- These privileges are as strong as all privileges: their user can run any statement as any user. Otherwise: events = false.\n\
             -- GRANT EVENT, BINLOG ADMIN, SET USER ON *.* TO {account};\n\
             -- Only if event_scheduler is not ON in all configuration files: Sqluice switches it on on a new primary. Otherwise: event_scheduler = false.\n\
             -- GRANT SUPER ON *.* TO {account};\n"
        ),
        Family::Mysql => format!(
            "\n\
             -- Failover and switchover: super_read_only, and semi-synchronous replication, which follows the role.\n\
             GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO {account};\n\
             -- To change the source of a replica.\n\
             GRANT REPLICATION_SLAVE_ADMIN ON *.* TO {account};\n\
             -- The list of sessions, to end those of clients on an old primary.\n\
             GRANT PROCESS ON *.* TO {account};\n\
             -- To end the applier of a replica whose source died in the middle of a transaction, and sessions of users with this privilege.\n\
             -- Without it such a replica stops replication only after a minute. MySQL before 8.0.16 has no such privilege.\n\
             GRANT SYSTEM_USER ON *.* TO {account};\n\
             -- RESET REPLICA ALL: a new primary forgets its source.\n\
             GRANT RELOAD ON *.* TO {account};\n\
             -- An old primary that becomes a replica reads the binary log with this account.\n\
             GRANT REPLICATION SLAVE ON *.* TO {account};\n\
             \n\
             -- Only if the servers have events (CREATE EVENT): Sqluice disables them on an old primary and enables them on the new one.\n\
             -- These privileges are nearly all privileges: their user can run any statement as others. Otherwise: events = false.\n\
             -- MySQL before 8.2 has SET_USER_ID instead of SET_ANY_DEFINER. Events of users with SYSTEM_USER need that, too.\n\
             -- GRANT EVENT, SET_ANY_DEFINER ON *.* TO {account};\n"
        ),
    }
}

/// A string literal that reads the same under every sql_mode: quotes are doubled, and a backslash, which
/// NO_BACKSLASH_ESCAPES would read differently, is refused by [`plain`].
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Whether a name or password can stand in the statements.
pub(crate) fn plain(value: &str) -> bool {
    !value.contains('\\') && !value.chars().any(char::is_control)
}

/// A schema in GRANT is a pattern in which `_` and `%` are wildcards unless escaped.
fn schema_pattern(schema: &str) -> String {
    format!("`{}`", schema.replace('`', "``").replace('_', "\\_").replace('%', "\\%"))
}

//! Answers of a standalone MariaDB to the monitor and to sessions, as far as they ask.

use wire::command::Command;

use crate::ReplyBuilder;

const GLOBALS: &[&[&str]] = &[
    &["autocommit", "ON"],
    &["character_set_client", "utf8mb4"],
    &["character_set_connection", "utf8mb4"],
    &["character_set_results", "utf8mb4"],
    &["character_set_server", "utf8mb4"],
    &["collation_connection", "utf8mb4_general_ci"],
    &["collation_server", "utf8mb4_general_ci"],
    &["max_allowed_packet", "1073741824"],
    &["sql_mode", "STRICT_TRANS_TABLES"],
    &["time_zone", "SYSTEM"],
];

/// The account of the tests' application, `app`, with the password `secret`.
const ACCOUNT: &[&str] = &[
    "%",
    "app",
    r#"{"plugin": "mysql_native_password", "authentication_string": "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"}"#,
];

/// The usual answer to a command.
pub(crate) fn usual(command: &[u8], reply: ReplyBuilder) -> ReplyBuilder {
    let Some((first, text)) = command.split_first() else {
        return reply.error(wire::errno::ER_UNKNOWN_COM_ERROR, *b"08S01", b"Unknown command");
    };
    match Command::from_byte(*first) {
        Some(Command::Query) => query(&String::from_utf8_lossy(text), reply),
        Some(Command::Ping | Command::InitDb | Command::ResetConnection | Command::ChangeUser | Command::SetOption) => {
            reply.ok()
        }
        _ => reply.error(wire::errno::ER_UNKNOWN_COM_ERROR, *b"08S01", b"Unknown command"),
    }
}

fn query(text: &str, reply: ReplyBuilder) -> ReplyBuilder {
    if text.starts_with("SELECT @@server_id AS server_id") {
        let columns = [
            "server_id",
            "hostname",
            "port",
            "report_host",
            "report_port",
            "read_only",
            "super_read_only",
            "gtid_executed",
        ];
        return reply.table(&columns, &[&["1", "scripted", "3306", "", "3306", "0", "0", ""]]);
    }
    let none: &[&[&str]] = &[];
    match text {
        _ if text.starts_with("SHOW ALL SLAVES STATUS") => reply.table(&["Connection_name"], none),
        _ if text.starts_with("SHOW GLOBAL VARIABLES") => reply.table(&["Variable_name", "Value"], GLOBALS),
        _ if text.starts_with("SHOW GRANTS") => {
            reply.table(&["Grants"], &[&["GRANT ALL PRIVILEGES ON *.* TO `m`@`%`"]])
        }
        _ if text.contains("FROM mysql.global_priv") => reply.table(&["Host", "User", "Priv"], &[ACCOUNT]),
        _ if text.starts_with("SELECT Host, User") => reply.table(&["Host", "User", "Priv"], none),
        _ if text.contains("CHARACTER_SET_NAME") => reply.table(
            &["ID", "CHARACTER_SET_NAME", "NAME", "IS_DEFAULT"],
            &[&["45", "utf8mb4", "utf8mb4_general_ci", "Yes"], &["63", "binary", "binary", "Yes"]],
        ),
        _ if text.contains("SYSTEM_VARIABLES") => {
            reply.table(&["VARIABLE_NAME"], &[&["SQL_MODE"], &["TIME_ZONE"], &["AUTOCOMMIT"]])
        }
        _ if text.contains("mysql.proc") || text.contains("information_schema.ROUTINES") => {
            reply.table(&["SCHEMA_NAME", "NAME", "ACCESS", "BODY"], none)
        }
        _ if text.starts_with("SELECT") || text.starts_with("SHOW") => reply.table(&["1"], &[&["1"]]),
        _ => reply.ok(),
    }
}

//! System variables that clients and drivers ask for, mostly when they connect.

/// The version that the greeting and `VERSION()` show: one that drivers take for a MySQL of today, with our own behind it.
pub(crate) const VERSION: &str = concat!("8.0.40-sqluice-", env!("CARGO_PKG_VERSION"));
/// `@@version_comment`, which clients print.
pub(crate) const COMMENT: &str = "Sqluice SQL console";
/// The longest statement, in bytes.
pub(crate) const STATEMENT_BYTES_MAX: usize = 64 << 10;

/// Names and values.
pub(crate) const ALL: &[(&str, &str)] = &[
    ("auto_increment_increment", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_bin"),
    ("collation_database", "utf8mb4_bin"),
    ("collation_server", "utf8mb4_bin"),
    ("default_storage_engine", "SQLITE"),
    ("have_openssl", "YES"),
    ("have_ssl", "YES"),
    ("hostname", "sqluice"),
    ("init_connect", ""),
    ("interactive_timeout", "28800"),
    ("license", "Apache-2.0"),
    ("lower_case_table_names", "2"),
    ("max_allowed_packet", "65536"),
    ("max_execution_time", "5000"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "30"),
    ("performance_schema", "0"),
    ("port", "0"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "1"),
    ("server_id", "0"),
    ("session_track_schema", "0"),
    ("session_track_system_variables", ""),
    ("sql_auto_is_null", "0"),
    ("sql_mode", ""),
    ("sql_quote_show_create", "1"),
    ("sql_safe_updates", "0"),
    ("sql_select_limit", "18446744073709551615"),
    ("ssl_cipher", ""),
    ("storage_engine", "SQLITE"),
    ("system_time_zone", "UTC"),
    ("time_zone", "+00:00"),
    ("transaction_isolation", "READ-COMMITTED"),
    ("transaction_read_only", "1"),
    ("tx_isolation", "READ-COMMITTED"),
    ("tx_read_only", "1"),
    ("version", VERSION),
    ("version_comment", COMMENT),
    ("version_compile_machine", "x86_64"),
    ("version_compile_os", "Linux"),
    ("wait_timeout", "28800"),
];

/// The value of a variable, whatever its scope.
pub(crate) fn value(name: &str) -> Option<&'static str> {
    let bare = name.rsplit('.').next().unwrap_or(name);
    ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(bare)).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_in_order_and_the_packet_is_the_limit() {
        assert!(ALL.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(value("SESSION.max_allowed_packet"), Some(&*STATEMENT_BYTES_MAX.to_string()));
        assert_eq!(value("no_such"), None);
    }
}

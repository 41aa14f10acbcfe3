//! Which system variables every session has a value of its own of.

use net::query::{Client, QueryError};

use super::super::dialect::Dialect;

/// Beginnings of names that a session's user may not be allowed to set, that only report, that the login itself sets, or that take no
/// value but the global one.
const NOT_CARRIED: [&str; 34] = [
    "binlog_",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "debug",
    "default_master_connection",
    "enforce_storage_engine",
    "error_count",
    "gtid_",
    "identity",
    "innodb_tmpdir",
    "insert_id",
    "last_",
    "log_disabled_statements",
    "max_allowed_packet",
    "max_delayed_threads",
    "max_insert_delayed_threads",
    "max_user_connections",
    "net_buffer_length",
    "original_",
    "proxy_",
    "pseudo_",
    "query_cache_",
    "rand_seed",
    "redirect_url",
    "server_id",
    "session_track_",
    "skip_replication",
    "sql_log_",
    "storage_engine",
    "timestamp",
    "warning_count",
    "wsrep_",
];

/// MySQL does not tell which variables have a session's scope; these change what statements do or answer, and every user
/// may set them (tried with 9.7). A variable that a version does not have is left out there.
const OF_MYSQL: [&str; 73] = [
    "autocommit",
    "big_tables",
    "block_encryption_mode",
    "character_set_server",
    "collation_server",
    "completion_type",
    "cte_max_recursion_depth",
    "default_storage_engine",
    "default_tmp_storage_engine",
    "default_week_format",
    "div_precision_increment",
    "enable_cascade_triggers",
    "end_markers_in_json",
    "eq_range_index_dive_limit",
    "explain_format",
    "explain_json_format_version",
    "explicit_defaults_for_timestamp",
    "foreign_key_checks",
    "group_concat_max_len",
    "group_replication_consistency",
    "information_schema_stats_expiry",
    "innodb_ft_enable_stopword",
    "innodb_lock_wait_timeout",
    "innodb_table_locks",
    "interactive_timeout",
    "join_buffer_size",
    "keep_files_on_create",
    "lc_messages",
    "lc_time_names",
    "lock_wait_timeout",
    "long_query_time",
    "max_execution_time",
    "max_heap_table_size",
    "max_join_size",
    "max_length_for_sort_data",
    "max_points_in_geometry",
    "max_seeks_for_key",
    "max_sort_length",
    "max_sp_recursion_depth",
    "net_read_timeout",
    "net_retry_count",
    "net_write_timeout",
    "old_alter_table",
    "optimizer_max_subgraph_pairs",
    "optimizer_prune_level",
    "optimizer_search_depth",
    "optimizer_switch",
    "print_identified_with_as_hex",
    "range_optimizer_max_mem_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "restrict_fk_on_non_standard_key",
    "select_into_disk_sync",
    "set_operations_buffer_size",
    "show_create_table_verbosity",
    "show_gipk_in_create_table_and_information_schema",
    "sort_buffer_size",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_buffer_result",
    "sql_mode",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "sql_warnings",
    "time_zone",
    "tmp_table_size",
    "transaction_isolation",
    "transaction_read_only",
    "unique_checks",
    "updatable_views_with_limit",
    "windowing_use_high_precision",
];

/// Their names in lower case.
///
/// # Errors
/// The connection broke.
pub(crate) async fn read(client: &mut Client, dialect: Dialect) -> Result<Vec<String>, QueryError> {
    if !dialect.mariadb {
        return Ok(OF_MYSQL.map(str::to_owned).to_vec());
    }
    let statement = "SELECT VARIABLE_NAME FROM information_schema.SYSTEM_VARIABLES \
                     WHERE VARIABLE_SCOPE = 'SESSION' AND READ_ONLY = 'NO'";
    let answer = client.query_one(statement).await?;
    let names = (0..answer.rows.len()).filter_map(|row| Some(answer.text(row, "VARIABLE_NAME")?.to_lowercase()));
    Ok(names.filter(|name| !NOT_CARRIED.iter().any(|begin| name.starts_with(begin))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_carried_are_not_among_those_that_are_not() {
        assert!(OF_MYSQL.is_sorted() && NOT_CARRIED.is_sorted());
        let both = OF_MYSQL.iter().filter(|name| NOT_CARRIED.iter().any(|begin| name.starts_with(begin)));
        assert_eq!(both.count(), 0);
    }
}

//! Details of a server for a decision about another primary: one query more in each probe, and one that is seldom sent.

use std::borrow::Cow;
use std::sync::Arc;

use cluster::observation::{Details, Galera, LocalState, SemiSync};
use facts::group_logs::{MemberLog, Numbering};
use facts::gtid::mariadb::Gtids;
use net::query::ResultSet;

use super::dialect::{Dialect, is_on, without_line_breaks};

/// Variables and status in one round trip. Servers leave out those that a family, version or missing plugin does not have.
pub(super) const DETAILS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'gtid_mode', \
    'gtid_slave_pos', 'gtid_binlog_state', 'gtid_binlog_pos', 'log_bin', 'log_slave_updates', 'log_replica_updates', \
    'binlog_rows_query_log_events', 'binlog_annotate_row_events', 'event_scheduler', 'offline_mode', \
    'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled', 'rpl_semi_sync_slave_enabled', \
    'rpl_semi_sync_replica_enabled', 'rpl_semi_sync_master_timeout', 'rpl_semi_sync_source_timeout', \
    'rpl_semi_sync_master_wait_point', 'rpl_semi_sync_source_wait_point', \
    'rpl_semi_sync_master_wait_for_slave_count', 'rpl_semi_sync_source_wait_for_replica_count', \
    'wsrep_on', 'wsrep_provider', 'wsrep_provider_options', 'wsrep_desync', 'wsrep_reject_queries', \
    'wsrep_sst_donor_rejects_queries', 'wsrep_gtid_mode', 'group_replication_group_name'); \
    SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'wsrep_ready', 'wsrep_connected', 'wsrep_cluster_status', \
    'wsrep_local_state', 'wsrep_cluster_state_uuid', 'wsrep_cluster_conf_id', 'wsrep_gcomm_uuid', 'wsrep_se_checkpoint', 'Rpl_semi_sync_master_status', \
    'Rpl_semi_sync_source_status', 'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients', \
    'Rpl_semi_sync_slave_status', 'Rpl_semi_sync_replica_status')";

impl Dialect {
    /// The filters of the binary log, which only a restart of the server changes.
    pub(super) fn binlog_filters(self) -> &'static str {
        match (self.mariadb, self.number) {
            (false, 80_200..) => "SHOW BINARY LOG STATUS",
            _ => "SHOW MASTER STATUS",
        }
    }
}

/// Variables and status of a server, by name.
struct Variables<'a>(&'a [ResultSet]);

impl<'a> Variables<'a> {
    /// The value of the variable that has one of these names.
    fn value(&self, names: &[&str]) -> Option<Cow<'a, str>> {
        let Variables(answers) = *self;
        answers.iter().find_map(|answer| {
            let row = (0..answer.rows.len()).find(|row| {
                answer
                    .text(*row, "Variable_name")
                    .is_some_and(|name| names.iter().any(|n| name.eq_ignore_ascii_case(n)))
            })?;
            answer.text(row, "Value")
        })
    }

    fn flag(&self, names: &[&str]) -> Option<bool> {
        self.value(names).map(|value| is_on(&value))
    }

    /// The text on one line; empty where the server has none.
    fn text(&self, name: &str) -> Arc<str> {
        without_line_breaks(&self.value(&[name]).unwrap_or_default())
    }

    fn number(&self, names: &[&str]) -> Option<u64> {
        self.value(names)?.parse().ok()
    }
}

/// Reads the answers to [`DETAILS`].
pub(super) fn read(dialect: Dialect, answers: &[ResultSet], binlog_filters: Option<&Arc<str>>) -> Details {
    let variables = &Variables(answers);
    // Percona's servers tell wsrep_on to their own sessions only.
    let has_provider = !matches!(&*variables.text("wsrep_provider"), "" | "none");
    let in_galera = has_provider && variables.flag(&["wsrep_on"]) != Some(false);
    let galera = in_galera.then(|| galera(dialect, variables));
    let group = if in_galera {
        Some("Galera is active here".into())
    } else {
        (!variables.text("group_replication_group_name").is_empty()).then(|| "it belongs to a replication group".into())
    };
    Details {
        server_uuid: variables.text("server_uuid"),
        uptime_s: variables.number(&["Uptime"]),
        gtid_on: match dialect.mariadb {
            true => Some(true),
            false => variables.value(&["gtid_mode"]).map(|mode| mode.eq_ignore_ascii_case("on")),
        },
        gtid_replicated: variables.text("gtid_slave_pos"),
        gtid_binlog_state: variables.text("gtid_binlog_state"),
        offline: variables.flag(&["offline_mode"]) == Some(true),
        log_bin: variables.flag(&["log_bin"]),
        log_replica_updates: variables.flag(&["log_slave_updates", "log_replica_updates"]),
        logs_statements: variables.flag(&["binlog_rows_query_log_events", "binlog_annotate_row_events"]),
        // The third word is DISABLED.
        event_scheduler: variables.value(&["event_scheduler"]).map(|word| word.eq_ignore_ascii_case("on")),
        // Filters that could not be read fit nothing: the word stands for them.
        binlog_filters: binlog_filters.cloned().unwrap_or_else(|| "unknown".into()),
        semi_sync: semi_sync(dialect, variables),
        group,
        galera,
        group_replication: None,
        ndb: None,
    }
}

fn galera(dialect: Dialect, variables: &Variables<'_>) -> Galera {
    Galera {
        primary_component: variables.text("wsrep_cluster_status").eq_ignore_ascii_case("primary"),
        connected: variables.flag(&["wsrep_connected"]) == Some(true),
        ready: variables.flag(&["wsrep_ready"]) == Some(true),
        state: match variables.number(&["wsrep_local_state"]) {
            Some(1) => LocalState::Joining,
            Some(2) => LocalState::Donor,
            Some(3) => LocalState::Joined,
            Some(4) => LocalState::Synced,
            _ => LocalState::Other,
        },
        desync: variables.flag(&["wsrep_desync"]) == Some(true),
        rejects: variables.value(&["wsrep_reject_queries"]).is_some_and(|what| !what.eq_ignore_ascii_case("none")),
        donor_rejects: variables.flag(&["wsrep_sst_donor_rejects_queries"]) == Some(true),
        cluster: variables.text("wsrep_cluster_state_uuid"),
        conf_id: variables.number(&["wsrep_cluster_conf_id"]).unwrap_or(0),
        segment: segment(&variables.text("wsrep_provider_options")),
        log: member_log(dialect, variables),
    }
}

fn semi_sync(dialect: Dialect, variables: &Variables<'_>) -> SemiSync {
    let source_enabled = variables.flag(&["rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"]);
    let acks =
        variables.number(&["rpl_semi_sync_master_wait_for_slave_count", "rpl_semi_sync_source_wait_for_replica_count"]);
    SemiSync {
        source_enabled,
        source_active: variables.flag(&["Rpl_semi_sync_master_status", "Rpl_semi_sync_source_status"]),
        after_sync: variables
            .value(&["rpl_semi_sync_master_wait_point", "rpl_semi_sync_source_wait_point"])
            .map(|point| point.eq_ignore_ascii_case("AFTER_SYNC")),
        timeout_ms: variables.number(&["rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"]),
        acks_needed: match acks {
            Some(count) => u32::try_from(count).ok(),
            None => (dialect.mariadb && source_enabled.is_some()).then_some(1),
        },
        clients: variables
            .number(&["Rpl_semi_sync_master_clients", "Rpl_semi_sync_source_clients"])
            .and_then(|count| u32::try_from(count).ok()),
        replica_enabled: variables.flag(&["rpl_semi_sync_slave_enabled", "rpl_semi_sync_replica_enabled"]),
        replica_active: variables.flag(&["Rpl_semi_sync_slave_status", "Rpl_semi_sync_replica_status"]),
    }
}

/// The report of a Galera group's member about its binary log.
fn member_log(dialect: Dialect, variables: &Variables<'_>) -> MemberLog {
    let needed = ["log_bin", "log_slave_updates", "wsrep_gtid_mode", "binlog_annotate_row_events"];
    let is_off = |name: &&&str| !variables.value(&[**name]).is_some_and(|value| is_on(&value));
    MemberLog {
        member: without_line_breaks(&variables.value(&["wsrep_gcomm_uuid"]).unwrap_or_default()),
        end: variables.value(&["gtid_binlog_pos"]).and_then(|text| Gtids::parse(&text)),
        numbering: variables.value(&["wsrep_se_checkpoint"]).and_then(|text| Numbering::parse(&text)),
        // MySQL's servers with Galera have other GTIDs, and were never tried.
        lacks: needed.iter().filter(|_| dialect.mariadb).filter(is_off).copied().collect(),
    }
}

/// `gmcast.segment` of `wsrep_provider_options`; 0 is the library's own default.
fn segment(options: &str) -> u8 {
    let values = options.split(';').filter_map(|option| option.split_once('='));
    let mut segments = values.filter(|(name, _)| name.trim() == "gmcast.segment").map(|(_, value)| value.trim());
    segments.next().and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Reads the answer to [`Dialect::binlog_filters`].
pub(super) fn read_binlog_filters(answer: &ResultSet) -> Arc<str> {
    together(answer, 0, &["Binlog_Do_DB", "Binlog_Ignore_DB"])
}

/// The filters of a channel.
pub(super) fn filters(answer: &ResultSet, row: usize) -> Arc<str> {
    together(
        answer,
        row,
        &[
            "Replicate_Do_DB",
            "Replicate_Ignore_DB",
            "Replicate_Do_Table",
            "Replicate_Ignore_Table",
            "Replicate_Wild_Do_Table",
            "Replicate_Wild_Ignore_Table",
            "Replicate_Rewrite_DB",
            "Replicate_Do_Domain_Ids",
            "Replicate_Ignore_Domain_Ids",
            "Replicate_Ignore_Server_Ids",
        ],
    )
}

fn together(answer: &ResultSet, row: usize, columns: &[&str]) -> Arc<str> {
    let filter = |column: &&str| {
        let value = answer.text(row, column).filter(|value| !value.is_empty())?;
        Some(format!("{column}={value}"))
    };
    columns.iter().filter_map(filter).collect::<Vec<_>>().join("; ").into()
}

/// Whether a channel finds its position by GTID; `None` when it does not say.
pub(super) fn uses_gtid(answer: &ResultSet, row: usize) -> Option<bool> {
    let maria = answer.text(row, "Using_Gtid").map(|value| !value.eq_ignore_ascii_case("no"));
    maria.or_else(|| answer.text(row, "Auto_Position").map(|value| value == "1"))
}

#[cfg(test)]
mod tests {
    use super::super::dialect::tests::table;
    use super::*;

    #[test]
    fn both_families_tell_their_semi_sync() {
        let variables = table(
            "Variable_name|Value
             gtid_mode|ON
             log_bin|ON
             log_replica_updates|OFF
             rpl_semi_sync_source_enabled|ON
             rpl_semi_sync_source_wait_point|AFTER_SYNC
             rpl_semi_sync_source_wait_for_replica_count|2
             server_uuid|6aa342cb-e4ff-11f1-87a0-02fc00000001",
        );
        let status =
            table("Variable_name|Value\nUptime|77\nRpl_semi_sync_source_clients|3\nRpl_semi_sync_source_status|OFF");
        let mysql = Dialect { mariadb: false, number: 90_700 };
        let details = read(mysql, &[variables, status], Some(&"".into()));
        assert_eq!(
            (details.gtid_on, details.log_bin, details.log_replica_updates),
            (Some(true), Some(true), Some(false))
        );
        assert_eq!(
            (details.uptime_s, details.semi_sync.acks_needed, details.semi_sync.clients),
            (Some(77), Some(2), Some(3))
        );
        assert_eq!((details.semi_sync.source_enabled, details.semi_sync.source_active), (Some(true), Some(false)));
        assert_eq!((details.semi_sync.after_sync, details.semi_sync.replica_enabled), (Some(true), None));
        assert_eq!((details.group, &*details.binlog_filters), (None, ""));

        let maria = Dialect { mariadb: true, number: 101_106 };
        let variables = table(
            "Variable_name|Value\nwsrep_on|ON\nwsrep_provider|/usr/lib/galera.so\nrpl_semi_sync_master_enabled|OFF\n\
             rpl_semi_sync_master_wait_point|AFTER_COMMIT\nrpl_semi_sync_slave_enabled|ON\ngtid_binlog_state|0-1-5,0-2-7",
        );
        let details = read(maria, &[variables], None);
        assert!(details.group.is_some() && details.gtid_on == Some(true) && details.uptime_s.is_none());
        assert_eq!((details.semi_sync.acks_needed, details.semi_sync.after_sync), (Some(1), Some(false)));
        assert_eq!((&*details.gtid_binlog_state, &*details.binlog_filters), ("0-1-5,0-2-7", "unknown"));
    }

    #[test]
    fn channels_and_logs_tell_their_filters() {
        let status = table(
            "Channel_Name|Source_Log_File|Read_Source_Log_Pos|Replicate_Do_DB|Replicate_Ignore_Table|Auto_Position\n\
             a|binlog.1|77||shop.log|1\nb|binlog.9|1|x||0",
        );
        assert_eq!(
            (&*filters(&status, 0), &*filters(&status, 1)),
            ("Replicate_Ignore_Table=shop.log", "Replicate_Do_DB=x")
        );
        assert_eq!((uses_gtid(&status, 0), uses_gtid(&status, 1)), (Some(true), Some(false)));
        assert_eq!(&*read_binlog_filters(&table("Binlog_Do_DB|Binlog_Ignore_DB\nshop|")), "Binlog_Do_DB=shop");
    }
}

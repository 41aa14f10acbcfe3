//! `stats_…`: figures under the names that ProxySQL gives them, for tools that ask for those.
//!
//! Columns and their types are those of ProxySQL's documentation. Tools read its numbers and texts without asking for NULL, so that what
//! Sqluice does not count is 0 or empty; docs/guides/sql-console.md lists such columns. Hostgroups are numbered by [`Hostgroups`]: Sqluice
//! has clusters and roles instead.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use facts::sessions::{SessionFacts, SessionState};
use serde_json::json;

use super::costs::cache_counts;
use super::live::{level, server_stats, sum};
use super::state::rule_hits;
use super::{Need, Rows, Schema, View};
use crate::cells::{Row, row};
use crate::columns::{int, text};
use crate::views::gather::Gathered;

pub(super) const VIEWS: &[View] = &[
    View {
        name: "stats_mysql_connection_pool",
        schema: Schema::Stats,
        about: "ProxySQL's name of pools.",
        columns: &[
            int("hostgroup"),
            text("srv_host"),
            int("srv_port"),
            text("status"),
            int("ConnUsed"),
            int("ConnFree"),
            int("ConnOK"),
            int("ConnERR"),
            int("MaxConnUsed"),
            int("Queries"),
            int("Queries_GTID_sync"),
            int("Bytes_data_sent"),
            int("Bytes_data_recv"),
            int("Latency_us"),
        ],
        needs: &[],
        rows: Rows::Of(connection_pool),
    },
    View {
        name: "stats_mysql_processlist",
        schema: Schema::Stats,
        about: "ProxySQL's name of sessions.",
        columns: &[
            int("ThreadID"),
            int("SessionID"),
            text("user"),
            text("db"),
            text("cli_host"),
            int("cli_port"),
            int("hostgroup"),
            text("l_srv_host"),
            int("l_srv_port"),
            text("srv_host"),
            int("srv_port"),
            text("command"),
            int("time_ms"),
            text("info"),
            int("status_flags"),
            text("extended_info"),
        ],
        needs: &[Need::Sessions],
        rows: Rows::Of(processlist),
    },
    View {
        name: "stats_mysql_global",
        schema: Schema::Stats,
        about: "Counters of the process by ProxySQL's names; SHOW MYSQL STATUS shows them, too.",
        columns: &[text("Variable_Name"), text("Variable_Value")],
        needs: &[Need::Sessions],
        rows: Rows::Of(global),
    },
    View {
        name: "stats_mysql_users",
        schema: Schema::Stats,
        about: "Users that are logged in, with their sessions and their limit.",
        columns: &[text("username"), int("frontend_connections"), int("frontend_max_connections")],
        needs: &[Need::Sessions],
        rows: Rows::Of(users),
    },
    View {
        name: "stats_mysql_query_rules",
        schema: Schema::Stats,
        about: "The hits of each rule; rule_id is its position.",
        columns: &[int("rule_id"), int("hits")],
        needs: &[],
        rows: Rows::Of(|gathered| {
            rule_hits(gathered).into_iter().enumerate().map(|(index, hits)| row![index + 1, hits]).collect()
        }),
    },
    View {
        name: "stats_memory_metrics",
        schema: Schema::Stats,
        about: "Memory in bytes, as far as Sqluice counts it.",
        columns: &[text("Variable_Name"), text("Variable_Value")],
        needs: &[],
        rows: Rows::Of(memory),
    },
];

/// A number that Sqluice does not count.
const UNCOUNTED: u16 = 0;
/// A statement that takes longer is one of `Slow_queries`: the default of ProxySQL's `mysql-long_query_time`.
const SLOW_US: u64 = 1_000_000;

/// Numbers in place of ProxySQL's hostgroups: of the cluster with number n in the order of names, 2n is its primary and 2n + 1 has its
/// other servers.
pub(super) struct Hostgroups(Vec<Arc<str>>);

impl Hostgroups {
    /// The number that ProxySQL gives to what has no hostgroup.
    pub(super) const NONE: i64 = -1;

    pub(super) fn of(gathered: &Gathered) -> Hostgroups {
        Hostgroups(gathered.settings.config.clusters.keys().cloned().collect())
    }

    /// The hostgroup of the primary, or of the others.
    pub(super) fn number(&self, cluster: &str, is_primary: bool) -> Option<i64> {
        let place = self.0.iter().position(|known| **known == *cluster)?;
        Some(place as i64 * 2 + i64::from(!is_primary))
    }

    /// The only cluster.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.0[..] {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// Host and port of an address; a socket has no port.
pub(super) fn host_and_port(address: &str) -> (String, Option<u16>) {
    match address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) => (host.trim_matches(['[', ']']).to_owned(), Some(port)),
        None => (address.trim_start_matches("unix:").to_owned(), None),
    }
}

/// The status of a server in ProxySQL's words.
pub(super) fn status(server: &facts::view::ServerView) -> &'static str {
    use facts::view::Health;
    match server.health {
        _ if server.fenced => "OFFLINE_HARD",
        Health::Up | Health::Suspect => "ONLINE",
        Health::Down => "SHUNNED",
        Health::Draining | Health::Maintenance => "OFFLINE_SOFT",
    }
}

fn connection_pool(gathered: &Gathered) -> Vec<Row> {
    let (hostgroups, all) = (Hostgroups::of(gathered), server_stats(gathered));
    let mut rows = Vec::new();
    for (cluster, status_of) in &gathered.shared.clusters() {
        let (view, figures) = (status_of.published().view.load_full(), status_of.figures());
        for server in view.servers.iter() {
            let stats = all.get(&(cluster.clone(), server.name.clone())).map(Vec::as_slice).unwrap_or_default();
            let (host, port) = host_and_port(&server.address);
            let is_primary = server.role == facts::view::Role::Primary;
            let probe = figures.servers.get(&server.name).and_then(|own| own.probe_time).map(stats::micros);
            rows.push(row![
                hostgroups.number(cluster, is_primary),
                host,
                port.unwrap_or(0),
                status(server),
                level(stats, |s| &s.used),
                level(stats, |s| &s.idle),
                sum(stats, |s| &s.opened),
                sum(stats, |s| &s.open_failures),
                UNCOUNTED,
                sum(stats, |s| &s.reads) + sum(stats, |s| &s.writes),
                UNCOUNTED,
                sum(stats, |s| &s.sent_bytes),
                sum(stats, |s| &s.received_bytes),
                probe.unwrap_or(0),
            ]);
        }
    }
    rows
}

fn processlist(gathered: &Gathered) -> Vec<Row> {
    let hostgroups = Hostgroups::of(gathered);
    let clusters = gathered.shared.clusters();
    let of = |facts: &SessionFacts| {
        let (cli_host, cli_port) = host_and_port(&facts.client);
        let view = facts.cluster.as_ref().and_then(|name| clusters.get(name)).map(|of| of.published().view.load_full());
        let server = view.as_ref().zip(facts.server.as_deref()).and_then(|(view, name)| view.server_named(name));
        let (srv_host, srv_port) = server.map(|server| host_and_port(&server.address)).unzip();
        let is_primary = server.is_some_and(|server| server.role == facts::view::Role::Primary);
        let hostgroup = facts.cluster.as_deref().filter(|_| server.is_some());
        let hostgroup = hostgroup.and_then(|cluster| hostgroups.number(cluster, is_primary));
        let more = json!({
            "state": facts.state.word(), "digest": format!("{:016x}", facts.digest), "pins": facts.pins,
            "program": facts.program.as_deref(), "server": facts.server.as_deref(), "server_thread": facts.thread_id,
        });
        row![
            UNCOUNTED,
            facts.id,
            facts.user.as_deref().unwrap_or_default(),
            facts.schema.as_deref().unwrap_or_default(),
            cli_host,
            cli_port.unwrap_or(0),
            hostgroup.unwrap_or(Hostgroups::NONE),
            "",
            UNCOUNTED,
            srv_host.unwrap_or_default(),
            srv_port.flatten().unwrap_or(0),
            command(facts.state),
            u64::try_from(facts.state_for.as_millis()).unwrap_or(u64::MAX),
            facts.form.as_deref().unwrap_or_default(),
            UNCOUNTED,
            more.to_string(),
        ]
    };
    gathered.sessions.iter().map(of).collect()
}

/// The command of a session in servers' words.
fn command(state: SessionState) -> &'static str {
    match state {
        SessionState::Login => "Connect",
        SessionState::Idle | SessionState::IdleInTransaction => "Sleep",
        _ if state.is_busy() => "Query",
        _ => "Sleep",
    }
}

fn global(gathered: &Gathered) -> Vec<Row> {
    let workers = &gathered.shared.sources.workers[..];
    let servers: Vec<_> = server_stats(gathered).into_values().flatten().collect();
    let uptime = SystemTime::now().duration_since(gathered.shared.started).map_or(0, |since| since.as_secs());
    let cache = gathered.shared.sources.cache.size();
    let counts = cache_counts(gathered);
    let cached = |pick: fn(&stats::cache::CacheCounts) -> &stats::Counter| -> u64 {
        counts.values().map(|counts| pick(counts).get()).sum()
    };
    let refused = workers.iter().flat_map(|w| w.refused_clients.iter()).map(|(_, count)| count.get()).sum::<u64>();
    let mut times = stats::Snapshot::default();
    servers.iter().for_each(|server| times.merge(&server.latency_us.snapshot()));
    let sessions = &gathered.sessions;
    let listeners: Vec<_> = workers.iter().flat_map(|worker| worker.listeners()).map(|entry| entry.stats).collect();
    let signed = |level: i64| u64::try_from(level).unwrap_or(0);
    let failures = sum(workers, |w| &w.login_failures);
    [
        ("ProxySQL_Uptime", uptime),
        ("Active_Transactions", sessions.iter().filter(|s| s.transaction.is_some()).count() as u64),
        ("Client_Connections_aborted", failures + refused),
        ("Client_Connections_connected", signed(level(workers, |w| &w.sessions))),
        ("Client_Connections_created", sum(workers, |w| &w.accepted)),
        ("Client_Connections_non_idle", sessions.iter().filter(|s| s.state.is_busy()).count() as u64),
        ("Server_Connections_aborted", sum(&servers, |s| &s.open_failures)),
        ("Server_Connections_connected", signed(level(&servers, |s| &s.used) + level(&servers, |s| &s.idle))),
        ("Server_Connections_created", sum(&servers, |s| &s.opened)),
        ("Questions", sum(workers, |w| &w.requests)),
        ("Slow_queries", times.count() - times.count_at_most(SLOW_US)),
        ("Queries_frontends_bytes_recv", sum(&listeners, |l| &l.received_bytes)),
        ("Queries_frontends_bytes_sent", sum(&listeners, |l| &l.sent_bytes)),
        ("Queries_backends_bytes_recv", sum(&servers, |s| &s.received_bytes)),
        ("Queries_backends_bytes_sent", sum(&servers, |s| &s.sent_bytes)),
        ("Backend_query_time_nsec", times.sum().saturating_mul(1_000)),
        ("ConnPool_get_conn_failure", sum(workers, |w| &w.wait_timeouts)),
        ("MySQL_Thread_Workers", workers.len() as u64),
        ("generated_error_packets", sum(workers, |w| &w.own_errors)),
        ("Query_Cache_Entries", cache.entries),
        ("Query_Cache_Memory_bytes", cache.bytes),
        ("Query_Cache_count_GET", cached(|c| &c.hits) + cached(|c| &c.misses)),
        ("Query_Cache_count_GET_OK", cached(|c| &c.hits)),
        ("Query_Cache_count_SET", cached(|c| &c.kept)),
        ("Query_Cache_bytes_OUT", cached(|c| &c.bytes)),
        ("Access_Denied_Wrong_Password", failures),
    ]
    .into_iter()
    .map(|(name, value)| row![name, value.to_string()])
    .collect()
}

fn users(gathered: &Gathered) -> Vec<Row> {
    let mut sessions: BTreeMap<&str, u64> = BTreeMap::new();
    for user in gathered.sessions.iter().filter_map(|session| session.user.as_deref()) {
        *sessions.entry(user).or_default() += 1;
    }
    let users = &gathered.settings.config.users;
    for user in users.keys() {
        sessions.entry(user).or_default();
    }
    let max = |user: &str| users.get(user).map_or(0, |user| user.max_sessions);
    sessions.into_iter().map(|(user, count)| row![user, count, max(user)]).collect()
}

fn memory(gathered: &Gathered) -> Vec<Row> {
    let workers = &gathered.shared.sources.workers[..];
    let bytes = |gauge: i64| gauge.max(0).to_string();
    vec![
        row!["result_cache_bytes", gathered.shared.sources.cache.size().bytes.to_string()],
        row!["prepared_statements_bytes", bytes(level(workers, |w| &w.prepared_bytes))],
        row!["logins_bytes", bytes(level(workers, |w| &w.login_memory_bytes))],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let apart = |address: &str| host_and_port(address);
        assert_eq!(apart("db1.example:3306"), ("db1.example".into(), Some(3306)));
        assert_eq!(apart("[::1]:3306"), ("::1".into(), Some(3306)));
        assert_eq!(apart("unix:/run/mysqld.sock"), ("/run/mysqld.sock".into(), None));
        assert_eq!(apart("localhost"), ("localhost".into(), None));
    }

    #[test]
    fn statements_above_a_second_are_slow_and_bytes_of_servers_are_summed() {
        let shared = crate::testing::shared("");
        let server = shared.sources.workers[0].server(&"main".into(), &"a".into());
        [900_000, 1_300_000, 60_000_000].into_iter().for_each(|time_us| server.latency_us.record(time_us));
        server.sent_bytes.add(70);
        server.received_bytes.add(4_000);
        let rows = global(&Gathered::nothing(&shared));
        for (name, value) in [
            ("Slow_queries", "2"),
            ("Queries_backends_bytes_sent", "70"),
            ("Queries_backends_bytes_recv", "4000"),
            ("Backend_query_time_nsec", "62200000000"),
        ] {
            assert!(rows.contains(&row![name, value]), "{name}: {rows:?}");
        }
    }

    #[test]
    fn hostgroups_are_numbered_by_cluster_and_role() {
        let two = Hostgroups(vec!["a".into(), "b".into()]);
        assert_eq!((two.number("a", true), two.number("a", false), two.number("b", true)), (Some(0), Some(1), Some(2)));
        assert_eq!((two.number("c", true), two.only()), (None, None));
        assert_eq!(Hostgroups(vec!["a".into()]).only(), Some("a"));
    }
}

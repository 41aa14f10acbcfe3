//! `mysql_servers`, `mysql_query_rules` and their `runtime_` forms: the configuration under ProxySQL's names. Both forms show the settings
//! in effect: Sqluice has one layer of settings.

use std::sync::Arc;

use config::{RuleRoute, ServerCompression, ServerTlsMode};

use super::proxysql::{Hostgroups, host_and_port, status};
use super::{Rows, Schema, View};
use crate::cells::{Row, Value, row};
use crate::columns::{Column, int, text};
use crate::views::gather::Gathered;

const SERVER_COLUMNS: &[Column] = &[
    int("hostgroup_id"),
    text("hostname"),
    int("port"),
    int("gtid_port"),
    text("status"),
    int("weight"),
    int("compression"),
    int("max_connections"),
    int("max_replication_lag"),
    int("use_ssl"),
    int("max_latency_ms"),
    text("comment"),
];

const RULE_COLUMNS: &[Column] = &[
    int("rule_id"),
    int("active"),
    text("username"),
    text("schemaname"),
    int("flagIN"),
    text("client_addr"),
    text("proxy_addr"),
    int("proxy_port"),
    text("digest"),
    text("match_digest"),
    text("match_pattern"),
    int("negate_match_pattern"),
    text("re_modifiers"),
    int("flagOUT"),
    text("replace_pattern"),
    int("destination_hostgroup"),
    int("cache_ttl"),
    int("cache_empty_result"),
    int("cache_timeout"),
    int("reconnect"),
    int("timeout"),
    int("retries"),
    int("delay"),
    int("next_query_flagIN"),
    int("mirror_flagOUT"),
    int("mirror_hostgroup"),
    text("error_msg"),
    text("OK_msg"),
    int("sticky_conn"),
    int("multiplex"),
    int("gtid_from_hostgroup"),
    int("log"),
    int("apply"),
    text("attributes"),
    text("comment"),
];

pub(super) const VIEWS: &[View] = &[
    View {
        name: "mysql_servers",
        schema: Schema::Main,
        about: "ProxySQL's name of servers; comment is the server's name.",
        columns: SERVER_COLUMNS,
        needs: &[],
        rows: Rows::Of(servers),
    },
    View {
        name: "runtime_mysql_servers",
        schema: Schema::Main,
        about: "The same as mysql_servers.",
        columns: SERVER_COLUMNS,
        needs: &[],
        rows: Rows::Of(servers),
    },
    View {
        name: "mysql_query_rules",
        schema: Schema::Main,
        about: "ProxySQL's name of rules; comment is the rule's name, rule_id its position.",
        columns: RULE_COLUMNS,
        needs: &[],
        rows: Rows::Of(rules),
    },
    View {
        name: "runtime_mysql_query_rules",
        schema: Schema::Main,
        about: "The same as mysql_query_rules.",
        columns: RULE_COLUMNS,
        needs: &[],
        rows: Rows::Of(rules),
    },
    View {
        name: "global_variables",
        schema: Schema::Stats,
        about: "Settings under ProxySQL's name for such a table; settings has more columns.",
        columns: &[text("variable_name"), text("variable_value")],
        needs: &[],
        rows: Rows::Of(|gathered| {
            gathered.settings.config.given.iter().map(|given| row![&*given.path, &*given.value]).collect()
        }),
    },
];

fn servers(gathered: &Gathered) -> Vec<Row> {
    let hostgroups = Hostgroups::of(gathered);
    let mut rows = Vec::new();
    for (cluster, status_of) in &gathered.shared.clusters() {
        let Some(settings) = gathered.settings.config.clusters.get(cluster) else { continue };
        for server in status_of.published().view.load_full().servers.iter() {
            let (host, port) = host_and_port(&server.address);
            let is_primary = server.role == facts::view::Role::Primary;
            let own_max = settings.servers.get(&server.name).map(|own| own.max_connections).filter(|max| *max > 0);
            rows.push(row![
                hostgroups.number(cluster, is_primary),
                host,
                port.unwrap_or(0),
                0_u16,
                status(server),
                server.weight,
                settings.compression != ServerCompression::Off,
                own_max.unwrap_or(settings.pool.max_connections_per_server),
                settings.max_lag.as_secs(),
                settings.tls.mode != ServerTlsMode::Disabled,
                0_u16,
                &*server.name,
            ]);
        }
    }
    rows
}

fn rules(gathered: &Gathered) -> Vec<Row> {
    let hostgroups = Hostgroups::of(gathered);
    let rules = gathered.settings.config.rules.iter().enumerate();
    rules.map(|(index, of)| rule(index + 1, of, &hostgroups)).collect()
}

fn rule(id: usize, of: &config::Rule, hostgroups: &Hostgroups) -> Row {
    let matchers = &of.matchers;
    let shown = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    let cluster = matchers.cluster.as_deref().or(hostgroups.only());
    let is_primary = match of.route {
        Some(RuleRoute::Primary) => Some(true),
        Some(RuleRoute::Replica) => Some(false),
        _ => None,
    };
    let destination = cluster.zip(is_primary).and_then(|(cluster, primary)| hostgroups.number(cluster, primary));
    let ttl_ms = of.cache.map(|cache| u64::try_from(cache.ttl.as_millis()).unwrap_or(u64::MAX));
    let none = || Value::Null;
    row![
        id,
        of.enabled,
        shown(&matchers.user),
        shown(&matchers.schema),
        0_u16,
        matchers.client.as_ref().map(ToString::to_string),
        none(),
        none(),
        matchers.digest.map(|hash| format!("0x{hash:016X}")),
        shown(&matchers.digest_regex),
        shown(&matchers.text_regex),
        0_u16,
        none(),
        none(),
        none(),
        destination,
        ttl_ms,
        none(),
        none(),
        none(),
        none(),
        none(),
        none(),
        none(),
        none(),
        none(),
        shown(&of.refuse),
        none(),
        none(),
        none(),
        none(),
        none(),
        1_u16,
        "",
        &*of.name,
    ]
}

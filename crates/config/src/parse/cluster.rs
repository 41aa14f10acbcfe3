//! `[cluster.NAME]`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{etcd, failover, name_good, or_empty, secrets, tls};
use crate::checks::Places;
use crate::read::{Reader, Table};
use crate::settings::{cluster as keys, failover as failover_keys, galera as galera_keys};
use crate::{
    Cluster, ClusterKind, Donors, Failover, Galera, Heartbeat, Monitor, Pool, PromotionRule, ProxyOut, SendPasswords,
    Server, ServerCompression, Writers,
};

fn read_galera(reader: &mut Reader, parent: &Table, kind: Option<ClusterKind>) -> Galera {
    let table = reader.table(parent, &galera_keys::GALERA);
    let writers = reader.choice(&table, &galera_keys::WRITERS, Writers::ALL, Writers::word);
    let donors = reader.choice(&table, &galera_keys::DONORS, Donors::ALL, Donors::word);
    if kind.is_some_and(|kind| kind != ClusterKind::Galera) {
        for setting in [&galera_keys::WRITERS, &galera_keys::DONORS].into_iter().filter(|setting| table.has(setting)) {
            reader.warn(table.place(setting), table.key(setting), "it has an effect with kind = \"galera\" only");
        }
    }
    if let Some(kind) = kind.filter(|kind| kind.is_group())
        && parent.has(&keys::FAILOVER)
    {
        let message = format!("it has no effect with kind = \"{}\": the group decides who belongs to it", kind.word());
        reader.warn(parent.place(&keys::FAILOVER), parent.key(&keys::FAILOVER), message);
    }
    Galera { writers: writers.unwrap_or(Writers::One), donors: donors.unwrap_or(Donors::Avoid) }
}

fn read_rule(reader: &mut Reader, table: &Table) -> PromotionRule {
    let rule = reader.choice(table, &failover_keys::RULE, PromotionRule::ALL, PromotionRule::word);
    rule.unwrap_or(PromotionRule::Neutral)
}

pub(super) fn read_all(reader: &mut Reader, root: &Table, places: &mut Places) -> BTreeMap<Arc<str>, Cluster> {
    let mut clusters = BTreeMap::new();
    for (name, table) in reader.named(root, &keys::CLUSTER, name_good) {
        let cluster = read(reader, &name, &table, places);
        clusters.insert(name, cluster);
    }
    clusters
}

fn read_servers(
    reader: &mut Reader,
    name: &Arc<str>,
    table: &Table,
    places: &mut Places,
) -> BTreeMap<Arc<str>, Server> {
    let mut servers = BTreeMap::new();
    let named_servers = reader.named(table, &keys::SERVERS, name_good);
    if named_servers.is_empty() && reader.whole_document() {
        let message = "a cluster needs a server, as in servers.db1 = { address = \"10.0.0.1:3306\" }";
        reader.problem(table.place(&keys::KIND), format!("{}.servers", table.path()), message);
    }
    for (server_name, table) in named_servers {
        if let Some(address) = reader.address(&table, &keys::ADDRESS) {
            let server = Server {
                address,
                weight: reader.number(&table, &keys::WEIGHT),
                zone: or_empty(reader.text(&table, &keys::ZONE)),
                max_connections: reader.number(&table, &keys::MAX_CONNECTIONS),
                promotion: read_rule(reader, &table),
            };
            let place = (table.place(&keys::ADDRESS), table.key(&keys::ADDRESS));
            places.servers.insert((name.clone(), server_name.clone()), place);
            servers.insert(server_name, server);
        } else {
            // The address is reported; the other keys are still looked at, so that their mistakes show as well.
            reader.number(&table, &keys::WEIGHT);
            reader.text(&table, &keys::ZONE);
            reader.number(&table, &keys::MAX_CONNECTIONS);
            read_rule(reader, &table);
        }
    }
    servers
}

fn read(reader: &mut Reader, name: &Arc<str>, table: &Table, places: &mut Places) -> Cluster {
    let kind = reader.choice(table, &keys::KIND, ClusterKind::ALL, ClusterKind::word);
    let failover = reader.choice(table, &keys::FAILOVER, Failover::ALL, Failover::word).unwrap_or(Failover::Off);
    let max_lag = reader.duration(table, &keys::MAX_LAG);
    let down_after = reader.number(table, &keys::DOWN_AFTER);
    let up_after = reader.number(table, &keys::UP_AFTER);
    let slow_start = reader.duration(table, &keys::SLOW_START);
    let accounts_refresh = reader.duration(table, &keys::ACCOUNTS_REFRESH);
    let catalog_refresh = reader.duration(table, &keys::CATALOG_REFRESH);
    let send_passwords = reader.choice(table, &keys::SEND_PASSWORDS, SendPasswords::ALL, SendPasswords::word);
    let compression = reader.choice(table, &keys::COMPRESSION, ServerCompression::ALL, ServerCompression::word);
    let proxy_protocol = reader.choice(table, &keys::PROXY_PROTOCOL, ProxyOut::ALL, ProxyOut::word);
    let mark_writes = reader.flag(table, &keys::MARK_WRITES);
    let servers = read_servers(reader, name, table, places);
    let monitor = read_monitor(reader, table);
    let promotion = failover::read_promotion(reader, table, servers.len());
    let etcd = etcd::read(reader, table, &promotion);
    let replication = failover::read_replication(reader, table);
    let galera = read_galera(reader, table, kind);
    let pool_table = reader.table(table, &keys::POOL);
    let pool = read_pool(reader, &pool_table);
    let tls_table = reader.table(table, &keys::TLS);
    let tls = tls::read(reader, &tls_table, &keys::TLS_MODE);
    Cluster {
        kind: kind.unwrap_or(ClusterKind::Standalone),
        servers,
        monitor,
        failover,
        promotion,
        etcd,
        galera,
        replication,
        max_lag,
        down_after,
        up_after,
        slow_start,
        accounts_refresh,
        catalog_refresh,
        tls,
        pool,
        mark_writes,
        compression: compression.unwrap_or(ServerCompression::Off),
        send_passwords: send_passwords.unwrap_or(SendPasswords::Verified),
        proxy_protocol: proxy_protocol.unwrap_or(ProxyOut::Off),
    }
}

fn read_monitor(reader: &mut Reader, parent: &Table) -> Monitor {
    let table = reader.table(parent, &keys::MONITOR);
    let user = or_empty(reader.text(&table, &keys::USER));
    let password_keys = [&keys::PASSWORD, &keys::PASSWORD_FILE, &keys::PASSWORD_ENV];
    secrets::exclude(reader, &table, &password_keys);
    if !password_keys.iter().any(|key| table.has(key)) && reader.whole_document() {
        let message = "one of `password`, `password_file` and `password_env` is needed";
        reader.problem(table.place(&keys::USER), table.path().to_owned(), message);
    }
    let password = secrets::password(reader, &table, password_keys);
    Monitor {
        user,
        password: password.unwrap_or_else(|| crate::Secret::new([])),
        interval: reader.duration(&table, &keys::INTERVAL),
        timeout: reader.duration(&table, &keys::TIMEOUT),
        heartbeat: reader.choice(&table, &keys::HEARTBEAT, Heartbeat::ALL, Heartbeat::word).unwrap_or(Heartbeat::Auto),
        heartbeat_schema: read_schema(reader, &table),
    }
}

/// The schema's name ends up in SQL between backticks, so it keeps to what needs no escape.
fn read_schema(reader: &mut Reader, table: &Table) -> Arc<str> {
    let schema = or_empty(reader.text(table, &keys::HEARTBEAT_SCHEMA));
    if !schema.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '-')) {
        let (place, key) = (table.place(&keys::HEARTBEAT_SCHEMA), table.key(&keys::HEARTBEAT_SCHEMA));
        reader.problem(place, key, "the schema's name has other characters than letters, digits, '_', '-' and '$'");
    }
    schema
}

fn read_pool(reader: &mut Reader, table: &Table) -> Pool {
    let pool = Pool {
        max_connections: reader.number(table, &keys::POOL_MAX),
        max_connections_per_server: reader.number(table, &keys::POOL_MAX_PER_SERVER),
        max_connections_per_user: reader.number(table, &keys::POOL_MAX_PER_USER),
        min_idle: reader.number(table, &keys::MIN_IDLE),
        idle_timeout: reader.duration(table, &keys::IDLE_TIMEOUT),
        spare_timeout: reader.duration(table, &keys::SPARE_TIMEOUT),
        max_age: reader.duration(table, &keys::MAX_AGE),
        wait: reader.duration(table, &keys::WAIT),
        wait_max: reader.number(table, &keys::WAIT_MAX),
        statements_max: reader.number(table, &keys::STATEMENTS_MAX),
        pipelines: reader.number(table, &keys::PIPELINES),
        pipeline_time: reader.duration(table, &keys::PIPELINE_TIME),
        pipeline_reply_max: reader.size(table, &keys::PIPELINE_REPLY_MAX),
        connect_timeout: reader.duration(table, &keys::CONNECT_TIMEOUT),
        keepalive: reader.duration(table, &keys::KEEPALIVE),
        user_timeout: reader.duration(table, &keys::USER_TIMEOUT),
    };
    if pool.min_idle > pool.max_connections_per_server {
        let message = format!(
            "{} connections cannot be kept open: max_connections_per_server is {}",
            pool.min_idle, pool.max_connections_per_server
        );
        reader.problem(table.place(&keys::MIN_IDLE), table.key(&keys::MIN_IDLE), message);
    }
    pool
}

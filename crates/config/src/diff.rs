//! The changes of a reload.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::settings::Apply;
use crate::{Admin, Cluster, Config, Proxy, Rule};

/// The differences between the configuration in effect and a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Clusters. Those that are in both and differ are told apart in [`Self::cluster_parts`].
    pub clusters: Names,
    /// The differences in each of the changed clusters.
    pub cluster_parts: BTreeMap<Arc<str>, ClusterParts>,
    /// Listeners.
    pub listeners: Names,
    /// Those of the changed listeners whose TLS differs, a renewed certificate in the same file included.
    pub listener_tls: Vec<Arc<str>>,
    /// Users.
    pub users: Names,
    /// Rules. When only their order differs, nothing is named.
    pub rules: Names,
    /// Whether the rules are in another order.
    pub rule_order: bool,
    /// Statements that fill the result cache, also when only their file differs.
    pub warms: Names,
    /// Whether `[proxy]` has other values that need no restart.
    pub proxy: bool,
    /// Whether `[events]` differs.
    pub events: bool,
    /// Whether the key of the API differs.
    pub admin_keys: bool,
    /// Whether the TLS of the admin listener differs, a renewed certificate in the same file included.
    pub admin_tls: bool,
    /// Values that are different and take effect only with the next start.
    pub restart: Vec<Restart>,
}

/// Tables of one kind, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Only in the new configuration.
    pub added: Vec<Arc<str>>,
    /// Only in the old one.
    pub removed: Vec<Arc<str>>,
    /// In both, with different values.
    pub changed: Vec<Arc<str>>,
}

/// The differences in a cluster that is in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterParts {
    /// Servers.
    pub servers: Names,
    /// How servers are watched: the `monitor` table.
    pub monitor: bool,
    /// How a primary is replaced: the `promotion`, `replication` and `etcd` tables.
    pub promotion: bool,
    /// The cluster's reactions: lag, probes, slow start, refresh times, failover.
    pub rules: bool,
    /// The `pool` table.
    pub pool: bool,
    /// Compression and PROXY headers towards the servers.
    pub transport: bool,
    /// The `tls` table, a renewed certificate in the same file included.
    pub tls: bool,
}

/// A value that waits for the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The key's path.
    pub key: String,
    /// The value in effect, as it would stand in the file; empty is none.
    pub old: String,
    /// The value in the new configuration.
    pub new: String,
}

/// Compares the configuration in effect with a new one.
pub fn diff(old: &Config, new: &Config) -> Changes {
    let clusters = names(&old.clusters, &new.clusters);
    let part = |name: &Arc<str>| Some((name.clone(), parts(old.clusters.get(name)?, new.clusters.get(name)?)));
    let cluster_parts = clusters.changed.iter().filter_map(part).collect();
    let listeners = names(&old.listeners, &new.listeners);
    let tls = |name: &&Arc<str>| old.listeners.get(*name).map(|l| &l.tls) != new.listeners.get(*name).map(|l| &l.tls);
    let listener_tls = listeners.changed.iter().filter(tls).cloned().collect();
    let users = names(&old.users, &new.users);
    let warms = names(&old.warms, &new.warms);
    let live = |config: &Config| {
        let Proxy {
            busy_poll,
            relieve_above_percent,
            digests_max,
            digest_samples,
            drain,
            zone,
            prepared_memory_max,
            command_memory_max,
            ..
        } = config.proxy.clone();
        let memory = (prepared_memory_max, command_memory_max);
        (busy_poll, relieve_above_percent, digests_max, digest_samples, drain, zone, memory)
    };
    let proxy = live(old) != live(new);
    let keys = |config: &Config| config.admin.as_ref().map(|admin| admin.keys.clone()).unwrap_or_default();
    let admin_keys = keys(old) != keys(new);
    let admin_tls = |config: &Config| config.admin.as_ref().map(|admin| admin.tls.clone()).unwrap_or_default();
    let admin_tls = admin_tls(old) != admin_tls(new);
    let by_name = |config: &Config| config.rules.iter().map(|rule| (rule.name.clone(), rule.clone())).collect();
    let rules = names::<Rule>(&by_name(old), &by_name(new));
    let order = |config: &Config, other: &Config| -> Vec<Arc<str>> {
        let there: BTreeSet<&str> = other.rules.iter().map(|rule| &*rule.name).collect();
        let names = config.rules.iter().map(|rule| &rule.name);
        names.filter(|name| there.contains(&***name)).cloned().collect()
    };
    let rule_order = order(old, new) != order(new, old);
    let restart = restart(old, new);
    Changes {
        clusters,
        cluster_parts,
        listeners,
        listener_tls,
        users,
        rules,
        rule_order,
        warms,
        proxy,
        events: old.events != new.events,
        admin_keys,
        admin_tls,
        restart,
    }
}

impl Changes {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Names {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    fn describe(&self, what: &str, out: &mut Vec<String>) {
        for (verb, names) in [("added", &self.added), ("removed", &self.removed), ("changed", &self.changed)] {
            out.extend(names.iter().map(|name| format!("{what}.{name} {verb}")));
        }
    }

    /// The same, but counts where there are many.
    fn describe_few(&self, what: &str, out: &mut Vec<String>) {
        const NAMED_MAX: usize = 10;
        let few = |names: &[Arc<str>]| if names.len() > NAMED_MAX { Vec::new() } else { names.to_vec() };
        let named = Names { added: few(&self.added), removed: few(&self.removed), changed: few(&self.changed) };
        named.describe(what, out);
        for (verb, names) in [("added", &self.added), ("removed", &self.removed), ("changed", &self.changed)] {
            if names.len() > NAMED_MAX {
                out.push(format!("{} {what}s {verb}", names.len()));
            }
        }
    }
}

/// The new configuration with the values of the old one wherever a value waits for the next start: what a reload puts
/// into effect. A listener that is only in one of them is left as the new one has it.
pub fn without_restart(old: &Config, mut new: Config) -> Config {
    new.proxy.workers = old.proxy.workers;
    new.proxy.login_memory_max = old.proxy.login_memory_max;
    new.log = old.log.clone();
    new.cache = old.cache.clone();
    new.history = old.history.clone();
    new.events.spool = old.events.spool.clone();
    // Without its table the API is closed, and its TLS stays: the listener is there until the next start.
    let (keys, tls) = new.admin.map(|admin| (admin.keys, admin.tls)).unzip();
    new.admin = old.admin.as_ref().map(|old| Admin {
        address: old.address.clone(),
        sql_address: old.sql_address.clone(),
        keys: keys.unwrap_or_default(),
        tls: tls.unwrap_or_else(|| old.tls.clone()),
    });
    for (name, listener) in &mut new.listeners {
        if let Some(old) = old.listeners.get(name) {
            listener.address = old.address.clone();
            listener.cluster = old.cluster.clone();
            (listener.backlog, listener.socket_mode) = (old.backlog, old.socket_mode);
        }
    }
    for (name, cluster) in &mut new.clusters {
        if let Some(old) = old.clusters.get(name) {
            cluster.kind = old.kind;
        }
    }
    let old_values: BTreeMap<&str, _> = old.given.iter().map(|given| (given.path.as_str(), given)).collect();
    for given in new.given.iter_mut().filter(|given| given.apply == Apply::Restart) {
        if let Some(old) = old_values.get(given.path.as_str()) {
            given.clone_from(old);
        }
    }
    new
}

fn names<T: PartialEq>(old: &BTreeMap<Arc<str>, T>, new: &BTreeMap<Arc<str>, T>) -> Names {
    Names {
        added: new.keys().filter(|name| !old.contains_key(*name)).cloned().collect(),
        removed: old.keys().filter(|name| !new.contains_key(*name)).cloned().collect(),
        changed: old
            .iter()
            .filter(|(name, value)| new.get(*name).is_some_and(|other| other != *value))
            .map(|(name, _)| name.clone())
            .collect(),
    }
}

fn parts(old: &Cluster, new: &Cluster) -> ClusterParts {
    let rules = |c: &Cluster| {
        let times = (c.max_lag, c.down_after, c.up_after, c.slow_start, c.accounts_refresh, c.catalog_refresh);
        (c.failover, c.galera, times, c.mark_writes)
    };
    ClusterParts {
        servers: names(&old.servers, &new.servers),
        monitor: old.monitor != new.monitor,
        promotion: (&old.promotion, &old.replication, &old.etcd) != (&new.promotion, &new.replication, &new.etcd),
        rules: rules(old) != rules(new),
        pool: old.pool != new.pool,
        transport: (old.compression, old.proxy_protocol) != (new.compression, new.proxy_protocol),
        tls: (&old.tls, old.send_passwords) != (&new.tls, new.send_passwords),
    }
}

fn restart(old: &Config, new: &Config) -> Vec<Restart> {
    let old_values: BTreeMap<&str, &str> = old.given.iter().map(|g| (g.path.as_str(), g.value.as_str())).collect();
    let waits = new.given.iter().filter(|given| given.apply == Apply::Restart);
    let changed = waits.filter_map(|given| {
        let old = old_values.get(given.path.as_str()).filter(|old| **old != given.value)?;
        Some(Restart { key: given.path.clone(), old: (*old).to_owned(), new: given.value.clone() })
    });
    changed.collect()
}

impl fmt::Display for Changes {
    /// One line for the log, as in `cluster.main.servers.db3 added, users.app changed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        for (verb, names) in [("added", &self.clusters.added), ("removed", &self.clusters.removed)] {
            out.extend(names.iter().map(|name| format!("cluster.{name} {verb}")));
        }
        for (name, parts) in &self.cluster_parts {
            parts.servers.describe(&format!("cluster.{name}.servers"), &mut out);
            let flags = [
                (".monitor", parts.monitor),
                ("'s promotion", parts.promotion),
                ("'s own values", parts.rules),
                (".pool", parts.pool),
                ("'s transport", parts.transport),
                (".tls", parts.tls),
            ];
            out.extend(flags.iter().filter(|(_, on)| *on).map(|(part, _)| format!("cluster.{name}{part} changed")));
        }
        self.listeners.describe("listener", &mut out);
        self.users.describe("user", &mut out);
        self.rules.describe_few("rule", &mut out);
        if self.rule_order {
            out.push("the order of the rules changed".into());
        }
        self.warms.describe("warm", &mut out);
        if self.proxy {
            out.push("proxy changed".into());
        }
        if self.events {
            out.push("events changed".into());
        }
        if self.admin_keys {
            out.push("the keys of admin changed".into());
        }
        if self.admin_tls {
            out.push("the TLS of admin changed".into());
        }
        out.extend(self.restart.iter().map(|wait| format!("{} waits for a restart", wait.key)));
        match out.is_empty() {
            true => f.write_str("nothing changed"),
            false => f.write_str(&out.join(", ")),
        }
    }
}

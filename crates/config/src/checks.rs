//! Checks that need all tables.

mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::read::{Reader, quote};
use crate::{Address, ClusterKind, Config, Failover, suggest};

/// Where the values stand that are compared with each other.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) admin: Option<Range<usize>>,
    /// Where the address of the SQL console stands, and its key.
    pub(crate) console: Option<Place>,
    /// By cluster and server: where the address stands, and its key.
    pub(crate) servers: BTreeMap<(Arc<str>, Arc<str>), Place>,
    /// By listener: where the address stands, and its key.
    pub(crate) listeners: BTreeMap<Arc<str>, Place>,
    /// Names of clusters that something refers to.
    pub(crate) clusters_used: Vec<(Arc<str>, Range<usize>, String)>,
    /// By rule: where its listener, its cluster and its route stand, or the rule.
    pub(crate) rules: Vec<[Place; 3]>,
}

/// A place in the text and the key there.
type Place = (Range<usize>, String);

pub(crate) fn check(reader: &mut Reader, config: &Config, places: &Places) {
    for (table, given) in [("cluster", !config.clusters.is_empty()), ("listener", !config.listeners.is_empty())] {
        // Something else under that name is reported already.
        let said = reader.problems.iter().any(|problem| problem.key.split('.').next() == Some(table));
        if !given && !said && reader.whole_document() {
            reader.problem(0..0, table, format!("no {table} is given; a table [{table}.NAME] is needed"));
        }
    }
    check_references(reader, config, places);
    check_servers(reader, config, places);
    check_listeners(reader, config, places);
    check_failover(reader, config, places);
    rules::check(reader, config, places);
}

fn check_references(reader: &mut Reader, config: &Config, places: &Places) {
    if config.clusters.is_empty() {
        return;
    }
    for (name, place, key) in &places.clusters_used {
        if config.clusters.contains_key(name) {
            continue;
        }
        let names = || config.clusters.keys().map(|name| &**name);
        let allowed = names().map(quote).collect::<Vec<_>>().join(", ");
        let hint = suggest::nearest(name, names()).map(|near| format!("did you mean {}?", quote(near)));
        let message = format!("there is no cluster {}", quote(name));
        reader.problem_with(place.clone(), key.clone(), message, Some(allowed), hint);
    }
    let used: BTreeSet<&str> = config.listeners.values().map(|listener| &*listener.cluster).collect();
    for name in config.clusters.keys().filter(|name| !used.contains(&***name)) {
        // Any of its servers is a place the reader can look at.
        let place =
            places.servers.iter().find(|((cluster, _), _)| cluster == name).map(|(_, (place, _))| place.clone());
        reader.warn(place.unwrap_or(0..0), format!("cluster.{name}"), "no listener leads to this cluster");
    }
}

fn check_servers(reader: &mut Reader, config: &Config, places: &Places) {
    let mut seen: BTreeMap<&Address, (&str, &str)> = BTreeMap::new();
    for ((cluster, server), (place, key)) in &places.servers {
        let Some(address) = config.clusters.get(cluster).and_then(|c| c.servers.get(server)).map(|s| &s.address) else {
            continue;
        };
        match seen.get(address) {
            Some((other_cluster, other)) if **other_cluster == **cluster => {
                let message = format!("{address} is also the address of servers.{other}");
                reader.problem(place.clone(), key.clone(), message);
            }
            Some((other_cluster, other)) => {
                let message = format!(
                    "{address} is also the address of cluster.{other_cluster}.servers.{other}; limits count separately"
                );
                reader.warn(place.clone(), key.clone(), message);
            }
            None => {
                seen.insert(address, (cluster, server));
            }
        }
    }
}

/// With `failover = "auto"`: the lack of what makes it safe, and what that means. Two clusters cannot share a journal.
fn check_failover(reader: &mut Reader, config: &Config, places: &Places) {
    let mut journals: BTreeMap<&Path, &str> = BTreeMap::new();
    for (name, cluster) in &config.clusters {
        let place = places.servers.iter().find(|((of, _), _)| of == name).map_or(0..0, |(_, (place, _))| place.clone());
        if let Some(journal) = &cluster.promotion.journal
            && let Some(other) = journals.insert(journal, name)
        {
            let message = format!("it is also the journal of cluster.{other}; each cluster needs a file of its own");
            reader.problem(place.clone(), format!("cluster.{name}.promotion.journal"), message);
        }
        if cluster.failover != Failover::Auto || cluster.kind != ClusterKind::Replication {
            continue;
        }
        let has_key = config.admin.as_ref().is_some_and(|admin| admin.keys.admin.is_some());
        let lacks = [
            (
                has_key,
                "admin.key",
                "without it no operator can order a switchover, or acknowledge a failover: automatic failover that has stopped after \
                 `attempts_max` failures goes on only after a restart",
            ),
            (
                cluster.replication.user.is_some(),
                "replication.user",
                "without it an old primary that comes back is not attached: it stays out until somebody does that, and a switchover is refused",
            ),
            (
                cluster.promotion.journal.is_some(),
                "promotion.journal",
                "without it cool-down, failed attempts, epoch, maintenance and drain are forgotten at a restart: Sqluice may promote again \
                 at once",
            ),
            (
                cluster.promotion.semi_sync_required,
                "promotion.semi_sync_required",
                "it is off: a failover may lose committed writes, those that no replica has received yet",
            ),
        ];
        for (_, key, means) in lacks.into_iter().filter(|(has, ..)| !has) {
            let key = if key == "admin.key" { key.to_owned() } else { format!("cluster.{name}.{key}") };
            reader.warn(place.clone(), key, format!("cluster {name} has failover = \"auto\": {means}"));
        }
    }
}

fn check_listeners(reader: &mut Reader, config: &Config, places: &Places) {
    let mut seen: Vec<(&Address, String)> = Vec::new();
    if let (Some(admin), Some(_)) = (&config.admin, &places.admin) {
        seen.push((&admin.address, "admin.address".into()));
    }
    if let Some(console) = config.admin.as_ref().and_then(|admin| admin.sql_address.as_ref())
        && let Some((place, key)) = &places.console
    {
        if let Some((_, other)) = seen.iter().find(|(other, _)| other.covers(console) || console.covers(other)) {
            reader.problem(place.clone(), key.clone(), format!("{console} is taken by {other}"));
        }
        seen.push((console, key.clone()));
    }
    for (name, (place, key)) in &places.listeners {
        let Some(listener) = config.listeners.get(name) else { continue };
        let address = &listener.address;
        if let Some((_, other)) = seen.iter().find(|(other, _)| other.covers(address) || address.covers(other)) {
            reader.problem(place.clone(), key.clone(), format!("{address} is taken by {other}"));
        }
        seen.push((address, key.clone()));
        for (cluster_name, cluster) in &config.clusters {
            for (server_name, server) in &cluster.servers {
                if address.covers(&server.address) {
                    let message = format!(
                        "Sqluice would connect to itself: {} is the address of cluster.{cluster_name}.servers.{server_name}",
                        server.address
                    );
                    reader.problem(place.clone(), key.clone(), message);
                }
            }
        }
    }
}

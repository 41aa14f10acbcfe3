//! Whether what rules name is there.

use std::sync::Arc;

use super::Places;
use crate::read::{Reader, quote};
use crate::{Config, Matchers, RuleRoute, suggest};

pub(super) fn check(reader: &mut Reader, config: &Config, places: &Places) {
    // Without them there are mistakes enough.
    if config.clusters.is_empty() || config.listeners.is_empty() {
        return;
    }
    let listeners: Vec<&str> = config.listeners.keys().map(|name| &**name).collect();
    let clusters: Vec<&str> = config.clusters.keys().map(|name| &**name).collect();
    for (rule, [listener_at, cluster_at, route_at]) in config.rules.iter().zip(&places.rules) {
        let Matchers { listener, cluster, .. } = &rule.matchers;
        let mut named = |what: &str, name: &Option<Arc<str>>, all: &[&str], at: &super::Place| {
            let Some(name) = name.as_deref().filter(|name| !name.is_empty() && !all.contains(name)) else { return };
            let allowed = all.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ");
            let near = suggest::nearest(name, all.iter().copied());
            let hint = near.map(|near| format!("did you mean {}?", quote(near)));
            let message = format!("there is no {what} {}", quote(name));
            reader.problem_with(at.0.clone(), at.1.clone(), message, Some(allowed), hint);
        };
        named("listener", listener, &listeners, listener_at);
        named("cluster", cluster, &clusters, cluster_at);
        let leads_to = listener.as_ref().and_then(|name| config.listeners.get(name)).map(|found| &found.cluster);
        if let (Some(leads_to), Some(cluster)) = (leads_to, cluster)
            && leads_to != cluster
        {
            let message = format!("the rule never decides: its listener leads to cluster {}", quote(leads_to));
            reader.problem(cluster_at.0.clone(), cluster_at.1.clone(), message);
        }
        let Some(RuleRoute::Server(server)) = &rule.route else { continue };
        // Where it may be asked, the server must be.
        for (name, known) in &config.clusters {
            let asked = cluster.as_ref().or(leads_to).is_none_or(|only| only == name);
            if !asked || known.servers.contains_key(server) {
                continue;
            }
            let names = || known.servers.keys().map(|name| &**name);
            let allowed = names().map(|name| quote(&format!("server:{name}"))).collect::<Vec<_>>().join(", ");
            let near = suggest::nearest(server, names());
            let hint = near.map(|near| format!("did you mean {}?", quote(&format!("server:{near}"))));
            let hint = hint.or_else(|| {
                let elsewhere = config.clusters.iter().find(|(_, other)| other.servers.contains_key(server));
                elsewhere.map(|(other, _)| format!("cluster = {} would confine the rule", quote(other)))
            });
            let message = format!("cluster {} has no server {}", quote(name), quote(server));
            reader.problem_with(route_at.0.clone(), route_at.1.clone(), message, Some(allowed), hint);
        }
    }
}

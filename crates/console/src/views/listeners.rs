//! Listeners: the clients of each, with their bytes and queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use stats::ListenerStats;

use super::gather::Gathered;
use super::live::sum;
use super::{Need, Rows, Schema, View};
use crate::cells::{Row, row};
use crate::columns::{int, text};

/// Listener and cluster.
type Key = (Arc<str>, Arc<str>);
/// The counters of a listener, one of each worker.
type Stats = Vec<Arc<ListenerStats>>;

pub(super) const VIEWS: &[View] = &[View {
    name: "listeners",
    schema: Schema::Main,
    about: "Listeners, with the sessions, bytes, queries and errors of their clients.",
    columns: &[
        text("listener"),
        text("cluster"),
        text("address"),
        int("sessions"),
        int("sessions_max"),
        int("logins"),
        int("login_failures"),
        int("received_bytes"),
        int("sent_bytes"),
        int("reads"),
        int("writes"),
        int("cached"),
        int("errors"),
    ],
    needs: &[Need::Sessions],
    rows: Rows::Of(listeners),
}];

/// Those of the configuration, and those that still have counts of before.
fn listeners(gathered: &Gathered) -> Vec<Row> {
    let mut all: BTreeMap<Key, Stats> = BTreeMap::new();
    let configured = &gathered.settings.config.listeners;
    for (name, listener) in configured {
        all.entry((name.clone(), listener.cluster.clone())).or_default();
    }
    for entry in gathered.shared.sources.workers.iter().flat_map(|worker| worker.listeners()) {
        all.entry((entry.listener, entry.cluster)).or_default().push(entry.stats);
    }
    let of = |((listener, cluster), all): (&Key, &Stats)| {
        let sessions = gathered.sessions.iter().filter(|facts| facts.listener.as_ref() == Some(listener)).count();
        let own = configured.get(listener).filter(|own| own.cluster == *cluster);
        row![
            &**listener,
            &**cluster,
            own.map(|own| own.address.to_string()),
            sessions,
            own.map(|own| own.max_sessions),
            sum(all, |l| &l.logins),
            sum(all, |l| &l.login_failures),
            sum(all, |l| &l.received_bytes),
            sum(all, |l| &l.sent_bytes),
            sum(all, |l| &l.reads),
            sum(all, |l| &l.writes),
            sum(all, |l| &l.cached),
            sum(all, |l| &l.errors),
        ]
    };
    all.iter().map(of).collect()
}

//! Listeners: the clients of each, with their bytes and queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use stats::{Counter, ListenerStats, WorkerStats};

use super::names::*;
use super::{Metric, Page, family};

type Stats = Vec<Arc<ListenerStats>>;
type Pick = fn(&ListenerStats) -> &Counter;

fn sum(stats: &[Arc<ListenerStats>], pick: Pick) -> u64 {
    stats.iter().map(|stats| pick(stats).get()).sum()
}

/// The bytes of all clients.
pub(super) fn totals(page: &mut Page, workers: &[Arc<WorkerStats>]) {
    let all: Stats = workers.iter().flat_map(|worker| worker.listeners()).map(|entry| entry.stats).collect();
    family(page, RECEIVED_BYTES).sample(&[], sum(&all, |stats| &stats.received_bytes));
    family(page, SENT_BYTES).sample(&[], sum(&all, |stats| &stats.sent_bytes));
}

/// The counts of each listener.
pub(super) fn render(page: &mut Page, workers: &[Arc<WorkerStats>]) {
    let mut sums: BTreeMap<(Arc<str>, Arc<str>), Stats> = BTreeMap::new();
    for entry in workers.iter().flat_map(|worker| worker.listeners()) {
        sums.entry((entry.cluster, entry.listener)).or_default().push(entry.stats);
    }
    let counter = |page: &mut Page, metric: Metric, pick: Pick| {
        let mut family = family(page, metric);
        for ((cluster, listener), stats) in &sums {
            family.sample(&[cluster, listener], sum(stats, pick));
        }
    };
    counter(page, LISTENER_LOGINS, |stats| &stats.logins);
    counter(page, LISTENER_LOGIN_FAILURES, |stats| &stats.login_failures);
    counter(page, LISTENER_RECEIVED_BYTES, |stats| &stats.received_bytes);
    counter(page, LISTENER_SENT_BYTES, |stats| &stats.sent_bytes);
    let kinds: [(&str, Pick); 3] =
        [("read", |stats| &stats.reads), ("write", |stats| &stats.writes), ("cached", |stats| &stats.cached)];
    let mut queries = family(page, LISTENER_QUERIES);
    for ((cluster, listener), stats) in &sums {
        kinds.iter().for_each(|(kind, pick)| queries.sample(&[cluster, listener, kind], sum(stats, *pick)));
    }
    counter(page, LISTENER_ERRORS, |stats| &stats.errors);
}

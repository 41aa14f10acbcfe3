//! The page `/metrics`.

mod cache;
mod events;
mod failover;
mod history;
mod listeners;
mod names;
mod process;
mod sessions;
#[cfg(test)]
mod tests;
mod text;
mod tier;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use facts::view::{Health, Role, ServerView, View};
use stats::{Counter, Gauge, Labelled, ServerStats, Snapshot, WorkerStats};

use self::text::Page;
use super::status::{ClusterStatus, Figures};
use crate::shared::Shared;
use names::*;
pub use names::{METRICS, Metric, MetricKind};

/// Upper bounds of the latency buckets, in microseconds and as the label tells them in seconds.
const LATENCY_BOUNDS: [(u64, &str); 16] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

/// The whole page.
pub(crate) fn render(shared: &Shared) -> String {
    let mut page = Page::default();
    process::render(&mut page, shared);
    queries(&mut page, &shared.workers);
    sessions::render(&mut page, shared);
    rules(&mut page, shared);
    let clusters = shared.clusters();
    cache::render(&mut page, shared, &clusters);
    tier::render(&mut page, shared);
    events::render(&mut page, shared);
    history::render(&mut page, shared);
    servers(&mut page, shared);
    let all: Vec<Cluster> = clusters.iter().map(|(name, status)| Cluster::new(name, &**status)).collect();
    views(&mut page, &all);
    monitors(&mut page, &all);
    failover::render(&mut page, &all);
    page.finish()
}

/// A cluster as all samples of one page show it.
struct Cluster<'a> {
    name: &'a str,
    status: &'a dyn ClusterStatus,
    view: Arc<View>,
    figures: Figures,
}

impl<'a> Cluster<'a> {
    fn new(name: &'a str, status: &'a dyn ClusterStatus) -> Cluster<'a> {
        Cluster { name, status, view: status.published().view.load_full(), figures: status.figures() }
    }
}

fn family(page: &mut Page, metric: Metric) -> Family<'_> {
    page.family(metric.name, metric.kind.word(), metric.help);
    Family { page, metric }
}

/// Writes the samples of one metric, with label names as declared.
struct Family<'a> {
    page: &'a mut Page,
    metric: Metric,
}

impl Family<'_> {
    fn sample(&mut self, values: &[&str], value: impl Display) {
        let labels: Vec<(&str, &str)> = self.metric.labels.iter().copied().zip(values.iter().copied()).collect();
        self.page.sample(self.metric.name, &labels, value);
    }
}

fn queries(page: &mut Page, workers: &[Arc<WorkerStats>]) {
    let counter = |page: &mut Page, metric: Metric, pick: fn(&WorkerStats) -> &Counter| {
        family(page, metric).sample(&[], workers.iter().map(|worker| pick(worker).get()).sum::<u64>());
    };
    let gauge = |page: &mut Page, metric: Metric, pick: fn(&WorkerStats) -> &Gauge| {
        family(page, metric).sample(&[], workers.iter().map(|worker| pick(worker).get()).sum::<i64>());
    };
    gauge(page, SESSIONS, |worker| &worker.sessions);
    counter(page, ACCEPTED, |worker| &worker.accepted);
    counter(page, LOGINS, |worker| &worker.logins);
    counter(page, LOGIN_FAILURES, |worker| &worker.login_failures);
    by_reason(page, REFUSED_CLIENTS, workers, |worker| &worker.refused_clients, |counter| counter.get() as i64);
    counter(page, DELAYED_LOGINS, |worker| &worker.delayed_logins);
    gauge(page, LOGIN_MEMORY, |worker| &worker.login_memory_bytes);
    counter(page, LOGIN_MEMORY_WAITS, |worker| &worker.login_memory_waits);
    gauge(page, CLIENT_ADDRESSES, |worker| &worker.client_addresses);
    gauge(page, PREPARED_BYTES, |worker| &worker.prepared_bytes);
    gauge(page, COMMAND_BYTES, |worker| &worker.command_bytes);
    counter(page, REQUESTS, |worker| &worker.requests);
    counter(page, UNKNOWN, |worker| &worker.unknown_statements);
    counter(page, LOCAL, |worker| &worker.local_answers);
    by_reason(page, PINS, workers, |worker| &worker.pins, Gauge::get);
    by_reason(page, PINNED, workers, |worker| &worker.pinned, |counter| counter.get() as i64);
    by_reason(page, ROUTES, workers, |worker| &worker.routes, |counter| counter.get() as i64);
    by_reason(page, UNPIPELINED, workers, |worker| &worker.unpipelined, |counter| counter.get() as i64);
    gauge(page, HOLDING, |worker| &worker.holding);
    counter(page, HELD, |worker| &worker.held);
    counter(page, HOLD_TIMEOUTS, |worker| &worker.hold_timeouts);
    counter(page, REPLICA_WAITS, |worker| &worker.replica_waits);
    counter(page, REPLICA_WAIT_TIMEOUTS, |worker| &worker.replica_wait_timeouts);
    by_reason(page, REPLAYS, workers, |worker| &worker.replays, |counter| counter.get() as i64);
    counter(page, IN_DOUBT, |worker| &worker.in_doubt);
    gauge(page, WAITING, |worker| &worker.waiting);
    counter(page, WAITED, |worker| &worker.waited);
    counter(page, WAIT_TIMEOUTS, |worker| &worker.wait_timeouts);
    gauge(page, USER_WAITING, |worker| &worker.user_waiting);
    counter(page, USER_WAITED, |worker| &worker.user_waited);
    counter(page, USER_WAIT_TIMEOUTS, |worker| &worker.user_wait_timeouts);
    counter(page, FIX_UPS, |worker| &worker.fix_ups);
    counter(page, REPREPARES, |worker| &worker.reprepares);
    by_reason(page, SESSIONS_MOVED, workers, |worker| &worker.sessions_given, |counter| counter.get() as i64);
    counter(page, MOVED, |worker| &worker.moved);
    listeners::totals(page, workers);
    counter(page, OWN_ERRORS, |worker| &worker.own_errors);
    error_codes(page, workers);
    gauge(page, DIGESTS, |worker| &worker.digests);
    counter(page, DIGESTS_LOST, |worker| &worker.digests_lost);
}

fn error_codes(page: &mut Page, workers: &[Arc<WorkerStats>]) {
    let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
    for (code, count) in workers.iter().flat_map(|worker| worker.error_codes.iter()) {
        *sums.entry(code).or_default() += count;
    }
    let mut family = family(page, ERROR_CODES);
    sums.iter().for_each(|(code, sum)| family.sample(&[&code.to_string()], sum));
}

fn rules(page: &mut Page, shared: &Shared) {
    let (rules, hits) = (shared.rules(), super::rest::rule_hits(&shared.workers));
    let mut family_of_hits = family(page, RULE_HITS);
    for rule in rules.iter().filter(|rule| rule.enabled) {
        family_of_hits.sample(&[&rule.name], hits.get(&*rule.name).copied().unwrap_or(0));
    }
    let searches = shared.workers.iter().map(|worker| worker.rule_searches.get()).sum::<u64>();
    family(page, RULE_SEARCHES).sample(&[], searches);
}

fn by_reason<T: Default + 'static>(
    page: &mut Page,
    metric: Metric,
    workers: &[Arc<WorkerStats>],
    pick: fn(&WorkerStats) -> &Labelled<T>,
    read: fn(&T) -> i64,
) {
    let mut sums: Vec<(&'static str, i64)> = Vec::new();
    for worker in workers {
        for (reason, value) in pick(worker).iter() {
            match sums.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sum)) => *sum += read(value),
                None => sums.push((reason, read(value))),
            }
        }
    }
    let mut family = family(page, metric);
    for (reason, sum) in sums {
        family.sample(&[reason], sum);
    }
}

/// One server's counts of all workers.
#[derive(Default)]
struct Sum {
    stats: Vec<Arc<ServerStats>>,
}

impl Sum {
    fn counter(&self, pick: fn(&ServerStats) -> &Counter) -> u64 {
        self.stats.iter().map(|stats| pick(stats).get()).sum()
    }

    fn gauge(&self, pick: fn(&ServerStats) -> &Gauge) -> i64 {
        self.stats.iter().map(|stats| pick(stats).get()).sum()
    }

    fn latency(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.stats.iter().for_each(|stats| sum.merge(&stats.latency_us.snapshot()));
        sum
    }
}

fn servers(page: &mut Page, shared: &Shared) {
    let workers = &shared.workers;
    let mut sums: BTreeMap<(Arc<str>, Arc<str>), Sum> = BTreeMap::new();
    for entry in workers.iter().flat_map(|worker| worker.servers()) {
        sums.entry((entry.cluster, entry.server)).or_default().stats.push(entry.stats);
    }
    let counter = |page: &mut Page, metric: Metric, pick: fn(&ServerStats) -> &Counter| {
        let mut family = family(page, metric);
        for ((cluster, server), sum) in &sums {
            family.sample(&[cluster, server], sum.counter(pick));
        }
    };
    counter(page, READS, |stats| &stats.reads);
    counter(page, WRITES, |stats| &stats.writes);
    counter(page, ERRORS, |stats| &stats.errors);
    counter(page, RETRIES, |stats| &stats.retries);
    counter(page, SERVER_SENT_BYTES, |stats| &stats.sent_bytes);
    counter(page, SERVER_RECEIVED_BYTES, |stats| &stats.received_bytes);
    counter(page, PIPELINED, |stats| &stats.pipelined);
    let mut outstanding = family(page, PIPELINED_NOW);
    for ((cluster, server), sum) in &sums {
        outstanding.sample(&[cluster, server], sum.gauge(|stats| &stats.pipelined_now));
    }
    counter(page, OPENED, |stats| &stats.opened);
    counter(page, OPEN_FAILURES, |stats| &stats.open_failures);
    counter(page, RELOGINS, |stats| &stats.relogins);
    counter(page, CLOSED, |stats| &stats.closed);
    let mut connections = family(page, CONNECTIONS);
    for ((cluster, server), sum) in &sums {
        connections.sample(&[cluster, server, "used"], sum.gauge(|stats| &stats.used));
        connections.sample(&[cluster, server, "idle"], sum.gauge(|stats| &stats.idle));
    }
    let mut most = family(page, CONNECTIONS_MAX);
    for ((cluster, server), limit) in shared.servers().iter() {
        most.sample(&[cluster, server], limit);
    }
    page.family(LATENCY.name, LATENCY.kind.word(), LATENCY.help);
    for ((cluster, server), sum) in &sums {
        histogram(page, cluster, server, &sum.latency());
    }
}

fn histogram(page: &mut Page, cluster: &str, server: &str, latency: &Snapshot) {
    let labels = [("cluster", cluster), ("server", server)];
    let with_bound = |bound| [labels[0], labels[1], ("le", bound)];
    let name = |suffix: &str| format!("{}_{suffix}", LATENCY.name);
    for (bound, word) in LATENCY_BOUNDS {
        page.sample(&name("bucket"), &with_bound(word), latency.count_at_most(bound));
    }
    page.sample(&name("bucket"), &with_bound("+Inf"), latency.count());
    page.sample(&name("sum"), &labels, latency.sum() as f64 / 1e6);
    page.sample(&name("count"), &labels, latency.count());
}

fn views(page: &mut Page, clusters: &[Cluster<'_>]) {
    let mut number = family(page, VIEW);
    clusters.iter().for_each(|of| number.sample(&[of.name], of.view.number));
    let mut has_primary = family(page, HAS_PRIMARY);
    clusters.iter().for_each(|of| has_primary.sample(&[of.name], u8::from(of.view.primary.is_some())));
    let mut diagnosis = family(page, DIAGNOSIS);
    for Cluster { name, figures, .. } in clusters {
        for word in figures.diagnosis_names {
            let stands = figures.diagnoses.iter().any(|diagnosis| diagnosis.name == *word);
            diagnosis.sample(&[name, word], u8::from(stands));
        }
    }
    let mut each = |metric: Metric, write: &dyn Fn(&mut Family<'_>, &str, &ServerView)| {
        let mut family = family(page, metric);
        for Cluster { name, view, .. } in clusters {
            view.servers.iter().for_each(|server| write(&mut family, name, server));
        }
    };
    each(UP, &|family, cluster, server| {
        family.sample(&[cluster, &server.name], u8::from(server.health == Health::Up));
    });
    each(HEALTH, &|family, cluster, server| {
        for health in [Health::Up, Health::Suspect, Health::Down, Health::Draining, Health::Maintenance] {
            family.sample(&[cluster, &server.name, health.word()], u8::from(server.health == health));
        }
    });
    each(ROLE, &|family, cluster, server| {
        for role in [Role::Primary, Role::Replica, Role::Unknown] {
            family.sample(&[cluster, &server.name, role.word()], u8::from(server.role == role));
        }
    });
    each(SERVES, &|family, cluster, server| {
        family.sample(&[cluster, &server.name], u8::from(server.serves_reads));
    });
    let mut lag = family(page, LAG);
    for Cluster { name, figures, .. } in clusters {
        for (server, figures) in &figures.servers {
            if let Some(value) = figures.lag {
                lag.sample(&[name, server], value.as_secs_f64());
            }
        }
    }
    let mut age = family(page, POSITION_AGE);
    for Cluster { name, view, status, .. } in clusters {
        let positions = status.published().positions.load();
        for server in view.servers.iter() {
            if let Some(position) = positions.of(server.id) {
                age.sample(&[name, &server.name], position.asked.elapsed().as_secs_f64());
            }
        }
    }
    let mut accounts = family(page, ACCOUNTS);
    for Cluster { name, status, .. } in clusters {
        accounts.sample(&[name], status.published().accounts.load().accounts.len());
    }
    let mut readable = family(page, ACCOUNTS_READABLE);
    for Cluster { name, status, .. } in clusters {
        readable.sample(&[name], u8::from(status.published().accounts.load().readable));
    }
}

fn monitors(page: &mut Page, clusters: &[Cluster<'_>]) {
    let mut probes = family(page, PROBES);
    for Cluster { name, figures, .. } in clusters {
        figures.servers.iter().for_each(|(server, own)| probes.sample(&[name, server], own.probes));
    }
    let mut failures = family(page, PROBE_FAILURES);
    for Cluster { name, figures, .. } in clusters {
        for (server, own) in &figures.servers {
            own.failures.iter().for_each(|(class, count)| failures.sample(&[name, server, class], count));
        }
    }
    let mut time = family(page, PROBE_TIME);
    for Cluster { name, figures, .. } in clusters {
        for (server, own) in &figures.servers {
            if let Some(duration) = own.probe_time {
                time.sample(&[name, server], duration.as_secs_f64());
            }
        }
    }
    let mut each = |metric: Metric, count: fn(&Figures) -> u64| {
        let mut family = family(page, metric);
        clusters.iter().for_each(|of| family.sample(&[of.name], count(&of.figures)));
    };
    each(ACCOUNTS_FAILURES, |figures| figures.accounts_failures);
    each(CATALOG_FAILURES, |figures| figures.catalog_failures);
    each(HEARTBEATS, |figures| figures.heartbeat_writes);
    each(HEARTBEAT_FAILURES, |figures| figures.heartbeat_failures);
}

//! The figures of the demo: differences between two looks at the workers' counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::published::Published;
use facts::view::{Health, Role};
use stats::{ServerStats, Snapshot, WorkerStats, Workers};

/// Figures of one moment, with rates since the look before.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    /// Since the demo started.
    pub(super) elapsed: Duration,
    /// In the order of the view.
    pub(super) servers: Vec<ServerFigures>,
    /// Client sessions.
    pub(super) sessions: i64,
    /// Requests of clients, for each second.
    pub(super) queries_rate: f64,
    /// Errors that Sqluice itself sent to clients.
    pub(super) own_errors: u64,
    /// Reads that were tried again on another server.
    pub(super) retries: u64,
    /// Pinned sessions by reason, without those that are 0.
    pub(super) pins: Vec<(&'static str, i64)>,
    /// How often sessions became pinned, by reason, without those that are 0.
    pub(super) pinned: Vec<(&'static str, u64)>,
}

/// One server's figures.
#[derive(Clone, Debug)]
pub(super) struct ServerFigures {
    pub(super) name: Arc<str>,
    pub(super) role: Role,
    pub(super) health: Health,
    pub(super) lag: Option<Duration>,
    pub(super) reads_rate: f64,
    pub(super) writes_rate: f64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) used: i64,
    pub(super) idle: i64,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
}

/// One server's counts of all workers.
#[derive(Clone, Default)]
struct Sum {
    reads: u64,
    writes: u64,
    retries: u64,
    used: i64,
    idle: i64,
    latency: Snapshot,
}

impl Sum {
    fn add(&mut self, stats: &ServerStats) {
        self.reads += stats.reads.get();
        self.writes += stats.writes.get();
        self.retries += stats.retries.get();
        self.used += stats.used.get();
        self.idle += stats.idle.get();
        self.latency.merge(&stats.latency_us.snapshot());
    }
}

/// Looks at the counts again and again.
pub(super) struct Sampler {
    workers: Workers,
    published: Arc<Published>,
    started: Instant,
    before: Instant,
    requests: u64,
    servers: BTreeMap<Arc<str>, Sum>,
}

impl Sampler {
    /// Looks at these workers and this cluster.
    pub(super) fn new(workers: Workers, published: Arc<Published>) -> Sampler {
        let now = Instant::now();
        let mut sampler =
            Sampler { workers, published, started: now, before: now, requests: 0, servers: BTreeMap::new() };
        // Counts from before this moment belong to no rate.
        sampler.requests = sampler.sum(|worker| worker.requests.get());
        sampler.servers = sampler.server_sums();
        sampler
    }

    fn sum(&self, pick: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(|worker| pick(worker)).sum()
    }

    fn server_sums(&self) -> BTreeMap<Arc<str>, Sum> {
        let mut sums: BTreeMap<Arc<str>, Sum> = BTreeMap::new();
        for entry in self.workers.iter().flat_map(|worker| worker.servers()) {
            sums.entry(entry.server).or_default().add(&entry.stats);
        }
        sums
    }

    /// Figures of now.
    pub(super) fn sample(&mut self) -> Figures {
        let now = Instant::now();
        let seconds = now.duration_since(self.before).as_secs_f64().max(0.001);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let sums = self.server_sums();
        let view = self.published.view.load();
        let nothing = Sum::default();
        let servers = view.servers.iter().map(|server| {
            let sum = sums.get(&server.name).unwrap_or(&nothing);
            let before = self.servers.get(&server.name).unwrap_or(&nothing);
            let latency = sum.latency.since(&before.latency);
            ServerFigures {
                name: server.name.clone(),
                role: server.role,
                health: server.health,
                lag: server.lag,
                reads_rate: rate(sum.reads, before.reads),
                writes_rate: rate(sum.writes, before.writes),
                reads: sum.reads,
                writes: sum.writes,
                used: sum.used,
                idle: sum.idle,
                p50_us: latency.quantile(0.5),
                p99_us: latency.quantile(0.99),
            }
        });
        let requests = self.sum(|worker| worker.requests.get());
        let figures = Figures {
            elapsed: now.duration_since(self.started),
            servers: servers.collect(),
            sessions: self.workers.iter().map(|worker| worker.sessions.get()).sum(),
            queries_rate: rate(requests, self.requests),
            own_errors: self.sum(|worker| worker.own_errors.get()),
            retries: sums.values().map(|sum| sum.retries).sum(),
            pins: self.by_reason(|worker| worker.pins.iter().map(|(reason, gauge)| (reason, gauge.get())).collect()),
            pinned: self.by_reason(|worker| worker.pinned.iter().map(|(reason, n)| (reason, n.get())).collect()),
        };
        (self.before, self.requests, self.servers) = (now, requests, sums);
        figures
    }

    fn by_reason<T: Copy + Default + PartialEq + std::ops::AddAssign>(
        &self,
        pick: impl Fn(&WorkerStats) -> Vec<(&'static str, T)>,
    ) -> Vec<(&'static str, T)> {
        let mut sums: Vec<(&'static str, T)> = Vec::new();
        for (reason, value) in self.workers.iter().flat_map(|worker| pick(worker)) {
            match sums.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sum)) => *sum += value,
                None => sums.push((reason, value)),
            }
        }
        sums.retain(|(_, sum)| *sum != T::default());
        sums
    }
}

#[cfg(test)]
mod tests {
    use facts::view::{ServerId, ServerView, View};

    use super::*;

    fn cluster() -> Arc<Published> {
        let published = Published::new("demo");
        let server = ServerView {
            id: ServerId(0),
            name: "db1".into(),
            address: "h:1".into(),
            resolved: None,
            role: Role::Primary,
            health: Health::Up,
            lag: None,
            serves_reads: true,
            fenced: false,
            weight: 100,
            zone: "".into(),
            reason: "".into(),
        };
        published.publish_view(View { servers: [server].into(), ..View::empty("demo") });
        Arc::new(published)
    }

    #[test]
    fn workers_add_up_and_only_the_last_interval_is_a_rate() {
        let workers: Workers = (0..2).map(|_| Arc::new(WorkerStats::new(&["transaction", "handler"], &[]))).collect();
        let server = |worker: usize| workers[worker].server(&"demo".into(), &"db1".into());
        server(0).reads.add(1000);
        server(0).latency_us.record(50_000);
        let mut sampler = Sampler::new(workers.clone(), cluster());
        server(0).reads.add(10);
        server(1).reads.add(20);
        server(1).latency_us.record(100);
        server(1).used.add(3);
        workers[0].requests.add(40);
        workers[0].pins.at(0).unwrap().add(1);
        workers[1].pins.at(0).unwrap().add(2);
        sampler.before -= Duration::from_secs(10);
        let figures = sampler.sample();
        let db1 = &figures.servers[0];
        assert_eq!((db1.reads, db1.used), (1030, 3));
        assert!((2.9..=3.0).contains(&db1.reads_rate), "{}", db1.reads_rate);
        assert!((3.9..=4.0).contains(&figures.queries_rate), "{}", figures.queries_rate);
        assert!(db1.p99_us.unwrap() < 200, "the interval before counts no more");
        assert_eq!(figures.pins, [("transaction", 3)]);
        assert_eq!(sampler.sample().servers[0].p50_us, None);
    }
}

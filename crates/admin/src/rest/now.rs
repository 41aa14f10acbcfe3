//! `/api/v1/now`: the counters of this moment in one reply, for whoever looks every second. No worker is asked: all of it is
//! read from memory that they write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use events::Events;
use serde_json::{Map, Value, json};
use stats::{Counter, Gauge, Labelled, ServerStats, Snapshot, WorkerStats};

use super::cache::counts as cache_counts;
use super::clusters::primary;
use super::digests::{json_page, unix_ms};
use crate::shared::Shared;
use crate::status::ClusterStatus;
use crate::threads::worker_cpu_ns;

/// Upper bounds of the buckets of latencies, in microseconds.
const LATENCY_BOUNDS_US: [u64; 22] = [
    50, 100, 150, 200, 300, 400, 600, 800, 1_000, 1_500, 2_500, 4_000, 6_000, 10_000, 15_000, 25_000, 50_000, 100_000,
    250_000, 1_000_000, 5_000_000, 30_000_000,
];

/// GET: counters since the start, and gauges.
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Response {
    json_page(&page(&shared))
}

fn page(shared: &Shared) -> Value {
    let workers = &shared.workers;
    let sum = |pick: fn(&WorkerStats) -> &Counter| workers.iter().map(|worker| pick(worker).get()).sum::<u64>();
    let now = |pick: fn(&WorkerStats) -> &Gauge| workers.iter().map(|worker| pick(worker).get()).sum::<i64>();
    let events = shared.events.as_deref();
    let event = |pick: fn(&Events) -> u64| events.map_or(0, pick);
    json!({
        "at_ms": unix_ms(SystemTime::now()),
        "started_ms": unix_ms(shared.started),
        "version": env!("CARGO_PKG_VERSION"),
        "draining": shared.draining.load(std::sync::atomic::Ordering::Relaxed),
        "sessions": now(|worker| &worker.sessions),
        "logins": sum(|worker| &worker.logins),
        "login_failures": sum(|worker| &worker.login_failures),
        "refused_clients": by_word(workers, |worker| &worker.refused_clients, |counter| counter.get() as i64),
        "requests": sum(|worker| &worker.requests),
        "local": sum(|worker| &worker.local_answers),
        "own_errors": sum(|worker| &worker.own_errors),
        "routes": by_word(workers, |worker| &worker.routes, |counter| counter.get() as i64),
        "pins": by_word(workers, |worker| &worker.pins, Gauge::get),
        "waits": {
            "waiting": now(|worker| &worker.waiting),
            "waited": sum(|worker| &worker.waited),
            "wait_timeouts": sum(|worker| &worker.wait_timeouts),
            "holding": now(|worker| &worker.holding),
            "held": sum(|worker| &worker.held),
            "hold_timeouts": sum(|worker| &worker.hold_timeouts),
            "replica_waits": sum(|worker| &worker.replica_waits),
            "replica_wait_timeouts": sum(|worker| &worker.replica_wait_timeouts),
        },
        "in_doubt": sum(|worker| &worker.in_doubt),
        "cache": cache(shared),
        "events": { "queries": event(Events::queries), "logins": event(Events::logins), "lost": event(Events::lost) },
        "latency_bounds_us": LATENCY_BOUNDS_US,
        "servers": servers(workers),
        "clusters": shared.clusters().values().map(|status| cluster(&**status)).collect::<Vec<_>>(),
        "workers": each_worker(workers),
    })
}

fn by_word<T: Default + 'static>(
    workers: &[Arc<WorkerStats>],
    pick: fn(&WorkerStats) -> &Labelled<T>,
    read: fn(&T) -> i64,
) -> Value {
    let mut sums: BTreeMap<&'static str, i64> = BTreeMap::new();
    for (word, value) in workers.iter().flat_map(|worker| pick(worker).iter()) {
        *sums.entry(word).or_default() += read(value);
    }
    let sums: Map<String, Value> =
        sums.into_iter().filter(|(_, sum)| *sum != 0).map(|(word, sum)| (word.to_owned(), sum.into())).collect();
    Value::Object(sums)
}

fn cache(shared: &Shared) -> Value {
    let size = shared.cache.as_ref().map(|cache| cache.store.size()).unwrap_or_default();
    let (mut hits, mut misses, mut saved_us) = (0, 0, 0);
    for counts in cache_counts(&shared.workers).values() {
        hits += counts.hits.get();
        misses += counts.misses.get();
        saved_us += counts.saved_us.get();
    }
    json!({ "answers": size.entries, "bytes": size.bytes, "hits": hits, "misses": misses, "saved_us": saved_us })
}

/// One server's counts of all workers.
#[derive(Default)]
struct ServerSum {
    stats: Vec<Arc<ServerStats>>,
}

impl ServerSum {
    fn shown(&self, cluster: &str, server: &str) -> Value {
        let counter =
            |pick: fn(&ServerStats) -> &Counter| self.stats.iter().map(|stats| pick(stats).get()).sum::<u64>();
        let gauge = |pick: fn(&ServerStats) -> &Gauge| self.stats.iter().map(|stats| pick(stats).get()).sum::<i64>();
        let mut latency = Snapshot::default();
        self.stats.iter().for_each(|stats| latency.merge(&stats.latency_us.snapshot()));
        json!({
            "cluster": cluster,
            "server": server,
            "reads": counter(|stats| &stats.reads),
            "writes": counter(|stats| &stats.writes),
            "errors": counter(|stats| &stats.errors),
            "retries": counter(|stats| &stats.retries),
            "opened": counter(|stats| &stats.opened),
            "open_failures": counter(|stats| &stats.open_failures),
            "closed": counter(|stats| &stats.closed),
            "used": gauge(|stats| &stats.used),
            "idle": gauge(|stats| &stats.idle),
            "time_us": latency.sum(),
            "timed": latency.count(),
            // How many took at most each bound.
            "latency": LATENCY_BOUNDS_US.map(|bound| latency.count_at_most(bound)),
        })
    }
}

fn servers(workers: &[Arc<WorkerStats>]) -> Vec<Value> {
    let mut sums: BTreeMap<(Arc<str>, Arc<str>), ServerSum> = BTreeMap::new();
    for entry in workers.iter().flat_map(|worker| worker.servers()) {
        sums.entry((entry.cluster, entry.server)).or_default().stats.push(entry.stats);
    }
    sums.iter().map(|((cluster, server), sum)| sum.shown(cluster, server)).collect()
}

fn cluster(status: &dyn ClusterStatus) -> Value {
    let view = status.published().view.load_full();
    let figures = status.figures();
    let lag = |name: &str| figures.servers.get(name).and_then(|figures| figures.lag);
    let server = |server: &facts::view::ServerView| {
        json!({
            "name": &*server.name,
            "role": server.role.word(),
            "health": server.health.word(),
            "serves_reads": server.serves_reads,
            "lag_ms": lag(&server.name).or(server.lag).map(|lag| lag.as_millis() as u64),
            "reason": &*server.reason,
        })
    };
    let diagnoses = figures.diagnoses.iter().map(|of| json!({ "name": of.name, "severe": of.severe, "text": of.text }));
    json!({
        "name": &**status.name(),
        "view": view.number,
        "primary": primary(status),
        "hold_writes": view.hold_writes,
        "servers": view.servers.iter().map(server).collect::<Vec<_>>(),
        "diagnoses": diagnoses.collect::<Vec<_>>(),
    })
}

/// Sessions that a worker has given to others, for any reason.
fn given(worker: &WorkerStats) -> u64 {
    worker.sessions_given.iter().map(|(_, count)| count.get()).sum()
}

fn each_worker(workers: &[Arc<WorkerStats>]) -> Vec<Value> {
    let cpu_ns = worker_cpu_ns();
    let one = |(number, worker): (usize, &Arc<WorkerStats>)| {
        let (mut used, mut idle) = (0, 0);
        for entry in worker.servers() {
            used += entry.stats.used.get();
            idle += entry.stats.idle.get();
        }
        json!({
            "worker": number,
            "cpu_us": cpu_ns.get(&number).map(|ns| ns / 1_000),
            "busy": worker.busy_permille.get() as f64 / 1000.0,
            "sessions": worker.sessions.get(),
            "sessions_given": given(worker),
            "sessions_taken": worker.sessions_taken.get(),
            "requests": worker.requests.get(),
            "accepted": worker.accepted.get(),
            "waiting": worker.waiting.get(),
            "holding": worker.holding.get(),
            "moved": worker.moved.get(),
            "used": used,
            "idle": idle,
            "digests": worker.digests.get(),
        })
    };
    workers.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, sources};

    #[test]
    fn counters_of_all_workers_are_added_and_each_worker_has_its_own() {
        let workers: stats::Workers = (0..2).map(|_| Arc::new(WorkerStats::new(&["lock"], &["write"]))).collect();
        for worker in workers.iter() {
            worker.requests.add(3);
            worker.sessions.add(1);
            let server = worker.server(&"main".into(), &"db1".into());
            server.reads.add(2);
            server.latency_us.record(70);
            server.latency_us.record(900);
        }
        workers[1].routes.at(0).unwrap().add(4);
        let page = page(&Shared::new(&config(""), sources(workers)));
        assert_eq!(
            (&page["requests"], &page["sessions"], &page["routes"]),
            (&json!(6), &json!(2), &json!({"write": 4}))
        );
        let server = &page["servers"][0];
        assert_eq!((&server["server"], &server["reads"], &server["timed"]), (&json!("db1"), &json!(4), &json!(4)));
        let latency: Vec<u64> = server["latency"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!((latency[0], latency[1], latency[LATENCY_BOUNDS_US.len() - 1]), (0, 2, 4));
        assert_eq!((&page["workers"][1]["requests"], &page["pins"]), (&json!(3), &json!({})));
    }
}

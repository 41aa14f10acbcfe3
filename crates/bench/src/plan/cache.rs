//! The load `cache`: reads without a result cache and with one.

use std::time::Duration;

use super::{Cold, Options, Point, Work, connections};
use crate::contender::CACHE_TTL_MS;
use crate::contender::{Cache, Kind};
use crate::generate::{self, Query};
use crate::sysbench::{self, Protocol};

/// sysbench's tables.
pub(super) const TABLES: u32 = 64;
/// Megabytes that the server has for them: all fit.
pub(super) const BUFFER_MB: u32 = 512;
/// Numbers of connections of sysbench's reads.
const CONNECTIONS: [u32; 5] = [1, 16, 64, 256, 1024];
const QUICK_CONNECTIONS: [u32; 2] = [16, 64];
/// Clients that ask costly queries.
const COSTLY_CLIENTS: u32 = 16;
/// Clients that ask for the same few rows.
const HIT_CLIENTS: u32 = 64;
/// Until caches know the answers of the bench's own clients.
const WARM_UP: Duration = Duration::from_secs(2);
/// Seconds of a slice of sysbench's warm-up, and the most of all slices.
const COLD_SECONDS: u32 = 10;
const COLD_SECONDS_MAX: u32 = 240;
/// A warm-up goes on while a slice raises the share of hits by more than so many percent of all queries.
const RISE_POINTS: f64 = 0.3;
const QUICK_COLD_SECONDS_MAX: u32 = 10;

/// The contenders: the server alone, HAProxy, those with a cache without it and with it, and the ceiling.
pub(super) fn contenders(all: &[Kind]) -> Vec<Kind> {
    let plain = all.iter().filter(|kind| matches!(kind, Kind::Direct | Kind::HaProxy) || kind.has_cache());
    let with_cache = |kind: &Kind| {
        let caches: &[Cache] = match kind {
            Kind::Sqluice(_) => &[Cache::Ttl, Cache::Follow, Cache::Tier],
            kind if kind.has_cache() => &[Cache::Ttl],
            _ => &[],
        };
        let cached = caches.iter().map(|cache| Kind::Cached(Box::new(kind.clone()), *cache));
        std::iter::once(kind.clone()).chain(cached).collect::<Vec<Kind>>()
    };
    plain.flat_map(with_cache).chain([Kind::Fixed]).collect()
}

/// The points of all three parts, or of those that are wanted.
pub(super) fn points(options: &Options, seconds: u32) -> Vec<Point> {
    let usual: &[u32] = if options.quick { &QUICK_CONNECTIONS } else { &CONNECTIONS };
    let reads = |connections: u32, seconds: u32| sysbench::Work {
        script: "oltp_read_only",
        protocol: options.protocols.first().copied().unwrap_or(Protocol::Text),
        connections,
        seconds,
        skip_transactions: true,
        tables: TABLES,
        favours_rows: true,
    };
    let own = |clients: u32, query: Query| Work::Generate(generate::Work::steady(clients, query, WARM_UP, seconds));
    let point = |group: &str, clients: u32, work: Work| Point {
        group: group.to_owned(),
        label: clients.to_string(),
        tls: false,
        cold: None,
        work,
    };
    let (most, rise) = (cold_seconds_max(options), rise(options));
    let mut points: Vec<Point> = connections(options, usual)
        .iter()
        .map(|connections| {
            let cold = (most > 0).then(|| Cold { work: reads(*connections, COLD_SECONDS), seconds_max: most, rise });
            Point { cold, ..point("reads", *connections, Work::Sysbench(reads(*connections, seconds))) }
        })
        .collect();
    points.push(point("costly", COSTLY_CLIENTS, own(COSTLY_CLIENTS, Query::Costly)));
    points.push(point("hits", HIT_CLIENTS, own(HIT_CLIENTS, Query::Hot)));
    points.retain(|point| options.parts.is_empty() || options.parts.contains(&point.group));
    points
}

/// How it is done, beside the commands.
pub(super) fn notes(options: &Options) -> Vec<String> {
    let mut notes = vec![
        format!("Caches may give answers for {} s.", CACHE_TTL_MS / 1000),
        "`hits` is the share of statements that reached no server: what the server has counted (`Com_select`) is missing in it.".to_owned(),
    ];
    let (most, rise) = (cold_seconds_max(options), rise(options));
    if most > 0 {
        let first = most.min(COLD_SECONDS);
        notes.push(format!(
            "`reads`: each contender begins anew, empty, at each number of connections. Before the rounds it is asked for {first} s, and \
             again for as long as that raises its share of hits by more than {rise} percent of all queries, {most} s at most: the \
             same rule for all. `warm-up s` is how long that took, `warm-up hits %` the share in the last of these slices. \
             `reads, cold` are the figures of the first {first} s."
        ));
    }
    notes
}

fn rise(options: &Options) -> f64 {
    options.warm_up_rise.unwrap_or(RISE_POINTS)
}

fn cold_seconds_max(options: &Options) -> u32 {
    options.warm_up_max_s.unwrap_or(if options.quick { QUICK_COLD_SECONDS_MAX } else { COLD_SECONDS_MAX })
}

//! The load `cache`: reads without a result cache and with one.

use std::time::Duration;

use super::{Options, Point, Work, connections};
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
/// Until caches know the answers.
const WARM_UP: Duration = Duration::from_secs(2);

/// Who takes part: the server alone, HAProxy, those with a cache without it and with it, and the ceiling.
pub(super) fn contenders(all: &[Kind]) -> Vec<Kind> {
    let plain = all.iter().filter(|kind| matches!(kind, Kind::Direct | Kind::HaProxy) || kind.has_cache());
    let with_cache = |kind: &Kind| {
        let caches: &[Cache] = match kind {
            Kind::Sqluice(_) => &[Cache::Ttl, Cache::Follow],
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
    let reads = |connections: &u32| {
        Work::Sysbench(sysbench::Work {
            script: "oltp_read_only",
            protocol: options.protocols.first().copied().unwrap_or(Protocol::Text),
            connections: *connections,
            seconds,
            skip_transactions: true,
            tables: TABLES,
            favours_rows: true,
        })
    };
    let own = |clients: u32, query: Query| {
        Work::Generate(generate::Work {
            clients,
            threads: 1,
            warm_up: WARM_UP,
            measured: Duration::from_secs(seconds.into()),
            query,
            reconnect: false,
            tls: false,
        })
    };
    let point = |group: &str, clients: u32, work: Work| Point {
        group: group.to_owned(),
        label: clients.to_string(),
        tls: false,
        work,
    };
    let mut points: Vec<Point> = connections(options, usual)
        .iter()
        .map(|connections| point("reads", *connections, reads(connections)))
        .collect();
    points.push(point("costly", COSTLY_CLIENTS, own(COSTLY_CLIENTS, Query::Costly)));
    points.push(point("hits", HIT_CLIENTS, own(HIT_CLIENTS, Query::Hot)));
    points.retain(|point| options.parts.is_empty() || options.parts.contains(&point.group));
    points
}

//! The points of each load.

mod cache;
mod crowd;
mod shared;
mod watched;

use std::time::Duration;

use anyhow::bail;
use lab::Family;

use crate::contender::Kind;
use crate::generate::{self, Query};
use crate::load::Load;
use crate::slap;
use crate::sysbench::{self, Protocol};
use crate::world::Needs;

/// The options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) rounds: Option<u32>,
    pub(crate) seconds: Option<u32>,
    pub(crate) connections: Vec<u32>,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) workers: usize,
    pub(crate) replicas: usize,
    /// The family of the servers.
    pub(crate) family: Family,
    pub(crate) quick: bool,
    /// The load is one of all: more points, both protocols.
    pub(crate) all: bool,
    /// Open files that a process may have.
    pub(crate) files: u64,
    pub(crate) contenders: Vec<Kind>,
    /// Only these groups of a load; all if there are none.
    pub(crate) parts: Vec<String>,
    /// Most seconds for which caches are warmed up.
    pub(crate) warm_up_max_s: Option<u32>,
    /// In percent of all queries.
    pub(crate) warm_up_rise: Option<f64>,
}

/// One point of a load: all contenders take turns at it.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) group: String,
    pub(crate) label: String,
    /// Clients speak TLS, and proxies with the server.
    pub(crate) tls: bool,
    /// How contenders that were just started are warmed up before all rounds.
    pub(crate) cold: Option<Cold>,
    pub(crate) work: Work,
}

/// A warm-up in slices: the first of them has a table of its own.
#[derive(Clone, Debug)]
pub(crate) struct Cold {
    /// A slice.
    pub(crate) work: sysbench::Work,
    /// Most seconds of all slices; fewer if the share of hits is steady before.
    pub(crate) seconds_max: u32,
    /// It is steady when a slice raises it by no more than so many percent of all queries.
    pub(crate) rise: f64,
}

/// The work at a point.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Sysbench(sysbench::Work),
    Slap(slap::Work),
    Generate(generate::Work),
    /// Many clients; without a proxy only as many as there are connections to the server.
    Crowd {
        crowd: generate::Work,
        direct_clients: u32,
    },
    /// Clients that wait, each time before a proxy that was just started.
    Idle(generate::Work),
}

/// A load with all that it needs.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) points: Vec<Point>,
    pub(crate) rounds: u32,
    pub(crate) seconds: u32,
    pub(crate) needs: Needs,
    /// sysbench's tables.
    pub(crate) tables: u32,
    /// Most connections to one server for proxies that share them.
    pub(crate) server_connections: Option<u32>,
    pub(crate) contenders: Vec<Kind>,
    /// The server is asked how many reads it ran.
    pub(crate) counts_reads: bool,
    /// How it is done, for the report.
    pub(crate) notes: Vec<String>,
}

/// Rounds and seconds that are enough to see a few percent, on a machine that does nothing else.
const ROUNDS: u32 = 5;
const SECONDS: u32 = 5;
/// Enough to see that all works, and a large difference.
const QUICK_ROUNDS: u32 = 3;
const QUICK_SECONDS: u32 = 2;
/// The load `cache` has many points.
const CACHE_SECONDS: u32 = 4;
/// Connections of the announcement of the first ProxySQL.
const THREADS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const QUICK_THREADS: [u32; 3] = [1, 16, 128];
/// mysqlslap is told a number of queries, not a time: so many for each second.
const SLAP_QUERIES: u32 = 15_000;
/// How many rules contenders have in the load `rules`, beside none.
const RULES: [u32; 2] = [10, 1_000];
/// The memory that servers have for the data of sysbench, which takes less.
const BUFFER_MB: u32 = 256;
/// Not measured, before the others.
const WARM_UP: Duration = Duration::from_millis(300);

/// Makes the plan of a load.
///
/// # Errors
/// The system does not allow what it needs.
pub(crate) fn plan(load: Load, options: &Options) -> anyhow::Result<Plan> {
    let (rounds, seconds) = if options.quick { (QUICK_ROUNDS, QUICK_SECONDS) } else { (ROUNDS, SECONDS) };
    let (mut rounds, seconds) = (options.rounds.unwrap_or(rounds), options.seconds.unwrap_or(seconds));
    let mut contenders = options.contenders.clone();
    let mut server_connections = None;
    let mut notes = Vec::new();
    let points = match load {
        Load::Tail => {
            server_connections = Some(crowd::TAIL_CONNECTIONS);
            contenders.retain(|kind| *kind == Kind::Direct || kind.multiplexes());
            notes.extend(left_out(&options.contenders, &contenders, "cannot share connections to this server"));
            vec![crowd::tail(options, seconds)?]
        }
        Load::Idle => {
            server_connections = Some(crowd::IDLE_CONNECTIONS);
            contenders.retain(|kind| *kind != Kind::Direct);
            // Memory does not differ from round to round as times do.
            rounds = options.rounds.unwrap_or(1);
            let (points, note) = crowd::idle(options);
            notes.push(note);
            points
        }
        Load::Rules => {
            contenders.retain(|kind| *kind == Kind::Direct || kind.has_rules());
            notes.extend(left_out(&options.contenders, &contenders, "has no such rules"));
            contenders = contenders.into_iter().flat_map(with_rules).collect();
            sysbench_points(load, options, seconds)
        }
        Load::Cache => {
            contenders = cache::contenders(&options.contenders);
            notes.extend(left_out(&options.contenders, &contenders, "is given no result cache here"));
            notes.extend(cache::notes(options));
            rounds = options.rounds.unwrap_or(QUICK_ROUNDS);
            cache::points(options, options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { CACHE_SECONDS }))
        }
        Load::Mysqlslap => slap_points(options, seconds),
        Load::Latency | Load::Connect | Load::Tls | Load::Large => generated(load, options, seconds),
        Load::Pipelines => shared::pipelines(options, seconds),
        Load::Mix | Load::Pauses | Load::Watched => {
            server_connections = (load == Load::Pauses).then_some(shared::PAUSES_CONNECTIONS);
            contenders = shared::contenders(load, &options.contenders);
            notes.extend(left_out(&options.contenders, &contenders, "has nothing to show here"));
            shared::points(load, options, seconds)?
        }
        _ => sysbench_points(load, options, seconds),
    };
    if contenders.is_empty() {
        bail!("none of the contenders can do the load {}", load.name());
    }
    let most = points.iter().map(|point| point.work.server_connections(&contenders, options)).max().unwrap_or(1);
    notes.extend(points.iter().map(|point| point.work.shown()));
    notes.dedup();
    if points.iter().any(|point| point.tls) {
        let able: Vec<Kind> = contenders.iter().filter(|kind| kind.speaks_tls()).cloned().collect();
        notes.extend(left_out(&contenders, &able, "cannot speak TLS with this server"));
    }
    let needs = Needs {
        connections: most,
        tls: points.iter().any(|point| point.tls),
        family: options.family,
        large: matches!(load, Load::Large | Load::Mix),
        replicas: options.replicas,
        buffer_mb: if load == Load::Cache { cache::BUFFER_MB } else { BUFFER_MB },
    };
    let tables = if load == Load::Cache { cache::TABLES } else { sysbench::TABLES };
    let counts_reads = load == Load::Cache;
    Ok(Plan { points, rounds, seconds, needs, tables, server_connections, contenders, counts_reads, notes })
}

impl Work {
    /// Connections that the server must take.
    fn server_connections(&self, contenders: &[Kind], options: &Options) -> u64 {
        match self {
            Work::Sysbench(work) => work.connections.into(),
            Work::Slap(work) => work.clients.into(),
            Work::Generate(work) => work.clients.into(),
            Work::Crowd { direct_clients, .. } => (*direct_clients).into(),
            Work::Idle(work) => {
                let alone = contenders.iter().filter(|kind| !kind.multiplexes());
                let most = alone.map(|kind| kind.clients_max(options.files).min(work.clients.into())).max();
                most.unwrap_or(crowd::IDLE_CONNECTIONS.into())
            }
        }
    }

    /// Whether a contender can do it.
    pub(crate) fn suits(&self, kind: &Kind) -> bool {
        let is_for_fixed = matches!(self, Work::Generate(work) if work.query == Query::Hot);
        *kind != Kind::Fixed || is_for_fixed
    }

    /// How it is done, in a line.
    fn shown(&self) -> String {
        match self {
            Work::Sysbench(work) => format!("`{}`", work.shown()),
            Work::Slap(work) => format!("`{}`", work.shown()),
            Work::Generate(work) | Work::Crowd { crowd: work, .. } | Work::Idle(work) => {
                let threads =
                    if work.threads == 1 { "one thread".to_owned() } else { format!("{} threads", work.threads) };
                format!("The bench's own clients, on {threads}; {} ms are not measured.", work.warm_up.as_millis())
            }
        }
    }
}

fn sysbench_points(load: Load, options: &Options, seconds: u32) -> Vec<Point> {
    let script = match load {
        Load::ReadOnly => "oltp_read_only",
        Load::ReadWrite => "oltp_read_write",
        _ => "oltp_point_select",
    };
    let usual: &[u32] = match (load, options.all, options.quick) {
        (Load::Threads, ..) => threads(options),
        (Load::Point, true, false) => &[1, 16, 64, 256, 1024],
        (Load::Point, true, true) => &[1, 16, 64],
        (_, true, true) => &[64],
        _ => &[16, 64],
    };
    let point = |protocol: Protocol, connections: u32| Point {
        group: protocol.word().to_owned(),
        label: connections.to_string(),
        tls: false,
        cold: None,
        work: Work::Sysbench(sysbench::Work {
            script,
            protocol,
            connections,
            seconds,
            skip_transactions: load == Load::ReadOnly,
            tables: sysbench::TABLES,
            favours_rows: false,
        }),
    };
    let protocols = if load == Load::Threads { &[Protocol::Text][..] } else { &options.protocols };
    protocols
        .iter()
        .flat_map(|protocol| connections(options, usual).iter().map(move |connections| point(*protocol, *connections)))
        .collect()
}

fn slap_points(options: &Options, seconds: u32) -> Vec<Point> {
    let point = |clients: &u32| Point {
        group: "SELECT 1111".to_owned(),
        label: clients.to_string(),
        tls: false,
        cold: None,
        work: Work::Slap(slap::Work { clients: *clients, queries: seconds.saturating_mul(SLAP_QUERIES) }),
    };
    connections(options, threads(options)).iter().map(point).collect()
}

fn threads(options: &Options) -> &'static [u32] {
    if options.quick { &QUICK_THREADS } else { &THREADS }
}

fn generated(load: Load, options: &Options, seconds: u32) -> Vec<Point> {
    let usual: &[u32] = match load {
        Load::Latency => &[1],
        Load::Large => &[1, 8],
        Load::Connect => &[16],
        _ if options.quick => &[16],
        _ => &[16, 64],
    };
    let with_tls: &[bool] = if matches!(load, Load::Connect | Load::Tls) { &[false, true] } else { &[false] };
    let query = if load == Load::Large { Query::Large } else { Query::Point };
    let point = |tls: bool, clients: u32| Point {
        group: match (with_tls.len(), tls) {
            (1, _) => load.name().to_owned(),
            (_, true) => "TLS".to_owned(),
            (_, false) => "plain".to_owned(),
        },
        label: clients.to_string(),
        tls,
        cold: None,
        work: Work::Generate(generate::Work {
            reconnect: load == Load::Connect,
            tls,
            ..generate::Work::steady(clients, query, WARM_UP, seconds)
        }),
    };
    with_tls
        .iter()
        .flat_map(|tls| connections(options, usual).iter().map(move |clients| point(*tls, *clients)))
        .collect()
}

/// A contender without rules, and as others with some.
fn with_rules(kind: Kind) -> Vec<Kind> {
    let ruled = |rules: &u32| Kind::Ruled(Box::new(kind.clone()), *rules);
    let others: Vec<Kind> = if kind.has_rules() { RULES.iter().map(ruled).collect() } else { Vec::new() };
    std::iter::once(kind).chain(others).collect()
}

/// Says who does not take part, and why.
fn left_out(all: &[Kind], part: &[Kind], reason: &str) -> Vec<String> {
    all.iter()
        .filter(|kind| !part.contains(kind))
        .map(|kind| format!("Left out: {}, which {reason}.", kind.name()))
        .collect()
}

fn connections<'a>(options: &'a Options, usual: &'a [u32]) -> &'a [u32] {
    if options.connections.is_empty() { usual } else { &options.connections }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn options() -> Options {
        Options {
            rounds: None,
            seconds: None,
            connections: Vec::new(),
            protocols: vec![Protocol::Text],
            workers: 2,
            replicas: 0,
            family: Family::MariaDb,
            quick: false,
            all: false,
            files: 20_000,
            contenders: vec![Kind::Direct, Kind::HaProxy],
            parts: Vec::new(),
            warm_up_max_s: None,
            warm_up_rise: None,
        }
    }

    #[test]
    fn a_point_run_has_two_points_and_five_rounds() {
        let plan = plan(Load::Point, &options()).unwrap();
        let labels: Vec<&str> = plan.points.iter().map(|point| point.label.as_str()).collect();
        assert_eq!((labels, plan.rounds, plan.seconds), (vec!["16", "64"], 5, 5));
        assert_eq!(plan.needs.connections, 64);
        assert_eq!(plan.notes.len(), 1, "{:?}", plan.notes);
    }

    #[test]
    fn options_win() {
        let given = Options {
            rounds: Some(2),
            connections: vec![3],
            protocols: vec![Protocol::Text, Protocol::Prepared],
            ..options()
        };
        let plan = plan(Load::ReadOnly, &given).unwrap();
        assert_eq!((plan.points.len(), plan.rounds), (2, 2));
        assert!(plan.notes.iter().all(|note| note.contains("--skip-trx")), "{:?}", plan.notes);
    }

    #[test]
    fn rules_make_more_contenders() {
        let proxysql = Kind::ProxySql("/proxysql".into());
        let given = Options { contenders: vec![Kind::Direct, Kind::HaProxy, proxysql], ..options() };
        let plan = plan(Load::Rules, &given).unwrap();
        let names: Vec<String> = plan.contenders.iter().map(Kind::name).collect();
        assert_eq!(names, ["direct", "proxysql", "proxysql 10 rules", "proxysql 1000 rules"]);
        assert_eq!(plan.points.len(), 2);
        assert!(plan.notes.iter().any(|note| note.contains("haproxy")), "{:?}", plan.notes);
        assert!(plan.contenders[3].multiplexes() && plan.contenders[3].speaks_tls());
    }
}

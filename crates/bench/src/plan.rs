//! What each load consists of.

mod cache;

use std::time::Duration;

use anyhow::bail;

use crate::contender::Kind;
use crate::generate::{self, Query};
use crate::load::Load;
use crate::slap;
use crate::sysbench::{self, Protocol};
use crate::world::Needs;

/// What the command line says.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) rounds: Option<u32>,
    pub(crate) seconds: Option<u32>,
    pub(crate) connections: Vec<u32>,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) workers: usize,
    pub(crate) replicas: usize,
    pub(crate) quick: bool,
    /// The load is one of all: more points, both protocols.
    pub(crate) all: bool,
    /// Open files that a process may have.
    pub(crate) files: u64,
    pub(crate) contenders: Vec<Kind>,
    /// Only these groups of a load; all if there are none.
    pub(crate) parts: Vec<String>,
}

/// One point of a load: all contenders take turns at it.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) group: String,
    pub(crate) label: String,
    /// Clients speak TLS, and proxies with the server.
    pub(crate) tls: bool,
    pub(crate) work: Work,
}

/// What is done at a point.
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
/// The load `tail`.
const TAIL_CLIENTS: u32 = 10_000;
const TAIL_CONNECTIONS: u32 = 40;
/// Until all of them have their place in the queue.
const TAIL_WARM_UP: Duration = Duration::from_secs(3);
/// The load `idle`.
const IDLE_CLIENTS: u32 = 20_000;
const QUICK_IDLE_CLIENTS: u32 = 4_000;
/// Connections to the server with idle clients, for proxies that share them.
const IDLE_CONNECTIONS: u32 = 100;
/// How many rules contenders have in the load `rules`, beside none.
const RULES: [u32; 2] = [10, 1_000];
/// What servers have for the data of sysbench, which takes less.
const BUFFER_MB: u32 = 256;
/// Files that a process needs beside its clients.
pub(crate) const OTHER_FILES: u64 = 300;
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
            server_connections = Some(TAIL_CONNECTIONS);
            contenders.retain(|kind| *kind == Kind::Direct || kind.multiplexes());
            notes.extend(left_out(&options.contenders, &contenders, "cannot share connections to this server"));
            vec![tail(options, seconds)?]
        }
        Load::Idle => {
            server_connections = Some(IDLE_CONNECTIONS);
            contenders.retain(|kind| *kind != Kind::Direct);
            // Memory does not differ from round to round as times do.
            rounds = options.rounds.unwrap_or(1);
            let (points, note) = idle(options);
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
            rounds = options.rounds.unwrap_or(QUICK_ROUNDS);
            cache::points(options, options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { CACHE_SECONDS }))
        }
        Load::Mysqlslap => slap_points(options, seconds),
        Load::Latency | Load::Connect | Load::Tls | Load::Large => generated(load, options, seconds),
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
        large: load == Load::Large,
        replicas: options.replicas,
        buffer_mb: if load == Load::Cache { cache::BUFFER_MB } else { BUFFER_MB },
    };
    let tables = if load == Load::Cache { cache::TABLES } else { sysbench::TABLES };
    Ok(Plan { points, rounds, seconds, needs, tables, server_connections, contenders, notes })
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
                most.unwrap_or(IDLE_CONNECTIONS.into())
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
        work: Work::Generate(generate::Work {
            clients,
            threads: 1,
            warm_up: WARM_UP,
            measured: Duration::from_secs(seconds.into()),
            query,
            reconnect: load == Load::Connect,
            tls,
        }),
    };
    with_tls
        .iter()
        .flat_map(|tls| connections(options, usual).iter().map(move |clients| point(*tls, *clients)))
        .collect()
}

fn tail(options: &Options, seconds: u32) -> anyhow::Result<Point> {
    let clients = connections(options, &[TAIL_CLIENTS]).first().copied().unwrap_or(TAIL_CLIENTS);
    let files = u64::from(clients) + OTHER_FILES;
    if options.files < files {
        bail!(
            "{clients} clients need {files} open files, and this system allows a process {}: raise the limit (ulimit -Hn, \
             LimitNOFILE of a systemd unit, /etc/security/limits.conf), or take fewer clients (--connections N)",
            options.files
        );
    }
    let crowd = generate::Work {
        clients,
        threads: 1,
        warm_up: TAIL_WARM_UP,
        measured: Duration::from_secs(seconds.into()),
        query: Query::Point,
        reconnect: false,
        tls: false,
    };
    Ok(Point {
        group: "text".to_owned(),
        label: format!("{clients} on {TAIL_CONNECTIONS}"),
        tls: false,
        work: Work::Crowd { crowd, direct_clients: TAIL_CONNECTIONS },
    })
}

/// As many clients as the system allows; gives a note about that.
fn idle(options: &Options) -> (Vec<Point>, String) {
    let usual = if options.quick { QUICK_IDLE_CLIENTS } else { IDLE_CLIENTS };
    let wanted = connections(options, &[usual]).first().copied().unwrap_or(usual);
    let allowed = u32::try_from(options.files.saturating_sub(OTHER_FILES)).unwrap_or(u32::MAX).max(1);
    let clients = wanted.min(allowed);
    let point = |tls: bool| {
        let (warm_up, measured) = (Duration::from_secs(1), Duration::ZERO);
        let (query, reconnect) = (Query::Point, false);
        let work = generate::Work { clients, threads: 2, warm_up, measured, query, reconnect, tls };
        let name = if tls { "TLS" } else { "plain" };
        Point { group: "idle".to_owned(), label: name.to_owned(), tls, work: Work::Idle(work) }
    };
    let note = format!(
        "A process may have {} open files here: {clients} clients of {wanted}; a proxy with a connection to the server for each has {}.",
        options.files,
        Kind::HaProxy.clients_max(options.files).min(clients.into())
    );
    (vec![point(false), point(true)], note)
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
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            rounds: None,
            seconds: None,
            connections: Vec::new(),
            protocols: vec![Protocol::Text],
            workers: 2,
            replicas: 0,
            quick: false,
            all: false,
            files: 20_000,
            contenders: vec![Kind::Direct, Kind::HaProxy],
            parts: Vec::new(),
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

    #[test]
    fn too_few_files_are_said_or_made_do_with() {
        let few = Options { files: 1024, ..options() };
        let error = super::plan(Load::Tail, &few).unwrap_err().to_string();
        assert!(error.contains("10300") && error.contains("1024") && error.contains("ulimit"), "{error}");
        let idle = super::plan(Load::Idle, &few).unwrap();
        assert!(idle.notes[0].contains("724 clients of 20000"), "{:?}", idle.notes);
        // Without a proxy there is no memory of a proxy.
        assert_eq!(idle.contenders, [Kind::HaProxy]);
        let alone = Options { contenders: vec![Kind::Direct], ..options() };
        assert!(super::plan(Load::Idle, &alone).is_err());
    }
}

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use facts::gtid::Applied;
use facts::gtid::mysql::GtidSet;
use facts::view::{ServerId, View};

use super::*;
use crate::health::readiness;
use crate::shared::Sources;
use crate::status::{ChangeFigures, Diagnosis, ServerFigures};
use crate::testing::{Known, OneCluster, config, result_cache, sources};

/// The content that a strict reader of the text format finds in a page: families in order, and series with their values.
struct Parsed {
    families: Vec<(String, String)>,
    series: BTreeMap<String, f64>,
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Splits `name{labels} value` and checks each part.
fn sample(line: &str) -> (&str, Vec<String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let Some((name, labels)) = series.split_once('{') else { return (series, vec![], value) };
    let mut rest = labels.strip_suffix('}').unwrap_or_else(|| panic!("no closing brace: {line}"));
    let mut names = vec![];
    while !rest.is_empty() {
        let (label, quoted) = rest.split_once("=\"").unwrap();
        assert!(is_name(label), "{line}");
        names.push(label.to_owned());
        let mut escaped = false;
        let end = quoted
            .char_indices()
            .find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            })
            .unwrap_or_else(|| panic!("no closing quote: {line}"));
        rest = &quoted[end.0 + 1..];
        assert!(rest.is_empty() || rest.starts_with(','), "{line}");
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (name, names, value)
}

fn parse(page: &str) -> Parsed {
    let mut parsed = Parsed { families: vec![], series: BTreeMap::new() };
    let mut help = None;
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            let (name, words) = text.split_once(' ').unwrap();
            assert!(!words.is_empty() && is_name(name), "{line}");
            help = Some(name.to_owned());
        } else if let Some(text) = line.strip_prefix("# TYPE ") {
            let (name, kind) = text.split_once(' ').unwrap();
            assert_eq!(help.take().as_deref(), Some(name), "TYPE follows HELP");
            assert!(parsed.families.iter().all(|(known, _)| known != name), "{name} twice");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            parsed.families.push((name.into(), kind.into()));
        } else {
            let (name, _, value) = sample(line);
            let (family, kind) = parsed.families.last().unwrap();
            let suffix = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{name} is not of {family}"));
            let fits =
                if kind == "histogram" { ["_bucket", "_sum", "_count"].contains(&suffix) } else { suffix.is_empty() };
            assert!(fits, "{line}");
            let (series, _) = line.rsplit_once(' ').unwrap();
            assert_eq!(parsed.series.insert(series.into(), value), None, "{series} twice");
        }
    }
    parsed
}

fn worker() -> Arc<WorkerStats> {
    Arc::new(WorkerStats::new(&["transaction", "temporary_table"], &["read", "write"]))
}

fn server(id: u16, name: &str, role: Role, health: Health) -> ServerView {
    ServerView {
        id: ServerId(id),
        name: name.into(),
        address: "".into(),
        resolved: None,
        role,
        health,
        lag: None,
        serves_reads: health == Health::Up,
        fenced: false,
        weight: 100,
        zone: "".into(),
        reason: "".into(),
    }
}

/// A cluster of two servers, one of which is down.
fn cluster() -> OneCluster {
    let mut cluster = OneCluster::new("main");
    let servers = [server(0, "db1", Role::Primary, Health::Up), server(1, "db2", Role::Replica, Health::Down)];
    cluster.published.publish_view(View {
        number: 7,
        primary: Some(ServerId(0)),
        servers: servers.into(),
        ..View::empty("main")
    });
    let applied = Applied::MySql(GtidSet::default());
    cluster.published.watch_grants();
    cluster.published.publish_position(ServerId(1), Some((applied, true)), Instant::now());
    let figures = &mut cluster.figures;
    figures.changes = Some(ChangeFigures { as_of: Some(Instant::now()), ..ChangeFigures::default() });
    figures.diagnoses = vec![Diagnosis { name: "replication_broken", severe: false, text: "of db2".into() }];
    figures.diagnosis_names = &["all_down", "replication_broken"];
    figures.runs = vec![("failover", [2, 1])];
    figures.steps = vec![("promote", [3, 0])];
    figures.lease_confirmations = vec![("held", 8)];
    let db2 = ServerFigures {
        lag: Some(Duration::from_millis(1500)),
        probes: 4,
        failures: vec![("refused", 0), ("timeout", 1)],
        probe_time: Some(Duration::from_millis(2)),
        report: None,
    };
    figures.servers.insert("db2".into(), db2);
    cluster
}

/// Two workers, one of their servers with a name that needs escaping.
fn workers() -> stats::Workers {
    let workers: stats::Workers = [worker(), worker()].into();
    for (index, worker) in workers.iter().enumerate() {
        worker.sessions.add(3);
        worker.pinned.at(1).unwrap().add(2);
        let stats = worker.server(&"main".into(), &"odd\"\\\nname".into());
        stats.reads.add(10 + index as u64);
        stats.idle.add(2);
        [90, 900, 9_000, 90_000_000].into_iter().for_each(|us| stats.latency_us.record(us));
        worker.rules.renew(&["first".into(), "off".into()])[0].add(5);
        let counts = worker.caches.of(&"first".into(), ::cache::Refusal::ALL.len());
        counts.saved_us.add(750_000);
        counts.refused[::cache::Refusal::TooLarge as usize].add(2);
    }
    workers
}

fn shared(cluster: Arc<OneCluster>) -> Shared {
    let rules = "[[rule]]\nname = \"first\"\nuser = \"bob\"\nroute = \"primary\"\n\
                 [[rule]]\nname = \"off\"\nenabled = false\nuser = \"bob\"\nroute = \"primary\"\n";
    let (status, cache) = (Known::one(cluster), Some(result_cache()));
    Shared::new(&config(rules), Sources { status, cache, ..sources(workers()) })
}

/// The page of this process.
fn page() -> String {
    render(&shared(Arc::new(cluster())))
}

#[test]
fn the_page_is_well_formed_and_has_every_metric_in_order() {
    let parsed = parse(&page());
    let names: Vec<&str> = parsed.families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>());
    for ((_, kind), metric) in parsed.families.iter().zip(METRICS) {
        assert_eq!(kind, metric.kind.word(), "{}", metric.name);
        assert!(parsed.series.keys().any(|series| series.starts_with(metric.name)), "no sample of {}", metric.name);
    }
}

#[test]
fn labels_are_those_that_are_declared() {
    for line in page().lines().filter(|line| !line.starts_with('#')) {
        let (name, labels, _) = sample(line);
        if let Some(metric) = METRICS.iter().find(|metric| metric.name == name) {
            assert_eq!(labels, metric.labels, "{name}");
        }
    }
}

#[test]
fn values() {
    let parsed = parse(&page());
    let odd = r#"cluster="main",server="odd\"\\\nname""#;
    for (series, value) in [
        ("sqluice_sessions".to_owned(), 6.0),
        (r#"sqluice_pinned_total{reason="temporary_table"}"#.into(), 4.0),
        (r#"sqluice_rule_hits_total{rule="first"}"#.into(), 10.0),
        (r#"sqluice_cache_rights_known{cluster="main"}"#.into(), 0.0),
        (r#"sqluice_cache_saved_seconds_total{rule="first"}"#.into(), 1.5),
        (r#"sqluice_cache_refused_total{rule="first",reason="too_large"}"#.into(), 4.0),
        (r#"sqluice_cache_warm_kinds{warm="pages"}"#.into(), 3.0),
        (r#"sqluice_cache_warm_running{warm="pages"}"#.into(), 1.0),
        (r#"sqluice_cache_warm_runs_total{warm="pages"}"#.into(), 2.0),
        (r#"sqluice_cache_warm_statements_total{warm="pages",outcome="kept"}"#.into(), 50.0),
        (r#"sqluice_cache_warm_statements_total{warm="pages",outcome="there"}"#.into(), 20.0),
        (r#"sqluice_cache_warm_statements_total{warm="pages",outcome="without_rule"}"#.into(), 4.0),
        (r#"sqluice_cache_warm_statements_total{warm="pages",outcome="refused"}"#.into(), 5.0),
        (r#"sqluice_cache_warm_statements_total{warm="pages",outcome="failed"}"#.into(), 6.0),
        (format!("sqluice_server_reads_total{{{odd}}}"), 21.0),
        (format!(r#"sqluice_server_connections{{{odd},state="idle"}}"#), 4.0),
        (format!(r#"sqluice_server_latency_seconds_bucket{{{odd},le="0.0001"}}"#), 2.0),
        (format!(r#"sqluice_server_latency_seconds_bucket{{{odd},le="0.01"}}"#), 6.0),
        (format!(r#"sqluice_server_latency_seconds_bucket{{{odd},le="10"}}"#), 6.0),
        (format!(r#"sqluice_server_latency_seconds_bucket{{{odd},le="+Inf"}}"#), 8.0),
        (format!("sqluice_server_latency_seconds_count{{{odd}}}"), 8.0),
        (format!("sqluice_server_latency_seconds_sum{{{odd}}}"), 180.01998),
        (r#"sqluice_cluster_view_number{cluster="main"}"#.into(), 7.0),
        (r#"sqluice_cluster_has_primary{cluster="main"}"#.into(), 1.0),
        (r#"sqluice_cluster_diagnosis{cluster="main",diagnosis="replication_broken"}"#.into(), 1.0),
        (r#"sqluice_cluster_diagnosis{cluster="main",diagnosis="all_down"}"#.into(), 0.0),
        (r#"sqluice_server_up{cluster="main",server="db2"}"#.into(), 0.0),
        (r#"sqluice_server_role{cluster="main",server="db2",role="replica"}"#.into(), 1.0),
        (r#"sqluice_server_lag_seconds{cluster="main",server="db2"}"#.into(), 1.5),
        (r#"sqluice_failover_runs_total{cluster="main",kind="failover",result="aborted"}"#.into(), 1.0),
        (r#"sqluice_failover_steps_total{cluster="main",step="promote",result="done"}"#.into(), 3.0),
        (r#"sqluice_monitor_probe_failures_total{cluster="main",server="db2",reason="timeout"}"#.into(), 1.0),
    ] {
        assert_eq!(parsed.series.get(&series).copied(), Some(value), "{series}");
    }
    let age = |server: &str| {
        parsed
            .series
            .get(&format!(r#"sqluice_server_position_age_seconds{{cluster="main",server="{server}"}}"#))
            .copied()
    };
    assert!(age("db2").is_some_and(|age| age < 60.0) && age("db1").is_none());
    assert!(!parsed.series.contains_key(r#"sqluice_server_lag_seconds{cluster="main",server="db1"}"#));
}

#[test]
fn buckets_grow_and_their_words_are_their_bounds() {
    for pair in LATENCY_BOUNDS.windows(2) {
        assert!(pair[0].0 < pair[1].0);
    }
    for (us, word) in LATENCY_BOUNDS {
        assert!((word.parse::<f64>().unwrap() * 1e6 - us as f64).abs() < 1e-6, "{word}");
    }
}

/// `docs/reference/metrics.md` has a table row for each metric, and none for others.
#[test]
fn the_documentation_lists_every_metric() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let documented: BTreeSet<String> =
        page.lines().filter(|line| line.starts_with("| `sqluice_")).map(str::to_owned).collect();
    let expected: BTreeSet<String> = METRICS
        .iter()
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
            format!("| `{}` | {} | {labels} | {} |", metric.name, metric.kind.word(), metric.help)
        })
        .collect();
    assert_eq!(documented, expected);
}

#[test]
fn readiness_says_why_not() {
    let cluster = Arc::new(cluster());
    let shared = shared(cluster.clone());
    let answer = readiness(&shared);
    assert!(answer.ready && answer.words.contains("primary db1"), "{answer:?}");
    let without =
        |health| View { number: 8, servers: [server(1, "db2", Role::Replica, health)].into(), ..View::empty("main") };
    cluster.published.publish_view(without(Health::Up));
    assert!(readiness(&shared).ready, "reads are served");
    cluster.published.publish_view(without(Health::Down));
    let answer = readiness(&shared);
    assert!(!answer.ready && answer.words.contains("db2: down"), "{answer:?}");
    cluster.published.publish_view(without(Health::Up));
    shared.draining.store(true, Ordering::Relaxed);
    let answer = readiness(&shared);
    assert!(!answer.ready && answer.words.contains("draining"), "{answer:?}");
    assert!(!readiness(&Shared::new(&config(""), sources(workers()))).ready, "nothing is watched");
}

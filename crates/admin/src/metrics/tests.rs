use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::events::{Events, Literals, Masks, Settings, SinkSettings, SyslogAddress, SyslogSettings, Takes, Target};
use facts::gtid::Applied;
use facts::gtid::mysql::GtidSet;
use facts::sessions::{SessionFacts, SessionState};
use facts::view::{ServerId, View};

use super::*;
use crate::health::readiness;
use crate::sessions::{Kill, Later, Sessions};
use crate::shared::Sources;
use crate::status::{ChangeFigures, Diagnosis, ServerFigures};
use crate::testing::{FixedStatus, OneCluster, config, result_cache, sources};

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
    figures.failover = "manual";
    figures.journal_failures = 4;
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
        worker.error_codes.add_one(1064);
        let listener = worker.listener(&"main".into(), &"app".into());
        listener.received_bytes.add(30);
        listener.writes.add(4);
        worker.pinned.at(1).unwrap().add(2);
        worker.user_waited.add(2);
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
    let (status, cache) = (FixedStatus::one(cluster), Some(result_cache()));
    Shared::new(
        &with_certificate(config(rules)),
        Sources { status, cache, events: Some(sink()), sessions: Some(Arc::new(TwoSessions)), ..sources(workers()) },
    )
}

/// The same, where both listeners have a certificate of their own, which ends in 2030.
fn with_certificate(mut config: config::Config) -> config::Config {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let certificate = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let pem = config::Pem { path: "app.pem".into(), text: certificate.pem().into_bytes().into() };
    config.listeners.values_mut().next().unwrap().tls.cert = Some(pem.clone());
    config.admin = Some(config::Admin {
        address: config::Address::Tcp { host: "127.0.0.1".into(), port: 0 },
        sql_address: None,
        keys: config::AdminKeys::default(),
        tls: config::AdminTls { cert: Some(pem), ..config::AdminTls::default() },
    });
    config
}

/// Events with a sink that is not there.
fn sink() -> Arc<Events> {
    let target = Target::Syslog(SyslogSettings { address: SyslogAddress::Unix("/nowhere".into()), facility: 16 });
    let (name, takes, masks) = ("syslog.siem".into(), Takes::All, Masks::default());
    let sink = SinkSettings { name, takes, literals: Literals::None, masks, target };
    Events::start(Settings { node: "n1".into(), sinks: vec![sink], ..Settings::default() }, 0).unwrap().0
}

/// A session that has a query, in a transaction or not.
fn session(in_transaction: bool) -> SessionFacts {
    SessionFacts {
        id: 7,
        listener: Some("app".into()),
        cluster: Some("main".into()),
        user: Some("app".into()),
        client: "127.0.0.1:9".into(),
        connected: Duration::from_secs(9),
        state: SessionState::Running,
        state_for: Duration::from_secs(2),
        transaction: in_transaction.then_some(Duration::from_secs(5)),
        ..SessionFacts::default()
    }
}

/// One session in a transaction, and one outside.
struct TwoSessions;

impl Sessions for TwoSessions {
    fn list(&self) -> Later<Vec<SessionFacts>> {
        let all = self.glance();
        Box::pin(async { all })
    }

    fn glance(&self) -> Vec<SessionFacts> {
        vec![session(false), session(true)]
    }

    fn kill(&self, _: Kill) -> Later<Result<bool, String>> {
        Box::pin(async { Ok(false) })
    }

    fn relieve(&self, _: usize, _: bool) -> Later<Result<facts::sessions::Relieved, String>> {
        Box::pin(async { Err("there is one worker".to_owned()) })
    }
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
        (r#"sqluice_sessions_by_state{state="running"}"#.into(), 2.0),
        (r#"sqluice_sessions_by_state{state="idle"}"#.into(), 0.0),
        (r#"sqluice_listener_sessions{listener="app"}"#.into(), 2.0),
        (r#"sqluice_listener_certificate_expiry_timestamp_seconds{listener="app"}"#.into(), 1_893_456_000.0),
        ("sqluice_admin_certificate_expiry_timestamp_seconds".to_owned(), 1_893_456_000.0),
        ("sqluice_oldest_query_seconds".to_owned(), 2.0),
        ("sqluice_oldest_transaction_seconds".to_owned(), 5.0),
        (r#"sqluice_errors_total{code="1064"}"#.into(), 2.0),
        ("sqluice_client_received_bytes_total".to_owned(), 60.0),
        (r#"sqluice_listener_received_bytes_total{cluster="main",listener="app"}"#.into(), 60.0),
        (r#"sqluice_listener_queries_total{cluster="main",listener="app",kind="write"}"#.into(), 8.0),
        (r#"sqluice_listener_queries_total{cluster="main",listener="app",kind="cached"}"#.into(), 0.0),
        (r#"sqluice_config_reloads_total{result="refused"}"#.into(), 0.0),
        ("sqluice_config_last_reload_successful".to_owned(), 1.0),
        (r#"sqluice_failover_mode{cluster="main",mode="manual"}"#.into(), 1.0),
        (r#"sqluice_failover_state{cluster="main",state="off"}"#.into(), 1.0),
        (r#"sqluice_failover_state{cluster="main",state="armed"}"#.into(), 0.0),
        (r#"sqluice_failover_cooldown_seconds{cluster="main"}"#.into(), 0.0),
        (r#"sqluice_journal_failures_total{cluster="main"}"#.into(), 4.0),
        ("sqluice_user_limit_waits_total".to_owned(), 4.0),
        (r#"sqluice_pins_total{reason="temporary_table"}"#.into(), 4.0),
        (r#"sqluice_events_sink_written_total{sink="syslog.siem"}"#.into(), 0.0),
        (r#"sqluice_rule_hits_total{rule="first"}"#.into(), 10.0),
        (r#"sqluice_cache_rights_known{cluster="main"}"#.into(), 0.0),
        (r#"sqluice_cache_saved_seconds_total{rule="first"}"#.into(), 1.5),
        (r#"sqluice_cache_refused_total{rule="first",reason="too_large"}"#.into(), 4.0),
        (r#"sqluice_cache_warm_client_kinds{warm="pages"}"#.into(), 3.0),
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

/// Automatic failover is armed, cools down after a promotion, and stops after failed attempts.
#[test]
fn the_state_of_failover_is_one_of_four() {
    let state = |change: fn(&mut Figures)| {
        let mut cluster = cluster();
        cluster.figures.failover = "auto";
        change(&mut cluster.figures);
        let parsed = parse(&render(&shared(Arc::new(cluster))));
        let is = |state: &&str| {
            parsed.series.get(&format!(r#"sqluice_failover_state{{cluster="main",state="{state}"}}"#)) == Some(&1.0)
        };
        ["armed", "cooling_down", "stopped", "off"].into_iter().filter(is).collect::<Vec<_>>()
    };
    let soon = || Instant::now() + Duration::from_secs(60);
    assert_eq!(state(|_| {}), ["armed"]);
    assert_eq!(
        state(|figures| figures.cooldown_until = Some(Instant::now() + Duration::from_secs(60))),
        ["cooling_down"]
    );
    assert_eq!(state(|figures| figures.cooldown_until = Some(Instant::now())), ["armed"]);
    assert_eq!(state(|figures| figures.failover_stopped = true), ["stopped"]);
    assert_eq!(state(|figures| figures.failover = "off"), ["off"]);
    let mut cluster = cluster();
    cluster.figures.cooldown_until = Some(soon());
    let parsed = parse(&render(&shared(Arc::new(cluster))));
    let left = parsed.series[r#"sqluice_failover_cooldown_seconds{cluster="main"}"#];
    assert!((30.0..=60.0).contains(&left), "{left}");
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

/// `docs/reference/metrics.md` has an entry for each metric, and none for others.
#[test]
fn the_documentation_lists_every_metric() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let mut documented = BTreeSet::new();
    for (at, first) in
        page.lines().enumerate().filter(|(_, line)| line.starts_with("- **`") && !line.starts_with("- **`/"))
    {
        let rest = page.lines().skip(at + 1).take_while(|line| line.starts_with("  ")).map(str::trim);
        documented.insert([first].into_iter().chain(rest).collect::<Vec<_>>().join(" "));
    }
    let expected: BTreeSet<String> = METRICS
        .iter()
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!(" · {}", labels.join(", ")) };
            format!("- **`{}`** · {}{labels}<br> {}", metric.name, metric.kind.word(), metric.help)
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

/// The names of metrics in a text: words with one of the prefixes, without what Prometheus adds to those of histograms.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_metric = |word: &&str| word.starts_with("sqluice_") || word.starts_with("process_");
    let without_suffix = |word: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word).to_owned()
    };
    words.filter(is_metric).map(without_suffix).collect()
}

#[test]
fn alarms_and_the_dashboard_name_metrics_that_are_there() {
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    for (file, text) in [
        ("alerts.yml", include_str!("../../../../monitoring/alerts.yml")),
        ("alerts_test.yml", include_str!("../../../../monitoring/alerts_test.yml")),
        ("grafana.json", include_str!("../../../../monitoring/grafana.json")),
    ] {
        let names = names_in(text);
        let unknown: Vec<&String> = names.iter().filter(|name| !known.contains(name.as_str())).collect();
        assert!(names.len() > 5 && unknown.is_empty(), "{file} names {unknown:?}");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../monitoring/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
}

/// Each metric has a panel, so that a new one gets its own.
#[test]
fn the_dashboard_shows_every_metric() {
    let shown = names_in(include_str!("../../../../monitoring/grafana.json"));
    let missing: Vec<&str> = METRICS.iter().map(|metric| metric.name).filter(|name| !shown.contains(*name)).collect();
    assert!(missing.is_empty(), "monitoring/grafana.json has no panel for {missing:?}");
}

/// Expressions and legends of the dashboard use labels that their metrics have, and panels do not cover each other.
#[test]
fn the_dashboard_uses_labels_that_are_there() {
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../monitoring/grafana.json")).unwrap();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            assert!(
                x < 24 && (at("y")..at("y") + at("h")).all(|y| taken.insert((x, y))),
                "{title} covers another panel"
            );
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            let (expression, legend) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
            let names = names_in(expression);
            let metrics = METRICS.iter().filter(|metric| names.contains(metric.name));
            let known: BTreeSet<&str> =
                metrics.flat_map(|metric| metric.labels).copied().chain(["instance", "le"]).collect();
            let by = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
            let grouped: BTreeSet<&str> = by.flat_map(|labels| labels.split(',')).map(str::trim).collect();
            let in_legend = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            for label in grouped.iter().copied().chain(in_legend.clone()) {
                assert!(known.contains(label), "{title}: no metric of {expression} has the label {label}");
            }
            // Without a function the series keeps its labels.
            let is_grouped = expression.contains('(');
            let lost: Vec<&str> = in_legend.filter(|label| is_grouped && !grouped.contains(label)).collect();
            assert!(lost.is_empty(), "{title}: {expression} keeps no label {lost:?}");
        }
    }
}

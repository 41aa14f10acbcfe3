//! The control plane before real servers: MariaDB, and MySQL where `SQLUICE_MYSQLD` names one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stand outside of #[test] functions")]

mod api;
mod changes;
mod hidden;
mod late;
mod watch;

use std::time::{Duration, Instant};

use facts::accounts::Verifier;
use facts::catalog::RoutineAccess;
use facts::evidence::{Evidence, EvidenceKind};
use facts::view::{Health, Role, View};
use lab::{Binaries, Family, Replication, ReplicationOptions};
use watch::Watch;

/// Longest wait for anything that should take a few probes.
const SOON: Duration = Duration::from_secs(20);

fn cluster(family: Family) -> Replication {
    let function = |name: &str, what: &str| format!("CREATE FUNCTION app.{name}() RETURNS INT {what};");
    let init_sql = format!(
        "CREATE TABLE app.log (id INT); CREATE USER 'locked'@'10.%' IDENTIFIED BY 'x' ACCOUNT LOCK; {} {}",
        function("reads", "READS SQL DATA RETURN (SELECT COUNT(*) FROM app.log)"),
        function("writes", "MODIFIES SQL DATA RETURN 1"),
    );
    let config = vec!["log_bin_trust_function_creators=1".to_owned()];
    Replication::start(ReplicationOptions { init_sql, config, ..ReplicationOptions::new(family, 2) }).unwrap()
}

fn families() -> Vec<Family> {
    Binaries::find().unwrap().families()
}

fn roles(view: &View) -> Vec<Role> {
    view.servers.iter().map(|server| server.role).collect()
}

fn settled(view: &View) -> bool {
    view.primary.is_some() && view.servers.iter().all(|server| server.health == Health::Up && server.serves_reads)
}

#[test]
fn roles_accounts_functions_and_metrics() {
    for family in families() {
        let cluster = cluster(family);
        let watch = Watch::start(&cluster, "");
        let view = watch.until("all is well", SOON, settled);
        assert_eq!(roles(&view), [Role::Primary, Role::Replica, Role::Replica], "{view:?}");
        assert_eq!(view.servers[0].resolved, Some(cluster.server(0).address()));
        let flavour = view.flavour.clone().unwrap();
        assert_eq!(flavour.mariadb, family == Family::MariaDb);
        assert!(flavour.number > 50_700 && flavour.capabilities != 0, "{flavour:?}");

        let accounts = watch.accounts(|accounts| accounts.find("app", None).is_some());
        let app = accounts.find("app", Some("192.0.2.1".parse().unwrap())).unwrap();
        match family {
            Family::MariaDb => assert!(matches!(app.verifiers[..], [Verifier::Native(_)]), "{app:?}"),
            Family::MySql => assert!(matches!(app.verifiers[..], [Verifier::CachingSha2(Some(_))]), "{app:?}"),
        }
        assert!(accounts.find("locked", Some("10.1.2.3".parse().unwrap())).unwrap().locked);
        assert_eq!(accounts.find("locked", Some("192.0.2.1".parse().unwrap())), None);

        let catalog = watch.catalog(|catalog| !catalog.functions.is_empty());
        assert!(catalog.functions_complete);
        assert_eq!(catalog.function(Some("app"), "READS"), Some(RoutineAccess::Reads));
        assert_eq!(catalog.function(None, "writes"), Some(RoutineAccess::Writes));
        assert_eq!(&*catalog.collations[&45].name, "utf8mb4_general_ci");
        assert!(catalog.globals["sql_mode"].contains("STRICT_TRANS_TABLES"));

        // A storm of requests is one reading a second, and its answer is read after it was asked for.
        let (begin, before) = (Instant::now(), watch.link.published.accounts.load().number);
        for _ in 0..200 {
            watch.link.published.request_accounts_refresh();
            watch.link.published.evidence(Evidence { server: watch.id("s2"), kind: EvidenceKind::ReadOnly });
        }
        watch.accounts(|accounts| accounts.number > before);
        let grown = watch.link.published.accounts.load().number - before;
        assert!(grown <= begin.elapsed().as_secs() + 2, "{grown} readings in {:?}", begin.elapsed());
        cluster.primary().sql("CREATE USER late@'%' IDENTIFIED BY 'x'").unwrap();
        watch.link.published.request_accounts_refresh();
        watch.accounts(|accounts| accounts.find("late", None).is_some());

        // The heartbeat reaches the replicas, so lag is known and finer than a second.
        let page = watch.until_page("/metrics", |page| {
            page.contains("sqluice_monitor_heartbeat_writes_total{cluster=\"main\"} ")
                && !page.contains("heartbeat_writes_total{cluster=\"main\"} 0")
                && page.matches("sqluice_server_lag_seconds{").count() == 2
        });
        assert!(page.contains("sqluice_server_role{cluster=\"main\",server=\"s1\",role=\"primary\"} 1"), "{page}");
        assert!(page.contains("sqluice_monitor_heartbeat_failures_total{cluster=\"main\"} 0"), "{page}");
        let rows = cluster.primary().sql("SELECT COUNT(*) FROM sqluice.heartbeat").unwrap();
        assert_eq!(rows, "1\n");

        let (status, words) = watch.get("/readyz");
        assert_eq!(status, 200, "{words}");
        assert!(words.contains("primary s1"), "{words}");
        assert_eq!(watch.get("/healthz"), (200, "ok\n".into()));
        assert_eq!(watch.get("/nowhere").0, 404);
        watch.drain();
        let (status, words) = watch.get("/readyz");
        assert!(status == 503 && words.contains("draining"), "{status} {words}");
    }
}

#[test]
fn replicas_that_die_hang_return_and_lag() {
    for family in families() {
        let cluster = cluster(family);
        let watch = Watch::start(&cluster, "max_lag_ms = 1500");
        watch.until("all is well", SOON, settled);

        cluster.server(1).kill9();
        let at = Instant::now();
        watch.link.published.evidence(Evidence { server: watch.id("s2"), kind: EvidenceKind::ConnectionLost });
        watch.until("s2 is doubted", SOON, |view| view.servers[1].health != Health::Up);
        watch.until("s2 is down", SOON, |view| view.servers[1].health == Health::Down);
        // Three probes at intervals of 100 ms; the rest is for a busy machine.
        assert!(at.elapsed() < Duration::from_secs(5), "{:?}", at.elapsed());
        let view = watch.view();
        assert!(!view.servers[1].serves_reads && view.primary == Some(watch.id("s1")), "{view:?}");
        cluster.server(1).restart().unwrap();
        watch.until("s2 is back", SOON, settled);

        cluster.server(2).freeze().unwrap();
        watch.until("s3 hangs", SOON, |view| view.servers[2].health == Health::Down);
        cluster.server(2).thaw().unwrap();
        watch.until("s3 is back", SOON, settled);

        let (stop, start) = match family {
            Family::MariaDb => ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD"),
            Family::MySql => ("STOP REPLICA SQL_THREAD", "START REPLICA SQL_THREAD"),
        };
        cluster.server(1).sql(stop).unwrap();
        let view = watch.until("s2's applier is stopped", SOON, |view| !view.servers[1].serves_reads);
        assert_eq!((view.servers[1].health, view.servers[1].lag), (Health::Up, None));
        assert!(view.servers[1].reason.contains("applying thread is stopped"), "{}", view.servers[1].reason);
        cluster.server(1).sql(start).unwrap();
        watch.until("s2 applies again", SOON, settled);

        let delay = |seconds: u32| match family {
            Family::MariaDb => format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={seconds}; START SLAVE"),
            Family::MySql => {
                format!("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}; START REPLICA")
            }
        };
        cluster.server(2).sql(&delay(60)).unwrap();
        let view = watch.until("s3 lags", SOON, |view| {
            view.servers[2].lag.is_some_and(|lag| lag > Duration::from_millis(1500)) && !view.servers[2].serves_reads
        });
        assert!(view.servers[2].reason.contains("max_lag_ms"), "{}", view.servers[2].reason);
        cluster.server(2).sql(&delay(0)).unwrap();
        watch.until("s3 caught up", SOON, settled);
    }
}

#[test]
fn a_primary_that_is_moved_or_dies_is_followed() {
    for family in families() {
        let cluster = cluster(family);
        let watch = Watch::start(&cluster, "");
        watch.until("all is well", SOON, settled);

        cluster.primary().set_read_only(true).unwrap();
        watch.link.published.evidence(Evidence { server: watch.id("s1"), kind: EvidenceKind::ReadOnly });
        let view = watch.until("nobody is primary", SOON, |view| view.primary.is_none());
        assert!(view.servers.iter().skip(1).all(|server| server.serves_reads), "{view:?}");
        cluster.promote(1).unwrap();
        let view = watch.until("s2 is primary", SOON, |view| settled(view) && view.primary == Some(watch.id("s2")));
        assert_eq!(roles(&view), [Role::Replica, Role::Primary, Role::Replica]);

        cluster.server(1).kill9();
        watch.until("s2 is dead", SOON, |view| view.primary.is_none() && view.servers[1].health == Health::Down);
        watch.until_page("/metrics", |page| {
            page.contains("sqluice_cluster_diagnosis{cluster=\"main\",diagnosis=\"primary_down\"} 1")
        });
        let view = watch.view();
        assert!(view.servers[0].serves_reads && view.servers[2].serves_reads, "reads go on: {view:?}");
        assert_eq!(watch.get("/readyz").0, 200);
        cluster.promote(2).unwrap();
        watch.until("s3 is primary", SOON, |view| view.primary == Some(watch.id("s3")));

        // The old primary returns writable, as servers do that nobody fenced.
        cluster.server(1).restart().unwrap();
        let view = watch.until("s2 is back", SOON, |view| view.servers[1].health == Health::Up);
        assert_eq!((view.primary, view.servers[1].role), (Some(watch.id("s3")), Role::Unknown), "{view:?}");
        assert!(!view.servers[1].serves_reads);

        cluster.server(0).kill9();
        cluster.server(1).kill9();
        cluster.server(2).kill9();
        watch.until("all are dead", SOON, |view| view.servers.iter().all(|server| server.health == Health::Down));
        let (status, words) = watch.get("/readyz");
        assert!(status == 503 && words.contains("s3: down"), "{status} {words}");
    }
}

#[test]
fn a_reload_changes_servers_and_the_monitor_user() {
    let cluster = cluster(families()[0]);
    let mut watch = Watch::start(&cluster, "");
    watch.until("all is well", SOON, settled);
    let before = watch.id("s1");

    watch.reload(watch.config(&[0, 2], lab::MONITOR_PASSWORD, ""));
    let view = watch.until("s2 is gone", SOON, |view| view.servers.len() == 2);
    assert_eq!(view.primary, Some(before));
    watch.reload(watch.config(&[0, 1, 2], lab::MONITOR_PASSWORD, ""));
    watch.until("s2 is back", SOON, |view| view.servers.len() == 3 && settled(view));
    assert_eq!(watch.id("s1"), before);

    // Without rights for the heartbeat, lag is what the server says.
    cluster.primary().sql("REVOKE ALL PRIVILEGES ON sqluice.* FROM sqluice@'%'").unwrap();
    watch.until_page("/metrics", |page| !page.contains("heartbeat_failures_total{cluster=\"main\"} 0"));
    let in_whole_seconds = |line: &&str| line.starts_with("sqluice_server_lag_seconds{") && !line.contains('.');
    watch.until_page("/metrics", |page| page.lines().filter(in_whole_seconds).count() == 2);
    assert!(settled(&watch.view()), "{:?}", watch.view());

    // A wrong password is the monitor's trouble, not the servers'.
    watch.reload(watch.config(&[0, 1, 2], "wrong", ""));
    watch.until_page("/metrics", |page| {
        page.contains("sqluice_cluster_diagnosis{cluster=\"main\",diagnosis=\"monitor_refused\"} 1")
    });
    let view = watch.view();
    assert_eq!((view.primary, view.servers[0].health), (Some(before), Health::Up));
    watch.reload(watch.config(&[0, 1, 2], lab::MONITOR_PASSWORD, ""));
    watch.until_page("/metrics", |page| {
        page.contains("sqluice_cluster_diagnosis{cluster=\"main\",diagnosis=\"monitor_refused\"} 0")
    });
}

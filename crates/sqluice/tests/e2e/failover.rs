//! Sqluice replaces a primary: one that was killed, and one that an operator wants elsewhere.

mod console;
mod etcd;
mod events;
mod follow;
mod long_reads;
mod pipelines;
mod two_phases;
mod warm;
mod writers;

use std::collections::HashSet;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::{Family, Replication, ReplicationOptions, Server};
use net::query::{Client, Limits};
use serde_json::{Value, json};

use self::writers::{Writers, Wrote};
use crate::support::{Front, Ran, SOON, Setup, all, blocking, has_mysql, run, until};

/// The key of the API.
const KEY: &str = "hush hush";

/// Servers of this test's own, with semi-synchronous replication that does not fall back.
struct Cluster(Option<Arc<Replication>>);

impl Cluster {
    async fn start(family: Family) -> Cluster {
        let (config, source): (&[&str], _) = match family {
            Family::MariaDb => (
                &[
                    "rpl_semi_sync_slave_enabled=ON",
                    "rpl_semi_sync_master_wait_point=AFTER_SYNC",
                    "rpl_semi_sync_master_timeout=30000",
                ],
                "rpl_semi_sync_master_enabled",
            ),
            Family::MySql => (
                &[
                    "plugin_load_add=semisync_source.so",
                    "plugin_load_add=semisync_replica.so",
                    "rpl_semi_sync_replica_enabled=ON",
                    "rpl_semi_sync_source_timeout=30000",
                ],
                "rpl_semi_sync_source_enabled",
            ),
        };
        let options = ReplicationOptions {
            config: config.iter().map(|line| (*line).to_owned()).collect(),
            init_sql: "CREATE TABLE app.t (client INT, n INT, PRIMARY KEY (client, n))".into(),
            ..ReplicationOptions::new(family, 2)
        };
        let cluster = blocking(move || {
            let cluster = Replication::start(options).unwrap();
            cluster.primary().sql(&format!("SET GLOBAL {source} = ON")).unwrap();
            cluster
        })
        .await;
        Cluster(Some(Arc::new(cluster)))
    }

    fn servers(&self) -> &Arc<Replication> {
        self.0.as_ref().unwrap()
    }

    async fn on<T: Send + 'static>(&self, index: usize, work: impl FnOnce(&Server) -> T + Send + 'static) -> T {
        let cluster = self.servers().clone();
        blocking(move || work(cluster.server(index))).await
    }

    /// The program in front of it, which may fail over.
    async fn front(&self) -> Front {
        self.front_with("").await
    }

    /// The same, with more keys of the table `promotion`.
    async fn front_with(&self, promotion: &str) -> Front {
        self.front_changed(promotion, |_| ()).await
    }

    /// The same, with more changes.
    async fn front_changed(&self, promotion: &str, change: impl FnOnce(&mut Setup)) -> Front {
        Front::start(self.servers(), |setup| {
            setup.cluster += &format!(
                "\nfailover = \"auto\"\npromotion = {{ cooldown_s = 0{promotion} }}\n\
                 replication = {{ user = \"{}\", password = \"{}\" }}",
                lab::REPL_USER,
                lab::REPL_PASSWORD
            );
            setup.admin = format!("key = \"{KEY}\"");
            change(setup);
            if !setup.monitor.contains("timeout_ms") {
                setup.monitor += "\ntimeout_ms = 500";
            }
        })
        .await
    }
}

/// Runs the program's own command for operators.
pub async fn command(front: &Front, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sqluice"));
    command.args(arguments).arg("--config").arg(front.folder().join("sqluice.toml")).args(["--admin", &front.admin]);
    run(command, "").await
}

async fn status(front: &Front) -> Value {
    let ran = command(front, &["status", "--cluster", "main", "--json"]).await;
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err))
}

fn index(name: &Value) -> usize {
    name.as_str().unwrap().strip_prefix("db").unwrap().parse::<usize>().unwrap() - 1
}

/// Every acknowledged row is on this server.
async fn nothing_is_lost(cluster: &Cluster, server: usize, wrote: &Wrote) {
    let rows = cluster.on(server, |server| server.sql("SELECT client, n FROM app.t").unwrap()).await;
    let row = |line: &str| {
        let (client, n) = line.split_once('\t').unwrap();
        (client.parse::<i32>().unwrap(), n.parse::<i32>().unwrap())
    };
    let kept: HashSet<(i32, i32)> = rows.lines().map(row).collect();
    let lost: Vec<_> = wrote.acknowledged.iter().filter(|row| !kept.contains(row)).collect();
    assert!(lost.is_empty(), "acknowledged, but not on db{}: {lost:?}", server + 1);
}

async fn check_killed_primary(family: Family) {
    let cluster = Cluster::start(family).await;
    let front = cluster.front().await;
    let writers = Writers::start(&front, 8).await;
    writers.more(200).await;
    let begun = Instant::now();
    cluster.on(0, Server::kill9).await;
    let page = until("another primary", async || {
        let page = status(&front).await;
        (page["primary"].is_string() && page["primary"] != "db1").then_some(page)
    })
    .await;
    let promoted = begun.elapsed();
    writers.more(200).await;
    let resumed = begun.elapsed();
    let new = index(&page["primary"]);

    // The old one comes back, writable as its configuration has it, and is never used as a primary.
    cluster.on(0, |server| server.restart().unwrap()).await;
    let page = until("the old primary to be fenced or to follow", async || {
        let page = status(&front).await;
        let old = &page["servers"][0];
        assert_ne!(page["primary"], "db1", "{page}");
        (old["read_only"] == json!(true) && old["health"] == "up").then_some(page)
    })
    .await;
    writers.more(200).await;
    let wrote = writers.end().await;
    eprintln!(
        "{family:?} kill -9 of the primary: promoted after {promoted:?}, 200 writes more after {resumed:?}; {} writes, {} \
         errors, the longest took {:?}; first error {:?}",
        wrote.acknowledged.len(),
        wrote.errors.len(),
        wrote.longest,
        wrote.errors.first()
    );
    nothing_is_lost(&cluster, new, &wrote).await;
    // The statements under way at the crash have an unknown outcome: at most one of each client.
    assert!(wrote.errors.len() <= 8, "{:?}", wrote.errors);
    let read_only = cluster.on(0, |server| server.sql("SELECT @@global.read_only").unwrap()).await;
    assert_eq!(read_only, "1\n", "{page}");
    // Nobody was told of writes that it had not sent when it died. If it has any, it is kept out; if not, it follows.
    let end = until("the old primary to follow, or to be kept out by name", async || {
        let page = status(&front).await;
        let follows = page["servers"][0]["role"] == "replica" && page["servers"][0]["serves_reads"] == json!(true);
        let ahead = page["diagnoses"].as_array().unwrap().iter().any(|diagnosis| diagnosis["name"] == "server_ahead");
        (follows || ahead).then_some(if follows { "follows" } else { "is kept out: it is ahead" })
    })
    .await;
    eprintln!("{family:?}: the old primary {end}");
    let journal = crate::support::http_with(&front.admin, "GET", "/api/v1/clusters/main/journal", Some(KEY)).await;
    assert!(journal.0 == 200 && journal.1.contains("promote"), "{journal:?}");
}

#[tokio::test]
async fn a_killed_primary_is_replaced() {
    check_killed_primary(Family::MariaDb).await;
}

#[tokio::test]
async fn a_killed_primary_is_replaced_mysql() {
    if has_mysql() {
        check_killed_primary(Family::MySql).await;
    }
}

async fn check_switchover(family: Family) {
    let cluster = Cluster::start(family).await;
    let front = cluster.front().await;
    let dry = command(&front, &["switchover", "--to", "db2", "--dry-run"]).await.output();
    assert!(dry.contains("this would be done:"), "{dry}");
    let refused = command(&front, &["switchover", "--to", "db9"]).await;
    assert!(!refused.good && refused.err.contains("there are: db1, db2, db3"), "{} {}", refused.out, refused.err);
    let writers = Writers::start(&front, 8).await;
    writers.more(200).await;
    for to in ["db2", "db3", "db1"] {
        front.knows(2).await;
        let reported = command(&front, &["switchover", "--to", to]).await.output();
        eprintln!("{family:?} {reported}");
        assert!(reported.contains(&format!("primary is {to}")), "{reported}");
        writers.more(200).await;
    }
    let wrote = writers.end().await;
    eprintln!(
        "{family:?} three switchovers: {} writes, {} errors, the longest took {:?}",
        wrote.acknowledged.len(),
        wrote.errors.len(),
        wrote.longest
    );
    assert_eq!(wrote.errors, [""; 0]);
    nothing_is_lost(&cluster, 0, &wrote).await;
    until("all to replicate", async || {
        let page = status(&front).await;
        let replicas = page["servers"].as_array().unwrap().iter().filter(|server| server["role"] == "replica");
        (replicas.filter(|server| server["serves_reads"] == json!(true)).count() == 2).then_some(())
    })
    .await;
    let servers = cluster.servers().clone();
    let sums = blocking(move || {
        let position = servers.server(0).sql("SELECT COUNT(*) FROM app.t").unwrap();
        let deadline = Instant::now() + SOON;
        while servers.servers().iter().any(|server| server.sql("SELECT COUNT(*) FROM app.t").unwrap() != position) {
            assert!(Instant::now() < deadline, "the replicas do not catch up");
        }
        servers.checksums("app").unwrap()
    })
    .await;
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    let mut client = front.client().await;
    all(&mut client, "INSERT INTO app.t VALUES (-1, 1)").await;
}

#[tokio::test]
async fn switchovers_cost_no_error_and_no_write() {
    check_switchover(Family::MariaDb).await;
}

#[tokio::test]
async fn switchovers_cost_no_error_and_no_write_mysql() {
    if has_mysql() {
        check_switchover(Family::MySql).await;
    }
}

#[tokio::test]
async fn a_frozen_primary_is_replaced_and_no_client_reaches_it_when_it_wakes_up() {
    let cluster = Cluster::start(Family::MariaDb).await;
    let front = cluster.front().await;
    let writers = Writers::start(&front, 8).await;
    writers.more(100).await;
    let begun = Instant::now();
    cluster.on(0, |server| server.freeze().unwrap()).await;
    let page = until("another primary", async || {
        let page = status(&front).await;
        (page["primary"].is_string() && page["primary"] != "db1").then_some(page)
    })
    .await;
    let promoted = begun.elapsed();
    writers.more(100).await;
    let resumed = begun.elapsed();
    cluster.on(0, |server| server.thaw().unwrap()).await;
    until("the old primary to be read-only", async || {
        let page = status(&front).await;
        assert_ne!(page["primary"], "db1", "{page}");
        (page["servers"][0]["read_only"] == json!(true)).then_some(())
    })
    .await;
    writers.more(100).await;
    let wrote = writers.end().await;
    eprintln!(
        "SIGSTOP of the primary: promoted after {promoted:?}, 100 writes more after {resumed:?}, {} errors, the longest took \
         {:?}",
        wrote.errors.len(),
        wrote.longest
    );
    nothing_is_lost(&cluster, index(&page["primary"]), &wrote).await;
}

#[tokio::test]
async fn hooks_are_asked_and_reported_and_all_is_in_the_journal() {
    let cluster = Cluster::start(Family::MariaDb).await;
    let folder = tempfile::TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (reported, forbidden, journal) = (path("told"), path("forbidden"), path("journal"));
    let before = format!("test ! -e {forbidden} || {{ echo not today >&2; exit 1; }}");
    let after = format!("env > {reported}");
    let front = cluster
        .front_with(&format!(
            ", hook_before = [\"/bin/sh\", \"-c\", \"{before}\"], hook_after = [\"/bin/sh\", \"-c\", \"{after}\"], \
             journal = \"{journal}\""
        ))
        .await;
    std::fs::write(&forbidden, "").unwrap();
    let refused = command(&front, &["switchover", "--to", "db2"]).await;
    assert!(!refused.good && refused.err.contains("not today"), "{} {}", refused.out, refused.err);
    assert_eq!(status(&front).await["primary"], "db1");
    assert_eq!(cluster.on(0, |server| server.sql("SELECT @@global.read_only").unwrap()).await, "0\n");

    std::fs::remove_file(&forbidden).unwrap();
    let done = command(&front, &["switchover", "--to", "db2"]).await.output();
    assert!(done.contains("primary is db2"), "{done}");
    let words =
        until("the hook behind it", async || std::fs::read_to_string(&reported).ok().filter(|t| !t.is_empty())).await;
    let new = format!("SQLUICE_NEW_PRIMARY_ADDRESS={}", cluster.servers().server(1).address());
    for line in
        ["SQLUICE_CLUSTER=main", "SQLUICE_KIND=switchover", "SQLUICE_OLD_PRIMARY=db1", "SQLUICE_NEW_PRIMARY=db2", &new]
    {
        assert!(words.lines().any(|reported| reported == line), "no {line} in {words}");
    }
    assert!(!words.contains("CARGO"), "nothing of the program's own environment: {words}");
    let lines = until("the journal's end", async || {
        let text = std::fs::read_to_string(&journal).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.iter().any(|line| line["kind"] == "finished").then_some(lines)
    })
    .await;
    assert!(lines.iter().any(|line| line["kind"] == "aborted"), "{lines:?}");
    assert!(lines.iter().all(|line| line["cluster"] == "main" && line["at_ms"].is_u64()), "{lines:?}");

    command(&front, &["server", "drain", "db3"]).await.output();
    until("db3 to drain", async || (status(&front).await["servers"][2]["health"] == "draining").then_some(())).await;
    command(&front, &["server", "resume", "db3"]).await.output();
    until("db3 to be used", async || (status(&front).await["servers"][2]["health"] == "up").then_some(())).await;
    let reported = command(&front, &["status"]).await.output();
    assert!(reported.contains("cluster main: primary db2, failover auto") && reported.contains("db3"), "{reported}");
    let again = command(&front, &["rejoin", "db1"]).await;
    assert!(again.good || again.err.contains("error"), "{} {}", again.out, again.err);
}

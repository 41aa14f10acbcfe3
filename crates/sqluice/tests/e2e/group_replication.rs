//! A real replication group behind the program, where a MySQL server is named: its primary is killed, stopped or moved, or loses its
//! majority, and clients notice no more than the group's own standstill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::{GroupReplication, GroupReplicationOptions, LabError, Server};
use net::client::Target;
use net::query::{Client, Limits};
use tokio::task::JoinHandle;

use crate::failover::command;
use crate::support::load::{Clients, Load, ROWS, TABLES, WRITERS, report};
use crate::support::long_reads::LongReads;
use crate::support::{Front, Metrics, app, blocking, has_mysql, until};

/// The time that Sqluice may add to the standstill of the group on a busy machine: it reads the new primary's binary
/// log for statements without a reply, and lets all that wait go on.
const ADDED_MAX: Duration = Duration::from_secs(10);

/// A group of this test's own, and the program in front of it.
struct Group {
    servers: Arc<GroupReplication>,
    front: Front,
}

impl Group {
    async fn start(multi_primary: bool) -> Group {
        let options = GroupReplicationOptions {
            multi_primary,
            // Thrown out as soon as it is suspected, which takes five seconds.
            config: vec![
                "group_replication_member_expel_timeout=0".into(),
                // The log has the outcome of a commit.
                "binlog_rows_query_log_events=ON".into(),
            ],
            init_sql: TABLES.into(),
            ..GroupReplicationOptions::new(3)
        };
        let servers = Arc::new(blocking(move || GroupReplication::start(&options).unwrap()).await);
        let addresses: Vec<String> = servers.servers().iter().map(|server| server.address().to_string()).collect();
        let front = Front::start_on(&addresses, |setup| {
            setup.kind = "group_replication";
            setup.cluster +=
                &format!("\nreplication = {{ user = \"{}\", password = \"{}\" }}", lab::REPL_USER, lab::REPL_PASSWORD);
            setup.admin = "key = \"hush hush\"".into();
        })
        .await;
        let group = Group { servers, front };
        group.is_whole().await;
        group
    }

    async fn on<T: Send + 'static>(&self, index: usize, work: impl FnOnce(&Server) -> T + Send + 'static) -> T {
        let servers = self.servers.clone();
        blocking(move || work(servers.server(index))).await
    }

    async fn with<T: Send + 'static>(&self, work: impl FnOnce(&GroupReplication) -> T + Send + 'static) -> T {
        let servers = self.servers.clone();
        blocking(move || work(&servers)).await
    }

    /// One primary, two replicas.
    async fn is_whole(&self) {
        until("all members to serve", async || {
            let metrics = self.front.metrics().await;
            let with_role = |role: &str| metrics.sum("sqluice_server_role", &[&format!("role=\"{role}\"")]);
            (with_role("primary") >= 1.0 && with_role("replica") >= 2.0).then_some(())
        })
        .await;
    }

    /// The number of the server that is the primary.
    async fn primary(&self) -> Option<usize> {
        primary_in(&self.front.metrics().await)
    }

    async fn primary_other_than(&self, number: usize) -> usize {
        until("another primary", async || self.primary().await.filter(|primary| *primary != number)).await
    }

    /// Every acknowledged row is on each member. Gives how many of those in doubt are there, too.
    async fn have_all(&self, load: &Load) -> usize {
        let primary = self.primary().await.unwrap();
        let position = self.on(primary - 1, |server| server.sql("SELECT @@global.gtid_executed").unwrap()).await;
        let position = position.replace("\\n", "").trim().to_owned();
        let mut kept = 0;
        for index in 0..3 {
            let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', 60) INTO @late; {ROWS}");
            let rows = self.on(index, move |server| server.sql(&sql).unwrap()).await;
            kept = load.is_kept(index, &rows);
        }
        kept
    }
}

fn primary_in(metrics: &Metrics) -> Option<usize> {
    (1..=3).find(|number| {
        let server = format!("server=\"db{number}\"");
        metrics.sum("sqluice_server_role", &[&*server, "role=\"primary\""]) >= 1.0
    })
}

/// Writes directly on the members other than one, whichever takes it: the longest time without a write is how long the group stood
/// still, whatever the reason.
struct Standstill {
    stop: Arc<AtomicBool>,
    longest: JoinHandle<Duration>,
}

impl Standstill {
    /// From now on.
    fn start(group: &Group, without: usize) -> Standstill {
        let others = (0..3).filter(|index| *index != without);
        let targets: Vec<Target> = others
            .map(|index| group.servers.server(index).address().to_string().parse().unwrap())
            .map(|address| Target::plain(address, Duration::from_secs(60)))
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut wrote, mut longest, told) = (Instant::now(), Duration::ZERO, stop.clone());
        let longest = tokio::spawn(async move {
            let limits = Limits { timeout: Duration::from_secs(60), ..Limits::default() };
            let mut clients = Vec::new();
            for target in &targets {
                clients.push(Client::connect(target, app(), limits).await.unwrap());
            }
            loop {
                for client in &mut clients {
                    if client.query("REPLACE INTO app.t VALUES (-1, 1)").await.is_ok() {
                        longest = longest.max(wrote.elapsed());
                        wrote = Instant::now();
                        if told.load(Ordering::Relaxed) {
                            return longest;
                        }
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Standstill { stop, longest }
    }

    /// Until now.
    async fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.longest.await.unwrap()
    }
}

#[tokio::test]
async fn what_init_prints_is_enough_for_a_group() {
    if !has_mysql() {
        return;
    }
    let group = Group::start(false).await;
    let folder = tempfile::tempdir().unwrap();
    let mut init = std::process::Command::new(env!("CARGO_BIN_EXE_sqluice"));
    init.args(["init", "--non-interactive", "--kind", "group_replication", "--monitor-user", "watcher"]);
    init.arg("--output").arg(folder.path().join("sqluice.toml"));
    let addresses: Vec<String> = group.servers.servers().iter().map(|server| server.address().to_string()).collect();
    for address in &addresses {
        init.args(["--server", address]);
    }
    let printed = crate::support::run(init, "").await;
    let sql = printed.out.clone();
    assert!(sql.contains("GROUP_REPLICATION_ADMIN"), "{}", printed.output());
    let primary = group.primary().await.unwrap();
    group.on(primary - 1, move |server| server.sql(&sql).unwrap()).await;
    let password = std::fs::read_to_string(folder.path().join("sqluice-monitor.pw")).unwrap();
    let front = Front::start_on(&addresses, |setup| {
        setup.kind = "group_replication";
        setup.monitor = format!("user = \"watcher\"\npassword = \"{}\"", password.trim_end());
        setup.admin = "key = \"hush hush\"".into();
    })
    .await;
    let group = Group { front, ..group };
    group.is_whole().await;
    let to = format!("db{}", primary % 3 + 1);
    eprintln!("{}", command(&group.front, &["switchover", "--to", &to]).await.output());
    assert_eq!(group.primary_other_than(primary).await, primary % 3 + 1);
}

#[tokio::test]
async fn a_killed_primary_costs_no_more_than_the_standstill_of_the_group() {
    if !has_mysql() {
        return;
    }
    let group = Group::start(false).await;
    assert_eq!(group.primary().await, Some(1));
    let clients = Clients::start(&group.front).await;
    clients.more(200).await;
    group.on(0, Server::kill9).await;
    let watch = Standstill::start(&group, 0);
    group.primary_other_than(1).await;
    clients.more(200).await;
    // The old primary comes back as a replica.
    clients.calm_down();
    group.with(|servers| servers.restart(0).unwrap()).await;
    group.is_whole().await;
    clients.more(200).await;
    assert_ne!(group.primary().await, Some(1));
    let load = clients.end().await;
    let stood_still = watch.end().await;
    report("kill -9 of the primary", &load, Some(stood_still));
    assert_eq!((&load.errors[..], &load.stale[..]), (&[][..], &[][..]));
    assert!(load.in_doubt <= WRITERS as usize, "{} statements in doubt", load.in_doubt);
    assert!(load.longest <= stood_still + ADDED_MAX, "{:?} against {stood_still:?}", load.longest);
    group.have_all(&load).await;
}

/// Stops a member. MySQL 9.7 was seen to close its port, leave its group, and never end its process; why is not known. It is killed
/// after a minute then, as a service manager does: the tests ask what clients see of it.
fn stop(server: &Server) {
    match server.stop() {
        Ok(()) => {}
        Err(hangs @ LabError::Timeout { .. }) => eprintln!("{hangs}: it was killed"),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_primary_that_stops_and_returns_costs_no_errors() {
    if !has_mysql() {
        return;
    }
    let group = Group::start(false).await;
    for round in 0..3 {
        let primary = group.primary().await.unwrap();
        let clients = Clients::start_at(&group.front, round * 1_000_000).await;
        clients.more(100).await;
        let watch = Standstill::start(&group, primary - 1);
        group.on(primary - 1, stop).await;
        group.primary_other_than(primary).await;
        clients.more(100).await;
        let load = clients.end().await;
        let stood_still = watch.end().await;
        report("stop of the primary", &load, Some(stood_still));
        group.with(move |servers| servers.restart(primary - 1).unwrap()).await;
        group.is_whole().await;
        assert_eq!((&load.errors[..], &load.stale[..]), (&[][..], &[][..]));
        assert!(load.in_doubt <= WRITERS as usize, "{} statements in doubt", load.in_doubt);
        assert!(load.longest <= stood_still + ADDED_MAX, "{:?} against {stood_still:?}", load.longest);
        group.have_all(&load).await;
    }
}

#[tokio::test]
async fn the_group_moves_its_primary_when_it_is_asked_to() {
    if !has_mysql() {
        return;
    }
    let group = Group::start(false).await;
    let clients = Clients::start(&group.front).await;
    clients.more(100).await;
    for number in [2, 3, 1] {
        // A member that still applies what it has received is not made the primary.
        group.front.knows(2).await;
        let reported = command(&group.front, &["switchover", "--to", &format!("db{number}")]).await.output();
        eprintln!("{reported}");
        until("the primary to move", async || group.primary().await.filter(|primary| *primary == number)).await;
        clients.more(100).await;
    }
    let load = clients.end().await;
    report("three switchovers", &load, None);
    assert_eq!((&load.errors[..], &load.stale[..], load.in_doubt), (&[][..], &[][..], 0));
    group.have_all(&load).await;
}

#[tokio::test]
async fn long_reads_live_through_changes_of_the_group() {
    if !has_mysql() {
        return;
    }
    let group = Group::start(false).await;
    let reads = LongReads::start(&group.front).await;
    reads.more(100).await;
    for number in [2, 3] {
        command(&group.front, &["switchover", "--to", &format!("db{number}")]).await.output();
        until("the primary to move", async || group.primary().await.filter(|primary| *primary == number)).await;
        reads.more(100).await;
    }
    // A member leaves the group and lives.
    group.on(0, |server| server.sql("STOP GROUP_REPLICATION").unwrap()).await;
    reads.more(100).await;
    group.on(0, |server| server.sql("START GROUP_REPLICATION").unwrap()).await;
    group.is_whole().await;
    // The primary dies.
    group.on(2, Server::kill9).await;
    group.primary_other_than(3).await;
    reads.more(100).await;
    let (count, errors) = reads.end().await;
    eprintln!("{count} long reads, {} errors", errors.len());
    assert_eq!(errors, [""; 0]);
}

#[tokio::test]
async fn without_a_majority_clients_are_held_and_go_on_when_it_is_back() {
    if !has_mysql() {
        return;
    }
    let group = Group::start(false).await;
    let clients = Clients::start(&group.front).await;
    clients.more(100).await;
    for index in [1, 2] {
        group.on(index, |server| server.freeze().unwrap()).await;
    }
    until("the loss of the majority", async || {
        let metrics = group.front.metrics().await;
        (metrics.sum("sqluice_cluster_diagnosis", &["no_primary_component"]) >= 1.0).then_some(())
    })
    .await;
    assert_eq!(group.primary().await, None);
    for index in [1, 2] {
        group.on(index, |server| server.thaw().unwrap()).await;
    }
    group.is_whole().await;
    clients.more(200).await;
    let load = clients.end().await;
    report("two of three frozen", &load, None);
    assert_eq!((&load.errors[..], &load.stale[..]), (&[][..], &[][..]));
    assert!(load.in_doubt <= WRITERS as usize, "{} statements in doubt", load.in_doubt);
    group.have_all(&load).await;
}

#[tokio::test]
async fn of_several_primaries_one_takes_the_writes_and_another_one_follows_it() {
    if !has_mysql() {
        return;
    }
    let group = Group::start(true).await;
    let clients = Clients::start(&group.front).await;
    clients.more(200).await;
    let writer = group.primary().await.unwrap();
    group.on(writer - 1, stop).await;
    group.primary_other_than(writer).await;
    clients.more(200).await;
    let load = clients.end().await;
    report("stop of the writer of several primaries", &load, None);
    assert_eq!((&load.errors[..], &load.stale[..]), (&[][..], &[][..]));
    assert!(load.in_doubt <= WRITERS as usize, "{} statements in doubt", load.in_doubt);
}

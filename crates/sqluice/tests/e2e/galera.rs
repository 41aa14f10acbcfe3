//! A real Galera group behind the program: its writer is killed, members are stopped, desynced, cut off or refuse, and
//! clients notice no more than the group's own standstill.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::{Galera, GaleraOptions, Server};
use net::client::Target;
use net::query::{Client, Limits, QueryError};
use tokio::task::JoinHandle;

use crate::support::load::{Clients, Load, ROWS, TABLES, WRITERS, report};
use crate::support::long_reads::LongReads;
use crate::support::{Front, Setup, all, app, blocking, until, value};

/// A lost member is given up after two seconds, not after five; after one a busy machine throws out those that live.
pub const QUICK: &str = "evs.keepalive_period=PT0.2S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S;\
                     evs.inactive_check_period=PT0.1S";
/// The time that Sqluice may add to the standstill of the group on a busy machine: beyond it a statement waited until a
/// limit. The time on a quiet machine is measured, not tested.
const ADDED_MAX: Duration = Duration::from_secs(10);

/// A group of this test's own, and the program in front of it.
pub struct Group {
    pub servers: Arc<Galera>,
    pub front: Front,
}

impl Group {
    async fn start(settings: &str) -> Group {
        Group::start_with(settings, QUICK).await
    }

    async fn start_with(settings: &str, provider_options: &str) -> Group {
        let options = GaleraOptions {
            provider_options: provider_options.into(),
            init_sql: TABLES.into(),
            ..GaleraOptions::new(3)
        };
        Group::start_on(
            options,
            async |addresses| addresses,
            |setup| setup.cluster += &format!("\ngalera = {{ {settings} }}"),
        )
        .await
    }

    /// With servers like these, which the program finds at the addresses that `ways` makes of theirs.
    pub async fn start_on(
        options: GaleraOptions,
        ways: impl AsyncFnOnce(Vec<String>) -> Vec<String>,
        change: impl FnOnce(&mut Setup),
    ) -> Group {
        let servers = Arc::new(blocking(move || Galera::start(&options).unwrap()).await);
        let addresses: Vec<String> = servers.servers().iter().map(|server| server.address().to_string()).collect();
        let front = Front::start_on(&ways(addresses).await, |setup| {
            setup.kind = "galera";
            setup.admin = "key = \"hush hush\"".into();
            change(setup);
        })
        .await;
        front.knows(3).await;
        Group { servers, front }
    }

    pub async fn on<T: Send + 'static>(&self, index: usize, work: impl FnOnce(&Server) -> T + Send + 'static) -> T {
        let servers = self.servers.clone();
        blocking(move || work(servers.server(index))).await
    }

    pub async fn with<T: Send + 'static>(&self, work: impl FnOnce(&Galera) -> T + Send + 'static) -> T {
        let servers = self.servers.clone();
        blocking(move || work(&servers)).await
    }

    /// The number of the server that is the writer.
    pub async fn writer(&self) -> Option<usize> {
        let metrics = self.front.metrics().await;
        let is_primary = |number: &usize| {
            let server = format!("server=\"db{number}\"");
            metrics.sum("sqluice_server_role", &[&*server, "role=\"primary\""]) >= 1.0
        };
        (1..=3).find(is_primary)
    }

    pub async fn writer_other_than(&self, number: usize) -> usize {
        until("another writer", async || self.writer().await.filter(|writer| *writer != number)).await
    }

    /// Ends a member's isolation, and waits until it serves. How long the group takes to grow together is its own affair.
    pub async fn let_back(&self, index: usize) {
        self.with(move |servers| {
            servers.isolate(index, false).unwrap();
            servers.wait_members(index, 3).unwrap();
            servers.wait_synced(index).unwrap();
        })
        .await;
        self.front.knows(3).await;
    }

    /// Every acknowledged row is there once, whichever member is asked. Gives how many of those in doubt are there, too.
    async fn has_all(&self, index: usize, load: &Load) -> usize {
        let sql = format!("SET SESSION wsrep_sync_wait = 1; {ROWS}");
        let rows = self.on(index, move |server| server.sql(&sql).unwrap()).await;
        load.is_kept(index, &rows)
    }
}

/// Writes directly on a member of the group until told to stop; the longest write is how long the group stood still.
fn standstill(group: &Group, index: usize, stop: Arc<AtomicBool>, round: i32) -> JoinHandle<Duration> {
    let target =
        Target::plain(group.servers.server(index).address().to_string().parse().unwrap(), Duration::from_secs(60));
    tokio::spawn(async move {
        let mut client = Client::connect(&target, app(), Limits::default()).await.unwrap();
        let mut longest = Duration::ZERO;
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            // A group that falls apart on a slow machine takes no writes for a while, and says so.
            while let Err(error) = client.query(format!("INSERT IGNORE INTO app.t VALUES (-{round}, {n})")).await {
                assert!(matches!(&error, QueryError::Server(said) if matches!(said.code, 1047 | 1180)), "{error}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            longest = longest.max(begun.elapsed());
        }
        longest
    })
}

#[tokio::test]
async fn a_killed_writer_costs_no_more_than_the_standstill_of_the_group() {
    let group = Group::start("").await;
    assert_eq!(group.writer().await, Some(1), "the first by name");
    let clients = Clients::start(&group.front).await;
    clients.more(200).await;
    let stop = Arc::new(AtomicBool::new(false));
    let watch = standstill(&group, 2, stop.clone(), 1);
    clients.more(100).await;
    group.on(0, Server::kill9).await;
    let writer = group.writer_other_than(1).await;
    clients.more(200).await;
    stop.store(true, Ordering::Relaxed);
    let stood_still = watch.await.unwrap();
    // The old writer comes back, and nothing moves.
    clients.calm_down();
    group.with(|servers| servers.restart(0).unwrap()).await;
    group.front.knows(3).await;
    clients.more(200).await;
    // The member that was its donor may have handed over meanwhile.
    assert_ne!(group.writer().await, Some(1), "no way back by itself");
    let load = clients.end().await;
    report("kill -9 of the writer", &load, Some(stood_still));
    assert_eq!((&load.errors[..], &load.stale[..]), (&[][..], &[][..]));
    assert!(load.in_doubt <= WRITERS as usize, "{} statements in doubt", load.in_doubt);
    assert!(load.longest <= stood_still + ADDED_MAX, "{:?} against {stood_still:?}", load.longest);
    group.has_all(0, &load).await;
    group.has_all(writer - 1, &load).await;
}

#[tokio::test]
async fn members_that_leave_refuse_or_fall_behind_cost_nothing() {
    let group = Group::start("").await;
    let clients = Clients::start(&group.front).await;
    clients.more(100).await;
    // A donor, or a member that somebody desynced: the writer moves without a gap, and does not come back.
    group.with(|servers| servers.set_desync(0, true).unwrap()).await;
    let second = group.writer_other_than(1).await;
    clients.more(100).await;
    group.with(|servers| servers.set_desync(0, false).unwrap()).await;
    group.front.knows(3).await;
    assert_eq!(group.writer().await, Some(second));
    // One that refuses statements.
    group.with(move |servers| servers.set_reject_queries(second - 1, true).unwrap()).await;
    let third = group.writer_other_than(second).await;
    clients.more(100).await;
    group.with(move |servers| servers.set_reject_queries(second - 1, false).unwrap()).await;
    group.front.knows(3).await;
    // A reader that refuses.
    group.with(move |servers| servers.set_reject_queries(second - 1, true).unwrap()).await;
    clients.more(100).await;
    group.with(move |servers| servers.set_reject_queries(second - 1, false).unwrap()).await;
    group.front.knows(3).await;
    assert_eq!(group.writer().await, Some(third));
    let load = clients.end().await;
    report("desync, reject", &load, None);
    assert_eq!((&load.errors[..], &load.stale[..], load.in_doubt), (&[][..], &[][..], 0));
    assert!(load.longest < ADDED_MAX, "{:?}", load.longest);
    group.has_all(third - 1, &load).await;
}

/// A member that is told so ends all sessions, refuses the statements of clients, and lives.
#[tokio::test]
async fn long_reads_go_on_elsewhere_when_their_member_ends_all_sessions() {
    let group = Group::start("").await;
    let reads = LongReads::start(&group.front).await;
    reads.more(100).await;
    for index in [2, 1, 0] {
        group.on(index, |server| server.sql("SET GLOBAL wsrep_reject_queries = ALL_KILL").unwrap()).await;
        reads.more(100).await;
        group.with(move |servers| servers.set_reject_queries(index, false).unwrap()).await;
        group.front.knows(3).await;
        reads.more(100).await;
    }
    // One leaves the group in good order.
    group.on(2, |server| server.stop().unwrap()).await;
    reads.more(100).await;
    let (count, errors) = reads.end().await;
    eprintln!("{count} long reads, {} errors", errors.len());
    assert_eq!(errors, [""; 0]);
}

/// Five times: the writer shuts down in good order; it comes back by way of a donor and stays a reader. Neither costs more
/// than the group itself stands still.
#[tokio::test]
async fn a_writer_that_stops_and_returns_costs_no_more_than_the_standstill_of_the_group() {
    // Nobody dies here: a slow machine must not throw members out.
    let group = Group::start_with("", "").await;
    for round in 0..5 {
        let writer = group.writer().await.unwrap();
        let watched = writer % 3;
        let leaving = Watched::start(&group, watched, 2 * round).await;
        group.on(writer - 1, |server| server.stop().unwrap()).await;
        group.writer_other_than(writer).await;
        leaving.end(&group, "stop of the writer").await;
        let coming = Watched::start(&group, watched, 2 * round + 1).await;
        group.with(move |servers| servers.restart(writer - 1).unwrap()).await;
        group.front.knows(3).await;
        coming.end(&group, "return of the former writer").await;
        // The member that was its donor may have handed over meanwhile.
        assert_ne!(group.writer().await, Some(writer), "no way back by itself");
    }
}

/// A load through the program, and one past it that tells how long the group stands still.
struct Watched {
    clients: Clients,
    stop: Arc<AtomicBool>,
    standstill: JoinHandle<Duration>,
    index: usize,
}

impl Watched {
    async fn start(group: &Group, index: usize, round: i32) -> Watched {
        let clients = Clients::start_at(&group.front, round * 1_000_000).await;
        let stop = Arc::new(AtomicBool::new(false));
        let standstill = standstill(group, index, stop.clone(), 1 + round);
        clients.more(100).await;
        Watched { clients, stop, standstill, index }
    }

    async fn end(self, group: &Group, what: &str) {
        self.clients.more(100).await;
        self.stop.store(true, Ordering::Relaxed);
        let stood_still = self.standstill.await.unwrap();
        let load = self.clients.end().await;
        report(what, &load, Some(stood_still));
        let kept = group.has_all(self.index, &load).await;
        eprintln!("{kept} of {} in doubt were done", load.in_doubt);
        assert_eq!((&load.errors[..], &load.stale[..]), (&[][..], &[][..]));
        // The writer's commits in the moment of leaving.
        assert!(load.in_doubt <= WRITERS as usize, "{} statements in doubt", load.in_doubt);
        assert!(load.longest <= stood_still + ADDED_MAX, "{:?} against {stood_still:?}", load.longest);
    }
}

/// The writer's commits at the loss of its group are in doubt, and no other ones: the other members serve all who wait.
#[tokio::test]
async fn a_writer_that_is_cut_off_in_the_middle_leaves_in_doubt_what_it_commits_and_nothing_else() {
    let group = Group::start("").await;
    for round in 0..3 {
        let writer = group.writer().await.unwrap();
        let clients = Clients::start_at(&group.front, round * 1_000_000).await;
        clients.more(100).await;
        group.with(move |servers| servers.isolate(writer - 1, true).unwrap()).await;
        group.writer_other_than(writer).await;
        clients.more(100).await;
        group.let_back(writer - 1).await;
        clients.more(100).await;
        let load = clients.end().await;
        report("the writer is cut off, and comes back", &load, None);
        assert_eq!((&load.errors[..], &load.stale[..]), (&[][..], &[][..]));
        // As it was cut off, and as the group grew together.
        assert!(load.in_doubt <= 2 * WRITERS as usize, "{} in doubt", load.in_doubt);
        let kept = group.has_all(writer % 3, &load).await;
        eprintln!("{kept} of {} in doubt were done", load.in_doubt);
    }
}

#[tokio::test]
async fn a_writer_that_is_cut_off_serves_nobody() {
    let group = Group::start("").await;
    let mut idle = group.front.client().await;
    all(&mut idle, "INSERT INTO app.t VALUES (900, 1)").await;
    group.with(|servers| servers.isolate(0, true).unwrap()).await;
    group.writer_other_than(1).await;
    all(&mut idle, "INSERT INTO app.t VALUES (900, 2)").await;
    assert_eq!(value(&mut idle, "SELECT COUNT(*) FROM app.t WHERE client = 900").await, "2");
    assert_ne!(value(&mut idle, "/* sqluice: primary */ SELECT @@server_id").await, "1");
    // A session's setting for its reads follows it.
    all(&mut idle, "SET SESSION wsrep_sync_wait = 1").await;
    for server in ["db2", "db3"] {
        assert_eq!(value(&mut idle, &format!("/* sqluice: server={server} */ SELECT @@wsrep_sync_wait")).await, "1");
    }
    let metrics = group.front.metrics().await;
    assert_eq!(metrics.sum("sqluice_cluster_diagnosis", &["out_of_group"]), 1.0);
    group.let_back(0).await;
    // The group may have stood still once more as it grew together: who writes then is not the question.
    all(&mut idle, "INSERT INTO app.t VALUES (900, 3)").await;
    assert_eq!(value(&mut idle, "SELECT COUNT(*) FROM app.t WHERE client = 900").await, "3");
}

#[tokio::test]
async fn all_members_may_write_and_conflicts_are_tried_again() {
    let group = Group::start("writers = \"all\"").await;
    let where_it_is = "/* sqluice: primary */ SELECT @@server_id";
    let mut chosen = HashSet::new();
    for number in 0..12 {
        let mut client = group.front.client().await;
        all(&mut client, &format!("INSERT INTO app.t VALUES (700, {number})")).await;
        chosen.insert(value(&mut client, where_it_is).await);
    }
    assert!(chosen.len() > 1, "new sessions are spread: {chosen:?}");
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let mut client = group.front.client().await;
        tasks.push(tokio::spawn(async move {
            let mut servers = HashSet::new();
            for _ in 0..100 {
                client.query("UPDATE app.hot SET n = n + 1 WHERE id = 1").await.unwrap();
                let read = client.query_one(where_it_is).await.unwrap();
                servers.insert(read.scalar().unwrap().into_owned());
            }
            servers
        }));
    }
    let mut servers = HashSet::new();
    for task in tasks {
        let own = task.await.unwrap();
        // Its own, and the one where those gather that lost twice.
        assert!(own.len() <= 2, "a session keeps to its member: {own:?}");
        servers.extend(own);
    }
    let mut client = group.front.client().await;
    all(&mut client, "UPDATE app.hot SET n = n + 0 WHERE id = 1").await;
    assert_eq!(value(&mut client, "SELECT n FROM app.hot").await, "600", "each once");
    // The writer of a row does not matter: a read that must see all of it does.
    let (mut one, mut other) = (group.front.client().await, group.front.client().await);
    for n in 0..50 {
        all(&mut one, &format!("INSERT INTO app.t VALUES (800, {n})")).await;
        let sql =
            format!("/* sqluice: consistency=cluster */ SELECT COUNT(*) FROM app.t WHERE client = 800 AND n = {n}");
        assert_eq!(value(&mut other, &sql).await, "1");
    }
    let retries = group.front.metrics().await.sum("sqluice_server_retries_total", &[]);
    eprintln!("600 updates of one row by {} members, {retries} tried again", servers.len());
}

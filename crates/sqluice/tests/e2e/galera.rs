//! A real Galera group behind the program: its writer is killed, members are stopped, desynced, cut off or refuse, and
//! clients notice no more than the group's own standstill.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::{Galera, GaleraOptions, Server};
use net::client::Target;
use net::query::{Client, Limits, QueryError};
use tokio::task::JoinHandle;

use crate::support::{Front, all, app, blocking, until, value};

/// A lost member is given up after a second, not after five.
const QUICK: &str = "evs.keepalive_period=PT0.2S;evs.suspect_timeout=PT1S;evs.inactive_timeout=PT3S;\
                     evs.inactive_check_period=PT0.1S";
/// What Sqluice may add to the standstill of the group.
const ADDED_MAX: Duration = Duration::from_millis(300);
const WRITERS: i32 = 6;
const READERS: i32 = 4;

/// A group of this test's own, and the program in front of it.
struct Group {
    servers: Arc<Galera>,
    front: Front,
}

impl Group {
    async fn start(settings: &str) -> Group {
        let options = GaleraOptions {
            provider_options: QUICK.into(),
            init_sql: "CREATE TABLE app.t (client INT, n INT, PRIMARY KEY (client, n)); \
                       CREATE TABLE app.hot (id INT PRIMARY KEY, n INT); INSERT INTO app.hot VALUES (1, 0)"
                .into(),
            ..GaleraOptions::new(3)
        };
        let servers = Arc::new(blocking(move || Galera::start(&options).unwrap()).await);
        let addresses: Vec<String> = servers.servers().iter().map(|server| server.address().to_string()).collect();
        let front = Front::start_on(&addresses, |setup| {
            setup.kind = "galera";
            setup.cluster += &format!("\ngalera = {{ {settings} }}");
            setup.admin = "key = \"hush hush\"".into();
        })
        .await;
        front.knows(3).await;
        Group { servers, front }
    }

    async fn on<T: Send + 'static>(&self, index: usize, work: impl FnOnce(&Server) -> T + Send + 'static) -> T {
        let servers = self.servers.clone();
        blocking(move || work(servers.server(index))).await
    }

    async fn with<T: Send + 'static>(&self, work: impl FnOnce(&Galera) -> T + Send + 'static) -> T {
        let servers = self.servers.clone();
        blocking(move || work(&servers)).await
    }

    /// The number of the server that is the writer.
    async fn writer(&self) -> Option<usize> {
        let metrics = self.front.metrics().await;
        let is_primary = |number: &usize| {
            let server = format!("server=\"db{number}\"");
            metrics.sum("sqluice_server_role", &[&*server, "role=\"primary\""]) >= 1.0
        };
        (1..=3).find(is_primary)
    }

    async fn writer_other_than(&self, number: usize) -> usize {
        until("another writer", async || self.writer().await.filter(|writer| *writer != number)).await
    }

    /// Every acknowledged row is there once, whichever member is asked.
    async fn has_all(&self, index: usize, load: &Load) {
        let sql = "SET SESSION wsrep_sync_wait = 1; SELECT client, n FROM app.t";
        let rows = self.on(index, move |server| server.sql(sql).unwrap()).await;
        let row = |line: &str| {
            let (client, n) = line.split_once('\t').unwrap();
            (client.parse::<i32>().unwrap(), n.parse::<i32>().unwrap())
        };
        let kept: HashSet<(i32, i32)> = rows.lines().map(row).collect();
        let lost: Vec<_> = load.acknowledged.iter().filter(|row| !kept.contains(row)).collect();
        assert!(lost.is_empty(), "acknowledged, but not on db{}: {lost:?}", index + 1);
    }
}

/// What clients saw.
#[derive(Default)]
struct Load {
    acknowledged: Vec<(i32, i32)>,
    reads: u64,
    errors: Vec<String>,
    /// The outcome of the statement is not known: its server died behind it.
    in_doubt: usize,
    stale: Vec<String>,
    longest: Duration,
}

/// Clients that insert and read their own rows in single statements, and clients that only read.
struct Clients {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Load>>,
}

impl Clients {
    async fn start(group: &Group) -> Clients {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for number in 0..WRITERS + READERS {
            let mut client = group.front.client().await;
            let (stop, written, target) = (stop.clone(), written.clone(), group.front.target());
            tasks.push(tokio::spawn(async move {
                let mut load = Load::default();
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let begun = Instant::now();
                    let done = if number < WRITERS {
                        write_and_read(&mut client, number, n, &mut load).await
                    } else {
                        let read = client.query("SELECT COUNT(*) FROM app.hot").await.map(drop);
                        load.reads += u64::from(read.is_ok());
                        read.map_err(|error| error.to_string())
                    };
                    match done {
                        Ok(()) if number < WRITERS => {
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(()) => {}
                        Err(error) => {
                            if error.contains("not known") || error.contains("8007") {
                                load.in_doubt += 1;
                            } else {
                                load.errors.push(error);
                            }
                            client = Client::connect(&target, app(), Limits::default()).await.unwrap();
                        }
                    }
                    load.longest = load.longest.max(begun.elapsed());
                    assert!(load.errors.len() < 100, "{:?}", load.errors.last());
                }
                load
            }));
        }
        Clients { stop, written, tasks }
    }

    async fn more(&self, count: u64) {
        let goal = self.written.load(Ordering::Relaxed) + count;
        until("writes to go on", async || (self.written.load(Ordering::Relaxed) >= goal).then_some(())).await;
    }

    async fn end(self) -> Load {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Load::default();
        for task in self.tasks {
            let mut own = task.await.unwrap();
            sum.acknowledged.append(&mut own.acknowledged);
            sum.errors.append(&mut own.errors);
            sum.stale.append(&mut own.stale);
            sum.reads += own.reads;
            sum.in_doubt += own.in_doubt;
            sum.longest = sum.longest.max(own.longest);
        }
        sum
    }
}

/// Writes a row and looks for it: wherever the read goes, it must be there.
async fn write_and_read(client: &mut Client, number: i32, n: i32, load: &mut Load) -> Result<(), String> {
    let text = |error: QueryError| error.to_string();
    client.query(format!("INSERT INTO app.t VALUES ({number}, {n})")).await.map_err(text)?;
    load.acknowledged.push((number, n));
    let sql = format!("SELECT COUNT(*) FROM app.t WHERE client = {number} AND n = {n}");
    let found = client.query_one(sql).await.map_err(text)?;
    load.reads += 1;
    if found.scalar().as_deref() != Some("1") {
        load.stale.push(format!("client {number} does not see its row {n}"));
    }
    Ok(())
}

/// Writes directly on a member of the group until told to stop; the longest write is how long the group stood still.
fn standstill(group: &Group, index: usize, stop: Arc<AtomicBool>) -> JoinHandle<Duration> {
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
            client.query(format!("INSERT INTO app.t VALUES (-1, {n})")).await.unwrap();
            longest = longest.max(begun.elapsed());
        }
        longest
    })
}

fn report(what: &str, load: &Load, stood_still: Option<Duration>) {
    eprintln!(
        "{what}: {} writes, {} reads, {} errors, {} in doubt, the longest took {:?}; the group stood still for {:?}; \
         first error {:?}",
        load.acknowledged.len(),
        load.reads,
        load.errors.len(),
        load.in_doubt,
        load.longest,
        stood_still,
        load.errors.first()
    );
}

#[tokio::test]
async fn a_killed_writer_costs_no_more_than_the_standstill_of_the_group() {
    let group = Group::start("").await;
    assert_eq!(group.writer().await, Some(1), "the first by name");
    let clients = Clients::start(&group).await;
    clients.more(200).await;
    let stop = Arc::new(AtomicBool::new(false));
    let watch = standstill(&group, 2, stop.clone());
    clients.more(100).await;
    group.on(0, Server::kill9).await;
    let writer = group.writer_other_than(1).await;
    clients.more(200).await;
    stop.store(true, Ordering::Relaxed);
    let stood_still = watch.await.unwrap();
    // The old writer comes back, and nothing moves.
    group.with(|servers| servers.restart(0).unwrap()).await;
    group.front.knows(3).await;
    clients.more(200).await;
    // The one that served it as a donor may have handed over meanwhile.
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
    let clients = Clients::start(&group).await;
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
    // The writer is stopped in good order.
    group.on(third - 1, |server| server.stop().unwrap()).await;
    let fourth = group.writer_other_than(third).await;
    clients.more(100).await;
    group.with(move |servers| servers.restart(third - 1).unwrap()).await;
    group.front.knows(3).await;
    clients.more(100).await;
    assert_ne!(group.writer().await, Some(third));
    let load = clients.end().await;
    report("desync, reject, stop", &load, None);
    assert_eq!((&load.errors[..], &load.stale[..], load.in_doubt), (&[][..], &[][..], 0));
    assert!(load.longest < Duration::from_secs(2), "{:?}", load.longest);
    group.has_all(fourth - 1, &load).await;
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
    // What a session asks of its reads goes with it.
    all(&mut idle, "SET SESSION wsrep_sync_wait = 1").await;
    for server in ["db2", "db3"] {
        assert_eq!(value(&mut idle, &format!("/* sqluice: server={server} */ SELECT @@wsrep_sync_wait")).await, "1");
    }
    let metrics = group.front.metrics().await;
    assert_eq!(metrics.sum("sqluice_cluster_diagnosis", &["out_of_group"]), 1.0);
    group.with(|servers| servers.isolate(0, false).unwrap()).await;
    group.front.knows(3).await;
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
    // Whoever wrote it, and wherever: a read that must see all of it does.
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

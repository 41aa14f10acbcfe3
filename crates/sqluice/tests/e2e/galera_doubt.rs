//! A Galera group whose members write binary logs: what became of a write that a lost member did not answer is found there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::{GaleraOptions, Server};
use net::client::Target;
use net::query::{Client, Limits, QueryError};
use tokio::task::JoinHandle;

use crate::galera::{Group, QUICK};
use crate::in_doubt::Mute;
use crate::support::{Front, all, app, until, value};

/// Clients at work.
const CLIENTS: usize = 16;
/// Stops of the writer, and kills.
const ROUNDS: usize = 2;
/// With these settings members tell what became of a write.
const LOGS: [&str; 4] = ["log_bin=binlog", "log_slave_updates=ON", "wsrep_gtid_mode=ON", "wsrep_gtid_domain_id=7"];

async fn start(provider_options: &str, ways: impl AsyncFnOnce(Vec<String>) -> Vec<String>) -> Group {
    let options = GaleraOptions {
        provider_options: provider_options.into(),
        config: LOGS.map(str::to_owned).to_vec(),
        init_sql: "CREATE TABLE app.t (client INT, n INT, PRIMARY KEY (client, n)); \
                   CREATE TABLE app.counter (client INT PRIMARY KEY, n INT); INSERT INTO app.counter VALUES (100, 0), (101, 0)"
            .into(),
        ..GaleraOptions::new(3)
    };
    let account = format!("replication = {{ user = \"{}\", password = \"{}\" }}", lab::REPL_USER, lab::REPL_PASSWORD);
    Group::start_on(options, ways, |setup| setup.cluster += &format!("\n{account}")).await
}

/// The statements of one client, and the replies.
#[derive(Default)]
struct Done {
    /// Rows, and how often its counter was counted up.
    rows: Vec<i32>,
    counted: i32,
    errors: Vec<String>,
    longest: Duration,
}

/// Clients that each insert rows of their own and count up a counter of their own: what is done twice, or not at all, shows.
struct Load {
    stop: Arc<AtomicBool>,
    /// The rows that each client has written.
    written: Arc<Vec<AtomicU64>>,
    clients: Vec<JoinHandle<Done>>,
}

impl Load {
    async fn start(front: &Front) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let written: Arc<Vec<AtomicU64>> = Arc::new((0..CLIENTS).map(|_| AtomicU64::new(0)).collect());
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let mut client = front.client().await;
            all(&mut client, &format!("INSERT INTO app.counter VALUES ({number}, 0)")).await;
            let (stop, written) = (stop.clone(), written.clone());
            clients.push(tokio::spawn(async move {
                let mut done = Done::default();
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let begun = Instant::now();
                    if let Err(error) = work(&mut client, number, n, &mut done).await {
                        done.errors.push(error.to_string());
                        assert!(done.errors.len() < 10, "{:?}", done.errors);
                    }
                    done.longest = done.longest.max(begun.elapsed());
                    written[number].fetch_add(1, Ordering::Relaxed);
                }
                done
            }));
        }
        Load { stop, written, clients }
    }

    /// Waits until all of them together have done so much more, and each of them something.
    async fn more(&self, count: u64) {
        let now = || -> Vec<u64> { self.written.iter().map(|done| done.load(Ordering::Relaxed)).collect() };
        let before = now();
        let goal = before.iter().sum::<u64>() + count;
        until("writes to go on", async || {
            let done = now();
            let each = done.iter().zip(&before).all(|(done, before)| done > before);
            (each && done.iter().sum::<u64>() >= goal).then_some(())
        })
        .await;
    }

    async fn end(self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for client in self.clients {
            all.push(client.await.unwrap());
        }
        all
    }
}

/// One piece of work, in one of three forms.
async fn work(client: &mut Client, number: usize, n: i32, done: &mut Done) -> Result<(), QueryError> {
    let insert = format!("INSERT INTO app.t VALUES ({number}, {n})");
    let count = format!("UPDATE app.counter SET n = n + 1 WHERE client = {number}");
    match n % 3 {
        0 => assert_eq!(client.query_one(&*insert).await?.affected, 1),
        1 => assert_eq!(client.query_one(&*count).await?.affected, 1),
        _ => {
            for sql in ["BEGIN", &insert, &count, "COMMIT"] {
                client.query(sql).await?;
            }
        }
    }
    if n % 3 != 1 {
        done.rows.push(n);
    }
    done.counted += i32::from(n % 3 != 0);
    Ok(())
}

/// Each client's rows and counter on a member.
async fn kept(group: &Group, index: usize) -> HashMap<usize, (Vec<i32>, i32)> {
    let sql = "SET SESSION wsrep_sync_wait = 1, group_concat_max_len = 100000000; \
               SELECT c.client, c.n, GROUP_CONCAT(t.n ORDER BY t.n) FROM app.counter c JOIN app.t t USING (client) \
               GROUP BY 1, 2";
    let text = group.on(index, |server| server.sql(sql).unwrap()).await;
    let line = |line: &str| {
        let mut parts = line.split('\t');
        let mut next = || parts.next().unwrap();
        let (client, counted) = (next().parse().unwrap(), next().parse().unwrap());
        (client, (next().split(',').map(|n| n.parse().unwrap()).collect(), counted))
    };
    text.lines().map(line).collect()
}

/// Ends the writer again and again under load.
async fn end_the_writer(how: fn(&Server)) {
    let group = start("", async |addresses| addresses).await;
    let load = Load::start(&group.front).await;
    for _ in 0..ROUNDS {
        load.more(500).await;
        let writer = group.writer().await.unwrap();
        group.on(writer - 1, how).await;
        group.writer_other_than(writer).await;
        load.more(500).await;
        group.with(move |servers| servers.restart(writer - 1).unwrap()).await;
        group.front.knows(3).await;
    }
    load.more(500).await;
    all_was_done_once(&group, load).await;
}

/// Ends the load, and looks that each client's writes were done once.
async fn all_was_done_once(group: &Group, load: Load) {
    let done = load.end().await;
    let log = group.front.log();
    let proofs = |what: &str| log.lines().filter(|line| line.contains("never answered") && line.contains(what)).count();
    eprintln!(
        "{ROUNDS} times: {} were done, {} not, {} are in doubt; the longest took {:?}",
        proofs("Done"),
        proofs("NotDone"),
        proofs("Unknown"),
        done.iter().map(|done| done.longest).max(),
    );
    let errors: Vec<_> = done.iter().flat_map(|done| &done.errors).collect();
    assert!(errors.is_empty(), "{errors:?}");
    for index in 0..3 {
        let kept = kept(group, index).await;
        for (number, done) in done.iter().enumerate() {
            assert_eq!(kept[&number], (done.rows.clone(), done.counted), "client {number} on db{}", index + 1);
        }
    }
}

#[tokio::test]
async fn nothing_is_in_doubt_behind_stops_of_the_writer() {
    end_the_writer(|server| server.stop().unwrap()).await;
}

#[tokio::test]
async fn nothing_is_in_doubt_behind_kills_of_the_writer() {
    end_the_writer(Server::kill9).await;
}

/// All members lose one another, and grow together as they were: no view without the writer ever tells what became of its writes.
#[tokio::test]
async fn nothing_is_in_doubt_behind_a_group_that_lost_itself() {
    let group = start(QUICK, async |addresses| addresses).await;
    let load = Load::start(&group.front).await;
    for _ in 0..ROUNDS {
        load.more(500).await;
        let isolate = async |on: bool| {
            let each = move |servers: &lab::Galera| (0..3).for_each(|index| servers.isolate(index, on).unwrap());
            group.with(each).await;
        };
        isolate(true).await;
        for index in 0..3 {
            let sql = "SHOW STATUS LIKE 'wsrep_cluster_status'";
            until("each to be alone", async || {
                group.on(index, |server| server.sql(sql).unwrap()).await.contains("non-Primary").then_some(())
            })
            .await;
        }
        isolate(false).await;
        for index in 0..3 {
            group.let_back(index).await;
        }
        load.more(500).await;
    }
    all_was_done_once(&group, load).await;
}

/// A client of a member itself, past the program, that holds the locks of these counters.
async fn locker(group: &Group, counters: &str) -> Client {
    let address = group.servers.server(0).address().to_string().parse().unwrap();
    let target = Target::plain(address, Duration::from_secs(60));
    let mut client = Client::connect(&target, app(), Limits::default()).await.unwrap();
    let sql = format!("SELECT * FROM app.counter WHERE client IN ({counters}) FOR UPDATE");
    all(&mut client, "BEGIN").await;
    all(&mut client, &sql).await;
    client
}

/// Waits until so many statements with these words run on the first member.
async fn running(group: &Group, words: &'static str, count: usize) {
    until("statements to run", async || {
        let list = group.on(0, |server| server.sql("SHOW FULL PROCESSLIST").unwrap()).await;
        (list.matches(words).count() == count).then_some(())
    })
    .await;
}

/// Positions are remembered once a second: what was written before must be older than one.
async fn a_second_passes() {
    let before = Instant::now();
    until("a second to pass", async || (before.elapsed().as_millis() > 1300).then_some(())).await;
}

#[tokio::test]
async fn what_a_killed_member_did_is_answered_and_what_it_did_not_is_done() {
    let mut mute = None;
    let group = start(QUICK, async |mut addresses| {
        let way = Mute::start(addresses[0].parse().unwrap()).await;
        addresses[0] = way.address.to_string();
        mute = Some(way);
        addresses
    })
    .await;
    let mute = mute.unwrap();
    a_second_passes().await;
    let _locker = locker(&group, "100").await;
    let (mut waits, mut writes, mut commits) =
        (group.front.client().await, group.front.client().await, group.front.client().await);
    // Each has a connection to the writer: none is made any more when nothing comes back.
    for client in [&mut waits, &mut writes] {
        all(client, "UPDATE app.counter SET n = n + 0 WHERE client = 101").await;
    }
    all(&mut commits, "BEGIN").await;
    all(&mut commits, "INSERT INTO app.t VALUES (1, 1)").await;
    let waits = tokio::spawn(async move {
        waits.query_one("UPDATE app.counter SET n = n + 1 WHERE client = 100").await.map(|result| result.affected)
    });
    running(&group, "n = n + 1 WHERE client = 100", 1).await;
    mute.on.store(true, Ordering::SeqCst);
    let writes = tokio::spawn(async move {
        writes.query_one("UPDATE app.counter SET n = n + 1 WHERE client = 101").await.map(|result| result.affected)
    });
    let commits = tokio::spawn(async move { commits.query("COMMIT").await.map(drop) });
    until("what was written to be on another member", async || {
        let sql = "SELECT (SELECT n FROM app.counter WHERE client = 101), (SELECT COUNT(*) FROM app.t)";
        let text = group.on(1, move |server| server.sql(sql).unwrap()).await;
        (text.trim() == "1\t1").then_some(())
    })
    .await;
    group.on(0, Server::kill9).await;
    assert_eq!(waits.await.unwrap().unwrap(), 1);
    assert_eq!(writes.await.unwrap().unwrap(), 1);
    commits.await.unwrap().unwrap();
    let mut client = group.front.client().await;
    let counters = "SELECT GROUP_CONCAT(client, ':', n ORDER BY client) FROM app.counter";
    assert_eq!(value(&mut client, counters).await, "100:1,101:1", "each once");
    assert_eq!(value(&mut client, "SELECT COUNT(*) FROM app.t").await, "1");
    assert_eq!(group.front.metrics().await.sum("sqluice_statements_in_doubt_total", &[]), 0.0);
}

/// A member that is cut off keeps its sessions, and goes on with them when it comes back.
#[tokio::test]
async fn what_a_member_that_is_cut_off_still_works_on_is_not_done_elsewhere() {
    let group = start(QUICK, async |addresses| addresses).await;
    a_second_passes().await;
    let mut locker = locker(&group, "100").await;
    let mut waits = group.front.client().await;
    let waits = tokio::spawn(async move {
        let error = waits.query("UPDATE app.counter SET n = n + 1 WHERE client = 100").await.unwrap_err();
        (waits, error.to_string())
    });
    running(&group, "n = n + 1 WHERE client = 100", 1).await;
    group.with(|servers| servers.isolate(0, true).unwrap()).await;
    group.writer_other_than(1).await;
    let (mut client, error) = waits.await.unwrap();
    assert!(error.contains("the member may still work on it"), "{error}");
    group.let_back(0).await;
    all(&mut locker, "ROLLBACK").await;
    running(&group, "n = n + 1 WHERE client = 100", 0).await;
    let counted = value(&mut client, "SELECT n FROM app.counter WHERE client = 100").await;
    eprintln!("behind the member's return the counter is at {counted}");
    assert!(matches!(&*counted, "0" | "1"), "{counted}");
}

//! Servers die, freeze and change places while reads of many sessions are outstanding on shared connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::{Family, Server};
use net::client::Target;
use net::query::{Client, Limits, Parameter};
use tokio::task::JoinSet;

use super::{Cluster, command, status};
use crate::support::{Front, app, blocking, has_mysql, until};

/// Clients of each listener.
const CLIENTS: u64 = 10;
const ROWS: u64 = 200;
/// A read may wait for a failover, and its client waits for it longer than Sqluice does.
const LIMITS: Limits = Limits { reply_bytes_max: 1 << 20, timeout: Duration::from_secs(60) };

/// Clients that read their own rows. An error or a wrong row fails the test.
struct Readers {
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    tasks: JoinSet<Duration>,
}

impl Readers {
    /// Reads of the second listener go to the primary.
    async fn start(front: &Front) -> Readers {
        let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for me in 0..2 * CLIENTS {
            let address = front.listener(if me < CLIENTS { "app" } else { "primary" });
            let target = Target::plain(address.parse().unwrap(), LIMITS.timeout);
            let client = Client::connect(&target, app(), LIMITS).await.unwrap();
            tasks.spawn(read_own(client, me, stop.clone(), reads.clone()));
        }
        Readers { stop, reads, tasks }
    }

    async fn more(&mut self, count: u64) {
        let goal = self.reads.load(Ordering::Relaxed) + count;
        until("reads to go on", async || {
            if let Some(ended) = self.tasks.try_join_next() {
                panic!("a client ended early: {ended:?}");
            }
            (self.reads.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Gives the number of reads, and the time of the longest.
    async fn end(mut self) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let mut longest = Duration::ZERO;
        while let Some(ended) = self.tasks.join_next().await {
            longest = longest.max(ended.unwrap());
        }
        (self.reads.load(Ordering::Relaxed), longest)
    }
}

async fn read_own(mut client: Client, me: u64, stop: Arc<AtomicBool>, reads: Arc<AtomicU64>) -> Duration {
    let prepared = client.prepare("SELECT n, t, ? FROM piped WHERE n = ?").await.unwrap();
    let mut longest = Duration::ZERO;
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (n, mark, begun) = ((me * 31 + round) % ROWS, format!("{me}-{round}"), Instant::now());
        let result = if round % 2 == 0 {
            // It takes a while, so that some are outstanding on each server at any time.
            client.query(format!("SELECT n, t, '{mark}', SLEEP(0.005) FROM piped WHERE n = {n}")).await
        } else {
            client.execute(&prepared, &[mark.as_str().into(), Parameter::Int(n as i64)]).await
        };
        let rows = result.unwrap_or_else(|error| panic!("{mark}: {error}")).remove(0).rows;
        assert_eq!(rows.len(), 1, "{mark}");
        let row: Vec<_> = rows[0].iter().map(|value| String::from_utf8_lossy(value.as_deref().unwrap())).collect();
        assert_eq!(row[..3], [n.to_string(), format!("text {n}"), mark]);
        reads.fetch_add(1, Ordering::Relaxed);
        longest = longest.max(begun.elapsed());
    }
    longest
}

/// The program in front of a cluster that has the table; another listener sends all reads to the primary.
async fn start(cluster: &Cluster) -> Front {
    let rows: Vec<String> = (0..ROWS).map(|n| format!("({n}, 'text {n}')")).collect();
    let sql = format!(
        "CREATE TABLE app.piped (n INT PRIMARY KEY, t VARCHAR(40)); INSERT INTO app.piped VALUES {}",
        rows.join(",")
    );
    let servers = cluster.servers().clone();
    blocking(move || {
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(Duration::from_secs(60)).unwrap();
    })
    .await;
    cluster
        .front_changed("", |setup| {
            setup.listener = "pipelines = \"always\"".into();
            setup.pool = "pipeline_time_ms = 50".into();
            setup.more = "[listener.primary]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nsplit = \"primary\"\n\
                          pipelines = \"always\"\n"
                .into();
        })
        .await
}

/// Waits until reads share connections to a server.
async fn are_shared(front: &Front, server: &str) {
    let label = format!("server=\"{server}\"");
    let shared = async || front.metrics().await.sum("sqluice_pipelined_reads_total", &[&label]);
    let before = shared().await;
    until("reads on pipelines", async || (shared().await > before).then_some(())).await;
}

async fn check(family: Family) {
    let cluster = Cluster::start(family).await;
    let front = start(&cluster).await;
    let mut readers = Readers::start(&front).await;
    readers.more(500).await;
    for server in ["db1", "db2", "db3"] {
        are_shared(&front, server).await;
    }
    let reported = command(&front, &["switchover", "--to", "db2"]).await.output();
    assert!(reported.contains("primary is db2"), "{reported}");
    readers.more(500).await;
    front.knows(2).await;
    are_shared(&front, "db1").await;

    cluster.on(2, Server::kill9).await;
    readers.more(500).await;
    cluster.on(2, |server| server.restart().unwrap()).await;
    front.knows(2).await;
    are_shared(&front, "db3").await;

    // Nothing says that its replies will not come.
    cluster.on(2, |server| server.freeze().unwrap()).await;
    readers.more(500).await;
    cluster.on(2, |server| server.thaw().unwrap()).await;
    front.knows(2).await;
    are_shared(&front, "db3").await;

    are_shared(&front, "db2").await;
    cluster.on(1, Server::kill9).await;
    until("another primary", async || {
        let page = status(&front).await;
        (page["primary"].is_string() && page["primary"] != "db2").then_some(())
    })
    .await;
    readers.more(500).await;
    let (reads, longest) = readers.end().await;
    let metrics = front.metrics().await;
    let again = |reason: &str| metrics.sum("sqluice_unpipelined_reads_total", &[&format!("reason=\"{reason}\"")]);
    let shared = metrics.sum("sqluice_pipelined_reads_total", &[]);
    // A server that takes its time to die makes a read long first: that one has the connection for itself when it is lost, and those
    // behind it run again on other pipelines.
    let lost = again("lost") + again("behind_long") + metrics.sum("sqluice_server_retries_total", &[]);
    eprintln!(
        "{family:?}: {reads} reads, {shared} on shared connections, {lost} ran again on another; no error, \
         no wrong row; the longest took {longest:?}"
    );
    assert!(shared > reads as f64 / 2.0, "only {shared} of {reads}");
    assert!(lost > 0.0, "no read was outstanding when a server died");
}

#[tokio::test]
async fn reads_on_shared_connections_live_through_failovers() {
    check(Family::MariaDb).await;
}

#[tokio::test]
async fn reads_on_shared_connections_live_through_failovers_mysql() {
    if has_mysql() {
        check(Family::MySql).await;
    }
}

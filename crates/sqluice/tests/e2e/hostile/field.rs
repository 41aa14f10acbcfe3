//! Where a hostile peer meets the program: one worker, a server for the peer, and a neighbour with a server of its own.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::Stream;
use net::client::Target;
use net::query::{self, Client, Limits};
use testkit::Server;
use wire::auth::Credential;
use wire::handshake::client::LoginRequest;

use crate::support::{Front, Metrics, Setup, until};

/// The neighbour may be slowed down by a busy machine, but not by the peer.
const NEIGHBOUR_MAX: Duration = Duration::from_secs(5);
/// Memory for what is not the peer's: buffers that threads make at their first use.
const MEMORY_FREE_KB: u64 = 8 * 1024;

/// One row of the table of figures.
struct Row {
    what: String,
    peak_kb: u64,
    bound_kb: u64,
    answers: u64,
    slowest: Duration,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// A client that asks for one thing after the other, on a thread of its own.
pub struct Neighbour {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    thread: JoinHandle<Duration>,
}

impl Neighbour {
    /// At this address, from now on.
    pub fn start(address: String) -> Neighbour {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, answers) = (stop.clone(), answers.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut client = client(&address).await;
                    let mut slowest = Duration::ZERO;
                    while !stop.load(Ordering::Relaxed) {
                        let begun = Instant::now();
                        let answer = client.query_one("SELECT 1").await.unwrap_or_else(|error| panic!("{error}"));
                        assert_eq!(answer.scalar().as_deref(), Some("1"));
                        slowest = slowest.max(begun.elapsed());
                        answers.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    slowest
                })
            }
        });
        Neighbour { stop, answers, thread }
    }

    /// Waits until it has so many answers.
    pub async fn has_answers(&self, answers: u64) {
        until("the neighbour's answers", async || (self.answers.load(Ordering::Relaxed) >= answers).then_some(()))
            .await;
    }

    /// Its slowest answer, after its last one.
    pub fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The program between a hostile peer and its neighbour.
pub struct Field {
    what: &'static str,
    pub front: Front,
    pub server: Server,
    calm: Server,
    neighbour: Neighbour,
    before_kb: u64,
    files: usize,
}

/// The login of everybody here.
pub fn login() -> LoginRequest {
    query::login("app", Credential::password("secret"))
}

async fn client(address: &str) -> Client {
    let target = Target::plain(address.parse().unwrap(), Duration::from_secs(30));
    let limits = Limits { timeout: Duration::from_secs(30), ..Limits::default() };
    Client::connect(&target, login(), limits).await.unwrap_or_else(|error| panic!("{error}"))
}

/// A connection in its command phase, to write what one likes to.
pub async fn raw_login(address: &str) -> Stream {
    let target = Target::plain(address.parse().unwrap(), Duration::from_secs(30));
    net::client::connect(&target, login()).await.unwrap_or_else(|error| panic!("{error}")).stream
}

impl Field {
    /// Starts all; the scripted server is known, or known to be no use, when it returns.
    pub async fn start(what: &'static str, server: Server, listener: &str) -> Field {
        Field::start_with(what, server, listener, "").await
    }

    /// The same with more for the pool.
    pub async fn start_with(what: &'static str, server: Server, listener: &str, pool: &str) -> Field {
        Field::start_changed(what, server, |setup| {
            setup.listener = listener.into();
            setup.pool = pool.into();
        })
        .await
    }

    /// The same with any change to the configuration.
    pub async fn start_changed(what: &'static str, server: Server, change: impl FnOnce(&mut Setup)) -> Field {
        let calm = Server::usual();
        let more = format!(
            "[cluster.calm]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"p\", heartbeat = \"off\" }}\n\
             tls = {{ mode = \"disabled\" }}\nservers.db1 = {{ address = \"{}\" }}\n\
             [listener.calm]\naddress = \"127.0.0.1:0\"\ncluster = \"calm\"\n[user.app]\npassword = \"secret\"\n",
            calm.address()
        );
        let front = Front::start_on(&[server.address().to_string()], |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            setup.monitor += "\nheartbeat = \"off\"\ntimeout_ms = 500";
            setup.more = more;
            change(setup);
        })
        .await;
        until("the neighbour's cluster to serve", async || {
            let primary = front.metrics().await.sum("sqluice_cluster_has_primary", &["cluster=\"calm\""]);
            (primary == 1.0).then_some(())
        })
        .await;
        let neighbour = Neighbour::start(front.listener("calm"));
        until("the neighbour's first answers", async || (neighbour.answers.load(Ordering::Relaxed) > 20).then_some(()))
            .await;
        let pid = front.pid();
        let field =
            Field { what, server, calm, neighbour, before_kb: memory_kb(pid, "VmRSS"), files: files(pid), front };
        // From here on VmHWM is the peak of what follows.
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        field
    }

    /// Waits until the peer's own cluster serves.
    pub async fn serves(&self) {
        until("the peer's cluster to serve", async || {
            let primary = self.front.metrics().await.sum("sqluice_cluster_has_primary", &["cluster=\"main\""]);
            (primary == 1.0).then_some(())
        })
        .await;
    }

    /// Where the neighbour's server is, for a neighbour that goes there directly.
    pub fn calm_address(&self) -> String {
        self.calm.address().to_string()
    }

    /// A well-behaved client of the peer's cluster.
    pub async fn client(&self) -> Client {
        client(&self.front.address).await
    }

    /// The growth of the program's memory since the start, in KiB.
    pub fn grown_kb(&self) -> u64 {
        memory_kb(self.front.pid(), "VmRSS").saturating_sub(self.before_kb)
    }

    /// Waits until the neighbour has so many answers more.
    pub async fn neighbour_goes_on(&self, answers: u64) {
        let goal = self.neighbour.answers.load(Ordering::Relaxed) + answers;
        until("the neighbour to go on", async || {
            (self.neighbour.answers.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// The peer is gone: nothing of it is left, and in all that time no more memory than this was taken.
    pub async fn end(self, bound_kb: u64) {
        self.neighbour_goes_on(20).await;
        let clean = async |metrics: &Metrics| {
            metrics.sum("sqluice_sessions", &[]) == 1.0
                && metrics.sum("sqluice_server_connections", &["cluster=\"main\"", "state=\"used\""]) == 0.0
                && metrics.sum("sqluice_pool_waiting_statements", &[]) == 0.0
                && metrics.sum("sqluice_held_statements", &[]) == 0.0
                && metrics.pins().is_empty()
        };
        let (pid, before) = (self.front.pid(), self.files);
        let mut now = 0;
        let begun = Instant::now();
        loop {
            let metrics = self.front.metrics().await;
            now = files(pid).min(if now == 0 { usize::MAX } else { now });
            // Idle connections to the peer's server, the monitor's and this test's own HTTP ones may stay.
            if clean(&metrics).await && files(pid) <= before + 16 + self.server.open() {
                break;
            }
            let left = format!(
                "{} sessions, {} used connections, pins {:?}, {now} files instead of {before}",
                metrics.sum("sqluice_sessions", &[]),
                metrics.sum("sqluice_server_connections", &["cluster=\"main\"", "state=\"used\""]),
                metrics.pins()
            );
            assert!(begun.elapsed() < Duration::from_secs(20), "{}: left behind: {left}", self.what);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.neighbour.stop.store(true, Ordering::Relaxed);
        let answers = self.neighbour.answers.load(Ordering::Relaxed);
        let slowest = self.neighbour.thread.join().unwrap();
        let peak_kb = memory_kb(pid, "VmHWM").saturating_sub(self.before_kb);
        let log = self.front.log();
        assert!(!log.contains("panicked"), "{}: {log}", self.what);
        let bound_kb = bound_kb + MEMORY_FREE_KB;
        let row = Row { what: self.what.into(), peak_kb, bound_kb, answers, slowest };
        show(row);
        assert!(peak_kb <= bound_kb, "{}: {peak_kb} KiB were taken, {bound_kb} KiB allowed", self.what);
        assert!(slowest < NEIGHBOUR_MAX, "{}: the neighbour waited {slowest:?}", self.what);
    }
}

/// Prints the table so far; past the test harness, which keeps what good tests print to itself.
fn show(row: Row) {
    let mut rows = ROWS.lock().unwrap();
    match rows.iter_mut().find(|other| other.what == row.what) {
        Some(other) => {
            other.peak_kb = other.peak_kb.max(row.peak_kb);
            other.answers += row.answers;
            other.slowest = other.slowest.max(row.slowest);
        }
        None => rows.push(row),
    }
    rows.sort_by(|a, b| a.what.cmp(&b.what));
    let mut text = String::from(
        "| hostile peer | memory it took | bound | neighbour's slowest answer (answers) |\n|---|---|---|---|\n",
    );
    for row in rows.iter() {
        let (peak, bound) = (row.peak_kb as f64 / 1024.0, row.bound_kb / 1024);
        let slowest = row.slowest.as_micros() as f64 / 1000.0;
        text += &format!("| {} | {peak:.1} MiB | {bound} MiB | {slowest:.1} ms ({}) |\n", row.what, row.answers);
    }
    let _ = std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/hostile.md"), &text);
    if rows.len() == super::SCENARIOS {
        let _ = std::io::stderr().lock().write_all(format!("\n{text}").as_bytes());
    }
}

fn memory_kb(pid: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

//! A load of our own, for what sysbench and mysqlslap cannot do: thousands of clients, percentiles, clients that connect
//! for each query, large rows, TLS with any proxy.

mod caller;

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use tokio::sync::{Semaphore, watch};
use tokio::task::LocalSet;

use crate::figures::Latency;
use crate::histogram::Histogram;
use crate::stop;
use caller::{Caller, Endpoint};

/// Clients of a thread that log in at a time.
const LOGINS_AT_A_TIME: usize = 64;
/// Longest time until all clients are there.
const CONNECT_LIMIT: Duration = Duration::from_secs(180);
/// Longest time that a query may take beyond the end of the measurement.
const LAST_LIMIT: Duration = Duration::from_secs(30);
/// Between two kills in the load that has them.
const KILL_PAUSE: Duration = Duration::from_millis(10);
/// How often threads look for signals.
const POLL: Duration = Duration::from_millis(50);

/// The statements of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// A row of sysbench's tables, by its key.
    Point,
    /// The same, prepared.
    Prepared,
    /// Rows of a megabyte each.
    Large,
    /// One of 1,000 rows of these tables.
    Hot,
    /// A join or an aggregate over these tables, one of 160.
    Costly,
    /// A row by its key; of 100 queries 5 take 50 ms, and one has a reply of a megabyte. Queries are killed.
    Mix,
}

/// The work of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// How many there are.
    pub(crate) clients: u32,
    /// On how many threads.
    pub(crate) threads: u32,
    /// Not measured: until all have their place in the queue.
    pub(crate) warm_up: Duration,
    /// Measured; zero if clients only ask once and then wait.
    pub(crate) measured: Duration,
    /// Their statements.
    pub(crate) query: Query,
    /// Between two queries of a client: twice as long at most, and so long on average.
    pub(crate) pause: Duration,
    /// They connect for each query.
    pub(crate) reconnect: bool,
    /// They speak TLS, without resuming sessions.
    pub(crate) tls: bool,
}

impl Work {
    /// Clients on one thread that ask again as soon as they have their answer. They are measured for so many seconds.
    pub(crate) fn steady(clients: u32, query: Query, warm_up: Duration, seconds: u32) -> Work {
        Work {
            clients,
            threads: 1,
            warm_up,
            measured: Duration::from_secs(seconds.into()),
            query,
            pause: Duration::ZERO,
            reconnect: false,
            tls: false,
        }
    }
}

/// The counts of all clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Queries that ended in the measured time.
    pub(crate) queries: u64,
    /// Errors of clients. Each ends its client.
    pub(crate) errors: u64,
    /// One of them.
    pub(crate) error: Option<String>,
    /// Bytes of replies in the measured time.
    pub(crate) bytes: u64,
    /// Nanoseconds of each short query (with its connection, where each has one) that began in the measured time.
    latencies: Histogram,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.queries += other.queries;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.error = self.error.take().or(other.error);
        self.latencies.add(&other.latencies);
    }

    /// Percentiles; `None` when nothing was measured.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let us = |share| self.latencies.per_mille(share).map(|ns| ns as f64 / 1e3);
        Some(Latency { p50_us: us(500)?, p95_us: us(950)?, p99_us: us(990)?, p999_us: us(999)? })
    }
}

/// When it is measured.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Instant,
    end: Instant,
}

/// The counts of one thread.
enum News {
    /// All of its clients are there.
    Ready,
    /// It is over.
    Over(anyhow::Result<Outcome>),
}

impl Work {
    /// Runs it. `on_begin` and `on_end` are called when the measured time begins and ends; clients are there at both.
    ///
    /// # Errors
    /// Clients cannot connect, or a signal asked for an end.
    pub(crate) fn run(
        &self,
        address: SocketAddr,
        on_begin: impl FnOnce() -> anyhow::Result<()>,
        on_end: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Outcome> {
        let threads = self.threads.clamp(1, self.clients.max(1));
        let (window, windows) = watch::channel(None);
        let (news, heard) = mpsc::channel();
        thread::scope(|scope| {
            for number in 0..threads {
                let clients = self.clients / threads + u32::from(number < self.clients % threads);
                let (windows, news) = (windows.clone(), news.clone());
                scope.spawn(move || {
                    let outcome = self.one_thread(address, clients, number, windows, &news);
                    // Nobody listens any more when another thread has failed.
                    let _ = news.send(News::Over(outcome));
                });
            }
            drop((windows, news));
            let outcome = self.watch(threads, &window, &heard, on_begin, on_end);
            // Threads that still wait are let go.
            drop(window);
            outcome
        })
    }

    fn watch(
        &self,
        threads: u32,
        window: &watch::Sender<Option<Window>>,
        heard: &mpsc::Receiver<News>,
        on_begin: impl FnOnce() -> anyhow::Result<()>,
        on_end: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Outcome> {
        let mut ready = 0;
        let deadline = Instant::now() + CONNECT_LIMIT;
        while ready < threads {
            stop::check()?;
            match heard.recv_timeout(POLL) {
                Ok(News::Ready) => ready += 1,
                Ok(News::Over(outcome)) => {
                    bail!("clients ended early: {}", outcome.err().unwrap_or_else(|| anyhow!("?")))
                }
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(error) => bail!("{} clients were not there after {CONNECT_LIMIT:?}: {error}", self.clients),
            }
        }
        let begin = Instant::now() + self.warm_up;
        let end = begin + self.measured;
        if !self.measured.is_zero() {
            window.send_replace(Some(Window { begin, end }));
        }
        wait_until(begin)?;
        on_begin()?;
        wait_until(end)?;
        on_end()?;
        window.send_replace(Some(Window { begin, end }));
        let mut sum = Outcome::default();
        for _ in 0..threads {
            match heard.recv_timeout(LAST_LIMIT + CONNECT_LIMIT) {
                Ok(News::Over(outcome)) => sum.add(outcome?),
                Ok(News::Ready) => {}
                Err(error) => bail!("a thread of clients did not end: {error}"),
            }
        }
        Ok(sum)
    }

    fn one_thread(
        &self,
        address: SocketAddr,
        clients: u32,
        number: u32,
        windows: watch::Receiver<Option<Window>>,
        news: &mpsc::Sender<News>,
    ) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        let local = LocalSet::new();
        let result = local.block_on(&runtime, self.all_clients(address, clients, number, windows, news));
        drop(local);
        runtime.shutdown_background();
        result
    }

    async fn all_clients(
        &self,
        address: SocketAddr,
        clients: u32,
        number: u32,
        windows: watch::Receiver<Option<Window>>,
        news: &mpsc::Sender<News>,
    ) -> anyhow::Result<Outcome> {
        let logins = std::rc::Rc::new(Semaphore::new(LOGINS_AT_A_TIME));
        let endpoint = std::rc::Rc::new(Endpoint::new(address, self.tls));
        let mut connecting = tokio::task::JoinSet::new();
        for client in 0..clients {
            let (logins, endpoint, query) = (logins.clone(), endpoint.clone(), self.query);
            let seed = u64::from(number) << 32 | u64::from(client);
            connecting.spawn_local(async move {
                let _place = logins.acquire().await?;
                let mut caller = Caller::connect(&endpoint, query, seed).await?;
                // Each has been served once: what a proxy makes at the first query is there.
                caller.ask().await?;
                anyhow::Ok(caller)
            });
        }
        let mut callers = Vec::new();
        while let Some(joined) = connecting.join_next().await {
            stop::check()?;
            callers.push(joined??);
        }
        let ids: Vec<u32> = callers.iter().map(Caller::id).collect();
        let killer = match self.query {
            Query::Mix => Some(Caller::connect(&endpoint, Query::Point, u64::from(number)).await?),
            _ => None,
        };
        news.send(News::Ready).context("the measurement is over")?;
        let mut asking = tokio::task::JoinSet::new();
        for caller in callers {
            let (windows, endpoint, work) = (windows.clone(), endpoint.clone(), *self);
            asking.spawn_local(async move { one_client(caller, &endpoint, &work, windows).await });
        }
        if let Some(killer) = killer {
            asking.spawn_local(kill_queries(killer, ids, windows.clone()));
        }
        let mut sum = Outcome::default();
        let end = async {
            let mut windows = windows.clone();
            let window = windows.wait_for(Option::is_some).await.map(|window| *window);
            let end = window.ok().flatten().map_or_else(Instant::now, |window| window.end);
            tokio::time::sleep_until((end + LAST_LIMIT).into()).await;
        };
        let all = async {
            while let Some(joined) = asking.join_next().await {
                sum.add(joined?);
            }
            anyhow::Ok(())
        };
        tokio::select! {
            done = all => done?,
            () = end => bail!("queries were not answered {LAST_LIMIT:?} after the end"),
        }
        Ok(sum)
    }
}

/// A client asks again as soon as it has its answer, until the time is over.
async fn one_client(
    mut caller: Caller,
    endpoint: &Endpoint,
    work: &Work,
    mut windows: watch::Receiver<Option<Window>>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let Ok(Some(window)) = windows.wait_for(Option::is_some).await.map(|window| *window) else { return outcome };
    loop {
        if !work.pause.is_zero() {
            let until = Instant::now() + work.pause.mul_f64(2.0 * caller.dice());
            tokio::time::sleep_until(until.min(window.end).into()).await;
        }
        let begin = Instant::now();
        if begin >= window.end || stop::is_asked() {
            return outcome;
        }
        match ask(&mut caller, endpoint, work.reconnect).await {
            Ok(bytes) => {
                let end = Instant::now();
                if begin >= window.begin && caller.was_short() {
                    let ns = u64::try_from((end - begin).as_nanos()).unwrap_or(u64::MAX);
                    outcome.latencies.record(ns);
                }
                if end >= window.begin && end <= window.end {
                    outcome.queries += 1;
                    outcome.bytes += bytes as u64;
                }
            }
            Err(error) => {
                outcome.errors += 1;
                outcome.error = Some(format!("{error:#}"));
                return outcome;
            }
        }
    }
}

/// Kills one client's query after the other, until the time is over.
async fn kill_queries(mut killer: Caller, ids: Vec<u32>, mut windows: watch::Receiver<Option<Window>>) -> Outcome {
    let mut outcome = Outcome::default();
    let Ok(Some(window)) = windows.wait_for(Option::is_some).await.map(|window| *window) else { return outcome };
    for id in ids.iter().cycle() {
        tokio::time::sleep(KILL_PAUSE).await;
        if Instant::now() >= window.end || stop::is_asked() {
            break;
        }
        if let Err(error) = killer.kill_query(*id).await {
            (outcome.errors, outcome.error) = (1, Some(format!("a kill: {error:#}")));
            break;
        }
    }
    outcome
}

async fn ask(caller: &mut Caller, endpoint: &Endpoint, reconnect: bool) -> anyhow::Result<usize> {
    if reconnect {
        caller.connect_again(endpoint).await?;
    }
    caller.ask().await
}

fn wait_until(time: Instant) -> anyhow::Result<()> {
    loop {
        stop::check()?;
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(POLL));
    }
}

//! The demo's load: many clients that read, write, and do what ordinary programs do in between.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use lab::{APP_DATABASE, APP_PASSWORD, APP_USER};
use net::client::Target;
use net::query::{Client, Limits, Parameter, QueryError, Statement, login};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::auth::Credential;

use super::servers::ACCOUNTS;

/// Pause of a client between two pieces of work, in milliseconds: the load is meant to be looked at.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 1..=8;
/// Pause after an error, so that a dead end does not become a busy loop.
const RETRY: Duration = Duration::from_millis(200);
/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A query that somebody forgot an index for: the page of the demo shows which one it is, and its clients.
const BAD: &str = "SELECT COUNT(*) FROM account a JOIN account b ON a.note LIKE CONCAT('%', b.note, '%')";
/// How often a client sends it: once in so many pieces of work.
const BAD_EVERY: u64 = 200;

/// The work of clients so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// Statements with a good end.
    pub(super) statements: u64,
    /// Errors of any kind that a client saw.
    pub(super) errors: u64,
    /// The last of them.
    pub(super) last_error: Option<String>,
}

#[derive(Default)]
struct Counts {
    statements: AtomicU64,
    errors: AtomicU64,
    last_error: Mutex<Option<String>>,
}

/// The running load. Dropping it stops it.
pub(super) struct Load {
    counts: Arc<Counts>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts clients that connect to this address.
    pub(super) fn start(address: &str, clients: u16) -> anyhow::Result<Load> {
        let target = Target::plain(address.parse()?, CONNECT_LIMIT);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = watch::channel(false);
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| u64::from(time.subsec_nanos()));
        let in_thread = counts.clone();
        let work = async move {
            let mut all = JoinSet::new();
            for number in 0..clients {
                let (target, counts, stop) = (target.clone(), in_thread.clone(), stopped.clone());
                let random = Random(seed ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                all.spawn(async move { Worker { target, counts, stop, random }.run().await });
            }
            while all.join_next().await.is_some() {}
        };
        let thread = std::thread::Builder::new()
            .name("load".into())
            .spawn(move || runtime.block_on(work))
            .context("cannot start a thread")?;
        Ok(Load { counts, stop, thread: Some(thread) })
    }

    /// The work so far.
    pub(super) fn done(&self) -> Done {
        Done {
            statements: self.counts.statements.load(Ordering::Relaxed),
            errors: self.counts.errors.load(Ordering::Relaxed),
            last_error: self.counts.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Lets every client finish what it is at, and gives what was done.
    pub(super) fn stop(mut self) -> anyhow::Result<Done> {
        self.end()?;
        Ok(self.done())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let joined = self.thread.take().map(JoinHandle::join).transpose();
        joined.map(drop).map_err(|_| anyhow::anyhow!("the load's thread panicked"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // A client that sends nothing after `stop` is ending already.
        let _ = self.end();
    }
}

/// Numbers that look random: Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        // The high bits are the better ones.
        (self.next() >> 16) % bound
    }

    fn account(&mut self) -> u64 {
        1 + self.below(ACCOUNTS.into())
    }
}

/// One client.
struct Worker {
    target: Target,
    counts: Arc<Counts>,
    stop: watch::Receiver<bool>,
    random: Random,
}

/// A connection, with the statements that it has prepared.
struct Connection {
    client: Client,
    by_id: Statement,
    set_note: Statement,
}

impl Worker {
    async fn run(mut self) {
        while !*self.stop.borrow() {
            if let Err(error) = self.work().await {
                self.counts.errors.fetch_add(1, Ordering::Relaxed);
                *self.counts.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{error:#}"));
                self.pause(RETRY).await;
            }
        }
    }

    /// Connects and works until it is told to stop.
    async fn work(&mut self) -> anyhow::Result<()> {
        let mut login = login(APP_USER, Credential::Password(zeroize::Zeroizing::new(APP_PASSWORD.into())));
        login.schema = Some(APP_DATABASE.into());
        let mut client = Client::connect(&self.target, login, Limits::default()).await?;
        // The first statements of drivers.
        for hello in ["SET NAMES utf8mb4", "SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES'"] {
            client.query(hello).await?;
            self.count(1);
        }
        let by_id = client.prepare("SELECT balance, note FROM account WHERE id = ?").await?;
        let set_note = client.prepare("UPDATE account SET note = ? WHERE id = ?").await?;
        self.count(2);
        let mut connection = Connection { client, by_id, set_note };
        while !*self.stop.borrow() {
            let statements = self.one_thing(&mut connection).await?;
            self.count(statements);
            let (low, high) = (*PAUSE_MS.start(), *PAUSE_MS.end());
            let pause = Duration::from_millis(low + self.random.below(high - low + 1));
            self.pause(pause).await;
        }
        Ok(connection.client.quit().await?)
    }

    fn count(&self, statements: u64) {
        self.counts.statements.fetch_add(statements, Ordering::Relaxed);
    }

    /// Waits, but not when it is time to stop.
    async fn pause(&mut self, pause: Duration) {
        // Its end by either way is the same to the caller, who looks at `stop`.
        let _ = tokio::time::timeout(pause, self.stop.wait_for(|stop| *stop)).await;
    }

    /// Does one thing that programs do, and gives how many statements that took.
    async fn one_thing(&mut self, connection: &mut Connection) -> Result<u64, QueryError> {
        let Connection { client, by_id, set_note } = connection;
        let (a, b) = (self.random.account(), self.random.account());
        if self.random.below(BAD_EVERY) == 0 {
            client.query(BAD).await?;
            return Ok(1);
        }
        match self.random.below(100) {
            0..35 => drop(client.query(format!("SELECT balance, note FROM account WHERE id = {a}")).await?),
            35..60 => drop(client.execute(by_id, &[Parameter::Unsigned(a)]).await?),
            60..72 => {
                let range = format!("SELECT COUNT(*), SUM(balance) FROM account WHERE id BETWEEN {a} AND {}", a + 50);
                client.query(range).await?;
            }
            72..80 => {
                let note = Parameter::from(format!("seen by {b}").as_str());
                client.execute(set_note, &[note, Parameter::Unsigned(a)]).await?;
            }
            80..86 => drop(client.query(format!("UPDATE account SET note = 'text' WHERE id = {a}")).await?),
            86..94 => return self.transfer(client, a.min(b), a.max(b)).await,
            94..98 => drop(client.query(format!("SET SESSION lock_wait_timeout = {}", 10 + a)).await?),
            _ => {
                client.query("CREATE TEMPORARY TABLE pick (id INT PRIMARY KEY)").await?;
                client.query(format!("INSERT INTO pick VALUES ({a})")).await?;
                client.query("SELECT account.* FROM account JOIN pick USING (id)").await?;
                client.query("DROP TEMPORARY TABLE pick").await?;
                return Ok(4);
            }
        }
        Ok(1)
    }

    /// Moves money from one account to another. Rows are locked in the order of their ids, so that no two transfers
    /// wait for each other.
    async fn transfer(&mut self, client: &mut Client, low: u64, high: u64) -> Result<u64, QueryError> {
        let amount = 1 + self.random.below(10);
        client.query("BEGIN").await?;
        client.query(format!("SELECT balance FROM account WHERE id = {low} FOR UPDATE")).await?;
        client.query(format!("UPDATE account SET balance = balance - {amount} WHERE id = {low}")).await?;
        client.query(format!("UPDATE account SET balance = balance + {amount} WHERE id = {high}")).await?;
        client.query("COMMIT").await?;
        Ok(5)
    }
}

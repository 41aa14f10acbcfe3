//! One client: works until it is told to stop, and writes down what it was told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::client::Target;
use net::query::{Client, Limits, Parameter, QueryError, ResultSet, Statement};
use wire::auth::Credential;

use super::ledger::{End, Ledger, Work, Write, end_of};
use super::table::{Sql, TOKENS_MAX};
use super::{PREPARES_EVERY, Shared};

/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a reply: longer than Sqluice holds a statement.
const REPLY_LIMIT: Duration = Duration::from_secs(90);
/// Between two tries to connect, and behind an error.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Tries to connect again before a client gives up.
const CONNECTS_MAX: u32 = 1_000;

/// Connects as the application.
pub(super) async fn connect(to: SocketAddr) -> anyhow::Result<Client> {
    let mut login = net::query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
    login.schema = Some(lab::APP_DATABASE.into());
    let address = to.to_string().parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let limits = Limits { timeout: REPLY_LIMIT, ..Limits::default() };
    Ok(Client::connect(&Target::plain(address, CONNECT_LIMIT), login, limits).await?)
}

pub(super) struct Caller {
    shared: Arc<Shared>,
    number: u32,
    prepares: bool,
    client: Client,
    prepared: Vec<Statement>,
    /// The index of the address in use; the next one when it is closed.
    address: usize,
    next: i64,
    random: u64,
    last_keyed: Option<i64>,
    ledger: Ledger,
}

impl Caller {
    pub(super) async fn start(shared: Arc<Shared>, number: u32, prepares: bool) -> anyhow::Result<Caller> {
        // Both kinds of clients take all ways.
        let address = (number / PREPARES_EVERY) as usize % shared.addresses.len();
        let client = connect(shared.addresses[address]).await?;
        let random = u64::from(number) << 32 | 0x9e37_79b9;
        let (prepared, next, ledger) = (Vec::new(), 0, Ledger::default());
        let mut caller =
            Caller { shared, number, prepares, client, prepared, address, next, random, last_keyed: None, ledger };
        caller.prepare().await?;
        Ok(caller)
    }

    /// Works until the load is to stop.
    pub(super) async fn work(mut self) -> Ledger {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let choice = self.random() % 100;
            let done = match choice {
                0..40 => self.read().await,
                40..65 => self.insert(Work::Keyed, Sql::Keyed).await,
                65..80 => self.insert(Work::Counted, Sql::Counted).await,
                _ => self.transaction().await,
            };
            if !done {
                break;
            }
            let pause = self.shared.pause.mul_f64(2.0 * (self.random() % 1_000) as f64 / 1e3);
            tokio::time::sleep(pause).await;
        }
        self.ledger
    }

    async fn read(&mut self) -> bool {
        let token = self.last_keyed.unwrap_or(-1);
        let began_ms = self.shared.clock.now_ms();
        let result = self.run(Sql::Read, token).await;
        self.ledger.took(Work::Read, began_ms, self.shared.clock.now_ms());
        match result {
            Ok(result) => {
                self.ledger.reads += 1;
                if self.last_keyed.is_some() && result.rows.is_empty() {
                    self.ledger.blind_reads += 1;
                }
                true
            }
            Err(error) => self.failed(Work::Read, &error).await,
        }
    }

    async fn insert(&mut self, work: Work, sql: Sql) -> bool {
        let (token, began_ms) = (self.token(), self.shared.clock.now_ms());
        let result = self.run(sql, token).await;
        let ended_ms = self.shared.clock.now_ms();
        self.ledger.took(work, began_ms, ended_ms);
        match result {
            Ok(result) => {
                if work == Work::Keyed {
                    self.last_keyed = Some(token);
                }
                let end = End::Acknowledged { id: result.last_insert_id };
                self.wrote(Write { token, work, began_ms, ended_ms, end });
                true
            }
            Err(error) => {
                self.wrote(Write { token, work, began_ms, ended_ms, end: end_of(&error) });
                self.failed(work, &error).await
            }
        }
    }

    async fn transaction(&mut self) -> bool {
        let (token, began_ms) = (self.token(), self.shared.clock.now_ms());
        let mut committing = false;
        let result = self.all_of_it(token, &mut committing).await;
        let ended_ms = self.shared.clock.now_ms();
        match result {
            Ok(()) => {
                self.wrote(Write { token, work: Work::Moved, began_ms, ended_ms, end: End::Acknowledged { id: 0 } });
                true
            }
            Err(error) => {
                // Nothing of it may be there as long as no COMMIT was sent.
                let end = if committing { end_of(&error) } else { End::Refused };
                self.wrote(Write { token, work: Work::Moved, began_ms, ended_ms, end });
                self.failed(Work::Moved, &error).await
            }
        }
    }

    async fn all_of_it(&mut self, token: i64, committing: &mut bool) -> Result<(), QueryError> {
        let client = i64::from(self.number);
        self.plain("BEGIN").await?;
        for (sql, number) in [(Sql::Move, token), (Sql::Update, client), (Sql::Look, client)] {
            let began_ms = self.shared.clock.now_ms();
            let result = self.run(sql, number).await;
            self.ledger.took(Work::Moved, began_ms, self.shared.clock.now_ms());
            result?;
        }
        *committing = true;
        self.plain("COMMIT").await
    }

    /// A statement of the transaction itself.
    async fn plain(&mut self, sql: &str) -> Result<(), QueryError> {
        let began_ms = self.shared.clock.now_ms();
        let result = self.client.query(sql).await;
        self.ledger.took(Work::Moved, began_ms, self.shared.clock.now_ms());
        result.map(drop)
    }

    async fn run(&mut self, sql: Sql, number: i64) -> Result<ResultSet, QueryError> {
        let index = Sql::ALL.iter().position(|known| *known == sql).unwrap_or_default();
        match self.prepared.get(index).copied() {
            Some(statement) => {
                let results = self.client.execute(&statement, &[Parameter::Int(number)]).await?;
                Ok(results.into_iter().next().unwrap_or_default())
            }
            None => self.client.query_one(sql.with(number)).await,
        }
    }

    /// Notes the error and makes the session usable again; false when that is not possible.
    async fn failed(&mut self, work: Work, error: &QueryError) -> bool {
        self.ledger.error(work.word(), error);
        tokio::time::sleep(RETRY_PAUSE).await;
        // A session that Sqluice ends with its server hears CR_SERVER_LOST; other errors leave the session.
        let goes_on = error.code().is_some_and(|code| code != wire::errno::CR_SERVER_LOST);
        if goes_on && self.client.query("ROLLBACK").await.is_ok() {
            return true;
        }
        self.reconnect().await
    }

    async fn reconnect(&mut self) -> bool {
        self.ledger.reconnects += 1;
        for _ in 0..CONNECTS_MAX {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            if let Ok(client) = connect(self.shared.addresses[self.address % self.shared.addresses.len()]).await {
                self.client = client;
                if self.prepare().await.is_ok() {
                    return true;
                }
            }
            self.address += 1;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        false
    }

    async fn prepare(&mut self) -> Result<(), QueryError> {
        self.prepared.clear();
        if self.prepares {
            for sql in Sql::ALL {
                self.prepared.push(self.client.prepare(sql.text()).await?);
            }
        }
        Ok(())
    }

    fn wrote(&mut self, write: Write) {
        if matches!(write.end, End::Acknowledged { .. }) {
            self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        self.ledger.writes.push(write);
    }

    fn token(&mut self) -> i64 {
        self.next += 1;
        i64::from(self.number) * TOKENS_MAX + self.next
    }

    /// Xorshift: the same numbers in each round.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }
}

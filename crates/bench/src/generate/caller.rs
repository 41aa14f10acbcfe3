//! One client, lean: it reads no rows, only where a reply ends.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use lab::{APP_PASSWORD, APP_USER};
use net::Stream;
use net::client::{Connected, Target};
use net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::auth::Credential;
use wire::exchange::{Advance, Event, Exchange, Expect};
use wire::{Capabilities, command, errno, packet};

use super::Query;
use crate::sysbench::{TABLE_ROWS, TABLES};
use crate::world::{DATABASE, LARGE_ROWS, LARGE_TABLE};

/// Longest wait for a connection: thousands come at a time.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);
/// Read at once: thousands of clients must not take gigabytes here, and large rows not thousands of calls.
const READ_BYTES: usize = 512;
const READ_BYTES_LARGE: usize = 256 * 1024;
/// Rows of each table that are asked for again and again.
const HOT_ROWS: u64 = 250;
/// Ranges of a table that costly queries are about, and their rows.
const COSTLY_STEPS: u64 = 20;
const COSTLY_STEP: u64 = 400;

/// Where clients go in.
pub(super) struct Endpoint {
    address: SocketAddr,
    tls: bool,
}

impl Endpoint {
    pub(super) fn new(address: SocketAddr, tls: bool) -> Endpoint {
        Endpoint { address, tls }
    }

    async fn open(&self) -> anyhow::Result<Connected> {
        // Made anew each time: clients are programs of their own, which cannot resume one another's sessions.
        let options = ClientTlsOptions { mode: ServerTlsMode::Required, ..ClientTlsOptions::default() };
        let tls = if self.tls { ClientTls::new(&options)? } else { ClientTls::disabled() };
        let address = self.address.to_string().parse().context("an address")?;
        let target = Target { tls, ..Target::plain(address, CONNECT_LIMIT) };
        let mut login = net::query::login(APP_USER, Credential::password(APP_PASSWORD));
        login.schema = Some(DATABASE.into());
        Ok(net::client::connect(&target, login).await?)
    }
}

/// A connection and what it asks.
pub(super) struct Caller {
    stream: Stream,
    capabilities: Capabilities,
    query: Query,
    /// The server's id of the prepared statement, if there is one.
    statement: u32,
    random: u64,
    /// The connection's id, in the greeting.
    id: u32,
    /// The last query was none of the long ones of a mix, and was not killed.
    was_short: bool,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

impl Caller {
    pub(super) async fn connect(endpoint: &Endpoint, query: Query, seed: u64) -> anyhow::Result<Caller> {
        let Connected { stream, capabilities, greeting, .. } = endpoint.open().await?;
        let bytes = if matches!(query, Query::Large | Query::Mix) { READ_BYTES_LARGE } else { READ_BYTES };
        // Marsaglia's xorshift must not begin with 0.
        let random = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (request, buffer) = (Vec::new(), Vec::with_capacity(bytes));
        let (id, was_short) = (greeting.connection_id, true);
        let mut caller = Caller { stream, capabilities, query, statement: 0, random, id, was_short, request, buffer };
        if query == Query::Prepared {
            caller.prepare().await?;
        }
        Ok(caller)
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        let (table, _) = self.roll();
        let text = format!("SELECT c FROM sbtest{table} WHERE id=?");
        self.request.clear();
        let payload = [&[command::Command::StmtPrepare.byte()], text.as_bytes()].concat();
        packet::append(&mut self.request, 0, &payload);
        self.send_and_read(Expect::Prepared).await?;
        Ok(())
    }

    /// The connection's id.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Whether the last query counts among the short ones.
    pub(super) fn was_short(&self) -> bool {
        self.was_short
    }

    /// A number from 0 to 1.
    pub(super) fn dice(&mut self) -> f64 {
        (self.roll().1 >> 8 & 0xffff_ffff) as f64 / f64::from(u32::MAX)
    }

    /// Kills what runs on a connection.
    pub(super) async fn kill_query(&mut self, id: u32) -> anyhow::Result<()> {
        self.request.clear();
        let begun = packet::begin(&mut self.request);
        command::begin_query(&mut self.request, self.capabilities);
        self.request.extend_from_slice(format!("KILL QUERY {id}").as_bytes());
        begun.end(&mut self.request, 0);
        self.send_and_read(Expect::Results).await.map(drop)
    }

    /// Says good-bye, and comes again.
    pub(super) async fn connect_again(&mut self, endpoint: &Endpoint) -> anyhow::Result<()> {
        self.request.clear();
        packet::append(&mut self.request, 0, &[command::Command::Quit.byte()]);
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        let Connected { stream, capabilities, .. } = endpoint.open().await?;
        (self.stream, self.capabilities) = (stream, capabilities);
        Ok(())
    }

    /// Asks once and reads the whole reply; gives its bytes.
    pub(super) async fn ask(&mut self) -> anyhow::Result<usize> {
        self.write_request();
        self.send_and_read(Expect::Results).await
    }

    async fn send_and_read(&mut self, expect: Expect) -> anyhow::Result<usize> {
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        let mut exchange = Exchange::new(expect, self.capabilities);
        self.buffer.clear();
        let (mut bytes, mut needs) = (0, 1);
        loop {
            while self.buffer.len() < needs {
                match self.stream.read_buf(&mut self.buffer).await? {
                    0 => bail!("the connection was closed"),
                    read => bytes += read,
                }
            }
            let mut taken = 0;
            loop {
                match exchange.advance(self.buffer.get(taken..).unwrap_or_default())? {
                    Advance::Pass(passed) => {
                        taken += passed;
                        // The columns of a prepared statement may be the last.
                        if exchange.is_over() {
                            return Ok(bytes);
                        }
                    }
                    Advance::Packet(packet) => {
                        taken += packet.taken;
                        if let Event::Error(error) = packet.event {
                            if self.query == Query::Mix && error.code == errno::ER_QUERY_INTERRUPTED {
                                self.was_short = false;
                                return Ok(bytes);
                            }
                            bail!("{} {}", error.code, String::from_utf8_lossy(error.message));
                        }
                        if let Event::Prepared(prepared) = packet.event {
                            self.statement = prepared.statement;
                        }
                        if packet.over {
                            return Ok(bytes);
                        }
                    }
                    Advance::Needs(bytes) => {
                        needs = bytes;
                        break;
                    }
                }
            }
            self.buffer.drain(..taken);
        }
    }

    fn write_request(&mut self) {
        use std::io::Write as _;
        self.request.clear();
        let begun = packet::begin(&mut self.request);
        if self.query == Query::Prepared {
            let (_, number) = self.roll();
            self.write_execution(1 + number % u64::from(TABLE_ROWS));
            begun.end(&mut self.request, 0);
            return;
        }
        command::begin_query(&mut self.request, self.capabilities);
        // Writing to memory does not fail.
        let _ = match self.query {
            Query::Large => write!(self.request, "SELECT data FROM {LARGE_TABLE}"),
            // It has no text.
            Query::Prepared => Ok(()),
            Query::Point => {
                let (table, number) = self.roll();
                write!(self.request, "SELECT c FROM sbtest{table} WHERE id={}", 1 + number % u64::from(TABLE_ROWS))
            }
            Query::Mix => {
                let (table, number) = self.roll();
                let (dice, number) = (number % 100, number / 100);
                self.was_short = dice > 5;
                let id = 1 + number % u64::from(TABLE_ROWS);
                match dice {
                    0 => write!(
                        self.request,
                        "SELECT data FROM {LARGE_TABLE} WHERE id={}",
                        1 + number % u64::from(LARGE_ROWS)
                    ),
                    1..=5 => write!(self.request, "SELECT id, SLEEP(0.05) FROM sbtest{table} WHERE id={id}"),
                    _ => write!(self.request, "SELECT c FROM sbtest{table} WHERE id={id}"),
                }
            }
            Query::Hot => {
                let (table, number) = self.roll();
                write!(self.request, "SELECT c FROM sbtest{table} WHERE id={}", 1 + number % HOT_ROWS)
            }
            Query::Costly => {
                let (table, number) = self.roll();
                let (other, from) = (1 + table % u64::from(TABLES), COSTLY_STEP * (number % COSTLY_STEPS));
                match number >> 32 & 1 {
                    0 => write!(
                        self.request,
                        "SELECT a.k, COUNT(*), SUM(LENGTH(b.c)) FROM sbtest{table} a JOIN sbtest{other} b ON b.k = a.k \
                         WHERE a.id BETWEEN {from} AND {} GROUP BY a.k ORDER BY 2 DESC, 1 LIMIT 10",
                        from + COSTLY_STEP
                    ),
                    _ => write!(
                        self.request,
                        "SELECT COUNT(DISTINCT c), AVG(k), MIN(pad) FROM sbtest{table} WHERE id > {from}"
                    ),
                }
            }
        };
        begun.end(&mut self.request, 0);
    }

    /// COM_STMT_EXECUTE with one parameter, a BIGINT whose type is sent each time, as drivers do.
    fn write_execution(&mut self, id: u64) {
        /// No cursor, one iteration; no NULL; types follow; BIGINT.
        const HEAD: [u8; 9] = [0, 1, 0, 0, 0, 0, 1, 8, 0];
        self.request.push(command::Command::StmtExecute.byte());
        self.request.extend_from_slice(&self.statement.to_le_bytes());
        self.request.extend_from_slice(&HEAD);
        self.request.extend_from_slice(&id.to_le_bytes());
    }

    /// A table, and a number for all else.
    fn roll(&mut self) -> (u64, u64) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // The high bits are the better ones.
        let number = self.random >> 16;
        (1 + number % u64::from(TABLES), number >> 8)
    }
}

//! The proof of what became of a statement that was sent and never answered: the new primary's binary log has everything that it
//! received of the old one, so the tail written since the statement was sent holds its transaction, or it was never committed.

mod tail;

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use cluster::gtid::{Applied, Written};
use cluster::view::{ServerId, ServerView};
use net::query::{self, Client, Limits, QueryError};
use sql::{Access, Asks, Kind, TransactionStep, Why};
use wire::auth::Credential;
use wire::binlog::{CHECKSUM_BYTES, Event, Kind as EventKind};
use wire::codec::{Malformed, Write};
use wire::command::Command;

use super::Session;
use super::checkout::Attempts;
use super::client::Request;
use super::lost::Lost;
use super::work::{Body, Work};
use crate::route::{Reason, Route, Target};
pub use tail::Name;
use tail::{Found, Sought, Tail, Text};

/// How long the new primary's log is read.
const READ_WAIT: Duration = Duration::from_secs(5);
/// How often, and at which pace, a session looks whether others have found what is theirs.
const CLAIM_TRIES: u32 = 20;
const CLAIM_PACE: Duration = Duration::from_millis(50);
/// Transactions that are remembered to be somebody's; one failover has no more statements in doubt than there are sessions.
const CLAIMED_MAX: usize = 100_000;
/// Longest tail that is read.
const TAIL_BYTES_MAX: usize = 64 << 20;
/// The server tells the end of the log instead of waiting for more.
const NON_BLOCKING: u16 = 1;
/// MariaDB sends the texts of the statements whose rows follow, too.
const ANNOTATIONS: u16 = 2;
const EVENT: u8 = 0;
const WRITES: Access = Access::Primary(Why::Writes);
const END: u8 = 0xfe;

/// What is known of a statement that was in doubt.
#[derive(Debug)]
pub enum Proof {
    /// It was done.
    Done,
    /// It was not, and never will be.
    NotDone,
    /// Nobody can tell, for this reason.
    Unknown(String),
}

impl Session {
    /// Finds out what became of a statement that was sent to a server which was lost then.
    pub(super) async fn prove(
        &mut self,
        request: &Request,
        work: &Work,
        lost: &Lost,
        attempts: &mut Attempts,
    ) -> Proof {
        let proof = self.look_for_proof(request, work, lost, attempts).await;
        tracing::info!(server = %lost.name, session = self.handle.id, ?proof, "a statement was sent and never answered");
        proof
    }

    async fn look_for_proof(&mut self, request: &Request, work: &Work, lost: &Lost, attempts: &mut Attempts) -> Proof {
        let texts = match self.texts_sought(request, work) {
            Ok(texts) => texts,
            Err(why) => return Proof::Unknown(why.into()),
        };
        let route =
            Route { target: Target::Primary, reason: Reason::Transaction, consistency: config::Consistency::Session };
        let on = match self.checkout(&route, attempts).await {
            Ok(held) => {
                let on = held.lease.server();
                self.release(held).await;
                on
            }
            Err(refusal) => return Proof::Unknown(refusal.message),
        };
        if on == lost.server {
            return Proof::Unknown("the server is still the primary".into());
        }
        let read = tokio::time::timeout(READ_WAIT, self.read_tail(on, lost, texts));
        let tail = match read.await {
            Ok(Ok(tail)) => tail,
            Ok(Err(why)) => return Proof::Unknown(format!("the new primary's binary log does not tell: {why}")),
            Err(_) => return Proof::Unknown("reading the new primary's binary log took too long".into()),
        };
        let (tail, since) = tail;
        let Some(told) = self.told_to_sessions(since).await else {
            return Proof::Unknown("too much was written since".into());
        };
        for _ in 0..CLAIM_TRIES {
            match self.claim(&tail, &told) {
                Found::Nothing => return Proof::NotDone,
                Found::These(_) => return Proof::Done,
                Found::Unclear(why) => {
                    return Proof::Unknown(format!("the new primary's binary log does not tell: {why}"));
                }
                // Other sessions look for theirs, too.
                Found::Others => tokio::time::sleep(CLAIM_PACE).await,
            }
        }
        Proof::Unknown("the new primary's binary log holds transactions of which nobody knows whose they are".into())
    }

    /// Looks what is left once all know what is theirs. Of several that are alike, each stands for one of the sessions that ask.
    fn claim(&self, tail: &Tail, told: &HashSet<Name>) -> Found {
        let mut claimed = self.cluster.shared.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tail.found(|name| told.contains(&name) || claimed.contains(&name));
        if let Found::These(names) = &found {
            if claimed.len() >= CLAIMED_MAX {
                claimed.clear();
            }
            claimed.extend(names.first());
        }
        found
    }

    /// The statements whose transaction is sought.
    fn texts_sought(&self, request: &Request, work: &Work) -> Result<Vec<Text>, &'static str> {
        let statement = &*work.statement;
        if statement.parts != 1 {
            return Err("it is a text of several statements");
        }
        let kind = {
            let config = self.worker.shared.config.load();
            config.clusters.get(&*self.cluster.shared.name).map(|cluster| cluster.kind)
        };
        if kind != Some(config::ClusterKind::Replication) {
            return Err("only servers that replicate have it in their logs");
        }
        // Where the log may have another text, no text is a proof.
        let is_plain = |work: &Work| {
            let asks = Asks::ROW_COUNT | Asks::FOUND_ROWS | Asks::CONNECTION_ID | Asks::SYSTEM_VARIABLES;
            matches!(work.body, Body::AsCame | Body::Execute(_))
                && work.command != Command::StmtBulkExecute
                && work.statement.parts == 1
                && work.statement.effects.is_empty()
                && !work.statement.asks.intersects(asks)
        };
        let text = |work: &Work, request: &Request| {
            let text = self.sent_text(work, request)?.to_vec();
            Some(Text { text, has_parameters: matches!(work.body, Body::Execute(_)) })
        };
        match (statement.transaction, statement.kind) {
            (Some(TransactionStep::Commit { chain: false, release: false }), _) => {
                let Some(log) = self.transaction.as_ref().filter(|log| log.obstacle().is_none()) else {
                    return Err("its transaction was not kept");
                };
                let written = || log.entries().iter().filter(|entry| entry.work.statement.access == WRITES);
                if !written().all(|entry| is_plain(&entry.work)) {
                    return Err("the log has other texts than were sent");
                }
                let written = written();
                Ok(written.filter_map(|entry| text(&entry.work, &log.request(entry))).collect())
            }
            (None, Kind::Insert | Kind::Update | Kind::Delete) if is_plain(work) => {
                Ok(text(work, request).into_iter().collect())
            }
            _ => Err("only commits and single writes are looked for"),
        }
    }

    /// Reads the part of a server's binary log in which the transaction must be.
    async fn read_tail(&self, on: ServerId, lost: &Lost, texts: Vec<Text>) -> Result<(Tail, Instant), String> {
        let view = self.cluster.view();
        let server = view.server(on).ok_or("it is gone")?;
        let (from, since) =
            self.cluster.position_before(on, lost.at).ok_or("its position when the statement was sent is not known")?;
        let mut client = self.connect_to_read(server).await?;
        let said = |error: QueryError| error.to_string();
        let own = client.query_one("SELECT @@server_id").await.map_err(said)?;
        let logged_on = own.scalar().and_then(|text| text.parse().ok()).ok_or("it has no server_id")?;
        let mariadb = self.is_mariadb();
        let mut tail = Tail::new(Sought { logged_on, texts });
        // It says that checksums are known here; whether there are any, the log tells.
        for variable in ["master_binlog_checksum", "source_binlog_checksum"] {
            client.query(format!("SET @{variable} = @@GLOBAL.binlog_checksum")).await.map_err(said)?;
        }
        let mut dump = Vec::new();
        match &*from {
            Applied::MariaDb { replicated, .. } => {
                client.query("SET @mariadb_slave_capability = 4").await.map_err(said)?;
                client.query(format!("SET @slave_connect_state = '{replicated}'")).await.map_err(said)?;
                dump.push(Command::BinlogDump.byte());
                dump.put_u32(4);
                dump.put_u16(NON_BLOCKING | ANNOTATIONS);
                dump.put_u32(0);
            }
            Applied::MySql(executed) => {
                let set = executed.encode().ok_or("its position has tags")?;
                dump.push(Command::BinlogDumpGtid.byte());
                dump.put_u16(NON_BLOCKING);
                dump.put_u32(0);
                dump.put_u32(0);
                dump.put_u64(4);
                dump.put_u32(u32::try_from(set.len()).unwrap_or_default());
                dump.extend_from_slice(&set);
            }
            Applied::Group => return Err("members of a group tell no positions".into()),
        }
        client.send_raw(&dump).await.map_err(said)?;
        let (mut bytes, mut checksum_bytes) = (0, 0);
        loop {
            let (_, packet) = client.read_raw().await.map_err(said)?;
            bytes += packet.len();
            if bytes > TAIL_BYTES_MAX {
                return Err(format!("more than {TAIL_BYTES_MAX} bytes were written since"));
            }
            match packet.split_first() {
                Some((&EVENT, event)) => {
                    let malformed = |error: Malformed| error.to_string();
                    let mut read = Event::parse(mariadb, event).map_err(malformed)?;
                    if let EventKind::Format { checksummed } = read.kind {
                        checksum_bytes = if checksummed { CHECKSUM_BYTES } else { 0 };
                    } else if checksum_bytes > 0 {
                        let bare = &event[..event.len().saturating_sub(checksum_bytes)];
                        read = Event::parse(mariadb, bare).map_err(malformed)?;
                    }
                    tail.take(&read);
                }
                Some((&END, _)) => {
                    tail.end();
                    return Ok((tail, since));
                }
                _ => return Err(refused(&packet)),
            }
        }
    }

    /// What all sessions were told to be theirs.
    async fn told_to_sessions(&self, since: Instant) -> Option<HashSet<Name>> {
        let mut told: HashSet<Name> = self.cluster.told_since(since)?.into_iter().collect();
        for answered in self.cluster.shared.ask_told(self.worker.index, since) {
            if let Ok(others) = tokio::time::timeout(READ_WAIT, answered).await.ok()? {
                told.extend(others?);
            }
        }
        Some(told)
    }

    /// A server told a session at this moment that this transaction is its own.
    pub(super) fn note_committed(&self, mariadb: bool, text: &str, at: Instant) {
        if let Some(name) = name_of(mariadb, text) {
            self.cluster.note_told(name, at);
        }
    }

    /// Logs in to a server as the one who may read its binary log: the user of replication, or else the monitor's.
    async fn connect_to_read(&self, server: &ServerView) -> Result<Client, String> {
        let (user, password) = {
            let config = self.worker.shared.config.load();
            let cluster = config.clusters.get(&*self.cluster.shared.name).ok_or("the cluster is gone")?;
            match (&cluster.replication.user, &cluster.replication.password) {
                (Some(user), Some(password)) => (user.clone(), password.clone()),
                _ => (cluster.monitor.user.clone(), cluster.monitor.password.clone()),
            }
        };
        let target = self.cluster.shared.target(server, READ_WAIT, None);
        let login = query::login(&user, Credential::password(password.expose()));
        let limits = Limits { timeout: READ_WAIT, ..Limits::default() };
        Client::connect(&target, login, limits).await.map_err(|error| error.to_string())
    }
}

/// The words of an error packet.
fn refused(packet: &[u8]) -> String {
    let error = wire::reply::ServerError::parse(packet);
    error.map_or("what it sent is no event".into(), |error| String::from_utf8_lossy(error.message).into_owned())
}

/// The transaction that a server told of a commit.
fn name_of(mariadb: bool, text: &str) -> Option<Name> {
    match Written::parse(mariadb, text)? {
        Written::MariaDb(gtids) => gtids.iter().last().map(|gtid| (u128::from(gtid.domain), gtid.sequence)),
        Written::MySql(set) => set.last(),
    }
}

/// When a transaction was acknowledged.
pub type Told = (Instant, Name);

//! The proof of what became of a statement that was sent and never answered: the new primary's binary log has everything that it
//! received of the old one, so the tail written since the statement was sent holds its transaction, or it was never committed.
//! In a Galera group the log of the new writer does, once the group has gone on without the old one ([`group`]).

mod group;
mod sought;

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use facts::evidence::{Evidence, EvidenceKind};
use facts::group_logs::GroupLogs;
use facts::gtid::mariadb::Gtids;
use facts::gtid::mysql::GtidSet;
use facts::gtid::{Applied, WrittenGtids};
use facts::view::{ServerId, ServerView};
use net::query::{self, Client, Limits, QueryError};
pub use proof::answer::Answer;
use proof::answer::Columns;
use proof::tail::{Name, SearchOutcome, Sought, Tail};
use wire::auth::Credential;
use wire::binlog::{CHECKSUM_BYTES, Event, EventKind};
use wire::codec::{Malformed, Write};
use wire::command::Command;

use super::attempts::Attempts;
use super::cluster_session::ClusterSession;
use super::lost::Lost;
use super::query::Query;
use super::reset::ask;
use super::{Held, Session};
use route::{Reason, Route, Target};

/// How long the new primary's log is read, and how long it is asked of a table.
const READ_WAIT: Duration = Duration::from_secs(5);
/// How long a server that was lost is asked whether it is still there, at which pace, and for how long in all.
const ALIVE_WAIT: Duration = Duration::from_secs(1);
const ALIVE_PACE: Duration = Duration::from_millis(2);
const PRIMARY_WAIT: Duration = Duration::from_secs(10);
/// How long a member of a Galera group may answer before it is believed that it has come back.
const MEMBER_WAIT: Duration = Duration::from_secs(3);
/// How often, and at which pace, a session looks whether others have found what is theirs.
const CLAIM_TRIES: u32 = 100;
const CLAIM_PACE: Duration = Duration::from_millis(10);
/// Transactions that are remembered to be somebody's; one failover has no more statements in doubt than there are sessions.
const CLAIMED_MAX: usize = 100_000;
/// Longest tail that is read.
const TAIL_BYTES_MAX: usize = 64 << 20;
/// The server tells the end of the log instead of waiting for more.
const NON_BLOCKING: u16 = 1;
/// MariaDB sends the texts of the statements whose rows follow, too.
const ANNOTATIONS: u16 = 2;
const EVENT: u8 = 0;
const END: u8 = 0xfe;

/// The proof for a statement that was in doubt.
#[derive(Debug)]
pub enum Proof {
    /// It was done.
    Done {
        /// The position that the server would have reported.
        position: Option<WrittenGtids>,
        /// The server's reply to the write, where that is certain.
        answer: Option<Answer>,
    },
    /// It was not, and never will be.
    NotDone,
    /// There is no proof, for this reason.
    Unknown(String),
}

impl Session {
    /// Finds out what became of a statement that was sent to a server which was lost then.
    pub(super) async fn prove(&mut self, query: &Query<'_>, lost: &Lost, attempts: &mut Attempts) -> Proof {
        let proof = self.look_for_proof(query, lost, attempts).await;
        tracing::info!(server = %lost.name, session = self.env.handle.id, why = lost.why, ?proof, "a statement was sent and never answered");
        proof
    }

    async fn look_for_proof(&mut self, query: &Query<'_>, lost: &Lost, attempts: &mut Attempts) -> Proof {
        let known = self.here.cluster.shared.published.group_logs.load_full();
        let mut wanted = match self.wanted(query) {
            Ok(wanted) => wanted,
            Err(why) => return Proof::Unknown(why.into()),
        };
        let mut held = match self.checkout_after(lost, attempts).await {
            Ok(held) => held,
            Err(why) => return Proof::Unknown(why),
        };
        let on = held.lease.server();
        let columns = match &wanted.change {
            Some((change, schema)) => self.env.ask_columns(&mut held, change, schema).await,
            None => Some(Columns::default()),
        };
        match columns.is_some() {
            true => self.release(held).await,
            false => self.env.close(held).await,
        }
        let columns = columns.unwrap_or_default();
        let sought = Sought { mark: lost.mark.clone(), ..wanted.sought(&columns) };
        let unread = |why| Proof::Unknown(format!("the new primary's binary log does not tell: {why}"));
        let (on, from, since) = match self.beginning(on, lost, &known).await {
            Ok(found) => found,
            Err(why) => return unread(why),
        };
        let tail = match tokio::time::timeout(READ_WAIT, self.read_tail(on, &from, sought)).await {
            Ok(Ok(tail)) => tail,
            Ok(Err(why)) => return unread(why),
            Err(_) => return unread("reading it took too long".into()),
        };
        let in_group = self.here.cluster.view().group.is_some();
        let mut unclear = "";
        for _ in 0..CLAIM_TRIES {
            // In a group the tail has what sessions write on the new writer, too, and hear of only now.
            let Some(confirmed) = self.confirmed_to_sessions(since).await else {
                return Proof::Unknown("too much was written since".into());
            };
            match self.here.claim(&tail, &confirmed) {
                SearchOutcome::Nothing if in_group && !lost.ended => {
                    return Proof::Unknown("the member may still work on it, and come back".into());
                }
                SearchOutcome::Nothing => return Proof::NotDone,
                SearchOutcome::These(names) => {
                    let Some(name) = names.first() else { continue };
                    let changed = tail.changed(*name);
                    // Members of a group are not asked for positions.
                    let in_log = changed.filter(|_| !in_group);
                    let position = in_log.and_then(|changed| self.belief.position_of(*name, changed.server));
                    let answer = changed.and_then(|changed| self.answer_of(query, &wanted, &columns, changed));
                    return Proof::Done { position, answer };
                }
                SearchOutcome::Unclear(why) => {
                    return Proof::Unknown(format!("the new primary's binary log does not tell: {why}"));
                }
                // Other sessions look for theirs, too.
                SearchOutcome::Similar => {
                    unclear = "some of the same form, whose values cannot be compared for certain"
                }
                SearchOutcome::Others => unclear = "transactions of unknown origin",
            }
            tokio::time::sleep(CLAIM_PACE).await;
        }
        Proof::Unknown(format!("the new primary's binary log holds {unclear}"))
    }

    /// A connection to the primary that takes the lost one's place. Of a server that was killed some connections end a little
    /// later than others: one that is still there for the moment proves nothing, unless the server answers.
    async fn checkout_after(&mut self, lost: &Lost, attempts: &mut Attempts) -> Result<Held, String> {
        const STILL: &str = "the server is still the primary";
        let route = Route::to(Target::Primary, Reason::Transaction, config::Consistency::Session);
        let begun = Instant::now();
        // A member that says it has lost its group goes on answering, and keeps its office until others show that they have gone on.
        let (unbelieved, pace) = match self.here.cluster.view().group {
            Some(_) => (MEMBER_WAIT, CLAIM_PACE),
            None => (Duration::ZERO, ALIVE_PACE),
        };
        loop {
            let mut held = self.checkout(&route, attempts).await.map_err(|refusal| refusal.message)?;
            if held.lease.server() != lost.server {
                return Ok(held);
            }
            let asked = tokio::time::timeout(ALIVE_WAIT, ask(&mut held.lease, "DO 0", &self.env.worker)).await;
            if matches!(asked, Ok(Ok(_))) {
                let in_group = self.here.cluster.view().group.is_some();
                if in_group && lost.ended && self.is_back(lost.server, None).await {
                    return Ok(held);
                }
                self.release(held).await;
                if begun.elapsed() >= unbelieved {
                    return Err(STILL.into());
                }
            } else {
                self.env.close(held).await;
            }
            let evidence = Evidence { server: lost.server, kind: EvidenceKind::ConnectionLost };
            self.here.cluster.shared.published.evidence(evidence);
            if begun.elapsed() > PRIMARY_WAIT {
                return Err(STILL.into());
            }
            tokio::time::sleep(pace).await;
        }
    }

    /// The server whose log must have the transaction, the place where that part of it begins, and the moment since which it
    /// is all there. `known` is the members' last report on their logs when the server was lost.
    async fn beginning(
        &self,
        on: ServerId,
        lost: &Lost,
        known: &GroupLogs,
    ) -> Result<(ServerId, From, Instant), String> {
        let view = self.here.cluster.view();
        match view.group.and_then(|_| view.server(on)) {
            Some(member) => self.beginning_in_group(member, lost, known).await,
            None => {
                let (from, since) = self
                    .here
                    .position_before(on, lost)
                    .ok_or("its position when the statement was sent is not known")?;
                Ok((on, from, since))
            }
        }
    }

    /// Reads the part of a server's binary log in which the transaction must be.
    async fn read_tail(&self, on: ServerId, from: &From, sought: Sought) -> Result<Tail, String> {
        let view = self.here.cluster.view();
        let server = view.server(on).ok_or("it is gone")?;
        let mut client = self.connect_to_read(server).await?;
        let said = |error: QueryError| error.to_string();
        let logged_on = match view.group {
            Some(_) => None,
            None => {
                let own = client.query_one("SELECT @@server_id").await.map_err(said)?;
                Some(own.scalar().and_then(|text| text.parse().ok()).ok_or("it has no server_id")?)
            }
        };
        let mariadb = self.belief.is_mariadb();
        let mut tail = Tail::new(Sought { logged_on, ..sought });
        // It says that checksums are known here; whether there are any, the log tells.
        for variable in ["master_binlog_checksum", "source_binlog_checksum"] {
            client.query(format!("SET @{variable} = @@GLOBAL.binlog_checksum")).await.map_err(said)?;
        }
        let mut dump = Vec::new();
        match from {
            From::MariaDb(replicated) => {
                client.query("SET @mariadb_slave_capability = 4").await.map_err(said)?;
                client.query(format!("SET @slave_connect_state = '{replicated}'")).await.map_err(said)?;
                dump.push(Command::BinlogDump.byte());
                dump.put_u32(4);
                dump.put_u16(NON_BLOCKING | ANNOTATIONS);
                dump.put_u32(0);
            }
            From::MySql(executed) => {
                let set = executed.encode().ok_or("its position has tags")?;
                dump.push(Command::BinlogDumpGtid.byte());
                dump.put_u16(NON_BLOCKING);
                dump.put_u32(0);
                dump.put_u32(0);
                dump.put_u64(4);
                dump.put_u32(u32::try_from(set.len()).unwrap_or_default());
                dump.extend_from_slice(&set);
            }
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
                    return Ok(tail);
                }
                _ => return Err(refused(&packet)),
            }
        }
    }

    /// The transactions that servers confirmed to all sessions as theirs.
    async fn confirmed_to_sessions(&self, since: Instant) -> Option<HashSet<Name>> {
        let mut confirmed: HashSet<Name> = self.here.cluster.confirmed_since(since)?.into_iter().collect();
        for answered in self.here.cluster.shared.ask_confirmed(self.env.worker.index, since) {
            if let Ok(others) = tokio::time::timeout(READ_WAIT, answered).await.ok()? {
                confirmed.extend(others?);
            }
        }
        Some(confirmed)
    }

    /// Logs in to a server as the one who may read its binary log: the user of replication, or else the monitor's.
    async fn connect_to_read(&self, server: &ServerView) -> Result<Client, String> {
        let (user, password) = {
            let config = self.env.worker.shared.config.load();
            let cluster = config.clusters.get(&*self.here.cluster.shared.name).ok_or("the cluster is gone")?;
            match (&cluster.replication.user, &cluster.replication.password) {
                (Some(user), Some(password)) => (user.clone(), password.clone()),
                _ => (cluster.monitor.user.clone(), cluster.monitor.password.clone()),
            }
        };
        let target = self.here.cluster.shared.target(server, READ_WAIT, None);
        let login = query::login(&user, Credential::password(password.expose()));
        let limits = Limits { timeout: READ_WAIT, ..Limits::default() };
        Client::connect(&target, login, limits).await.map_err(|error| error.to_string())
    }
}

impl ClusterSession {
    /// Looks what is left once all know what is theirs. Of several that are alike, each stands for one of the sessions that ask.
    fn claim(&self, tail: &Tail, confirmed: &HashSet<Name>) -> SearchOutcome {
        let mut claimed = self.cluster.shared.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tail.found(|name| confirmed.contains(&name) || claimed.contains(&name));
        if let SearchOutcome::These(names) = &found {
            if claimed.len() >= CLAIMED_MAX {
                claimed.clear();
            }
            claimed.extend(names.first());
        }
        found
    }

    /// Where a replica's log stood before the statement was sent, and since when.
    fn position_before(&self, on: ServerId, lost: &Lost) -> Option<(From, Instant)> {
        let (applied, since) = self.cluster.position_before(on, lost.at)?;
        match &*applied {
            Applied::MariaDb { replicated, .. } => Some((From::MariaDb(replicated.clone()), since)),
            Applied::MySql(executed) => Some((From::MySql(executed.clone()), since)),
            Applied::Group => None,
        }
    }

    /// A server confirmed to a session at this moment that this transaction is its own.
    pub(super) fn note_committed(&self, written: &WrittenGtids, at: Instant) {
        if let Some(name) = name_of(written) {
            self.cluster.note_confirmed(name, at);
        }
    }
}

/// Where in a log the tail begins.
#[derive(Debug)]
enum From {
    /// Behind these.
    MariaDb(Gtids),
    /// With the first that is not among these.
    MySql(GtidSet),
}

/// The words of an error packet.
fn refused(packet: &[u8]) -> String {
    let error = wire::reply::ServerError::parse(packet);
    error.map_or("what it sent is no event".into(), |error| String::from_utf8_lossy(error.message).into_owned())
}

/// The transaction that a server reported for a commit.
fn name_of(written: &WrittenGtids) -> Option<Name> {
    match written {
        WrittenGtids::MariaDb(gtids) => gtids.iter().last().map(|gtid| (u128::from(gtid.domain), gtid.sequence)),
        WrittenGtids::MySql(set) => set.last(),
    }
}

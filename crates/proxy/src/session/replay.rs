//! Replaying a transaction: its statements run again on another server, their replies are swallowed and compared with what
//! the client got before. Only when all are the same does the session go on, with the statement that was interrupted.

use std::fmt;
use std::time::Duration;

use sql::{Asks, Kind};
use wire::command::Command;
use wire::errno;

use super::attempts::Attempts;
use super::checksum::Checksum;
use super::client::Request;
use super::diagnostics::learned::holds_number;
use super::environment::Environment;
use super::lost::Lost;
use super::query::{Body, Kept, Query};
use super::relay::{Outcome, Relay, RelayError, Taps};
use super::reset::ask;
use super::transaction_log::{Limits, LoggedStatement, Obstacle, Said, TransactionLog};
use super::withhold::{NOT_IN_GROUP, Withhold, is_not_in_group};
use super::{Held, Past, Session};
use crate::error::Refusal;
use crate::outgoing::Purpose;
use route::{Pin, Pins, Reason, Route};

/// The pause before a replay that met a deadlock begins anew, times the number of tries.
const DEADLOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why a transaction was not replayed.
#[derive(Debug)]
pub enum NotReplayed {
    /// It could not even be tried.
    Obstacle(Obstacle),
    /// A statement's reply was another one; the first one has number 1.
    Differs(usize, &'static str),
    /// The attempt failed.
    Failed(String),
    /// Somebody has killed the connection, and the server lives.
    Killed,
}

impl NotReplayed {
    /// Its place in [`stats::REPLAY_RESULTS`].
    pub fn result(&self) -> usize {
        match self {
            NotReplayed::Obstacle(_) | NotReplayed::Killed => 1,
            NotReplayed::Differs(..) => 2,
            NotReplayed::Failed(_) => 3,
        }
    }

    /// A KILL of the connection asks that the session ends.
    pub fn ends_session(&self) -> bool {
        matches!(self, NotReplayed::Killed)
    }

    /// The error that the client gets.
    pub fn refusal(&self, lost: &Lost) -> Refusal {
        match self {
            NotReplayed::Killed => Refusal::like_server(errno::ER_CONNECTION_KILLED, b"70100", lost.why.clone()),
            why => Refusal::not_replayed(&lost.name, why),
        }
    }
}

impl fmt::Display for NotReplayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReplayed::Obstacle(why) => f.write_str(why),
            NotReplayed::Differs(number, what) => write!(f, "its statement {number} now gives {what}"),
            NotReplayed::Failed(why) => f.write_str(why),
            NotReplayed::Killed => f.write_str("the connection was killed"),
        }
    }
}

/// How one try went wrong.
enum Wrong {
    /// It makes no sense to try again.
    Final(NotReplayed),
    /// A deadlock, or a lock that was not to be had.
    Conflict(String),
    /// The server was lost, or is read-only.
    Lost(String),
    /// The server says that its group serves no session here: that is no try, and soon another one is the writer.
    OutOfGroup(Refusal),
}

impl Session {
    /// A statement that may begin a transaction is on its way: from now on statements are kept.
    #[inline]
    pub(super) fn begin_log(&mut self, query: &Query<'_>, route: &Route) {
        let statement = &*query.statement;
        let plain = statement.transaction.is_none() && statement.effects.is_empty() && statement.parts <= 1;
        if self.transaction.log.is_none() && !(plain && self.belief.facts().autocommit) && query.runs_text() {
            self.begin_log_of(query, route);
        }
    }

    #[inline(never)]
    fn begin_log_of(&mut self, query: &Query<'_>, route: &Route) {
        use sql::{Effect, TransactionStep};
        let statement = &*query.statement;
        let announces = |effect: &Effect| {
            matches!(effect, Effect::TransactionCharacteristics { session: false, .. })
                || matches!(effect, Effect::Variable { name, .. } if name == "autocommit" || name == "insert_id")
        };
        let begins = match statement.transaction {
            Some(TransactionStep::Begin { .. }) => true,
            Some(TransactionStep::Commit { chain, .. } | TransactionStep::Rollback { chain, .. }) => chain,
            _ => statement.parts > 1 || statement.effects.iter().any(announces) || !self.belief.facts().autocommit,
        };
        if !begins {
            return;
        }
        let replay = self.env.listener.settings.load().replay;
        if replay.mode != config::ReplayMode::Off {
            let limits = Limits { bytes_max: replay.bytes_max, statements_max: replay.statements_max };
            let before = (&self.belief.state, self.belief.past.insert_id);
            let log = TransactionLog::new(before, &route.target, &self.belief.pins, limits);
            self.transaction.log = Some(Box::new(log));
        }
    }

    /// A statement had its reply, and what that says has been learned: it is kept while a transaction is open.
    #[inline]
    pub(super) fn log(&mut self, query: &Query<'_>, outcome: &Outcome) {
        if self.transaction.log.is_some() {
            self.log_statement(query, outcome);
        }
    }

    #[inline(never)]
    fn log_statement(&mut self, query: &Query<'_>, outcome: &Outcome) {
        if ![Pin::Transaction, Pin::NextStatement, Pin::Savepoint].iter().any(|pin| self.belief.pins.has(*pin)) {
            self.transaction.log = None;
            return;
        }
        let types = match &query.body {
            Body::Execute(id) => self.belief.statements.find(*id).and_then(|known| known.types.clone()),
            _ => None,
        };
        if let Some(log) = &mut self.transaction.log {
            log.note((query, outcome), types, (&self.belief.state, self.belief.past.insert_id));
        }
    }

    /// Runs the open transaction again on a server that fits; `interrupted` is what follows then. When it succeeds, the
    /// session holds the new connection.
    pub(super) async fn replay(
        &mut self,
        interrupted: &Request,
        lost: &Lost,
        attempts: &mut Attempts,
    ) -> Result<(), NotReplayed> {
        let Some(mut log) = self.transaction.log.take() else {
            return Err(NotReplayed::Obstacle("it began where Sqluice could not see it".into()));
        };
        if let Some(why) = log.obstacle() {
            return Err(NotReplayed::Obstacle(why.clone()));
        }
        let settings = self.env.listener.settings.load();
        let (replay, limit) = (settings.replay, settings.replay.time.unwrap_or(settings.hold));
        drop(settings);
        for closed in log.take_closed() {
            self.belief.statements.bring_back(closed);
        }
        if replay.mode != config::ReplayMode::Any
            && let Some(name) = log.entries().iter().find_map(|entry| volatile_in(entry, &log.request(entry)))
        {
            return Err(NotReplayed::Obstacle(format!("it wrote what {name} gives").into()));
        }
        let kept =
            (self.belief.state.clone(), std::mem::take(&mut self.belief.past), std::mem::take(&mut self.belief.pins));
        let tries = self.try_replays(&log, interrupted, lost, replay.attempts_max, attempts);
        let done = tokio::time::timeout(limit, tries).await;
        let replayed = std::mem::take(&mut self.belief.past);
        (self.belief.state, self.belief.past, self.belief.pins) = kept;
        let mut held =
            done.unwrap_or_else(|_| Err(NotReplayed::Failed(format!("it took longer than {} ms", limit.as_millis()))))?;
        (self.belief.past.insert_id, self.belief.past.doubt) = (replayed.insert_id, replayed.doubt);
        self.belief.past.is_here();
        held.lease.origin.state = self.belief.state.clone();
        held.lease.origin.messages = None;
        self.env.worker.stats.replays.at(0).inspect(|count| count.add_one());
        tracing::info!(
            session = self.env.handle.id,
            from = %lost.name,
            to = %held.lease.server_name(),
            statements = log.entries().len(),
            "a transaction was replayed"
        );
        self.here.held = Some(held);
        self.transaction.log = Some(log);
        Ok(())
    }

    async fn try_replays(
        &mut self,
        log: &TransactionLog,
        interrupted: &Request,
        lost: &Lost,
        attempts_max: u32,
        attempts: &mut Attempts,
    ) -> Result<Held, NotReplayed> {
        let route = Route::to(log.target.clone(), Reason::Transaction, config::Consistency::Session);
        let mut last = String::new();
        while attempts.replays < attempts_max {
            attempts.replays += 1;
            let mut held = match self.checkout(&route, attempts).await {
                Ok(held) => held,
                Err(refusal) => return Err(NotReplayed::Failed(refusal.message)),
            };
            if lost.was_killed && held.lease.server() == lost.server {
                self.clean_up(held).await;
                return Err(NotReplayed::Killed);
            }
            self.belief.state = log.state.clone();
            self.belief.past = Past { insert_id: log.insert_id, ..Past::default() };
            self.belief.pins = Pins::default();
            match self.run_again(&mut held, log, interrupted).await {
                Ok(()) => return Ok(held),
                Err(Wrong::Final(why)) => {
                    self.clean_up(held).await;
                    return Err(why);
                }
                Err(Wrong::Conflict(why)) => {
                    self.clean_up(held).await;
                    tokio::time::sleep(DEADLOCK_PAUSE * attempts.replays).await;
                    last = why;
                }
                Err(Wrong::Lost(why)) => {
                    let server = held.lease.server();
                    self.env.close(held).await;
                    attempts.failed_on(server);
                    last = why;
                }
                Err(Wrong::OutOfGroup(refusal)) => {
                    let server = held.lease.server();
                    self.env.close(held).await;
                    attempts.replays -= 1;
                    self.here.avoid_member(server, refusal, attempts);
                }
            }
        }
        Err(NotReplayed::Failed(format!(
            "none of {attempts_max} attempts (replay_attempts_max) went through, the last one: {last}"
        )))
    }

    /// Runs all statements on a connection.
    async fn run_again(&mut self, held: &mut Held, log: &TransactionLog, interrupted: &Request) -> Result<(), Wrong> {
        for (index, entry) in log.entries().iter().enumerate() {
            let request = log.request(entry);
            let differs = |what| Wrong::Final(NotReplayed::Differs(index + 1, what));
            let id = entry.said.insert_id;
            let said = self.run_with_id(held, entry, &request).await?;
            if said.error != entry.said.error {
                return Err(differs(if said.error == 0 { "no error" } else { "another error" }));
            }
            if said.sum != entry.said.sum {
                return Err(differs("another reply"));
            }
            let used = || log.holds_behind(index, id) || holds_number(interrupted.payload(), id);
            if said.insert_id != id && (said.insert_id == 0 || id == 0 || used()) {
                return Err(differs("another AUTO_INCREMENT value, and the client may have used the first one"));
            }
            if let Some(state) = &entry.state {
                self.belief.state = state.clone();
                held.lease.origin.state = state.clone();
            }
            // Nothing but the first statement finds the connection free.
            self.belief.pins.put(Pin::Transaction, true);
        }
        Ok(())
    }

    /// Runs one statement. A row gets the id of the client's reply, if no other row has it.
    async fn run_with_id(
        &mut self,
        held: &mut Held,
        entry: &LoggedStatement,
        request: &Request,
    ) -> Result<Said, Wrong> {
        let (id, succeeded) = (entry.said.insert_id, entry.said.error == 0);
        if !succeeded || !was_made(entry) {
            return self.run_entry(held, entry, request).await;
        }
        let force = format!("SET insert_id={id}");
        if holds_number(request.payload(), id) {
            // The client may have given the id itself: one that is set for nothing would be the next statement's.
            self.env.ask_for_replay(held, "SAVEPOINT sqluice_replay").await?;
            let said = self.run_entry(held, entry, request).await?;
            if said.insert_id == id || said.error != 0 {
                return Ok(said);
            }
            self.env.ask_for_replay(held, "ROLLBACK TO SAVEPOINT sqluice_replay").await?;
        }
        self.env.ask_for_replay(held, &force).await?;
        let said = self.run_entry(held, entry, request).await?;
        match said.error {
            errno::ER_DUP_ENTRY => self.run_entry(held, entry, request).await,
            _ => Ok(said),
        }
    }

    /// Runs one statement; gives what was said to it.
    async fn run_entry(&mut self, held: &mut Held, entry: &LoggedStatement, request: &Request) -> Result<Said, Wrong> {
        if let Body::Execute(id) = entry.kept.body
            && let Some(known) = self.belief.statements.find_mut(id)
        {
            known.types = entry.types.clone();
        }
        let query = entry.kept.query(request);
        let outcome = self.swallow(held, &query).await.map_err(wrong)?;
        if let Some(error) = &outcome.error {
            let why = format!("{} ({})", error.message, error.code);
            if matches!(error.code, errno::ER_LOCK_WAIT_TIMEOUT | errno::ER_LOCK_DEADLOCK) {
                return Err(Wrong::Conflict(why));
            }
            if is_not_in_group(&error.as_packet()) {
                return Err(Wrong::OutOfGroup(error.clone()));
            }
            if Withhold::Lost.applies(&error.as_packet()) {
                return Err(Wrong::Lost(why));
            }
        }
        self.belief.learn_insert_id(held, &query, &outcome);
        Ok(Said::of(&outcome))
    }

    /// Runs a statement and drops its reply.
    async fn swallow(&mut self, held: &mut Held, query: &Query<'_>) -> Result<Outcome, RelayError> {
        self.env.handle.begin_statement(held.lease.server(), held.lease.origin.thread_id);
        let mut sent = self.env.worker.outgoing.take();
        self.send(held, query, &mut sent).await?;
        if let Some(last) = sent.pending.back_mut() {
            last.purpose = Purpose::Replay;
        }
        let mut outcome =
            Outcome { taps: Taps { sum: Some(Checksum::default()), ..Taps::default() }, ..Outcome::default() };
        let mut relay = Relay {
            worker: &self.env.worker,
            handle: &self.env.handle,
            client: &mut self.client,
            connection: &mut held.lease,
            pending: &mut sent.pending,
            tracking: &self.belief.tracking,
            withhold: Withhold::Nothing,
            hearing: None,
            file_allowed: false,
            prepare_as: 0,
            keeps_end: false,
            rows_stay: false,
            texts: None,
            warnings: None,
            outcome: &mut outcome,
        };
        relay.run().await?;
        Ok(outcome)
    }
}

impl Environment {
    /// Whether it succeeds shows in what follows.
    async fn ask_for_replay(&mut self, held: &mut Held, text: &str) -> Result<(), Wrong> {
        ask(&mut held.lease, text, &self.worker).await.map(drop).map_err(wrong)
    }
}

/// The cause of a try whose connection failed.
fn wrong(error: RelayError) -> Wrong {
    match error {
        RelayError::Server(why) => Wrong::Lost(why),
        RelayError::FixUp(refusal) if refusal.code == NOT_IN_GROUP => Wrong::OutOfGroup(refusal),
        RelayError::FixUp(refusal)
        | RelayError::Unprepared(refusal)
        | RelayError::Withheld(refusal)
        | RelayError::Ended(refusal)
        | RelayError::NotThere(refusal) => Wrong::Final(NotReplayed::Failed(refusal.message)),
        RelayError::Client(error) => Wrong::Final(NotReplayed::Failed(error.to_string())),
        RelayError::UnexpectedInfile { name, .. } => {
            Wrong::Final(NotReplayed::Failed(format!("the server asked for the file '{name}'")))
        }
    }
}

/// Whether the server may have made the id of the client's reply, and can be made to make it again.
fn was_made(entry: &LoggedStatement) -> bool {
    let Kept { command, statement, .. } = &entry.kept;
    entry.said.insert_id != 0
        && statement.kind == Kind::Insert
        && statement.parts == 1
        && matches!(command, Command::Query | Command::StmtExecute)
        && !statement.asks.intersects(Asks::ROW_COUNT | Asks::FOUND_ROWS)
}

/// The part of a statement that writes which has another value each time.
fn volatile_in(entry: &LoggedStatement, request: &Request) -> Option<String> {
    if entry.kept.statement.access.only_reads() {
        return None;
    }
    let query = entry.kept.query(request);
    let text = query.text()?;
    sql::volatile(text.bytes, &text.dialect)
}

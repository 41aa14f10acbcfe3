//! The statements of an open transaction, as they were sent, each with what tells its reply from others: enough to run
//! them again on another server and to see whether that one says the same.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use sql::{Access, Asks, Effect, Kind, TransactionStep, Value, Why};
use wire::command::Command;
use wire::packet;

use super::client::Request;
use super::diagnostics::learned::holds_number;
use super::query::{Body, Kept, Query};
use super::relay::Outcome;
use super::statements::ClientStatement;
use route::state::StateMap;
use route::{Pin, Pins, Target};

/// Why a transaction cannot be replayed, in words for the client.
pub type Obstacle = Cow<'static, str>;

/// The bytes that a state of the session counts for: it shares most of them with others.
const STATE_BYTES: usize = 1024;
/// Room for the packets of a usual transaction, which is seldom longer.
const BYTES_AT_FIRST: usize = 256;

/// The costs that one transaction may have, by the listener's settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all statements.
    pub bytes_max: u64,
    /// Statements.
    pub statements_max: u32,
}

/// The statements of one transaction.
#[derive(Debug)]
pub struct TransactionLog {
    /// The session's state before the first statement.
    pub state: Arc<StateMap>,
    /// LAST_INSERT_ID() before the first statement.
    pub insert_id: u64,
    /// Where the first statement went.
    pub target: Target,
    /// Something may have been written.
    pub wrote: bool,
    limits: Limits,
    bytes: Vec<u8>,
    entries: Vec<LoggedStatement>,
    /// The first entries, which only open the transaction.
    preamble: usize,
    /// A transaction is open, not only announced by SET TRANSACTION.
    is_open: bool,
    /// Prepared statements that the client has closed, with entries that execute them.
    closed: Vec<ClientStatement>,
    obstacle: Option<Obstacle>,
    /// The session's state behind the last statement.
    last: Arc<StateMap>,
    /// How many states the statements have gone through.
    states: usize,
}

/// One statement, and what was said to it.
#[derive(Debug)]
pub struct LoggedStatement {
    /// All but its packets.
    pub kept: Kept,
    /// The types of its parameters, and of how many they are.
    pub types: Option<(u64, Box<[u8]>)>,
    /// The session's state behind it, if it changed that.
    pub state: Option<Arc<StateMap>>,
    /// The values that tell its reply from others.
    pub said: Said,
    at: Range<usize>,
    sequence: u8,
}

/// The values that tell a reply from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Of columns, rows and ends.
    pub sum: u64,
    /// The AUTO_INCREMENT value of the client's reply, or 0.
    pub insert_id: u64,
    /// The code of its error, or 0.
    pub error: u16,
}

impl Said {
    /// The values of a reply.
    pub fn of(outcome: &Outcome) -> Said {
        Said {
            sum: outcome.taps.sum.map_or(0, |sum| sum.value()),
            insert_id: outcome.insert_id,
            error: outcome.error.as_ref().map_or(0, |error| error.code),
        }
    }
}

impl TransactionLog {
    /// Nothing yet, of a session in this state and with this LAST_INSERT_ID().
    pub fn new(
        (state, insert_id): (&Arc<StateMap>, u64),
        target: &Target,
        pins: &Pins,
        limits: Limits,
    ) -> TransactionLog {
        let target = if *target == Target::Pinned { Target::Primary } else { target.clone() };
        let mut log = TransactionLog {
            state: state.clone(),
            insert_id,
            target,
            wrote: false,
            limits,
            bytes: Vec::with_capacity(BYTES_AT_FIRST),
            entries: Vec::new(),
            preamble: 0,
            is_open: false,
            closed: Vec::new(),
            obstacle: None,
            last: state.clone(),
            states: 0,
        };
        // A value that only the next statement may ask for is no hindrance.
        if let Some(word) = pins.words().find(|word| *word != Pin::WORDS[Pin::FoundRows as usize]) {
            log.give_up(format!("the session was pinned before (by {word})").into());
        }
        log
    }

    /// Why it cannot be replayed.
    pub fn obstacle(&self) -> Option<&Obstacle> {
        self.obstacle.as_ref()
    }

    /// It will not be replayed: what was kept for that goes.
    pub fn give_up(&mut self, why: Obstacle) {
        self.obstacle.get_or_insert(why);
        (self.bytes, self.entries, self.closed, self.preamble) = (Vec::new(), Vec::new(), Vec::new(), 0);
    }

    /// The statements.
    pub fn entries(&self) -> &[LoggedStatement] {
        &self.entries
    }

    /// A statement's packets.
    pub fn request(&self, entry: &LoggedStatement) -> Request {
        Request::again(self.bytes.get(entry.at.clone()).unwrap_or_default(), entry.sequence)
    }

    /// The prepared statements that its statements need and the client has closed.
    pub fn take_closed(&mut self) -> Vec<ClientStatement> {
        std::mem::take(&mut self.closed)
    }

    /// The client closes a prepared statement.
    pub fn closes(&mut self, statement: ClientStatement) {
        let uses = |entry: &LoggedStatement| matches!(entry.kept.body, Body::Execute(id) if id == statement.id);
        if self.entries.iter().any(uses) {
            self.closed.push(statement);
        }
    }

    /// Whether a later statement than the entry of this index holds this number: the client may have used an id from
    /// its reply.
    pub fn holds_behind(&self, index: usize, number: u64) -> bool {
        let later = self.entries.iter().skip(index + 1);
        later.into_iter().any(|entry| {
            let packets = self.bytes.get(entry.at.clone()).unwrap_or_default();
            holds_number(packets.get(packet::HEADER_BYTES..).unwrap_or_default(), number)
        })
    }

    /// A statement of the transaction had its reply, and left the session in this state and with this LAST_INSERT_ID().
    pub fn note(
        &mut self,
        (query, outcome): (&Query<'_>, &Outcome),
        types: Option<(u64, Box<[u8]>)>,
        (after, insert_id): (&Arc<StateMap>, u64),
    ) {
        use TransactionStep::{Begin, Commit, ImplicitCommit, Rollback};
        let statement = &*query.statement;
        let several = statement.parts > 1;
        // That it is prepared begins and ends nothing.
        let step = statement.transaction.filter(|_| query.runs_text());
        match step {
            Some(Begin { .. }) if self.is_open && !several => self.restart(after, insert_id),
            Some(Commit { chain: true, .. } | Rollback { chain: true, .. }) if !several => {
                return self.chain(after, insert_id);
            }
            Some(Commit { .. } | Rollback { .. } | ImplicitCommit) if self.is_open && !several => {
                // Another one has begun with it, in a way that the text does not show.
                self.restart(after, insert_id);
                self.give_up("it began within another statement".into());
            }
            _ => {}
        }
        self.wrote |= statement.asks.contains(Asks::STORED_FUNCTIONS)
            || !statement.access.only_reads()
                && !matches!(
                    statement.access,
                    Access::Primary(Why::Transaction | Why::SessionChange | Why::LockingRead)
                );
        self.is_open = true;
        if self.obstacle.is_some() || !matters(query.command) {
            return;
        }
        if let Some(why) = obstacle_of(query, outcome) {
            return self.give_up(why);
        }
        let start = self.bytes.len();
        let changed = self.last.fingerprint() != after.fingerprint();
        if changed {
            (self.last, self.states) = (after.clone(), self.states + 1);
        }
        let entries = (self.entries.len() + 1) * size_of::<LoggedStatement>() + self.states * STATE_BYTES;
        let cost = start + query.request.packets.len() + entries;
        let limits = self.limits;
        if cost as u64 > limits.bytes_max {
            return self.give_up(format!("it is longer than {} bytes (replay_bytes_max)", limits.bytes_max).into());
        }
        if self.entries.len() >= limits.statements_max as usize {
            let max = limits.statements_max;
            return self.give_up(format!("it has more than {max} statements (replay_statements_max)").into());
        }
        self.bytes.extend_from_slice(&query.request.packets);
        self.entries.push(LoggedStatement {
            kept: query.keep(),
            types,
            state: changed.then(|| after.clone()),
            said: Said::of(outcome),
            at: start..self.bytes.len(),
            sequence: query.request.sequence,
        });
        let opens = |effect: &Effect| matches!(effect, Effect::TransactionCharacteristics { .. });
        if matches!(step, Some(Begin { .. })) {
            self.preamble = self.entries.len();
        } else if statement.effects.iter().any(opens) && self.entries.len() == self.preamble + 1 {
            // It announces the transaction that is to come.
            (self.preamble, self.is_open) = (self.entries.len(), false);
        }
    }

    /// Another transaction begins; what was open is committed.
    fn restart(&mut self, state: &Arc<StateMap>, insert_id: u64) {
        (self.state, self.insert_id, self.wrote, self.obstacle) = (state.clone(), insert_id, false, None);
        self.bytes.clear();
        self.entries.clear();
        self.closed.clear();
        (self.preamble, self.is_open, self.states) = (0, false, 0);
        self.last = state.clone();
    }

    /// AND CHAIN: another transaction begins as this one did.
    fn chain(&mut self, state: &Arc<StateMap>, insert_id: u64) {
        if self.obstacle.is_some() || self.preamble == 0 {
            self.restart(state, insert_id);
            return self.give_up("it began with AND CHAIN".into());
        }
        (self.state, self.insert_id, self.wrote) = (state.clone(), insert_id, false);
        self.entries.truncate(self.preamble);
        self.bytes.truncate(self.entries.last().map_or(0, |entry| entry.at.end));
        self.closed.clear();
        (self.last, self.states) = (state.clone(), 0);
    }
}

/// Whether a command leaves something in the transaction, or tells something of it.
fn matters(command: Command) -> bool {
    !matches!(
        command,
        Command::StmtPrepare
            | Command::StmtReset
            | Command::FieldList
            | Command::Statistics
            | Command::ProcessInfo
            | Command::SetOption
    )
}

/// Why a statement cannot be run again, whatever it says.
fn obstacle_of(query: &Query<'_>, outcome: &Outcome) -> Option<Obstacle> {
    let statement = &*query.statement;
    if !query.runs_text() {
        let what = if query.command == Command::StmtSendLongData { "long data" } else { "a cursor" };
        return Some(what.into());
    }
    if let Some(1205 | 1317 | 1969 | 3024) = outcome.error.as_ref().map(|error| error.code) {
        return Some("a statement ran into a timeout or was killed".into());
    }
    if statement.asks.contains(Asks::LOCAL_FILE) {
        return Some("LOAD DATA LOCAL".into());
    }
    if statement.parts > 1 {
        let autocommit = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name == "autocommit");
        if statement.transaction.is_some() || statement.effects.iter().any(autocommit) {
            return Some("a text of several statements opens or ends a transaction".into());
        }
    }
    let kind: &'static str = match statement.kind {
        Kind::Call => "CALL",
        Kind::Compound => "a compound statement",
        Kind::PreparedText => "PREPARE or EXECUTE",
        Kind::Xa => "XA",
        Kind::Lock => "LOCK TABLES",
        Kind::Handler => "HANDLER",
        Kind::Unknown => "a statement of unknown form",
        Kind::Account | Kind::Administration | Kind::Kill if !statement.access.only_reads() => "administration",
        _ => "",
    };
    if !kind.is_empty() {
        return Some(kind.into());
    }
    let is_variable = |effect: &Effect| matches!(effect, Effect::UserVariable { .. });
    if statement.access == Access::Primary(Why::Into) && !statement.effects.iter().any(is_variable) {
        return Some("SELECT … INTO a file".into());
    }
    let word = match statement.access {
        Access::Primary(Why::Locks) => "a user lock",
        Access::Primary(Why::Administration) => "administration",
        _ => statement.effects.iter().map(hidden).find(|word| !word.is_empty())?,
    };
    Some(word.into())
}

/// The hidden part of an effect: running the statement again does not bring it back for sure.
fn hidden(effect: &Effect) -> &'static str {
    match effect {
        Effect::Variable { value: Value::Unknown, .. } => "a variable was set to what only the server knows",
        Effect::GlobalVariable { .. } => "SET GLOBAL",
        Effect::TakeUserLock(_) | Effect::ReleaseUserLock(_) | Effect::ReleaseAllUserLocks { .. } => "a user lock",
        Effect::Leaves(_) => "a user lock or a sequence",
        Effect::CreateTemporaryTable(_) => "a temporary table",
        Effect::Role { .. } => "SET ROLE",
        Effect::CountsConnection => "SHOW STATUS",
        Effect::MayChangeSession | Effect::ExecuteText { .. } | Effect::PrepareText { .. } => {
            "a statement that may change the session unseen"
        }
        _ => "",
    }
}

/// Whether a session pinned by these has lost no more with its server than what a replay brings back.
pub fn is_whole_with(pins: &Pins) -> bool {
    let brought_back = [Pin::Transaction, Pin::NextStatement, Pin::Savepoint, Pin::FoundRows, Pin::UserVariable];
    let bits = brought_back.iter().fold(0, |bits, pin| bits | 1 << *pin as u32);
    pins.bits() & !bits == 0 && !pins.has_hidden_user_variables()
}

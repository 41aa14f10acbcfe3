//! State that a server keeps until a statement uses it up: the characteristics that SET TRANSACTION announces, and the number
//! of SET insert_id. While it waits the session keeps its connection, and only the server's word ends that.
//!
//! Which statements use up SET TRANSACTION cannot be read from a text: it depends on whether a storage engine with
//! transactions took part. Seen with MariaDB 10.11 and MySQL 9.7, outside a transaction:
//!
//! | statement | SET TRANSACTION |
//! |---|---|
//! | SELECT, SET or DO without a table; SELECT of MEMORY, MyISAM, a sequence engine, a view of constants | waits on |
//! | SELECT of an InnoDB table, in a view, a subquery or a function, also of no row; EXPLAIN of it | is used up |
//! | `SET @x = (SELECT … FROM t)`, `SELECT … INTO @x FROM t`, CALL and EXECUTE that read a table | is used up |
//! | CALL and EXECUTE that read none; PREPARE | waits on |
//! | a write or locking read that is refused (1792) | waits on |
//! | an error while a row is read (1242) | is used up |
//! | an unknown column of a table (1054) | is used up with MariaDB, waits on with MySQL |
//! | an unknown table, a syntax error, SIGNAL | waits on |
//! | SHOW TABLES, COLUMNS, INDEX, DATABASES; tables of information_schema | waits on with MariaDB, is used up with MySQL |
//! | SHOW VARIABLES, STATUS, WARNINGS, PROCESSLIST, CREATE TABLE; USE, COM_INIT_DB, COM_PING | waits on |
//! | COMMIT and ROLLBACK without a transaction; all that commits by itself, also when it fails; LOCK TABLES | is used up |
//! | SAVEPOINT, UNLOCK TABLES, HANDLER … OPEN, GET_LOCK, SET autocommit | waits on |
//! | BEGIN, XA START, with `autocommit = 0` the first read | is used up with the end of the transaction |
//! | SET SESSION TRANSACTION | takes the place of the same characteristic; the others wait on |
//! | COM_RESET_CONNECTION, COM_CHANGE_USER | is gone |
//!
//! The servers tell it: with `session_track_transaction_info = CHARACTERISTICS` an OK packet has `SET TRANSACTION …` while it
//! waits, and nothing when it was used up. An ERR packet and a result in the old framing have no room for that, and MariaDB
//! does not make up for it later; to set the variable once more makes both families say what waits. The variable
//! must be set before SET TRANSACTION: a server does not know what was announced while it was off.
//!
//! MySQL's tracker keeps the READ ONLY or READ WRITE of a START TRANSACTION that ended while the variable was off, and reports it
//! as announced once the variable is set; it forgets that when a COMMIT ends, also one without a transaction (seen with 9.7).
//! Nothing that waits can have been announced on a connection that does not tell: outside a transaction each possible
//! announcement makes it tell first, and within one the server refuses.
//!
//! The number of SET insert_id waits for a row that is given a number, of any table, also when that INSERT fails
//! afterwards. `@@insert_id` is 0 then. On MySQL 0 may be the number that waits.

use sql::{Effect, Kind, Statement, TransactionStep, Value};
use wire::command::Command;
use wire::exchange::Expect;
use wire::packet::HEADER_BYTES;
use wire::{Status, reply};

use crate::outgoing::Outgoing;
use crate::outgoing::Purpose;
use crate::pool::Connection;
use crate::session::belief::Belief;
use crate::session::environment::Environment;
use crate::session::query::Query;
use crate::session::relay::{Outcome, RelayError, StateChange, changes_of};
use crate::session::reset::ask;
use crate::session::tracking::TRANSACTION_INFO;
use crate::session::{Held, Session};
use route::{OneUse, Pin};

/// Makes a connection tell what SET TRANSACTION has announced, now and whenever it changes. No literal: MySQL does not
/// understand the value in one of utf16.
const TELL_CHARACTERISTICS: &str = "SET session_track_transaction_info=CHARACTERISTICS";
/// Takes away what is announced, whatever `completion_type` says.
const TAKE_AWAY: &str = "COMMIT AND NO CHAIN NO RELEASE";

/// The state of one use that only the server knows.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::session) struct Unsure {
    /// Whether SET TRANSACTION waits.
    characteristics: bool,
    /// Whether the number of SET insert_id waits.
    insert_id: bool,
    /// Whether a routine has ended the transaction that it was called in, and announced something on a connection that does
    /// not tell: what waits is taken away.
    unheard: bool,
}

impl Unsure {
    /// Whether there is none.
    #[inline]
    pub(super) fn is_none(self) -> bool {
        !(self.characteristics || self.insert_id || self.unheard)
    }
}

/// Whether a transaction that the statement begins may leave its access mode in MySQL's tracker.
fn may_leave_access_mode(statement: &Statement) -> bool {
    let begins = matches!(statement.transaction, Some(TransactionStep::Begin { read_only: Some(_), .. }));
    begins || statement.parts > 1 || statement.effects.iter().any(super::unreported::is_hidden)
}

impl Session {
    /// Asks the server whether state of one use still waits. Gives whether the connection is still good.
    pub(in crate::session) async fn ask_one_use(&mut self, held: &mut Held) -> bool {
        if std::mem::take(&mut self.belief.past.unsure.unheard)
            && ask(&mut held.lease, TAKE_AWAY, &self.env.worker).await.is_err()
        {
            return false;
        }
        if std::mem::take(&mut self.belief.past.unsure.characteristics) {
            let reply = match self.belief.tells(&held.lease) {
                true => self.env.ask_characteristics(held).await,
                false => Ok(Some(String::new())),
            };
            match reply {
                Ok(Some(text)) => self.belief.learn_characteristics(&text),
                Ok(None) => self.belief.pins.put(Pin::Opaque, true),
                Err(_) => return false,
            }
        }
        if std::mem::take(&mut self.belief.past.unsure.insert_id) {
            let capabilities = held.lease.origin.capabilities;
            let Ok(reply) = ask(&mut held.lease, "SELECT @@insert_id", &self.env.worker).await else { return false };
            let rows = reply.and_then(|reply| super::read_back::rows(&reply, 1, capabilities).ok()).unwrap_or_default();
            let waits = rows.first().and_then(|row| row.first()?.as_deref()) != Some(b"0");
            self.belief.pins.one_use(OneUse::InsertId, waits);
        }
        if self.belief.pins.is_empty() {
            // Nothing is announced any more: the next transaction's statements are kept anew.
            self.transaction.log = None;
        }
        self.env.show_pins(self.belief.pins.bits());
        true
    }
}

impl Belief {
    /// Whether a statement may leave SET TRANSACTION waiting: by its text, or behind it.
    fn may_announce(&self, statement: &Statement) -> bool {
        statement.effects.iter().any(|effect| match effect {
            Effect::ExecuteText { name } => self.pins.text_may_announce(name),
            effect => effect.may_announce(),
        })
    }

    /// The server says what SET TRANSACTION has announced, in SQL; nothing when that was used up.
    pub(in crate::session) fn learn_characteristics(&mut self, text: &str) {
        self.past.unsure.characteristics = false;
        // START TRANSACTION alone is what the open transaction began with.
        self.pins.one_use(OneUse::Characteristics, text.contains("SET TRANSACTION"));
    }

    fn learn_given_id(&mut self, query: &Query<'_>, outcome: &Outcome) {
        let statement = &*query.statement;
        let sets = statement.effects.iter().rev().find_map(|effect| match effect {
            Effect::Variable { name, value } if name == "insert_id" => Some(value),
            _ => None,
        });
        let reported = |change: &StateChange| matches!(change, StateChange::Variable(name, _) if name == "insert_id");
        // A part of a text that failed, and a routine, may have set it.
        let may_be_set = sets.is_some() && (outcome.error.is_none() || statement.parts > 1);
        if may_be_set || outcome.changes.iter().any(reported) {
            self.pins.one_use(OneUse::InsertId, true);
            let is_number = |value: &Value| matches!(value, Value::Literal(text) if text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)));
            let is_sure = sets.is_some_and(is_number);
            self.past.unsure.insert_id |= !is_sure || statement.parts > 1;
            if !is_sure && !self.is_mariadb() {
                // `@@insert_id` would not tell a 0 that waits from nothing.
                self.pins.put(Pin::Opaque, true);
            }
        } else if self.pins.awaits_use(OneUse::InsertId)
            && (!statement.access.only_reads() || statement.asks.contains(sql::Asks::STORED_FUNCTIONS))
            && !(matches!(statement.kind, Kind::Set | Kind::Use | Kind::Transaction) && statement.parts <= 1)
        {
            self.past.unsure.insert_id = true;
        }
    }

    /// The questions for the server when nothing keeps the connection but pins that may be over by now (and user variables):
    /// state of one use, and user locks.
    pub(in crate::session) fn asks_of_pins(&self) -> (bool, bool) {
        let unsure = self.past.unsure;
        let one_use = unsure.characteristics || unsure.insert_id || unsure.unheard;
        let locks = self.pins.has(Pin::UserLock) && self.pins.unsure_user_locks().is_some();
        let bit = |pin: Pin, may_go: bool| u32::from(may_go) << pin as u32;
        let may_go = bit(Pin::UserVariable, true) | bit(Pin::NextStatement, one_use) | bit(Pin::UserLock, locks);
        let alone = self.pins.bits() & !may_go == 0;
        (one_use && alone, locks && alone)
    }

    /// Has the connection tell of SET TRANSACTION no longer, ahead of a read that MariaDB's query cache may answer: a server that
    /// reports transactions does not use it (seen with 10.11).
    pub(in crate::session) fn hear_no_more_of_characteristics(
        &self,
        connection: &mut Connection,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) {
        let caches =
            || self.catalog.globals.get("query_cache_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("OFF"));
        let keeps = [Pin::Transaction, Pin::Xa, Pin::NextStatement, Pin::ExpiredPassword]
            .into_iter()
            .any(|pin| self.pins.has(pin));
        let reads = query.statement.kind == Kind::Select && query.statement.access.only_reads();
        if !reads || keeps || self.past.unsure.characteristics || self.pins.some_text_may_announce() || !caches() {
            return;
        }
        self.say_no_more(connection, out);
    }

    /// Has the connection tell of transactions no more than the client has asked for.
    fn say_no_more(&self, connection: &mut Connection, out: &mut Outgoing) {
        let own = self.state.variable(TRANSACTION_INFO).unwrap_or("DEFAULT");
        let set = format!("SET {TRANSACTION_INFO}={own}");
        out.command(connection, Command::Query, set.as_bytes(), Purpose::Variables, Expect::Results);
        connection.origin.tells_characteristics = false;
    }

    /// Makes the connection tell of SET TRANSACTION, ahead of a statement that may announce something.
    pub(in crate::session) fn hear_of_characteristics(
        &self,
        connection: &mut Connection,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) {
        // Ahead of EXECUTE it would change ROW_COUNT(), which that may ask for.
        let prepares = |effect: &Effect| matches!(effect, Effect::PrepareText { announces: true, .. });
        let prepares = || query.statement.effects.iter().any(prepares);
        if connection.origin.tells_characteristics && query.statement.parts == 1 && turns_reports(&query.statement) {
            // Reports that are turned on know nothing of a transaction that has begun before.
            return self.say_no_more(connection, out);
        }
        // In an open transaction SET TRANSACTION is refused, and MySQL would forget that it has reported a transaction. One that only
        // counts as open, behind an error, may be none.
        let is_open = self.pins.has(Pin::Transaction) && self.status.contains(Status::IN_TRANSACTION);
        if is_open
            || self.pins.has(Pin::ExpiredPassword)
            || self.tells(connection)
            || !query.runs_text()
            || !(self.may_announce(&query.statement) || prepares())
        {
            return;
        }
        let set = TELL_CHARACTERISTICS.as_bytes();
        out.command(connection, Command::Query, set, Purpose::Variables, Expect::Results);
        connection.origin.tells_characteristics = true;
        // A savepoint without a transaction would go with it.
        if connection.origin.access_mode_left && !self.pins.has(Pin::Savepoint) {
            connection.origin.access_mode_left = false;
            out.command(connection, Command::Query, TAKE_AWAY.as_bytes(), Purpose::Variables, Expect::Results);
        }
    }

    /// Learns the state of one use that a statement leaves waiting, as far as its text and its reply tell.
    pub(in crate::session) fn learn_one_use(&mut self, held: &mut Held, query: &Query<'_>, outcome: &Outcome) {
        let statement = &*query.statement;
        if statement.transaction.is_some_and(|step| step != TransactionStep::Savepoint) && statement.parts <= 1 {
            self.past.unsure.unheard &= outcome.error.is_some();
        } else if self.may_announce(statement) && !self.tells(&held.lease) {
            self.past.unsure.unheard = true;
        }
        if may_leave_access_mode(statement) && !self.tells(&held.lease) {
            held.lease.origin.access_mode_left = !held.lease.origin.mariadb;
        }
        let unreported = outcome.error.is_some() || outcome.ended_by_eof;
        let reported = || outcome.changes.iter().any(|change| matches!(change, StateChange::Characteristics(_)));
        let announces = |effect: &Effect| matches!(effect, Effect::TransactionCharacteristics { session: false, .. });
        if unreported && (self.pins.awaits_use(OneUse::Characteristics) || self.may_announce(statement)) {
            self.past.unsure.characteristics = true;
        } else if statement.effects.iter().any(announces) && !reported() {
            // The server tells a second, equal announcement only once.
            self.past.unsure.characteristics = true;
        }
        let sets = |wanted: &str| {
            let is = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name == wanted);
            let reported = |change: &StateChange| matches!(change, StateChange::Variable(name, _) if name == wanted);
            statement.effects.iter().any(is) || outcome.changes.iter().any(reported)
        };
        if (!statement.effects.is_empty() || !outcome.changes.is_empty()) && sets(TRANSACTION_INFO) {
            held.lease.origin.tells_characteristics = false;
            if self.pins.awaits_use(OneUse::Characteristics) || self.past.unsure.characteristics {
                self.pins.put(Pin::Opaque, true);
            }
        }
        self.learn_given_id(query, outcome);
    }

    /// Whether a connection tells what SET TRANSACTION announces.
    fn tells(&self, connection: &Connection) -> bool {
        connection.origin.tells_characteristics
            || self.state.variable(TRANSACTION_INFO).is_some_and(|own| own.eq_ignore_ascii_case("CHARACTERISTICS"))
    }
}

/// Whether a statement sets the reports of transactions.
fn turns_reports(statement: &Statement) -> bool {
    let is_it = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name == TRANSACTION_INFO);
    statement.effects.iter().any(is_it)
}

impl Environment {
    async fn ask_characteristics(&mut self, held: &mut Held) -> Result<Option<String>, RelayError> {
        held.lease.origin.tells_characteristics = true;
        let reply = ask(&mut held.lease, TELL_CHARACTERISTICS, &self.worker).await?;
        let Some(payload) = reply.as_deref().and_then(|reply| reply.get(HEADER_BYTES..)) else { return Ok(None) };
        let ok = reply::Ok::parse(payload, held.lease.origin.capabilities)?;
        let mut changes = Vec::new();
        changes_of(&ok, &mut changes)?;
        Ok(changes.into_iter().find_map(|change| match change {
            StateChange::Characteristics(text) => Some(text),
            _ => None,
        }))
    }
}

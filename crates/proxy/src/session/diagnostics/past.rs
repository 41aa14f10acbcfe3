//! The results of earlier statements that count for the next one, LAST_INSERT_ID() and the messages: a connection that has not
//! seen them gets them ahead of the statement.

use facts::catalog::Hidden;
use sql::{Asks, Kind};
use wire::Capabilities;
use wire::command::Command;
use wire::exchange::Expect;

use super::again::ERRORS_MAX;
use super::learned::{holds_id, may_name_tables};
use super::one_use::Unsure;
use crate::error::{Refusal, SessionEnd};
use crate::outgoing::Outgoing;
use crate::outgoing::{Expected, Purpose};
use crate::pool::Connection;
use crate::session::belief::Belief;
use crate::session::client::Request;
use crate::session::query::Query;
use crate::session::result_end::without_state;
use crate::session::write::write;
use crate::session::{Held, Session};

/// The results of the last statement that a later one may ask for.
#[derive(Debug, Default)]
pub(in crate::session) struct Past {
    pub insert_id: u64,
    /// LAST_INSERT_ID() may be something else: the server is asked before the connection goes.
    pub doubt: Option<Doubt>,
    /// System variables whose values are asked for before the connection goes: no reply reported them. SET CHARACTER SET takes
    /// the schema's collation, and another schema does not change it.
    pub variables: Vec<Box<str>>,
    /// The parts of [`route::OneUse`] that the server is asked for before the connection goes.
    pub unsure: Unsure,
    /// The last commit that a server reported: MariaDB's `@@last_gtid`.
    pub last_gtid: Option<Box<str>>,
    pub row_count: i64,
    /// The connection of the last statement: `last_session` and `thread_id` of its [`crate::pool::Origin`].
    pub ran_on: Option<(u32, u64)>,
    /// A connection that is kept does not know ROW_COUNT(): Sqluice asked it something since, or answered the client itself.
    pub row_count_is_here: bool,
    /// It does not know FOUND_ROWS(): that, or no statement since was counted that the session ran there.
    pub found_rows_are_here: bool,
    /// Nothing before the first statement.
    pub found_rows: Option<u64>,
    /// The last statement's reply did not tell: the server is asked before its connection goes.
    pub found_rows_unsure: bool,
    /// The connection was given it ahead of the statement that runs.
    pub found_rows_given: bool,
    /// The connection was given 0 for a larger number: so it was left as it was, should it be 0 afterwards.
    pub found_rows_stand_in: bool,
    /// The last statement has either found so many or left FOUND_ROWS() as it was.
    pub found_rows_own: Option<u64>,
    /// The session has asked for it before.
    pub asks_found_rows: bool,
    pub error: Option<Refusal>,
    /// Errors ahead of that one, all of Sqluice's own, while `messages` is this number.
    pub errors_ahead: (u32, Vec<Refusal>),
    /// The server's own message of that error, where the client got another one.
    pub of_server: Option<Box<str>>,
    /// The reply to SHOW WARNINGS behind the last statement, as bytes for this client.
    pub warnings: Option<Vec<u8>>,
    /// `character_set_results` as that reply was made.
    pub warnings_charset: Option<Box<str>>,
    /// The same of before a command that has added to them, while what it added is unread.
    pub warnings_before: Option<Vec<u8>>,
    pub warning_count: u16,
    /// How many messages the last statement had, whether or not it left those before it.
    pub own_messages: u16,
    /// The last statement left messages of which `warnings` does not know yet.
    pub messages_unread: bool,
    /// SIGNAL may have made them, with another SQLSTATE than a server's own.
    pub signals: bool,
    /// The SIGNAL that made them: to be run again where they are asked for.
    pub signal: Option<Box<str>>,
    /// Whether these messages are still there is asked before the connection goes.
    pub messages_unsure: bool,
    /// Grows with each statement that changes what SHOW WARNINGS says: tells whether a connection still knows it.
    pub messages: u32,
}

/// Why LAST_INSERT_ID() is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Doubt {
    /// It is whatever the server says.
    Any,
    /// This id was reported, and may have been given by the client: then nothing has changed.
    Given(u64),
    /// A statement failed, and may have made one before that: then it is another one than its connection had.
    Made,
}

impl Past {
    /// A result of so many rows has come.
    #[inline]
    pub(in crate::session) fn counted_rows(&mut self, rows: Option<u64>) {
        (self.row_count, self.row_count_is_here) = (-1, false);
        (self.found_rows, self.found_rows_own) = (rows, None);
        (self.found_rows_given, self.found_rows_unsure) = (false, false);
        (self.found_rows_stand_in, self.found_rows_are_here) = (false, false);
    }

    /// The last statement has left no message, and those before it are gone.
    #[inline]
    pub(in crate::session) fn has_no_messages(&mut self) {
        (self.own_messages, self.warning_count) = (0, 0);
        (self.messages_unread, self.messages_unsure, self.signals) = (false, false, false);
        if self.error.is_some() || self.warnings.is_some() || self.warnings_before.is_some() {
            (self.error, self.warnings, self.warnings_before) = (None, None, None);
        }
        (self.of_server, self.signal) = (None, None);
        self.messages = self.messages.wrapping_add(1);
    }

    /// Whether nothing has to be asked of a connection before another session gets it.
    #[inline]
    pub(in crate::session) fn is_known(&self) -> bool {
        self.doubt.is_none()
            && self.variables.is_empty()
            && self.unsure.is_none()
            && !self.messages_unread
            && !self.messages_unsure
            && !self.found_rows_unsure
    }

    /// Sqluice has asked the connection something, or has answered in its place.
    pub(in crate::session) fn is_here(&mut self) {
        (self.row_count_is_here, self.found_rows_are_here) = (true, true);
    }

    /// Sqluice has answered a command with this error, which is the only message then.
    pub(in crate::session) fn refused(&mut self, refusal: &Refusal) {
        self.error = Some(refusal.clone());
        (self.signals, self.signal) = (false, None);
        (self.warnings, self.warning_count, self.own_messages) = (None, 0, 1);
        self.answered(-1);
        self.messages = self.messages.wrapping_add(1);
    }

    /// The errors ahead of the last one; none where the reply to SHOW WARNINGS is known.
    pub(super) fn errors_before(&self) -> &[Refusal] {
        let (of, errors) = &self.errors_ahead;
        if *of == self.messages { errors } else { &[] }
    }

    /// Takes the last error and those ahead of it.
    pub(in crate::session) fn take_errors(&mut self) -> Vec<Refusal> {
        let (of, mut errors) = std::mem::take(&mut self.errors_ahead);
        if of != self.messages {
            errors.clear();
        }
        errors.extend(self.error.take());
        errors
    }

    /// The last error stands behind these. Servers keep 64 messages by default.
    pub(in crate::session) fn put_ahead(&mut self, mut errors: Vec<Refusal>) {
        errors.truncate(ERRORS_MAX - 1);
        self.errors_ahead = (self.messages, errors);
    }

    /// Sqluice has answered a command in the way of a server, which counts so many rows for it.
    pub(in crate::session) fn answered(&mut self, row_count: i64) {
        (self.row_count, self.row_count_is_here) = (row_count, true);
    }
}

impl Session {
    /// Gives a connection the results of the session's earlier statements that it does not know.
    pub(in crate::session) fn restore_past(
        &mut self,
        connection: &mut Connection,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) {
        let statement = &*query.statement;
        self.belief.past.found_rows_given = false;
        if statement.is_plain_read() && self.asks_nothing_in_code(query) {
            if !out.pending.is_empty() {
                connection.origin.hears_question();
            }
            return;
        }
        let in_code = self.here.counts_in_code(query);
        if !self.belief.has_insert_id_on(connection.origin.insert_id)
            && self.needs_insert_id(connection.origin.insert_id, query)
        {
            let set = self.belief.set_insert_id(connection.origin.insert_id);
            if self.belief.past.doubt.is_some() {
                (self.belief.past.doubt, connection.origin.insert_id) = (Some(Doubt::Any), None);
            } else {
                connection.origin.insert_id = Some(self.belief.past.insert_id);
            }
            out.command(connection, Command::Query, set.as_bytes(), Purpose::Variables, Expect::Results);
        }
        if !connection.origin.mariadb && !statement.asks.contains(Asks::DIAGNOSTICS) {
            self.belief.give_found_rows(connection, query, in_code, out);
        }
        if !out.pending.is_empty() {
            connection.origin.hears_question();
        }
        // A statement that may leave messages or take them away must find them.
        let needs_messages = !query.sets_diagnostics.get() && statement.asks.contains(Asks::DIAGNOSTICS)
            || self.belief.is_mariadb()
                && (may_show(statement) || self.belief.past.has_messages() && may_name_tables(statement))
            || self.belief.is_mariadb() && statement.effects.iter().any(needs_older_messages);
        if needs_messages && !self.has_messages_on(&connection.origin) {
            let is_own = self.belief.past.signal.is_some() && self.belief.past.has_messages();
            (connection.origin.messages, connection.origin.stands_in) = (self.messages_mark(), !is_own);
            for text in self.belief.messages_again(connection, query) {
                out.command(connection, Command::Query, text.as_bytes(), Purpose::Signal, Expect::Results);
            }
            self.belief.add_errors(connection, out);
        }
        if connection.origin.mariadb {
            // Statements that make messages again may count; a question without a table leaves the count.
            self.belief.give_found_rows(connection, query, in_code, out);
        }
        self.belief.give_row_count(connection, query, in_code, out);
    }

    /// Whether neither the code that a plain read runs nor its conditions ask for results of earlier statements.
    #[inline]
    fn asks_nothing_in_code(&self, query: &Query<'_>) -> bool {
        query.hides.is_none() && self.here.knows_code_of(query) && !self.belief.facts().null_is_last_id
    }

    /// Whether a statement, or code that it runs, may leave LAST_INSERT_ID() as it is, or ask for it, and must find the
    /// session's own on a connection that has another one; so must those of a pinned session.
    fn needs_insert_id(&self, on_connection: Option<u64>, query: &Query<'_>) -> bool {
        let statement = &query.statement;
        let keeps = !self.belief.pins.is_empty() || !self.belief.facts().autocommit;
        // The catalog has to be read again before it tells the effects of views and triggers.
        let may_hide = || statement.uses_tables && !self.here.knows_code_of(query);
        statement.asks.contains(Asks::LAST_INSERT_ID)
            || statement.insert_id_unsure
            || self.belief.facts().null_is_last_id
            // Ahead of EXECUTE it would change ROW_COUNT(), which that may ask for.
            || statement.kind == Kind::PreparedText
            || statement.asks.contains(Asks::STORED_FUNCTIONS)
            || query.hides.as_ref().is_some_and(Hidden::may_ask_insert_id)
            || statement.kind == Kind::Insert
                && (keeps || may_be_given(on_connection, query) || self.belief.inserts_rows(query.request))
            || may_hide()
    }

    /// The value of [`crate::pool::Origin::messages`] on a connection that has this session's.
    pub(in crate::session) fn messages_mark(&self) -> Option<(u32, u32)> {
        Some((self.env.handle.id, self.belief.past.messages))
    }

    /// Keeps the messages that only the connection of a pinned session knows, ahead of an error of Sqluice's own that MySQL
    /// would put behind them.
    pub(in crate::session) async fn read_messages_ahead(&mut self) -> Result<(), SessionEnd> {
        let past = &self.belief.past;
        if self.belief.is_mariadb() || past.warnings.is_some() || !past.has_messages() || self.belief.takes_no_query() {
            return Ok(());
        }
        if !self.here.held.as_ref().is_some_and(|held| self.knows_messages(&held.lease.origin)) {
            return Ok(());
        }
        let Some(mut held) = self.here.held.take() else { return Ok(()) };
        if !Box::pin(self.keep_warnings(&mut held)).await {
            self.lose_pinned_state();
            return Err(SessionEnd::ServerLost("its messages are gone with it".into()));
        }
        self.belief.past.is_here();
        self.here.held = Some(held);
        Ok(())
    }

    /// Keeps the reply to SHOW WARNINGS before the connection goes to another session. Gives whether the connection is
    /// still good.
    pub(in crate::session) async fn keep_warnings(&mut self, held: &mut Held) -> bool {
        /// Replies beyond this are not kept: servers keep 64 messages by default.
        const WARNINGS_BYTES_MAX: usize = 64 * 1024;
        let connection = &mut *held.lease;
        let mut out = Outgoing::default();
        out.command(connection, Command::Query, b"SHOW WARNINGS", Purpose::Client, Expect::Results);
        if write(connection, &out.bytes).await.is_err() {
            return false;
        }
        let Some(Expected { mut exchange, .. }) = out.pending.pop_front() else { return false };
        // The connection counts this question now.
        self.belief.past.row_count_is_here = true;
        match crate::session::reset::read_reply(connection, &mut exchange, &self.env.worker, WARNINGS_BYTES_MAX).await {
            Ok(reply) => {
                let capabilities = connection.origin.capabilities;
                let before = self.belief.past.warnings_before.take();
                let has_added = before.is_some();
                let shown = reply.map(|reply| without_state(reply, capabilities));
                let shown = match (self.belief.past.of_server.take(), &self.belief.past.error) {
                    (Some(server), Some(error)) => {
                        shown.and_then(|shown| super::read_back::with_message(&shown, &server, &error.message))
                    }
                    _ => shown,
                };
                self.belief.past.warnings = shown.and_then(|shown| with_added(before, shown, capabilities));
                self.belief.past.warnings_charset = self.belief.results_charset().map(Into::into);
                let kept = self.belief.past.warnings.as_deref();
                let rows = kept.and_then(|reply| super::read_back::rows(reply, 3, capabilities).ok());
                let count = rows.map(|rows| u16::try_from(rows.len()).unwrap_or(u16::MAX));
                if count == Some(0) && self.belief.keeps_errors() {
                    // The server has told its client, and kept nothing: MySQL's 6413 of COM_STMT_PREPARE.
                    self.belief.past.error = None;
                }
                match &self.belief.past.error {
                    // How many of them count as its own is known where it has added to others.
                    Some(_) if has_added => {}
                    // An ERR packet tells only one.
                    Some(_) => self.belief.past.own_messages = count.unwrap_or(1),
                    // One of several statements has warned, and others have followed.
                    None if self.belief.past.warning_count == 0 => self.belief.past.warning_count = count.unwrap_or(0),
                    None => {}
                }
                true
            }
            Err(_) => false,
        }
    }
}

impl Belief {
    /// Whether the servers keep the message of an error: with this variable they may count it alone.
    fn keeps_errors(&self) -> bool {
        const NAME: &str = "max_error_count";
        let limit = self.state.variable_or_global(NAME, &self.catalog);
        limit.is_none_or(|limit| limit.parse() != Ok(0u64))
    }

    /// Whether the session's LAST_INSERT_ID() is there, on a connection that had this one when the session got it; `true` also
    /// where it cannot be told.
    fn has_insert_id_on(&self, on_connection: Option<u64>) -> bool {
        match self.past.doubt {
            None => on_connection == Some(self.past.insert_id),
            Some(Doubt::Given(_) | Doubt::Made) => on_connection.is_none_or(|known| known == self.past.insert_id),
            Some(_) => true,
        }
    }

    /// Gives a connection the session's LAST_INSERT_ID(). A statement that may have made a new one, on a connection that the
    /// session has kept since, has changed it if it did.
    fn set_insert_id(&self, on_connection: Option<u64>) -> String {
        let own = self.past.insert_id;
        match on_connection.filter(|_| self.past.doubt.is_some()) {
            None => format!("SET last_insert_id={own}"),
            // MySQL takes an integer only.
            Some(known) => {
                format!("SET last_insert_id=CAST(IF(LAST_INSERT_ID()={known},{own},LAST_INSERT_ID()) AS UNSIGNED)")
            }
        }
    }

    /// Whether an INSERT may have several rows: the first ones may be given numbers before a later one fails, and servers
    /// remember such a number (seen with MariaDB 10.11 and MySQL 9.7).
    pub(in crate::session) fn inserts_rows(&self, request: &Request) -> bool {
        let payload = request.payload();
        let (command, arguments) = payload.split_first().unwrap_or((&0, &[]));
        let text = if *command == Command::Query.byte() {
            arguments
        } else if *command == Command::StmtExecute.byte() {
            let known = self.statements.named_in(arguments);
            known.map_or(&[][..], |known| &known.prepared.key.text)
        } else {
            return true;
        };
        memchr::memchr_iter(b')', text).any(|at| text[at + 1..].trim_ascii_start().first() == Some(&b','))
    }

    /// The number of messages that are reported after a command that has none of its own: on MySQL those of the statement before.
    pub(in crate::session) fn own_messages(&self) -> Option<u16> {
        (!self.is_mariadb()).then_some(self.past.own_messages)
    }

    /// The character set that replies come in, as far as the session has chosen one.
    pub(in crate::session) fn results_charset(&self) -> Option<&str> {
        self.state.variable("character_set_results")
    }

    /// The rows of SHOW WARNINGS, if they were kept.
    pub(super) fn kept_messages(&self, capabilities: Capabilities) -> Option<Vec<super::read_back::Row>> {
        super::read_back::rows(self.past.warnings.as_deref()?, 3, capabilities).ok()
    }
}

/// Two replies to SHOW WARNINGS as one: that of `before`, and the rows that `shown` has more. The first ones may stand in for
/// those of another connection.
fn with_added(before: Option<Vec<u8>>, shown: Vec<u8>, capabilities: Capabilities) -> Option<Vec<u8>> {
    let Some(before) = before else { return Some(shown) };
    let known = super::read_back::rows(&before, 3, capabilities).ok()?.len();
    let rows = super::read_back::rows(&shown, 3, capabilities).ok()?;
    let added = rows.iter().skip(known).map(|row| row.iter().map(|value| value.as_deref().unwrap_or_default()));
    added.map(Iterator::collect::<Vec<&[u8]>>).try_fold(before, |reply, row| super::read_back::with_row(reply, &row))
}

/// Whether code that a statement runs may show the messages that its connection has, be they another session's.
fn may_show(statement: &sql::Statement) -> bool {
    statement.kind == Kind::PreparedText
        || statement.asks.contains(Asks::STORED_FUNCTIONS)
        || statement.effects.iter().any(super::unreported::is_hidden)
}

/// Whether a statement that did this counts the messages of the one before as its own (seen with MariaDB 10.11), or is the last ahead of
/// which they can be made: in a transaction of XA that has ended, servers take no other statement.
fn needs_older_messages(effect: &sql::Effect) -> bool {
    matches!(effect, sql::Effect::Role { .. } | sql::Effect::XaStart)
}

/// Whether a query may give the very id that LAST_INSERT_ID() is on the connection: the two would look the same.
fn may_be_given(known: Option<u64>, query: &Query<'_>) -> bool {
    known.is_none_or(|known| known != 0 && holds_id(query, known))
}

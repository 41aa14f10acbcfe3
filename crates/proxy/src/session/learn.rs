//! The effects of a reply on the session: its state, its transaction, its pins.

mod changes;
mod effects;
mod plain;
mod statements;

use std::sync::Arc;
use std::time::Instant;

use facts::gtid::WrittenGtids;
use facts::tables::TableScope;
use sql::{Access, Effect, Kind, Modes, Why};
use wire::command::Command;
use wire::{Capabilities, Status, errno};

use super::belief::Belief;
use super::diagnostics::unreported::{is_hidden, runs_code, runs_hidden, waits_by_flag};
use super::query::Query;
use super::relay::{Outcome, StateChange};
use super::who::Who;
use super::{Doubt, Held, Session};
use crate::pool::Key;
use cache::WriteFacts;
use changes::went_elsewhere;
pub(super) use effects::{alters_schema, defines_what_stays};
use route::{Pin, Route, Target};
use statements::texts_prepared;

/// Errors with which a server rolls the transaction back.
const ROLLED_BACK: [u16; 2] = [errno::ER_LOCK_DEADLOCK, errno::ER_XA_RBDEADLOCK];

/// Whether a statement that failed may have begun a transaction in one of its own statements: those of a routine, of a block, of a
/// prepared text. No error says that it has not: each may come from within, but that of a text that no server understands.
fn may_have_begun(query: &Query<'_>, error: u16) -> bool {
    let statement = &query.statement;
    let hides = || statement.effects.iter().any(is_hidden);
    let runs_others = match statement.kind {
        Kind::Call | Kind::Compound => true,
        Kind::PreparedText | Kind::Unknown => hides(),
        // Of one statement a function may be hidden, and none begins a transaction.
        _ => statement.parts > 1 && hides(),
    };
    let not_understood = statement.kind == Kind::Unknown && statement.parts <= 1 && error == errno::ER_PARSE_ERROR;
    query.runs_text() && runs_others && !not_understood
}

/// Whether SET STATEMENT gives a `sql_mode` to the only statement of a text, which can change that of the session by nothing.
fn has_mode_of_its_own(query: &Query<'_>) -> bool {
    let is_mode = |effect: &Effect| matches!(effect, Effect::WhileRunning { name } if name == "sql_mode");
    query.statement.parts == 1 && query.statement.effects.iter().any(is_mode) && !may_run_code(query)
}

/// Whether a statement may run code that its text does not show: routines, triggers, texts that were prepared.
fn may_run_code(query: &Query<'_>) -> bool {
    let statement = &query.statement;
    let calls = matches!(statement.kind, Kind::Call | Kind::Compound | Kind::PreparedText);
    let hides = query.hides.is_some() || statement.effects.iter().any(is_hidden);
    query.runs_text() && (calls || hides || statement.asks.contains(sql::Asks::STORED_FUNCTIONS))
}

/// MySQL warns of writes that mix storage engines from this version on.
const MIXING_WARNS_FROM: u32 = 90_000;

impl Session {
    /// Notes what the statement did. The truth comes from the server's trackers first, then from its status flags, then
    /// from the statement's text; where none can say, the session is pinned as opaque. Gives what the shared tier must hear of.
    pub(super) fn learn(
        &mut self,
        held: &mut Held,
        query: &Query<'_>,
        route: &Route,
        outcome: &mut Outcome,
        over: Instant,
    ) -> Option<facts::tables::WrittenRows> {
        if self.belief.is_plain(query, outcome) {
            outcome.is_plain = true;
            self.learn_plain(held, query, route, outcome, over);
            return None;
        }
        let succeeded = outcome.error.is_none();
        let (was_open, was_reported) =
            (self.belief.pins.has(Pin::Transaction), self.belief.status.contains(Status::IN_TRANSACTION));
        let reported = WriteFacts { in_parts: self.belief.pins.has(Pin::LongData), insert_id: outcome.insert_id };
        let sets_tracking = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if super::tracking::is_tracking_variable(name));
        let written = self.learn_commits(held, outcome, over);
        let effects = self.effects_of(query);
        let before = (!outcome.changes.is_empty() || !effects.is_empty()).then(|| self.belief.state.clone());
        if self.belief.learn_changes(query, outcome) || query.statement.effects.iter().any(sets_tracking) {
            // The client's own tracking took the place of ours: it is set again with the next statement.
            held.lease.origin.tracks = false;
        }
        if query.statement.accounts {
            self.here.note_account_change(held, &query.statement, outcome.error.as_ref(), over);
        }
        if effects::changes_catalog(query) || self.belief.executes_definition(query) {
            // The catalog is read again for routines, views, triggers and the collations of schemas; until then no function is believed
            // to read only.
            self.here.cluster.shared.published.request_catalog_refresh();
        }
        if query.command == Command::SetOption && succeeded {
            self.who.learn_set_option(held);
        }
        self.learn_what_stays(held, query, &effects, outcome);
        self.learn_diagnostics(held, query, outcome, route.target == Target::Pinned);
        if !outcome.changes.is_empty() {
            // SHOW PROFILES and the traces outlive the variables that made them.
            self.belief.pins.put(Pin::Tracing, self.belief.pins.has(Pin::Tracing) || self.belief.is_traced());
        }
        if let Some(before) = before.filter(|before| *before == self.belief.state) {
            // A holder of the old state sees at once that nothing has changed.
            self.belief.state = before;
        }
        self.learn_statement(held, query, outcome);
        self.belief.learn_status(held, query, outcome);
        if self.belief.pins.has(Pin::Savepoint) || query.statement.transaction.is_some() || !effects.is_empty() {
            self.belief.learn_savepoint(was_reported, query, succeeded);
        }
        self.note_transaction_reads(was_open, query, succeeded);
        self.learn_what_was_written(held, query, route, outcome, (written, over));
        // Behind the note of what was written: a fill that finds the new epochs finds that, too.
        let mut for_tier = None;
        if !query.statement.access.only_reads() {
            for_tier = self.end_answers(query, reported);
            held.lease.origin.wrote_nothing |= self.belief.may_have_written_nothing(query, outcome);
        }
        self.env.show_pins(self.belief.pins.bits());
        if !Arc::ptr_eq(&held.lease.origin.state, &self.belief.state) {
            held.lease.origin.state = self.belief.state.clone();
        }
        if !self.belief.catalog.recollated.is_empty() && went_elsewhere(outcome) {
            // MariaDB did not look at a schema that it was in: it has the collation that the connection found there.
            held.lease.origin.forget_collation();
        }
        for_tier
    }

    /// Notes what the statement leaves on the session and on its connection.
    #[inline]
    fn learn_what_stays(&mut self, held: &mut Held, query: &Query<'_>, effects: &[Effect], outcome: &Outcome) {
        let succeeded = outcome.error.is_none();
        if let Some(hidden) = &query.hides {
            self.belief.pins.note(&Effect::Leaves(hidden.leaves), None, succeeded);
            // A view that nobody could read may hold `LAST_INSERT_ID(expression)`.
            if hidden.writes || hidden.unread {
                (self.belief.past.doubt, held.lease.origin.insert_id) = (Some(Doubt::Any), None);
            }
            if (hidden.sets_variables || hidden.unread) && !succeeded && !query.statement.access.only_reads() {
                // Triggers have run for the rows before the one that failed.
                self.belief.pins.hidden_user_variables(true);
            }
        }
        if query.runs_text() {
            self.learn_effects(held, query, effects, outcome, succeeded);
            self.belief.statements.pass_ids(texts_prepared(query, outcome, self.belief.is_mariadb()));
            let ends = query.statement.transaction.is_some();
            let hides = query.hides.is_some();
            if !succeeded || hides || !effects.is_empty() || ends || self.belief.pins.has(Pin::NextStatement) {
                self.belief.learn_one_use(held, query, outcome);
            }
            if may_hide_variables(query, outcome) {
                self.belief.pins.hidden_user_variables(true);
            }
            if query.statement.parts > 1 && defines_what_stays(query, &self.belief.catalog) {
                // A later part may have run it.
                self.belief.pins.note(&Effect::Leaves(sql::Leaves::OF_UNKNOWN_CODE), None, true);
            }
        }
        // Preparing an assignment gives the variable the type of the value to come, as far as it is known; one that fails does so, too.
        if query.prepares() {
            self.belief.note_assignments(effects, outcome);
            if names_variables_to_write(&query.statement) {
                self.belief.pins.hidden_user_variables(true);
            }
        }
    }

    /// Whether a transaction may be open that no status has reported: a statement that failed without autocommit may have opened it.
    pub(super) fn may_be_in_transaction(&self) -> bool {
        let reported = self.belief.status.contains(Status::IN_TRANSACTION);
        self.here.held.is_some() && self.belief.pins.has(Pin::Transaction) && !reported
    }

    /// Notes what later reads must find.
    #[inline]
    fn learn_what_was_written(
        &mut self,
        held: &Held,
        query: &Query<'_>,
        route: &Route,
        outcome: &Outcome,
        (written, over): (Vec<WrittenGtids>, Instant),
    ) {
        if self.watches_writes() {
            self.add_written(query, outcome);
            self.learn_writes(held, query, route, outcome, written, over);
            if !self.belief.pins.has(Pin::Transaction) {
                self.transaction.written = None;
            }
        } else {
            // Somebody may begin to ask before a transaction ends.
            self.transaction.written = Some(TableScope::Any);
        }
    }
}

impl Belief {
    /// Whether a statement that writes may have changed no row of a table without transactions, by which MySQL 9 remembers it.
    fn may_have_written_nothing(&self, query: &Query<'_>, outcome: &Outcome) -> bool {
        !self.is_mariadb()
            && self.facts().dialect.version >= MIXING_WARNS_FROM
            && query.statement.access == Access::Primary(Why::Writes)
            && outcome.affected_rows == 0
            && !self.status.contains(Status::IN_TRANSACTION)
    }

    /// Whether a statement has failed of which only the server knows what it has done: it may have begun a transaction, or changed a
    /// session that is not pinned on MySQL, which would tell that with the reply to another question. Without autocommit the next
    /// statement would begin a transaction anyhow.
    #[inline]
    pub(super) fn failed_unseen(&self, query: &Query<'_>, outcome: &Outcome) -> bool {
        let Some(error) = &outcome.error else { return false };
        // A session that was killed may be killed once more: nothing is asked after that.
        let may_ask = error.code != errno::ER_QUERY_INTERRUPTED && !ROLLED_BACK.contains(&error.code);
        let may_have_begun = || may_have_begun(query, error.code) && self.facts().autocommit;
        may_ask
            && (!self.status.contains(Status::IN_TRANSACTION) && may_have_begun()
                || !self.is_mariadb() && self.pins.is_empty() && runs_code(query))
    }

    /// Whether MySQL may have changes to report of code that the text does not show: the end of a result in the old framing has
    /// neither room for them nor a flag. The next OK of the connection would report them, to any session.
    #[inline]
    pub(super) fn ran_unseen(&self, query: &Query<'_>, outcome: &Outcome) -> bool {
        let is_old_framing = outcome.ended_by_eof && outcome.error.is_none() && !self.is_mariadb();
        let calls_hidden = || query.hides.is_some_and(|hidden| hidden.runs_code());
        is_old_framing && (runs_hidden(query) || query.runs_text() && calls_hidden())
            || query.prepares() && self.prepared_unseen(query)
    }

    /// Whether MySQL may have chosen the schema of a function to prepare a statement, and the session's again. It reports that
    /// with the next OK of the connection, which may be another session's.
    #[cold]
    fn prepared_unseen(&self, query: &Query<'_>) -> bool {
        !self.is_mariadb() && self.pins.is_empty() && query.statement.asks.contains(sql::Asks::STORED_FUNCTIONS)
    }

    /// The flags that show the session's mode have changed. A routine that has set `sql_mode` leaves flags that contradict the
    /// mode, since servers take back the mode alone (MariaDB 10.11, MySQL 9.7). The session goes on to see them, others must not.
    #[cold]
    fn learn_mode_flags(&mut self, held: &mut Held, status: Status) {
        let modes = self.facts().dialect.modes;
        let contradicts = |flag, mode| status.contains(flag) != modes.contains(mode);
        let escapes = contradicts(Status::NO_BACKSLASH_ESCAPES, Modes::NO_BACKSLASH_ESCAPES);
        let quotes = self.is_mariadb() && contradicts(Status::ANSI_QUOTES, Modes::ANSI_QUOTES);
        let is_known = !self.past.variables.iter().any(|name| **name == *"sql_mode");
        if is_known && (escapes || quotes) {
            held.lease.origin.mode_flags_unsure = true;
            self.pins.put(Pin::Opaque, true);
        }
    }

    /// Savepoints that no open transaction shows. With `autocommit = 0` servers set them before a table was read, and keep them
    /// until the transaction ends, or autocommit is on again (seen with MariaDB 10.11 and MySQL 9.7).
    /// A transaction that only counts as open, behind an error, ends nothing when a status says that there is none.
    fn learn_savepoint(&mut self, was_open: bool, query: &Query<'_>, succeeded: bool) {
        use sql::TransactionStep::Savepoint;
        let (statement, facts) = (&*query.statement, self.facts());
        let ended = was_open && !self.pins.has(Pin::Transaction);
        let ends = succeeded && query.runs_text() && statement.transaction.is_some_and(|step| step != Savepoint);
        if facts.autocommit || ended || ends {
            self.pins.put(Pin::Savepoint, false);
        }
        let may_have_set = match statement.transaction {
            Some(Savepoint) => succeeded || statement.parts > 1,
            Some(_) => !succeeded && statement.parts > 1,
            None => !facts.reads_only && statement.effects.iter().any(is_hidden),
        };
        if !facts.autocommit && may_have_set && query.runs_text() {
            self.pins.put(Pin::Savepoint, true);
        }
    }

    /// Notes the status of the answer's end.
    #[inline]
    fn learn_status(&mut self, held: &mut Held, query: &Query<'_>, outcome: &Outcome) {
        let behind = outcome.status_behind;
        if let Some(mut status) = behind.or(outcome.status) {
            if behind.is_none() && has_mode_of_its_own(query) {
                // Behind the statement the session has its mode again, and the flags have.
                status = (status - Status::OF_MODES) | (self.status & Status::OF_MODES);
            }
            // Behind an error the status is that of a part before it, unless the server was asked.
            let is_last = outcome.error.is_none() || behind.is_some();
            if (status ^ self.status).intersects(Status::OF_MODES) && is_last {
                self.learn_mode_flags(held, status);
            }
            // The last status of a failed multi-statement says that more results follow; the next answer must not say so.
            self.status = status & Status::OF_SESSION;
            self.pins.put(Pin::Transaction, status.contains(Status::IN_TRANSACTION));
        }
        if let Some(error) = &outcome.error {
            held.lease.origin.mode_flags_unsure |= may_run_code(query);
            // An ERR packet has no status flags, those are of the part before it: a deadlock has rolled the transaction back,
            // most errors have not. An open transaction counts as open until a status says otherwise.
            if behind.is_some() {
                return;
            }
            if ROLLED_BACK.contains(&error.code) {
                self.status -= Status::IN_TRANSACTION;
                self.pins.put(Pin::Transaction, false);
            } else if !self.facts().autocommit || may_have_begun(query, error.code) {
                // A statement that failed may have opened the transaction all the same, with locks and a snapshot.
                self.pins.put(Pin::Transaction, true);
            }
        }
    }
}

impl Who {
    /// COM_SET_OPTION was taken: from now on the connection is good for sessions that have set the same.
    fn learn_set_option(&self, held: &mut Held) {
        let mut key = Key::clone(&held.lease.origin.key);
        let on = self.identity.key.capabilities.contains(Capabilities::MULTI_STATEMENTS);
        key.capabilities.set(Capabilities::MULTI_STATEMENTS, on);
        held.lease.origin.key = Arc::new(key);
    }
}

/// Whether user variables may have been set behind the text's back. Servers tell a routine's `SET @x`, but neither
/// `SELECT … INTO @x`, `@x := …`, GET DIAGNOSTICS nor an OUT argument inside of one (seen with MariaDB 10.11).
fn may_hide_variables(query: &Query<'_>, outcome: &Outcome) -> bool {
    let statement = &query.statement;
    // A text that no server understands has done nothing, whatever its verb.
    let refused = (statement.kind == Kind::Unknown || statement.access == Access::Primary(Why::Unknown))
        && statement.parts <= 1
        && outcome.error.as_ref().is_some_and(|error| error.code == errno::ER_PARSE_ERROR);
    let calls = statement.asks.contains(sql::Asks::STORED_FUNCTIONS) && statement.access != Access::Read;
    // MariaDB ends a result in the old framing with a flag alone, also of a function that is taken for one that only reads.
    let flags = waits_by_flag(outcome) && (runs_hidden(query) || query.hides.is_some_and(|hidden| hidden.runs_code()));
    // In another schema there may have been a view, or a trigger.
    let triggers = statement.access == Access::Primary(Why::Writes)
        && went_elsewhere(outcome)
        && outcome.changes.contains(&StateChange::Some);
    let by_trigger = || query.hides.is_some_and(|hidden| hidden.sets_variables) && !statement.access.only_reads();
    let by_view = || query.hides.is_some_and(|hidden| hidden.reads_set_variables);
    // A function makes those that it reads, itself and as its arguments.
    let is_argument = || statement.asks.contains(sql::Asks::STORED_FUNCTIONS | sql::Asks::USER_VARIABLES);
    let by_reading = || {
        outcome.changes.contains(&StateChange::Some)
            && (is_argument() || query.asks_variables_in_code() || query.may_read_sys())
    };
    // Resolving the text makes the variables that it assigns, and DEALLOCATE PREPARE leaves them.
    let names_variables = |text: &Option<String>| text.as_ref().is_none_or(|text| text.contains('@'));
    let prepares = |effect: &Effect| matches!(effect, Effect::PrepareText { text, .. } if names_variables(text));
    let resolves = outcome.error.is_none() && statement.effects.iter().any(prepares);
    // An error tells nothing of them. Nor does such an INSERT of MariaDB's, and a report may be about another part of the text.
    let passes = |effect: &Effect| matches!(effect, Effect::WhileRunning { .. });
    let is_untold = outcome.error.is_some()
        || statement.parts > 1
        || statement.kind == Kind::Insert && (outcome.rows.is_some() || statement.effects.iter().any(passes));
    let makes = is_untold && names_variables_to_write(statement);
    !refused
        && (calls
            || makes
            || flags
            || triggers
            || by_trigger()
            || by_view()
            || by_reading()
            || resolves
            || statement.effects.iter().any(is_hidden))
}

/// Whether a statement names user variables and writes: servers make them where they resolve it, and so when it is prepared or fails.
fn names_variables_to_write(statement: &sql::Statement) -> bool {
    statement.asks.contains(sql::Asks::USER_VARIABLES) && !statement.access.only_reads()
}

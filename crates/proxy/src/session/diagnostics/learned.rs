//! The results that later statements may ask for: rows, messages, LAST_INSERT_ID().

use sql::{Asks, Kind};
use wire::command::Command;
use wire::errno;

use super::{messages, read_back};
use crate::error::Refusal;
use crate::pool::NO_MESSAGES;
use crate::session::belief::Belief;
use crate::session::query::Query;
use crate::session::relay::Outcome;
use crate::session::{Doubt, Held, Session};
use route::{OneUse, Pin};

impl Session {
    /// Notes all that a later statement may ask for. `kept` says that the session had this connection before.
    #[inline]
    pub(in crate::session) fn learn_diagnostics(
        &mut self,
        held: &mut Held,
        query: &Query<'_>,
        outcome: &Outcome,
        kept: bool,
    ) {
        let origin = &held.lease.origin;
        // Others run on a pipeline, too, and nobody is the last one there.
        self.belief.past.ran_on = (!outcome.pipelined).then_some((origin.last_session, origin.thread_id));
        if query.runs_text() {
            self.learn_past(query, outcome, kept);
            self.belief.learn_insert_id(held, query, outcome);
        } else {
            self.belief.learn_row_count(query, outcome, kept);
            self.belief.leave_found_rows(kept);
        }
        let is_mysql = !self.belief.is_mariadb();
        let adds = is_mysql && may_add_messages(query.command);
        if adds && query.command == Command::FieldList && !lacks_schema(outcome) {
            self.learn_added_messages(held, outcome);
        } else if adds && outcome.error.is_some() {
            // It counts those before as its own; COM_FIELD_LIST has warned ahead of its error.
            let added = if query.command == Command::FieldList { 2 } else { 1 };
            let past = &self.belief.past;
            let (earlier, is_alone) = (past.own_messages, added == 1 && past.surely_has_no_messages());
            self.learn_added_messages(held, outcome);
            self.belief.past.own_messages = earlier.saturating_add(added);
            self.belief.past.error = outcome.error.clone().filter(|_| is_alone);
        } else if outcome.error.is_some() && resignals(query) {
            self.learn_added_messages(held, outcome);
            self.belief.past.error = outcome.error.clone();
        } else if lacks_handler(query, outcome) {
            self.belief.past.own_messages = 0;
        } else if query.runs_text() || query.prepares() || outcome.error.is_some() {
            self.learn_messages(held, query, outcome);
        }
    }

    /// The same of a write outside a transaction that a lost server has done, and Sqluice has answered.
    pub(in crate::session) fn learn_answered(&mut self, query: &Query<'_>, outcome: &Outcome) {
        self.belief.pins.one_use(OneUse::Characteristics, false);
        self.belief.pins.one_use(OneUse::InsertId, false);
        self.belief.past.unsure = Default::default();
        self.belief.pins.put(Pin::FoundRows, false);
        self.learn_past(query, outcome, false);
        // There is no server to be asked.
        self.belief.past.found_rows_unsure = false;
        (self.belief.past.error, self.belief.past.warnings, self.belief.past.warning_count) = (None, None, 0);
        (self.belief.past.own_messages, self.belief.past.messages_unread, self.belief.past.messages_unsure) =
            (0, false, false);
        self.belief.past.messages = self.belief.past.messages.wrapping_add(1);
        self.env.show_pins(self.belief.pins.bits());
    }

    /// Notes the values of ROW_COUNT() and FOUND_ROWS() behind this statement.
    /// Questions there go by the connection that the session kept for the statement, if it did.
    fn learn_past(&mut self, query: &Query<'_>, outcome: &Outcome, kept: bool) {
        let keeps_count = match &outcome.error {
            None => query.statement.asks.contains(Asks::KEEPS_ROW_COUNT),
            Some(error) => self.belief.is_mariadb() && shows_what_is_not_there(query, error.code),
        };
        let only = query.statement.asks.contains(Asks::ONLY_DIAGNOSTICS);
        // GET DIAGNOSTICS of a condition that is not there counts as a statement that failed.
        let no_condition = query.statement.kind == Kind::Diagnostics && outcome.warnings > 0;
        let past = &mut self.belief.past;
        if keeps_count && no_condition {
            (past.row_count, past.row_count_is_here) = (-1, false);
        } else if !keeps_count {
            // COM_PING changes no rows.
            (past.row_count, past.row_count_is_here) = (outcome.row_count(), outcome.status_behind.is_some());
        } else if let (Some(before), false) = (outcome.row_count_before, only) {
            (past.row_count, past.row_count_is_here) = (before, false);
        } else {
            past.row_count_is_here |= !kept || query.sets_diagnostics.get();
        }
        self.learn_found_rows(query, outcome, kept);
    }

    /// The answer of SHOW WARNINGS now. A statement that asks for messages leaves them. MariaDB keeps them until a statement
    /// names tables or has messages of its own, be it run or prepared; MySQL until the next one.
    fn learn_messages(&mut self, held: &mut Held, query: &Query<'_>, outcome: &Outcome) {
        let statement = &query.statement;
        if query.command == Command::InitDb && !self.belief.is_mariadb() && outcome.error.is_none() {
            return;
        }
        self.belief.past.own_messages = if outcome.error.is_some() { 1 } else { outcome.warnings };
        // Of several the first one gives the kind, and only the server knows the messages that the last one leaves.
        let are_several = statement.parts > 1
            && outcome.error.is_none()
            && (!self.belief.is_mariadb() && outcome.warnings == 0 || outcome.warned_before);
        let leaves_messages = match statement.kind {
            _ if are_several => true,
            Kind::Show | Kind::Diagnostics => true,
            _ => self.belief.is_mariadb() && statement.kind != Kind::Select,
        };
        let new = outcome.warnings > 0 || outcome.error.is_some();
        let is_set = query.sets_diagnostics.get();
        if is_set {
            // The SET takes away whatever messages the connection had, on MySQL.
            held.lease.origin.messages = None;
        }
        // Behind a SET no statement asks for messages.
        let asks = statement.asks.contains(if is_set { Asks::ONLY_DIAGNOSTICS } else { Asks::DIAGNOSTICS });
        if asks && leaves_messages {
            if is_set {
                return;
            }
            if are_several || statement.parts > 1 && !self.belief.is_mariadb() {
                // The last of several has left its own, or those before it.
                self.forget_messages(held);
                self.belief.past.messages_unread = true;
            } else {
                self.belief.past.messages_unread |= new && !self.belief.adds_message(outcome);
                if new && held.lease.origin.messages == Some(NO_MESSAGES) {
                    // It had none until now.
                    held.lease.origin.messages = self.messages_mark();
                }
            }
            return;
        }
        // Nor does the text of a CALL that is prepared say whether its arguments name tables.
        let unsure = || (query.runs_text() || query.prepares()) && may_name_tables(statement);
        if self.belief.is_mariadb() && !new && !outcome.warned_before && unsure() {
            // Those of another session may have gone, or may still be there.
            let knows = self.has_messages_on(&held.lease.origin);
            held.lease.origin.messages = held.lease.origin.messages.filter(|_| knows);
            self.belief.past.messages_unsure = self.belief.past.has_messages();
            return;
        }
        if self.belief.is_mariadb() && !new && !statement.uses_tables && !outcome.warned_before {
            return;
        }
        // MariaDB keeps the messages of one of several statements through those that name no table.
        let earlier = self.belief.is_mariadb() && !new && outcome.warned_before;
        self.forget_messages(held);
        self.belief.past.error = outcome.error.clone();
        self.belief.past.of_server = outcome.of_server.as_deref().map(Into::into);
        self.belief.past.warning_count = outcome.warnings;
        self.belief.past.signals = (new || earlier) && messages::may_signal(statement, query.request, outcome);
        if self.belief.past.signals {
            self.belief.past.signal = messages::signal_to_repeat(query);
        }
        self.belief.past.messages_unread = new || earlier;
        if !self.belief.past.messages_unread {
            held.lease.origin.messages = Some(NO_MESSAGES);
        }
    }

    /// MySQL's COM_FIELD_LIST adds a warning, and perhaps an error, to the messages before; only the error counts as its own. RESIGNAL
    /// adds an error, and so do other commands of MySQL that run no text and fail: with it the messages before count as their own.
    fn learn_added_messages(&mut self, held: &mut Held, outcome: &Outcome) {
        self.belief.past.own_messages = u16::from(outcome.error.is_some());
        let before = self.belief.past.warnings.take().or_else(|| self.belief.past.warnings_before.take());
        self.forget_messages(held);
        (self.belief.past.warnings_before, self.belief.past.messages_unread) = (before, true);
    }

    /// Those of the statements before are gone, and the connection has what came instead.
    fn forget_messages(&mut self, held: &mut Held) {
        self.belief.past.messages_unsure = false;
        (self.belief.past.error, self.belief.past.warnings, self.belief.past.warning_count) = (None, None, 0);
        self.belief.past.warnings_before = None;
        (self.belief.past.signals, self.belief.past.signal) = (false, None);
        self.belief.past.messages = self.belief.past.messages.wrapping_add(1);
        (held.lease.origin.messages, held.lease.origin.stands_in) = (self.messages_mark(), false);
    }
}

impl Belief {
    /// Notes the value of ROW_COUNT() behind a command that runs no text: OK packets count, and all that ends otherwise
    /// counts as -1.
    fn learn_row_count(&mut self, query: &Query<'_>, outcome: &Outcome, kept: bool) {
        let counted = match query.command {
            _ if outcome.error.is_some() => -1,
            Command::StmtPrepare | Command::StmtSendLongData | Command::Statistics => {
                self.past.row_count_is_here |= !kept;
                return;
            }
            Command::SetOption => -1,
            _ => outcome.row_count(),
        };
        (self.past.row_count, self.past.row_count_is_here) = (counted, false);
    }

    /// GET DIAGNOSTICS of a condition that is not there adds a message to those that are. Gives whether it stands with those that are kept.
    fn adds_message(&mut self, outcome: &Outcome) -> bool {
        const NO_CONDITION: [&[u8]; 3] = [b"Error", b"1758", b"Invalid condition number"];
        if outcome.error.is_some() || outcome.warnings == 0 {
            return false;
        }
        let Some(kept) = self.past.warnings.take() else { return false };
        self.past.warnings = read_back::with_row(kept, &NO_CONDITION);
        self.past.warning_count = self.past.warning_count.saturating_add(1);
        self.past.signal = None;
        self.past.messages = self.past.messages.wrapping_add(1);
        self.past.warnings.is_some()
    }

    /// The value of LAST_INSERT_ID() now. An id that stands in the request was given, not made: then nothing changed.
    pub(in crate::session) fn learn_insert_id(&mut self, held: &mut Held, query: &Query<'_>, outcome: &Outcome) {
        let (id, origin) = (outcome.insert_id, &mut held.lease.origin);
        let own = self.past.doubt.is_some() || origin.insert_id == Some(self.past.insert_id);
        if query.statement.insert_id_unsure {
            (self.past.doubt, origin.insert_id) = (Some(Doubt::Any), None);
        } else if id == 0 && outcome.error.is_some() && may_have_made_id(query, outcome) && own {
            if self.inserts_rows(query.request) {
                self.past.doubt = Some(Doubt::Any);
            }
        } else if id != 0 && holds_id(query, id) {
            self.past.doubt = Some(if own { Doubt::Any } else { Doubt::Given(id) });
        } else if id != 0 {
            (self.past.insert_id, self.past.doubt, origin.insert_id) = (id, None, Some(id));
            if outcome.error.is_some() {
                // A later part of the text has failed.
                self.past.doubt = Some(Doubt::Any);
            }
        }
    }
}

/// Whether a command may add to the messages of the statements before, with MySQL: its error if it fails, and COM_FIELD_LIST
/// at least that it is deprecated.
pub(in crate::session) fn may_add_messages(command: Command) -> bool {
    use Command::{CreateDb, Debug, DropDb, FieldList, InitDb, ProcessInfo, Refresh, RegisterReplica};
    matches!(command, InitDb | FieldList | ProcessInfo | Refresh | Debug | RegisterReplica | CreateDb | DropDb)
}

/// Whether a statement is a GET STACKED DIAGNOSTICS outside a handler. MySQL leaves all messages as they are then, and adds none.
fn lacks_handler(query: &Query<'_>, outcome: &Outcome) -> bool {
    let is_it = |error: &Refusal| error.code == errno::ER_GET_STACKED_DA_WITHOUT_ACTIVE_HANDLER;
    query.statement.parts == 1 && outcome.error.as_ref().is_some_and(is_it)
}

/// Whether a statement shows the parts of a table or schema that is not there. MariaDB leaves the count of the statement before then,
/// but not behind SHOW CREATE (seen with 10.11).
fn shows_what_is_not_there(query: &Query<'_>, error: u16) -> bool {
    let is_create = |text: &[u8]| {
        let second = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1);
        second.is_some_and(|word| word.eq_ignore_ascii_case(b"create"))
    };
    query.statement.kind == Kind::Show
        && matches!(error, errno::ER_NO_SUCH_TABLE | errno::ER_BAD_DB_ERROR)
        && query.text().is_some_and(|text| !is_create(text.bytes))
}

/// Whether a command failed for want of a schema, before it began.
fn lacks_schema(outcome: &Outcome) -> bool {
    outcome.error.as_ref().is_some_and(|error| error.code == errno::ER_NO_DB_ERROR)
}

/// Whether a statement that failed may have made an AUTO_INCREMENT number before it did.
fn may_have_made_id(query: &Query<'_>, outcome: &Outcome) -> bool {
    /// A text that is not understood, names and rights that are missing, a server or transaction that takes no writes.
    const BEFORE_ANY_ROW: [u16; 10] = [
        errno::ER_DBACCESS_DENIED_ERROR,
        errno::ER_ACCESS_DENIED_ERROR,
        errno::ER_BAD_FIELD_ERROR,
        errno::ER_PARSE_ERROR,
        errno::ER_WRONG_VALUE_COUNT_ON_ROW,
        errno::ER_TABLEACCESS_DENIED_ERROR,
        errno::ER_COLUMNACCESS_DENIED_ERROR,
        errno::ER_NO_SUCH_TABLE,
        errno::ER_OPTION_PREVENTS_STATEMENT,
        errno::ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION,
    ];
    matches!(query.statement.kind, Kind::Insert | Kind::Load)
        && (query.statement.parts > 1
            || !outcome.error.as_ref().is_some_and(|error| BEFORE_ANY_ROW.contains(&error.code)))
}

/// Whether a statement is RESIGNAL, alone or first of several: GET DIAGNOSTICS keeps ROW_COUNT(), SIGNAL asks for no messages.
fn resignals(query: &Query<'_>) -> bool {
    let asks = query.statement.asks & (Asks::DIAGNOSTICS | Asks::KEEPS_ROW_COUNT);
    let says_so = || query.text().is_some_and(|text| sql::resignals(text.bytes, &text.dialect));
    query.statement.kind == Kind::Diagnostics && asks == Asks::DIAGNOSTICS && says_so()
}

/// Whether a statement may name tables or not, as far as its text says: only if it does the messages of those before it go.
pub(in crate::session) fn may_name_tables(statement: &sql::Statement) -> bool {
    use Kind::{Account, Administration, Call, Compound, Definition, Handler, Lock, PreparedText, Show};
    statement.asks.contains(Asks::STORED_FUNCTIONS)
        || matches!(
            statement.kind,
            Account | Administration | Call | Compound | Definition | Handler | Lock | PreparedText | Show
        )
}

/// Whether a query may give this id: its request holds it, or the text that it executes.
pub(in crate::session) fn holds_id(query: &Query<'_>, id: u64) -> bool {
    let in_text =
        || query.text().is_some_and(|text| memchr::memmem::find(text.bytes, id.to_string().as_bytes()).is_some());
    holds_number(query.request.payload(), id) || query.command == Command::StmtExecute && in_text()
}

/// Whether a request holds this number, in digits or as a binary parameter.
pub(in crate::session) fn holds_number(payload: &[u8], number: u64) -> bool {
    let bytes = number.to_le_bytes();
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    memchr::memmem::find(payload, number.to_string().as_bytes()).is_some()
        || payload
            .first()
            .is_some_and(|byte| [Command::StmtExecute, Command::StmtBulkExecute].map(Command::byte).contains(byte))
            && memchr::memmem::find(payload, &bytes[..length]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_texts_and_in_parameters() {
        assert!(holds_number(b"\x03INSERT INTO t VALUES (77, 1)", 77));
        assert!(!holds_number(b"\x03INSERT INTO t VALUES (76, 1)", 77));
        assert!(holds_number(&[0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x39, 0x30, 0, 0], 12_345));
        assert!(!holds_number(&[0x03, 0x39, 0x30, 0, 0], 12_345), "no parameter");
    }
}

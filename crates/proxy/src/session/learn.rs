//! What a reply teaches about the session: its state, its transaction, its pins.

use std::sync::Arc;
use std::time::Instant;

use cluster::tables::Scope;
use sql::{Access, Effect, Kind, Value, Why};
use wire::command::Command;
use wire::{Capabilities, Status};

use super::client::Request;
use super::relay::{Outcome, StateChange};
use super::statements::ClientStatement;
use super::variables::{MOVES, REPORTS};
use super::work::{Body, Work};
use super::{Doubt, Held, Session};
use crate::pool::Key;
use crate::route::{Pin, Route};
use crate::state::OF_SCHEMA;

impl Session {
    /// Notes what the statement did. The truth comes from the server's trackers first, then from its status flags, then
    /// from the statement's text; where none can say, the session is pinned as opaque.
    pub(super) fn learn(
        &mut self,
        held: &mut Held,
        request: &Request,
        work: &Work,
        route: &Route,
        outcome: &Outcome,
        over: Instant,
    ) {
        let succeeded = outcome.error.is_none();
        let sets_tracking =
            |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if super::tracking::is_wish(name));
        let written = self.learn_commits(held, outcome, over);
        let effects = self.effects_of(work);
        if self.learn_changes(work, outcome) || work.statement.effects.iter().any(sets_tracking) {
            // The client's own tracking took the place of ours: it is set again with the next statement.
            held.lease.origin.tracks = false;
        }
        if work.statement.kind == Kind::Account {
            // Who was dropped, locked or renamed shall lose its connections, who was created shall get in.
            self.cluster.shared.published.request_accounts_refresh();
        }
        if work.command == Command::SetOption && succeeded {
            // From now on it is good for sessions that have set the same.
            let mut key = Key::clone(&held.lease.origin.key);
            let on = self.identity.key.capabilities.contains(Capabilities::MULTI_STATEMENTS);
            key.capabilities.set(Capabilities::MULTI_STATEMENTS, on);
            held.lease.origin.key = Arc::new(key);
        }
        if work.runs_text() {
            self.learn_effects(held, work, &effects, outcome, succeeded);
            if may_hide_variables(work, outcome) {
                self.pins.hidden_user_variables(true);
            }
            self.learn_past(work, outcome);
            self.learn_insert_id(held, request, work, outcome);
        }
        if work.prepares() && outcome.error.is_none() {
            // Preparing an assignment gives the variable the type of the value to come, as far as it is known.
            for effect in effects.iter().filter(|effect| matches!(effect, Effect::UserVariable { .. })) {
                self.pins.note(effect, None, true);
            }
        }
        if work.runs_text() || work.prepares() {
            self.learn_messages(held, work, outcome);
        }
        if !outcome.changes.is_empty() {
            self.pins.put(Pin::Tracing, self.state.is_traced());
        }
        self.learn_statement(held, work, outcome);
        if let Some(status) = outcome.status {
            // What a failed multi-statement told last is that more results follow; the next answer must not say so.
            self.status = status & Status::OF_SESSION;
            self.pins.put(Pin::Transaction, status.contains(Status::IN_TRANSACTION));
        } else if !succeeded {
            // An ERR packet has no status flags: a deadlock has rolled the transaction back, most errors have not. What
            // was open counts as open until a status says otherwise.
            if outcome.error.as_ref().is_some_and(|error| matches!(error.code, 1213 | 1614)) {
                self.status -= Status::IN_TRANSACTION;
                self.pins.put(Pin::Transaction, false);
            } else if !self.facts().autocommit {
                // A statement that failed may have opened the transaction all the same, with locks and a snapshot.
                self.pins.put(Pin::Transaction, true);
            }
        }
        if self.watches_writes() {
            self.add_written(work, request, outcome);
            self.learn_writes(held, work, route, outcome, written, over);
            if !self.pins.has(Pin::Transaction) {
                self.written = None;
            }
        } else {
            // Somebody may begin to ask before a transaction ends.
            self.written = Some(Scope::Any);
        }
        // Behind the note of what was written: a fill that finds the new epochs finds that, too.
        if !work.statement.access.only_reads() {
            self.end_answers(work, request);
        }
        self.show_pins(self.pins.bits());
        if !Arc::ptr_eq(&held.lease.origin.state, &self.state) {
            held.lease.origin.state = self.state.clone();
        }
    }

    /// Gives whether the client changed what its connection tracks.
    pub(super) fn learn_changes(&mut self, work: &Work, outcome: &Outcome) -> bool {
        if outcome.changes.is_empty() {
            return false;
        }
        let mut tracking_changed = false;
        let sets = |wanted: &str| {
            let is = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name == wanted);
            work.statement.effects.iter().any(is)
        };
        let passing = |wanted: &str| {
            let is = |effect: &Effect| matches!(effect, Effect::WhileRunning { name } if name == wanted);
            work.statement.effects.iter().any(is)
        };
        let state = Arc::make_mut(&mut self.state);
        let (mut unexplained, mut moves) = (false, false);
        for change in &outcome.changes {
            match change {
                // What another session's routine left to be told; choosing a schema anew does more than it seems.
                StateChange::Schema { name, .. } if state.schema() == Some(name) && !may_choose(&work.statement) => {}
                StateChange::Schema { name, more } => {
                    let chosen = |effect: &Effect| matches!(effect, Effect::Schema(chosen) if chosen == name);
                    if !more || name.is_empty() || work.statement.effects.iter().any(chosen) {
                        state.set_schema(Some(name));
                    }
                }
                StateChange::Variable(name, value) => {
                    let name = name.as_str();
                    if super::tracking::is_wish(name) {
                        self.wish.set(name, value);
                        tracking_changed = true;
                    } else if passing(name) {
                        // It was so while the statement ran.
                    } else if OF_SCHEMA.contains(&name) && !sets(name) {
                        // It came with the schema, and will do so on any connection.
                    } else if MOVES.contains(&name) {
                        moves = true;
                    } else if !REPORTS.contains(&name) {
                        state.set_variable(name, value);
                    }
                }
                StateChange::Some => unexplained = true,
                StateChange::Committed(_) => {}
            }
        }
        // What the text itself says of the session explains a change; routines, triggers and texts that are prepared
        // elsewhere change it behind the text's back. What only reads is told as a change now and then (SET STATEMENT, SHOW
        // CREATE of another schema), but cannot make one unless it calls a function. A change of the schema, to that of a
        // function or a view and back, explains it, unless a procedure or an unknown function may have done more.
        let statement = &work.statement;
        let calls = statement.asks.contains(sql::Asks::STORED_FUNCTIONS);
        // Executions of prepared statements report changes that are none, such as their own preparation.
        let may_change = match statement.access {
            Access::Read => calls,
            Access::Primary(Why::Writes) => statement.effects.is_empty() || calls,
            Access::Primary(_) => statement.effects.is_empty() && work.command == Command::Query || calls,
        } && !went_elsewhere(outcome)
            || statement.effects.iter().any(is_hidden);
        if moves || unexplained && may_change && work.runs_text() {
            self.pins.put(Pin::Opaque, true);
        }
        tracking_changed
    }

    fn learn_effects(&mut self, held: &mut Held, work: &Work, effects: &[Effect], outcome: &Outcome, succeeded: bool) {
        let free = outcome.status.is_some_and(|status| !status.contains(Status::IN_TRANSACTION));
        // SET TRANSACTION waits for the next transaction; a statement that could not begin one leaves it waiting.
        if free && !matches!(work.statement.kind, Kind::Set | Kind::Use | Kind::Show) {
            self.pins.put(Pin::NextStatement, false);
        }
        self.pins.put(Pin::FoundRows, false);
        if effects.is_empty() {
            return;
        }
        let tracked = |name: &str| {
            outcome.changes.iter().any(|change| matches!(change, StateChange::Variable(told, _) if told == name))
        };
        let schema = self.state.schema().map(str::to_owned);
        for (at, effect) in effects.iter().enumerate() {
            self.pins.note(effect, schema.as_deref(), succeeded);
            if let Effect::GlobalVariable { .. } = effect {
                // Sessions that begin from now on begin with it.
                self.cluster.shared.published.request_catalog_refresh();
            }
            if !succeeded {
                continue;
            }
            let state = Arc::make_mut(&mut self.state);
            match effect {
                Effect::Variable { name, .. } if MOVES.contains(&&**name) => self.pins.put(Pin::Opaque, true),
                // The server does not tell a list that does not name itself.
                Effect::Variable { name, .. } if super::tracking::is_wish(name) => {
                    if let Some(wish) = self.wish.after(std::slice::from_ref(effect), &self.cluster.catalog()) {
                        self.wish = wish;
                    }
                    // Other connections tell of this session's own transactions only.
                    if self.wish.all_gtids() {
                        self.pins.put(Pin::Opaque, true);
                    }
                }
                // What the tracker told is what came last.
                Effect::Variable { name, value: Value::Default }
                    if effects[at + 1..]
                        .iter()
                        .any(|later| matches!(later, Effect::Variable { name: again, .. } if again == name)) => {}
                Effect::Variable { name, value } => self.learn_variable(held, name, value, tracked(name), outcome),
                Effect::Names { charset, collation: Some(collation) } => {
                    let catalog = self.cluster.catalog();
                    let known = catalog.collation(charset.as_deref().unwrap_or_default(), collation);
                    state.set_variable("collation_connection", known.map_or(collation, |known| &known.name));
                    if let Some(known) = known {
                        state.set_results_collation(known);
                    }
                }
                // The tracker names the character set only, which by itself means the built-in default.
                Effect::Names { collation: None, .. } => {
                    let catalog = self.cluster.catalog();
                    let name = "character_set_collations";
                    let mapping = state.variable(name).or_else(|| catalog.globals.get(name).map(String::as_str));
                    let charset = state.variable("character_set_client");
                    if let (Some(mapping), Some(charset)) = (mapping, charset)
                        && let Some(known) = catalog.mapped_collation(mapping, charset)
                    {
                        state.set_variable("collation_connection", &known.name);
                        state.set_results_collation(known);
                    }
                }
                Effect::CharacterSet(_) => {
                    match state.variable(OF_SCHEMA[1]).map(str::to_owned) {
                        Some(own) => state.set_variable("collation_connection", &own),
                        None => {
                            // Until it has been asked for.
                            state.set_variable_literal("collation_connection", "@@collation_database");
                            self.past.doubt_variable("collation_connection");
                        }
                    }
                }
                Effect::UserVariable { name, value: Value::Literal(literal) } => state.set_user_variable(name, literal),
                Effect::UserVariable { name, .. } => state.remove_user_variable(name),
                _ => {}
            }
        }
    }

    /// The same of a write outside a transaction that a lost server has done, and Sqluice has answered.
    pub(super) fn learn_answered(&mut self, work: &Work, outcome: &Outcome) {
        self.pins.put(Pin::NextStatement, false);
        self.pins.put(Pin::FoundRows, false);
        self.learn_past(work, outcome);
        // There is no server to be asked.
        self.past.found_rows_unsure = false;
        (self.past.error, self.past.warnings, self.past.warning_count) = (None, None, 0);
        (self.past.own_messages, self.past.messages_unread, self.past.messages_unsure) = (0, false, false);
        self.past.messages = self.past.messages.wrapping_add(1);
        self.show_pins(self.pins.bits());
    }

    /// What ROW_COUNT() and FOUND_ROWS() would say now.
    pub(super) fn learn_past(&mut self, work: &Work, outcome: &Outcome) {
        let past = &mut self.past;
        past.was_questioned = false;
        past.row_count = match (outcome.rows, &outcome.error) {
            (None, None) => i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX),
            _ => -1,
        };
        self.learn_found_rows(work, outcome);
    }

    /// What SHOW WARNINGS would say now. A statement that asks for messages leaves them. MariaDB keeps them until a statement
    /// names tables or has messages of its own, be it run or prepared; MySQL until the next one.
    fn learn_messages(&mut self, held: &mut Held, work: &Work, outcome: &Outcome) {
        let statement = &work.statement;
        if work.command == Command::InitDb && !self.is_mariadb() && outcome.error.is_none() {
            return;
        }
        self.past.own_messages = if outcome.error.is_some() { 1 } else { outcome.warnings };
        let leaves_messages = match statement.kind {
            Kind::Show | Kind::Diagnostics => true,
            _ => self.is_mariadb() && statement.kind != Kind::Select,
        };
        let new = outcome.warnings > 0 || outcome.error.is_some();
        if statement.asks.contains(sql::Asks::DIAGNOSTICS) && leaves_messages {
            self.past.messages_unread = new;
            return;
        }
        if self.is_mariadb() && !new && !outcome.warned_before && work.runs_text() && may_name_tables(statement) {
            self.past.messages_unsure = self.past.has_messages();
            // Those of another session may have gone, or may still be there.
            held.lease.origin.messages = held.lease.origin.messages.filter(|mark| Some(*mark) == self.messages_mark());
            return;
        }
        if self.is_mariadb() && !new && !statement.uses_tables && !outcome.warned_before {
            return;
        }
        // MariaDB keeps the messages of one of several statements through those that name no table.
        let earlier = self.is_mariadb() && !new && outcome.warned_before;
        self.past.messages_unsure = false;
        self.past.error = outcome.error.clone();
        (self.past.warnings, self.past.warning_count) = (None, outcome.warnings);
        self.past.messages_unread = new || earlier;
        self.past.messages = self.past.messages.wrapping_add(1);
        held.lease.origin.messages = Some((self.handle.id, self.past.messages));
    }

    /// What LAST_INSERT_ID() would say now. An id that stands in the request was given, not made: then nothing changed.
    pub(super) fn learn_insert_id(&mut self, held: &mut Held, request: &Request, work: &Work, outcome: &Outcome) {
        let (id, origin) = (outcome.insert_id, &mut held.lease.origin);
        let own = self.past.doubt.is_some() || origin.insert_id == Some(self.past.insert_id);
        if work.statement.insert_id_unsure {
            (self.past.doubt, origin.insert_id) = (Some(Doubt::Any), None);
        } else if id != 0 && holds_number(request.payload(), id) {
            self.past.doubt = Some(if own { Doubt::Any } else { Doubt::Given(id) });
        } else if id != 0 {
            (self.past.insert_id, self.past.doubt, origin.insert_id) = (id, None, Some(id));
        }
    }

    /// Prepared statements: what was prepared, which cursor is open, which long data is used up.
    fn learn_statement(&mut self, held: &mut Held, work: &Work, outcome: &Outcome) {
        match (&work.body, work.command) {
            (Body::Prepare(key), _) => {
                let Some(prepared) = outcome.prepared.filter(|_| outcome.error.is_none()) else {
                    return self.statements.prepare_failed();
                };
                let max = held.lease.origin.statements_max;
                held.lease.origin.statements.insert(key.clone(), prepared.statement, max);
                self.statements.insert(ClientStatement {
                    id: self.statements.last_id(),
                    key: key.clone(),
                    state: self.state.clone(),
                    statement: work.statement.clone(),
                    parameters: prepared.parameters,
                    types: None,
                });
            }
            (Body::Execute(id), _) => {
                let open =
                    work.opens_cursor && outcome.status.is_some_and(|status| status.contains(Status::CURSOR_EXISTS));
                if open || self.pins.has(Pin::Cursor) {
                    self.pins.cursor(*id, open);
                }
                // The server has counted rows that nobody may ever fetch.
                self.past.found_rows_unsure |= open;
                if self.pins.has(Pin::LongData) {
                    self.pins.long_data(*id, false);
                }
            }
            (_, Command::RegisterReplica) if outcome.error.is_none() => self.pins.put(Pin::Replication, true),
            (Body::OfStatement(id), Command::StmtFetch) => {
                let done = |status: Status| status.contains(Status::LAST_ROW_SENT);
                if outcome.error.is_some() || outcome.status.is_some_and(done) {
                    self.pins.cursor(*id, false);
                }
            }
            (Body::OfStatement(id), Command::StmtReset) => {
                self.pins.cursor(*id, false);
                self.pins.long_data(*id, false);
            }
            (Body::OfStatement(id), Command::StmtSendLongData) => self.pins.long_data(*id, true),
            _ => {}
        }
    }
}

/// Whether a statement may choose the schema that the session is in already: by USE, or in a routine of another one.
fn may_choose(statement: &sql::Statement) -> bool {
    let chooses = |effect: &Effect| matches!(effect, Effect::Schema(_));
    statement.asks.contains(sql::Asks::STORED_FUNCTIONS)
        || statement.effects.iter().any(|effect| chooses(effect) || is_hidden(effect))
}

/// Whether the server told of a schema, as it does behind views and routines of another one.
fn went_elsewhere(outcome: &Outcome) -> bool {
    outcome.changes.iter().any(|change| matches!(change, StateChange::Schema { .. }))
}

/// Whether a statement may name tables or not, as far as its text says: only if it does the messages of those before it go.
pub(super) fn may_name_tables(statement: &sql::Statement) -> bool {
    use Kind::{Account, Administration, Call, Compound, Handler, Lock, Show};
    statement.asks.contains(sql::Asks::STORED_FUNCTIONS)
        || matches!(statement.kind, Account | Administration | Call | Compound | Handler | Lock | Show)
}

/// Routines, and texts that are made elsewhere.
pub(super) fn is_hidden(effect: &Effect) -> bool {
    matches!(effect, Effect::MayChangeSession | Effect::ExecuteText { .. })
}

/// Whether user variables may have been set behind the text's back. Servers tell a routine's `SET @x`, but neither
/// `SELECT … INTO @x`, `@x := …`, GET DIAGNOSTICS nor an OUT argument inside of one (seen with MariaDB 10.11).
fn may_hide_variables(work: &Work, outcome: &Outcome) -> bool {
    let statement = &work.statement;
    // A text that no server understands has done nothing.
    let refused = statement.kind == Kind::Unknown
        && statement.parts <= 1
        && outcome.error.as_ref().is_some_and(|error| error.code == 1064);
    let calls = statement.asks.contains(sql::Asks::STORED_FUNCTIONS) && statement.access != Access::Read;
    // In another schema there may have been a view, or a trigger.
    let triggers = statement.access == Access::Primary(Why::Writes)
        && went_elsewhere(outcome)
        && outcome.changes.contains(&StateChange::Some);
    !refused && (calls || triggers || statement.effects.iter().any(is_hidden))
}

/// Whether a request holds this number, in digits or as a binary parameter.
pub(super) fn holds_number(payload: &[u8], number: u64) -> bool {
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

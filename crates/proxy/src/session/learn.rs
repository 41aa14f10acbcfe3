//! What a reply teaches about the session: its state, its transaction, its pins.

use std::sync::Arc;

use cluster::view::ServerId;
use sql::{Effect, Kind, Value};
use wire::Status;
use wire::command::Command;

use super::relay::{Outcome, StateChange};
use super::request::{Body, Work};
use super::statements::ClientStatement;
use super::{Held, Past, Session, TrackWish};
use crate::route::Pin;

/// Tracked names that are no state to carry to another connection: they report, or are meant for one statement.
const REPORTS: [&str; 9] = [
    "error_count",
    "identity",
    "insert_id",
    "last_gtid",
    "last_insert_id",
    "pseudo_thread_id",
    "statement_id",
    "timestamp",
    "warning_count",
];

impl Session {
    /// Notes what the statement did. The truth comes from the server's trackers first, then from its status flags, then
    /// from the statement's text; where none can say, the session is pinned as opaque.
    pub(super) fn learn(&mut self, held: &mut Held, work: &Work, outcome: &Outcome) {
        let succeeded = outcome.error.is_none();
        let sets_tracking =
            |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name.starts_with("session_track_"));
        if self.learn_changes(work, outcome) || work.statement.effects.iter().any(sets_tracking) {
            // The client's own tracking took the place of ours: it is set again with the next statement.
            held.lease.origin.tracks = false;
        }
        if work.runs_text() {
            self.learn_effects(work, outcome, succeeded);
            self.learn_past(held.lease.origin.identity(), work, outcome);
        }
        self.learn_statement(held, work, outcome);
        if let Some(status) = outcome.status {
            self.status = status;
            self.pins.put(Pin::Transaction, status.contains(Status::IN_TRANSACTION));
        } else if !succeeded {
            // An ERR packet has no status flags: a deadlock has rolled the transaction back, most errors have not. What
            // was open counts as open until a status says otherwise.
            if outcome.error.as_ref().is_some_and(|error| matches!(error.code, 1213 | 1614)) {
                self.status -= Status::IN_TRANSACTION;
                self.pins.put(Pin::Transaction, false);
            } else if !self.state.autocommit(&self.cluster.catalog()) {
                // A statement that failed may have opened the transaction all the same, with locks and a snapshot.
                self.pins.put(Pin::Transaction, true);
            }
        }
        self.show_pins(self.pins.bits());
        held.lease.origin.state = self.state.clone();
    }

    /// Gives whether the client changed what its connection tracks.
    fn learn_changes(&mut self, work: &Work, outcome: &Outcome) -> bool {
        if outcome.changes.is_empty() {
            return false;
        }
        let mut tracking_changed = false;
        let state = Arc::make_mut(&mut self.state);
        let mut unexplained = false;
        for change in &outcome.changes {
            match change {
                StateChange::Schema(name) => state.set_schema(Some(name)),
                StateChange::Variable(name, value) => {
                    let name = name.as_str();
                    if name.starts_with("session_track_") {
                        self.wish.set(name, value);
                        tracking_changed = true;
                    } else if !REPORTS.contains(&name) {
                        state.set_variable(name, value);
                    }
                }
                StateChange::Some => unexplained = true,
            }
        }
        // What the text itself says of the session explains a change; routines, triggers and texts that are prepared
        // elsewhere change it behind the text's back.
        let effects = &work.statement.effects;
        let hidden = |effect: &Effect| matches!(effect, Effect::MayChangeSession | Effect::ExecuteText { .. });
        // Executions of prepared statements report changes that are none, such as their own preparation.
        let may_change = (effects.is_empty() && work.command == Command::Query)
            || effects.iter().any(hidden)
            || work.statement.asks.contains(sql::Asks::STORED_FUNCTIONS);
        if unexplained && may_change && work.runs_text() {
            self.pins.put(Pin::Opaque, true);
        }
        tracking_changed
    }

    fn learn_effects(&mut self, work: &Work, outcome: &Outcome, succeeded: bool) {
        let effects = &work.statement.effects;
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
        for effect in effects {
            self.pins.note(effect, schema.as_deref(), succeeded);
            if !succeeded {
                continue;
            }
            let state = Arc::make_mut(&mut self.state);
            match effect {
                // The server does not tell a list that does not name itself.
                Effect::Variable { name, value } if name.starts_with("session_track_") => {
                    match value {
                        Value::Literal(literal) => self.wish.set(name, literal.trim_matches('\'')),
                        Value::Default => {
                            self.wish = TrackWish::of_servers(&self.cluster.catalog());
                            true
                        }
                        Value::Unknown => self.wish.set(name, "*"),
                    };
                }
                Effect::Variable { name, value: Value::Default } => {
                    let is_text_of_charset = name.starts_with("character_set_") || name.starts_with("collation_");
                    // Their default is known from the tracker, and a connection's login would set another.
                    if !is_text_of_charset {
                        state.remove_variable(name);
                    }
                }
                Effect::Variable { name, value: Value::Literal(literal) } => {
                    let reports = REPORTS.contains(&name.as_str());
                    if !reports && !tracked(name) || name == "timestamp" {
                        state.set_variable_literal(name, literal);
                    }
                    if name == "last_insert_id" || name == "identity" {
                        self.past.insert_id = literal.parse().unwrap_or(self.past.insert_id);
                    }
                }
                Effect::Variable { name, value: Value::Unknown } if !tracked(name) || name == "timestamp" => {
                    self.pins.put(Pin::Opaque, true);
                }
                Effect::Names { collation: Some(collation), .. } => {
                    state.set_variable("collation_connection", collation)
                }
                Effect::CharacterSet(_) => {
                    state.set_variable_literal("collation_connection", "@@collation_database");
                }
                Effect::UserVariable { name, value: Value::Literal(literal) } => state.set_user_variable(name, literal),
                Effect::UserVariable { name, .. } => state.remove_user_variable(name),
                _ => {}
            }
        }
    }

    /// What LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS() and SHOW WARNINGS would say now.
    fn learn_past(&mut self, ran_on: (ServerId, u64), work: &Work, outcome: &Outcome) {
        if work.statement.asks.contains(sql::Asks::DIAGNOSTICS) {
            return;
        }
        let insert_id = if outcome.insert_id != 0 { outcome.insert_id } else { self.past.insert_id };
        let found_rows = outcome.rows.unwrap_or(self.past.found_rows);
        let row_count = match (outcome.rows, &outcome.error) {
            (None, None) => i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX),
            _ => -1,
        };
        self.past = Past { ran_on, insert_id, row_count, found_rows, error: outcome.error.clone(), warnings: None };
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
                let open = outcome.status.is_some_and(|status| status.contains(Status::CURSOR_EXISTS));
                if open || self.pins.has(Pin::Cursor) {
                    self.pins.cursor(*id, open);
                }
                if self.pins.has(Pin::LongData) {
                    self.pins.long_data(*id, false);
                }
            }
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

//! The changes of the session's state that a server reports with a reply.

use std::sync::Arc;

use sql::{Access, Effect, Kind, Why};
use wire::command::Command;

use crate::session::belief::Belief;
use crate::session::diagnostics::unreported::is_hidden;
use crate::session::diagnostics::variables::{self, REPORTS};
use crate::session::query::Query;
use crate::session::relay::{Outcome, StateChange};
use crate::session::tracking;
use route::Pin;
use route::state::OF_SCHEMA;

impl Belief {
    /// Gives whether the client changed what its connection tracks.
    pub(in crate::session) fn learn_changes(&mut self, query: &Query<'_>, outcome: &Outcome) -> bool {
        if outcome.changes.is_empty() {
            return false;
        }
        let mut tracking_changed = false;
        let sets = |wanted: &str| {
            let is = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name == wanted);
            query.statement.effects.iter().any(is)
        };
        let passing = |wanted: &str| {
            let is = |effect: &Effect| matches!(effect, Effect::WhileRunning { name } if name == wanted);
            query.statement.effects.iter().any(is)
        };
        let (mut unexplained, mut moves) = (false, false);
        for change in &outcome.changes {
            match change {
                // This change is left over from a routine of another session; choosing a schema anew does more than it seems.
                StateChange::Schema { name, .. }
                    if self.state.schema() == Some(name) && !may_choose(&query.statement) =>
                {
                    // Or MariaDB has read a view of another schema and chosen this one again, with its own character set.
                    if OF_SCHEMA.iter().any(|name| self.state.variable(name).is_some()) {
                        self.past.doubt_variable(OF_SCHEMA[1]);
                    }
                }
                StateChange::Schema { name, more } => {
                    let chosen = |effect: &Effect| matches!(effect, Effect::Schema(chosen) if chosen == name);
                    if !more || name.is_empty() || query.statement.effects.iter().any(chosen) {
                        let mariadb = self.is_mariadb();
                        Arc::make_mut(&mut self.state).choose_schema(Some(name), &self.catalog, mariadb);
                    }
                }
                StateChange::Variable(name, value) => {
                    let name = name.as_str();
                    if tracking::is_tracking_variable(name) {
                        self.tracking.set(name, value);
                        tracking_changed = true;
                    } else if passing(name) {
                        // It was so while the statement ran.
                    } else if OF_SCHEMA.contains(&name) && !sets(name) {
                        // It came with the schema, and will do so on any connection.
                    } else if variables::moves(name, Some(value)) || name == "timestamp" && !sets(name) {
                        // A routine's timestamp may stand or go on with the clock.
                        moves = true;
                    } else if !REPORTS.contains(&name) {
                        Arc::make_mut(&mut self.state).set_variable(name, value);
                        self.doubt_changed_along(name);
                    }
                }
                StateChange::Some => unexplained = true,
                StateChange::Characteristics(text) => self.learn_characteristics(text),
                StateChange::Committed(gtid) => self.past.last_gtid = Some(gtid.as_str().into()),
            }
        }
        let knows_code = query.catalog_was_fresh && self.catalog.functions_complete;
        if unexplained && query.runs_text() && may_change_unseen(query, outcome, knows_code) {
            self.pins.ran_unread();
        } else if moves {
            self.pins.put(Pin::Opaque, true);
        }
        tracking_changed
    }
}

/// Whether a statement may have changed the session in a way that its text does not show.
///
/// The text's own effects on the session explain a change; routines, triggers and texts that are prepared elsewhere change it
/// without the text. A server reports a read as a change now and then (SET STATEMENT, SHOW CREATE of another schema), but a read
/// changes nothing unless it calls a function, itself or in a view. A change of the schema, to that of a function or a view and
/// back, explains the report, unless a procedure or an unknown function may have done more. With `knows_code` the functions of a read
/// are those of which it is known that they change nothing but user variables that one of them is the first to ask for.
fn may_change_unseen(query: &Query<'_>, outcome: &Outcome, knows_code: bool) -> bool {
    let statement = &query.statement;
    let calls = statement.asks.contains(sql::Asks::STORED_FUNCTIONS);
    let by_view = || query.hides.is_some_and(|hidden| hidden.calls || hidden.unread);
    let by_unknown_view =
        || query.hides.is_some_and(|hidden| hidden.unread || hidden.calls && (hidden.writes || !knows_code));
    let may_change_by_code = || calls || by_view();
    // A locking read, or one of the server's state, changes no more than another one: MySQL reports SET_VAR in a hint.
    let only_selects = statement.kind == Kind::Select && statement.parts == 1;
    let may_change = match statement.access {
        Access::Primary(_) if only_selects => may_change_by_code(),
        Access::Read => calls && !knows_code || by_unknown_view(),
        Access::Primary(Why::Writes) => statement.effects.is_empty() || calls,
        Access::Primary(_) => statement.effects.is_empty() && query.command == Command::Query || may_change_by_code(),
    };
    may_change && !went_elsewhere(outcome) || statement.effects.iter().any(is_hidden)
}

/// Whether a statement may choose the schema that the session is in already: by USE, or in a routine of another one.
fn may_choose(statement: &sql::Statement) -> bool {
    let chooses = |effect: &Effect| matches!(effect, Effect::Schema(_));
    statement.asks.contains(sql::Asks::STORED_FUNCTIONS)
        || statement.effects.iter().any(|effect| chooses(effect) || is_hidden(effect))
}

/// Whether the server reported a schema, as it does after views and routines of another one.
pub(super) fn went_elsewhere(outcome: &Outcome) -> bool {
    outcome.changes.iter().any(|change| matches!(change, StateChange::Schema { .. }))
}

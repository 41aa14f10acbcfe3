//! Replies about prepared statements: the session notes which was prepared, which cursor is open, which long data is used up.

use std::rc::Rc;

use sql::{Effect, Kind, Statement};
use wire::Status;
use wire::command::Command;

use crate::pool::StatementKey;
use crate::session::query::{Body, Query};
use crate::session::relay::Outcome;
use crate::session::statements::{ClientStatement, PreparedText};
use crate::session::{Held, Session};
use route::Pin;

impl Session {
    /// A statement of MySQL has opened a cursor: neither it nor its copy on this connection is again what it was.
    #[cold]
    fn learn_cursor(&mut self, held: &mut Held, id: u32) {
        let Some(known) = self.belief.statements.find_mut(id) else { return };
        known.rows_stay = !known.rows_come;
        let own = &known.prepared.key;
        let text = known.cursor_of.as_ref().unwrap_or(&own.text).clone();
        held.lease.origin.statements.opened_cursor(&StatementKey { text, context: own.context });
    }

    /// Notes what a reply about a prepared statement tells of it.
    pub(super) fn learn_statement(&mut self, held: &mut Held, query: &Query<'_>, outcome: &Outcome) {
        match (&query.body, query.command) {
            (Body::Prepare(key), _) => {
                let Some(prepared) = outcome.prepared.filter(|_| outcome.error.is_none()) else {
                    return self.belief.statements.forget_last();
                };
                let max = held.lease.origin.statements_max;
                held.lease.origin.statements.insert(key.clone(), prepared.statement, max);
                let statement = ClientStatement {
                    id: self.belief.statements.last_id(),
                    prepared: Rc::new(PreparedText {
                        key: key.clone(),
                        state: self.belief.state.clone(),
                        dialect: self.belief.facts().dialect,
                        statement: query.statement.clone(),
                        long_form: query.long_form(),
                        tags: query.text().and_then(|text| sql::only_tags(text.bytes)),
                        rewritten: query.text().is_some_and(|text| *sql::without_tags(text.bytes) != *key.text),
                    }),
                    parameters: prepared.parameters,
                    types: None,
                    typed: None,
                    cursor_of: None,
                    rows_stay: false,
                    rows_come: false,
                    long_data_of: None,
                    refused: None,
                };
                self.belief.statements.insert(statement, &self.env.worker.shared.prepared_bytes);
                if !self.belief.is_mariadb() {
                    self.belief.statements.forget_last();
                }
            }
            (Body::Execute(id), _) => {
                let open =
                    query.opens_cursor && outcome.status.is_some_and(|status| status.contains(Status::CURSOR_EXISTS));
                if open || self.belief.pins.has(Pin::Cursor) {
                    self.belief.pins.cursor(*id, open);
                }
                if open && !held.lease.origin.mariadb {
                    self.learn_cursor(held, *id);
                }
                // The server has counted rows that no client may ever fetch.
                self.belief.past.found_rows_unsure |= open;
                if self.belief.pins.has(Pin::LongData) {
                    self.end_long_data(*id);
                }
                if query.statement.kind == Kind::Definition
                    && let Some(prepared) = query.prepared()
                {
                    // Definitions are seldom repeated, and a plugin stays in use by a statement of its tables that is prepared.
                    held.lease.origin.statements.retire(&prepared.key);
                }
            }
            (_, Command::RegisterReplica) if outcome.error.is_none() => self.belief.pins.put(Pin::Replication, true),
            (Body::OfStatement(id), Command::StmtFetch) => {
                let done = |status: Status| status.contains(Status::LAST_ROW_SENT);
                if outcome.error.is_some() || outcome.status.is_some_and(done) {
                    self.belief.pins.cursor(*id, false);
                }
            }
            (Body::OfStatement(id), Command::StmtReset) => {
                self.belief.pins.cursor(*id, false);
                self.end_long_data(*id);
            }
            (Body::OfStatement(id), Command::StmtSendLongData) => self.learn_long_data(*id, query),
            _ => {}
        }
    }
}

/// How many texts a statement has prepared by PREPARE or EXECUTE IMMEDIATE, or tried to: servers number them with the statements of
/// the protocol. Behind an error in a text of several, nobody says which of them ran.
#[inline]
pub(super) fn texts_prepared(query: &Query<'_>, outcome: &Outcome, mariadb: bool) -> usize {
    let statement = &query.statement;
    match statement.parts {
        0 | 1 if statement.kind != Kind::PreparedText => 0,
        0 | 1 if mariadb && is_immediate(statement) => 1,
        2.. if outcome.error.is_some() => 0,
        _ => statement.effects.iter().filter(|effect| matches!(effect, Effect::PrepareText { .. })).count(),
    }
}

/// Whether the only statement of a text is EXECUTE IMMEDIATE: what it runs may prepare nothing itself.
fn is_immediate(statement: &Statement) -> bool {
    let is_other = |effect: &Effect| match effect {
        Effect::PrepareText { .. } | Effect::DeallocateText { .. } => true,
        Effect::ExecuteText { name } => !name.is_empty(),
        _ => false,
    };
    statement.kind == Kind::PreparedText && !statement.effects.iter().any(is_other)
}

//! A statement that the client has prepared is prepared again on each connection that executes it.

use std::sync::Arc;

use route::Pin;
use route::state::StateMap;
use sql::{Asks, Kind, Statement};
use wire::command::{Command, LAST_PREPARED};
use wire::exchange::Expect;

use super::Session;
use super::belief::Belief;
use super::query::{Body, Query};
use super::relay::RelayError;
use super::statements::{LongDataOf, PreparedText};
use super::typed::asks_for_past;
use crate::outgoing::Outgoing;
use crate::outgoing::Purpose;
use crate::pool::{Connection, ForTypes, StatementKey};

impl Session {
    /// The server's id of a client's statement, prepared again on this connection if it must be.
    pub(super) async fn prepared_on(
        &mut self,
        connection: &mut Connection,
        id: u32,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) -> Result<u32, RelayError> {
        let Some(known) = self.belief.statements.find(id) else { return Ok(0) };
        let wanted = (!connection.origin.mariadb && query.command == Command::StmtExecute && known.parameters > 0)
            .then(|| known.types_wanted(query.request, self.client.capabilities));
        let me = self.env.handle.id;
        let find = |connection: &mut Connection, key: &StatementKey| match &wanted {
            Some((wanted, _)) => connection.origin.statements.find_for(key, me, wanted),
            None => connection.origin.statements.find(key).map(ForTypes::Typed),
        };
        let prepared = known.prepared.clone();
        let may_give = |key: &StatementKey| !asks_for_past(&prepared.statement) || key.text != prepared.key.text;
        let given = |connection: &mut Connection, key: &StatementKey, found: ForTypes, out: &mut Outgoing| match (
            found, &wanted,
        ) {
            (ForTypes::Untyped(id), Some((_, Some(first)))) if may_give(key) => {
                first.give(connection, id, out);
                id
            }
            (ForTypes::Typed(id) | ForTypes::Untyped(id), _) => id,
        };
        let mut key = prepared.key.clone();
        let asks_nothing = prepared.statement.asks.is_empty() && !self.belief.needs_text_instead(query);
        if !asks_nothing || self.belief.pins.has(Pin::LongData) {
            Box::pin(self.text_to_run(connection, (id, &prepared), query, &mut key, out)).await?;
        }
        self.belief.statements.find_mut(id).into_iter().for_each(|known| known.follow_cursor(query, &mut key));
        if matches!(query.body, Body::Execute(_)) && !query.opens_cursor {
            connection.origin.statements.want_rows(&key);
        }
        // A reset forgets what is prepared.
        let anew = connection.origin.state.needs_reset(&self.belief.state)
            || connection.origin.mariadb && self.belief.begins_long_data(id, query);
        if !anew && let Some(found) = find(connection, &key) {
            return Ok(given(connection, &key, found, out));
        }
        self.env.worker.stats.reprepares.add_one();
        let prepare_in = self.belief.state_to_prepare_in(&prepared);
        if self.fix_up(connection, &prepare_in, out) {
            Box::pin(self.settle_fix_ups(connection, out)).await?;
        }
        prepare_again(connection, &prepared.statement, &key, out);
        if connection.origin.mariadb && matches!(query.body, Body::Execute(_)) {
            return Ok(LAST_PREPARED);
        }
        if prepared.statement.asks.contains(Asks::STORED_FUNCTIONS) {
            // MySQL reports the way to a function's schema and back with the next OK. It is none of this client's.
            out.command(connection, Command::Ping, &[], Purpose::Variables, Expect::Results);
            self.belief.past.row_count_is_here = true;
        }
        Box::pin(self.settle_fix_ups(connection, out)).await?;
        let found = find(connection, &key);
        Ok(found.map_or(0, |found| given(connection, &key, found, out)))
    }

    /// Puts the text into the key that the server gets in place of the client's, if another one goes there. Long data belongs to
    /// the text that it was sent to: its execution runs that one.
    async fn text_to_run(
        &mut self,
        connection: &mut Connection,
        (id, prepared): (u32, &PreparedText),
        query: &Query<'_>,
        key: &mut StatementKey,
        out: &mut Outgoing,
    ) -> Result<(), RelayError> {
        let executes = query.command == Command::StmtExecute;
        let is_select = prepared.statement.kind == Kind::Select;
        if self.belief.pins.has_long_data(id) && query.command != Command::StmtFetch {
            let known = self.belief.statements.find(id);
            let Some(sent) = known.and_then(|known| known.long_data_of.clone()) else { return Ok(()) };
            if executes && sent.renames {
                let state = self.belief.state_to_prepare_in(prepared);
                out.columns = Box::pin(self.columns_as_spelt(connection, query, &key.text, &state, out)).await?;
            }
            key.text = sent.text;
            query.text_replaced.set(executes);
            return Ok(());
        }
        let begins = query.command == Command::StmtSendLongData;
        if !executes && !begins {
            return Ok(());
        }
        let asks = prepared.statement.asks - (Asks::CONNECTION_ID | Asks::SYSTEM_VARIABLES);
        let asks_gtid = self.belief.asks_last_gtid(prepared.statement.asks, &key.text);
        let is_late = prepared.statement.asks.contains(Asks::CONNECTION_ID) || self.belief.needs_text_instead(query);
        let mut renames = false;
        let mut columns = None;
        if is_late && let Some(instead) = Box::pin(self.text_instead(connection, query, &key.text, out)).await? {
            key.text = instead.text.into();
            (columns, renames) = (instead.columns, is_select);
        } else if executes && let Some(set) = self.diagnostics_as_set(&prepared.statement, &key.text) {
            key.text = set.into();
            query.sets_diagnostics.set(true);
        } else if (asks.intersects(Asks::ROW_COUNT | Asks::FOUND_ROWS) || asks_gtid)
            && let Some(rewritten) = self.rewritten(&key.text, asks, !self.belief.pins.is_empty(), asks_gtid)
        {
            renames = rewritten.renames && is_select;
            if renames && executes {
                let state = self.belief.state_to_prepare_in(prepared);
                columns = Box::pin(self.columns_as_spelt(connection, query, &key.text, &state, out)).await?;
            }
            key.text = rewritten.text.into();
        }
        let is_another = key.text != prepared.key.text;
        if executes {
            query.text_replaced.set(is_another);
            out.columns = columns;
        } else if let Some(known) = self.belief.statements.find_mut(id) {
            known.long_data_of = is_another.then(|| LongDataOf { text: key.text.clone(), renames });
        }
        Ok(())
    }
}

/// A client's prepared statement on the connection of a pipeline.
pub(super) enum StatementOnPipeline {
    /// It is prepared there under this id of the server's, and its parameters have the types that the execution needs.
    There(u32),
    /// It is not, or not yet for executions like this one: this has to go ahead of later ones.
    Lacks(Outgoing),
    /// The execution needs a connection of its own.
    Never,
}

impl Session {
    /// Looks for the statement of an execution on a connection that is in the session's state, and that others use as well.
    pub(super) fn prepared_on_pipeline(
        &self,
        connection: &mut Connection,
        id: u32,
        query: &Query<'_>,
    ) -> StatementOnPipeline {
        let Some(known) = self.belief.statements.find(id) else { return StatementOnPipeline::Never };
        let prepared = &known.prepared;
        if !prepared.statement.asks.is_empty() || !prepared.means_the_same_in(&self.belief.state) {
            return StatementOnPipeline::Never;
        }
        let statements = &mut connection.origin.statements;
        let mut out = Outgoing::default();
        statements.want_rows(&prepared.key);
        if connection.origin.mariadb || known.parameters == 0 {
            if let Some(server_id) = statements.find(&prepared.key) {
                return StatementOnPipeline::There(server_id);
            }
        } else {
            let (wanted, first) = known.types_wanted(query.request, self.client.capabilities);
            match (statements.find_for(&prepared.key, self.env.handle.id, &wanted), first) {
                (Some(ForTypes::Typed(server_id)), _) => return StatementOnPipeline::There(server_id),
                (Some(ForTypes::Untyped(server_id)), Some(first)) => {
                    let state = connection.origin.state.clone();
                    first.give(connection, server_id, &mut out);
                    self.fix_up(connection, &state, &mut out);
                    return StatementOnPipeline::Lacks(out);
                }
                (Some(ForTypes::Untyped(_)), None) => return StatementOnPipeline::Never,
                // With other types it is another statement.
                (None, _) if statements.find(&prepared.key).is_some() => return StatementOnPipeline::Never,
                (None, _) => {}
            }
        }
        self.env.worker.stats.reprepares.add_one();
        prepare_again(connection, &prepared.statement, &prepared.key, &mut out);
        StatementOnPipeline::Lacks(out)
    }
}

impl Belief {
    /// Whether the first part of a parameter is sent ahead. MariaDB 10.11 takes it for a value of the type that the parameter had
    /// before, and reads an address as a number: a statement that somebody has executed is prepared anew for it.
    fn begins_long_data(&self, id: u32, query: &Query<'_>) -> bool {
        query.command == Command::StmtSendLongData && !self.pins.has_long_data(id) && !self.pins.has_cursor(id)
    }

    /// The session's state with the schema in which the client prepared a statement: names in its text belong to that one.
    fn state_to_prepare_in(&self, prepared: &PreparedText) -> Arc<StateMap> {
        if prepared.means_the_same_in(&self.state) {
            return self.state.clone();
        }
        Arc::new(self.state.to_prepare_as_in(&prepared.state))
    }
}

/// Prepares a text under this key; the reply is outstanding then.
fn prepare_again(connection: &mut Connection, statement: &Statement, key: &StatementKey, out: &mut Outgoing) {
    let mark = connection.origin.mark_of(statement, &key.text);
    out.packet(|bytes| {
        bytes.push(Command::StmtPrepare.byte());
        bytes.extend_from_slice(mark);
        bytes.extend_from_slice(&key.text);
    });
    out.expect(connection, Expect::Prepared, Purpose::Prepare(key.clone()));
}

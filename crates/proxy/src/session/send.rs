//! Sending a statement: what its connection lacks of the session's state goes ahead of it, in the same write.

use sql::{Access, Why};
use wire::codec::Write;
use wire::command::{BulkExecute, CURSOR_READ_ONLY, Command, Execute};
use wire::exchange::Expect;

use super::belief::Belief;
use super::fix_up::reset_ahead;
use super::long_text::LONG_TEXT_BYTES;
use super::query::{Body, Query};
use super::relay::RelayError;
use super::statements::ClientStatement;
use super::write::{write, write_while_alive};
use super::{Held, Session};
use crate::outgoing::{Outgoing, Purpose};
use crate::pool::{Connection, StatementKey};
use route::Pin;

const WRITES: Access = Access::Primary(Why::Writes);

impl Session {
    /// Sends the statement by way of `out`, which has the replies that are outstanding then.
    pub(super) async fn send(
        &mut self,
        held: &mut Held,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) -> Result<(), RelayError> {
        let connection = &mut *held.lease;
        let reads = query.statement.access.only_reads();
        if self.belief.finds_variables_of_others(&connection.origin, query) {
            reset_ahead(connection, out);
        }
        let mut instead = None;
        if query.command == Command::Query && self.belief.needs_text_instead(query) {
            instead = Box::pin(self.query_instead(connection, query, out)).await?;
        }
        let statement = match &query.body {
            Body::Execute(id) | Body::OfStatement(id) => {
                Some((*id, self.prepared_on(connection, *id, query, out).await?))
            }
            Body::AsCame | Body::Payload(_) | Body::Packets(_) | Body::Prepare(_) => None,
        };
        let may_be_refused = self.fix_up(connection, &self.belief.state, out);
        if !query.statement.effects.is_empty() {
            self.belief.hear_of_characteristics(connection, query, out);
        } else if connection.origin.tells_characteristics {
            self.belief.hear_no_more_of_characteristics(connection, query, out);
        }
        if let Some(awaits) = held.awaits.take() {
            awaits.put(connection, out);
        }
        self.restore_past(connection, query, out);
        if !out.pending.is_empty() && !self.belief.past.found_rows_unsure && !self.belief.past.found_rows_given {
            // Some of what goes ahead is counted on a connection that the session keeps.
            self.belief.past.found_rows_are_here = true;
        }
        if may_be_refused && !reads {
            // Should the schema be gone, a statement that writes must not run in the one before; and the server would run it
            // behind a SET that it has refused.
            Box::pin(self.settle_fix_ups(connection, out)).await?;
        }
        let body = instead.as_ref().unwrap_or(&query.body);
        let as_came = self.write_body(connection, query, body, statement, out);
        out.expect(connection, query.expect, Purpose::Client);
        if connection.origin.last_session != self.env.handle.id {
            connection.origin.of_several |= connection.origin.last_session != 0;
            connection.origin.last_session = self.env.handle.id;
        }
        let written = match as_came {
            Some(long) if !out.bytes.is_empty() => Box::pin(self.write_behind(connection, out, long)).await,
            packets => {
                let packets = packets.unwrap_or(&out.bytes);
                write_while_alive(&self.env.handle, &mut connection.stream, packets).await
            }
        };
        match written {
            // A server that does not read to the end, such as one to which the statement is too long, may have said why.
            Err(RelayError::Server(_)) if !out.pending.is_empty() => {}
            written => {
                written?;
                out.sent = true;
            }
        }
        Ok(())
    }

    /// Writes what goes ahead of a long text, and then its packets: to copy these behind the former would hold the worker.
    async fn write_behind(
        &self,
        connection: &mut Connection,
        ahead: &Outgoing,
        packets: &[u8],
    ) -> Result<(), RelayError> {
        write_while_alive(&self.env.handle, &mut connection.stream, &ahead.bytes).await?;
        write_while_alive(&self.env.handle, &mut connection.stream, packets).await
    }

    /// Puts the statement into `out`, unless it has its packets already, and nothing goes ahead of them or they are a long
    /// text's: then it gives these.
    pub(super) fn write_body<'q>(
        &mut self,
        connection: &Connection,
        query: &'q Query<'_>,
        body: &'q Body,
        statement: Option<(u32, u32)>,
        out: &mut Outgoing,
    ) -> Option<&'q [u8]> {
        let mut as_came: Option<&[u8]> = None;
        match body {
            Body::AsCame => match self.belief.marked(connection, query) {
                Some((before, mark, text)) => {
                    out.packet(|bytes| [before, mark, text].iter().for_each(|part| bytes.extend_from_slice(part)));
                }
                None => as_came = Some(&query.request.packets),
            },
            Body::Packets(packets) => as_came = Some(packets),
            Body::Payload(payload) => out.packet(|bytes| bytes.extend_from_slice(payload)),
            Body::Prepare(key) => out.packet(|bytes| {
                bytes.push(Command::StmtPrepare.byte());
                bytes.extend_from_slice(connection.origin.mark_of(&query.statement, &key.text));
                bytes.extend_from_slice(&key.text);
            }),
            Body::Execute(_) => self.write_execute(statement, query, out),
            Body::OfStatement(_) => out.packet(|bytes| {
                let (_, server_id) = statement.unwrap_or_default();
                bytes.push(query.command.byte());
                bytes.put_u32(server_id);
                bytes.extend_from_slice(query.request.payload().get(5..).unwrap_or_default());
            }),
        }
        if !out.bytes.is_empty()
            && let Some(short) = as_came.take_if(|packets| packets.len() <= LONG_TEXT_BYTES)
        {
            out.bytes.extend_from_slice(short);
        }
        as_came
    }

    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE with the server's id and with the types that the client sent once.
    fn write_execute(&mut self, statement: Option<(u32, u32)>, query: &Query<'_>, out: &mut Outgoing) {
        let (command, request) = (query.command, query.request);
        let (id, server_id) = statement.unwrap_or_default();
        let arguments = request.payload().get(1..).unwrap_or_default();
        let capabilities = self.client.capabilities;
        let may_give_types = !self.belief.is_mariadb() && !self.belief.pins.has_long_data(id);
        let Some(known) = self.belief.statements.find_mut(id) else { return };
        known.rows_come |= !query.opens_cursor;
        known.rows_stay &= !known.rows_come;
        if command == Command::StmtBulkExecute {
            if let Ok(bulk) = BulkExecute::parse(arguments, known.parameters) {
                let types = known.types_of(u64::from(known.parameters), bulk.types);
                return out.packet(|bytes| bulk.write(bytes, server_id, types));
            }
        } else if let Ok(mut execute) = Execute::parse(arguments, known.parameters, capabilities) {
            if may_give_types && known.parameters > 0 {
                known.note_types(&execute);
            }
            if query.rows_stay {
                execute.flags |= CURSOR_READ_ONLY;
            }
            let types = known.types_of(execute.count.unwrap_or(u64::from(known.parameters)), execute.types);
            return out.packet(|bytes| execute.write(bytes, server_id, types));
        }
        // The server says what is wrong with it, in its own words.
        out.packet(|bytes| {
            bytes.push(command.byte());
            bytes.put_u32(server_id);
            bytes.extend_from_slice(arguments.get(4..).unwrap_or_default());
        });
    }

    /// The client closed a statement. There is no reply; backend connections keep theirs for the next who prepares the
    /// same text, except where a cursor or long data hangs on it.
    pub(super) async fn close_statement(&mut self, arguments: &[u8]) {
        let Some(id) = super::statements::statement_id(arguments) else { return };
        let closed = self.belief.statements.remove(id);
        let keys: Vec<StatementKey> = closed.iter().flat_map(ClientStatement::keys).collect();
        if let (Some(log), Some(closed)) = (&mut self.transaction.log, closed) {
            log.closes(closed);
        }
        if !self.belief.pins.has_cursor(id) && !self.belief.pins.has_long_data(id) {
            return;
        }
        self.belief.pins.cursor(id, false);
        self.end_long_data(id);
        self.env.show_pins(self.belief.pins.bits());
        let Some(mut held) = self.here.held.take() else { return };
        let mut out = Outgoing::default();
        for key in keys {
            if let Some(server_id) = held.lease.origin.statements.find(&key) {
                held.lease.origin.statements.forget(&key);
                out.command(
                    &held.lease,
                    Command::StmtClose,
                    &server_id.to_le_bytes(),
                    Purpose::Client,
                    Expect::Nothing,
                );
            }
        }
        if !out.bytes.is_empty() && write(&mut held.lease, &out.bytes).await.is_err() {
            return;
        }
        if self.belief.pins.is_empty() {
            self.release(held).await;
        } else {
            self.here.held = Some(held);
        }
    }
}

impl Belief {
    /// A text that is marked: the part before the mark, the mark, and the part behind it.
    fn marked<'a>(&self, connection: &'a Connection, query: &'a Query<'_>) -> Option<(&'a [u8], &'a [u8], &'a [u8])> {
        // Most statements are no writes: they are sorted out first.
        if query.command != Command::Query || query.statement.access != WRITES {
            return None;
        }
        // SHOW PROFILES and the optimizer's trace show texts as the server got them.
        if self.pins.has(Pin::Tracing) {
            return None;
        }
        let (payload, text) = (query.request.payload(), query.text()?.bytes);
        let (before, text) = payload.split_at_checked(payload.len() - text.len())?;
        let mark = connection.origin.mark_of(&query.statement, text);
        (!mark.is_empty()).then_some((before, mark, text))
    }
}

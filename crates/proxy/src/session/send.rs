//! Sending a statement: what its connection lacks of the session's state goes ahead of it, in the same write.

use std::sync::Arc;

use sql::{Access, Asks, Effect, Kind, Value, Why};
use wire::codec::Write;
use wire::command::{BulkExecute, Command, Execute};
use wire::exchange::Expect;
use wire::packet::{self, HEADER_BYTES, Header};
use wire::reply::{self, Ok};
use wire::{Capabilities, Status};

use super::client::Client;
use super::client::Request;
use super::query::{Body, Query};
use super::relay::{Outcome, Relay, RelayError, Withhold};
use super::statements::ClientStatement;
use super::tracking::TRANSACTION_INFO;
use super::typed::Typed;
use super::write::{write, write_while_alive};
use super::{Held, Session};
use crate::outgoing::Outgoing;
use crate::outgoing::Purpose;
use crate::pool::{Connection, Origin, StatementKey, TypesWanted};
use route::Pin;
use route::state::StateMap;

const WRITES: Access = Access::Primary(Why::Writes);
/// Makes a connection tell all changes of its state.
const TRACK_EVERYTHING: &str = "session_track_schema=1,session_track_state_change=1,session_track_system_variables='*'";

/// Makes the flags of replies those of the mode that is in effect.
const RENEW_MODE_FLAGS: &[u8] = b"SET sql_mode=@@sql_mode";

impl Session {
    /// Sends the statement; gives the replies that are outstanding then.
    pub(super) async fn send(&mut self, held: &mut Held, query: &Query<'_>) -> Result<Outgoing, RelayError> {
        let mut out = self.env.worker.outgoing.take();
        let connection = &mut *held.lease;
        let reads = query.statement.access.only_reads();
        if self.finds_variables_of_others(&connection.origin, query) {
            reset_ahead(connection, &mut out);
        }
        let mut instead = None;
        if query.command == Command::Query && self.belief.needs_text_instead(query) {
            instead = Box::pin(self.query_instead(connection, query, &mut out)).await?.map(Body::Payload);
        }
        let statement = match &query.body {
            Body::Execute(id) | Body::OfStatement(id) => {
                Some((*id, self.prepared_on(connection, *id, query, &mut out).await?))
            }
            Body::AsCame | Body::Payload(_) | Body::Prepare(_) => None,
        };
        let changes_schema = self.fix_up(connection, &self.belief.state, &mut out);
        if !query.statement.effects.is_empty() {
            self.hear_of_characteristics(connection, query, &mut out);
        }
        if let Some(awaits) = held.awaits.take() {
            awaits.put(connection, &mut out);
        }
        self.restore_past(connection, query, &mut out);
        if !out.pending.is_empty() && !self.belief.past.found_rows_unsure && !self.belief.past.found_rows_given {
            // Some of what goes ahead is counted on a connection that the session keeps.
            self.belief.past.found_rows_are_here = true;
        }
        if changes_schema && !reads {
            // Should the schema be gone, a statement that writes must not run in the one before.
            Box::pin(self.settle_fix_ups(connection, &mut out)).await?;
        }
        let body = instead.as_ref().unwrap_or(&query.body);
        let as_came = self.write_body(connection, query, body, statement, &mut out);
        out.expect(connection, query.expect, Purpose::Client);
        if connection.origin.last_session != self.env.handle.id {
            connection.origin.of_several |= connection.origin.last_session != 0;
            connection.origin.last_session = self.env.handle.id;
        }
        let bytes = as_came.unwrap_or(&out.bytes);
        match write_while_alive(&self.env.handle, &mut connection.stream, bytes).await {
            // A server that does not read to the end, such as one to which the statement is too long, may have said why.
            Err(RelayError::Server(_)) if !out.pending.is_empty() => {}
            written => {
                written?;
                out.sent = true;
            }
        }
        Ok(out)
    }

    /// Puts the statement into `out`, unless its packets can go as they came: then it gives these.
    pub(super) fn write_body<'q>(
        &mut self,
        connection: &Connection,
        query: &'q Query<'_>,
        body: &Body,
        statement: Option<(u32, u32)>,
        out: &mut Outgoing,
    ) -> Option<&'q [u8]> {
        let mut as_came: Option<&[u8]> = None;
        match body {
            Body::AsCame => match self.marked(connection, query) {
                Some((before, mark, text)) => {
                    out.packet(|bytes| [before, mark, text].iter().for_each(|part| bytes.extend_from_slice(part)));
                }
                None if out.bytes.is_empty() => as_came = Some(&query.request.packets),
                None => out.bytes.extend_from_slice(&query.request.packets),
            },
            Body::Payload(payload) => out.packet(|bytes| bytes.extend_from_slice(payload)),
            Body::Prepare(key) => out.packet(|bytes| {
                bytes.push(Command::StmtPrepare.byte());
                bytes.extend_from_slice(connection.origin.mark_of(&query.statement, &key.text));
                bytes.extend_from_slice(&key.text);
            }),
            Body::Execute(_) => self.write_execute(statement, query.command, query.request, out),
            Body::OfStatement(_) => out.packet(|bytes| {
                let (_, server_id) = statement.unwrap_or_default();
                bytes.push(query.command.byte());
                bytes.put_u32(server_id);
                bytes.extend_from_slice(query.request.payload().get(5..).unwrap_or_default());
            }),
        }
        as_came
    }

    /// A text that is marked: the part before the mark, the mark, and the part behind it.
    fn marked<'a>(&self, connection: &'a Connection, query: &'a Query<'_>) -> Option<(&'a [u8], &'a [u8], &'a [u8])> {
        // Most statements are no writes: they are sorted out first.
        if query.command != Command::Query || query.statement.access != WRITES {
            return None;
        }
        // SHOW PROFILES and the optimizer's trace show texts as the server got them.
        if self.belief.pins.has(Pin::Tracing) {
            return None;
        }
        let (payload, text) = (query.request.payload(), query.text()?.bytes);
        let (before, text) = payload.split_at_checked(payload.len() - text.len())?;
        let mark = connection.origin.mark_of(&query.statement, text);
        (!mark.is_empty()).then_some((before, mark, text))
    }

    /// Whether the statement names a user variable that only sessions before this one had. To MySQL, one that was never set
    /// has the type of what stands around it, and to MariaDB a length that no other has; one that is NULL has a type of its own, which
    /// only a reset takes away.
    fn finds_variables_of_others(&self, origin: &Origin, query: &Query<'_>) -> bool {
        let statement = &query.statement;
        let gives_type = |effect: &Effect| matches!(effect, Effect::UserVariable { value: Value::Literal(text), .. } if !text.eq_ignore_ascii_case("null"));
        let only_gives_types = statement.kind == Kind::Set && statement.effects.iter().all(gives_type);
        if !self.belief.pins.is_empty() {
            return false;
        }
        let once_set =
            origin.once_set.iter().map(String::as_str).filter(|name| !self.belief.state.has_user_variable(name));
        let mut names = once_set.chain(origin.state.user_variables_beyond(&self.belief.state)).peekable();
        if names.peek().is_none() {
            return false;
        }
        if query.may_pin() || !self.facts().autocommit {
            // Later statements may name them, and find no time for it.
            return true;
        }
        let names_any = statement.asks.contains(Asks::USER_VARIABLES)
            || statement.effects.iter().any(|effect| matches!(effect, Effect::UserVariable { .. }));
        if !names_any || only_gives_types && !statement.effects.is_empty() {
            return false;
        }
        let text = match &query.body {
            Body::OfStatement(_) => None,
            _ => query.text(),
        };
        let Some(text) = text.map(|text| text.bytes.to_ascii_lowercase()) else { return false };
        let holds = |part: &str| memchr::memmem::find(&text, part.as_bytes()).is_some();
        let quoted = ["@`", "@'", "@\""].into_iter().any(holds);
        names.any(|name| quoted || holds(&format!("@{name}")))
    }

    /// Puts what brings the connection to `wanted` into `out`; gives whether the schema changes. The connection counts as
    /// being in that state from now on: should a fix-up fail, it is closed.
    pub(super) fn fix_up(&self, connection: &mut Connection, wanted: &Arc<StateMap>, out: &mut Outgoing) -> bool {
        let changes_schema = self.bring_to(connection, wanted, out);
        if connection.origin.mode_flags_unsure && connection.origin.last_session != self.env.handle.id {
            connection.origin.mode_flags_unsure = false;
            out.command(connection, Command::Query, RENEW_MODE_FLAGS, Purpose::Variables, Expect::Results);
        }
        changes_schema
    }

    fn bring_to(&self, connection: &mut Connection, wanted: &Arc<StateMap>, out: &mut Outgoing) -> bool {
        for id in connection.origin.statements.take_closing() {
            out.command(connection, Command::StmtClose, &id.to_le_bytes(), Purpose::Client, Expect::Nothing);
        }
        if self.belief.pins.has(Pin::ExpiredPassword) {
            // The server takes nothing but a new password, and the connection is the session's alone.
            return false;
        }
        // A session without a schema gets a connection that has one only for what does the same there.
        connection.origin.in_some_schema |= connection.origin.state.schema().is_some();
        connection.origin.in_some_schema &= wanted.schema().is_none();
        if connection.origin.tracks && connection.origin.state.fingerprint() == wanted.fingerprint() {
            return false;
        }
        if connection.origin.unset_variables(wanted) {
            reset_ahead(connection, out);
        }
        let difference = connection.origin.state.difference(wanted);
        if difference.is_empty() && connection.origin.tracks {
            return false;
        }
        self.env.worker.stats.fix_ups.add_one();
        if connection.origin.state.variable(TRANSACTION_INFO) != wanted.variable(TRANSACTION_INFO) {
            connection.origin.tells_characteristics = false;
        }
        if difference.reset {
            reset_ahead(connection, out);
        }
        // A reset leaves the schema, but with the server's character set for it instead of its own.
        let stale = std::mem::take(&mut connection.origin.schema_is_stale);
        let schema = difference.schema.as_deref().or_else(|| wanted.schema().filter(|_| stale));
        if let Some(schema) = schema {
            out.command(connection, Command::InitDb, schema.as_bytes(), Purpose::Schema, Expect::Results);
        }
        let chooses_schema = schema.is_some();
        let mut set = difference.set;
        if !connection.origin.tracks {
            set.push_str(if set.is_empty() { "SET " } else { "," });
            set.push_str(TRACK_EVERYTHING);
            // It cannot be set inside a transaction, not even by a client that changed what else is tracked.
            if !connection.origin.mariadb && !self.belief.pins.has(Pin::Transaction) {
                let wanted = if self.belief.tracking.all_gtids() { "ALL_GTIDS" } else { "OWN_GTID" };
                set.push_str(&format!(",session_track_gtids={wanted}"));
            }
            connection.origin.tracks = true;
        }
        if !set.is_empty() {
            out.command(connection, Command::Query, set.as_bytes(), Purpose::Variables, Expect::Results);
        }
        if !difference.set_user.is_empty() {
            let set = difference.set_user.as_bytes();
            out.command(connection, Command::Query, set, Purpose::Variables, Expect::Results);
        }
        connection.origin.state = wanted.clone();
        chooses_schema
    }

    /// Sends what is in `out` and waits for its replies.
    pub(super) async fn settle_fix_ups(
        &mut self,
        connection: &mut Connection,
        out: &mut Outgoing,
    ) -> Result<(), RelayError> {
        write(connection, &out.bytes).await?;
        out.bytes.clear();
        let mut relay = Relay {
            worker: &self.env.worker,
            handle: &self.env.handle,
            client: &mut self.client,
            connection,
            pending: std::mem::take(&mut out.pending),
            tracking: &self.belief.tracking,
            withhold: Withhold::Nothing,
            file_allowed: false,
            hearing: None,
            prepare_as: 0,
            keeps_end: false,
            warnings: None,
            outcome: &mut Outcome::default(),
        };
        relay.run().await
    }

    /// Brings a connection to the session's state, without a statement.
    pub(super) async fn bring_to_state(&mut self, held: &mut Held) -> Result<(), RelayError> {
        let mut out = Outgoing::default();
        self.fix_up(&mut held.lease, &self.belief.state.clone(), &mut out);
        self.settle_fix_ups(&mut held.lease, &mut out).await
    }

    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE with the server's id and with the types that the client sent once.
    fn write_execute(
        &mut self,
        statement: Option<(u32, u32)>,
        command: Command,
        request: &Request,
        out: &mut Outgoing,
    ) {
        let (id, server_id) = statement.unwrap_or_default();
        let arguments = request.payload().get(1..).unwrap_or_default();
        let capabilities = self.client.capabilities;
        let may_give_types = !self.belief.is_mariadb() && !self.belief.pins.has_long_data(id);
        let Some(known) = self.belief.statements.find_mut(id) else { return };
        if command == Command::StmtBulkExecute {
            if let Ok(bulk) = BulkExecute::parse(arguments, known.parameters) {
                let types = known.types_of(u64::from(known.parameters), bulk.types);
                return out.packet(|bytes| bulk.write(bytes, server_id, types));
            }
        } else if let Ok(execute) = Execute::parse(arguments, known.parameters, capabilities) {
            if may_give_types && known.parameters > 0 {
                known.note_types(&execute);
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
        let Some(id) = super::request::statement_id(arguments) else { return };
        let closed = self.belief.statements.remove(id);
        let key: Option<StatementKey> = closed.as_ref().map(|known| known.prepared.key.clone());
        if let (Some(log), Some(closed)) = (&mut self.transaction.log, closed) {
            log.closes(closed);
        }
        if !self.belief.pins.has_cursor(id) && !self.belief.pins.has_long_data(id) {
            return;
        }
        self.belief.pins.cursor(id, false);
        self.belief.pins.long_data(id, false);
        self.env.show_pins(self.belief.pins.bits());
        let Some(mut held) = self.here.held.take() else { return };
        if let Some(server_id) = key.and_then(|key| {
            let found = held.lease.origin.statements.find(&key);
            held.lease.origin.statements.forget(&key);
            found
        }) {
            let mut out = Outgoing::default();
            out.command(&held.lease, Command::StmtClose, &server_id.to_le_bytes(), Purpose::Client, Expect::Nothing);
            if write(&mut held.lease, &out.bytes).await.is_err() {
                return;
            }
        }
        if self.belief.pins.is_empty() {
            self.release(held).await;
        } else {
            self.here.held = Some(held);
        }
    }
}

impl Client {
    /// The types that the parameters of an execution must have on MySQL, and what gave them where it does not do that itself.
    pub(super) fn types_wanted(&self, known: &ClientStatement, request: &Request) -> (TypesWanted, Option<Box<Typed>>) {
        let types = self.types_executed(known, request);
        let arguments = request.payload().get(1..).unwrap_or_default();
        let execute = Execute::parse(arguments, known.parameters, self.capabilities).ok();
        let (Some(typed), Some(execute)) = (&known.typed, execute) else {
            return (TypesWanted { behind: types.clone(), types, gives: true }, None);
        };
        let before = typed.types();
        if typed.is_given_by(&execute, &types) {
            return (TypesWanted { behind: before.clone(), types: before, gives: true }, None);
        }
        let behind = match typed.stays_for(&execute, &types) {
            true => before.clone(),
            false => Typed::by(&execute, &types, Some(typed)).map_or(types, |typed| typed.types()),
        };
        (TypesWanted { types: before, gives: false, behind }, Some(typed.clone()))
    }

    /// The types that an execution gives its parameters, with it or with an earlier one.
    pub(super) fn types_executed(&self, known: &ClientStatement, request: &Request) -> Box<[u8]> {
        let arguments = request.payload().get(1..).unwrap_or_default();
        let execute = Execute::parse(arguments, known.parameters, self.capabilities).ok();
        let came = execute.and_then(|execute| execute.types);
        came.or(known.types.as_ref().map(|(_, types)| &**types)).unwrap_or_default().into()
    }
}

/// COM_RESET_CONNECTION ahead of a statement.
fn reset_ahead(connection: &mut Connection, out: &mut Outgoing) {
    out.command(connection, Command::ResetConnection, &[], Purpose::Reset, Expect::Results);
    connection.origin.is_reset();
}

/// A result without what its last packet tells of the session: the client asked nothing that changes it.
pub(super) fn without_state(mut reply: Vec<u8>, capabilities: Capabilities) -> Vec<u8> {
    let mut last = 0;
    while let Some(header) = Header::read(reply.get(last..).unwrap_or_default()) {
        let next = last + HEADER_BYTES + header.length;
        if next < reply.len() {
            last = next;
            continue;
        }
        if capabilities.contains(Capabilities::DEPRECATE_EOF)
            && let Ok(end) = Ok::parse(&reply[last + HEADER_BYTES..], capabilities)
            && !end.session_state.is_empty()
        {
            let mut payload = Vec::new();
            Ok { session_state: &[], ..end }.write(&mut payload, reply::EOF, capabilities);
            reply.truncate(last);
            packet::append(&mut reply, header.sequence, &payload);
        }
        break;
    }
    reply
}

/// A result with these status flags, which stand at the same place in both forms of its end.
pub(super) fn with_status(reply: Vec<u8>, status: Status) -> Vec<u8> {
    with_flags(reply, Status::all(), status)
}

/// A result whose ends have, of these status flags, those of `status`.
pub(super) fn with_flags(mut reply: Vec<u8>, which: Status, status: Status) -> Vec<u8> {
    const LONGEST_EOF: usize = 8;
    let (mut at, mut goes_on) = (0, false);
    while let Some(header) = Header::read(reply.get(at..).unwrap_or_default()) {
        let payload = at + HEADER_BYTES;
        at = payload + header.length;
        // The rest of a row that fills more than a packet may look like anything.
        let is_whole = !std::mem::replace(&mut goes_on, header.length == packet::PAYLOAD_BYTES_MAX);
        if is_whole
            && header.length <= LONGEST_EOF
            && let Some([reply::EOF, _, _, flags @ ..]) = reply.get_mut(payload..at)
            && let Some(flags) = flags.first_chunk_mut()
        {
            let before = Status::from_bits_retain(u16::from_le_bytes(*flags));
            *flags = ((before - which) | (status & which)).bits().to_le_bytes();
        }
    }
    reply
}

//! Statements that ask for ids of connections: each id of a backend connection is shown as that of the session that it serves.
//!
//! Only when a statement's connection is known is it known which ids its server has for whom. So such a text is made just before
//! it is sent: tables that list connections become queries that list sessions, and functions that give or take an id
//! translate it. The client's own text is prepared beside it, not run: columns are described as the server describes those.

mod listing;

use std::fmt::Write as _;
use std::sync::Arc;

use route::state::StateMap;
use sql::Kind;
use sql::connections::{IdPlace, IdTable, IdUse};
use wire::codec::Reader;
use wire::command::{Command, query_text_at};
use wire::exchange::{Exchange, Expect};
use wire::packet::{self, First};
use wire::reply::Prepared;

use super::Session;
use super::belief::Belief;
use super::diagnostics::read_back::rows;
use super::long_text::query_of;
use super::processes::Shown;
use super::query::{Body, Query};
use super::relay::RelayError;
use super::reset::{ask, read_reply};
use super::write::write;
use crate::outgoing::{COLUMNS_BYTES_MAX, Columns, Form, Outgoing};
use crate::pool::Connection;
use crate::worker::Names;
use listing::Listing;

/// Sessions without a backend connection that a table lists at most; those of lower ids come first.
const IDLE_ROWS_MAX: usize = 500;
/// The text that Sqluice sends in place of a client's.
#[derive(Debug)]
pub(super) struct Instead {
    /// The text.
    pub text: Vec<u8>,
    /// How the columns of its result are described; `None`: as they come.
    pub columns: Option<Box<Columns>>,
}

impl Session {
    /// The id that CONNECTION_ID() gives.
    pub(super) fn own_id(&self) -> u64 {
        let set = self.belief.state.variable("pseudo_thread_id").and_then(|value| value.parse().ok());
        set.unwrap_or(u64::from(self.env.handle.id))
    }

    /// The text that goes to this connection in place of the client's, if another one does.
    pub(super) async fn text_instead(
        &mut self,
        connection: &mut Connection,
        query: &Query<'_>,
        text: &[u8],
        out: &mut Outgoing,
    ) -> Result<Option<Instead>, RelayError> {
        let statement = &query.statement;
        let gives_rows = matches!(statement.kind, Kind::Select);
        let takes_queries = matches!(statement.kind, Kind::Insert | Kind::Update | Kind::Set | Kind::Do);
        if !gives_rows && !takes_queries || query.prepares() {
            return Ok(None);
        }
        let dialect = self.belief.facts().dialect;
        let asked_for = statement.asks;
        let places = match asked_for.contains(sql::Asks::DIRECT) {
            true => sql::connections::Places::default(),
            false => sql::connections::places(text, &dialect, self.belief.state.schema()),
        };
        if places.places.is_empty() && !query.is_late && !asked_for.contains(sql::Asks::CONNECTION_ID) {
            return Ok(None);
        }
        self.fix_up(connection, &self.belief.state.clone(), out);
        self.settle_fix_ups(connection, out).await?;
        let Some(made) = self.with_ids(connection, text, &places.places).await? else { return Ok(None) };
        let keeps_ids =
            if places.others { sql::Asks::CONNECTION_ID | sql::Asks::SERVER_IDS } else { sql::Asks::empty() };
        let asks = (asked_for - sql::Asks::SERVER_IDS) - keeps_ids;
        let asks_gtid = self.belief.asks_last_gtid(asks, &made);
        let rewritten = self.rewritten(&made, asks, !self.belief.pins.is_empty(), asks_gtid);
        let is_same = places.places.is_empty();
        let (text_made, renames) = match rewritten {
            Some(rewritten) => (rewritten.text, rewritten.renames),
            None if is_same => return Ok(None),
            None => (made, false),
        };
        if !gives_rows || is_same && !renames {
            return Ok(Some(Instead { text: text_made, columns: None }));
        }
        let state = self.belief.state.clone();
        let columns = self.columns_as_spelt(connection, query, text, &state, out).await?;
        Ok(Some(Instead { text: text_made, columns }))
    }

    /// How the server describes the columns of the client's own text, of which another one is sent in its place.
    pub(super) async fn columns_as_spelt(
        &mut self,
        connection: &mut Connection,
        query: &Query<'_>,
        text: &[u8],
        prepare_in: &Arc<StateMap>,
        out: &mut Outgoing,
    ) -> Result<Option<Box<Columns>>, RelayError> {
        self.fix_up(connection, prepare_in, out);
        Box::pin(self.settle_fix_ups(connection, out)).await?;
        let columns = described(connection, text, &self.env.worker).await?;
        let form = match query.command {
            Command::StmtExecute if query.opens_cursor => Form::Cursor,
            Command::StmtExecute => Form::Binary,
            _ => Form::Text,
        };
        Ok(columns.map(|columns| Box::new(Columns::new(columns, form))))
    }

    /// The command that is sent in place of a client's text, if any.
    pub(super) async fn query_instead(
        &mut self,
        connection: &mut Connection,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) -> Result<Option<Body>, RelayError> {
        let Some((_, arguments)) = query.request.payload().split_first() else { return Ok(None) };
        let Ok(text_at) = query_text_at(arguments, self.client.capabilities) else { return Ok(None) };
        let (attributes, text) = arguments.split_at(text_at);
        let Some(instead) = self.text_instead(connection, query, text, out).await? else { return Ok(None) };
        out.columns = instead.columns;
        query.text_replaced.set(true);
        Ok(Some(query_of(attributes, instead.text).await))
    }

    /// The text with these places filled in; `None` if the server does not say what it needs.
    async fn with_ids(
        &self,
        connection: &mut Connection,
        text: &[u8],
        places: &[IdPlace],
    ) -> Result<Option<Vec<u8>>, RelayError> {
        let server = connection.origin.server;
        let shown = Shown::on(&self.env.worker.shared, &self.here.cluster.shared, server);
        let mut made = Vec::with_capacity(text.len());
        let mut copied = 0;
        for place in places {
            made.extend_from_slice(&text[copied..place.start]);
            let spelt = &text[place.start..place.end];
            match &place.what {
                IdUse::Table { table, named } => {
                    let Some(columns) = self.columns_of(connection, table).await? else { return Ok(None) };
                    let sees_others = table.is_process_list && self.sees_others(connection).await?;
                    let query = Listing { shown: &shown, table, columns: &columns, session: self, sees_others, text };
                    made.extend_from_slice(query.sql(connection.origin.thread_id).as_bytes());
                    if !named {
                        let name = table_name(spelt, table);
                        made.extend_from_slice(format!(" AS {}", sql::text::quote_identifier(&name)).as_bytes());
                    }
                }
                IdUse::Gives => {
                    let call = String::from_utf8_lossy(spelt);
                    let known = once(&call, |id| shown.as_clients_know(id));
                    // MySQL's function is unsigned: together with numbers that are not, it would be a decimal.
                    let known = match connection.origin.mariadb || known == call {
                        true => known,
                        false => format!("CAST({known} AS UNSIGNED)"),
                    };
                    made.extend_from_slice(known.as_bytes());
                }
                IdUse::Takes { start, end } => {
                    let argument = String::from_utf8_lossy(&text[*start..*end]);
                    made.extend_from_slice(&text[place.start..*start]);
                    made.extend_from_slice(once(&argument, |id| shown.as_server_knows(id)).as_bytes());
                    made.extend_from_slice(&text[*end..place.end]);
                }
            }
            copied = place.end;
        }
        made.extend_from_slice(&text[copied..]);
        Ok(Some(made))
    }

    async fn columns_of(
        &self,
        connection: &mut Connection,
        table: &'static IdTable,
    ) -> Result<Option<Names>, RelayError> {
        let server = connection.origin.server;
        if let Some(columns) = self.here.cluster.id_columns.find(server, table) {
            return Ok(Some(columns));
        }
        let text = format!("SELECT * FROM {}.{}", table.schema, sql::text::quote_identifier(table.name));
        let Some(columns) = described(connection, text.as_bytes(), &self.env.worker).await? else { return Ok(None) };
        let names: Option<Vec<String>> = columns.iter().map(|column| name_of(column)).collect();
        let Some(names) = names else { return Ok(None) };
        let names: Names = names.into();
        self.here.cluster.id_columns.insert(server, table, &names);
        Ok(Some(names))
    }

    /// Whether the server shows the user connections of others, which takes the privilege PROCESS. The monitor is always one.
    async fn sees_others(&self, connection: &mut Connection) -> Result<bool, RelayError> {
        let user = sql::text::hexadecimal(self.who.identity.user.as_bytes());
        let sql = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE USER <> {user} LIMIT 1");
        let Some(reply) = ask(connection, &sql, &self.env.worker).await? else { return Ok(false) };
        Ok(!rows(&reply, 1, connection.origin.capabilities)?.is_empty())
    }
}

impl Belief {
    /// Whether the statement's text can only be made when its connection is known.
    #[inline]
    pub(super) fn needs_text_instead(&self, query: &Query<'_>) -> bool {
        let asks = query.statement.asks;
        let in_schema_of_ids = self.facts().in_schema_of_ids && !asks.contains(sql::Asks::DIRECT);
        let named = asks.contains(sql::Asks::SERVER_IDS) || in_schema_of_ids;
        (query.is_late || named) && query.statement.parts == 1
    }
}

/// The name by which the rest of a statement calls a table without an alias.
fn table_name(spelt: &[u8], table: &IdTable) -> String {
    let spelt = String::from_utf8_lossy(spelt);
    let last = spelt.rsplit('.').next().unwrap_or_default().trim().trim_matches(['`', '"']);
    if last.eq_ignore_ascii_case(table.name) { last.to_owned() } else { table.name.to_owned() }
}

/// An expression that is translated; with a parameter in it, it is written once.
fn once(expression: &str, translate: impl Fn(&str) -> String) -> String {
    if !expression.contains('?') {
        return translate(expression);
    }
    let translated = translate("given.id");
    if translated == "given.id" {
        return expression.to_owned();
    }
    format!("(SELECT {translated} FROM (SELECT {expression} AS id) AS given)")
}

/// How a server describes the columns of a text's result, packet by packet. It is prepared, and not run. `None` if it refuses.
async fn described(
    connection: &mut Connection,
    text: &[u8],
    worker: &crate::worker::Worker,
) -> Result<Option<Vec<Vec<u8>>>, RelayError> {
    let mut bytes = Vec::new();
    packet::append(&mut bytes, 0, &[&[Command::StmtPrepare.byte()], text].concat());
    connection.origin.hears_question();
    write(connection, &bytes).await?;
    let mut exchange = Exchange::new(Expect::Prepared, connection.origin.capabilities);
    let Some(reply) = read_reply(connection, &mut exchange, worker, COLUMNS_BYTES_MAX).await? else { return Ok(None) };
    let mut payloads = Vec::new();
    let mut rest = &reply[..];
    while let First::Whole { payload, taken, .. } = packet::first(rest, COLUMNS_BYTES_MAX) {
        payloads.push(payload);
        rest = &rest[taken..];
    }
    let Some(head) = payloads.first() else { return Ok(None) };
    let prepared = Prepared::parse(head)?;
    let mut bytes = Vec::new();
    let close = [&[Command::StmtClose.byte()][..], &prepared.statement.to_le_bytes()].concat();
    packet::append(&mut bytes, 0, &close);
    write(connection, &bytes).await?;
    let is_definition = |payload: &&&[u8]| payload.first() != Some(&wire::reply::EOF);
    let definitions: Vec<&&[u8]> = payloads[1..].iter().filter(is_definition).collect();
    let columns = definitions.get(usize::from(prepared.parameters)..).unwrap_or_default();
    Ok(Some(columns.iter().map(|column| column.to_vec()).collect()))
}

/// The name in a description of a column.
fn name_of(column: &[u8]) -> Option<String> {
    let mut reader = Reader::new(column);
    (0..4).try_for_each(|_| reader.lenenc_bytes("column: origin").map(drop)).ok()?;
    Some(String::from_utf8_lossy(reader.lenenc_bytes("column: name").ok()?).into_owned())
}

impl Shown {
    /// An expression that gives a server's id, as clients know it.
    fn as_clients_know(&self, id: &str) -> String {
        self.translated(id, |thread_id, session| (thread_id, session))
    }

    /// An expression that gives an id as clients know it, as the server knows it.
    fn as_server_knows(&self, id: &str) -> String {
        let translated = self.translated(id, |thread_id, session| (session, thread_id));
        // MySQL 9.7 gives NULL for a number that is no integer, which a CASE of both signs is.
        if translated == id { translated } else { format!("CAST({translated} AS UNSIGNED)") }
    }

    fn translated(&self, id: &str, pair: impl Fn(u64, u64) -> (u64, u64)) -> String {
        if self.in_use.is_empty() {
            return id.to_owned();
        }
        let mut sql = format!("(CASE {id}");
        for (thread_id, session) in self.sorted() {
            let (from, to) = pair(thread_id, u64::from(session.id));
            let _ = write!(sql, " WHEN {from} THEN {to}");
        }
        let _ = write!(sql, " ELSE {id} END)");
        sql
    }

    fn sorted(&self) -> Vec<(u64, &Arc<crate::sessions::SessionHandle>)> {
        let mut all: Vec<_> = self.in_use.iter().map(|(thread_id, session)| (*thread_id, session)).collect();
        all.sort_by_key(|(thread_id, _)| *thread_id);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_translated_both_ways() {
        let sessions = crate::sessions::Sessions::default();
        let session = sessions.register(None);
        let shown = Shown { in_use: std::collections::HashMap::from([(7, session.clone())]), ..Shown::default() };
        assert_eq!(shown.as_clients_know("x"), format!("(CASE x WHEN 7 THEN {} ELSE x END)", session.id));
        assert_eq!(
            shown.as_server_knows("x"),
            format!("CAST((CASE x WHEN {} THEN 7 ELSE x END) AS UNSIGNED)", session.id)
        );
        assert_eq!(Shown::default().as_clients_know("x"), "x");
    }
}

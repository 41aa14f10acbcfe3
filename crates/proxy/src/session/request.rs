//! The meaning of a client's command: its statement, its reply, and whether a server is needed at all.

use std::rc::Rc;
use std::sync::Arc;

use sql::rewrite::{OwnValue, Rewritten};
use sql::{Access, Asks, Effect, Kind, Statement, Why};
use wire::command::{CURSOR_READ_ONLY, Command, query_text_at};
use wire::exchange::Expect;
use wire::{Capabilities, errno};

use super::Session;
use super::belief::Belief;
use super::client::Request;
use super::local::Answered;
use super::long_text::{LONG_TEXT_BYTES, PutIn};
use super::query::{Body, Query, Understood, plain};
use super::statements::{PrepareLimits, STATEMENTS_MAX};
use crate::error::{Refusal, SessionEnd};
use crate::pool::StatementKey;

fn unsupported_in_protocol() -> Refusal {
    let message = "This command is not supported in the prepared statement protocol yet".to_owned();
    Refusal::like_server(errno::ER_UNSUPPORTED_PS, b"HY000", message)
}

impl Session {
    /// Understands a short text in which nothing is that a server does not know, or its execution. Of another command, gives the
    /// meaning of its text if it was read.
    #[inline]
    pub(super) fn understand_plain<'r>(&mut self, request: &'r Request) -> Result<Query<'r>, Option<Rc<Statement>>> {
        let (&byte, arguments) = request.payload().split_first().ok_or(None)?;
        match Command::from_byte(byte) {
            Some(Command::Query) => {}
            Some(Command::StmtExecute) => return self.plain_execution(request, arguments).ok_or(None),
            _ => return Err(None),
        }
        let text_at = query_text_at(arguments, self.client.capabilities).map_err(|_| None)?;
        let text = arguments.get(text_at..).filter(|text| text.len() <= LONG_TEXT_BYTES).ok_or(None)?;
        let statement = self.classify(text);
        if !statement.asks.is_empty() || statement.kind == Kind::Kill {
            return Err(Some(statement));
        }
        let query = Query::new(request, Command::Query, statement, Body::AsCame, Expect::Results);
        Ok(query.with_text_at(1 + text_at, self.belief.facts().dialect))
    }

    /// The execution of a prepared statement that asks for nothing but a server.
    #[inline]
    fn plain_execution<'r>(&mut self, request: &'r Request, arguments: &[u8]) -> Option<Query<'r>> {
        let known = self.belief.statements.find(statement_id(arguments)?)?;
        let (id, prepared) = (known.id, &known.prepared);
        let statement = &prepared.statement;
        if known.refused.is_some()
            || known.rows_stay
            || statement.asks.contains(Asks::DIAGNOSTICS)
            || statement.kind == Kind::Kill
            || asks_for_cursor(arguments)
        {
            return None;
        }
        let query = Query::new(request, Command::StmtExecute, statement.clone(), Body::Execute(id), Expect::Results);
        Some(query.of_prepared(prepared.clone()))
    }

    /// Understands a command, whose text has this meaning if it was read already; answers what needs no server.
    pub(super) async fn understand<'r>(
        &mut self,
        request: &'r Request,
        statement: Option<Rc<Statement>>,
    ) -> Result<Understood<'r>, SessionEnd> {
        let Some((&byte, arguments)) = request.payload().split_first() else {
            return self.not_a_command(request).await;
        };
        let Some(command) = Command::from_byte(byte) else { return self.not_a_command(request).await };
        match command {
            Command::Query => self.understand_query(request, arguments, statement).await,
            Command::StmtPrepare => self.understand_prepare(request, arguments).await,
            Command::StmtBulkExecute if !self.belief.is_mariadb() => self.not_known(request, command).await,
            Command::StmtBulkExecute if !self.client.capabilities.contains(Capabilities::STMT_BULK) => {
                let answered = self.answer_error(request, &unsupported_in_protocol());
                Ok(Understood::answered(request, command, answered))
            }
            Command::StmtExecute | Command::StmtBulkExecute | Command::StmtFetch | Command::StmtSendLongData => {
                self.look_for_statement(arguments).await?;
                let understood = self.understand_statement(request, command, arguments)?;
                if matches!(&understood, Understood::Query(query) if query.statement.kind == Kind::Kill) {
                    return Ok(Box::pin(self.understand_executed_kill(understood, arguments)).await);
                }
                Ok(understood)
            }
            Command::StmtReset => {
                self.look_for_statement(arguments).await?;
                Ok(self.understand_reset_statement(request, arguments))
            }
            Command::SetOption => Ok(self.set_option(request, arguments)),
            Command::Quit => Err(SessionEnd::ClientLeft),
            // Only the server knows whether the statement that failed has opened a transaction, which the OK says.
            Command::Ping if self.may_be_in_transaction() => {
                let statement = plain(Kind::Administration, Access::Primary(Why::ServerState));
                Ok(Understood::Query(Query::new(request, command, statement, Body::AsCame, Expect::Results)))
            }
            Command::Ping
            | Command::StmtClose
            | Command::ProcessKill
            | Command::ResetConnection
            | Command::ChangeUser
            | Command::Shutdown => {
                let answered = self.answer_command(request, command, arguments).await?;
                Ok(Understood::answered(request, command, answered))
            }
            _ => match administrative(command, arguments, self.belief.is_mariadb()) {
                Some((statement, expect)) => {
                    Ok(Understood::Query(Query::new(request, command, statement, Body::AsCame, expect)))
                }
                None => self.not_known(request, command).await,
            },
        }
    }

    /// A prepared KILL that is executed: the ids that clients know are Sqluice's own.
    async fn understand_executed_kill<'r>(&mut self, kill: Understood<'r>, arguments: &[u8]) -> Understood<'r> {
        let Understood::Query(query) = kill else { return kill };
        match self.kill_by_execute(&query, arguments).await {
            Some(answered) => Understood::Answered(Box::new(query), answered),
            None => Understood::Query(query),
        }
    }

    /// Prepares for the error of a command about a statement that the client has not prepared.
    async fn look_for_statement(&mut self, arguments: &[u8]) -> Result<(), SessionEnd> {
        let is_there = || statement_id(arguments).and_then(|id| self.belief.statements.find(id)).is_some();
        if self.here.held.is_none() || is_there() {
            return Ok(());
        }
        self.read_messages_ahead().await
    }

    /// No command that any server knows.
    async fn not_a_command<'r>(&mut self, request: &'r Request) -> Result<Understood<'r>, SessionEnd> {
        self.read_messages_ahead().await?;
        self.answer_unknown_command(request);
        Ok(Understood::NoCommand)
    }

    /// A command that this family or version of servers does not know.
    async fn not_known<'r>(&mut self, request: &'r Request, command: Command) -> Result<Understood<'r>, SessionEnd> {
        self.read_messages_ahead().await?;
        let answered = self.answer_unknown_command(request);
        Ok(Understood::answered(request, command, answered))
    }

    /// The meaning of the text, read as the servers would read it in the session's state.
    fn classify(&self, text: &[u8]) -> Rc<Statement> {
        self.here.cluster.classify(text, &self.belief.facts().dialect)
    }

    async fn understand_query<'r>(
        &mut self,
        request: &'r Request,
        arguments: &[u8],
        statement: Option<Rc<Statement>>,
    ) -> Result<Understood<'r>, SessionEnd> {
        let Ok(text_at) = query_text_at(arguments, self.client.capabilities) else {
            let message = "Malformed communication packet.".to_owned();
            let refusal = Refusal::like_server(errno::ER_MALFORMED_PACKET, b"HY000", message);
            let answered = self.answer_error(request, &refusal);
            return Ok(Understood::answered(request, Command::Query, answered));
        };
        let (attributes, text) = arguments.split_at(text_at);
        let query = |statement| Query::new(request, Command::Query, statement, Body::AsCame, Expect::Results);
        if text.len() > LONG_TEXT_BYTES {
            let (statement, long) = Box::pin(self.read_long_text(text, 1 + text_at)).await;
            return Box::pin(self.understand_asking(query(statement).with_long_text(long), attributes, text)).await;
        }
        let statement = statement.unwrap_or_else(|| self.classify(text));
        let query = query(statement).with_text_at(1 + text_at, self.belief.facts().dialect);
        Box::pin(self.understand_asking(query, attributes, text)).await
    }

    /// A query that may ask for something that only Sqluice knows, such as ids of sessions and messages of the statement before:
    /// that is answered, or put into its text.
    async fn understand_asking<'r>(
        &mut self,
        mut query: Query<'r>,
        attributes: &[u8],
        text: &[u8],
    ) -> Result<Understood<'r>, SessionEnd> {
        if query.statement.kind == Kind::Kill
            && let Some(answered) = Box::pin(self.kill_by_text(query.request, &query.statement)).await
        {
            return Ok(Understood::Answered(Box::new(query), answered));
        }
        if query.statement.asks.contains(Asks::DIAGNOSTICS) && self.answer_messages(text, false) {
            return Ok(Understood::Answered(Box::new(query), Answered::Ok));
        }
        let rewritten = self.rewritten_query(&query, text).await;
        query.is_late = query.statement.kind == Kind::Select
            && query.statement.parts == 1
            && rewritten.as_ref().is_some_and(|rewritten| rewritten.renames);
        if let Some(rewritten) = rewritten.filter(|_| !query.is_late) {
            let mut payload = vec![Command::Query.byte()];
            payload.extend_from_slice(attributes);
            payload.extend_from_slice(&rewritten.text);
            query.body = Body::Payload(payload);
        }
        Ok(Understood::Query(query))
    }

    /// The text of a query in which something is put in, if anything is.
    async fn rewritten_query(&self, query: &Query<'_>, text: &[u8]) -> Option<Rewritten> {
        let statement = &*query.statement;
        // A definition asks its questions each time that it is used; KILL CONNECTION_ID() is for the connection that runs it,
        // and that id, put in here, would be another session's there.
        if statement.kind == Kind::Kill || statement.kind == Kind::Definition && statement.parts > 1 {
            return None;
        }
        // It fails as a whole, and the server's error quotes it.
        if statement.parts > 1 && !self.who.identity.key.capabilities.contains(Capabilities::MULTI_STATEMENTS) {
            return None;
        }
        // Beside other statements a KILL goes to the server, which knows its own ids.
        let kills = statement.effects.iter().any(|effect| matches!(effect, Effect::Kill { .. }));
        if statement.asks.contains(Asks::DIAGNOSTICS)
            && !kills
            && let Some(text) = self.diagnostics_as_set(statement, text)
        {
            query.sets_diagnostics.set(true);
            return Some(Rewritten { text, renames: false });
        }
        let asks = if kills { statement.asks - Asks::CONNECTION_ID } else { statement.asks };
        let asks_gtid = self.belief.asks_last_gtid(asks, text);
        // A query that goes ahead for FOUND_ROWS() changes ROW_COUNT() on a connection that is kept.
        let kept = self.here.held.is_some() && !self.belief.gives_found_rows_where_kept(query);
        self.rewritten_where_it_runs(statement, text, asks, kept, asks_gtid).await
    }

    /// [`Session::rewritten`] of a text, or of the query of a CREATE TABLE … SELECT: it runs once, while the definition before
    /// it, such as a default, is used for each row of any session.
    async fn rewritten_where_it_runs(
        &self,
        statement: &Statement,
        text: &[u8],
        asks: Asks,
        kept: bool,
        asks_gtid: bool,
    ) -> Option<Rewritten> {
        if statement.kind != Kind::Definition {
            return self.rewritten_long(text, asks, kept, asks_gtid).await;
        }
        let (definition, query) = text.split_at(sql::rewrite::query_of_table(text, &self.belief.facts().dialect)?);
        let rewritten = self.rewritten_long(query, asks, kept, asks_gtid).await?;
        // The names of its columns are those of the table.
        (!rewritten.renames).then(|| Rewritten { text: [definition, &rewritten.text].concat(), renames: false })
    }

    /// [`Session::rewritten`] of a text that may be long.
    async fn rewritten_long(&self, text: &[u8], asks: Asks, kept: bool, asks_gtid: bool) -> Option<Rewritten> {
        if text.len() <= LONG_TEXT_BYTES {
            return self.rewritten(text, asks, kept, asks_gtid);
        }
        let put_in = self.own_values(text, asks, kept, asks_gtid)?;
        self.put_into_long_text(put_in, text).await
    }

    /// The text with what only Sqluice knows put in: the id that the client knows its connection by, and what the last
    /// statement left, when the connection that ran it may serve another session by now. `kept` says that the session keeps one,
    /// `asks_gtid` that `@@last_gtid` is put in.
    pub(super) fn rewritten(&self, text: &[u8], asks: Asks, kept: bool, asks_gtid: bool) -> Option<Rewritten> {
        self.own_values(text, asks, kept, asks_gtid)?.put_into(text, &self.belief.facts().dialect)
    }

    fn own_values(&self, text: &[u8], asks: Asks, kept: bool, asks_gtid: bool) -> Option<PutIn> {
        let asks_variables = asks.contains(Asks::SYSTEM_VARIABLES);
        let asks_tracked = asks_variables && super::tracking::is_named_in(text);
        let packet_max = if asks_variables { self.belief.packet_limit_to_show(text) } else { None };
        if !asks_tracked
            && packet_max.is_none()
            && !asks_gtid
            && !asks.intersects(Asks::CONNECTION_ID | Asks::ROW_COUNT | Asks::FOUND_ROWS)
        {
            return None;
        }
        let tracked = self.belief.tracking.variables_as_shown(self.belief.is_mariadb());
        let last_gtid = asks_gtid.then(|| self.belief.past.last_gtid.as_deref().unwrap_or_default().to_owned());
        let mut known: Vec<OwnValue<'static>> = packet_max.map(OwnValue::PacketMax).into_iter().collect();
        // Compared with what a server lists, its own id is the right one.
        if asks.contains(Asks::CONNECTION_ID) && !asks.contains(Asks::SERVER_IDS) {
            known.push(OwnValue::ConnectionId(self.own_id()));
        }
        // A connection that is kept knows better, unless it was asked something since, the session was counted elsewhere, or
        // more of its past may have to go ahead of the statement.
        let elsewhere = !kept || asks.intersects(Asks::DIAGNOSTICS | Asks::LAST_INSERT_ID);
        if asks.contains(Asks::ROW_COUNT) && (elsewhere || self.belief.past.row_count_is_here) {
            known.push(OwnValue::RowCount(self.belief.past.row_count));
        }
        let sure = !kept || !self.belief.past.found_rows_unsure;
        if asks.contains(Asks::FOUND_ROWS) && sure && (elsewhere || self.belief.past.found_rows_are_here) {
            known.push(OwnValue::FoundRows(self.belief.past.found_rows.unwrap_or(0)));
        }
        Some(PutIn { tracked: tracked.to_string(), last_gtid, known })
    }

    fn prepare_limits(&self) -> PrepareLimits {
        let of_servers = || self.here.cluster.catalog().globals.get("max_prepared_stmt_count")?.parse().ok();
        PrepareLimits {
            statements_max: of_servers().unwrap_or(STATEMENTS_MAX),
            session_bytes_max: self.env.listener.settings.load().prepared_memory_max,
            all_bytes_max: self.env.worker.shared.config.load().proxy.prepared_memory_max,
        }
    }

    async fn understand_prepare<'r>(
        &mut self,
        request: &'r Request,
        text: &[u8],
    ) -> Result<Understood<'r>, SessionEnd> {
        let limits = self.prepare_limits();
        if let Some(refusal) =
            self.belief.statements.refusal(text.len(), limits, &self.env.worker.shared.prepared_bytes)
        {
            let answered = self.answer_error(request, &refusal);
            return Ok(Understood::answered(request, Command::StmtPrepare, answered));
        }
        let query = |statement| Query::new(request, Command::StmtPrepare, statement, Body::AsCame, Expect::Prepared);
        let mut query = if text.len() > LONG_TEXT_BYTES {
            let (statement, long) = Box::pin(self.read_long_text(text, 1)).await;
            query(statement).with_long_text(long)
        } else {
            query(self.classify(text)).with_text_at(1, self.belief.facts().dialect)
        };
        let asks = query.statement.asks & (Asks::CONNECTION_ID | Asks::SERVER_IDS | Asks::SYSTEM_VARIABLES);
        // With the client's tags each trace would prepare a statement of its own.
        let text = sql::without_tags(text);
        // A text whose columns would have other names is put right for each execution.
        let rewritten = self.rewritten_where_it_runs(&query.statement, text, asks, false, false).await;
        let rewritten = rewritten.filter(|rewritten| !(rewritten.renames && query.statement.kind == Kind::Select));
        let text = rewritten.map_or(Arc::from(text), |rewritten| Arc::from(rewritten.text));
        let key = StatementKey { text, context: self.belief.state.prepare_context() };
        query.body = Body::Prepare(key);
        Ok(Understood::Query(query))
    }

    fn understand_statement<'r>(
        &mut self,
        request: &'r Request,
        command: Command,
        arguments: &[u8],
    ) -> Result<Understood<'r>, SessionEnd> {
        let (id, is_mariadb) = (statement_id(arguments), self.belief.is_mariadb());
        let Some(known) = id.and_then(|id| self.belief.statements.find_mut(id)) else {
            // COM_STMT_SEND_LONG_DATA has no reply, not even an error: the execution will tell.
            let answered = match command {
                Command::StmtSendLongData => Answered::Nothing,
                _ => self.answer_unknown_statement(request, id, command),
            };
            return Ok(Understood::answered(request, command, answered));
        };
        if command == Command::StmtSendLongData && known.refuse_long_data(arguments, is_mariadb) {
            return Ok(Understood::answered(request, command, Answered::Nothing));
        }
        if command == Command::StmtExecute
            && let Some(refusal) = known.refuses()
        {
            let answered = self.answer_error_behind(request, &refusal);
            return Ok(Understood::answered(request, command, answered));
        }
        let asks = asks_for_cursor(arguments);
        let opens_cursor = command == Command::StmtExecute
            && match known.prepared.statement.kind {
                // A procedure sends its results at once, whether or not a cursor was asked for.
                Kind::Call => false,
                // MySQL's DO opens a cursor where one is asked for, and ends by an OK alone where its rows would stay in one.
                Kind::Do => asks,
                _ => asks || known.rows_stay,
            };
        let (id, prepared) = (known.id, known.prepared.clone());
        let statement = prepared.statement.clone();
        let asks_messages = statement.asks.contains(Asks::DIAGNOSTICS);
        if command == Command::StmtExecute
            && !opens_cursor
            && asks_messages
            && self.answer_messages(&prepared.key.text, true)
        {
            let query = Query::new(request, command, statement, Body::Execute(id), Expect::Results);
            return Ok(Understood::Answered(Box::new(query.of_prepared(prepared)), Answered::Ok));
        }
        let (body, expect) = match command {
            Command::StmtExecute if opens_cursor => (Body::Execute(id), Expect::Cursor),
            Command::StmtExecute | Command::StmtBulkExecute => (Body::Execute(id), Expect::Results),
            Command::StmtFetch => (Body::OfStatement(id), Expect::Rows),
            _ => (Body::OfStatement(id), Expect::Nothing),
        };
        if command == Command::StmtFetch && !self.belief.pins.has_cursor(id) {
            let end = if self.belief.is_mariadb() { "" } else { "." };
            let message = format!("The statement ({}) has no open cursor{end}", id);
            let refusal = Refusal::like_server(errno::ER_STMT_HAS_NO_OPEN_CURSOR, b"HY000", message);
            let answered = self.answer_error_behind(request, &refusal);
            return Ok(Understood::answered(request, command, answered));
        }
        let mut query = Query::new(request, command, statement, body, expect).of_prepared(prepared);
        (query.opens_cursor, query.rows_stay) = (opens_cursor, opens_cursor && !asks);
        Ok(Understood::Query(query))
    }

    fn understand_reset_statement<'r>(&mut self, request: &'r Request, arguments: &[u8]) -> Understood<'r> {
        let id = statement_id(arguments);
        let Some(known) = id.and_then(|id| self.belief.statements.find_mut(id)) else {
            let answered = self.answer_unknown_statement(request, id, Command::StmtReset);
            return Understood::answered(request, Command::StmtReset, answered);
        };
        known.refused = None;
        let (id, prepared) = (known.id, known.prepared.clone());
        let statement = prepared.statement.clone();
        let query = Query::new(request, Command::StmtReset, statement, Body::OfStatement(id), Expect::Results);
        let query = query.of_prepared(prepared);
        if !self.belief.pins.has_cursor(id) && !self.belief.pins.has_long_data(id) {
            self.belief.past.answered(0);
            let answered = self.answer_ok(request, 0);
            return Understood::Answered(Box::new(query), answered);
        }
        Understood::Query(query)
    }
}

impl Belief {
    /// Whether a text may read `@@last_gtid`: MariaDB's connections know that of whichever session committed there last.
    pub(super) fn asks_last_gtid(&self, asks: Asks, text: &[u8]) -> bool {
        const NAME: &[u8] = b"last_gtid";
        asks.contains(Asks::SYSTEM_VARIABLES)
            && self.is_mariadb()
            && text.windows(NAME.len()).any(|window| window.eq_ignore_ascii_case(NAME))
    }
}

/// The statement id that stands first in a command about a prepared statement.
pub(super) fn statement_id(arguments: &[u8]) -> Option<u32> {
    arguments.first_chunk().map(|id| u32::from_le_bytes(*id))
}

/// Whether the arguments of COM_STMT_EXECUTE ask for a cursor.
fn asks_for_cursor(arguments: &[u8]) -> bool {
    arguments.get(4).is_some_and(|flags| flags & CURSOR_READ_ONLY != 0)
}

/// A command of administration that servers answer: its meaning, and the form of its reply. `None` for one that no server
/// knows any more.
fn administrative(command: Command, arguments: &[u8], mariadb: bool) -> Option<(Rc<Statement>, Expect)> {
    let primary = |why| plain(Kind::Administration, Access::Primary(why));
    let (statement, expect) = match command {
        Command::InitDb => {
            let mut statement = Statement::clone(&plain(Kind::Use, Access::Primary(Why::SessionChange)));
            statement.effects.push(Effect::Schema(String::from_utf8_lossy(arguments).into_owned()));
            (Rc::new(statement), Expect::Results)
        }
        Command::FieldList => (plain(Kind::Show, Access::Read), Expect::Columns),
        Command::Statistics => (primary(Why::ServerState), Expect::Text),
        Command::ProcessInfo => {
            let mut statement = Statement::clone(&primary(Why::Administration));
            statement.asks = Asks::PROCESSES;
            (Rc::new(statement), Expect::Results)
        }
        Command::Refresh | Command::Debug | Command::RegisterReplica => (primary(Why::Administration), Expect::Results),
        Command::CreateDb | Command::DropDb => (primary(Why::Definition), Expect::Results),
        Command::BinlogDump | Command::BinlogDumpGtid => (primary(Why::Administration), Expect::Nothing),
        _ => return None,
    };
    if mariadb || !may_add_messages(command) {
        return Some((statement, expect));
    }
    let mut asking = Rc::unwrap_or_clone(statement);
    asking.asks |= Asks::DIAGNOSTICS;
    Some((Rc::new(asking), expect))
}

/// Whether a command may add to the messages of the statements before, with MySQL: its error if it fails, and COM_FIELD_LIST
/// at least that it is deprecated.
pub(super) fn may_add_messages(command: Command) -> bool {
    use Command::{CreateDb, Debug, DropDb, FieldList, InitDb, ProcessInfo, Refresh, RegisterReplica};
    matches!(command, InitDb | FieldList | ProcessInfo | Refresh | Debug | RegisterReplica | CreateDb | DropDb)
}

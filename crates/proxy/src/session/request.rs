//! The meaning of a client's command: its statement, its reply, and whether a server is needed at all.

use std::rc::Rc;
use std::sync::Arc;

use sql::rewrite::{Known, Rewritten};
use sql::{Access, Asks, Effect, Kind, Statement, Victim, Why};
use wire::command::{CURSOR_READ_ONLY, Command, MULTI_STATEMENTS_OFF, MULTI_STATEMENTS_ON, query_text_at};
use wire::exchange::Expect;
use wire::{Capabilities, Status, errno};

use super::client::Request;
use super::kill::Kill;
use super::query::{Body, Query, Understood, plain};
use super::statements::{PrepareLimits, STATEMENTS_MAX};
use super::{Identity, Session};
use crate::error::{Refusal, SessionEnd};
use crate::pool::{Key, StatementKey};

fn unknown_command() -> Refusal {
    Refusal::like_server(errno::ER_UNKNOWN_COM_ERROR, b"08S01", "Unknown command")
}

fn unsupported_in_protocol() -> Refusal {
    let message = "This command is not supported in the prepared statement protocol yet".to_owned();
    Refusal::like_server(errno::ER_UNSUPPORTED_PS, b"HY000", message)
}

/// Either family names the function that looked in vain.
fn unknown_statement(id: u32, command: Command, mariadb: bool) -> Refusal {
    let place = match command {
        _ if !mariadb => "mysql_stmt_precheck",
        Command::StmtFetch => "mysqld_stmt_fetch",
        Command::StmtReset => "mysqld_stmt_reset",
        _ => "mysqld_stmt_execute",
    };
    let message = format!("Unknown prepared statement handler ({id}) given to {place}");
    Refusal::like_server(errno::ER_UNKNOWN_STMT_HANDLER, b"HY000", message)
}

impl Session {
    /// Understands a command; answers what needs no server.
    pub(super) async fn understand<'r>(&mut self, request: &'r Request) -> Result<Understood<'r>, SessionEnd> {
        let payload = request.payload();
        let Some((&byte, arguments)) = payload.split_first() else {
            return Ok(self.answer_error(request, &unknown_command()));
        };
        let Some(command) = Command::from_byte(byte) else {
            return Ok(self.answer_error(request, &unknown_command()));
        };
        let primary = |why| plain(Kind::Administration, Access::Primary(why));
        let query =
            |statement, body, expect| Ok(Understood::Query(Query::new(request, command, statement, body, expect)));
        match command {
            Command::Query => self.understand_query(request, arguments).await,
            Command::StmtPrepare => self.understand_prepare(request, arguments),
            Command::StmtBulkExecute if !self.is_mariadb() => Ok(self.answer_error(request, &unknown_command())),
            Command::StmtBulkExecute if !self.client.capabilities.contains(Capabilities::STMT_BULK) => {
                Ok(self.answer_error(request, &unsupported_in_protocol()))
            }
            Command::StmtExecute | Command::StmtBulkExecute | Command::StmtFetch | Command::StmtSendLongData => {
                let understood = self.understand_statement(request, command, arguments)?;
                if let Understood::Query(query) = &understood
                    && query.statement.kind == Kind::Kill
                    && let Some((id, how)) = self.executed_kill(query, arguments)
                {
                    Box::pin(self.kill(request, Some(id), how)).await;
                    return Ok(Understood::Answered);
                }
                Ok(understood)
            }
            Command::StmtReset => self.understand_reset_statement(request, arguments),
            Command::StmtClose => {
                Box::pin(self.close_statement(arguments)).await;
                Ok(Understood::Answered)
            }
            Command::Quit => Err(SessionEnd::ClientLeft),
            Command::Ping => {
                // To a server its OK is one that changed no rows.
                self.past.answered(0);
                let warnings = self.own_messages().unwrap_or(0);
                Ok(self.answer_ok(request, warnings))
            }
            Command::InitDb => {
                let mut statement = (*plain(Kind::Use, Access::Primary(Why::SessionChange))).clone();
                statement.effects.push(Effect::Schema(String::from_utf8_lossy(arguments).into_owned()));
                query(Rc::new(statement), Body::AsCame, Expect::Results)
            }
            Command::FieldList => query(plain(Kind::Show, Access::Read), Body::AsCame, Expect::Columns),
            Command::Statistics => query(primary(Why::ServerState), Body::AsCame, Expect::Text),
            Command::ProcessInfo => {
                let mut statement = (*primary(Why::Administration)).clone();
                statement.asks = Asks::PROCESSES;
                query(Rc::new(statement), Body::AsCame, Expect::Results)
            }
            Command::Refresh | Command::Debug => query(primary(Why::Administration), Body::AsCame, Expect::Results),
            Command::CreateDb | Command::DropDb => query(primary(Why::Definition), Body::AsCame, Expect::Results),
            // MySQL 8.4 was the last to know it.
            Command::ProcessKill if !self.is_mariadb() && self.facts.get().dialect.version >= 90_000 => {
                Ok(self.answer_error(request, &unknown_command()))
            }
            Command::ProcessKill => {
                let id = arguments.first_chunk().map(|id| u64::from(u32::from_le_bytes(*id)));
                Box::pin(self.kill(request, id, Kill::default())).await;
                Ok(Understood::Answered)
            }
            Command::ResetConnection => {
                Box::pin(self.reset(request)).await;
                Ok(Understood::Answered)
            }
            Command::ChangeUser => {
                Box::pin(self.change_user(request)).await?;
                Ok(Understood::Answered)
            }
            Command::SetOption => Ok(self.set_option(request, arguments)),
            Command::BinlogDump | Command::BinlogDumpGtid => {
                query(primary(Why::Administration), Body::AsCame, Expect::Nothing)
            }
            Command::RegisterReplica => query(primary(Why::Administration), Body::AsCame, Expect::Results),
            Command::Shutdown => {
                let refusal = Refusal::not_supported(&format!("{} through a proxy", command.word()));
                Ok(self.answer_error(request, &refusal))
            }
            Command::Sleep
            | Command::Connect
            | Command::Time
            | Command::DelayedInsert
            | Command::TableDump
            | Command::ConnectOut
            | Command::Daemon => Ok(self.answer_error(request, &unknown_command())),
        }
    }

    /// The meaning of the text, read as the servers would read it in the session's state.
    fn classify(&self, text: &[u8]) -> Rc<Statement> {
        self.cluster.classify(text, &self.facts().dialect)
    }

    async fn understand_query<'r>(
        &mut self,
        request: &'r Request,
        arguments: &[u8],
    ) -> Result<Understood<'r>, SessionEnd> {
        let Ok(text_at) = query_text_at(arguments, self.client.capabilities) else {
            let message = "Malformed communication packet.".to_owned();
            return Ok(self.answer_error(request, &Refusal::like_server(errno::ER_MALFORMED_PACKET, b"HY000", message)));
        };
        let (attributes, text) = arguments.split_at(text_at);
        let statement = self.classify(text);
        if statement.kind == Kind::Kill
            && statement.parts == 1
            && let Some(Effect::Kill { query_only, soft, victim }) = statement.effects.first()
        {
            let how = Kill { query_only: *query_only, soft: *soft };
            match victim {
                Victim::User { name, host } => {
                    Box::pin(self.kill_user(request, name.as_deref(), host.as_deref(), how)).await;
                }
                Victim::Connection(id) => {
                    let Some(id) = id.or_else(|| self.id_to_kill(text)) else {
                        // The number that an expression gives is one of ours, which a server would take for one of its own.
                        let refusal = Refusal::not_supported("KILL with an expression that only a server can compute");
                        return Ok(self.answer_error(request, &refusal));
                    };
                    Box::pin(self.kill(request, Some(id), how)).await;
                }
            }
            return Ok(Understood::Answered);
        }
        if statement.asks.is_empty() {
            // As nearly all do: nothing of what a server does not know is in it.
            let query = Query::new(request, Command::Query, statement, Body::AsCame, Expect::Results);
            return Ok(Understood::Query(query.with_text_at(1 + text_at, self.facts().dialect)));
        }
        if statement.asks.contains(Asks::DIAGNOSTICS) && self.answer_messages(text, false) {
            return Ok(Understood::Answered);
        }
        let rewritten = self.rewritten_query(&statement, text);
        let is_late = statement.kind == Kind::Select
            && statement.parts == 1
            && rewritten.as_ref().is_some_and(|rewritten| rewritten.renames);
        let body = rewritten.filter(|_| !is_late).map_or(Body::AsCame, |rewritten| {
            let mut payload = vec![Command::Query.byte()];
            payload.extend_from_slice(attributes);
            payload.extend_from_slice(&rewritten.text);
            Body::Payload(payload)
        });
        let mut query = Query::new(request, Command::Query, statement, body, Expect::Results)
            .with_text_at(1 + text_at, self.facts().dialect);
        query.is_late = is_late;
        Ok(Understood::Query(query))
    }

    /// The text of a query in which something is put in, if anything is.
    fn rewritten_query(&self, statement: &Statement, text: &[u8]) -> Option<Rewritten> {
        if statement.asks.contains(Asks::DIAGNOSTICS)
            && let Some(text) = self.diagnostics_as_set(statement, text)
        {
            return Some(Rewritten { text, renames: false });
        }
        // A definition asks its questions each time that it is used; KILL CONNECTION_ID() is for the connection that runs it,
        // and that id, put in here, would be another session's there.
        if matches!(statement.kind, Kind::Definition | Kind::Kill) {
            return None;
        }
        self.rewritten(text, statement.asks, self.held.is_some())
    }

    /// The id in `KILL CONNECTION_ID()` and `KILL @id`.
    pub(super) fn id_to_kill(&self, text: &[u8]) -> Option<u64> {
        let text = String::from_utf8_lossy(text);
        let text = text.trim().trim_end_matches(';').trim_end();
        let last = text.rsplit(|c: char| c.is_ascii_whitespace()).next()?;
        if last.eq_ignore_ascii_case("CONNECTION_ID()") {
            return Some(u64::from(self.handle.id));
        }
        if let Some(quoted) = last.strip_prefix('\'').or_else(|| last.strip_prefix('"')) {
            // As a server reads a string for a number.
            let end = quoted.find(|c: char| !c.is_ascii_digit()).unwrap_or(quoted.len());
            return Some(quoted[..end].parse().unwrap_or(0));
        }
        let name = last.strip_prefix('@').filter(|name| !name.starts_with('@'))?;
        let literal = self.state.user_variable(&name.trim_matches('`').to_lowercase())?;
        let digits =
            literal.strip_prefix("CAST(").and_then(|cast| cast.strip_suffix(" AS UNSIGNED)")).unwrap_or(literal);
        digits.parse().ok()
    }

    /// The text with what only Sqluice knows put in: the id that the client knows its connection by, and what the last
    /// statement left, when the connection that ran it may serve another session by now. `kept` says that the session keeps one.
    pub(super) fn rewritten(&self, text: &[u8], asks: Asks, kept: bool) -> Option<Rewritten> {
        let asks_variables = asks.contains(Asks::SYSTEM_VARIABLES);
        let asks_tracked = asks_variables && super::tracking::is_named_in(text);
        let packet_max = if asks_variables { self.packet_limit_to_show(text) } else { None };
        if !asks_tracked
            && packet_max.is_none()
            && !asks.intersects(Asks::CONNECTION_ID | Asks::ROW_COUNT | Asks::FOUND_ROWS)
        {
            return None;
        }
        let mut known = vec![Known::TrackedVariables(self.wish.variables())];
        known.extend(packet_max.map(Known::PacketMax));
        // Compared with what a server lists, its own id is the right one.
        if asks.contains(Asks::CONNECTION_ID) && !asks.contains(Asks::SERVER_IDS) {
            known.push(Known::ConnectionId(self.own_id()));
        }
        // A connection that is kept knows better, unless it was asked something since, the session was counted elsewhere, or
        // more of its past may have to go ahead of the statement.
        let elsewhere = !kept || asks.intersects(Asks::DIAGNOSTICS | Asks::LAST_INSERT_ID);
        if asks.contains(Asks::ROW_COUNT) && (elsewhere || self.past.row_count_is_here) {
            known.push(Known::RowCount(self.past.row_count));
        }
        let sure = !kept || !self.past.found_rows_unsure;
        if asks.contains(Asks::FOUND_ROWS) && sure && (elsewhere || self.past.found_rows_are_here) {
            known.push(Known::FoundRows(self.past.found_rows.unwrap_or(0)));
        }
        sql::rewrite::functions(text, &self.facts().dialect, &known)
    }

    fn prepare_limits(&self) -> PrepareLimits {
        let of_servers = || self.cluster.catalog().globals.get("max_prepared_stmt_count")?.parse().ok();
        PrepareLimits {
            statements_max: of_servers().unwrap_or(STATEMENTS_MAX),
            session_bytes_max: self.listener.settings.load().prepared_memory_max,
            all_bytes_max: self.worker.shared.config.load().proxy.prepared_memory_max,
        }
    }

    fn understand_prepare<'r>(&mut self, request: &'r Request, text: &[u8]) -> Result<Understood<'r>, SessionEnd> {
        let limits = self.prepare_limits();
        if let Some(refusal) = self.statements.refusal(text.len(), limits, &self.worker.shared.prepared) {
            return Ok(self.answer_error(request, &refusal));
        }
        let statement = self.classify(text);
        let asks = statement.asks & (Asks::CONNECTION_ID | Asks::SERVER_IDS | Asks::SYSTEM_VARIABLES);
        // A text whose columns would have other names is put right for each execution.
        let rewritten = self.rewritten(text, asks, false);
        let rewritten = rewritten.filter(|rewritten| !(rewritten.renames && statement.kind == Kind::Select));
        let text = rewritten.map_or(Arc::from(text), |rewritten| Arc::from(rewritten.text));
        let key = StatementKey { text, context: self.state.prepare_context() };
        let query = Query::new(request, Command::StmtPrepare, statement, Body::Prepare(key), Expect::Prepared);
        Ok(Understood::Query(query.with_text_at(1, self.facts().dialect)))
    }

    fn understand_statement<'r>(
        &mut self,
        request: &'r Request,
        command: Command,
        arguments: &[u8],
    ) -> Result<Understood<'r>, SessionEnd> {
        let id = statement_id(arguments);
        let Some(known) = id.and_then(|id| self.statements.find(id)) else {
            // COM_STMT_SEND_LONG_DATA has no reply, not even an error: the execution will tell.
            if command != Command::StmtSendLongData {
                return Ok(self.answer_unknown_statement(request, id, command));
            }
            return Ok(Understood::Answered);
        };
        // A procedure sends its results at once, whether or not a cursor was asked for.
        let opens_cursor = command == Command::StmtExecute
            && known.prepared.statement.kind != Kind::Call
            && arguments.get(4).is_some_and(|flags| flags & CURSOR_READ_ONLY != 0);
        let (id, prepared) = (known.id, known.prepared.clone());
        let statement = prepared.statement.clone();
        let asks_messages = statement.asks.contains(Asks::DIAGNOSTICS);
        if command == Command::StmtExecute
            && !opens_cursor
            && asks_messages
            && self.answer_messages(&prepared.key.text, true)
        {
            return Ok(Understood::Answered);
        }
        let (body, expect) = match command {
            Command::StmtExecute if opens_cursor => (Body::Execute(id), Expect::Cursor),
            Command::StmtExecute | Command::StmtBulkExecute => (Body::Execute(id), Expect::Results),
            Command::StmtFetch => (Body::OfStatement(id), Expect::Rows),
            _ => (Body::OfStatement(id), Expect::Nothing),
        };
        if command == Command::StmtFetch && !self.pins.has_cursor(id) {
            let end = if self.is_mariadb() { "" } else { "." };
            let message = format!("The statement ({}) has no open cursor{end}", id);
            return Ok(
                self.answer_error(request, &Refusal::like_server(errno::ER_STMT_HAS_NO_OPEN_CURSOR, b"HY000", message))
            );
        }
        let mut query = Query::new(request, command, statement, body, expect).of_prepared(prepared);
        query.opens_cursor = opens_cursor;
        Ok(Understood::Query(query))
    }

    fn understand_reset_statement<'r>(
        &mut self,
        request: &'r Request,
        arguments: &[u8],
    ) -> Result<Understood<'r>, SessionEnd> {
        let id = statement_id(arguments);
        let Some(known) = id.and_then(|id| self.statements.find(id)) else {
            return Ok(self.answer_unknown_statement(request, id, Command::StmtReset));
        };
        if !self.pins.has_cursor(known.id) && !self.pins.has_long_data(known.id) {
            self.past.answered(0);
            return Ok(self.answer_ok(request, 0));
        }
        let (prepared, body) = (known.prepared.clone(), Body::OfStatement(known.id));
        let query = Query::new(request, Command::StmtReset, prepared.statement.clone(), body, Expect::Results);
        Ok(Understood::Query(query.of_prepared(prepared)))
    }

    fn set_option<'r>(&mut self, request: &'r Request, arguments: &[u8]) -> Understood<'r> {
        let option = arguments.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let on = match option {
            Some(MULTI_STATEMENTS_ON) => true,
            Some(MULTI_STATEMENTS_OFF) => false,
            _ => return self.answer_error(request, &unknown_command()),
        };
        if self.held.is_some() {
            // The kept connection must hear it too; connections of the pool are chosen by it.
            let statement = plain(Kind::Set, Access::Primary(Why::SessionChange));
            self.set_multi_statements(on);
            let (body, expect) = (Body::AsCame, Expect::Results);
            return Understood::Query(Query::new(request, Command::SetOption, statement, body, expect));
        }
        self.set_multi_statements(on);
        let warnings = self.own_messages().unwrap_or(0);
        self.past.answered(-1);
        self.client.put_eof(request.sequence.wrapping_add(1), self.status, warnings);
        self.worker.stats.local_answers.add_one();
        Understood::Answered
    }

    fn set_multi_statements(&mut self, on: bool) {
        let Identity { key, .. } = &mut self.identity;
        let mut changed = Key::clone(key);
        changed.capabilities.set(Capabilities::MULTI_STATEMENTS, on);
        *key = Arc::new(changed);
    }

    pub(super) fn answer_ok(&mut self, request: &Request, warnings: u16) -> Understood<'static> {
        let status = self.status - Status::SESSION_STATE_CHANGED;
        self.client.put_ok(request.sequence.wrapping_add(1), status, warnings);
        self.worker.stats.local_answers.add_one();
        Understood::Answered
    }

    pub(super) fn answer_error(&mut self, request: &Request, refusal: &Refusal) -> Understood<'static> {
        self.client.put_error(request.sequence.wrapping_add(1), refusal);
        self.worker.stats.own_errors.add_one();
        // SHOW WARNINGS may ask for it.
        self.past.error = Some(refusal.clone());
        (self.past.signals, self.past.signal) = (false, None);
        (self.past.warnings, self.past.warning_count, self.past.own_messages) = (None, 0, 1);
        self.past.answered(-1);
        self.past.messages = self.past.messages.wrapping_add(1);
        Understood::Answered
    }

    /// A command about a statement that the client has not prepared. MySQL puts the error behind the messages that are there.
    fn answer_unknown_statement(
        &mut self,
        request: &Request,
        id: Option<u32>,
        command: Command,
    ) -> Understood<'static> {
        let refusal = unknown_statement(id.unwrap_or(0), command, self.is_mariadb());
        let before = self.past.warnings.take().filter(|_| !self.is_mariadb());
        let answered = self.answer_error(request, &refusal);
        if let Some(before) = before {
            let code = refusal.code.to_string();
            let row = [&b"Error"[..], code.as_bytes(), refusal.message.as_bytes()];
            self.past.warnings = super::read_back::with_row(before, &row);
        }
        answered
    }
}

/// The statement id that stands first in a command about a prepared statement.
pub(super) fn statement_id(arguments: &[u8]) -> Option<u32> {
    arguments.first_chunk().map(|id| u32::from_le_bytes(*id))
}

//! Commands about prepared statements: COM_STMT_PREPARE, its executions, and what belongs to them.

use std::rc::Rc;
use std::sync::Arc;

use sql::{Asks, Kind, Statement, Verdict};
use wire::command::{CURSOR_READ_ONLY, Command};
use wire::errno;
use wire::exchange::Expect;

use crate::error::{Refusal, SessionEnd};
use crate::pool::StatementKey;
use crate::session::Session;
use crate::session::client::Request;
use crate::session::local::Answered;
use crate::session::long_text::LONG_TEXT_BYTES;
use crate::session::query::{Body, Query, Understood};
use crate::session::statements::{PrepareLimits, PreparedText, STATEMENTS_MAX, statement_id};

impl Session {
    /// The execution of a prepared statement that asks for nothing but a server.
    #[inline]
    pub(super) fn plain_execution<'r>(&mut self, request: &'r Request, arguments: &[u8]) -> Option<Query<'r>> {
        let known = self.belief.statements.named_in(arguments)?;
        let (id, prepared) = (known.id, &known.prepared);
        let statement = &prepared.statement;
        if known.refused.is_some()
            || known.rows_stay
            || statement.asks.intersects(Asks::DIAGNOSTICS | Asks::STORED_FUNCTIONS)
            || matches!(statement.kind, Kind::Kill | Kind::Call)
            || asks_for_cursor(arguments)
        {
            return None;
        }
        let query = Query::new(request, Command::StmtExecute, statement.clone(), Body::Execute(id), Expect::Results);
        Some(query.of_prepared(prepared.clone()))
    }

    fn prepare_limits(&self) -> PrepareLimits {
        let of_servers = || self.here.cluster.catalog().globals.get("max_prepared_stmt_count")?.parse().ok();
        PrepareLimits {
            statements_max: of_servers().unwrap_or(STATEMENTS_MAX),
            session_bytes_max: self.env.listener.settings.load().prepared_memory_max,
            all_bytes_max: self.env.worker.shared.config.load().proxy.prepared_memory_max,
        }
    }

    pub(super) async fn understand_prepare<'r>(
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

    pub(super) fn understand_statement<'r>(
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
                _ => asks || known.keeps_rows(request, self.client.capabilities),
            };
        let (id, prepared) = (known.id, known.prepared.clone());
        let statement = self.with_routines_of_now(&prepared);
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

    /// The meaning of a prepared statement. Its routines may be others by now than those that it was prepared with.
    fn with_routines_of_now(&self, prepared: &PreparedText) -> Rc<Statement> {
        let known = &prepared.statement;
        let runs_routine = known.kind == Kind::Call || known.asks.contains(Asks::STORED_FUNCTIONS);
        if !runs_routine || prepared.key.text.len() > LONG_TEXT_BYTES {
            return known.clone();
        }
        let now = self.here.cluster.classify(&prepared.key.text, &prepared.dialect);
        let access = if known.access.only_reads() { now.access } else { known.access };
        let asks = known.asks | now.asks;
        if access == known.access && asks == known.asks && now.effects == known.effects {
            return known.clone();
        }
        let (effects, insert_id_unsure) = (now.effects.clone(), known.insert_id_unsure || now.insert_id_unsure);
        let verdict = Verdict::default();
        Rc::new(Statement { access, asks, effects, insert_id_unsure, verdict, ..Statement::clone(known) })
    }

    pub(super) fn understand_reset_statement<'r>(&mut self, request: &'r Request, arguments: &[u8]) -> Understood<'r> {
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

/// Whether the arguments of COM_STMT_EXECUTE ask for a cursor.
fn asks_for_cursor(arguments: &[u8]) -> bool {
    arguments.get(4).is_some_and(|flags| flags & CURSOR_READ_ONLY != 0)
}

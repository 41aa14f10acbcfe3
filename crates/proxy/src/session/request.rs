//! The meaning of a client's command: its statement, its reply, and whether a server is needed at all.

mod own_values;
mod prepared;

use std::rc::Rc;

use sql::{Access, Asks, Effect, Kind, Statement, Why};
use wire::command::{Command, query_text_at};
use wire::exchange::Expect;
use wire::{Capabilities, errno};

use super::Session;
use super::client::Request;
use super::diagnostics::learned::may_add_messages;
use super::local::{Answered, malformed};
use super::long_text::{LONG_TEXT_BYTES, query_of};
use super::query::{Body, Query, Understood, plain};
use crate::error::{Refusal, SessionEnd};

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
        if !statement.asks.is_empty() || matches!(statement.kind, Kind::Kill | Kind::PreparedText) {
            return Err(Some(statement));
        }
        let query = Query::new(request, Command::Query, statement, Body::AsCame, Expect::Results);
        Ok(query.with_text_at(1 + text_at, self.belief.facts().dialect))
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
            _ if arguments.len() < bytes_min(command, self.belief.is_mariadb()) => {
                self.read_messages_ahead().await?;
                let answered = self.answer_cut_command(request);
                Ok(Understood::answered(request, command, answered))
            }
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
        if self.here.held.is_none() || self.belief.statements.named_in(arguments).is_some() {
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
            let answered = self.answer_error(request, &malformed(false));
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
            query.body = query_of(attributes, rewritten.text).await;
        }
        Ok(Understood::Query(query))
    }
}

/// How many bytes a server wants behind the first one of a command (seen with MariaDB 10.11 and MySQL 9.7).
fn bytes_min(command: Command, mariadb: bool) -> usize {
    match command {
        Command::StmtExecute => 9,
        // MariaDB takes zeros for what is not there.
        _ if mariadb => 0,
        Command::StmtFetch => 8,
        Command::StmtSendLongData => 6,
        Command::StmtReset | Command::StmtClose => 4,
        Command::SetOption => 2,
        _ => 0,
    }
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

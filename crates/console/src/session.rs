//! The life of a connection: login, and one command after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::Stream;
use net::packets::{self, ReadError};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use wire::Capabilities;
use wire::command::{Command, query_text_at};
use wire::errno;

use crate::cells::Value;
use crate::engine::Run;
use crate::error::SqlError;
use crate::functions::Asker;
use crate::keys::Role;
use crate::kill;
use crate::listener::{Seat, Seats};
use crate::login::LoggedIn;
use crate::orders;
use crate::plan::{Plan, Query, plan, schema_named};
use crate::prepared::{Execution, PreparedTexts};
use crate::replies;
use crate::sources::Shared;
use crate::variables::STATEMENT_BYTES_MAX;
use crate::views;
use crate::views::gather::Gathered;

/// Statements that run at a time, of all sessions; others wait for their turn.
pub(crate) const STATEMENTS_MAX: usize = 4;
/// Longest silence of a client.
const SILENCE_MAX: Duration = Duration::from_secs(8 * 3600);
/// Longest time for writing a reply to a client that reads slowly.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// Statements wait that long for their turn.
const TURN_WAIT: Duration = Duration::from_secs(10);

/// A client that has logged in.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) seats: Arc<Seats>,
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) role: Role,
    /// Its address.
    pub(crate) client: String,
    pub(crate) seat: Seat,
    stream: Stream,
    schema: &'static str,
    capabilities: Capabilities,
    prepared: PreparedTexts,
}

/// The fate of the session after a command.
enum Next {
    Command,
    End,
}

impl Session {
    pub(crate) fn new(
        logged_in: LoggedIn,
        shared: Arc<Shared>,
        seats: Arc<Seats>,
        turns: Arc<Semaphore>,
        client: String,
    ) -> Session {
        let LoggedIn { stream, seat, role, schema, capabilities } = logged_in;
        let prepared = PreparedTexts::default();
        Session { shared, seats, turns, role, client, seat, stream, schema, capabilities, prepared }
    }

    /// Answers commands until the client leaves, is silent for too long, or is killed.
    pub(crate) async fn serve(mut self) {
        let ended = self.seat.ended();
        tokio::pin!(ended);
        loop {
            let command = tokio::select! {
                command = timeout(SILENCE_MAX, packets::read(&mut self.stream, STATEMENT_BYTES_MAX + 1)) => command,
                () = &mut ended => return,
            };
            let mut out = Vec::new();
            let next = match command {
                Ok(Ok(packet)) => self.answer(&packet.payload, &mut out).await,
                Ok(Err(ReadError::TooLong { .. })) => {
                    let text = format!("a statement has at most {STATEMENT_BYTES_MAX} bytes (max_allowed_packet)");
                    replies::error(&SqlError::new(errno::ER_NET_PACKET_TOO_LARGE, text), &mut out);
                    Next::End
                }
                Ok(Err(_)) | Err(_) => return,
            };
            let written = async {
                self.stream.write_all(&out).await?;
                self.stream.flush().await
            };
            if !matches!(timeout(WRITE_MAX, written).await, Ok(Ok(()))) || matches!(next, Next::End) {
                return;
            }
        }
    }

    /// Appends the reply to a command.
    async fn answer(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Next {
        let (byte, arguments) = payload.split_first().unwrap_or((&0xff, &[]));
        let answered = match Command::from_byte(*byte) {
            Some(Command::Quit) => return Next::End,
            Some(Command::Ping) => {
                replies::ok(out);
                Ok(())
            }
            Some(Command::ResetConnection) => {
                self.schema = views::SCHEMAS[0];
                self.prepared = PreparedTexts::default();
                replies::ok(out);
                Ok(())
            }
            Some(Command::SetOption) => {
                replies::only_eof(out);
                Ok(())
            }
            Some(Command::InitDb) => text(arguments).and_then(schema_named).map(|schema| {
                self.schema = schema;
                replies::ok(out);
            }),
            Some(Command::FieldList) => self.fields(arguments, out),
            Some(Command::Query) => self.query(arguments, out).await,
            // They have no reply.
            Some(Command::StmtClose) => {
                self.prepared.close(arguments);
                return Next::Command;
            }
            Some(Command::StmtSendLongData) => {
                self.prepared.note_long_data(arguments);
                return Next::Command;
            }
            Some(Command::StmtPrepare) => self.prepare(arguments, out).await,
            Some(Command::StmtExecute) => self.execute(arguments, out).await,
            Some(Command::StmtReset) => self.prepared.reset(arguments).map(|()| replies::ok(out)),
            Some(command) => Err(unknown(command.word())),
            None => Err(unknown("of this number")),
        };
        if let Err(error) = answered {
            replies::error(&error, out);
        }
        Next::Command
    }

    /// COM_FIELD_LIST, which the mysql client sends to complete names.
    fn fields(&self, arguments: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let name = text(arguments.split(|byte| *byte == 0).next().unwrap_or_default())?;
        let view = views::find(self.schema, name).or_else(|| views::find("main", name));
        let view = view.ok_or_else(|| SqlError::no_table(name))?;
        replies::fields(view.columns, out);
        Ok(())
    }

    async fn query(&mut self, arguments: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let at = query_text_at(arguments, self.capabilities).map_err(|error| SqlError::syntax(error.to_string()))?;
        let statement = text(arguments.get(at..).unwrap_or_default())?;
        self.run(statement, None, out).await
    }

    /// COM_STMT_PREPARE.
    async fn prepare(&mut self, arguments: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let statement = text(arguments)?;
        let (columns, parameters) = match plan(statement, self.schema)? {
            Plan::Rows(query) => self.in_turn(query, None, Run::describe).await?,
            Plan::Nothing | Plan::Use(_) | Plan::Kill(_) | Plan::Order(_) | Plan::Help => (Vec::new(), 0),
        };
        let parameters = u16::try_from(parameters).map_err(|_| SqlError::syntax("too many parameters"))?;
        self.prepared.prepare(statement, parameters, &columns, out)
    }

    /// COM_STMT_EXECUTE.
    async fn execute(&mut self, arguments: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let Execution { text, parameters } = self.prepared.execution(arguments, self.capabilities)?;
        self.run(&text, Some(parameters), out).await
    }

    /// Runs a statement; one with parameters was prepared, and its rows are binary.
    async fn run(
        &mut self,
        statement: &str,
        parameters: Option<Vec<Value>>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        match plan(statement, self.schema)? {
            Plan::Nothing => replies::ok(out),
            Plan::Use(schema) => {
                self.schema = schema;
                replies::ok(out);
            }
            Plan::Kill(order) => {
                kill::carry_out(self, order).await?;
                replies::ok(out);
            }
            Plan::Order(order) => orders::carry_out(self, &order).await?.write(out, parameters.is_some()),
            Plan::Help => orders::help().write(out, parameters.is_some()),
            Plan::Rows(query) => {
                let is_binary = parameters.is_some();
                let rows = self.in_turn(query, Some(parameters.unwrap_or_default()), Run::run).await?;
                rows.write(out, is_binary);
            }
        }
        Ok(())
    }

    /// Does something with a query that blocks, when it is its turn. Without parameters it is not run, and needs no rows.
    async fn in_turn<T: Send + 'static>(
        &self,
        query: Query,
        parameters: Option<Vec<Value>>,
        work: fn(Run) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let busy =
            || SqlError::new(errno::ER_UNKNOWN_ERROR, format!("{STATEMENTS_MAX} statements run already: try again"));
        let turn = timeout(TURN_WAIT, self.turns.clone().acquire_owned()).await.map_err(|_| busy())?;
        self.seat.is_cancelled.store(false, Ordering::Relaxed);
        let gathered = match parameters {
            Some(_) => Gathered::of(&self.shared, &query.views).await,
            None => Gathered::nothing(&self.shared),
        };
        let parameters = parameters.unwrap_or_default();
        let user = format!("{}@{}", self.role, self.client.rsplit_once(':').map_or("localhost", |(host, _)| host));
        let asker = Asker { schema: self.schema, user, id: self.seat.id };
        let run = Run { query, parameters, gathered, asker, is_cancelled: self.seat.is_cancelled.clone() };
        let ran = tokio::task::spawn_blocking(move || {
            // The turn is over with the statement, also when the client has gone.
            let _turn = turn;
            work(run)
        });
        ran.await.map_err(|error| SqlError::new(errno::ER_UNKNOWN_ERROR, error.to_string()))?
    }
}

fn unknown(command: &str) -> SqlError {
    SqlError::new(errno::ER_UNKNOWN_COM_ERROR, format!("the SQL console has no command {command}"))
}

fn text(bytes: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(bytes).map_err(|_| SqlError::syntax("a statement is UTF-8 text"))
}

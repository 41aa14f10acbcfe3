//! Answers of Sqluice's own: commands that need no server.

use std::sync::Arc;

use sql::{Access, Kind, Why};
use wire::command::{Command, MULTI_STATEMENTS_OFF, MULTI_STATEMENTS_ON};
use wire::exchange::Expect;
use wire::{Capabilities, Status, errno, reply};

use super::client::Request;
use super::kill::Kill;
use super::query::{Body, Query, Understood, plain};
use super::who::Who;
use super::{Identity, Session};
use crate::error::{Refusal, SessionEnd};
use crate::pool::Key;

/// The answer of Sqluice's own to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// A result, or an OK.
    Ok,
    /// An error with this code.
    Error(u16),
    /// The command has no reply.
    Nothing,
}

/// Servers answer so to a command that they do not know.
fn unknown_command() -> Refusal {
    Refusal::like_server(errno::ER_UNKNOWN_COM_ERROR, b"08S01", "Unknown command")
}

/// Servers answer so to a packet that they cannot take apart.
pub(super) fn malformed(mariadb: bool) -> Refusal {
    let end = if mariadb { "" } else { "." };
    Refusal::like_server(errno::ER_MALFORMED_PACKET, b"HY000", format!("Malformed communication packet{end}"))
}

/// Each family names the function that found nothing.
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
    /// Answers a command that needs no server, and is about the session.
    pub(super) async fn answer_command(
        &mut self,
        request: &Request,
        command: Command,
        arguments: &[u8],
    ) -> Result<Answered, SessionEnd> {
        match command {
            Command::Ping => {
                // To a server its OK is one that changed no rows.
                self.belief.past.answered(0);
                let warnings = self.belief.own_messages().unwrap_or(0);
                Ok(self.answer_ok(request, warnings))
            }
            Command::StmtClose => {
                Box::pin(self.close_statement(arguments)).await;
                Ok(Answered::Nothing)
            }
            // MySQL 8.4 was the last to know it.
            Command::ProcessKill if !self.belief.is_mariadb() && self.belief.facts().dialect.version >= 90_000 => {
                Ok(self.answer_unknown_command(request))
            }
            Command::ProcessKill => {
                let id = arguments.first_chunk().map(|id| u64::from(u32::from_le_bytes(*id)));
                Ok(Box::pin(self.kill(request, id, Kill::default())).await)
            }
            Command::ResetConnection => Box::pin(self.reset(request)).await,
            Command::ChangeUser => Box::pin(self.change_user(request)).await,
            _ => {
                let refusal = Refusal::not_supported(&format!("{} through a proxy", command.word()));
                Ok(self.answer_error(request, &refusal))
            }
        }
    }

    /// COM_SET_OPTION, which a connection that is kept must get, too; connections of the pool are chosen by it.
    pub(super) fn set_option<'r>(&mut self, request: &'r Request, arguments: &[u8]) -> Understood<'r> {
        let statement = plain(Kind::Set, Access::Primary(Why::SessionChange));
        let query = Query::new(request, Command::SetOption, statement, Body::AsCame, Expect::Results);
        let option = arguments.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let on = match option {
            Some(MULTI_STATEMENTS_ON) => true,
            Some(MULTI_STATEMENTS_OFF) => false,
            _ => return Understood::Answered(Box::new(query), self.answer_unknown_command(request)),
        };
        self.who.set_multi_statements(on);
        if self.here.held.is_some() {
            return Understood::Query(query);
        }
        let warnings = self.belief.own_messages().unwrap_or(0);
        self.belief.past.answered(-1);
        self.client.put_eof(request.sequence.wrapping_add(1), self.belief.status, warnings);
        Understood::Answered(Box::new(query), Answered::Ok)
    }

    /// Puts an OK into the client's outbox.
    pub(super) fn answer_ok(&mut self, request: &Request, warnings: u16) -> Answered {
        let status = self.belief.status - Status::SESSION_STATE_CHANGED;
        let (reported, empty_report) = self.belief.tracking.reported_with(&reply::Ok::default());
        let ok = reply::Ok { status, warnings, session_state: &reported, empty_report, ..reply::Ok::default() };
        self.client.put_ok(request.sequence.wrapping_add(1), &ok);
        Answered::Ok
    }

    /// Puts an error of Sqluice's own into the client's outbox; SHOW WARNINGS may ask for it. A command without a reply gets none:
    /// the execution of its statement gets the error.
    pub(super) fn answer_error(&mut self, request: &Request, refusal: &Refusal) -> Answered {
        if self.belief.statements.keep_refusal(request, refusal) {
            return Answered::Nothing;
        }
        self.client.put_error(request.sequence.wrapping_add(1), refusal);
        self.env.worker.stats.own_errors.add_one();
        self.belief.past.refused(refusal);
        Answered::Error(refusal.code)
    }

    /// A command that servers do not know. MySQL counts the messages that are there as its own, too.
    pub(super) fn answer_unknown_command(&mut self, request: &Request) -> Answered {
        let earlier = self.belief.own_messages().unwrap_or(0);
        let answered = self.answer_error_behind(request, &unknown_command());
        self.belief.past.own_messages = earlier.saturating_add(1);
        answered
    }

    /// A command that is too short. MySQL counts as for one that it does not know.
    pub(super) fn answer_cut_command(&mut self, request: &Request) -> Answered {
        let earlier = self.belief.own_messages().unwrap_or(0);
        let answered = self.answer_error_behind(request, &malformed(self.belief.is_mariadb()));
        self.belief.past.own_messages = earlier.saturating_add(1);
        answered
    }

    /// A command about a statement that the client has not prepared.
    pub(super) fn answer_unknown_statement(
        &mut self,
        request: &Request,
        id: Option<u32>,
        command: Command,
    ) -> Answered {
        let refusal = unknown_statement(id.unwrap_or(0), command, self.belief.is_mariadb());
        self.answer_error_behind(request, &refusal)
    }

    /// A command fails before it begins. MySQL puts the error behind the messages that are there.
    pub(super) fn answer_error_behind(&mut self, request: &Request, refusal: &Refusal) -> Answered {
        let is_mysql = !self.belief.is_mariadb();
        let before = self.belief.past.warnings.take().filter(|_| is_mysql);
        let errors = if is_mysql && before.is_none() { self.belief.past.take_errors() } else { Vec::new() };
        let answered = self.answer_error(request, refusal);
        if let Some(before) = before {
            let code = refusal.code.to_string();
            let row = [&b"Error"[..], code.as_bytes(), refusal.message.as_bytes()];
            self.belief.past.warnings = super::diagnostics::read_back::with_row(before, &row);
        }
        self.belief.past.put_ahead(errors);
        answered
    }
}

impl Who {
    pub(super) fn set_multi_statements(&mut self, on: bool) {
        let Identity { key, .. } = &mut self.identity;
        let mut changed = Key::clone(key);
        changed.capabilities.set(Capabilities::MULTI_STATEMENTS, on);
        *key = Arc::new(changed);
    }
}

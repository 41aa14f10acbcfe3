//! What a command is to be: the statement, how it is sent, and what its reply looks like.

use std::rc::Rc;

use sql::{Access, Asks, Effect, FoundRows, Kind, NamedTables, Statement, TransactionStep, Verdict, Why};
use wire::command::Command;
use wire::exchange::Expect;

use crate::pool::StatementKey;

/// A command, understood.
#[derive(Debug)]
pub enum Understood {
    /// It needs a server.
    Query(Query),
    /// Its answer is in the client's outbox, or it has none.
    Answered,
}

/// A command that needs a server.
#[derive(Clone, Debug)]
pub struct Query {
    /// The command.
    pub command: Command,
    /// What it means.
    pub statement: Rc<Statement>,
    /// What is sent.
    pub body: Body,
    /// What the reply looks like.
    pub expect: Expect,
    /// COM_STMT_EXECUTE asks for a cursor.
    pub opens_cursor: bool,
    /// Its text is made when its connection is known: columns would have other names.
    pub is_late: bool,
}

/// What is sent for a command.
#[derive(Clone, Debug)]
pub enum Body {
    /// The packets as they came.
    AsCame,
    /// This payload instead.
    Payload(Vec<u8>),
    /// The client's statement with this id is prepared under this key.
    Prepare(StatementKey),
    /// COM_STMT_EXECUTE of the client's statement with this id.
    Execute(u32),
    /// Another command about the client's statement with this id, which stands first in the payload.
    OfStatement(u32),
}

impl Query {
    pub(super) fn new(command: Command, statement: Rc<Statement>, body: Body, expect: Expect) -> Query {
        Query { command, statement, body, expect, opens_cursor: false, is_late: false }
    }

    /// It prepares a statement.
    pub fn prepares(&self) -> bool {
        matches!(self.body, Body::Prepare(_))
    }

    /// The text was run, so what it says of the session holds.
    pub fn runs_text(&self) -> bool {
        use Command::{InitDb, Query, StmtBulkExecute, StmtExecute};
        matches!(self.command, Query | StmtExecute | StmtBulkExecute | InitDb)
    }

    /// The session keeps its connection behind it: a cursor is opened, or part of a parameter is sent ahead.
    pub fn will_pin(&self) -> bool {
        self.opens_cursor || self.command == Command::StmtSendLongData
    }

    /// The session may be pinned behind it for more than its user variables.
    pub fn may_pin(&self) -> bool {
        let pins = |effect: &Effect| match effect {
            Effect::Variable { name, value } => *value == sql::Value::Unknown || name == "insert_id",
            Effect::TransactionCharacteristics { session, .. } => !session,
            Effect::CreateTemporaryTable(_)
            | Effect::LockTables(_)
            | Effect::Leaves(_)
            | Effect::TakeUserLock(_)
            | Effect::OpenHandler(_)
            | Effect::XaStart
            | Effect::PrepareText { .. }
            | Effect::CountsConnection
            | Effect::Role { .. }
            | Effect::MayChangeSession => true,
            _ => false,
        };
        let begins = matches!(self.statement.transaction, Some(TransactionStep::Begin { .. }));
        self.will_pin() || begins || self.statement.effects.iter().any(pins)
    }

    /// The reply has no end: what follows is for client and server alone.
    pub fn streams(&self) -> bool {
        matches!(self.command, Command::BinlogDump | Command::BinlogDumpGtid)
    }

    /// Running it a second time changes nothing: it reads, prepares, or changes only the session.
    pub fn may_run_twice(&self) -> bool {
        self.prepares()
            || match self.statement.access {
                access if access.only_reads() => true,
                // Behind a SET or USE other statements may follow in the same text.
                Access::Primary(Why::SessionChange) => {
                    matches!(self.statement.kind, Kind::Set | Kind::Use) && self.statement.parts == 1
                }
                _ => false,
            }
    }

    /// It changes rows and nothing else: with autocommit on, a failure leaves nothing of it behind.
    pub fn is_one_write(&self) -> bool {
        let statement = &*self.statement;
        let changes_rows = matches!(statement.kind, Kind::Insert | Kind::Update | Kind::Delete);
        // Of several rows of parameters each is a write of its own.
        changes_rows
            && self.command != Command::StmtBulkExecute
            && statement.parts == 1
            && statement.transaction.is_none()
            && statement.effects.is_empty()
            && !statement.asks.contains(Asks::STORED_FUNCTIONS)
    }

    /// The server closes the connection behind it.
    pub fn ends_session(&self) -> bool {
        use TransactionStep::{Commit, Rollback};
        matches!(self.statement.transaction, Some(Commit { release: true, .. } | Rollback { release: true, .. }))
    }
}

pub(super) fn plain(kind: Kind, access: Access) -> Rc<Statement> {
    let statement = Statement {
        kind,
        access,
        transaction: None,
        effects: Vec::new(),
        asks: Asks::empty(),
        hint: None,
        parts: 1,
        accounts: false,
        insert_id_unsure: false,
        uses_tables: false,
        found_rows: FoundRows::Left,
        digest: 0,
        named: NamedTables::default(),
        verdict: Verdict::default(),
    };
    Rc::new(statement)
}

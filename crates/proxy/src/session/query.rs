//! A query: the statement, the way it is sent, and the form of its reply.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use facts::catalog::Hidden;
use policy::Plan;
use sql::{
    Access, Asks, Dialect, Effect, FoundRows, Kind, NamedTables, Statement, Tables, TransactionStep, Unread, Verdict,
    Why,
};
use stats::digests::CacheSaid;
use wire::command::Command;
use wire::exchange::Expect;

use super::client::Request;
use super::local::Answered;
use super::long_text::{LONG_TEXT_BYTES, LongText};
use super::relay::Texts;
use super::statements::PreparedText;
use crate::pool::StatementKey;

/// The things that are known of a command before it is understood.
#[derive(Debug)]
pub struct Received {
    /// When it came; `None` while no query becomes an event.
    pub arrived: Option<Arrived>,
    /// The meaning of its text, if it was read already.
    pub statement: Option<Rc<Statement>>,
}

/// A command, understood.
#[derive(Debug)]
pub enum Understood<'r> {
    /// It needs a server.
    Query(Query<'r>),
    /// Sqluice has answered it: the answer is in the client's outbox, if it has one.
    Answered(Box<Query<'r>>, Answered),
    /// The client sent no command that any server knows; an error is in its outbox.
    NoCommand,
}

impl<'r> Understood<'r> {
    /// A command without a text, which Sqluice has answered.
    pub(super) fn answered(request: &'r Request, command: Command, answered: Answered) -> Understood<'r> {
        let statement = plain(Kind::Administration, Access::Primary(Why::Administration));
        let query = Query::new(request, command, statement, Body::AsCame, Expect::Results);
        Understood::Answered(Box::new(query), answered)
    }
}

/// One statement on its way, or another command that needs a server: all that belongs to it and to no session.
///
/// `Session::understand` makes it. All callers take the text from it; none works that out again.
#[derive(Debug)]
pub struct Query<'r> {
    /// The packets that it came in.
    pub request: &'r Request,
    /// The command.
    pub command: Command,
    /// The meaning of its text.
    pub statement: Rc<Statement>,
    /// The packets that a server gets.
    pub body: Body,
    /// The form of the reply.
    pub expect: Expect,
    /// COM_STMT_EXECUTE opens a cursor.
    pub opens_cursor: bool,
    /// It opens a cursor without having asked for one, as a statement of MySQL does that had one before: its rows stay
    /// there, and the client gets an OK in their place.
    pub rows_stay: bool,
    /// Its text is made when its connection is known: columns would have other names.
    pub is_late: bool,
    /// It was understood with a catalog of which nothing was known to have changed since.
    pub catalog_was_fresh: bool,
    /// The effects of its tables and views that the text does not show.
    pub hides: Option<Hidden>,
    /// The decisions of policy about it.
    pub plan: Plan,
    /// The result cache's part in it.
    pub cache: CacheOutcome,
    /// When it came; `None` while no query becomes an event.
    pub arrived: Option<Arrived>,
    /// Another text was sent in place of its own when its connection was known.
    pub text_replaced: Cell<bool>,
    /// A SET is sent in place of each GET DIAGNOSTICS that its text begins with.
    pub sets_diagnostics: Cell<bool>,
    source: Source,
}

/// The arrival of a query that may become an event.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// When it came.
    pub at: Instant,
    /// [`super::client::Client::given_bytes`] then.
    pub given_bytes: u64,
}

/// The result cache's part in a query.
#[derive(Clone, Debug, Default)]
pub struct CacheOutcome {
    /// It was asked.
    pub asked: Cell<bool>,
    /// As its digest counts it; `None` if the cache has answered, or another session was asking a server already.
    pub said: Cell<Option<CacheSaid>>,
}

impl CacheOutcome {
    /// As it came out in the end, for sessions that warm the cache.
    pub fn came(&self) -> Option<CacheSaid> {
        self.asked.get().then(|| self.said.get().unwrap_or(CacheSaid::Hit { saved_us: 0, bytes: 0 }))
    }
}

/// A statement's text, and the way to read it.
#[derive(Clone, Copy, Debug)]
pub struct QueryText<'q> {
    /// As the client sent it.
    pub bytes: &'q [u8],
    /// The dialect of the session that sent it, at that time.
    pub dialect: Dialect,
}

/// The place of a query's text.
#[derive(Clone, Debug)]
enum Source {
    /// It has none.
    None,
    /// Its own payload, from this byte on.
    Payload(usize, Dialect),
    /// The same of a text so long that a thread has read it, with its form.
    Long(Rc<LongText>),
    /// The preparation of the statement that it executes, fetches from, or resets.
    Prepared(Rc<PreparedText>),
}

/// All of a query but its packets: enough to run it again with them.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The command.
    pub command: Command,
    /// The meaning of its text.
    pub statement: Rc<Statement>,
    /// The packets that a server gets.
    pub body: Body,
    expect: Expect,
    opens_cursor: bool,
    rows_stay: bool,
    is_late: bool,
    source: Source,
}

impl Kept {
    /// The query, in these packets.
    pub fn query<'r>(&self, request: &'r Request) -> Query<'r> {
        let Kept { command, statement, body, expect, opens_cursor, rows_stay, is_late, source } = self.clone();
        Query { opens_cursor, rows_stay, is_late, source, ..Query::new(request, command, statement, body, expect) }
    }
}

impl QueryText<'_> {
    /// The text without its literals.
    pub fn digest(&self) -> String {
        sql::digest(self.bytes, &self.dialect).text
    }
}

/// The packets to send for a command.
#[derive(Clone, Debug)]
pub enum Body {
    /// The packets as they came.
    AsCame,
    /// This payload instead.
    Payload(Vec<u8>),
    /// These packets instead, of a long text.
    Packets(Rc<Vec<u8>>),
    /// The client's statement with this id is prepared under this key.
    Prepare(StatementKey),
    /// COM_STMT_EXECUTE of the client's statement with this id.
    Execute(u32),
    /// Another command about the client's statement with this id, which stands first in the payload.
    OfStatement(u32),
}

impl Body {
    /// Whether it is another text in place of the client's.
    pub(super) fn is_another_text(&self) -> bool {
        matches!(self, Body::Payload(_) | Body::Packets(_))
    }
}

impl<'r> Query<'r> {
    /// The client's own text and the one that is sent, if something was put in. To look for a quote in a long one would hold the
    /// worker.
    pub(super) fn texts(&self) -> Option<Texts<'_>> {
        match &self.body {
            Body::Payload(sent) if self.command == Command::Query && sent.len() < LONG_TEXT_BYTES => {
                Some(Texts { own: self.request.payload(), sent })
            }
            _ => None,
        }
    }

    /// A command without a text.
    pub(super) fn new(
        request: &'r Request,
        command: Command,
        statement: Rc<Statement>,
        body: Body,
        expect: Expect,
    ) -> Query<'r> {
        Query {
            request,
            command,
            statement,
            body,
            expect,
            opens_cursor: false,
            rows_stay: false,
            is_late: false,
            catalog_was_fresh: false,
            hides: None,
            plan: Plan::default(),
            cache: CacheOutcome::default(),
            arrived: None,
            text_replaced: Cell::new(false),
            sets_diagnostics: Cell::new(false),
            source: Source::None,
        }
    }

    /// The same with its text, which begins at this byte of the payload.
    pub(super) fn with_text_at(self, at: usize, dialect: Dialect) -> Query<'r> {
        Query { source: Source::Payload(at, dialect), ..self }
    }

    /// The same with a long text, which a thread has read.
    pub(super) fn with_long_text(self, long: Rc<LongText>) -> Query<'r> {
        Query { source: Source::Long(long), ..self }
    }

    /// The same about a statement that was prepared before.
    pub(super) fn of_prepared(self, prepared: Rc<PreparedText>) -> Query<'r> {
        Query { source: Source::Prepared(prepared), ..self }
    }

    /// The text that it runs, prepares, or is about.
    pub fn text(&self) -> Option<QueryText<'_>> {
        match &self.source {
            Source::None => None,
            Source::Payload(at, dialect) => {
                Some(QueryText { bytes: self.request.payload().get(*at..).unwrap_or_default(), dialect: *dialect })
            }
            Source::Long(long) => {
                let bytes = self.request.payload().get(long.at..).unwrap_or_default();
                Some(QueryText { bytes, dialect: long.dialect })
            }
            Source::Prepared(prepared) => Some(QueryText { bytes: &prepared.key.text, dialect: prepared.dialect }),
        }
    }

    /// The tables of its text, as far as the text shows them.
    pub fn tables(&self) -> Option<&Result<Tables, Unread>> {
        let text = self.text()?;
        Some(self.statement.tables(text.bytes, &text.dialect))
    }

    /// Its text without its literals.
    pub fn digest(&self) -> Option<String> {
        let known = match &self.source {
            Source::Long(long) => long.form.as_ref(),
            Source::Prepared(prepared) => prepared.long_form.as_ref(),
            Source::None | Source::Payload(..) => None,
        };
        known.cloned().or_else(|| Some(self.text()?.digest()))
    }

    /// The form of its text if that is a long one.
    pub fn long_form(&self) -> Option<String> {
        match &self.source {
            Source::Long(long) => long.form.clone(),
            _ => None,
        }
    }

    /// The preparation of the statement that it is about.
    pub fn prepared(&self) -> Option<&Rc<PreparedText>> {
        match &self.source {
            Source::Prepared(prepared) => Some(prepared),
            Source::None | Source::Payload(..) | Source::Long(_) => None,
        }
    }

    /// The parts of it that running it again needs.
    pub fn keep(&self) -> Kept {
        Kept {
            command: self.command,
            statement: self.statement.clone(),
            body: self.body.clone(),
            expect: self.expect,
            opens_cursor: self.opens_cursor,
            rows_stay: self.rows_stay,
            is_late: self.is_late,
            source: self.source.clone(),
        }
    }

    /// A view, a column's default or a function in it writes, which its text does not show: from now on it is a write.
    #[cold]
    pub(super) fn hide_write(&mut self) {
        if self.statement.access.only_reads() {
            let access = Access::Primary(Why::WritingFunction);
            // Of the read it may be known that its result can be kept.
            let verdict = Verdict::default();
            self.statement = Rc::new(Statement { access, verdict, ..Statement::clone(&self.statement) });
        }
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
            Effect::Variable { name, value } => {
                *value == sql::Value::Unknown || name == "insert_id" || name == "autocommit" && self.statement.parts > 1
            }
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
        let begins = match self.statement.transaction {
            Some(TransactionStep::Begin { .. }) => true,
            Some(TransactionStep::Commit { chain, .. } | TransactionStep::Rollback { chain, .. }) => chain,
            _ => false,
        };
        // MySQL makes a variable that a write names and no SET has made, and reports a change without a name.
        let makes_variables = self.statement.asks.contains(Asks::USER_VARIABLES) && !self.statement.access.only_reads();
        let writes = !self.statement.access.only_reads();
        let by_code = self.hides.is_some_and(|code| code.reads_set_variables || writes && code.sets_variables);
        self.will_pin() || begins || makes_variables || by_code || self.statement.effects.iter().any(pins)
    }

    /// It may read views of the schema `sys`, whose functions keep their settings in user variables (`@sys.…`).
    pub fn may_read_sys(&self) -> bool {
        let names_sys = |text: &[u8]| text.windows(3).any(|word| word.eq_ignore_ascii_case(b"sys"));
        self.statement.uses_tables && self.text().is_some_and(|text| names_sys(text.bytes))
    }

    /// Code that it runs is known to name user variables. A view that the monitor may not read would make each of its reads need a
    /// connection that has had none.
    pub fn asks_variables_in_code(&self) -> bool {
        self.statement.asks.contains(Asks::USER_VARIABLES_IN_CODE)
            || self.hides.is_some_and(|hidden| hidden.asks.contains(Asks::USER_VARIABLES))
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

    /// The server closes the connection behind it. `releases` tells whether it does so behind each COMMIT and ROLLBACK.
    pub fn ends_session(&self, releases: impl FnOnce() -> bool) -> bool {
        use TransactionStep::{Commit, Rollback};
        match self.statement.transaction {
            Some(Commit { release, .. } | Rollback { release, .. }) if self.runs_text() => {
                release.unwrap_or_else(releases)
            }
            _ => false,
        }
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
        opens: sql::Opens::Untold,
        digest: 0,
        named: NamedTables::default(),
        verdict: Verdict::default(),
    };
    Rc::new(statement)
}

//! The prepared statements that a client believes in: its id, the text, and what each execution needs.

mod packed;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::fast::RandomState;
use sql::{Dialect, Statement};
use wire::command::{Command, Execute, LAST_PREPARED};
use wire::{Capabilities, errno};

use super::client::Request;
use super::query::Query;
use super::typed::{self, Typed};
use crate::bytes_in_use::{BytesInUse, BytesShare};
use crate::error::Refusal;
use crate::pool::{StatementKey, TypesWanted};
pub use packed::PackedStatements;
use route::state::StateMap;

/// Statements that one session may keep prepared where the servers' `max_prepared_stmt_count` is not known: its default.
pub const STATEMENTS_MAX: u64 = 16_382;

/// The statement id that stands first in a command about a prepared statement.
pub(super) fn statement_id(arguments: &[u8]) -> Option<u32> {
    arguments.first_chunk().map(|id| u32::from_le_bytes(*id))
}

/// A text as it was prepared.
#[derive(Clone, Debug)]
pub struct PreparedText {
    /// Text and context: finds it on backend connections.
    pub key: StatementKey,
    /// The session's state when it was prepared: names in the text belong to that schema.
    pub state: Arc<StateMap>,
    /// The dialect of then: a literal of then may be an identifier now.
    pub dialect: Dialect,
    /// The meaning of the text.
    pub statement: Rc<Statement>,
    /// The form of a long text.
    pub long_form: Option<String>,
    /// The comments with tags that the client's text had.
    pub tags: Option<Box<[u8]>>,
    /// The client's text was another one, tags aside.
    pub rewritten: bool,
}

impl PreparedText {
    /// Whether the text would prepare to the same statement in this state, most often the very one in which it was prepared.
    #[inline]
    pub fn means_the_same_in(&self, state: &Arc<StateMap>) -> bool {
        Arc::ptr_eq(&self.state, state) || self.state.prepare_context() == state.prepare_context()
    }
}

/// One prepared statement of a client.
#[derive(Debug)]
pub struct ClientStatement {
    /// The id that the client knows.
    pub id: u32,
    /// Its preparation.
    pub prepared: Rc<PreparedText>,
    /// Its parameters.
    pub parameters: u16,
    /// The parameters' types, which drivers send with the first execution only, and of how many parameters and query
    /// attributes they are.
    pub types: Option<(u64, Box<[u8]>)>,
    /// MySQL: the execution that gave its parameters the types that they have.
    pub typed: Option<Box<Typed>>,
    /// The text that its last cursor belongs to, where that was another one than its own.
    pub cursor_of: Option<Arc<[u8]>>,
    /// MySQL: its first execution has opened a cursor. From then on the server keeps the rows of each execution for
    /// COM_STMT_FETCH, and ends the reply of one that asks for no cursor by an OK behind the columns.
    pub rows_stay: bool,
    /// Its first execution has asked for no cursor: rows never stay.
    pub rows_come: bool,
    /// The text that its long data was sent to, where that was another one than its own.
    pub long_data_of: Option<LongDataOf>,
    /// Why long data for it was refused, which the next execution answers.
    pub refused: Option<Box<Refused>>,
}

/// The text that a server got in place of a statement's own, and that has its long data.
#[derive(Clone, Debug)]
pub struct LongDataOf {
    /// The text.
    pub text: Arc<[u8]>,
    /// Its columns are described as those of the client's text.
    pub renames: bool,
}

impl ClientStatement {
    /// The keys of the texts of its cursor and of its long data, beside its own.
    pub fn keys(&self) -> impl Iterator<Item = StatementKey> {
        let own = &self.prepared.key;
        let long = self.long_data_of.as_ref().map(|sent| &sent.text);
        let texts = [Some(&own.text), self.cursor_of.as_ref(), long];
        texts.into_iter().flatten().map(|text| StatementKey { text: text.clone(), context: own.context })
    }

    /// An execution that opens a cursor runs this text; a fetch or a reset goes to the text that it ran.
    pub fn follow_cursor(&mut self, query: &Query<'_>, key: &mut StatementKey) {
        if query.opens_cursor {
            self.cursor_of = (key.text != self.prepared.key.text).then(|| key.text.clone());
        } else if matches!(query.command, Command::StmtFetch | Command::StmtReset)
            && let Some(text) = &self.cursor_of
        {
            key.text = text.clone();
        }
    }

    /// The types of an execution with so many parameters and attributes: those that came with it, which are remembered,
    /// or those that came with an earlier one.
    pub fn types_of(&mut self, count: u64, came: Option<&[u8]>) -> Option<&[u8]> {
        let is_new = |came: &[u8]| self.types.as_ref().is_none_or(|(_, known)| **known != *came);
        if let Some(came) = came.filter(|came| is_new(came)) {
            self.types = Some((count, came.into()));
        }
        self.types.as_ref().filter(|(known, _)| *known == count).map(|(_, types)| &**types)
    }

    /// Notes an execution on MySQL, which may give the parameters types.
    pub fn note_types(&mut self, execute: &Execute<'_>) {
        let known = self.types.as_ref().map(|(_, types)| &**types);
        let Some(types) = execute.types.or(known) else { return };
        let stays = self.typed.as_ref().is_some_and(|typed| typed.stays_for(execute, types));
        if !stays {
            let typed = Typed::by(execute, types, self.typed.as_deref());
            self.typed = typed.filter(|_| typed::may_run_again(&self.prepared.statement));
        }
    }

    /// Whether the rows of an execution that asks for no cursor stay for COM_STMT_FETCH. MySQL prepares a statement anew for values
    /// for which the types of before do not stay: from then on rows come.
    pub fn keeps_rows(&self, request: &Request, capabilities: Capabilities) -> bool {
        let keeps = |execute: Execute<'_>| {
            let known = self.types.as_ref().map_or(&[][..], |(_, types)| types);
            let types = execute.types.unwrap_or(known);
            match &self.typed {
                Some(typed) => typed.stays_for(&execute, types),
                None => types == known || typed::are_texts(&execute, types),
            }
        };
        self.rows_stay && self.execution(request, capabilities).is_none_or(keeps)
    }

    /// The types that the parameters of an execution must have on MySQL, and the execution that gives them where this one does
    /// not do that itself.
    pub fn types_wanted(&self, request: &Request, capabilities: Capabilities) -> (TypesWanted, Option<Box<Typed>>) {
        let types = self.types_executed(request, capabilities);
        let (Some(typed), Some(execute)) = (&self.typed, self.execution(request, capabilities)) else {
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
    pub fn types_executed(&self, request: &Request, capabilities: Capabilities) -> Box<[u8]> {
        let came = self.execution(request, capabilities).and_then(|execute| execute.types);
        came.or(self.types.as_ref().map(|(_, types)| &**types)).unwrap_or_default().into()
    }

    /// Whether long data came for a parameter that the statement does not have: each execution fails until COM_STMT_RESET. The
    /// server never sees such data: its statement serves other sessions, too.
    pub fn refuse_long_data(&mut self, arguments: &[u8], is_mariadb: bool) -> bool {
        let parameter = arguments.get(4..).and_then(|rest| rest.first_chunk()).copied().map(u16::from_le_bytes);
        if parameter.is_none_or(|parameter| parameter < self.parameters) {
            return false;
        }
        let place = if is_mariadb { "mysqld_stmt_send_long_data" } else { "mysql_stmt_precheck" };
        let message = format!("Incorrect arguments to {place}");
        let refusal = Refusal::like_server(errno::ER_WRONG_ARGUMENTS, b"HY000", message);
        self.refused = Some(Box::new(Refused { refusal, lasts: true }));
        true
    }

    /// The error of an execution that is refused.
    pub fn refuses(&mut self) -> Option<Refusal> {
        let refused = self.refused.take()?;
        let refusal = refused.refusal.clone();
        if refused.lasts {
            self.refused = Some(refused);
        }
        Some(refusal)
    }

    fn execution<'r>(&self, request: &'r Request, capabilities: Capabilities) -> Option<Execute<'r>> {
        Execute::parse(request.payload().get(1..)?, self.parameters, capabilities).ok()
    }
}

/// Why an execution of a prepared statement fails, whatever it is given.
#[derive(Clone, Debug)]
pub struct Refused {
    refusal: Refusal,
    /// It fails until COM_STMT_RESET.
    lasts: bool,
}

/// All prepared statements of a client.
#[derive(Debug, Default)]
pub struct ClientStatements {
    last_id: u32,
    /// The statement that MariaDB's clients mean by [`LAST_PREPARED`]: they send the execution behind the preparation
    /// without waiting for its id.
    last_prepared: Option<u32>,
    known: Option<HashMap<u32, ClientStatement, RandomState>>,
    /// Their share of all sessions' texts, once there were any.
    share: Option<Box<BytesShare>>,
}

/// How many statements may be prepared, and how long their texts may be together, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct PrepareLimits {
    /// The servers' `max_prepared_stmt_count`.
    pub statements_max: u64,
    /// Of one session.
    pub session_bytes_max: u64,
    /// Of all sessions.
    pub all_bytes_max: u64,
}

impl ClientStatements {
    /// The id that the next statement will have.
    pub fn next_id(&mut self) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            // MariaDB's clients mean "the last one" by the highest id.
            if !matches!(self.last_id, 0 | u32::MAX) && self.find(self.last_id).is_none() {
                return self.last_id;
            }
        }
    }

    /// The server has given so many ids to texts that PREPARE names.
    pub fn pass_ids(&mut self, texts: usize) {
        for _ in 0..texts {
            self.next_id();
        }
    }

    /// The id that [`ClientStatements::next_id`] gave last.
    pub fn last_id(&self) -> u32 {
        self.last_id
    }

    /// Why a statement with a text of so many bytes may not be prepared as well.
    pub fn refusal(&self, text: usize, limits: PrepareLimits, all: &BytesInUse) -> Option<Refusal> {
        let (text, known) = (text as u64, self.known.as_ref().map_or(0, HashMap::len) as u64);
        let refusal = |current: u64, why: String| {
            let message =
                format!("Can't create more than max_prepared_stmt_count statements (current value: {current}){why}");
            Some(Refusal::like_server(errno::ER_MAX_PREPARED_STMT_COUNT_REACHED, b"42000", message))
        };
        if known >= limits.statements_max {
            return refusal(limits.statements_max, String::new());
        }
        let (session, in_all) = (self.share.as_ref().map_or(0, |share| share.bytes()), all.get());
        let (bytes, max, key) = match () {
            // One text by itself is bounded by `max_packet`, as on a server.
            () if session > 0 && session + text > limits.session_bytes_max => {
                (session, limits.session_bytes_max, "listener prepared_memory_max")
            }
            () if in_all + text > limits.all_bytes_max => (in_all, limits.all_bytes_max, "proxy.prepared_memory_max"),
            () => return None,
        };
        refusal(
            limits.statements_max,
            format!("; sqluice: the texts of prepared statements take {bytes} bytes of {max} ({key})"),
        )
    }

    /// The client's statement with this id.
    pub fn find(&self, id: u32) -> Option<&ClientStatement> {
        let id = if id == LAST_PREPARED { self.last_prepared? } else { id };
        self.known.as_ref()?.get(&id)
    }

    /// The statement that a command with these arguments is about.
    #[inline]
    pub fn named_in(&self, arguments: &[u8]) -> Option<&ClientStatement> {
        self.find(statement_id(arguments)?)
    }

    /// Keeps the refusal of long data for the next execution: COM_STMT_SEND_LONG_DATA has no reply, not even an error. Gives
    /// whether this is such a command.
    pub fn keep_refusal(&mut self, request: &Request, refusal: &Refusal) -> bool {
        let Some((&byte, arguments)) = request.payload().split_first() else { return false };
        // MySQL answers one that is cut.
        let is_cut = refusal.code == errno::ER_MALFORMED_PACKET;
        if is_cut || Command::from_byte(byte) != Some(Command::StmtSendLongData) {
            return false;
        }
        if let Some(known) = statement_id(arguments).and_then(|id| self.find_mut(id)) {
            known.refused = Some(Box::new(Refused { refusal: refusal.clone(), lasts: false }));
        }
        true
    }

    /// No command can mean the statement prepared last: that failed, or MySQL knows no id for it.
    pub fn forget_last(&mut self) {
        self.last_prepared = None;
    }

    /// The same, to be changed.
    pub fn find_mut(&mut self, id: u32) -> Option<&mut ClientStatement> {
        let id = if id == LAST_PREPARED { self.last_prepared? } else { id };
        self.known.as_mut()?.get_mut(&id)
    }

    /// A statement was prepared.
    pub fn insert(&mut self, statement: ClientStatement, all: &Arc<BytesInUse>) {
        self.last_prepared = Some(statement.id);
        self.share.get_or_insert_with(|| Box::new(BytesShare::new(all)));
        self.keep(statement);
    }

    fn keep(&mut self, statement: ClientStatement) {
        let bytes = statement.prepared.key.text.len() as u64;
        let before = self.known.get_or_insert_default().insert(statement.id, statement);
        if let Some(share) = &mut self.share {
            before.inspect(|before| share.remove(before.prepared.key.text.len() as u64));
            share.add(bytes);
        }
    }

    /// The client closed a statement.
    pub fn remove(&mut self, id: u32) -> Option<ClientStatement> {
        let known = self.known.as_mut()?;
        let removed = known.remove(&id);
        if let (Some(share), Some(removed)) = (&mut self.share, &removed) {
            share.remove(removed.prepared.key.text.len() as u64);
        }
        if known.is_empty() {
            self.known = None;
        }
        removed
    }

    /// A statement that the client has closed is there again, for what it was executed for before.
    pub fn bring_back(&mut self, statement: ClientStatement) {
        self.keep(statement);
    }

    /// All are gone.
    pub fn clear(&mut self) {
        (self.known, self.share) = (None, None);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.as_ref().map_or(0, HashMap::len)
    }
}

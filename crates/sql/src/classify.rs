//! Tells what a text is, where it may run and what it does to the session.
//!
//! One pass over the tokens. Each statement's verb picks a reader in a sub-module; what the readers have in common —
//! functions, variables, locking clauses — is found by [`scan`]. Whatever is not recognised stays on the primary.

mod account;
mod admin;
mod change;
mod counting;
mod definition;
mod function;
mod lock;
mod name;
mod parts;
mod prepared;
mod query;
mod routine;
mod scan;
mod set;
mod show;
mod transaction;

use crate::cursor::Cursor;
use crate::dialect::{Dialect, Modes};
use crate::effect::{Effect, Value};
use crate::functions::Functions;
use crate::hint::{Hint, asks_for_servers_ids};
use crate::leaves::Leaves;
use crate::lexer::TokenKind;
use crate::names::NamedTables;
use crate::statement::{Access, Asks, Kind, Opens, Statement, TransactionStep, Why};
use crate::text;
use crate::verdict::Verdict;
use crate::words::W;
use counting::Counting;
pub use parts::{parts, statements};

/// Reads one client request. Never fails: what it does not know is [`Kind::Unknown`] and runs on the primary.
///
/// `functions` is asked, with names as they are written, about every call of a function that is not built in.
pub fn classify(text: &[u8], dialect: &Dialect, functions: &dyn Functions) -> Statement {
    let mut classifier = Classifier::new(text, dialect, functions);
    classifier.run();
    classifier.finish()
}

/// Statements that EXECUTE IMMEDIATE may nest in one another: the servers refuse any nesting.
const NESTING_MAX: u8 = 1;

/// The most effects that are told apart.
const EFFECTS_MAX: usize = 256;

struct Classifier<'a> {
    cursor: Cursor<'a>,
    functions: &'a dyn Functions,
    kind: Option<Kind>,
    access: Access,
    transaction: Option<TransactionStep>,
    effects: Vec<Effect>,
    /// [`Effect::MayChangeSession`] is among the effects.
    session_may_change: bool,
    asks: Asks,
    hint: Option<Hint>,
    parts: u16,
    /// How many of them are GET DIAGNOSTICS.
    diagnostics: u16,
    /// A part changes accounts, or may.
    accounts: bool,
    nesting: u8,
    /// How many lists of WITH are being read.
    with_depth: u8,
    /// Every user variable of the statement is assigned (LOAD DATA).
    variables_assigned: bool,
    insert_id_unsure: bool,
    uses_tables: bool,
    opens: Opens,
    counting: Counting,
}

impl<'a> Classifier<'a> {
    #[inline(always)]
    fn new(text: &'a [u8], dialect: &Dialect, functions: &'a dyn Functions) -> Self {
        Self {
            cursor: Cursor::unread(text, dialect),
            functions,
            kind: None,
            access: Access::Read,
            transaction: None,
            effects: Vec::new(),
            session_may_change: false,
            asks: Asks::empty(),
            hint: None,
            parts: 0,
            diagnostics: 0,
            accounts: false,
            nesting: 0,
            with_depth: 0,
            variables_assigned: false,
            insert_id_unsure: false,
            uses_tables: false,
            opens: Opens::Untold,
            counting: Counting::default(),
        }
    }

    fn run(&mut self) {
        self.cursor.read();
        if self.cursor.dialect().modes.contains(Modes::MSSQL) && memchr::memchr(b'[', self.cursor.text()).is_some() {
            // A name in brackets may hold quotes.
            self.parts = 1;
            self.bad();
            self.leaves(Leaves::OF_UNKNOWN_CODE);
            self.take_all();
        }
        loop {
            while self.cursor.accept_kind(TokenKind::Semicolon) {}
            if self.cursor.kind() == TokenKind::End {
                break;
            }
            self.parts = self.parts.saturating_add(1);
            self.variables_assigned = false;
            self.asks.remove(Asks::KEEPS_ROW_COUNT | Asks::ONLY_DIAGNOSTICS);
            let effects = self.effects.len();
            self.statement();
            // Tokens that a reader left over may still hold functions and variables.
            self.scan();
            if self.cursor.kind() == TokenKind::Bad {
                self.bad();
                break;
            }
            if self.reads_on_otherwise(effects) {
                self.bad();
                self.leaves(Leaves::OF_UNKNOWN_CODE);
                self.take_all();
            }
        }
        if self.cursor.hints_insert_id() {
            // MySQL sets it back to nothing behind the statement, and the next row that is inserted takes that for its number.
            self.effect(Effect::Variable { name: "insert_id".into(), value: Value::Unknown });
        }
        if self.hint.is_none()
            && let Some(words) = self.cursor.hint()
        {
            self.hint = Hint::parse(words);
            if asks_for_servers_ids(words) {
                // The lists are the server's own: nothing of them is translated.
                self.asks.remove(Asks::PROCESSES | Asks::SERVER_IDS);
                self.asks |= Asks::DIRECT;
            }
        }
    }

    /// Whether a part with the effects from here on changes how the server reads the rest of the text: where strings end.
    pub(in crate::classify) fn reads_on_otherwise(&self, effects: usize) -> bool {
        let any = |sets: fn(&Effect) -> bool| self.effects.iter().skip(effects).any(sets);
        if self.cursor.kind() != TokenKind::Semicolon || !any(|_| true) {
            return false;
        }
        let rest = self.cursor.text().get(self.cursor.token.start..).unwrap_or_default();
        // The second byte of a character in gbk and its like can be a backslash or a backtick.
        let may_be_character = |pair: &[u8]| pair[0] >= 0x80 && matches!(pair[1], b'\\' | b'`');
        any(may_set_mode) && memchr::memchr2(b'"', b'\\', rest).is_some()
            || any(may_set_encoding) && rest.windows(2).any(may_be_character)
    }

    #[inline(always)]
    fn finish(&mut self) -> Statement {
        let found_rows = self.found_rows();
        Statement {
            kind: self.kind.unwrap_or(Kind::Empty),
            access: self.access,
            transaction: self.transaction,
            effects: std::mem::take(&mut self.effects),
            asks: self.asks,
            hint: self.hint.take(),
            parts: self.parts,
            accounts: self.accounts,
            insert_id_unsure: self.insert_id_unsure,
            uses_tables: self.uses_tables || self.kind.is_some_and(always_uses_tables),
            found_rows,
            opens: self.opens,
            digest: self.cursor.digest_hash(),
            named: NamedTables::default(),
            verdict: Verdict::default(),
        }
    }

    /// Notes the verb; the first one counts.
    fn kind(&mut self, kind: Kind) {
        self.accounts |= matches!(kind, Kind::Account | Kind::Compound);
        if self.kind.is_none() {
            self.kind = Some(kind);
        } else {
            self.counting.other_verb(kind);
            self.uses_tables |= always_uses_tables(kind);
        }
    }

    /// Notes that the primary must run it; the first reason counts, but for one that only reads.
    fn primary(&mut self, why: Why) {
        if self.access.only_reads() {
            self.access = Access::Primary(why);
        }
    }

    /// Notes an effect. Beyond [`EFFECTS_MAX`] all of them together may have changed anything.
    fn effect(&mut self, effect: Effect) {
        if self.effects.len() < EFFECTS_MAX {
            self.effects.push(effect);
        } else {
            self.may_change_session();
        }
    }

    fn may_change_session(&mut self) {
        if !std::mem::replace(&mut self.session_may_change, true) {
            self.effects.push(Effect::MayChangeSession);
        }
    }

    /// The server will refuse this text, or reads it differently than we do.
    fn bad(&mut self) {
        self.kind(Kind::Unknown);
        self.primary(Why::Unknown);
        self.may_change_session();
        self.insert_id_unsure = true;
    }

    fn unknown(&mut self) {
        self.bad();
        self.skip();
    }

    /// Skips to the end of the statement, and looks no further than [`Classifier::pass`].
    fn skip(&mut self) {
        while !self.cursor.at_end() {
            self.pass();
        }
    }

    /// Takes a token of a part that is not scanned. Few such parts compute a value, as the time of PURGE, the schedule of an event
    /// and the default of a new column do; those may assign user variables.
    fn pass(&mut self) {
        if self.cursor.kind() == TokenKind::UserVariable && self.cursor.ahead().kind() == TokenKind::Assign {
            let name = self.user_variable();
            self.assigned(name, Value::Unknown);
        }
        self.cursor.bump();
    }

    /// A reader that needs no more than its kind and reason.
    fn plain(&mut self, kind: Kind, why: Why) {
        self.kind(kind);
        self.primary(why);
        self.skip();
    }

    fn committing(&mut self) {
        self.transaction = Some(TransactionStep::ImplicitCommit);
    }

    fn assigned(&mut self, name: String, value: Value) {
        self.effect(Effect::UserVariable { name, value });
    }

    /// The name of the user variable in hand.
    fn user_variable(&self) -> String {
        text::user_variable(self.cursor.token, self.cursor.text(), self.cursor.dialect())
    }

    /// Takes a possibly qualified name and gives it as it is written, white space around dots left out.
    fn name(&mut self) -> Option<String> {
        if !self.cursor.at_name() {
            return None;
        }
        let mut name = String::new();
        loop {
            name.push_str(&String::from_utf8_lossy(self.cursor.bytes()));
            self.cursor.bump();
            if self.cursor.kind() != TokenKind::Dot {
                return Some(name);
            }
            self.cursor.bump();
            if !self.cursor.at_name() {
                return Some(name);
            }
            name.push('.');
        }
    }

    /// Takes one identifier and gives the name it stands for.
    fn identifier(&mut self) -> Option<String> {
        if !self.cursor.at_name() {
            return None;
        }
        let name = text::identifier(self.cursor.token, self.cursor.text()).into_owned();
        self.cursor.bump();
        Some(name)
    }

    /// Skips the names, dots and modifiers in hand up to one of these words, a paren or the end.
    fn skip_to(&mut self, words: &[W]) {
        while !self.cursor.at_end() && !self.cursor.at_any(words) {
            self.pass();
        }
    }

    fn statement(&mut self) {
        if self.cursor.kind() == TokenKind::Open {
            return self.query();
        }
        match self.cursor.word {
            W::Select | W::With | W::Values | W::Table => self.query(),
            W::Insert | W::Replace => self.insert(),
            W::Update => self.change(Kind::Update),
            W::Delete => self.change(Kind::Delete),
            W::Set => self.set(),
            W::Begin | W::Start | W::Commit | W::Rollback | W::Savepoint | W::Release | W::Xa => self.transaction(),
            W::Show => self.show(),
            W::Desc | W::Describe | W::Explain => self.explain(),
            W::Analyze => self.analyze(),
            W::Help => {
                self.kind(Kind::Show);
                self.counting.shows(false);
                self.skip();
            }
            W::Use => self.use_schema(),
            W::Call => self.call(),
            W::Do => {
                self.kind(Kind::Do);
                self.cursor.bump();
                self.scan();
            }
            W::Load => self.load(),
            W::Lock | W::Unlock | W::Flush | W::Backup | W::Handler => self.lock(),
            W::Prepare | W::Execute | W::Deallocate => self.prepared(),
            W::Create | W::Alter | W::Drop | W::Rename | W::Truncate | W::Import => self.definition(),
            W::Grant | W::Revoke => self.account(),
            W::Get | W::Signal | W::Resignal => self.diagnostics(),
            W::Kill => self.kill(),
            W::Check
            | W::Checksum
            | W::Optimize
            | W::Repair
            | W::Cache
            | W::Reset
            | W::Purge
            | W::Install
            | W::Uninstall
            | W::Change
            | W::Stop
            | W::Binlog
            | W::Shutdown
            | W::Restart
            | W::Clone => self.admin(),
            W::If | W::Case | W::Loop | W::While | W::Repeat | W::For => self.compound(),
            _ if self.at_oracle_code() => self.compound(),
            _ => self.unknown(),
        }
    }
}

/// Statements that name tables in whatever form, or whose inner statements may.
fn always_uses_tables(kind: Kind) -> bool {
    match kind {
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Load | Kind::Call | Kind::Show | Kind::Definition => true,
        Kind::Account | Kind::Administration | Kind::Handler | Kind::Compound | Kind::Unknown | Kind::Lock => true,
        Kind::Select | Kind::Explain | Kind::Do | Kind::Set => false,
        Kind::Empty | Kind::Use | Kind::Transaction | Kind::Xa | Kind::PreparedText | Kind::Kill => false,
        Kind::Diagnostics => false,
    }
}

/// Whether an effect may change the mode of the statements behind it in the same text. That of a routine ends with it.
fn may_set_mode(effect: &Effect) -> bool {
    match effect {
        Effect::Variable { name, .. } => name == "sql_mode",
        Effect::ExecuteText { .. } => true,
        _ => false,
    }
}

/// Whether an effect may change the character set in which the server reads what stands behind it in the same text.
fn may_set_encoding(effect: &Effect) -> bool {
    match effect {
        Effect::Variable { name, .. } => name == "character_set_client",
        Effect::Names { .. } | Effect::CharacterSet(_) | Effect::ExecuteText { .. } | Effect::MayChangeSession => true,
        _ => false,
    }
}

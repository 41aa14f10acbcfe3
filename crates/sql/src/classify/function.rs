//! Calls: of built-in functions that do more than give a value, and of stored ones.

use super::Classifier;
use super::name::Name;
use crate::cursor::Cursor;
use crate::dialect::{Family, Modes};
use crate::effect::Effect;
use crate::functions::FunctionAccess;
use crate::leaves::Leaves;
use crate::lexer::{Token, TokenKind};
use crate::statement::{Asks, Why};
use crate::text;
use crate::words::{Entry, Flags, W, find_quoted};

/// Texts that surely call RELEASE_ALL_LOCKS().
const RELEASES_ALL: [&[u8]; 2] = [b"SELECT RELEASE_ALL_LOCKS()", b"DO RELEASE_ALL_LOCKS()"];

impl Classifier<'_> {
    /// `name (`, unqualified. The parenthesis is in hand.
    pub(super) fn function(&mut self, name: Name) {
        let adjacent = name.token.end == self.cursor.token.start;
        let quoted = name.token.kind != TokenKind::Word;
        let entry =
            if quoted { find_quoted(text::identifier(name.token, self.cursor.text()).as_bytes()) } else { name.entry };
        self.counting.function(&self.cursor.text()[name.token.start..name.token.end]);
        let entry = if entry.is_built_in(self.cursor.dialect()) { entry } else { &Entry::NONE };
        if !entry.text.is_empty() && self.functions.bears_own_word(entry.text) {
            self.stored_function(None, name.token);
        }
        if entry.flags.contains(Flags::FUNCTION) && self.special_function(entry.word) {
            return;
        }
        let known = if quoted {
            // Only functions that are found by name, not by grammar, can be called in quotes.
            entry.flags.contains(Flags::FUNCTION) && !entry.flags.contains(Flags::ADJACENT)
        } else if entry.flags.contains(Flags::ADJACENT) {
            adjacent || self.cursor.dialect().modes.contains(Modes::IGNORE_SPACE)
        } else if entry.flags.contains(Flags::TYPE) {
            matches!(name.before, TokenKind::Word | TokenKind::QuotedIdentifier)
        } else if entry.word == W::Columns {
            // JSON_TABLE: `'path' COLUMNS (…)`.
            name.before == TokenKind::String
        } else {
            entry.flags.intersects(Flags::FUNCTION | Flags::BEFORE_PAREN)
        };
        if !known {
            self.stored_function(None, name.token);
        }
    }

    pub(super) fn stored_function(&mut self, schema: Option<Token>, name: Token) {
        self.asks |= Asks::STORED_FUNCTIONS;
        self.uses_tables = true;
        let text = self.cursor.text();
        let schema = schema.map(|schema| text::identifier(schema, text));
        let name = text::identifier(name, text);
        self.asks_in_code(self.functions.asks(schema.as_deref(), &name));
        match self.functions.access(schema.as_deref(), &name) {
            FunctionAccess::Reads => {}
            FunctionAccess::Writes => {
                self.primary(Why::WritingFunction);
                self.leaves(self.functions.leaves(schema.as_deref(), &name));
            }
            FunctionAccess::Unknown => {
                self.primary(Why::UnknownFunction);
                self.may_change_session();
                self.leaves(self.functions.leaves(schema.as_deref(), &name));
            }
        }
    }

    /// Code that is not in the text may ask for these.
    pub(super) fn asks_in_code(&mut self, asks: Asks) {
        self.asks |= asks.in_code();
    }

    /// Built-in functions that do more than compute. The opening parenthesis is in hand.
    fn special_function(&mut self, word: W) -> bool {
        let argument = self.cursor.ahead();
        let none = argument.kind() == TokenKind::Close;
        match word {
            W::GetLock => {
                self.primary(Why::Locks);
                let name = self.lock_name(argument);
                self.effect(Effect::TakeUserLock(name));
            }
            W::ReleaseLock => {
                self.primary(Why::Locks);
                let name = self.lock_name(argument);
                self.effect(Effect::ReleaseUserLock(name));
            }
            W::ReleaseAllLocks => {
                self.primary(Why::Locks);
                let surely = self.only_releases_all();
                self.effect(Effect::ReleaseAllUserLocks { surely });
            }
            W::IsFreeLock => self.primary(Why::Locks),
            W::IsUsedLock => {
                self.asks |= Asks::SERVER_IDS;
                self.primary(Why::Locks);
            }
            W::Setval => self.sequence(),
            W::Nextval => self.next_value(),
            W::Lastval => self.last_value(),
            // A column's default may be NEXTVAL() of a sequence.
            W::Default if self.cursor.dialect().family == Family::MariaDb => self.sequence(),
            W::LastInsertId if none => {
                self.asks |= Asks::LAST_INSERT_ID;
                self.primary(Why::SessionState);
            }
            W::LastInsertId => {
                self.insert_id_unsure = true;
                self.primary(Why::SideEffect);
            }
            W::FoundRows => {
                self.asks |= Asks::FOUND_ROWS;
                self.primary(Why::SessionState);
            }
            W::RowCount => {
                self.asks |= Asks::ROW_COUNT;
                self.primary(Why::SessionState);
            }
            W::ConnectionId => self.asks |= Asks::CONNECTION_ID,
            W::PsCurrentThreadId => {
                self.asks |= Asks::CONNECTION;
                self.primary(Why::SessionState);
            }
            W::LoadFile => self.primary(Why::Administration),
            W::ServerFunction => {
                // Some take the id of a connection.
                self.asks |= Asks::SERVER_IDS;
                self.primary(Why::Administration);
            }
            _ => return false,
        }
        true
    }

    /// The statement leaves this on its connection.
    pub(super) fn leaves(&mut self, leaves: Leaves) {
        let leaves = self.possible(leaves);
        if !leaves.is_empty() && !self.effects.contains(&Effect::Leaves(leaves)) {
            self.effect(Effect::Leaves(leaves));
        }
    }

    /// MySQL has no sequences.
    pub(super) fn possible(&self, leaves: Leaves) -> Leaves {
        match self.cursor.dialect().family {
            Family::MariaDb => leaves,
            Family::MySql => leaves - Leaves::SEQUENCES,
        }
    }

    /// Whether the text is nothing but RELEASE_ALL_LOCKS(), so that it is called if the statement succeeds.
    fn only_releases_all(&self) -> bool {
        let text = self.cursor.text().trim_ascii();
        RELEASES_ALL.iter().any(|whole| text.eq_ignore_ascii_case(whole))
    }

    /// The lock's name when the argument is one plain string.
    fn lock_name(&self, argument: Cursor<'_>) -> Option<String> {
        let after = argument.ahead();
        if argument.kind() != TokenKind::String || !matches!(after.kind(), TokenKind::Comma | TokenKind::Close) {
            return None;
        }
        let name = text::string(argument.token, argument.text(), argument.dialect());
        let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\'' | b'\\');
        let name = String::from_utf8(name).ok().filter(|name| name.bytes().all(|byte| plain(&byte)))?;
        // MariaDB tells locks apart by their bytes.
        let folds = self.cursor.dialect().family == Family::MySql;
        Some(if folds { name.to_ascii_lowercase() } else { name })
    }
}

//! Calls: of built-in functions that do more than give a value, and of stored ones.

use super::Classifier;
use super::query::Name;
use crate::cursor::Cursor;
use crate::lexer::{Token, TokenKind};
use crate::statement::{Asks, Effect, FunctionAccess, Modes, Why};
use crate::text;
use crate::words::{Entry, Flags, W, find_quoted};

impl Classifier<'_> {
    /// `name (`, unqualified. The parenthesis is in hand.
    pub(super) fn function(&mut self, name: Name) {
        let adjacent = name.token.end == self.cursor.token.start;
        let quoted = name.token.kind != TokenKind::Word;
        let entry =
            if quoted { find_quoted(text::identifier(name.token, self.cursor.text()).as_bytes()) } else { name.entry };
        let entry = if entry.is_built_in(self.cursor.dialect()) { entry } else { &Entry::NONE };
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
        match self.functions.access(schema.as_deref(), &text::identifier(name, text)) {
            FunctionAccess::Reads => {}
            FunctionAccess::Writes => self.primary(Why::WritingFunction),
            FunctionAccess::Unknown => {
                self.primary(Why::UnknownFunction);
                self.may_change_session();
            }
        }
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
                self.effect(Effect::ReleaseAllUserLocks);
            }
            W::IsFreeLock => self.primary(Why::Locks),
            W::IsUsedLock => {
                self.asks |= Asks::SERVER_IDS;
                self.primary(Why::Locks);
            }
            W::Nextval | W::Lastval | W::Setval => self.sequence(),
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

    /// The lock's name when the argument is one plain string.
    fn lock_name(&self, argument: Cursor<'_>) -> Option<String> {
        let after = argument.ahead();
        if argument.kind() != TokenKind::String || !matches!(after.kind(), TokenKind::Comma | TokenKind::Close) {
            return None;
        }
        let name = text::string(argument.token, argument.text(), argument.dialect());
        Some(String::from_utf8(name).ok()?.to_lowercase())
    }
}

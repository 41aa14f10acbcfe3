//! A cursor for readers of one statement of one table: it counts parentheses and parameters, and takes names and tables.

use std::borrow::Cow;

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::names::TableName;
use crate::text;
use crate::words::W;

/// Walks over a text. The end is also a `;` behind which nothing stands.
pub(crate) struct Walk<'a> {
    cursor: Cursor<'a>,
    /// Parentheses around the token in hand.
    pub(crate) depth: usize,
    /// Parameters before it.
    pub(crate) parameters: usize,
    /// Words to look out for.
    watched: &'static [&'static [u8]],
    /// One of them stood behind the first token.
    pub(crate) saw_watched: bool,
    /// A token stood in a comment that some servers run.
    pub(crate) saw_executed_comment: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(text: &'a [u8], dialect: &Dialect, watched: &'static [&'static [u8]]) -> Walk<'a> {
        let cursor = Cursor::new(text, dialect);
        let saw_executed_comment = cursor.in_executed_comment();
        Walk { cursor, depth: 0, parameters: 0, watched, saw_watched: false, saw_executed_comment }
    }

    pub(crate) fn take(&mut self) {
        match self.kind() {
            TokenKind::Open => self.depth += 1,
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            TokenKind::Placeholder => self.parameters += 1,
            _ => {}
        }
        self.cursor.step();
        if self.kind() == TokenKind::Semicolon {
            let ahead = self.cursor.ahead();
            if ahead.kind() == TokenKind::End {
                self.cursor = ahead;
            }
        }
        self.saw_executed_comment |= self.cursor.in_executed_comment();
        self.saw_watched |= self.at_any(self.watched);
    }

    pub(crate) fn kind(&self) -> TokenKind {
        self.cursor.kind()
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.cursor.bytes()
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.cursor.text()
    }

    /// Whether this word is in hand, which the servers know as a keyword or a function.
    pub(crate) fn at(&self, word: &[u8]) -> bool {
        self.cursor.word != W::None && self.bytes().eq_ignore_ascii_case(word)
    }

    pub(crate) fn at_any(&self, words: &[&[u8]]) -> bool {
        self.cursor.word != W::None && words.iter().any(|word| self.at(word))
    }

    pub(crate) fn at_operator(&self, operator: &[u8]) -> bool {
        self.cursor.at_operator(operator)
    }

    pub(crate) fn accept(&mut self, word: &[u8]) -> bool {
        let found = self.at(word);
        if found {
            self.take();
        }
        found
    }

    pub(crate) fn accept_any(&mut self, words: &[&[u8]]) -> bool {
        words.iter().any(|word| self.accept(word))
    }

    pub(crate) fn accept_kind(&mut self, kind: TokenKind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.take();
        }
        found
    }

    pub(crate) fn accept_equals(&mut self) -> Option<()> {
        self.at_operator(b"=").then(|| self.take())
    }

    pub(crate) fn name(&mut self) -> Option<Cow<'a, str>> {
        let name = self.cursor.at_name().then(|| text::identifier(self.cursor.token, self.text()))?;
        self.take();
        Some(name)
    }

    /// A table, with its schema if that is named.
    pub(crate) fn table(&mut self) -> Option<TableName> {
        let mut table = TableName { schema: None, name: self.name()?.into() };
        if self.accept_kind(TokenKind::Dot) {
            table.schema = Some(std::mem::replace(&mut table.name, self.name()?.into()));
        }
        (self.kind() != TokenKind::Dot).then_some(table)
    }

    /// Up to this word, which is taken, nothing but another name for the table may stand.
    pub(crate) fn alias(&mut self, word: &[u8]) -> Option<()> {
        if !self.at(word) {
            self.accept(b"AS");
            self.name()?;
        }
        self.accept(word).then_some(())
    }
}

//! A lexer with one token in hand, its keyword, and what stood before it.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::statement::Dialect;
use crate::words::{Entry, W, find};

/// Walks over the tokens of a text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    lexer: Lexer<'a>,
    /// The token in hand.
    pub(crate) token: Token,
    /// Its keyword; [`W::None`] when it is not one, or stands where the server reads an identifier.
    pub(crate) word: W,
    /// What the tables know of the word in hand.
    pub(crate) entry: &'static Entry,
    /// The kind of the token before.
    pub(crate) before: TokenKind,
    /// The keyword of the token before.
    pub(crate) before_word: W,
    /// Where the token before ended.
    pub(crate) before_end: usize,
    /// How many tokens have been taken.
    pub(crate) taken: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8], dialect: &Dialect) -> Self {
        let mut cursor = Self {
            lexer: Lexer::new(text, dialect),
            token: Token { kind: TokenKind::End, start: 0, end: 0 },
            word: W::None,
            entry: &Entry::NONE,
            before: TokenKind::Semicolon,
            before_word: W::None,
            before_end: 0,
            taken: 0,
        };
        cursor.read();
        cursor
    }

    fn read(&mut self) {
        self.token = self.lexer.next_token();
        if self.token.kind == TokenKind::Word {
            let text = self.lexer.text();
            let after_dot = self.before == TokenKind::Dot && self.before_end == self.token.start;
            if !after_dot && !self.lexer.is_before_dot() {
                self.entry = find(self.token.bytes(text));
                self.word = self.entry.word;
                return;
            }
        }
        self.entry = &Entry::NONE;
        self.word = W::None;
    }

    /// Takes the token in hand.
    pub(crate) fn bump(&mut self) {
        if self.token.kind == TokenKind::End {
            return;
        }
        self.before = self.token.kind;
        self.before_word = self.word;
        self.before_end = self.token.end;
        self.taken += 1;
        self.read();
    }

    /// A copy that stands one token further on.
    pub(crate) fn ahead(&self) -> Self {
        let mut copy = *self;
        copy.bump();
        copy
    }

    pub(crate) fn kind(&self) -> TokenKind {
        self.token.kind
    }

    pub(crate) fn at(&self, word: W) -> bool {
        self.word == word
    }

    pub(crate) fn at_any(&self, words: &[W]) -> bool {
        self.word != W::None && words.contains(&self.word)
    }

    /// Takes the token in hand if it is this keyword.
    pub(crate) fn accept(&mut self, word: W) -> bool {
        let found = self.at(word);
        if found {
            self.bump();
        }
        found
    }

    pub(crate) fn accept_kind(&mut self, kind: TokenKind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.bump();
        }
        found
    }

    /// Whether the token in hand is this one-byte operator.
    pub(crate) fn at_operator(&self, operator: &[u8]) -> bool {
        self.kind() == TokenKind::Operator && self.bytes() == operator
    }

    /// `;`, the end, or something the lexer could not read.
    pub(crate) fn at_end(&self) -> bool {
        matches!(self.kind(), TokenKind::End | TokenKind::Semicolon | TokenKind::Bad)
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.token.bytes(self.lexer.text())
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.lexer.text()
    }

    pub(crate) fn dialect(&self) -> &Dialect {
        self.lexer.dialect()
    }

    pub(crate) fn hint(&self) -> Option<&'a [u8]> {
        self.lexer.hint()
    }

    /// Whether an identifier, bare or quoted, is in hand.
    pub(crate) fn at_name(&self) -> bool {
        matches!(self.kind(), TokenKind::Word | TokenKind::QuotedIdentifier)
    }
}

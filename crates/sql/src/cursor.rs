//! A lexer with one token in hand, its keyword, and what stood before it; and the hash of the digest so far.

use crate::dialect::{Dialect, Modes};
use crate::hash::{ends, name_hash};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::shape::HashShape;
use crate::words::{Entry, Flags, W, find_by_ends};

/// Walks over the tokens of a text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    lexer: Lexer<'a>,
    /// Of the tokens that were taken.
    shape: HashShape,
    /// The token in hand.
    pub(crate) token: Token,
    /// Its keyword; [`W::None`] when it is not one, or stands where the server reads an identifier.
    pub(crate) word: W,
    /// The tables' entry for the word in hand.
    pub(crate) entry: &'static Entry,
    /// Of the word in hand, for the digest.
    hash: u64,
    /// The kind of the token before.
    pub(crate) before: TokenKind,
    /// The keyword of the token before.
    pub(crate) before_word: W,
    /// Where the token before ended.
    pub(crate) before_end: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8], dialect: &Dialect) -> Self {
        let mut cursor = Self::unread(text, dialect);
        cursor.read();
        cursor
    }

    /// Before the first token: [`Cursor::read`] brings that. Not read at once it is made in place.
    #[inline(always)]
    pub(crate) fn unread(text: &'a [u8], dialect: &Dialect) -> Self {
        Self {
            lexer: Lexer::new(text, dialect),
            shape: HashShape::at_start(),
            token: Token { kind: TokenKind::End, start: 0, end: 0 },
            word: W::None,
            entry: &Entry::NONE,
            hash: 0,
            before: TokenKind::Semicolon,
            before_word: W::None,
            before_end: 0,
        }
    }

    /// Brings the first token into the hand.
    #[inline(always)]
    pub(crate) fn read(&mut self) {
        self.token = self.lexer.next_token();
        if self.token.kind == TokenKind::Word {
            let text = self.lexer.text();
            let bytes = self.token.bytes(text);
            let (first, last) = ends(bytes);
            let after_dot = self.before == TokenKind::Dot && self.before_end == self.token.start;
            if !after_dot && !self.lexer.is_before_dot() {
                self.entry = find_by_ends(bytes, first, last);
                self.word = self.entry.word;
                let is_keyword = self.entry.flags.contains(Flags::KEYWORD);
                self.hash = if is_keyword { self.entry.hash } else { name_hash(bytes, first, last) };
                return;
            }
            self.hash = name_hash(bytes, first, last);
        }
        self.entry = &Entry::NONE;
        self.word = W::None;
    }

    /// Takes the token in hand. One function, because all that it does with the digest is short but for its parts together.
    #[inline(never)]
    pub(crate) fn bump(&mut self) {
        self.shape.take(&self.token, self.entry, self.hash, self.lexer.text());
        self.step();
    }

    /// Takes the token in hand in a copy that only looks ahead: it goes into no digest.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        if self.token.kind == TokenKind::End {
            return;
        }
        self.before = self.token.kind;
        self.before_word = self.word;
        self.before_end = self.token.end;
        self.read();
    }

    /// A copy that stands one token further on, to be looked at and not to be gone on with.
    pub(crate) fn ahead(&self) -> Self {
        let mut copy = *self;
        copy.step();
        copy
    }

    /// The hash of the digest of all that was taken, and of what no server reads.
    pub(crate) fn digest_hash(&mut self) -> u64 {
        if self.kind() == TokenKind::Bad {
            self.shape.take(&self.token, self.entry, self.hash, self.lexer.text());
        }
        self.shape.hash()
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

    /// The cursor behind `%ROWCOUNT`, if that is in hand. MariaDB reads it with `sql_mode = ORACLE`: `SQL%ROWCOUNT` is ROW_COUNT().
    pub(crate) fn behind_rowcount(&self) -> Option<Self> {
        if !self.dialect().modes.contains(Modes::ORACLE) || !self.at_operator(b"%") {
            return None;
        }
        let name = self.ahead();
        name.bytes().eq_ignore_ascii_case(b"ROWCOUNT").then(|| name.ahead())
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

    /// Whether the token in hand stands in a comment that this server runs.
    pub(crate) fn in_executed_comment(&self) -> bool {
        self.lexer.in_executed_comment()
    }

    pub(crate) fn hint(&self) -> Option<&'a [u8]> {
        self.lexer.hint()
    }

    /// Whether a hint so far may give the variable `insert_id` a value.
    pub(crate) fn hints_insert_id(&self) -> bool {
        self.lexer.hints_insert_id()
    }

    /// Whether an identifier, bare or quoted, is in hand.
    pub(crate) fn at_name(&self) -> bool {
        matches!(self.kind(), TokenKind::Word | TokenKind::QuotedIdentifier)
    }
}

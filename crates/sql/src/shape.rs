//! The shape of a text: the text without its literals, found token by token. Readers of tokens for another purpose find it on
//! the way.
//!
//! No token is looked at twice and none ahead. Where only a later token tells what an earlier one was — a list of
//! literals, a call, a sign, a further row — the place is marked, and gone back to.

mod hash;

use crate::lexer::{Token, TokenKind};
use crate::words::{Entry, Flags, W};

pub(crate) use hash::HashShape;

/// How a piece of the normalised text joins its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Piece {
    Start,
    Word,
    Name,
    Literal,
    /// `(...)`: a list of literals.
    List,
    Open,
    Close,
    Comma,
    Dot,
    Operator,
    /// One that stands where a number's sign may.
    Sign,
    Semicolon,
    Introducer,
}

/// Takes the pieces.
pub(crate) trait Sink {
    /// A place to which it can go back.
    type Mark: Copy;

    /// The place before anything was taken.
    const START: Self::Mark;

    /// The place now.
    fn mark(&self) -> Self::Mark;
    /// Forgets what came behind the place.
    fn back(&mut self, mark: Self::Mark);
    /// A piece that is always the same.
    fn fixed(&mut self, piece: Fixed);
    /// A known word instead of the bare one before; `calls`: written as the name of a function, without a space before its parenthesis.
    fn word(&mut self, entry: &'static Entry, calls: bool);
    /// A bare word: a keyword, or an identifier.
    fn bare(&mut self, token: &Token, keyword: bool, hash: u64, text: &[u8]);
    /// An identifier in quotes, or a variable.
    fn name(&mut self, bytes: &[u8]);
    /// An operator or another mark.
    fn operator(&mut self, bytes: &[u8]);
}

/// Pieces that are always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fixed {
    Literal,
    List,
    Open,
    Close,
    Comma,
    Dot,
    Semicolon,
}

/// The purpose for which the next token is looked at, besides itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Awaits {
    Nothing,
    /// In parentheses with nothing but literals so far: one more.
    ListLiteral,
    /// There: a comma or the end.
    ListComma,
    /// Behind a row of VALUES: a comma.
    RowComma,
    /// Behind that: ROW, or a parenthesis.
    RowOpen,
    /// In a further row: its end.
    RowEnd,
    /// Behind a list of literals: a comma.
    MoreComma,
    /// Behind that: a parenthesis.
    MoreOpen,
    /// Behind a `;`: another statement.
    Statement,
    /// No server reads on.
    End,
}

/// No row of VALUES is open.
const NO_ROW: u32 = u32::MAX;

/// Follows the tokens of a text.
#[derive(Clone, Copy)]
pub(crate) struct Shape<S: Sink> {
    sink: S,
    awaits: Awaits,
    last: Piece,
    /// Literals that make a list: fewer are none.
    least: u8,
    /// The list in hand is a row of VALUES.
    is_row: bool,
    /// The list in hand stands beside another one.
    is_more: bool,
    /// The keyword in hand, if one is.
    entry: &'static Entry,
    /// Before the word or sign in hand.
    mark: S::Mark,
    /// Before the parenthesis of the list in hand.
    list: S::Mark,
    /// Behind the row or list that others may follow.
    end: S::Mark,
    /// As many as matter.
    literals: u8,
    /// Open parentheses.
    depth: u32,
    /// The depth at which the row of VALUES now being read closes.
    row: u32,
    /// Open parentheses of a further row.
    further: u32,
}

impl<S: Sink> Shape<S> {
    #[inline(always)]
    pub(crate) fn new(sink: S) -> Self {
        let mark = S::START;
        Self {
            sink,
            awaits: Awaits::Nothing,
            last: Piece::Start,
            least: 0,
            is_row: false,
            is_more: false,
            entry: &Entry::NONE,
            mark,
            list: mark,
            end: mark,
            literals: 0,
            depth: 0,
            row: NO_ROW,
            further: 0,
        }
    }

    pub(crate) fn into_sink(self) -> S {
        self.sink
    }

    /// Takes a token. `entry` is that of a word that stands for itself, not for an identifier, and `hash` that of a word.
    #[inline(always)]
    pub(crate) fn take(&mut self, token: &Token, entry: &'static Entry, hash: u64, text: &[u8]) {
        if self.awaits != Awaits::Nothing && self.is_taken(token, entry, text) {
            return;
        }
        let before = std::mem::replace(&mut self.entry, entry);
        if token.kind == TokenKind::Word {
            self.mark = self.sink.mark();
            let keyword = entry.flags.contains(Flags::KEYWORD);
            self.last = if keyword { Piece::Word } else { Piece::Name };
            self.sink.bare(token, keyword, hash, text);
        } else {
            self.mark_or_literal(token, before, text);
        }
    }

    /// Takes what is no word.
    #[inline(never)]
    fn mark_or_literal(&mut self, token: &Token, before: &'static Entry, text: &[u8]) {
        match token.kind {
            // Strings beside a literal are part of it.
            TokenKind::String if self.last == Piece::Literal => {}
            TokenKind::Number
            | TokenKind::String
            | TokenKind::BitString
            | TokenKind::DollarString
            | TokenKind::Placeholder => {
                if self.last == Piece::Sign && token.kind == TokenKind::Number {
                    self.sink.back(self.mark);
                }
                self.fixed(Fixed::Literal, Piece::Literal);
            }
            TokenKind::Operator | TokenKind::Assign | TokenKind::DoubleOperator | TokenKind::Other => {
                self.operator(token.bytes(text));
            }
            TokenKind::Comma => self.fixed(Fixed::Comma, Piece::Comma),
            TokenKind::Dot => self.fixed(Fixed::Dot, Piece::Dot),
            TokenKind::Open => self.open(before),
            TokenKind::Close => self.close(),
            TokenKind::QuotedIdentifier | TokenKind::UserVariable | TokenKind::SystemVariable => {
                self.sink.name(token.bytes(text));
                self.last = Piece::Name;
            }
            TokenKind::Introducer => self.last = Piece::Introducer,
            TokenKind::Semicolon => {
                if self.last != Piece::Start {
                    self.awaits = Awaits::Statement;
                }
                (self.depth, self.row) = (0, NO_ROW);
            }
            TokenKind::Bad => {
                // Half a literal, or with one quote too few in it all that seemed to stand outside of quotes.
                self.sink.back(S::START);
                self.fixed(Fixed::Literal, Piece::Literal);
                self.awaits = Awaits::End;
            }
            TokenKind::Word | TokenKind::End => {}
        }
    }

    #[inline(always)]
    fn fixed(&mut self, fixed: Fixed, piece: Piece) {
        self.sink.fixed(fixed);
        self.last = piece;
    }

    #[inline]
    fn operator(&mut self, bytes: &[u8]) {
        // No operand stands before.
        let may_sign = matches!(
            self.last,
            Piece::Start | Piece::Semicolon | Piece::Open | Piece::Comma | Piece::Operator | Piece::Sign | Piece::Word
        );
        let is_sign = may_sign && matches!(bytes, b"-" | b"+");
        self.last = if is_sign { Piece::Sign } else { Piece::Operator };
        self.mark = self.sink.mark();
        self.sink.operator(bytes);
    }

    /// `(`: of a call, of a list of literals, or of anything else. `before` is the word before it.
    #[inline(never)]
    fn open(&mut self, before: &'static Entry) {
        let values = matches!(before.word, W::Values | W::Value);
        if before.flags.contains(Flags::FUNCTION) {
            self.sink.back(self.mark);
            self.sink.word(before, !values);
        }
        self.is_row = values || before.word == W::Row;
        self.least = if self.is_row || before.word == W::In { 1 } else { 2 };
        (self.literals, self.list) = (0, self.sink.mark());
        self.awaits = Awaits::ListLiteral;
        if self.is_row && self.row == NO_ROW {
            self.row = self.depth;
        }
        self.depth = self.depth.saturating_add(1);
        self.is_more = false;
        self.fixed(Fixed::Open, Piece::Open);
    }

    #[inline(never)]
    fn close(&mut self) {
        self.fixed(Fixed::Close, Piece::Close);
        self.depth = self.depth.saturating_sub(1);
        if self.row == self.depth {
            self.row = NO_ROW;
            self.row_is_over();
        }
    }

    fn row_is_over(&mut self) {
        self.end = self.sink.mark();
        self.awaits = Awaits::RowComma;
    }

    /// Whether nothing else is to be done with a token that something was awaited from.
    #[inline(never)]
    fn is_taken(&mut self, token: &Token, entry: &'static Entry, text: &[u8]) -> bool {
        let awaited = std::mem::replace(&mut self.awaits, Awaits::Nothing);
        match (awaited, token.kind) {
            (Awaits::ListLiteral, TokenKind::Introducer) => self.awaits = Awaits::ListLiteral,
            (Awaits::ListLiteral, TokenKind::Operator) if matches!(token.bytes(text), b"-" | b"+") => {
                self.awaits = Awaits::ListLiteral;
            }
            (
                Awaits::ListLiteral,
                TokenKind::Number | TokenKind::String | TokenKind::BitString | TokenKind::Placeholder,
            ) => self.literal_of_list(),
            (Awaits::ListLiteral, TokenKind::Word) if entry.is_constant() => self.literal_of_list(),
            (Awaits::ListComma, TokenKind::Comma) => self.awaits = Awaits::ListLiteral,
            (Awaits::ListComma, TokenKind::String) if self.last == Piece::Literal => self.awaits = Awaits::ListComma,
            (Awaits::ListComma, TokenKind::Close) if self.literals >= self.least => {
                self.list_is_over();
                return true;
            }
            (Awaits::RowComma, TokenKind::Comma) => self.awaits = Awaits::RowOpen,
            (Awaits::RowOpen, TokenKind::Word) if entry.word == W::Row => self.awaits = Awaits::RowOpen,
            (Awaits::RowOpen, TokenKind::Open) => {
                self.sink.back(self.end);
                (self.awaits, self.further) = (Awaits::RowEnd, 1);
                return true;
            }
            (Awaits::RowEnd, kind) => return self.is_in_further_row(kind),
            (Awaits::MoreComma, TokenKind::Comma) => self.awaits = Awaits::MoreOpen,
            (Awaits::MoreOpen, TokenKind::Open) => {
                self.entry = &Entry::NONE;
                self.open(&Entry::NONE);
                self.is_more = true;
                return true;
            }
            (Awaits::Statement, TokenKind::Semicolon) => {
                self.awaits = Awaits::Statement;
                return true;
            }
            (Awaits::Statement, _) => self.fixed(Fixed::Semicolon, Piece::Semicolon),
            (Awaits::End, _) => {
                self.awaits = Awaits::End;
                return true;
            }
            _ => {}
        }
        false
    }

    fn literal_of_list(&mut self) {
        self.literals = self.literals.saturating_add(1);
        self.awaits = Awaits::ListComma;
    }

    /// `)` behind nothing but literals.
    fn list_is_over(&mut self) {
        self.entry = &Entry::NONE;
        self.depth = self.depth.saturating_sub(1);
        if self.row == self.depth {
            self.row = NO_ROW;
        }
        if self.is_more {
            self.sink.back(self.end);
            self.last = Piece::List;
        } else {
            self.sink.back(self.list);
            self.fixed(Fixed::List, Piece::List);
            self.end = self.sink.mark();
        }
        self.awaits = if self.is_row { Awaits::RowComma } else { Awaits::MoreComma };
    }

    /// Rows behind the first one of VALUES are left out, closed or not.
    fn is_in_further_row(&mut self, kind: TokenKind) -> bool {
        self.awaits = Awaits::RowEnd;
        match kind {
            TokenKind::Open => self.further = self.further.saturating_add(1),
            TokenKind::Close => {
                self.further -= 1;
                if self.further == 0 {
                    (self.last, self.entry) = (Piece::Close, &Entry::NONE);
                    self.awaits = Awaits::RowComma;
                }
            }
            TokenKind::Semicolon | TokenKind::Bad => {
                (self.last, self.entry) = (Piece::Close, &Entry::NONE);
                self.awaits = Awaits::Nothing;
                return false;
            }
            _ => {}
        }
        true
    }
}

//! A statement with its literals removed, and the hash of that.
//!
//! - Literals, with their sign where one stands for itself, become `?`; so do placeholders.
//! - A list of two or more literals in parentheses becomes `(...)`; after IN and VALUES a single literal does, too. Of
//!   several such lists side by side one stays, and of several rows after VALUES the first one.
//! - Comments go, also routing comments; what stands in executed comments stays.
//! - Reserved words and calls of built-in functions are written in upper case; identifiers, quoted or bare, as they
//!   are. One space parts tokens, except around dots, before commas and closing and after opening parentheses, and
//!   between a name and its parenthesis.
//! - A trailing `;` goes.
//!
//! The hash covers the whole normalised text, also what is beyond the bound of the text that is kept.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::statement::Dialect;
use crate::words::{Flags, W, find};
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// The longest normalised text that is kept, in bytes.
pub const DIGEST_TEXT_MAX: usize = 2048;

/// A normalised statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The normalised text, cut at [`DIGEST_TEXT_MAX`] bytes.
    pub text: String,
    /// Hash of the whole normalised text: equal for equal digests within one run and build of the program.
    pub hash: u64,
    /// The text was cut.
    pub cut: bool,
}

/// Normalises a text.
pub fn digest(text: &[u8], dialect: &Dialect) -> Digest {
    let mut kept = Kept { bytes: Vec::with_capacity(text.len().min(DIGEST_TEXT_MAX)), cut: false };
    let hash = normalise(text, dialect, &mut |bytes| kept.push(bytes));
    Digest { text: into_text(kept.bytes), hash, cut: kept.cut }
}

/// The hash of [`digest`] without making its text; allocates nothing.
pub fn digest_hash(text: &[u8], dialect: &Dialect) -> u64 {
    normalise(text, dialect, &mut |_| {})
}

struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        let room = DIGEST_TEXT_MAX - self.bytes.len();
        self.cut |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            // A cut in the middle of a character, or an encoding that is not UTF-8.
            let mut text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            while text.len() > DIGEST_TEXT_MAX {
                text.pop();
            }
            text
        }
    }
}

/// How a piece of the normalised text joins its neighbours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
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
    Semicolon,
}

struct Writer<'w> {
    hasher: foldhash::fast::FoldHasher<'static>,
    sink: &'w mut dyn FnMut(&[u8]),
    last: Piece,
    /// A `;` that is written only when something follows it.
    semicolon: bool,
    /// The keyword before what comes next.
    word: W,
    /// Open parentheses.
    depth: usize,
    /// The depth at which the row of VALUES now being written closes.
    row: Option<usize>,
    /// A row was found not to close: rows are not looked for again, which keeps the time linear.
    unclosed: bool,
}

impl Writer<'_> {
    fn emit(&mut self, bytes: &[u8]) {
        // How the pieces are cut goes into the hash, too: the same tokens always give the same pieces.
        self.hasher.write(bytes);
        (self.sink)(bytes);
    }

    fn piece(&mut self, piece: Piece, bytes: &[u8]) {
        if std::mem::take(&mut self.semicolon) {
            self.emit(b";");
            self.last = Piece::Semicolon;
        }
        if self.space_before(piece) {
            self.emit(b" ");
        }
        self.emit(bytes);
        self.last = piece;
    }

    fn space_before(&self, piece: Piece) -> bool {
        let joined = matches!(
            (self.last, piece),
            (Piece::Start | Piece::Open | Piece::Dot, _)
                | (_, Piece::Comma | Piece::Close | Piece::Dot)
                | (Piece::Name, Piece::Open | Piece::List)
        );
        !joined
    }
}

fn normalise(text: &[u8], dialect: &Dialect, sink: &mut dyn FnMut(&[u8])) -> u64 {
    let mut lexer = Lexer::new(text, dialect);
    let mut writer = Writer {
        hasher: FixedState::with_seed(0).build_hasher(),
        sink,
        last: Piece::Start,
        semicolon: false,
        word: W::None,
        depth: 0,
        row: None,
        unclosed: false,
    };
    loop {
        let token = lexer.next_token();
        let before = std::mem::replace(&mut writer.word, W::None);
        match token.kind {
            TokenKind::End => break,
            TokenKind::Semicolon => writer.semicolon = writer.last != Piece::Start,
            TokenKind::Open => open(&mut writer, &mut lexer, before),
            TokenKind::Close => {
                writer.piece(Piece::Close, b")");
                writer.depth = writer.depth.saturating_sub(1);
                if writer.row == Some(writer.depth) {
                    writer.row = None;
                    skip_rows(&mut writer, &mut lexer);
                }
            }
            TokenKind::Comma => writer.piece(Piece::Comma, b","),
            TokenKind::Dot => writer.piece(Piece::Dot, b"."),
            TokenKind::Word => word(&mut writer, token, text, lexer),
            TokenKind::QuotedIdentifier | TokenKind::UserVariable | TokenKind::SystemVariable => {
                writer.piece(Piece::Name, token.bytes(text));
            }
            TokenKind::Introducer => {}
            kind if is_literal(kind) => literal(&mut writer, &mut lexer),
            TokenKind::Operator if signs_literal(&writer, token, text, lexer) => {}
            _ => writer.piece(Piece::Operator, token.bytes(text)),
        }
    }
    writer.hasher.finish()
}

fn is_literal(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Number | TokenKind::String | TokenKind::BitString | TokenKind::Placeholder)
}

/// One literal, with the strings that stand beside it and are part of it.
fn literal(writer: &mut Writer<'_>, lexer: &mut Lexer<'_>) {
    skip_strings(lexer);
    writer.piece(Piece::Literal, b"?");
}

fn skip_strings(lexer: &mut Lexer<'_>) {
    loop {
        let mut ahead = *lexer;
        if ahead.next_token().kind != TokenKind::String {
            return;
        }
        *lexer = ahead;
    }
}

/// A sign that belongs to the number after it: `-1` where no operand stands before.
fn signs_literal(writer: &Writer<'_>, token: Token, text: &[u8], mut lexer: Lexer<'_>) -> bool {
    matches!(token.bytes(text), b"-" | b"+")
        && matches!(writer.last, Piece::Start | Piece::Open | Piece::Comma | Piece::Operator | Piece::Word)
        && lexer.next_token().kind == TokenKind::Number
}

fn word(writer: &mut Writer<'_>, token: Token, text: &[u8], mut lexer: Lexer<'_>) {
    let bytes = token.bytes(text);
    if writer.last == Piece::Dot {
        return writer.piece(Piece::Name, bytes);
    }
    let entry = find(bytes);
    writer.word = entry.word;
    let call = entry.flags.contains(Flags::FUNCTION) && lexer.next_token().kind == TokenKind::Open;
    let values = matches!(entry.word, W::Values | W::Value);
    let piece = if call && !values { Piece::Name } else { Piece::Word };
    if !call && !entry.flags.contains(Flags::KEYWORD) {
        return writer.piece(Piece::Name, bytes);
    }
    let mut upper = [0u8; 40];
    match upper.get_mut(..bytes.len()) {
        Some(upper) => {
            upper.copy_from_slice(bytes);
            upper.make_ascii_uppercase();
            writer.piece(piece, upper);
        }
        None => writer.piece(piece, bytes),
    }
}

/// `(`: a list of literals, or anything else.
fn open(writer: &mut Writer<'_>, lexer: &mut Lexer<'_>, before: W) {
    let row = matches!(before, W::Values | W::Value | W::Row);
    let least = if row || before == W::In { 1 } else { 2 };
    if let Some(after) = literal_list_end(*lexer, least) {
        *lexer = after;
        writer.piece(Piece::List, b"(...)");
        if row {
            skip_rows(writer, lexer);
        } else {
            skip_lists(lexer);
        }
        return;
    }
    writer.piece(Piece::Open, b"(");
    if row && writer.row.is_none() {
        writer.row = Some(writer.depth);
    }
    writer.depth += 1;
}

/// After `(`: the lexer after `)` when only literals, signs and commas stand between, and enough of them.
fn literal_list_end(mut lexer: Lexer<'_>, least: usize) -> Option<Lexer<'_>> {
    let mut literals = 0usize;
    let mut wants_literal = true;
    loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::Introducer if wants_literal => {}
            TokenKind::Operator if wants_literal && matches!(token.bytes(lexer.text()), b"-" | b"+") => {}
            kind if is_literal(kind) && wants_literal => {
                skip_strings(&mut lexer);
                literals += 1;
                wants_literal = false;
            }
            TokenKind::Word if wants_literal && is_constant(token.bytes(lexer.text())) => {
                literals += 1;
                wants_literal = false;
            }
            TokenKind::Comma if !wants_literal => wants_literal = true,
            TokenKind::Close if !wants_literal && literals >= least => return Some(lexer),
            _ => return None,
        }
    }
}

fn is_constant(word: &[u8]) -> bool {
    [b"null".as_slice(), b"true", b"false", b"default"].iter().any(|constant| word.eq_ignore_ascii_case(constant))
}

/// Leaves out the literal lists that stand beside one.
fn skip_lists(lexer: &mut Lexer<'_>) {
    loop {
        let mut ahead = *lexer;
        if ahead.next_token().kind != TokenKind::Comma || ahead.next_token().kind != TokenKind::Open {
            return;
        }
        match literal_list_end(ahead, 2) {
            Some(after) => *lexer = after,
            None => return,
        }
    }
}

/// Leaves out the rows that follow the first one.
fn skip_rows(writer: &mut Writer<'_>, lexer: &mut Lexer<'_>) {
    while !writer.unclosed {
        let mut ahead = *lexer;
        if ahead.next_token().kind != TokenKind::Comma {
            return;
        }
        let mut token = ahead.next_token();
        if token.kind == TokenKind::Word && find(token.bytes(ahead.text())).word == W::Row {
            token = ahead.next_token();
        }
        if token.kind != TokenKind::Open {
            return;
        }
        let mut depth = 1usize;
        while depth > 0 {
            match ahead.next_token().kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth -= 1,
                TokenKind::End | TokenKind::Bad | TokenKind::Semicolon => {
                    writer.unclosed = true;
                    return;
                }
                _ => {}
            }
        }
        *lexer = ahead;
    }
}

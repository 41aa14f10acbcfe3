//! Splits a text into tokens the way the server's own lexer would.
//!
//! Three things change how bytes are read, and all three are honoured here because each has been a way to smuggle a
//! write past a proxy: the session's sql_mode, multi-byte client character sets whose second byte may look like a
//! quote or a backslash, and comments whose content the server executes.

mod comment;
mod number;
mod string;
mod word;

use crate::dialect::{Dialect, Encoding, Family, Modes};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A bare word: keyword or identifier.
    Word,
    /// An identifier in backticks, or in double quotes under ANSI_QUOTES.
    QuotedIdentifier,
    /// A number: decimal, float, `0x…`, `0b…`.
    Number,
    /// A string in quotes, with its `N` prefix if it has one.
    String,
    /// `X'…'` or `B'…'`.
    BitString,
    /// `$$…$$` or `$tag$…$tag$`: the code of a routine or a library (MySQL from 9.0 on).
    DollarString,
    /// A character set introducer: `_utf8mb4` before a string.
    Introducer,
    /// `@name`, `@'name'`, `` @`name` ``.
    UserVariable,
    /// `@@name`, without what follows a dot.
    SystemVariable,
    /// `?`.
    Placeholder,
    /// `:=`.
    Assign,
    /// `||` or `&&`.
    DoubleOperator,
    /// `=`, `<=>`, `->>`, `+` and other operators.
    Operator,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `,`.
    Comma,
    /// `.`.
    Dot,
    /// `;`.
    Semicolon,
    /// `:`, `{`, `}` and other marks.
    Other,
    /// A token that no server reads: an unterminated string, comment or identifier, or a NUL byte.
    Bad,
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind.
    pub kind: TokenKind,
    /// Index of the first byte.
    pub start: usize,
    /// Index after the last byte.
    pub end: usize,
}

impl Token {
    /// The bytes of the token.
    pub fn bytes<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Gives the tokens of a text one by one; copying it is cheap and serves as look-ahead.
#[derive(Clone, Copy, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    position: usize,
    dialect: Dialect,
    /// Inside `/*! … */` or `/*M! … */` whose content is executed.
    in_executed_comment: bool,
    /// The last token was a word or quoted identifier that a dot follows at once, or that dot: what comes next is
    /// an identifier even if it looks like a keyword or a number.
    after_dot: bool,
    /// The content of the first comment that begins with `sqluice:`, as a range.
    hint: Option<(usize, usize)>,
    /// A hint for MySQL's optimizer names `insert_id`.
    hints_insert_id: bool,
}

const SPACE: u8 = 1;
const IDENTIFIER: u8 = 2;
const DIGIT: u8 = 4;
const OPERATOR: u8 = 8;
/// It begins a word wherever it begins a token.
const WORD: u8 = 16;
/// It is a token by itself.
const MARK: u8 = 32;

/// The classes of bytes. Bytes from 0x80 are parts of identifiers in every character set that a client can use; 0xa0 may be
/// white space, and `$` a quote, so that neither begins a word by this table.
static CLASS: [u8; 256] = byte_classes();

const fn byte_classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut byte = 0usize;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPACE,
            b'0'..=b'9' => IDENTIFIER | DIGIT,
            0xa0 | b'$' => IDENTIFIER,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xff => IDENTIFIER | WORD,
            b'(' | b')' | b',' | b';' | b'?' => MARK,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'~' | b'^' | b'&' | b'|' => OPERATOR,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// Whether a byte is white space between tokens.
pub(crate) fn is_space(byte: u8) -> bool {
    CLASS[byte as usize] & SPACE != 0
}

/// Whether a byte can be part of a bare identifier.
pub(crate) fn is_identifier(byte: u8) -> bool {
    CLASS[byte as usize] & IDENTIFIER != 0
}

/// The token of a byte of the class [`MARK`].
fn mark(byte: u8) -> TokenKind {
    match byte {
        b'(' => TokenKind::Open,
        b')' => TokenKind::Close,
        b',' => TokenKind::Comma,
        b';' => TokenKind::Semicolon,
        _ => TokenKind::Placeholder,
    }
}

fn is_digit(byte: u8) -> bool {
    CLASS[byte as usize] & DIGIT != 0
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `text`.
    #[inline]
    pub fn new(text: &'a [u8], dialect: &Dialect) -> Self {
        Self {
            text,
            position: 0,
            dialect: *dialect,
            in_executed_comment: false,
            after_dot: false,
            hint: None,
            hints_insert_id: false,
        }
    }

    /// The text it reads.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// How the text is read.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Index of the next byte to be read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The words of the first comment so far that begins with `sqluice:`.
    pub fn hint(&self) -> Option<&'a [u8]> {
        self.hint.and_then(|(start, end)| self.text.get(start..end))
    }

    /// Whether a hint so far may give the variable `insert_id` a value, as SET_VAR does.
    pub(crate) fn hints_insert_id(&self) -> bool {
        self.hints_insert_id
    }

    /// Whether the next token stands in a comment that the server executes.
    pub fn in_executed_comment(&self) -> bool {
        self.in_executed_comment
    }

    /// Behind a word: a dot and another name follow it at once.
    pub(crate) fn is_before_dot(&self) -> bool {
        self.after_dot
    }

    fn byte(&self, index: usize) -> u8 {
        self.text.get(index).copied().unwrap_or(0)
    }

    fn ends_at(&self, index: usize) -> bool {
        index >= self.text.len()
    }

    fn has(&self, mode: Modes) -> bool {
        self.dialect.modes.contains(mode)
    }

    /// The next token; [`TokenKind::End`] for ever once the text is used up.
    pub fn next_token(&mut self) -> Token {
        let after_dot = std::mem::take(&mut self.after_dot);
        let mut start = self.position;
        while let Some(&byte) = self.text.get(start) {
            let class = CLASS[byte as usize];
            if class & SPACE != 0 {
                start += 1;
            } else if class & WORD != 0 {
                let end = self.identifier_end(start);
                if byte == b'_' || self.byte(end) == b'\'' {
                    return self.word(start, after_dot);
                }
                return self.plain_word(start, end);
            } else if class & MARK != 0 {
                return self.take(mark(byte), start, start + 1);
            } else {
                self.position = start;
                if let Some(token) = self.other_token(byte, after_dot) {
                    return token;
                }
                start = self.position;
            }
        }
        // The end inside `/*!` is an error to the server.
        let kind = if std::mem::take(&mut self.in_executed_comment) { TokenKind::Bad } else { TokenKind::End };
        self.take(kind, start, start)
    }

    /// The token that begins with `byte` here, unless that is a comment, or white space to this dialect: skipped then.
    fn other_token(&mut self, byte: u8, after_dot: bool) -> Option<Token> {
        let start = self.position;
        let next = self.byte(start + 1);
        let kind = match byte {
            // A no-break space parts words in latin1 and its relatives.
            0xa0 if self.dialect.encoding == Encoding::AsciiSafe => {
                self.position += 1;
                return None;
            }
            0xa0 => return Some(self.word(start, after_dot)),
            b'$' if !after_dot => return Some(self.dollar(start)),
            b'$' => return Some(self.word(start, true)),
            b'0'..=b'9' if !after_dot => return Some(self.number(start)),
            b'0'..=b'9' => return Some(self.word(start, true)),
            b'\'' => return Some(self.string(start, start)),
            b'"' if self.has(Modes::ANSI_QUOTES) => return Some(self.quoted_identifier(start, start, b'"')),
            b'"' => return Some(self.string(start, start)),
            b'`' => return Some(self.quoted_identifier(start, start, b'`')),
            b'#' => {
                self.skip_line();
                return None;
            }
            b'-' if next == b'-' && self.dashes_open_comment(start) => {
                self.skip_line();
                return None;
            }
            b'/' if next == b'*' => return self.open_comment(start),
            b'*' if next == b'/' && self.in_executed_comment => {
                self.in_executed_comment = false;
                self.position += 2;
                return None;
            }
            b'@' => return Some(self.variable(start)),
            b'.' if is_digit(next) && !after_dot => return Some(self.fraction(start)),
            b'.' => {
                self.after_dot = is_identifier(next);
                TokenKind::Dot
            }
            b':' if next == b'=' => return Some(self.take(TokenKind::Assign, start, start + 2)),
            b'|' if next == b'|' => return Some(self.take(TokenKind::DoubleOperator, start, start + 2)),
            b'&' if next == b'&' => return Some(self.take(TokenKind::DoubleOperator, start, start + 2)),
            0 => TokenKind::Bad,
            _ if CLASS[byte as usize] & OPERATOR != 0 => return Some(self.operator(start, byte, next)),
            _ => TokenKind::Other,
        };
        Some(self.take(kind, start, start + 1))
    }

    #[inline]
    fn take(&mut self, kind: TokenKind, start: usize, end: usize) -> Token {
        self.position = end;
        Token { kind, start, end }
    }

    fn operator(&mut self, start: usize, byte: u8, next: u8) -> Token {
        let third = self.byte(start + 2);
        let length = match (byte, next, third) {
            (b'<', b'=', b'>') | (b'-', b'>', b'>') => 3,
            (b'<', b'=' | b'>' | b'<', _) | (b'>', b'=' | b'>', _) | (b'!', b'=', _) | (b'-', b'>', _) => 2,
            _ => 1,
        };
        self.take(TokenKind::Operator, start, start + length)
    }

    /// The length of the character at `index`: more than one only where its tail may look like ASCII.
    fn character_length(&self, index: usize) -> usize {
        character_length(self.dialect.encoding, self.text.get(index..).unwrap_or_default())
    }

    fn is_mariadb(&self) -> bool {
        self.dialect.family == Family::MariaDb
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    /// Every token before the end.
    fn next(&mut self) -> Option<Token> {
        let token = self.next_token();
        (token.kind != TokenKind::End).then_some(token)
    }
}

/// The length of the character that `bytes` begins with: more than one only where its tail may look like ASCII.
///
/// A lead byte without a valid tail counts as one byte, as in the servers' `ismbchar`.
pub(crate) fn character_length(encoding: Encoding, bytes: &[u8]) -> usize {
    let (lead, tail) = match bytes {
        [lead @ 0x81..=0xff, tail, ..] => (*lead, *tail),
        _ => return 1,
    };
    let valid = match encoding {
        Encoding::AsciiSafe | Encoding::Utf8 => false,
        Encoding::Big5 => matches!((lead, tail), (0xa1..=0xf9, 0x40..=0x7e | 0xa1..=0xfe)),
        Encoding::Gbk => matches!((lead, tail), (0x81..=0xfe, 0x40..=0x7e | 0x80..=0xfe)),
        Encoding::Sjis => matches!((lead, tail), (0x81..=0x9f | 0xe0..=0xfc, 0x40..=0x7e | 0x80..=0xfc)),
        Encoding::Gb18030 => match (lead, tail, bytes.get(2), bytes.get(3)) {
            (..=0xfe, 0x30..=0x39, Some(0x81..=0xfe), Some(0x30..=0x39)) => return 4,
            (..=0xfe, 0x40..=0x7e | 0x80..=0xfe, _, _) => true,
            _ => false,
        },
    };
    if valid { 2 } else { 1 }
}

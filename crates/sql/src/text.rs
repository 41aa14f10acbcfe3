//! Decodes what tokens say, and writes values back as SQL.

use crate::dialect::{Dialect, Encoding, Modes};
use crate::lexer::{Lexer, Token, TokenKind};
use std::borrow::Cow;
use std::fmt::Write;

/// Whether a text holds `@x`, wherever that stands, also an account (`user@host`); `@@x` is a system variable.
pub fn names_user_variable(text: &[u8]) -> bool {
    memchr::memchr_iter(b'@', text).any(|at| {
        let (before, behind) = text.split_at(at);
        before.last() != Some(&b'@') && behind.get(1) != Some(&b'@')
    })
}

/// A name in lower case, as servers fold it: the Kelvin sign stays and is no `k`, nor is a capital sharp s a small one (seen with
/// MariaDB 10.11 and MySQL 9.7).
pub fn fold(name: &str) -> String {
    let fold = |letter: char| {
        let mut small = letter.to_lowercase();
        match (small.next(), small.next()) {
            (Some(one), None) if (letter.is_ascii() || !one.is_ascii()) && letter != '\u{1e9e}' => one,
            _ => letter,
        }
    };
    name.chars().map(fold).collect()
}

/// The name an identifier token stands for: without quotes, doubled quotes undone, case kept.
///
/// Bytes that are not UTF-8 become replacement characters: such a name compares unequal to every real one.
pub fn identifier<'a>(token: Token, text: &'a [u8]) -> Cow<'a, str> {
    let bytes = token.bytes(text);
    match token.kind {
        TokenKind::QuotedIdentifier => unquote(bytes),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// Whether a text has `name` as an identifier, of this schema if it says one; for texts whose tables nobody can tell.
///
/// It errs on the side of yes: the identifier may stand for something else than a table, and one without a schema may be in any.
pub fn mentions(text: &[u8], dialect: &Dialect, schema: Option<&str>, name: &str) -> bool {
    let mut tokens = Lexer::new(text, dialect).peekable();
    let (mut qualifier, mut last): (Option<Token>, Option<Token>) = (None, None);
    while let Some(token) = tokens.next() {
        match token.kind {
            TokenKind::Word | TokenKind::QuotedIdentifier => {
                let is_qualifier = tokens.peek().is_some_and(|next| next.kind == TokenKind::Dot);
                let named = |token| identifier(token, text);
                let fits = qualifier.zip(schema).is_none_or(|(written, wanted)| named(written) == wanted);
                if !is_qualifier && fits && named(token) == name {
                    return true;
                }
                last = Some(token);
                qualifier = None;
            }
            TokenKind::Dot => qualifier = last.take(),
            _ => (qualifier, last) = (None, None),
        }
    }
    false
}

/// The bytes of an identifier token without the quotes around it; marks inside are left doubled.
pub(crate) fn unquoted(token: Token, text: &[u8]) -> &[u8] {
    let bytes = token.bytes(text);
    match (token.kind, bytes) {
        (TokenKind::QuotedIdentifier, [_, body @ .., _]) => body,
        _ => bytes,
    }
}

fn unquote(bytes: &[u8]) -> Cow<'_, str> {
    let Some((&mark, rest)) = bytes.split_first() else { return Cow::Borrowed("") };
    let body = rest.strip_suffix(&[mark]).unwrap_or(rest);
    if !body.contains(&mark) {
        return String::from_utf8_lossy(body);
    }
    Cow::Owned(String::from_utf8_lossy(&undouble(body, mark)).into_owned())
}

fn undouble(body: &[u8], mark: u8) -> Vec<u8> {
    let mut plain = Vec::with_capacity(body.len());
    let mut index = 0;
    while let Some(&byte) = body.get(index) {
        plain.push(byte);
        index += if byte == mark && body.get(index + 1) == Some(&mark) { 2 } else { 1 };
    }
    plain
}

/// The name of a user variable token as the server folds it: lower case, without `@` and quotes.
pub fn user_variable(token: Token, text: &[u8], dialect: &Dialect) -> String {
    let bytes = token.bytes(text);
    let name = bytes.get(1..).unwrap_or_default();
    match name.first() {
        Some(b'`') => fold(&unquote(name)),
        Some(b'\'' | b'"') => fold(&String::from_utf8_lossy(&string_body(name, dialect))),
        _ => fold(&String::from_utf8_lossy(name)),
    }
}

/// The bytes a string token stands for, escapes undone; its character set is the session's.
pub fn string(token: Token, text: &[u8], dialect: &Dialect) -> Vec<u8> {
    let bytes = token.bytes(text);
    match bytes.first() {
        Some(b'n' | b'N') => string_body(&bytes[1..], dialect),
        _ => string_body(bytes, dialect),
    }
}

fn string_body(quoted: &[u8], dialect: &Dialect) -> Vec<u8> {
    let Some((&mark, rest)) = quoted.split_first() else { return Vec::new() };
    let body = rest.strip_suffix(&[mark]).unwrap_or(rest);
    let escapes = !dialect.modes.contains(Modes::NO_BACKSLASH_ESCAPES);
    let mut plain = Vec::with_capacity(body.len());
    let mut index = 0;
    while let Some(&byte) = body.get(index) {
        let length = crate::lexer::character_length(dialect.encoding, &body[index..]);
        if length > 1 {
            plain.extend_from_slice(&body[index..(index + length).min(body.len())]);
            index += length;
        } else if byte == b'\\' && escapes {
            let escaped = body.get(index + 1).copied().unwrap_or(b'\\');
            match escaped {
                b'0' => plain.push(0),
                b'n' => plain.push(b'\n'),
                b't' => plain.push(b'\t'),
                b'r' => plain.push(b'\r'),
                b'b' => plain.push(0x08),
                b'Z' => plain.push(0x1a),
                // These keep their backslash: it belongs to LIKE patterns.
                b'%' | b'_' => plain.extend_from_slice(&[b'\\', escaped]),
                _ => plain.push(escaped),
            }
            index += 2;
        } else {
            plain.push(byte);
            index += if byte == mark && body.get(index + 1) == Some(&mark) { 2 } else { 1 };
        }
    }
    plain
}

/// A SQL literal that gives `value` on any connection, whatever its sql_mode and client character set.
///
/// - Printable ASCII without a backslash: single quotes, inner quotes doubled. No mode and no client character set
///   reads that differently.
/// - Other text (backslashes, control characters, and characters beyond ASCII when the encoding is
///   [`Encoding::Utf8`]): `_utf8mb4 X'…'`, which no mode touches. As a user variable's value it has utf8mb4's default
///   collation instead of the connection's.
/// - Bytes beyond ASCII in an encoding whose character set is not known here: `None`, because which characters they
///   are cannot be told.
pub fn literal(value: &[u8], encoding: Encoding) -> Option<String> {
    if value.iter().all(|&byte| (b' '..=b'~').contains(&byte) && byte != b'\\') {
        let mut sql = String::with_capacity(value.len() + 2);
        sql.push('\'');
        for &byte in value {
            if byte == b'\'' {
                sql.push('\'');
            }
            sql.push(char::from(byte));
        }
        sql.push('\'');
        return Some(sql);
    }
    let known = value.is_ascii() || (encoding == Encoding::Utf8 && std::str::from_utf8(value).is_ok());
    known.then(|| format!("_utf8mb4 {}", hexadecimal(value)))
}

/// `value` as a binary string literal: `X'…'`.
pub fn hexadecimal(value: &[u8]) -> String {
    let mut sql = String::with_capacity(value.len() * 2 + 3);
    sql.push_str("X'");
    for byte in value {
        // Writing to a String cannot fail.
        let _ = write!(sql, "{byte:02X}");
    }
    sql.push('\'');
    sql
}

/// A name in backticks, inner backticks doubled: an identifier in every sql_mode.
pub fn quote_identifier(name: &str) -> String {
    let mut sql = String::with_capacity(name.len() + 2);
    sql.push('`');
    for character in name.chars() {
        if character == '`' {
            sql.push('`');
        }
        sql.push(character);
    }
    sql.push('`');
    sql
}

/// The first name of a system variable token: `@@name` without `@@` and quotes.
pub(crate) fn system_variable(token: Token, text: &[u8]) -> Cow<'_, str> {
    let name = token.bytes(text).get(2..).unwrap_or_default();
    match name.first() {
        Some(b'`' | b'"') => unquote(name),
        _ => String::from_utf8_lossy(name),
    }
}

//! A text in which something stands for each literal.

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::text::string;
use crate::words::{W, find_quoted};

/// The text with each literal replaced by the text that `give` makes of its value, and without comments. The value of a string
/// is that behind its escapes, so that equal values are equal however they are written.
///
/// `None` for a text that holds bytes that no server reads, or that may hold a password: such a word stands in a statement that
/// is no plain query.
pub fn replace_literals(text: &[u8], dialect: &Dialect, mut give: impl FnMut(&[u8]) -> String) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(text, dialect);
    let mut out = Vec::with_capacity(text.len());
    let (mut end, mut is_first, mut is_query) = (0, true, false);
    loop {
        let token = cursor.token;
        let bytes = token.bytes(text);
        if token.start > end && !out.is_empty() && token.kind != TokenKind::End {
            out.push(b' ');
        }
        match token.kind {
            TokenKind::End => return Some(out),
            TokenKind::Bad => return None,
            TokenKind::Number | TokenKind::BitString | TokenKind::DollarString => {
                out.extend_from_slice(give(bytes).as_bytes())
            }
            TokenKind::String => out.extend_from_slice(give(&string(token, text, dialect)).as_bytes()),
            TokenKind::Word | TokenKind::QuotedIdentifier if !is_query && !is_first && may_be_secret(bytes) => {
                return None;
            }
            _ => out.extend_from_slice(bytes),
        }
        match token.kind {
            TokenKind::Semicolon => is_first = true,
            TokenKind::Open if is_first => {}
            _ if is_first => (is_first, is_query) = (false, begins_query(find_quoted(bytes).word)),
            _ => {}
        }
        end = token.end;
        cursor.step();
    }
}

/// Statements in which a password is a value as others are: a literal, or a column's name.
fn begins_query(word: W) -> bool {
    matches!(word, W::Select | W::Insert | W::Update | W::Delete | W::Replace | W::With | W::Values | W::Call | W::Do)
}

/// Behind such a word a password may stand without quotes, or in those of a name.
fn may_be_secret(bytes: &[u8]) -> bool {
    let ends_in = |word: &[u8]| {
        let tail = bytes.len().checked_sub(word.len()).and_then(|from| bytes.get(from..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word))
    };
    bytes.eq_ignore_ascii_case(b"identified") || ends_in(b"password") || ends_in(b"password`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Encoding, Family, Modes};

    fn replaced(text: &str) -> Option<String> {
        replaced_in(text, Modes::empty())
    }

    fn replaced_in(text: &str, modes: Modes) -> Option<String> {
        let dialect = Dialect { family: Family::MariaDb, version: 101_119, modes, encoding: Encoding::AsciiSafe };
        let give = |value: &[u8]| format!("<{}>", String::from_utf8_lossy(value));
        replace_literals(text.as_bytes(), &dialect, give).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn literals_are_replaced_and_comments_go() {
        for (text, expected) in [
            ("SELECT a FROM t WHERE id = 5 AND b='x'", "SELECT a FROM t WHERE id = <5> AND b=<x>"),
            ("SELECT 'it''s', \"a\\\"b\", N'n', -1.5e3", "SELECT <it's>, <a\"b>, <n>, -<1.5e3>"),
            ("/* secret */ SELECT 1 -- secret", "SELECT <1>"),
            ("SELECT/* secret */1", "SELECT <1>"),
            (
                "INSERT INTO t (password) VALUES (X'41', 0x42),(NULL, ?)",
                "INSERT INTO t (password) VALUES (<X'41'>, <0x42>),(NULL, ?)",
            ),
            ("(SELECT password FROM t)", "(SELECT password FROM t)"),
            ("SET @a = 'x'; SELECT `b` FROM t", "SET @a = <x>; SELECT `b` FROM t"),
            ("PREPARE p FROM 'SELECT ''x'''", "PREPARE p FROM <SELECT 'x'>"),
            ("SELECT 'a' 'b'", "SELECT <a> <b>"),
            ("", ""),
        ] {
            assert_eq!(replaced(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(replaced_in("SELECT \"a\" = 'b'", Modes::ANSI_QUOTES).as_deref(), Some("SELECT \"a\" = <b>"));
    }

    #[test]
    fn passwords_and_broken_texts_give_nothing() {
        for text in [
            "SELECT 'x",
            "SELECT 1 /* x",
            "CREATE USER u IDENTIFIED BY 'x'",
            "alter user u identified via p using x",
            "SET PASSWORD = x",
            "SELECT 1; SET PASSWORD FOR u = PASSWORD(x)",
            "CHANGE MASTER TO MASTER_PASSWORD = x",
            "BEGIN NOT ATOMIC SET PASSWORD = x; END",
            "EXPLAIN ALTER USER u IDENTIFIED BY `x`",
        ] {
            assert_eq!(replaced(text), None, "{text}");
        }
    }
}

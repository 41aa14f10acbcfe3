//! Changes to the text that PREPARE and EXECUTE IMMEDIATE have as a literal.

use super::Rewritten;
use crate::cursor::Cursor;
use crate::dialect::{Dialect, Encoding};
use crate::lexer::TokenKind;
use crate::text;
use crate::words::W;

/// A PREPARE or EXECUTE IMMEDIATE with another text in its literal: the one that `change` makes of it. `None` if that makes none, for
/// any other statement, and where the text is not a single literal in quotes whose bytes can be quoted anew.
pub fn in_prepared_text(
    text: &[u8],
    dialect: &Dialect,
    change: impl FnOnce(&[u8]) -> Option<Rewritten>,
) -> Option<Rewritten> {
    let mut cursor = Cursor::new(text, dialect);
    if cursor.accept(W::Prepare) {
        cursor.at_name().then(|| cursor.bump())?;
        cursor.accept(W::From).then_some(())?;
    } else {
        (cursor.accept(W::Execute) && cursor.accept(W::Immediate)).then_some(())?;
    }
    let literal = cursor.token;
    let is_quoted = matches!(literal.bytes(text).first(), Some(b'\'' | b'"'));
    // In other encodings a quote can be half of a character.
    let is_safe = matches!(dialect.encoding, Encoding::Utf8 | Encoding::AsciiSafe);
    let is_plain = cursor.kind() == TokenKind::String && is_quoted && is_safe;
    cursor.bump();
    if !is_plain || cursor.kind() == TokenKind::String {
        return None;
    }
    let changed = change(&text::string(literal, text, dialect))?;
    // Whether a backslash needs another one depends on the mode.
    if changed.text.contains(&b'\\') {
        return None;
    }
    let mut quoted = Vec::with_capacity(text.len() + changed.text.len());
    quoted.extend_from_slice(&text[..literal.start]);
    quoted.push(b'\'');
    for &byte in &changed.text {
        let times = if byte == b'\'' { 2 } else { 1 };
        quoted.extend(std::iter::repeat_n(byte, times));
    }
    quoted.push(b'\'');
    quoted.extend_from_slice(&text[literal.end..]);
    Some(Rewritten { text: quoted, renames: changed.renames })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Family, Modes};
    use crate::rewrite::{OwnValue, functions};

    const DIALECT: Dialect =
        Dialect { family: Family::MySql, version: 90_700, modes: Modes::empty(), encoding: Encoding::Utf8 };

    #[test]
    fn the_literal_of_a_prepared_text_is_changed() {
        let changed = |sql: &str| {
            let change = |text: &[u8]| functions(text, &DIALECT, &[OwnValue::ConnectionId(7)]);
            in_prepared_text(sql.as_bytes(), &DIALECT, change).map(|changed| String::from_utf8(changed.text).unwrap())
        };
        assert_eq!(
            changed("PREPARE p FROM 'SELECT CONNECTION_ID(), ''it''''s'''").unwrap(),
            "PREPARE p FROM 'SELECT CAST(7 AS UNSIGNED) AS `CONNECTION_ID()`, ''it''''s'''"
        );
        assert_eq!(
            changed("EXECUTE IMMEDIATE \"SELECT connection_id() = ?\" USING @a").unwrap(),
            "EXECUTE IMMEDIATE 'SELECT CAST(7 AS UNSIGNED) = ? AS `connection_id() = ?`' USING @a"
        );
        for sql in [
            "PREPARE p FROM 'SELECT 1'",
            "PREPARE p FROM @q",
            "PREPARE p FROM 'SELECT ' 'CONNECTION_ID()'",
            "PREPARE p FROM _utf8mb4'SELECT CONNECTION_ID()'",
            "PREPARE p FROM 'SELECT CONNECTION_ID(), ''\\\\'''",
            "SELECT 'SELECT CONNECTION_ID()'",
        ] {
            assert_eq!(changed(sql), None, "{sql}");
        }
    }
}

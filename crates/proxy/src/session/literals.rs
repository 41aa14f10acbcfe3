//! User variables' values as SQL literals that make the same value, of the same type, on another connection.

use std::borrow::Cow;

use sql::{Effect, Value};
use wire::codec::Malformed;
use wire::command::Command;

use super::Session;
use super::request::Work;

/// Character sets in which an ASCII character is more than its own byte.
const WIDE: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

/// Types of `enum_field_types` that user variables have; all others are strings.
const LONGLONG: u8 = 0x08;
const DOUBLE: u8 = 0x05;
const NEWDECIMAL: u8 = 0xf6;

impl Session {
    /// The effects of a statement, its strings with the collation that the connection had when they were read.
    pub(super) fn effects_of<'a>(&self, work: &'a Work) -> Cow<'a, [Effect]> {
        let effects = &work.statement.effects;
        let sets_text = |effect: &Effect| match effect {
            Effect::UserVariable { value: Value::Literal(literal), .. } => is_text(literal),
            _ => false,
        };
        if !effects.iter().any(sets_text) {
            return Cow::Borrowed(effects);
        }
        let changes = |effect: &Effect| match effect {
            Effect::Names { .. } | Effect::CharacterSet(_) => true,
            Effect::Variable { name, .. } => {
                matches!(&**name, "collation_connection" | "character_set_connection")
            }
            _ => false,
        };
        // A prepared text was read when it was prepared, and the parts of a longer one each in their turn.
        let sure = work.command == Command::Query && !effects.iter().any(changes);
        let catalog = self.cluster.catalog();
        let collation = Some(&self.state).filter(|_| sure).and_then(|state| state.connection_collation(&catalog));
        let collated = effects.iter().cloned().map(|effect| match effect {
            Effect::UserVariable { name, value: Value::Literal(literal) } if is_text(&literal) => {
                let value = collation.and_then(|collation| collated(&literal, collation));
                Effect::UserVariable { name, value: value.map_or(Value::Unknown, Value::Literal) }
            }
            effect => effect,
        });
        Cow::Owned(collated.collect())
    }
}

/// Whether a literal is a string whose collation is the connection's.
fn is_text(literal: &str) -> bool {
    literal.starts_with('\'') || literal.starts_with("_utf8mb4 ")
}

/// A string literal with its collation. `None` where only the server can say what it makes of it.
fn collated(literal: &str, collation: &str) -> Option<String> {
    let charset = collation.split('_').next()?;
    match charset {
        _ if !is_word(collation) || WIDE.contains(&charset) => None,
        "binary" if literal.starts_with('\'') => Some(format!("_binary{literal}")),
        _ if literal.starts_with('\'') => Some(format!("_{charset}{literal} COLLATE {collation}")),
        "utf8mb4" => Some(format!("{literal} COLLATE {collation}")),
        _ => None,
    }
}

/// Nothing but letters, digits and `_`.
pub(super) fn is_word(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The literal for a value of this column type (and whether it is unsigned), with its bytes and collation.
///
/// # Errors
/// There is none: the bytes are no text of that collation, which MariaDB allows a variable to have.
pub(super) fn literal(
    (kind, unsigned): (u8, bool),
    value: Option<&[u8]>,
    hex: Option<&[u8]>,
    collation: Option<&[u8]>,
) -> Result<String, Malformed> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("user variable: text"));
    // A NULL has a type, too.
    let Some(value) = value else {
        let collation = text(collation.unwrap_or_default())?;
        return Ok(match (kind, collation.split_once('_')) {
            (LONGLONG, _) => format!("CAST(NULL AS {}SIGNED)", if unsigned { "UN" } else { "" }),
            (DOUBLE, _) => "CAST(NULL AS DOUBLE)".into(),
            (NEWDECIMAL, _) => "CAST(NULL AS DECIMAL(65,30))".into(),
            (_, Some((charset, _))) if is_word(&collation) => {
                format!("CAST(NULL AS CHAR CHARACTER SET {charset}) COLLATE {collation}")
            }
            _ => "NULL".into(),
        });
    };
    match kind {
        LONGLONG if unsigned => Ok(format!("CAST({} AS UNSIGNED)", text(value)?)),
        LONGLONG => text(value),
        NEWDECIMAL if !value.contains(&b'.') => Ok(format!("{}.", text(value)?)),
        NEWDECIMAL => text(value),
        DOUBLE if value.iter().any(|byte| matches!(byte, b'e' | b'E')) => text(value),
        DOUBLE => Ok(format!("{}e0", text(value)?)),
        _ => {
            let (hex, collation) = (text(hex.unwrap_or_default())?, text(collation.unwrap_or_default())?);
            let charset = collation.split('_').next().unwrap_or_default();
            match charset {
                "binary" | "" => Ok(format!("X'{hex}'")),
                // No connection takes what is no text in a literal, yet variables may have it.
                _ if charset.starts_with("utf8") && !is_utf8(&hex) => Err(Malformed("user variable: text")),
                _ if is_word(&collation) => Ok(format!("_{charset} X'{hex}' COLLATE {collation}")),
                _ => Err(Malformed("user variable: collation")),
            }
        }
    }
}

fn is_utf8(hex: &str) -> bool {
    let digit = |at: usize| char::from(hex.as_bytes().get(at).copied().unwrap_or_default()).to_digit(16);
    let byte = |at: usize| u8::try_from(digit(at)? << 4 | digit(at + 1)?).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    bytes.is_some_and(|bytes| std::str::from_utf8(&bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_written_so_that_it_comes_back_as_itself() {
        for (kind, value, hex, collation, expected) in [
            (LONGLONG, "-5", "FB", "latin1_swedish_ci", "-5"),
            (NEWDECIMAL, "1.50", "2", "latin1_swedish_ci", "1.50"),
            (NEWDECIMAL, "7", "7", "latin1_swedish_ci", "7."),
            (DOUBLE, "1.5", "2", "latin1_swedish_ci", "1.5e0"),
            (DOUBLE, "1e300", "0", "latin1_swedish_ci", "1e300"),
            (0xfd, "é", "C3A9", "utf8mb4_bin", "_utf8mb4 X'C3A9' COLLATE utf8mb4_bin"),
            (0xfd, "x", "78", "binary", "X'78'"),
        ] {
            let read = literal((kind, false), Some(value.as_bytes()), Some(hex.as_bytes()), Some(collation.as_bytes()));
            assert_eq!(read.as_deref(), Ok(expected));
        }
        let unsigned = literal((LONGLONG, true), Some(b"5"), Some(b"5"), Some(b"latin1_swedish_ci"));
        assert_eq!(unsigned.as_deref(), Ok("CAST(5 AS UNSIGNED)"));
        assert_eq!(literal((0xfd, false), None, None, None).as_deref(), Ok("NULL"));
        assert!(literal((0xfd, false), Some(b"x"), Some(b"78"), Some(b"x';--")).is_err());
        let broken = |collation: &[u8]| literal((0xfd, false), Some(b"?"), Some(b"FF27"), Some(collation)).is_err();
        assert!(broken(b"utf8mb4_bin") && !broken(b"latin1_bin") && !broken(b"binary"));
    }

    #[test]
    fn strings_keep_the_collation_that_they_were_read_with() {
        for (literal, collation, expected) in [
            ("'it''s'", "latin1_swedish_ci", Some("_latin1'it''s' COLLATE latin1_swedish_ci")),
            ("'x'", "binary", Some("_binary'x'")),
            ("'x'", "utf16_bin", None),
            ("'x'", "@@collation_database", None),
            ("_utf8mb4 X'C3A4'", "utf8mb4_bin", Some("_utf8mb4 X'C3A4' COLLATE utf8mb4_bin")),
            ("_utf8mb4 X'C3A4'", "latin1_swedish_ci", None),
        ] {
            assert_eq!(collated(literal, collation).as_deref(), expected, "{literal} {collation}");
        }
    }
}

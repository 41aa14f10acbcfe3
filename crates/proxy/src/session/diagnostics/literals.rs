//! User variables' values as SQL literals that make the same value, of the same type, on another connection.

use std::borrow::Cow;

use sql::{Effect, Value};
use wire::codec::Malformed;
use wire::command::Command;

use crate::session::Session;
use crate::session::query::Query;

/// Character sets in which an ASCII character is more than its own byte.
const WIDE: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

/// Types of `enum_field_types` that user variables have; all others are strings.
const LONGLONG: u8 = 0x08;
const DOUBLE: u8 = 0x05;
const NEWDECIMAL: u8 = 0xf6;

impl Session {
    /// The effects of a statement, its strings with the collation that the connection had when they were read.
    pub(in crate::session) fn effects_of<'a>(&self, query: &'a Query<'a>) -> Cow<'a, [Effect]> {
        let effects = &query.statement.effects;
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
        let sure = query.command == Command::Query && !effects.iter().any(changes);
        let catalog = self.here.cluster.catalog();
        let collation =
            Some(&self.belief.state).filter(|_| sure).and_then(|state| state.connection_collation(&catalog));
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

/// Whether the literals of a session with this collation are made of other bytes than their text.
pub(in crate::session) fn is_wide(collation: &str) -> bool {
    collation.split('_').next().is_some_and(|charset| WIDE.contains(&charset))
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
pub(in crate::session) fn is_word(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value of a user variable, as the server reported it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) enum ReportedVariable {
    /// This literal makes its value.
    Value(String),
    /// It is NULL, and has the type of this literal.
    Null(String),
    /// It was never set.
    Nothing,
}

/// The literal for a value of this column type (and whether it is unsigned), with its bytes and collation.
///
/// # Errors
/// There is none: the bytes are no text of that collation, which MariaDB allows a variable to have.
pub(in crate::session) fn literal(
    (kind, unsigned): (u8, bool),
    value: Option<&[u8]>,
    hex: Option<&[u8]>,
    collation: Option<&[u8]>,
) -> Result<ReportedVariable, Malformed> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("user variable: text"));
    // A NULL has a type, too.
    let Some(value) = value else {
        let collation = text(collation.unwrap_or_default())?;
        return Ok(match (kind, collation.split_once('_')) {
            (LONGLONG, _) => ReportedVariable::Null(format!("CAST(0 AS {}SIGNED)", if unsigned { "UN" } else { "" })),
            (DOUBLE, _) => ReportedVariable::Null("0e0".into()),
            (NEWDECIMAL, _) => ReportedVariable::Null("CAST(0 AS DECIMAL(65,30))".into()),
            (_, Some((charset, _))) if is_word(&collation) => {
                ReportedVariable::Null(format!("_{charset} X'' COLLATE {collation}"))
            }
            _ => ReportedVariable::Null("X''".into()),
        });
    };
    let literal = match kind {
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
    };
    literal.map(ReportedVariable::Value)
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
            (0xfa, "é", "C3A9", "utf8mb4_bin", "_utf8mb4 X'C3A9' COLLATE utf8mb4_bin"),
            (0xfa, "x", "78", "binary", "X'78'"),
        ] {
            let read = literal((kind, false), Some(value.as_bytes()), Some(hex.as_bytes()), Some(collation.as_bytes()));
            assert_eq!(read, Ok(ReportedVariable::Value(expected.into())));
        }
        let unsigned = literal((LONGLONG, true), Some(b"5"), Some(b"5"), Some(b"latin1_swedish_ci"));
        assert_eq!(unsigned, Ok(ReportedVariable::Value("CAST(5 AS UNSIGNED)".into())));
        let null = |kind, collation: &str| literal((kind, false), None, None, Some(collation.as_bytes()));
        assert_eq!(null(DOUBLE, "binary"), Ok(ReportedVariable::Null("0e0".into())));
        assert_eq!(null(0xfa, "latin1_bin"), Ok(ReportedVariable::Null("_latin1 X'' COLLATE latin1_bin".into())));
        assert_eq!(null(0xfa, "binary"), Ok(ReportedVariable::Null("X''".into())));
        assert!(literal((0xfa, false), Some(b"x"), Some(b"78"), Some(b"x';--")).is_err());
        let broken = |collation: &[u8]| literal((0xfa, false), Some(b"?"), Some(b"FF27"), Some(collation)).is_err();
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

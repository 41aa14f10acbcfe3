//! Whether a text may call code that is stored on the server.

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::text;
use crate::words::{Flags, W, find_quoted};

/// Whether a text, such as a definition, may call a stored routine: it holds CALL, or a name ahead of a parenthesis that is none of the
/// server's own words. A table or a view with a list of columns counts, too.
pub fn may_call_stored(text: &[u8], dialect: &Dialect) -> bool {
    let mut cursor = Cursor::new(text, dialect);
    while !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad) {
        let (token, calls, is_name) = (cursor.token, cursor.at(W::Call), cursor.at_name());
        cursor.bump();
        if calls || is_name && cursor.kind() == TokenKind::Open && !is_own_word(token, text, dialect) {
            return true;
        }
    }
    cursor.kind() == TokenKind::Bad
}

fn is_own_word(token: crate::lexer::Token, text: &[u8], dialect: &Dialect) -> bool {
    let entry = find_quoted(text::identifier(token, text).as_bytes());
    let own = Flags::FUNCTION | Flags::BEFORE_PAREN | Flags::TYPE | Flags::KEYWORD;
    entry.flags.intersects(own) && entry.is_built_in(dialect)
}

/// Whether servers have this as a built-in function or a word of the language.
pub fn is_server_word(name: &str) -> bool {
    !find_quoted(name.as_bytes()).text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Encoding, Family, Modes};

    #[test]
    fn calls_of_stored_code_are_found() {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        for (text, calls) in [
            ("CREATE VIEW v AS SELECT f(1) AS a", true),
            ("CREATE VIEW v AS SELECT `app`.`f`(1) AS a", true),
            ("CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW CALL p", true),
            ("CREATE VIEW v AS SELECT COUNT(*), MAX(a), CAST(b AS DECIMAL(4, 2)) FROM t WHERE a IN (1, 2)", false),
            ("CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET NEW.a = (NEW.b + 1), NEW.c = 'f(1)'", false),
        ] {
            assert_eq!(may_call_stored(text.as_bytes(), &dialect), calls, "{text}");
        }
    }
}

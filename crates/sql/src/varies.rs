//! Whether a text answers the same as long as nothing that it reads is written: whoever asks it, on whichever connection, and
//! whenever. A text of which this is not known does not.

mod words;

use crate::dialect::Dialect;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::volatile;

use words::{BEFORE_PARENTHESIS, KNOWN_FUNCTIONS, OF_SESSION, SESSION_WORDS};

/// By what an answer may become another one though nothing that was read is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Varies {
    /// It reads `@name`.
    UserVariable,
    /// It reads `@@name`.
    SystemVariable,
    /// It calls a function that answers something else each time, or for each session.
    Volatile,
    /// It calls a function that is not known to answer the same each time.
    Function,
    /// It cannot be read to its end.
    Bad,
}

/// The first such cause in a text: a statement, or an expression as servers show those of columns. Session variables
/// that functions depend on without being named, such as `time_zone`, do not count.
pub fn varies(text: &[u8], dialect: &Dialect) -> Option<Varies> {
    if volatile(text, dialect).is_some() {
        return Some(Varies::Volatile);
    }
    let mut lexer = Lexer::new(text, dialect);
    let mut before = TokenKind::End;
    let mut token = lexer.next_token();
    while !matches!(token.kind, TokenKind::End) {
        let next = lexer.next_token();
        let found = match token.kind {
            TokenKind::Bad => Some(Varies::Bad),
            TokenKind::UserVariable => Some(Varies::UserVariable),
            TokenKind::SystemVariable => Some(Varies::SystemVariable),
            // Of a schema, or in quotes: no function that is built in.
            TokenKind::QuotedIdentifier if next.kind == TokenKind::Open => Some(Varies::Function),
            TokenKind::Word if next.kind == TokenKind::Open && before == TokenKind::Dot => Some(Varies::Function),
            TokenKind::Word if before != TokenKind::Dot && next.kind != TokenKind::Dot => {
                word(&token, &next, text, lexer)
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        (before, token) = (token.kind, next);
    }
    None
}

fn word(token: &Token, next: &Token, text: &[u8], mut behind: Lexer<'_>) -> Option<Varies> {
    let bytes = token.bytes(text);
    let is = |words: &[&str]| words.iter().any(|word| bytes.eq_ignore_ascii_case(word.as_bytes()));
    if next.kind != TokenKind::Open {
        return is(SESSION_WORDS).then_some(Varies::Volatile);
    }
    let has_argument = behind.next_token().kind != TokenKind::Close;
    match () {
        () if is(KNOWN_FUNCTIONS) || is(BEFORE_PARENTHESIS) => None,
        // Without an argument it is the time of day.
        () if is(&["unix_timestamp"]) && has_argument => None,
        () if is(OF_SESSION) => Some(Varies::Volatile),
        () => Some(Varies::Function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoding, Family, Modes};

    fn found(text: &str) -> Option<Varies> {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        varies(text.as_bytes(), &dialect)
    }

    #[test]
    fn what_servers_show_of_views_and_columns_is_read() {
        for text in [
            "select `app`.`t`.`id` AS `id`,concat(`app`.`t`.`a`,_utf8mb4'user()') AS `b` from `app`.`t`",
            "select cast(`t`.`a` as char(10) charset utf8mb4) AS `a` from `t` where `t`.`d` > '2020-01-01' - interval (5) day",
            "`a` + 1",
            "json_value(`data`,'$.user')",
            "case when `a` in (1,2) then `current_user` else trim(`b`) end",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn what_differs_by_time_session_or_for_an_unknown_reason_is_found() {
        use Varies::*;
        for (text, varies) in [
            ("select `t`.`a` from `t` where `t`.`owner` = current_user()", Volatile),
            ("select `t`.`a` from `t` where `t`.`owner` = current_user", Volatile),
            ("select `t`.`a` from `t` where `t`.`owner` = user()", Volatile),
            ("select last_insert_id() AS `a`,`t`.`id` from `t`", Volatile),
            ("select database() AS `a` from `t`", Volatile),
            ("select connection_id() AS `a` from `t`", Volatile),
            ("select @@max_connections AS `a` from `t`", SystemVariable),
            ("select @a AS `a` from `t`", UserVariable),
            ("select `app`.`f`(`t`.`a`) AS `a` from `t`", Function),
            ("select aes_encrypt(`t`.`a`,'k') AS `a` from `t`", Function),
            ("current_timestamp()", Volatile),
            ("timestampdiff(YEAR,`born`,curdate())", Volatile),
            ("'unclosed", Bad),
        ] {
            assert_eq!(found(text), Some(varies), "{text}");
        }
    }
}

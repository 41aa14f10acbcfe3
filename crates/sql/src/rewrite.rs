//! Changes to a text before it is sent.

use crate::cursor::Cursor;
use crate::lexer::TokenKind;
use crate::statement::Dialect;
use crate::text;
use crate::words::W;

/// A built-in function without arguments whose value the caller knows better than the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// `CONNECTION_ID()`, and `@@pseudo_thread_id`.
    ConnectionId(u64),
    /// `ROW_COUNT()`.
    RowCount(i64),
    /// `FOUND_ROWS()`.
    FoundRows(u64),
}

impl Known {
    fn name(self) -> &'static str {
        match self {
            Known::ConnectionId(_) => "connection_id",
            Known::RowCount(_) => "row_count",
            Known::FoundRows(_) => "found_rows",
        }
    }

    fn value(self) -> String {
        match self {
            Known::ConnectionId(value) | Known::FoundRows(value) => value.to_string(),
            Known::RowCount(value) => value.to_string(),
        }
    }
}

/// The text with every call of these functions replaced by its value; `None` when it holds none.
///
/// Where a call is a select item of its own without an alias, an alias keeps the column's name as the client spelt it.
/// Strings, comments and qualified names (`db.connection_id()`) are left alone.
pub fn functions(text: &[u8], dialect: &Dialect, known: &[Known]) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(text, dialect);
    let mut rewritten = Vec::new();
    let mut copied = 0;
    let mut selects = Selects::default();
    while !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad) {
        let name = cursor;
        let starts_item = selects.starts_item(&cursor);
        let found = known.iter().find_map(|function| Some((*function, end_of(cursor, *function)?)));
        let Some((function, after)) = found else {
            selects.note(&cursor);
            cursor.bump();
            continue;
        };
        let end = after.before_end;
        rewritten.extend_from_slice(&text[copied..name.token.start]);
        rewritten.extend_from_slice(function.value().as_bytes());
        if starts_item && ends_item(&after) {
            let spelt = String::from_utf8_lossy(&text[name.token.start..end]);
            rewritten.extend_from_slice(b" AS ");
            rewritten.extend_from_slice(text::quote_identifier(&spelt).as_bytes());
        }
        copied = end;
        cursor = after;
    }
    if copied == 0 {
        return None;
    }
    rewritten.extend_from_slice(&text[copied..]);
    Some(rewritten)
}

/// The cursor behind a function's call when that is in hand.
fn end_of(cursor: Cursor<'_>, function: Known) -> Option<Cursor<'_>> {
    let variable = || matches!(function, Known::ConnectionId(_)).then(|| variable_end(cursor)).flatten();
    call_end(cursor, function.name()).or_else(variable)
}

/// The cursor after `NAME ( )` when that is in hand.
fn call_end<'a>(mut cursor: Cursor<'a>, name: &str) -> Option<Cursor<'a>> {
    let named = match cursor.kind() {
        TokenKind::Word | TokenKind::QuotedIdentifier => {
            text::identifier(cursor.token, cursor.text()).eq_ignore_ascii_case(name)
        }
        _ => false,
    };
    if !named || cursor.before == TokenKind::Dot {
        return None;
    }
    cursor.bump();
    if !cursor.accept_kind(TokenKind::Open) || !cursor.accept_kind(TokenKind::Close) {
        return None;
    }
    Some(cursor)
}

/// The cursor after `@@pseudo_thread_id` or `@@session.pseudo_thread_id` when that is read here, not assigned.
fn variable_end(mut cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    if cursor.kind() != TokenKind::SystemVariable {
        return None;
    }
    let first = text::system_variable(cursor.token, cursor.text());
    let scoped = first.eq_ignore_ascii_case("session") || first.eq_ignore_ascii_case("local");
    cursor.bump();
    let named = if scoped && cursor.accept_kind(TokenKind::Dot) && cursor.at_name() {
        let name = text::identifier(cursor.token, cursor.text());
        cursor.bump();
        name.eq_ignore_ascii_case("pseudo_thread_id")
    } else {
        first.eq_ignore_ascii_case("pseudo_thread_id")
    };
    let assigned = cursor.at_operator(b"=") || cursor.kind() == TokenKind::Assign;
    (named && !assigned).then_some(cursor)
}

/// Whether a select item ends here: no operator and no alias follows.
fn ends_item(after: &Cursor<'_>) -> bool {
    match after.kind() {
        TokenKind::Comma | TokenKind::Semicolon | TokenKind::End | TokenKind::Close => true,
        TokenKind::Word => after.at_any(&[
            W::From,
            W::Into,
            W::Where,
            W::Limit,
            W::Order,
            W::Group,
            W::Having,
            W::Union,
            W::Except,
            W::Intersect,
            W::For,
            W::Lock,
            W::Procedure,
            W::Window,
        ]),
        _ => false,
    }
}

/// How many nested parentheses are told apart; deeper ones are taken for expressions.
const DEPTH_MAX: usize = 64;

/// Knows whether the token in hand stands in a select list, at its top.
#[derive(Default)]
struct Selects {
    /// A bit per depth: inside the select list of a query at that depth.
    lists: u64,
    depth: usize,
}

impl Selects {
    fn bit(&self) -> u64 {
        if self.depth < DEPTH_MAX { 1 << self.depth } else { 0 }
    }

    fn starts_item(&self, cursor: &Cursor<'_>) -> bool {
        let begins = cursor.before == TokenKind::Comma
            || matches!(
                cursor.before_word,
                W::Select
                    | W::Distinct
                    | W::Distinctrow
                    | W::All
                    | W::SqlNoCache
                    | W::SqlCache
                    | W::SqlCalcFoundRows
                    | W::SqlBufferResult
                    | W::SqlBigResult
                    | W::SqlSmallResult
                    | W::HighPriority
                    | W::StraightJoin
            );
        begins && self.lists & self.bit() != 0
    }

    fn note(&mut self, cursor: &Cursor<'_>) {
        match cursor.kind() {
            TokenKind::Open => {
                self.depth += 1;
                self.lists &= !self.bit();
            }
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            TokenKind::Semicolon => *self = Self::default(),
            _ => match cursor.word {
                W::Select => self.lists |= self.bit(),
                W::From | W::Into | W::Where | W::Group | W::Order | W::Having | W::Limit => self.lists &= !self.bit(),
                _ => {}
            },
        }
    }
}

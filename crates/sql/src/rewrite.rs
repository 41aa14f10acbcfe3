//! Changes to a text before it is sent.

mod prepared;

pub use prepared::in_prepared_text;

use crate::cursor::Cursor;
use crate::dialect::{Dialect, Family};
use crate::lexer::TokenKind;
use crate::text;
use crate::words::W;

/// A built-in function without arguments, or a variable, whose value the caller knows better than the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnValue<'a> {
    /// `CONNECTION_ID()`, and `@@pseudo_thread_id`.
    ConnectionId(u64),
    /// `ROW_COUNT()`, and `SQL%ROWCOUNT`.
    RowCount(i64),
    /// `FOUND_ROWS()`.
    FoundRows(u64),
    /// `@@session_track_system_variables`.
    TrackedVariables(&'a str),
    /// `@@max_allowed_packet`.
    PacketMax(u64),
    /// `@@last_gtid`.
    LastGtid(&'a str),
}

impl OwnValue<'_> {
    /// The function's name; a variable has none.
    fn name(self) -> &'static str {
        match self {
            OwnValue::ConnectionId(_) => "connection_id",
            OwnValue::RowCount(_) => "row_count",
            OwnValue::FoundRows(_) => "found_rows",
            OwnValue::TrackedVariables(_) | OwnValue::PacketMax(_) | OwnValue::LastGtid(_) => "",
        }
    }

    /// The name of the variable that is the same; empty if there is none.
    fn variable(self) -> &'static str {
        match self {
            OwnValue::ConnectionId(_) => "pseudo_thread_id",
            OwnValue::TrackedVariables(_) => "session_track_system_variables",
            OwnValue::PacketMax(_) => "max_allowed_packet",
            OwnValue::LastGtid(_) => "last_gtid",
            OwnValue::RowCount(_) | OwnValue::FoundRows(_) => "",
        }
    }

    /// The value, as wide as the function's own type. MariaDB derives a column's type from the digits, MySQL from the cast.
    /// MySQL warns of FOUND_ROWS() wherever it stands, so it stays, where it is not computed.
    fn value(self, family: Family, of_variable: bool) -> String {
        match (self, family) {
            // A column that is unsigned and may be NULL, as the variable's.
            (OwnValue::ConnectionId(value), _) if of_variable => format!("IF(1,CAST({value:021} AS UNSIGNED),NULL)"),
            (OwnValue::ConnectionId(value), Family::MariaDb) => format!("CAST({value:010} AS UNSIGNED)"),
            (OwnValue::FoundRows(value), Family::MariaDb) => format!("{value:021}"),
            (OwnValue::RowCount(value), Family::MariaDb) => format!("{value:021}"),
            (OwnValue::ConnectionId(value), Family::MySql) => format!("CAST({value} AS UNSIGNED)"),
            (OwnValue::FoundRows(value), Family::MySql) => format!("IF(1,{value},FOUND_ROWS())"),
            (OwnValue::RowCount(value), Family::MySql) => format!("CAST({value} AS SIGNED)"),
            (OwnValue::PacketMax(value), _) => format!("IF(1,CAST({value:021} AS UNSIGNED),NULL)"),
            (OwnValue::LastGtid(gtid), _) => format!("IF(1,'{}',NULL)", gtid.replace(['\'', '\\'], "")),
            // Names and commas: any other byte was refused when the list was set. It may be NULL, as the variable.
            (OwnValue::TrackedVariables(names), family) => {
                let names = names.replace(['\'', '\\'], "");
                // MySQL describes all variables that are texts alike.
                let other = if family == Family::MySql { "@@time_zone" } else { "NULL" };
                format!("IF(1,'{names}',{other})")
            }
        }
    }
}

/// A text in which values stand for what asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The text.
    pub text: Vec<u8>,
    /// A column of its result may have another name than that of the text before: one that no alias can keep.
    pub renames: bool,
}

/// Where the query of a CREATE TABLE … SELECT begins; `None` for any other text.
pub fn query_of_table(text: &[u8], dialect: &Dialect) -> Option<usize> {
    let mut cursor = Cursor::new(text, dialect);
    if !cursor.accept(W::Create) {
        return None;
    }
    if cursor.accept(W::Or) {
        cursor.accept(W::Replace);
    }
    cursor.accept(W::Temporary);
    if !cursor.accept(W::Table) {
        return None;
    }
    let mut depth = 0_usize;
    while !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad | TokenKind::Semicolon) {
        let is_query = match cursor.kind() {
            TokenKind::Open => cursor.ahead().at_any(&[W::Select, W::With, W::Values]),
            // WITH SYSTEM VERSIONING is an option of the table.
            _ => {
                cursor.at_any(&[W::Select, W::Values]) || {
                    cursor.at(W::With) && !cursor.ahead().bytes().eq_ignore_ascii_case(b"SYSTEM")
                }
            }
        };
        // A name may be one of these words.
        if depth == 0 && is_query && cursor.before != TokenKind::Dot {
            return Some(cursor.token.start);
        }
        match cursor.kind() {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        cursor.bump();
    }
    None
}

/// The text with every call of these functions, and every reading of these variables, replaced by its value; `None` when it holds none.
/// ROW_COUNT() and FOUND_ROWS() are replaced as far as no statement of the text goes before that changes them.
///
/// Where a call is a select item, or a part of one, an alias keeps the column's name as the client spelt it.
/// Strings, comments and qualified names (`db.connection_id()`) are left alone.
pub fn functions(text: &[u8], dialect: &Dialect, known: &[OwnValue<'_>]) -> Option<Rewritten> {
    let mut cursor = Cursor::new(text, dialect);
    let mut rewritten = Vec::new();
    let mut copied = 0;
    let mut selects = Selects::default();
    let mut before = Before::default();
    let mut item = Item::default();
    let mut renames = false;
    while !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad) {
        let name = cursor;
        let starts_item = selects.starts_item(&cursor);
        if let Some(alias) = item.ends(&cursor, &selects) {
            rewritten.extend_from_slice(&text[copied..cursor.before_end]);
            rewritten.extend_from_slice(&alias);
            copied = cursor.before_end;
        }
        if starts_item && selects.depth == 0 {
            item = Item { start: Some(name.token.start), ..Item::default() };
        }
        item.is_operand = matches!(
            cursor.before,
            TokenKind::Dot | TokenKind::Operator | TokenKind::DoubleOperator | TokenKind::Assign
        );
        let fitting = known.iter().filter(|function| before.leaves(**function));
        let found = fitting.filter_map(|function| Some((*function, end_of(cursor, *function, &selects)?))).next();
        let Some((function, after)) = found else {
            selects.note(&cursor);
            before.note(&cursor);
            cursor.bump();
            continue;
        };
        let end = after.before_end;
        rewritten.extend_from_slice(&text[copied..name.token.start]);
        rewritten
            .extend_from_slice(function.value(dialect.family, name.kind() == TokenKind::SystemVariable).as_bytes());
        if starts_item && ends_item(&after) {
            let spelt = String::from_utf8_lossy(&text[name.token.start..end]);
            rewritten.extend_from_slice(b" AS ");
            rewritten.extend_from_slice(text::quote_identifier(&spelt).as_bytes());
            renames |= selects.is_around();
            item.changed |= selects.is_around();
        } else if selects.is_around() || selects.is_in_list() && !(starts_item && (after.at(W::As) || is_alias(after)))
        {
            (renames, item.changed) = (true, true);
        }
        copied = end;
        cursor = after;
    }
    if let Some(alias) = item.ends(&cursor, &selects) {
        rewritten.extend_from_slice(&text[copied..cursor.before_end]);
        rewritten.extend_from_slice(&alias);
        copied = cursor.before_end;
    }
    if copied == 0 {
        return None;
    }
    rewritten.extend_from_slice(&text[copied..]);
    Some(Rewritten { text: rewritten, renames })
}

/// The cursor behind a function's call when that is in hand.
fn end_of<'a>(cursor: Cursor<'a>, known: OwnValue<'_>, selects: &Selects) -> Option<Cursor<'a>> {
    call_end(cursor, known.name())
        .or_else(|| variable_end(cursor, known.variable(), selects.assigns(&cursor)))
        .or_else(|| if matches!(known, OwnValue::RowCount(_)) { rowcount_end(cursor) } else { None })
}

/// The cursor after `SQL%ROWCOUNT` when that is in hand.
fn rowcount_end(mut cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    if cursor.kind() != TokenKind::Word
        || cursor.before == TokenKind::Dot
        || !cursor.bytes().eq_ignore_ascii_case(b"SQL")
    {
        return None;
    }
    cursor.bump();
    cursor.behind_rowcount()
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

/// The cursor after `@@NAME` or `@@session.NAME` when that is read here, not assigned, as it may be where `assigns`.
fn variable_end<'a>(mut cursor: Cursor<'a>, wanted: &str, assigns: bool) -> Option<Cursor<'a>> {
    if cursor.kind() != TokenKind::SystemVariable {
        return None;
    }
    let first = text::system_variable(cursor.token, cursor.text());
    let scoped = first.eq_ignore_ascii_case("session") || first.eq_ignore_ascii_case("local");
    cursor.bump();
    let named = if scoped && cursor.accept_kind(TokenKind::Dot) && cursor.at_name() {
        let name = text::identifier(cursor.token, cursor.text());
        cursor.bump();
        name.eq_ignore_ascii_case(wanted)
    } else {
        first.eq_ignore_ascii_case(wanted)
    };
    let assigned = assigns && cursor.at_operator(b"=") || cursor.kind() == TokenKind::Assign;
    (named && !assigned).then_some(cursor)
}

/// Longest expression that an alias keeps the name of.
const ALIAS_BYTES_MAX: usize = 200;

/// A select item of the outermost query.
#[derive(Default)]
struct Item {
    /// Where it begins.
    start: Option<usize>,
    /// A value stands in it.
    changed: bool,
    /// A dot or an operator stands before its last token, which is no alias then.
    is_operand: bool,
}

impl Item {
    /// The alias that keeps the column's name, if the item ends before the token in hand, holds a value and has no alias.
    fn ends(&mut self, cursor: &Cursor<'_>, selects: &Selects) -> Option<Vec<u8>> {
        if selects.depth > 0 || cursor.kind() == TokenKind::Close || !ends_item(cursor) {
            return None;
        }
        let start = self.start.take().filter(|_| self.changed)?;
        let spelt = cursor.text().get(start..cursor.before_end)?;
        // An alias is a name or a string.
        let is_null = cursor.before == TokenKind::Word && spelt.to_ascii_uppercase().ends_with(b" NULL");
        let is_expression = self.is_operand
            || is_null
            || matches!(
                cursor.before,
                TokenKind::Close | TokenKind::Number | TokenKind::SystemVariable | TokenKind::UserVariable
            );
        let has_comment = [&b"/*"[..], b"--", b"#"].iter().any(|mark| spelt.windows(mark.len()).any(|at| at == *mark));
        if !is_expression || has_comment || !spelt.is_ascii() || spelt.len() > ALIAS_BYTES_MAX {
            return None;
        }
        let name = text::quote_identifier(&String::from_utf8_lossy(spelt));
        Some([b" AS ", name.as_bytes()].concat())
    }
}

/// Whether the token in hand is an alias without AS: the select item ends behind it.
fn is_alias(mut cursor: Cursor<'_>) -> bool {
    let is_name = cursor.at_name();
    cursor.bump();
    is_name && ends_item(&cursor)
}

/// Whether a select item ends here: no operator and no alias follows.
fn ends_item(after: &Cursor<'_>) -> bool {
    match after.kind() {
        TokenKind::Comma | TokenKind::Semicolon | TokenKind::End | TokenKind::Close => true,
        TokenKind::Word => {
            after.at_any(&[
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
                // INSERT … SELECT … ON DUPLICATE KEY UPDATE.
                W::On,
            ]) || after.word == W::Returning && after.dialect().family == Family::MariaDb
        }
        _ => false,
    }
}

/// The effects of the statements so far on the values that are put in.
#[derive(Default)]
struct Before {
    /// A statement has begun, of which a word was seen.
    begun: bool,
    /// It changes ROW_COUNT(), as all do but GET DIAGNOSTICS.
    changes_row_count: bool,
    /// It may change FOUND_ROWS().
    changes_found_rows: bool,
    row_count_is_gone: bool,
    found_rows_are_gone: bool,
}

impl Before {
    fn leaves(&self, known: OwnValue<'_>) -> bool {
        match known {
            OwnValue::RowCount(_) | OwnValue::LastGtid(_) => !self.row_count_is_gone,
            OwnValue::FoundRows(_) => !self.found_rows_are_gone,
            OwnValue::ConnectionId(_) | OwnValue::TrackedVariables(_) | OwnValue::PacketMax(_) => true,
        }
    }

    fn note(&mut self, cursor: &Cursor<'_>) {
        if cursor.kind() == TokenKind::Semicolon {
            if std::mem::take(&mut self.begun) {
                self.row_count_is_gone |= std::mem::take(&mut self.changes_row_count);
                self.found_rows_are_gone |= std::mem::take(&mut self.changes_found_rows);
            }
            return;
        }
        // A query inside of a statement is counted.
        self.changes_found_rows |= matches!(cursor.word, W::Select | W::Call);
        if cursor.at_any(&[W::Loop, W::While]) {
            (self.row_count_is_gone, self.found_rows_are_gone) = (true, true);
        }
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.changes_row_count = !cursor.at(W::Get);
        let shows_messages = cursor.at(W::Show) && cursor.ahead().at_any(&[W::Errors, W::Warnings]);
        self.changes_found_rows |= !cursor.at_any(&LEAVING) && !shows_messages;
        // Bodies that are kept, or run more than once.
        if cursor.at_any(&[W::Create, W::Alter, W::Repeat, W::For]) {
            (self.row_count_is_gone, self.found_rows_are_gone) = (true, true);
        }
    }
}

/// Verbs that leave FOUND_ROWS() as it is in both families, if no query is inside.
const LEAVING: [W; 17] = [
    W::Begin,
    W::Commit,
    W::Delete,
    W::Drop,
    W::Get,
    W::Insert,
    W::Lock,
    W::Release,
    W::Replace,
    W::Rollback,
    W::Savepoint,
    W::Set,
    W::Signal,
    W::Start,
    W::Truncate,
    W::Unlock,
    W::Use,
];

/// How many nested parentheses are told apart; deeper ones are taken for expressions.
const DEPTH_MAX: usize = 64;

/// Knows whether the token in hand stands in a select list, at its top.
#[derive(Default)]
struct Selects {
    /// A bit per depth: inside the select list of a query at that depth.
    lists: u64,
    depth: usize,
    /// The statement is a SET.
    sets: bool,
    /// A token of the statement was seen.
    begun: bool,
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
                    | W::Returning
            );
        begins && self.lists & self.bit() != 0
    }

    /// Whether an assignment of a SET may begin with the token in hand.
    fn assigns(&self, cursor: &Cursor<'_>) -> bool {
        self.sets && self.depth == 0 && (cursor.before_word == W::Set || cursor.before == TokenKind::Comma)
    }

    /// Whether the token in hand stands in a select list, at its top.
    fn is_in_list(&self) -> bool {
        self.lists & self.bit() != 0 || self.is_around()
    }

    /// Whether a select list is around the parentheses that the token in hand stands in.
    fn is_around(&self) -> bool {
        self.lists & self.bit().wrapping_sub(1) != 0
    }

    fn note(&mut self, cursor: &Cursor<'_>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.sets = cursor.word == W::Set;
        }
        match cursor.kind() {
            TokenKind::Open => {
                self.depth += 1;
                self.lists &= !self.bit();
            }
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            TokenKind::Semicolon => *self = Self::default(),
            _ => match cursor.word {
                W::Select => self.lists |= self.bit(),
                W::Returning if cursor.dialect().family == Family::MariaDb => self.lists |= self.bit(),
                W::From | W::Into | W::Where | W::Group | W::Order | W::Having | W::Limit | W::On => {
                    self.lists &= !self.bit();
                }
                _ => {}
            },
        }
    }
}

//! Statements that ask for the messages of the statement before, and for nothing else.

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::words::W;

/// SHOW WARNINGS or SHOW ERRORS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownMessages {
    /// SHOW ERRORS.
    pub errors_only: bool,
    /// How many are left out first.
    pub offset: u64,
    /// How many are shown at most.
    pub limit: u64,
}

/// GET DIAGNOSTICS whose answers go to user variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedDiagnostics {
    /// The number behind CONDITION; without it the statement as a whole is asked for.
    pub condition: Option<u64>,
    /// The variables, as they are written, and what each is to be.
    pub items: Vec<(String, DiagnosticsItem)>,
}

/// An item that GET DIAGNOSTICS can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticsItem {
    /// How many conditions there are.
    Number,
    /// ROW_COUNT().
    RowCount,
    /// The SQLSTATE.
    ReturnedSqlstate,
    /// The code.
    MysqlErrno,
    /// The message.
    MessageText,
    /// CLASS_ORIGIN.
    ClassOrigin,
    /// SUBCLASS_ORIGIN.
    SubclassOrigin,
    /// The name of a table, a column, a constraint or a cursor: empty unless SIGNAL gave it.
    Name,
}

const ITEMS: [(&[u8], DiagnosticsItem); 15] = [
    (b"number", DiagnosticsItem::Number),
    (b"row_count", DiagnosticsItem::RowCount),
    (b"returned_sqlstate", DiagnosticsItem::ReturnedSqlstate),
    (b"mysql_errno", DiagnosticsItem::MysqlErrno),
    (b"message_text", DiagnosticsItem::MessageText),
    (b"class_origin", DiagnosticsItem::ClassOrigin),
    (b"subclass_origin", DiagnosticsItem::SubclassOrigin),
    (b"constraint_catalog", DiagnosticsItem::Name),
    (b"constraint_schema", DiagnosticsItem::Name),
    (b"constraint_name", DiagnosticsItem::Name),
    (b"catalog_name", DiagnosticsItem::Name),
    (b"schema_name", DiagnosticsItem::Name),
    (b"table_name", DiagnosticsItem::Name),
    (b"column_name", DiagnosticsItem::Name),
    (b"cursor_name", DiagnosticsItem::Name),
];

/// Which messages a text shows; `None` when it is anything but one SHOW WARNINGS or SHOW ERRORS, or a server answers a comment behind it.
pub fn shown_messages(text: &[u8], dialect: &Dialect) -> Option<ShownMessages> {
    let mut cursor = Cursor::new(text, dialect);
    let mut shown = ShownMessages { errors_only: false, offset: 0, limit: u64::MAX };
    cursor.accept(W::Show).then_some(())?;
    shown.errors_only = cursor.at(W::Errors);
    cursor.at_any(&[W::Warnings, W::Errors]).then_some(())?;
    cursor.bump();
    if cursor.accept(W::Limit) {
        shown.limit = number(&mut cursor)?;
        if cursor.accept_kind(TokenKind::Comma) {
            shown.offset = std::mem::replace(&mut shown.limit, number(&mut cursor)?);
        } else if cursor.accept(W::Offset) {
            shown.offset = number(&mut cursor)?;
        }
    }
    (is_over(cursor) && comment_behind(cursor).is_none()).then_some(shown)
}

/// The GET DIAGNOSTICS that a text begins with, and the place of what a server answers behind them, if there is anything: a statement,
/// or a comment behind the last `;`. `None` where one of them asks for anything but items into user variables, with a plain number if it names a condition, or where there is none.
pub fn asked_diagnostics(text: &[u8], dialect: &Dialect) -> Option<(Vec<AskedDiagnostics>, usize)> {
    let mut cursor = Cursor::new(text, dialect);
    let mut all = Vec::new();
    let mut comment = None;
    while cursor.at(W::Get) {
        all.push(asked(&mut cursor)?);
        // A second one is a syntax error, unless nothing follows.
        comment = comment_behind(cursor);
        cursor.accept_kind(TokenKind::Semicolon);
    }
    let rest = if is_over(cursor) { comment.unwrap_or(text.len()) } else { cursor.token.start };
    (!all.is_empty()).then_some((all, rest))
}

/// Whether a text begins with RESIGNAL.
pub fn resignals(text: &[u8], dialect: &Dialect) -> bool {
    Cursor::new(text, dialect).at(W::Resignal)
}

/// The items of the GET DIAGNOSTICS in hand.
fn asked(cursor: &mut Cursor<'_>) -> Option<AskedDiagnostics> {
    cursor.accept(W::Get).then_some(())?;
    accept(cursor, b"current");
    accept(cursor, b"diagnostics").then_some(())?;
    let mut asked = AskedDiagnostics { condition: None, items: Vec::new() };
    if accept(cursor, b"condition") {
        asked.condition = Some(number(cursor)?);
    }
    loop {
        let variable = (cursor.kind() == TokenKind::UserVariable).then(|| cursor.bytes())?;
        let variable = std::str::from_utf8(variable).ok()?.to_owned();
        cursor.bump();
        cursor.at_operator(b"=").then_some(())?;
        cursor.bump();
        let (_, item) = ITEMS.iter().find(|(name, _)| cursor.bytes().eq_ignore_ascii_case(name))?;
        let of_statement = matches!(item, DiagnosticsItem::Number | DiagnosticsItem::RowCount);
        (of_statement == asked.condition.is_none()).then_some(())?;
        asked.items.push((variable, *item));
        cursor.bump();
        if !cursor.accept_kind(TokenKind::Comma) {
            return matches!(cursor.kind(), TokenKind::Semicolon | TokenKind::End).then_some(asked);
        }
    }
}

/// The place of a comment right behind the `;` in hand. Servers answer it like a statement.
fn comment_behind(cursor: Cursor<'_>) -> Option<usize> {
    let behind = cursor.token.end;
    let rest = cursor.text().get(behind..).filter(|_| cursor.kind() == TokenKind::Semicolon)?;
    matches!(rest.trim_ascii_start().first(), Some(b'/' | b'-' | b'#')).then_some(behind)
}

fn is_over(mut cursor: Cursor<'_>) -> bool {
    while cursor.accept_kind(TokenKind::Semicolon) {}
    cursor.kind() == TokenKind::End
}

fn accept(cursor: &mut Cursor<'_>, word: &[u8]) -> bool {
    let found = cursor.bytes().eq_ignore_ascii_case(word);
    if found {
        cursor.bump();
    }
    found
}

fn number(cursor: &mut Cursor<'_>) -> Option<u64> {
    let number = std::str::from_utf8(cursor.bytes()).ok()?.parse().ok()?;
    cursor.bump();
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Encoding, Family, Modes};

    const DIALECT: Dialect =
        Dialect { family: Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::Utf8 };

    #[test]
    fn the_word_resignal_counts_where_a_statement_begins() {
        let resignals = |text: &str| resignals(text.as_bytes(), &DIALECT);
        assert!(resignals("/* a */ Resignal") && resignals("/*! RESIGNAL */ SET MESSAGE_TEXT = 'b'"));
        assert!(!resignals("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'resignal'") && !resignals("DO 1 -- RESIGNAL"));
    }

    #[test]
    fn messages_are_shown_from_where_to_where() {
        let shown = |sql: &str| {
            shown_messages(sql.as_bytes(), &DIALECT).map(|shown| (shown.errors_only, shown.offset, shown.limit))
        };
        assert_eq!(shown("show /* all */ warnings;"), Some((false, 0, u64::MAX)));
        assert_eq!(shown("SHOW ERRORS LIMIT 3"), Some((true, 0, 3)));
        assert_eq!(shown("SHOW WARNINGS LIMIT 1, 2"), Some((false, 1, 2)));
        assert_eq!(shown("SHOW WARNINGS LIMIT 2 OFFSET 1"), Some((false, 1, 2)));
        for sql in ["SHOW WARNINGS; SELECT 1", "SHOW COUNT(*) WARNINGS", "SHOW WARNINGS LIMIT ?", "SHOW TABLES", "SHOW"]
        {
            assert_eq!(shown(sql), None, "{sql}");
        }
    }

    #[test]
    fn diagnostics_go_to_user_variables() {
        let asked = |sql: &str| asked_diagnostics(sql.as_bytes(), &DIALECT);
        let (found, rest) = asked("GET CURRENT DIAGNOSTICS @n = NUMBER, @`r` = row_count;").unwrap();
        let items = vec![("@n".to_owned(), DiagnosticsItem::Number), ("@`r`".to_owned(), DiagnosticsItem::RowCount)];
        assert_eq!((found, rest), (vec![AskedDiagnostics { condition: None, items }], 54));
        let (found, _) = asked("GET DIAGNOSTICS CONDITION 2 @m = MESSAGE_TEXT").unwrap();
        assert_eq!((found[0].condition, found[0].items.len()), (Some(2), 1));
        let (found, rest) = asked("GET DIAGNOSTICS @n = NUMBER;; SELECT 1").unwrap();
        assert_eq!((found.len(), rest), (1, 28), "servers refuse an empty statement ahead of another one");
        assert_eq!(asked("GET DIAGNOSTICS @n = NUMBER;; ").unwrap().1, 30);
        assert_eq!(asked("GET DIAGNOSTICS @n = NUMBER; -- x").unwrap().1, 28, "a server answers the comment");
        assert_eq!(asked("GET DIAGNOSTICS @n = NUMBER -- x").unwrap().1, 32);
        let sql = "GET DIAGNOSTICS @n = NUMBER; GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT; SELECT 1; GET it";
        let (found, rest) = asked(sql).unwrap();
        assert_eq!((found.len(), &sql[rest..]), (2, "SELECT 1; GET it"));
        for sql in [
            "GET DIAGNOSTICS CONDITION @n @m = MESSAGE_TEXT",
            "GET STACKED DIAGNOSTICS @n = NUMBER",
            "GET DIAGNOSTICS n = NUMBER",
            "GET DIAGNOSTICS @n = MESSAGE_TEXT",
            "GET DIAGNOSTICS CONDITION 1 @n = NUMBER",
            "GET DIAGNOSTICS @n = NUMBER; GET DIAGNOSTICS n = NUMBER",
            "SELECT 1; GET DIAGNOSTICS @n = NUMBER",
            "",
        ] {
            assert_eq!(asked(sql), None, "{sql}");
        }
    }
}

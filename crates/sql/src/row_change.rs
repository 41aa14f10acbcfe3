//! The form of one INSERT, REPLACE, UPDATE or DELETE of a single table, as far as it tells how its rows are counted: for a
//! reader that has only the rows that it changed, and must know the answer of the server.

use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::walk::Walk;

/// Rows beyond this are not looked at.
const ROWS_MAX: usize = 65_536;
/// Tokens of an expression that tell what it gives; with more it is something else.
const TOKENS_MAX: usize = 3;

/// A statement that changes rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The verb.
    pub verb: Verb,
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// IGNORE.
    pub ignores: bool,
    /// ON DUPLICATE KEY UPDATE.
    pub updates_duplicates: bool,
    /// RETURNING: the reply is a result.
    pub returns_rows: bool,
    /// The columns that an INSERT or REPLACE names.
    pub columns: Option<Vec<String>>,
    /// The rows that it lists, each with what stands for the columns; `None` if they come from a query.
    pub rows: Option<Vec<Vec<Given>>>,
    /// The one condition is that this column is that number.
    pub key: Option<(String, Given)>,
}

/// The verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// INSERT.
    Insert,
    /// REPLACE.
    Replace,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

/// The expression for a column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// NULL or DEFAULT.
    Nothing,
    /// A whole number.
    Number(i128),
    /// The parameter with this index.
    Parameter(usize),
    /// Something else.
    Other,
}

/// With this word anywhere the id that the statement leaves behind is its own.
const GIVES_ID: [&[u8]; 1] = [b"LAST_INSERT_ID"];

/// Understands a statement; `None` where it is of another kind, names several tables, or sets LAST_INSERT_ID().
pub fn row_change(text: &[u8], dialect: &Dialect) -> Option<RowChange> {
    let mut reader = Reader { walk: Walk::new(text, dialect, &GIVES_ID) };
    let verbs = [
        (&b"INSERT"[..], Verb::Insert),
        (b"REPLACE", Verb::Replace),
        (b"UPDATE", Verb::Update),
        (b"DELETE", Verb::Delete),
    ];
    let verb = verbs.into_iter().find(|(word, _)| reader.walk.accept(word))?.1;
    let mut change = RowChange {
        verb,
        schema: None,
        table: String::new(),
        ignores: false,
        updates_duplicates: false,
        returns_rows: false,
        columns: None,
        rows: None,
        key: None,
    };
    loop {
        let ignores = reader.walk.accept(b"IGNORE");
        change.ignores |= ignores;
        if !ignores && !reader.walk.accept_any(&[b"LOW_PRIORITY", b"HIGH_PRIORITY", b"QUICK"]) {
            break;
        }
    }
    match verb {
        Verb::Insert | Verb::Replace => {
            reader.walk.accept(b"INTO");
            reader.table(&mut change)?;
            reader.inserted(&mut change)?;
        }
        Verb::Update => {
            reader.table(&mut change)?;
            reader.walk.alias(b"SET")?;
            reader.rest(&mut change);
        }
        Verb::Delete => {
            reader.walk.accept(b"FROM").then_some(())?;
            reader.table(&mut change)?;
            if !reader.is_at_end() && !reader.walk.at_any(&[b"WHERE", b"ORDER", b"LIMIT", b"RETURNING"]) {
                return None;
            }
            reader.rest(&mut change);
        }
    }
    (reader.is_at_end() && !reader.walk.saw_watched).then_some(change)
}

struct Reader<'a> {
    walk: Walk<'a>,
}

impl Reader<'_> {
    fn is_at_end(&self) -> bool {
        self.walk.kind() == TokenKind::End
    }

    /// The last part of a name that may have parts before it.
    fn last_name(&mut self) -> Option<String> {
        let mut name = self.walk.name()?;
        while self.walk.accept_kind(TokenKind::Dot) {
            name = self.walk.name()?;
        }
        Some(name.into_owned())
    }

    fn table(&mut self, change: &mut RowChange) -> Option<()> {
        let table = self.walk.table()?;
        (change.schema, change.table) = (table.schema.map(Into::into), table.name.into());
        Some(())
    }

    fn inserted(&mut self, change: &mut RowChange) -> Option<()> {
        if self.walk.accept_kind(TokenKind::Open) {
            change.columns = Some(self.columns()?);
        }
        if self.walk.accept_any(&[b"VALUES", b"VALUE"]) {
            change.rows = Some(self.rows()?);
        } else if self.walk.accept(b"SET") {
            let (columns, row) = self.assignments()?;
            (change.columns, change.rows) = (Some(columns), Some(vec![row]));
        } else if !self.walk.at(b"SELECT") {
            return None;
        }
        self.rest(change);
        Some(())
    }

    /// Names of columns, up to the parenthesis that closes, which is taken.
    fn columns(&mut self) -> Option<Vec<String>> {
        let mut columns = Vec::new();
        while !self.walk.accept_kind(TokenKind::Close) {
            if self.walk.at_any(&[b"SELECT", b"WITH"]) {
                return None;
            }
            columns.push(self.last_name()?);
            self.walk.accept_kind(TokenKind::Comma);
        }
        Some(columns)
    }

    /// Rows in parentheses, with commas between them.
    fn rows(&mut self) -> Option<Vec<Vec<Given>>> {
        let mut rows = Vec::new();
        while self.walk.accept_kind(TokenKind::Open) {
            let mut row = Vec::new();
            while !self.walk.accept_kind(TokenKind::Close) {
                row.push(self.expression(|_| false)?);
                if !self.walk.accept_kind(TokenKind::Comma) && self.walk.kind() != TokenKind::Close {
                    return None;
                }
            }
            rows.push(row);
            if rows.len() > ROWS_MAX {
                return None;
            }
            if !self.walk.accept_kind(TokenKind::Comma) {
                break;
            }
        }
        (!rows.is_empty()).then_some(rows)
    }

    /// `column = value`, with commas between them.
    fn assignments(&mut self) -> Option<(Vec<String>, Vec<Given>)> {
        let (mut columns, mut row) = (Vec::new(), Vec::new());
        loop {
            columns.push(self.last_name()?);
            matches!(self.walk.kind(), TokenKind::Operator | TokenKind::Assign).then(|| self.walk.take())?;
            row.push(self.expression(|walk| walk.at_any(&[b"ON", b"AS", b"RETURNING"]))?);
            if !self.walk.accept_kind(TokenKind::Comma) {
                return Some((columns, row));
            }
        }
    }

    /// The expression up to the next comma or the parenthesis that closes.
    fn expression(&mut self, ends: impl Fn(&Walk<'_>) -> bool) -> Option<Given> {
        let (depth, parameter) = (self.walk.depth, self.walk.parameters);
        let (mut tokens, mut count) = ([(TokenKind::End, &b""[..]); TOKENS_MAX], 0);
        loop {
            let (kind, is_outside) = (self.walk.kind(), self.walk.depth == depth);
            match kind {
                TokenKind::End | TokenKind::Semicolon | TokenKind::Close | TokenKind::Comma if is_outside => break,
                TokenKind::End | TokenKind::Semicolon | TokenKind::Bad => return None,
                TokenKind::Open | TokenKind::Close => {}
                _ if is_outside && ends(&self.walk) => break,
                _ => {}
            }
            if let Some(token) = tokens.get_mut(count) {
                (*token, count) = ((kind, self.walk.bytes()), count + 1);
            }
            self.walk.take();
        }
        Some(given(&tokens[..count], parameter))
    }

    /// Goes to the end, and looks for what changes the count.
    fn rest(&mut self, change: &mut RowChange) {
        while !matches!(self.walk.kind(), TokenKind::End | TokenKind::Bad | TokenKind::Semicolon) {
            change.updates_duplicates |= self.walk.at(b"DUPLICATE");
            change.returns_rows |= self.walk.at(b"RETURNING");
            let is_where = self.walk.depth == 0 && change.rows.is_none() && self.walk.at(b"WHERE");
            self.walk.take();
            if is_where {
                change.key = self.key();
            }
        }
    }

    /// `column = number`, and the end.
    fn key(&mut self) -> Option<(String, Given)> {
        let column = self.last_name()?;
        self.walk.accept_equals()?;
        let given = self.expression(|_| false)?;
        let is_number = matches!(given, Given::Number(_) | Given::Parameter(_));
        (self.is_at_end() && is_number).then_some((column, given))
    }
}

/// The value of an expression with these tokens, if the parameter at its beginning has this index.
fn given(tokens: &[(TokenKind, &[u8])], parameter: usize) -> Given {
    let number = |sign: i128, digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i128>().ok());
        digits.map_or(Given::Other, |digits| Given::Number(sign * digits))
    };
    match *tokens {
        [(TokenKind::Placeholder, _)] => Given::Parameter(parameter),
        [(TokenKind::Number, digits)] => number(1, digits),
        [(TokenKind::Operator, b"-"), (TokenKind::Number, digits)] => number(-1, digits),
        [(TokenKind::Word, word)] if word.eq_ignore_ascii_case(b"NULL") || word.eq_ignore_ascii_case(b"DEFAULT") => {
            Given::Nothing
        }
        _ => Given::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Encoding, Family, Modes};

    fn of(text: &str) -> Option<RowChange> {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        row_change(text.as_bytes(), &dialect)
    }

    #[test]
    fn rows_that_are_listed_are_known() {
        use Given::{Nothing, Number, Other, Parameter};
        let change = of("INSERT INTO `app`.t (a, `b`) VALUES (1, NULL), (?, -2),(f(1,2), (?)) ;").unwrap();
        assert_eq!((change.verb, change.schema.as_deref(), &*change.table), (Verb::Insert, Some("app"), "t"));
        assert_eq!(change.columns.unwrap(), ["a", "b"]);
        assert_eq!(change.rows.unwrap(), [[Number(1), Nothing], [Parameter(0), Number(-2)], [Other, Other]]);
        let change = of("insert ignore t values (default, ?, ?) on duplicate key update a = ?").unwrap();
        assert!(change.ignores && change.updates_duplicates && change.columns.is_none());
        assert_eq!(change.rows.unwrap(), [[Nothing, Parameter(0), Parameter(1)]]);
        let change = of("REPLACE INTO t SET a = 1 + 1, b = 7 RETURNING a").unwrap();
        assert_eq!((change.verb, change.returns_rows), (Verb::Replace, true));
        assert_eq!(
            (change.columns.unwrap(), change.rows.unwrap()),
            (vec!["a".into(), "b".into()], vec![vec![Other, Number(7)]])
        );
        assert_eq!(of("INSERT INTO t () VALUES ()").unwrap().rows.unwrap(), [[]]);
        let change = of("INSERT INTO t (a) SELECT a FROM u WHERE b = 1").unwrap();
        assert_eq!((change.rows, change.columns.unwrap()), (None, vec!["a".to_owned()]));
    }

    #[test]
    fn updates_and_deletes_tell_their_key() {
        let key = |text: &str| of(text).unwrap().key;
        assert_eq!(key("UPDATE t SET n = n + 1 WHERE id = 5"), Some(("id".into(), Given::Number(5))));
        assert_eq!(key("UPDATE t AS x SET n = ? WHERE x.id = ?;"), Some(("id".into(), Given::Parameter(1))));
        assert_eq!(key("UPDATE t SET n = 1 WHERE id = 5 OR n = 2"), None);
        assert_eq!(key("UPDATE t SET n = 1 WHERE id = 5 AND n = 2"), None);
        assert_eq!(key("UPDATE t SET n = (SELECT 1 FROM u WHERE id = 5)"), None);
        assert_eq!(key("UPDATE t SET n = 1 WHERE id > 5"), None);
        assert_eq!(key("DELETE FROM t WHERE id = 5 LIMIT 1"), None);
        assert_eq!(key("DELETE FROM t"), None);
        assert_eq!(of("DELETE FROM t WHERE id = 5").unwrap().verb, Verb::Delete);
    }

    #[test]
    fn what_changes_several_tables_or_is_not_understood_is_left_alone() {
        for text in [
            "UPDATE t, u SET t.a = 1",
            "UPDATE t FOR PORTION OF p FROM 1 TO 2 SET a = 1",
            "DELETE FROM t USING t JOIN u",
            "DELETE FROM t FOR PORTION OF p FROM 1 TO 2",
            "INSERT DELAYED INTO t VALUES (1)",
            "INSERT INTO t VALUES ROW(1)",
            "INSERT INTO t TABLE u",
            "INSERT INTO t (SELECT 1)",
            "INSERT INTO t VALUES (1",
            "INSERT INTO t VALUES (1); DELETE FROM t",
            "UPDATE t SET n = LAST_INSERT_ID(n + 1)",
            "WITH x AS (SELECT 1) DELETE FROM t",
            "SELECT 1",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}

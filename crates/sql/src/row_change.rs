//! What one INSERT, REPLACE, UPDATE or DELETE of a single table says, as far as it tells how its rows are counted: for whoever
//! has only the rows that it changed, and must know what the server has answered.

use std::ops::Range;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::statement::Dialect;
use crate::text;

/// Rows beyond this are not looked at.
const ROWS_MAX: usize = 65_536;

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

/// What stands for a column's value.
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

/// Understands a statement; `None` where it is of another kind, names several tables, or sets LAST_INSERT_ID().
pub fn row_change(text: &[u8], dialect: &Dialect) -> Option<RowChange> {
    let mut walk = Walk { lexer: Lexer::new(text, dialect), token: END, parameters: 0, gives_id: false };
    walk.take();
    let verb = [
        (&b"INSERT"[..], Verb::Insert),
        (b"REPLACE", Verb::Replace),
        (b"UPDATE", Verb::Update),
        (b"DELETE", Verb::Delete),
    ]
    .into_iter()
    .find(|(word, _)| walk.is(word))?
    .1;
    walk.take();
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
        if walk.is(b"IGNORE") {
            change.ignores = true;
        } else if !walk.is(b"LOW_PRIORITY") && !walk.is(b"HIGH_PRIORITY") && !walk.is(b"QUICK") {
            break;
        }
        walk.take();
    }
    match verb {
        Verb::Insert | Verb::Replace => {
            walk.accept(b"INTO");
            walk.table(&mut change)?;
            walk.inserted(&mut change)?;
        }
        Verb::Update => {
            walk.table(&mut change)?;
            walk.alias(b"SET")?;
            walk.rest(&mut change);
        }
        Verb::Delete => {
            walk.accept(b"FROM").then_some(())?;
            walk.table(&mut change)?;
            let goes_on = [&b"WHERE"[..], b"ORDER", b"LIMIT", b"RETURNING"];
            if !walk.is_at_end() && !goes_on.iter().any(|word| walk.is(word)) {
                return None;
            }
            walk.rest(&mut change);
        }
    }
    let whole = walk.token.kind == TokenKind::End && !walk.gives_id;
    whole.then_some(change)
}

const END: Token = Token { kind: TokenKind::End, start: 0, end: 0 };

struct Walk<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// Parameters before the token in hand.
    parameters: usize,
    /// LAST_INSERT_ID stands somewhere.
    gives_id: bool,
}

impl Walk<'_> {
    fn take(&mut self) {
        self.parameters += usize::from(self.token.kind == TokenKind::Placeholder);
        self.token = self.lexer.next_token();
        if self.token.kind == TokenKind::Semicolon {
            // Nothing but white space follows, or it is another kind of text: then it stays in hand.
            let mut ahead = self.lexer;
            let next = ahead.next_token();
            if next.kind == TokenKind::End {
                self.token = next;
            }
        }
        self.gives_id |= self.is(b"LAST_INSERT_ID");
    }

    fn is(&self, word: &[u8]) -> bool {
        self.token.kind == TokenKind::Word && self.token.bytes(self.lexer.text()).eq_ignore_ascii_case(word)
    }

    fn is_at_end(&self) -> bool {
        self.token.kind == TokenKind::End
    }

    fn accept(&mut self, word: &[u8]) -> bool {
        let found = self.is(word);
        if found {
            self.take();
        }
        found
    }

    fn accept_kind(&mut self, kind: TokenKind) -> bool {
        let found = self.token.kind == kind;
        if found {
            self.take();
        }
        found
    }

    fn name(&mut self) -> Option<String> {
        let is_name = matches!(self.token.kind, TokenKind::Word | TokenKind::QuotedIdentifier);
        let name = is_name.then(|| text::identifier(self.token, self.lexer.text()).into_owned())?;
        self.take();
        Some(name)
    }

    /// The last part of a name that may have parts before it.
    fn last_name(&mut self) -> Option<String> {
        let mut name = self.name()?;
        while self.accept_kind(TokenKind::Dot) {
            name = self.name()?;
        }
        Some(name)
    }

    fn table(&mut self, change: &mut RowChange) -> Option<()> {
        change.table = self.name()?;
        if self.accept_kind(TokenKind::Dot) {
            change.schema = Some(std::mem::replace(&mut change.table, self.name()?));
        }
        (self.token.kind != TokenKind::Dot).then_some(())
    }

    /// Up to this word nothing but another name for the table may stand.
    fn alias(&mut self, word: &[u8]) -> Option<()> {
        if !self.is(word) {
            self.accept(b"AS");
            self.name()?;
        }
        self.accept(word).then_some(())
    }

    fn inserted(&mut self, change: &mut RowChange) -> Option<()> {
        if self.token.kind == TokenKind::Open {
            self.take();
            let mut columns = Vec::new();
            while self.token.kind != TokenKind::Close {
                if self.is(b"SELECT") || self.is(b"WITH") {
                    return None;
                }
                columns.push(self.last_name()?);
                self.accept_kind(TokenKind::Comma);
            }
            self.take();
            change.columns = Some(columns);
        }
        if self.accept(b"VALUES") || self.accept(b"VALUE") {
            let mut rows = Vec::new();
            while self.accept_kind(TokenKind::Open) {
                let mut row = Vec::new();
                while self.token.kind != TokenKind::Close {
                    row.push(self.expression(|_| false)?);
                    if !self.accept_kind(TokenKind::Comma) && self.token.kind != TokenKind::Close {
                        return None;
                    }
                }
                self.take();
                rows.push(row);
                if rows.len() > ROWS_MAX {
                    return None;
                }
                if !self.accept_kind(TokenKind::Comma) {
                    break;
                }
            }
            (!rows.is_empty()).then_some(())?;
            change.rows = Some(rows);
        } else if self.accept(b"SET") {
            let (mut columns, mut row) = (Vec::new(), Vec::new());
            loop {
                columns.push(self.last_name()?);
                let is_equal = matches!(self.token.kind, TokenKind::Operator | TokenKind::Assign);
                is_equal.then(|| self.take())?;
                row.push(self.expression(|walk| walk.is(b"ON") || walk.is(b"AS") || walk.is(b"RETURNING"))?);
                if !self.accept_kind(TokenKind::Comma) {
                    break;
                }
            }
            (change.columns, change.rows) = (Some(columns), Some(vec![row]));
        } else if !self.is(b"SELECT") {
            return None;
        }
        self.rest(change);
        Some(())
    }

    /// What stands up to the next comma or the parenthesis that closes.
    fn expression(&mut self, ends: impl Fn(&Walk<'_>) -> bool) -> Option<Given> {
        let (start, parameter) = (self.token.start, self.parameters);
        let (mut depth, mut end, mut count) = (0_usize, start, 0);
        let (mut first, mut second) = (END, END);
        loop {
            match self.token.kind {
                TokenKind::End | TokenKind::Semicolon if depth == 0 => break,
                TokenKind::End | TokenKind::Semicolon | TokenKind::Bad => return None,
                TokenKind::Close | TokenKind::Comma if depth == 0 => break,
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth -= 1,
                _ if depth == 0 && ends(self) => break,
                _ => {}
            }
            match count {
                0 => first = self.token,
                1 => second = self.token,
                _ => {}
            }
            end = self.token.end;
            count += 1;
            self.take();
        }
        Some(self.given(start..end, count, (first, second), parameter))
    }

    fn given(&self, range: Range<usize>, count: usize, (first, second): (Token, Token), parameter: usize) -> Given {
        let text = self.lexer.text();
        let all = text.get(range).unwrap_or_default();
        let number = |sign: i128, token: Token| {
            let digits = std::str::from_utf8(token.bytes(text)).ok().and_then(|digits| digits.parse::<i128>().ok());
            digits.map_or(Given::Other, |digits| Given::Number(sign * digits))
        };
        match (count, first.kind, second.kind) {
            (1, TokenKind::Placeholder, _) => Given::Parameter(parameter),
            (1, TokenKind::Number, _) => number(1, first),
            (2, TokenKind::Operator, TokenKind::Number) if first.bytes(text) == b"-" => number(-1, second),
            (1, TokenKind::Word, _) if all.eq_ignore_ascii_case(b"NULL") || all.eq_ignore_ascii_case(b"DEFAULT") => {
                Given::Nothing
            }
            _ => Given::Other,
        }
    }

    /// Goes to the end, and looks for what changes the count.
    fn rest(&mut self, change: &mut RowChange) {
        let mut depth = 0_usize;
        while !matches!(self.token.kind, TokenKind::End | TokenKind::Bad | TokenKind::Semicolon) {
            match self.token.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            change.updates_duplicates |= self.is(b"DUPLICATE");
            change.returns_rows |= self.is(b"RETURNING");
            if depth == 0 && self.is(b"WHERE") && change.rows.is_none() {
                self.take();
                change.key = self.key();
                continue;
            }
            self.take();
        }
    }

    /// `column = number`, and the end.
    fn key(&mut self) -> Option<(String, Given)> {
        let column = self.last_name()?;
        let is_equal = self.token.kind == TokenKind::Operator && self.token.bytes(self.lexer.text()) == b"=";
        is_equal.then(|| self.take())?;
        let given = self.expression(|_| false)?;
        let is_number = matches!(given, Given::Number(_) | Given::Parameter(_));
        (self.is_at_end() && is_number).then_some((column, given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Encoding, Family, Modes};

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

//! Statements that touch no row but the one that they name: `… WHERE id = 5`.
//!
//! [`point`] understands one SELECT, UPDATE or DELETE of one table, without any other query in it, whose conditions say of columns what they
//! are. Whether these columns are a key of that table, and whether the table is one, is not known here. It errs on the side of less: what is not
//! certain is no such statement.

use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::names::TableName;
use crate::statement::Statement;
use crate::walk::Walk;

/// A statement that touches only rows of which all this holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The table, or a view.
    pub table: TableName,
    /// Columns, without what stands before them, and what they are.
    pub equals: Vec<(Box<str>, Sought)>,
    /// Columns that an UPDATE sets.
    pub sets: Vec<Box<str>>,
}

/// The value that a column is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// A whole number.
    Number(i128),
    /// A string of one line of ASCII, without quotes and backslashes in it.
    Text(Box<str>),
    /// The parameter with this index.
    Parameter(usize),
}

/// With one of these, wherever it stands, other rows may be read.
const BEYOND: [&[u8]; 12] = [
    b"SELECT",
    b"UNION",
    b"INTERSECT",
    b"EXCEPT",
    b"MINUS",
    b"JOIN",
    b"STRAIGHT_JOIN",
    b"TABLE",
    b"VALUES",
    b"WITH",
    // How well a text fits depends on all of them.
    b"MATCH",
    b"PROCEDURE",
];
/// With one of these between conditions they do not all have to hold, or AND means something else.
const LOOSE: [&[u8]; 4] = [b"OR", b"XOR", b"BETWEEN", b"CASE"];
/// The words that may follow the conditions.
const BEHIND: [&[u8]; 5] = [b"GROUP", b"HAVING", b"ORDER", b"LIMIT", b"RETURNING"];
/// Words that are values, where they stand for themselves; a column with such a name is quoted.
const VALUES: [&[u8]; 14] = [
    b"TRUE",
    b"FALSE",
    b"NULL",
    b"DEFAULT",
    b"ROWNUM",
    b"SYSDATE",
    b"LOCALTIME",
    b"LOCALTIMESTAMP",
    b"CURRENT_DATE",
    b"CURRENT_TIME",
    b"CURRENT_TIMESTAMP",
    b"CURRENT_USER",
    b"CURRENT_ROLE",
    b"UTC_TIMESTAMP",
];

impl Statement {
    /// Whether [`point`] understands a text of this shape, which is looked for once.
    ///
    /// `text` and `dialect` are those that the statement was made from.
    pub fn is_point(&self, text: &[u8], dialect: &Dialect) -> bool {
        self.parts == 1 && self.named.is_point(|| point(text, dialect).is_some())
    }
}

/// Understands a statement; `None` where it is of another kind, or may touch more than the conditions say.
pub fn point(text: &[u8], dialect: &Dialect) -> Option<Point> {
    let mut reader = Reader { walk: Walk::new(text, dialect, &BEYOND), in_where: false, is_loose: false };
    let mut sets = Vec::new();
    let table = if reader.walk.accept(b"SELECT") {
        reader.pass(|walk| walk.at(b"FROM"))?;
        reader.walk.take();
        reader.table(b"WHERE")?
    } else if reader.walk.accept(b"UPDATE") {
        while reader.walk.accept_any(&[b"LOW_PRIORITY", b"IGNORE"]) {}
        let table = reader.table(b"SET")?;
        loop {
            sets.push(reader.column()?);
            reader.walk.accept_equals()?;
            reader.pass(|walk| walk.kind() == TokenKind::Comma || walk.at(b"WHERE"))?;
            if reader.walk.accept(b"WHERE") {
                break table;
            }
            reader.walk.take();
        }
    } else if reader.walk.accept(b"DELETE") {
        while reader.walk.accept_any(&[b"LOW_PRIORITY", b"QUICK", b"IGNORE"]) {}
        reader.walk.accept(b"FROM").then_some(())?;
        reader.table(b"WHERE")?
    } else {
        return None;
    };
    let equals = reader.conditions()?;
    reader.pass(|walk| walk.kind() == TokenKind::End)?;
    // Code in a comment runs on some servers only.
    let is_sure = !reader.is_loose && !reader.walk.saw_watched && !reader.walk.saw_executed_comment;
    (is_sure && !equals.is_empty()).then_some(Point { table, equals, sets })
}

struct Reader<'a> {
    walk: Walk<'a>,
    /// Conditions are read.
    in_where: bool,
    /// Not all conditions have to hold.
    is_loose: bool,
}

impl Reader<'_> {
    /// A column: what stands before its name can only be the table.
    fn column(&mut self) -> Option<Box<str>> {
        let is_value = self.walk.at_any(&VALUES);
        let (mut name, mut is_qualified) = (self.walk.name()?, false);
        while self.walk.accept_kind(TokenKind::Dot) {
            (name, is_qualified) = (self.walk.name()?, true);
        }
        (is_qualified || !is_value).then(|| name.into())
    }

    /// A table, perhaps with another name, and this word, which is taken.
    fn table(&mut self, word: &[u8]) -> Option<TableName> {
        let table = self.walk.table()?;
        self.walk.alias(word)?;
        Some(table)
    }

    /// Goes on until this holds outside of all parentheses; `None` if it never does.
    fn pass(&mut self, until: impl Fn(&Walk<'_>) -> bool) -> Option<()> {
        loop {
            let (kind, is_outside) = (self.walk.kind(), self.walk.depth == 0);
            if is_outside && until(&self.walk) {
                return Some(());
            }
            self.is_loose |= self.in_where && is_outside && self.is_at_loose();
            match kind {
                TokenKind::End | TokenKind::Semicolon | TokenKind::Bad => return None,
                TokenKind::Close if is_outside => return None,
                _ => self.walk.take(),
            }
        }
    }

    /// Whether the token in hand keeps conditions on its sides from having to hold.
    fn is_at_loose(&self) -> bool {
        self.walk.kind() == TokenKind::DoubleOperator || self.walk.at_any(&LOOSE)
    }

    /// The conditions of each row: behind WHERE, up to the words that follow the conditions.
    fn conditions(&mut self) -> Option<Vec<(Box<str>, Sought)>> {
        let mut equals = Vec::new();
        let ends = |walk: &Walk<'_>| walk.at(b"AND") || walk.kind() == TokenKind::End || walk.at_any(&BEHIND);
        self.in_where = true;
        loop {
            self.is_loose |= self.is_at_loose();
            let found = self.equality();
            if let Some(found) = found.filter(|_| ends(&self.walk)) {
                equals.push(found);
            }
            self.pass(ends)?;
            if !self.walk.accept(b"AND") {
                self.in_where = false;
                return Some(equals);
            }
        }
    }

    /// `column = value`; what was looked at is taken even if it is none.
    fn equality(&mut self) -> Option<(Box<str>, Sought)> {
        let column = self.column()?;
        self.walk.accept_equals()?;
        let minus = self.walk.at_operator(b"-");
        if minus {
            self.walk.take();
        }
        let bytes = self.walk.bytes();
        let sought = match self.walk.kind() {
            TokenKind::Number if bytes.iter().all(u8::is_ascii_digit) => {
                let number: i128 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
                Sought::Number(if minus { -number } else { number })
            }
            TokenKind::Placeholder if !minus => Sought::Parameter(self.walk.parameters),
            TokenKind::String if !minus => Sought::Text(plain(bytes)?.into()),
            _ => return None,
        };
        self.walk.take();
        Some((column, sought))
    }
}

/// The text in the quotes, if it means the same in each character set and mode.
fn plain(literal: &[u8]) -> Option<&str> {
    let (first, rest) = literal.split_first()?;
    let (last, inside) = rest.split_last()?;
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'\'' | b'"');
    let is_quoted = matches!(first, b'\'' | b'"') && first == last;
    (is_quoted && inside.iter().all(is_plain)).then(|| std::str::from_utf8(inside).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Encoding, Family, Modes};
    use crate::functions::NoFunctions;

    const DIALECT: Dialect =
        Dialect { family: Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::Utf8 };

    /// `table column=value …; columns that are set`
    fn of(text: &str) -> String {
        let understood = point(text.as_bytes(), &DIALECT);
        let statement = crate::classify(text.as_bytes(), &DIALECT, &NoFunctions);
        assert_eq!(statement.is_point(text.as_bytes(), &DIALECT), understood.is_some(), "{text}");
        let Some(Point { table, equals, sets }) = understood else { return "no".into() };
        let mut reported = table.schema.map_or_else(String::new, |schema| format!("{schema}."));
        reported.push_str(&table.name);
        for (column, sought) in equals {
            reported.push_str(&match sought {
                Sought::Number(number) => format!(" {column}={number}"),
                Sought::Text(text) => format!(" {column}='{text}'"),
                Sought::Parameter(at) => format!(" {column}=?{at}"),
            });
        }
        if sets.is_empty() { reported } else { format!("{reported}; {}", sets.join(" ")) }
    }

    #[test]
    fn one_row_is_read() {
        assert_eq!(of("SELECT * FROM t WHERE id = 5"), "t id=5");
        assert_eq!(of("select a, COUNT(*), (a + 1) from `app`.`t` as x where x.`id`=-5 limit 1;"), "app.t id=-5");
        assert_eq!(of("SELECT ? FROM t WHERE id = ? AND b = ?"), "t id=?1 b=?2");
        assert_eq!(of("SELECT a FROM t x WHERE a > 3 AND x.id = 7 AND (b = 1 OR c = 2) ORDER BY a"), "t id=7");
        assert_eq!(of("SELECT TRIM(a FROM b) FROM t WHERE name = 'a b' GROUP BY a"), "t name='a b'");
        assert_eq!(of("SELECT a FROM t WHERE NOT b = 1 AND id = 7"), "t id=7");
        assert_eq!(of("SELECT a FROM t WHERE b = 1.5 AND id = 7"), "t id=7");
    }

    #[test]
    fn one_row_is_written() {
        assert_eq!(of("UPDATE t SET n = n + 1, t.b = ? WHERE id = ?"), "t id=?1; n b");
        assert_eq!(
            of("UPDATE LOW_PRIORITY IGNORE app.t AS x SET x.n = IF(a, 1, 2) WHERE id = 3 LIMIT 1"),
            "app.t id=3; n"
        );
        assert_eq!(of("DELETE FROM t WHERE id = 5"), "t id=5");
        assert_eq!(of("DELETE QUICK FROM t WHERE id = 5 RETURNING a"), "t id=5");
    }

    #[test]
    fn what_may_touch_other_rows_is_left_alone() {
        for text in [
            "SELECT * FROM t",
            "SELECT * FROM t WHERE id > 5",
            "SELECT * FROM t WHERE id = 5 OR b = 1",
            "SELECT * FROM t WHERE b = 1 AND id = 5 OR c = 3",
            "SELECT * FROM t WHERE id = 5 || b = 1",
            "SELECT * FROM t WHERE OR id = 5",
            "SELECT * FROM t WHERE id = 5 XOR b = 1",
            "SELECT * FROM t WHERE a BETWEEN 1 AND id = 5",
            "SELECT * FROM t WHERE CASE WHEN a AND id = 5 THEN 1 ELSE 1 END",
            "SELECT * FROM t WHERE a = CASE b WHEN 1 AND id = 5 THEN 1 END",
            "SELECT * FROM t WHERE NOT id = 5",
            "SELECT * FROM t WHERE NOT (id = 5)",
            "SELECT * FROM t WHERE id = 5 IS NULL",
            "SELECT * FROM t WHERE id = 5 = 1",
            "SELECT * FROM t WHERE id = 5 + 1",
            "SELECT * FROM t WHERE id = 5 COLLATE utf8mb4_bin",
            "SELECT * FROM t WHERE id + 1 = 5",
            "SELECT * FROM t WHERE id = 5.0",
            "SELECT * FROM t WHERE id = 0x05",
            "SELECT * FROM t WHERE id = - ?",
            "SELECT * FROM t WHERE id = b",
            "SELECT * FROM t WHERE id <=> 5",
            "SELECT * FROM t WHERE id := 5",
            "SELECT * FROM t WHERE TRUE = 1",
            "SELECT * FROM t WHERE name = 'it''s'",
            "SELECT * FROM t WHERE name = 'a' 'b'",
            "SELECT * FROM t WHERE name = 'a\\n'",
            "SELECT * FROM t WHERE name = N'a'",
            "SELECT * FROM t WHERE name = _latin1'a'",
            "SELECT * FROM t WHERE name = 'ü'",
            "SELECT * FROM t, u WHERE id = 5",
            "SELECT * FROM t JOIN u WHERE id = 5",
            "SELECT * FROM t NATURAL JOIN u WHERE id = 5",
            "SELECT * FROM (SELECT 1) t WHERE id = 5",
            "SELECT * FROM t FOR SYSTEM_TIME ALL WHERE id = 5",
            "SELECT * FROM t PARTITION (p) WHERE id = 5",
            "SELECT (SELECT MAX(a) FROM u) FROM t WHERE id = 5",
            "SELECT * FROM t WHERE id = 5 AND a = (SELECT MAX(a) FROM u)",
            "SELECT * FROM t WHERE id = 5 AND a IN (TABLE u)",
            "SELECT * FROM t WHERE id = 5 UNION SELECT * FROM t",
            "SELECT * FROM t WHERE id = 5 UNION TABLE u",
            "SELECT MATCH (a) AGAINST ('x') FROM t WHERE id = 5",
            "SELECT * FROM t WHERE id = 5 FOR UPDATE",
            "SELECT * FROM t WHERE id = 5 /*! OR 1 */",
            "SELECT * FROM t WHERE /*! id = 5 */",
            "SELECT * FROM t /*! x */ WHERE id = 5",
            "SELECT * FROM t WHERE id = 5)",
            "SELECT * FROM t WHERE id = 5; DELETE FROM t",
            "(SELECT * FROM t WHERE id = 5)",
            "WITH t AS (SELECT 1) SELECT * FROM t WHERE id = 5",
            "UPDATE t SET a = 1",
            "UPDATE t, u SET a = 1 WHERE id = 5",
            "UPDATE t SET a = (SELECT 1) WHERE id = 5",
            "UPDATE t FOR PORTION OF p FROM 1 TO 2 SET a = 1 WHERE id = 5",
            "UPDATE t SET a = 1 WHERE id IN (5)",
            "DELETE t FROM t WHERE id = 5",
            "DELETE FROM t USING t WHERE id = 5",
            "DELETE HISTORY FROM t WHERE id = 5",
            "INSERT INTO t VALUES (1)",
            "",
        ] {
            assert_eq!(of(text), "no", "{text}");
        }
    }

    #[test]
    fn quotes_mean_what_the_mode_says() {
        let ansi = Dialect { modes: Modes::ANSI_QUOTES, ..DIALECT };
        let text = b"SELECT * FROM \"t\" WHERE \"id\" = 5";
        assert_eq!(point(text, &ansi).map(|point| point.table.name), Some("t".into()));
        assert_eq!(point(text, &DIALECT), None);
        assert_eq!(point(b"SELECT * FROM t WHERE name = \"a\"", &ansi), None, "a column");
        assert_eq!(of("SELECT * FROM t WHERE name = \"a\""), "t name='a'");
    }
}

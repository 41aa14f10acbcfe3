//! Compares a statement with the text that a server has put into its log for it.
//!
//! Both families write a prepared statement's values where the question marks stood, and leave the rest as it was (seen with
//! MariaDB 10.11 and MySQL 9.7). Their differences (quoting, escapes, prefixes, digits) do not matter here: values are
//! read and compared. A value that cannot be compared for certain is no proof.

mod literal;

use sql::Dialect;
use sql::lexer::{Lexer, TokenKind};
use wire::Capabilities;
use wire::command::Execute;
use wire::parameters::Value;

use crate::mark::{self, Mark};
use literal::Literal;

/// A statement that may have been written into a log.
#[derive(Debug)]
pub struct Text {
    /// As the client sent it, or prepared it.
    pub text: Vec<u8>,
    /// It was sent behind the connection's mark, if that has one.
    pub is_marked: bool,
    /// The execution of a prepared statement.
    pub execution: Option<Execution>,
    /// How the text is read.
    pub dialect: Dialect,
    /// The session's schema.
    pub schema: Option<String>,
    /// The schema of the one table that it changes, if it is known.
    pub table_schema: Option<String>,
}

/// The execution of a prepared statement.
#[derive(Debug)]
pub struct Execution {
    /// The command behind its first byte.
    pub payload: Vec<u8>,
    /// The types of its parameters.
    pub types: Box<[u8]>,
    /// How many it has.
    pub count: u16,
    /// The capabilities of client and Sqluice.
    pub capabilities: Capabilities,
}

/// Whether a text of the log is the statement's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It is.
    Same,
    /// It may be.
    Similar,
    /// It is not.
    Other,
}

impl Execution {
    /// The values of the parameters; `None` if they are of types that are not understood.
    pub fn values(&self) -> Option<Vec<Value<'_>>> {
        let execute = Execute::parse(&self.payload, self.count, self.capabilities).ok()?;
        execute.parameters(&self.types, self.count, self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES)).ok()
    }
}

impl Text {
    /// The values of its parameters; `None` if they are not understood.
    pub fn values(&self) -> Option<Vec<Value<'_>>> {
        self.execution.as_ref().map_or(Some(Vec::new()), Execution::values)
    }

    /// Whether the log's text is this one's, sent on a connection with this mark.
    pub fn is_like(&self, logged: &[u8], mark: Option<&Mark>) -> Likeness {
        let Some(mark) = mark else { return self.is_like_bare(logged) };
        match mark::in_front_of(logged).find(|(found, _)| *found == mark.bytes()) {
            Some((_, behind)) => self.is_like_bare(behind),
            // Somebody else wrote the very same, or somebody on the way takes comments away.
            None if self.is_marked => match self.is_like_bare(logged) {
                Likeness::Other => Likeness::Other,
                Likeness::Same | Likeness::Similar => Likeness::Similar,
            },
            None => self.is_like_bare(logged),
        }
    }

    /// The same behind the mark.
    fn is_like_bare(&self, logged: &[u8]) -> Likeness {
        let (own, logged) = (trim(&self.text), trim(logged));
        let Some(execution) = &self.execution else {
            return match logged.strip_prefix(own) {
                Some([]) => Likeness::Same,
                // The text after it is not understood, and proves nothing.
                Some(_) => Likeness::Similar,
                None => Likeness::Other,
            };
        };
        let parts = self.parts(own);
        let Some(values) = execution.values().filter(|values| values.len() + 1 == parts.len()) else {
            return Likeness::Similar;
        };
        let Some((first, others)) = parts.split_first() else { return Likeness::Similar };
        let Some(mut rest) = logged.strip_prefix(*first) else { return Likeness::Other };
        let mut likeness = Likeness::Same;
        for (part, value) in others.iter().zip(&values) {
            let Some((literal, end)) = Literal::read(rest, &self.dialect) else { return Likeness::Similar };
            let Some(behind) = rest.get(end..).and_then(|rest| rest.strip_prefix(*part)) else {
                return Likeness::Other;
            };
            match literal.is_like(value) {
                Likeness::Other => return Likeness::Other,
                Likeness::Similar => likeness = Likeness::Similar,
                Likeness::Same => {}
            }
            rest = behind;
        }
        if rest.is_empty() { likeness } else { Likeness::Similar }
    }

    /// The parts of the text before, between and after the question marks.
    fn parts<'a>(&self, text: &'a [u8]) -> Vec<&'a [u8]> {
        let mut lexer = Lexer::new(text, &self.dialect);
        let (mut parts, mut start) = (Vec::new(), 0);
        loop {
            let token = lexer.next_token();
            match token.kind {
                TokenKind::Placeholder => {
                    parts.push(text.get(start..token.start).unwrap_or_default());
                    start = token.end;
                }
                TokenKind::End | TokenKind::Bad => break,
                _ => {}
            }
        }
        parts.push(text.get(start..).unwrap_or_default());
        parts
    }
}

/// Servers drop white space and semicolons at the ends of a text.
fn trim(text: &[u8]) -> &[u8] {
    let is_edge = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';' || *byte == 0;
    let start = text.iter().position(|byte| !is_edge(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_edge(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

#[cfg(test)]
pub(crate) mod tests {
    use sql::{Encoding, Family, Modes};

    use super::*;

    pub(crate) const DIALECT: Dialect =
        Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };

    /// A statement with these parameters: type, the flag for numbers without a sign, value.
    pub(crate) fn prepared(text: &str, parameters: &[(u8, u8, Option<&[u8]>)]) -> Text {
        let mut payload = vec![1, 0, 0, 0, 0, 1, 0, 0, 0];
        let mut nulls = vec![0_u8; parameters.len().div_ceil(8)];
        for (at, _) in parameters.iter().enumerate().filter(|(_, parameter)| parameter.2.is_none()) {
            nulls[at / 8] |= 1 << (at % 8);
        }
        if !parameters.is_empty() {
            payload.extend(nulls);
            payload.push(0);
        }
        parameters.iter().for_each(|parameter| payload.extend(parameter.2.unwrap_or_default()));
        let types = parameters.iter().flat_map(|(kind, flag, _)| [*kind, *flag]).collect();
        let count = u16::try_from(parameters.len()).unwrap();
        let execution = Some(Execution { payload, types, count, capabilities: Capabilities::empty() });
        Text {
            text: text.into(),
            is_marked: true,
            execution,
            dialect: DIALECT,
            schema: Some("app".into()),
            table_schema: Some("app".into()),
        }
    }

    fn likeness(kind: u8, flag: u8, value: &[u8], logged: &str) -> Likeness {
        let text = prepared("INSERT INTO t (a) VALUES (?)", &[(kind, flag, Some(value))]);
        text.is_like_bare(format!("INSERT INTO t (a) VALUES ({logged})").as_bytes())
    }

    fn counted(bytes: &[u8]) -> Vec<u8> {
        [&[u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
    }

    #[test]
    fn numbers_are_compared_as_both_families_write_them() {
        use Likeness::{Other, Same, Similar};
        assert_eq!(likeness(1, 0, &[0xfb], "-5"), Same);
        assert_eq!(likeness(1, 0x80, &[0xfb], "251"), Same);
        assert_eq!(likeness(8, 0, &7_i64.to_le_bytes(), "8"), Other);
        assert_eq!(likeness(8, 0, &7_i64.to_le_bytes(), "7.0"), Similar);
        assert_eq!(likeness(8, 0, &i64::MIN.to_le_bytes(), "-9223372036854775808"), Same);
        assert_eq!(likeness(8, 0x80, &u64::MAX.to_le_bytes(), "18446744073709551615"), Same);
        for (number, logged) in [
            (0.1, "0.1"),
            (1e300, "1e300"),
            (1e-10, "0.0000000001"),
            (123_456_789.123, "123456789.123"),
            (-0.0, "-0"),
            (-0.0, "0"),
            (1.0 / 3.0, "0.3333333333333333"),
        ] {
            assert_eq!(likeness(5, 0, &f64::to_le_bytes(number), logged), Same, "{logged}");
        }
        assert_eq!(likeness(4, 0, &1e30_f32.to_le_bytes(), "1.0000000150474662e30"), Same);
        assert_eq!(likeness(5, 0, &0.1_f64.to_le_bytes(), "0.2"), Similar, "digits may be lost");
        for (number, logged, found) in [
            ("12.340", "12.340", Same),
            ("-0012.5", "-12.5", Same),
            ("1e3", "1000", Same),
            (".50", "0.50", Same),
            ("0.0", "0", Same),
            ("1.5", "1.6", Similar),
            ("gibberish", "0", Similar),
        ] {
            assert_eq!(likeness(246, 0, &counted(number.as_bytes()), logged), found, "{number}");
        }
        // MariaDB writes NULL for types that it does not know.
        assert_eq!(likeness(13, 0, &2020_u16.to_le_bytes(), "NULL"), Similar);
        assert_eq!(likeness(8, 0, &0_i64.to_le_bytes(), "NULL"), Similar);
    }

    #[test]
    fn strings_are_compared_whatever_their_quoting() {
        use Likeness::{Other, Same, Similar};
        let of = |value: &[u8], logged: &str| likeness(253, 0, &counted(value), logged);
        assert_eq!(of(b"it's", r"'it\'s'"), Same);
        assert_eq!(of(b"it's", "'it''s'"), Same);
        assert_eq!(of(b"a\0b\nc\rd\x1ae\tf\"g", "'a\\0b\\nc\\rd\\Ze\tf\\\"g'"), Same);
        assert_eq!(of("é☃".as_bytes(), "'é☃'"), Same);
        assert_eq!(of(b"it's", "X'69742773'"), Same);
        assert_eq!(of(b"it's", "0x69742773"), Same);
        assert_eq!(of(b"abc", "_binary'abc'"), Same);
        assert_eq!(of(b"", "''"), Same);
        assert_eq!(of(b"abc", "'abd'"), Other);
        assert_eq!(of(b"5", "5"), Similar);
        assert_eq!(of(b"abc", "CONCAT('a')"), Similar);
        // MariaDB puts a backslash before bytes that are no characters.
        let text = prepared("INSERT INTO t VALUES (?)", &[(252, 0, Some(&[2, 0, 0xff]))]);
        assert_eq!(text.is_like_bare(b"INSERT INTO t VALUES ('\\0\\\xff')"), Same);
        let plain = Dialect { modes: Modes::NO_BACKSLASH_ESCAPES, ..DIALECT };
        let text = prepared("INSERT INTO t VALUES (?)", &[(252, 0, Some(b"\x03a\\b"))]);
        assert_eq!(Text { dialect: plain, ..text }.is_like_bare(b"INSERT INTO t VALUES ('a\\b')"), Same);
    }

    #[test]
    fn dates_and_times_are_compared_as_both_families_write_them() {
        use Likeness::{Same, Similar};
        let (date, short) = ([4, 0xe4, 7, 1, 2], [7, 0xe4, 7, 1, 2, 3, 4, 5]);
        let long = [11, 0xe4, 7, 1, 2, 3, 4, 5, 0xa0, 0x58, 0x0a, 0];
        assert_eq!(likeness(10, 0, &date, "DATE'2020-01-02'"), Same);
        assert_eq!(likeness(10, 0, &date, "'2020-01-02'"), Same);
        assert_eq!(likeness(12, 0, &short, "TIMESTAMP'2020-01-02 03:04:05'"), Same);
        assert_eq!(likeness(12, 0, &short, "'2020-01-02 03:04:05.000000'"), Same);
        assert_eq!(likeness(7, 0, &long, "'2020-01-02 03:04:05.678048'"), Same);
        assert_eq!(likeness(12, 0, &date, "TIMESTAMP'2020-01-02 00:00:00'"), Same);
        assert_eq!(likeness(12, 0, &short, "'2020-01-02 03:04:06'"), Similar);
        let span = [8, 1, 1, 0, 0, 0, 1, 2, 3];
        assert_eq!(likeness(11, 0, &span, "TIME'-25:02:03'"), Same);
        assert_eq!(likeness(11, 0, &span, "'-25:02:03.000000'"), Same);
        assert_eq!(likeness(11, 0, &[0], "'00:00:00.000000'"), Same);
    }

    #[test]
    fn what_stands_around_values_must_be_the_same() {
        use Likeness::{Other, Same, Similar};
        let int = |number: i64| number.to_le_bytes();
        let (five, minus) = (int(5), int(-5));
        let of = |text: &str, values: &[&[u8]], logged: &str| {
            let parameters: Vec<_> = values.iter().map(|value| (8, 0, Some(*value))).collect();
            prepared(text, &parameters).is_like_bare(logged.as_bytes())
        };
        let text = " INSERT INTO t VALUES ('?', ?,?) /* why? */ -- what?\n;";
        assert_eq!(of(text, &[&five, &minus], "INSERT INTO t VALUES ('?', 5,-5) /* why? */ -- what?"), Same);
        assert_eq!(of(text, &[&five, &minus], "INSERT INTO t VALUES ('?', 5,-6) /* why? */ -- what?"), Other);
        assert_eq!(of(text, &[&five, &minus], "INSERT INTO u VALUES ('?', 5,-5) /* why? */ -- what?"), Other);
        assert_eq!(of(text, &[&five], "INSERT INTO t VALUES ('?', 5,-5) /* why? */ -- what?"), Similar);
        assert_eq!(of("SET a=-?", &[&minus], "SET a=--5"), Same);
        assert_eq!(of("UPDATE t SET a=?", &[&five], "UPDATE t SET a=5 and more"), Similar);
        assert_eq!(of("DELETE FROM t", &[], "DELETE FROM t"), Same);
        let null = prepared("UPDATE t SET a=?", &[(8, 0, None)]);
        assert_eq!((null.is_like_bare(b"UPDATE t SET a=NULL"), null.is_like_bare(b"UPDATE t SET a=5")), (Same, Other));
    }
}

//! The statements in a text, each as a text of its own.

use super::Classifier;
use crate::cursor::Cursor;
use crate::dialect::{Dialect, Encoding, Modes};
use crate::functions::NoFunctions;
use crate::lexer::TokenKind;
use crate::statement::Kind;
use crate::text;
use crate::words::W;

/// Takes a text; gives whether that was enough.
type See<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// How deep texts in texts are looked at. Servers take no text that is prepared within one.
const DEPTH_MAX: u8 = 4;

/// Places in a block, up to a `;`, where a statement may begin; of more the last one counts.
const BEGINS_MAX: usize = 64;

/// Shows `see` the statements that a text holds beside itself, until it says to stop: each of several, the literal text of a PREPARE or
/// EXECUTE IMMEDIATE, what is behind SET STATEMENT … FOR and ANALYZE, and what is in a compound statement. Gives whether it was
/// stopped. Behind a part that may change how servers read the rest, it shows what that holds by each way of reading.
pub fn parts(text: &[u8], dialect: &Dialect, see: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    inside(text, dialect, DEPTH_MAX, see)
}

/// Shows `see` each statement of a text of several, until it says to stop. Gives whether it was stopped.
pub fn statements(text: &[u8], dialect: &Dialect, see: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    inside(text, dialect, 0, see)
}

fn inside(text: &[u8], dialect: &Dialect, depth: u8, see: See<'_>) -> bool {
    rest(text, dialect, depth, true, see)
}

/// All ways to read a text of which it is not known in what mode and character set the server reads it.
fn readings(dialect: Dialect) -> impl Iterator<Item = Dialect> {
    use Encoding::{AsciiSafe, Big5, Gb18030, Gbk, Sjis};
    let modes = [Modes::empty(), Modes::ANSI_QUOTES, Modes::NO_BACKSLASH_ESCAPES, Modes::OF_QUOTES];
    let modes = modes.map(|modes| (dialect.modes - Modes::OF_QUOTES) | modes);
    let encodings = [AsciiSafe, Big5, Gbk, Sjis, Gb18030];
    modes.into_iter().flat_map(move |modes| encodings.map(|encoding| Dialect { modes, encoding, ..dialect }))
}

/// The same as [`inside`] for a text, or for the rest of one, of which nobody has seen anything.
fn rest(text: &[u8], dialect: &Dialect, depth: u8, is_whole: bool, see: See<'_>) -> bool {
    let mut classifier = Classifier::new(text, dialect, &NoFunctions);
    classifier.cursor.read();
    let mut from = 0;
    let mut first = is_whole;
    loop {
        while classifier.cursor.kind() == TokenKind::Semicolon {
            from = classifier.cursor.token.end;
            classifier.cursor.step();
        }
        if classifier.cursor.kind() == TokenKind::End {
            return false;
        }
        let inner = Inner::of(&classifier);
        classifier.kind = None;
        let effects = classifier.effects.len();
        classifier.statement();
        classifier.scan();
        let is_last = matches!(classifier.cursor.kind(), TokenKind::End | TokenKind::Bad);
        let end = if is_last { text.len() } else { classifier.cursor.token.start };
        let part = text.get(from..end).unwrap_or_default().trim_ascii();
        // The whole text is the caller's.
        let alone = std::mem::take(&mut first) && is_last;
        if !alone && see(part) || depth > 0 && inner.show(&classifier, end, depth - 1, see) {
            return true;
        }
        if classifier.cursor.kind() == TokenKind::Bad {
            return false;
        }
        if is_whole && depth == DEPTH_MAX && classifier.reads_on_otherwise(effects) {
            let text = text.get(end..).unwrap_or_default();
            return readings(*dialect).any(|dialect| rest(text, &dialect, depth, false, see));
        }
    }
}

/// The statements that a statement holds.
enum Inner<'a> {
    Nothing,
    /// This text.
    Literal(Vec<u8>),
    /// The statement that begins here.
    From(usize),
    /// A block, if it turns out to be one.
    Perhaps(Cursor<'a>),
}

impl<'a> Inner<'a> {
    /// Of the statement that begins here.
    fn of(classifier: &Classifier<'a>) -> Inner<'a> {
        let mut cursor = classifier.cursor;
        match cursor.word {
            W::Prepare => {
                while !cursor.at_end() && !cursor.at(W::From) {
                    cursor.step();
                }
                cursor.step();
            }
            W::Execute if cursor.ahead().at(W::Immediate) => {
                cursor.step();
                cursor.step();
            }
            W::Set if cursor.ahead().at(W::Statement) => {
                while !cursor.at_end() && !cursor.at(W::For) {
                    cursor.step();
                }
                return Inner::From(cursor.token.end);
            }
            W::Analyze | W::Explain | W::Desc | W::Describe => {
                let runs = cursor.at(W::Analyze) || cursor.ahead().at(W::Analyze);
                while !cursor.at_end() && !cursor.at_any(&VERBS) {
                    cursor.step();
                }
                return if runs { Inner::From(cursor.token.start) } else { Inner::Nothing };
            }
            _ => return Inner::Perhaps(cursor),
        }
        literal(cursor).map_or(Inner::Nothing, Inner::Literal)
    }

    /// Shows what is in a statement that ends at `end`.
    fn show(self, after: &Classifier<'_>, end: usize, depth: u8, see: See<'_>) -> bool {
        let (text, dialect) = (after.cursor.text(), after.cursor.dialect());
        match self {
            Inner::Nothing => false,
            Inner::Literal(text) => see(&text) || inside(&text, dialect, depth, see),
            Inner::From(start) => {
                let text = text.get(start..end).unwrap_or_default().trim_ascii();
                !text.is_empty() && (see(text) || inside(text, dialect, depth, see))
            }
            Inner::Perhaps(cursor) => after.kind == Some(Kind::Compound) && block(cursor, end, depth, see),
        }
    }
}

/// The value of the literal in hand, if nothing else follows it but USING: strings, perhaps with a character set or in parentheses, or
/// bytes in hexadecimal.
fn literal(mut cursor: Cursor<'_>) -> Option<Vec<u8>> {
    let mut open = 0_usize;
    while cursor.kind() == TokenKind::Open {
        cursor.step();
        open += 1;
    }
    if cursor.kind() == TokenKind::Introducer {
        cursor.step();
    }
    let mut value = Vec::new();
    match cursor.kind() {
        TokenKind::String => {
            while cursor.kind() == TokenKind::String {
                value.extend(text::string(cursor.token, cursor.text(), cursor.dialect()));
                cursor.step();
            }
        }
        TokenKind::BitString | TokenKind::Number => {
            value = hexadecimal(cursor.bytes())?;
            cursor.step();
        }
        _ => return None,
    }
    while open > 0 && cursor.kind() == TokenKind::Close {
        cursor.step();
        open -= 1;
    }
    (open == 0 && (cursor.at_end() || cursor.at(W::Using))).then_some(value)
}

/// The bytes of `X'…'` or `0x…`.
fn hexadecimal(token: &[u8]) -> Option<Vec<u8>> {
    let digits = match token {
        [b'x' | b'X', b'\'', digits @ .., b'\''] | [b'0', b'x', digits @ ..] => digits,
        _ => return None,
    };
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    // An odd digit at the front stands alone.
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let mut bytes = first.iter().map(|digit| value(*digit)).collect::<Option<Vec<u8>>>()?;
    for pair in pairs.chunks_exact(2) {
        let [high, low] = pair else { return None };
        bytes.push(value(*high)? << 4 | value(*low)?);
    }
    Some(bytes)
}

/// Verbs of statements that ANALYZE may run.
const VERBS: [W; 7] = [W::Select, W::With, W::Values, W::Insert, W::Replace, W::Update, W::Delete];

/// Shows what stands in a block where a statement can begin, each up to its `;`.
fn block(mut cursor: Cursor<'_>, end: usize, depth: u8, see: See<'_>) -> bool {
    let (text, dialect) = (cursor.text(), *cursor.dialect());
    let mut begins: Vec<usize> = Vec::new();
    while cursor.token.start < end && !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad) {
        if cursor.kind() == TokenKind::Semicolon {
            for start in std::mem::take(&mut begins) {
                let part = text.get(start..cursor.token.start).unwrap_or_default().trim_ascii();
                if !part.is_empty() && (see(part) || inside(part, &dialect, depth, see)) {
                    return true;
                }
            }
            begins.push(cursor.token.end);
        } else if cursor.at_any(&[W::Begin, W::Then, W::Else, W::Do, W::Loop, W::Repeat])
            || cursor.bytes().eq_ignore_ascii_case(b"ATOMIC")
        {
            // THEN and ELSE stand in expressions, too.
            begins.truncate(BEGINS_MAX - 1);
            begins.push(cursor.token.end);
        }
        cursor.step();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Family;

    fn all(text: &str) -> Vec<String> {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let mut seen = Vec::new();
        parts(text.as_bytes(), &dialect, &mut |part| {
            seen.push(String::from_utf8_lossy(part).into_owned());
            false
        });
        seen
    }

    #[test]
    fn a_statement_alone_has_no_parts() {
        for text in ["", "SELECT 1", "/* a; b */ DELETE FROM t WHERE a = ';'", "EXPLAIN DELETE FROM t"] {
            assert_eq!(all(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn each_of_several_statements_is_one() {
        assert_eq!(all("SELECT 1; /* page: a */ DELETE FROM t;"), ["SELECT 1", "/* page: a */ DELETE FROM t"]);
        assert_eq!(all("DELETE FROM t; SELECT 'not closed"), ["DELETE FROM t", "SELECT 'not closed"]);
    }

    #[test]
    fn literal_texts_are_read() {
        for text in [
            "PREPARE s FROM 'DELETE /* x */ FROM t'",
            "PREPARE s FROM /* x */ 'DELETE /* x */ ' 'FROM t'",
            "execute immediate 'DELETE /* x */ FROM t' USING 1",
            "PREPARE s FROM _utf8mb4'DELETE /* x */ FROM t'",
            "EXECUTE IMMEDIATE N'DELETE /* x */ FROM t'",
            "EXECUTE IMMEDIATE ((_latin1 'DELETE /* x */ ' 'FROM t')) USING 1",
            "PREPARE s FROM X'44454C455445202F2A2078202A2F2046524F4D2074'",
            "EXECUTE IMMEDIATE 0x44454C455445202F2A2078202A2F2046524F4D2074",
            "SET STATEMENT max_statement_time = 1 FOR DELETE /* x */ FROM t",
            "ANALYZE FORMAT = JSON DELETE /* x */ FROM t",
            "BEGIN NOT ATOMIC DELETE /* x */ FROM t; END",
            "IF 1 THEN DELETE /* x */ FROM t; END IF",
        ] {
            assert!(all(text).contains(&"DELETE /* x */ FROM t".to_owned()), "{text}: {:?}", all(text));
        }
        for text in ["PREPARE s FROM @a", "PREPARE s FROM X'4'4", "PREPARE s FROM 1", "EXECUTE IMMEDIATE ('SELECT 1'"] {
            assert_eq!(all(text), [""; 0], "{text}");
        }
        let both = all("SELECT 1; EXECUTE IMMEDIATE 'DELETE FROM t'");
        assert_eq!(both, ["SELECT 1", "EXECUTE IMMEDIATE 'DELETE FROM t'", "DELETE FROM t"]);
    }

    #[test]
    fn a_rest_that_servers_may_read_otherwise_is_read_in_each_way() {
        let dialect =
            Dialect { family: Family::MySql, version: 90_000, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let shows =
            |text: &[u8]| parts(text, &dialect, &mut |part| part.starts_with(b"DROP") && !part.contains(&b'\\'));
        assert!(shows(b"SET NAMES gbk; SELECT '\xbf\\'; DROP TABLE t; -- '"));
        assert!(shows(b"EXECUTE s; SELECT '\xbf\\\\'; DROP TABLE t; -- "));
        assert!(shows(b"SET sql_mode = ''; SELECT 1; SELECT \"\\\"; DROP TABLE t; -- \""));
        assert!(!shows(b"SELECT 1; SELECT '\xbf\\'; DROP TABLE t; -- '"));
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let dialect =
            Dialect { family: Family::MySql, version: 90_000, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let mut seen = 0;
        let mut see = |_: &[u8]| {
            seen += 1;
            true
        };
        assert!(parts(b"SELECT 1; SELECT 2", &dialect, &mut see));
        assert_eq!(seen, 1);
    }
}

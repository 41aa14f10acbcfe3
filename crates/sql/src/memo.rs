//! Statements that were understood before, found by their shape.
//!
//! Applications send the same few statements with other numbers and strings in them. [`Memo::classify`] copies a text with
//! each such literal replaced by a mark, and looks that shape up: a hit costs a pass of a few instructions a byte, instead of
//! one that reads tokens. Whatever could be read in more than one way — comments, variables, escapes, quoted names in
//! double quotes, numbers with a point or letters, anything but ASCII — has no shape and is read as before.
//!
//! A shape is compared byte by byte, so that no hash decides what a statement is.

use std::rc::Rc;

use crate::classify;
use crate::dialect::Dialect;
use crate::functions::Functions;
use crate::hash::{SPREAD, fold};
use crate::statement::{FoundRows, Kind, Statement};

/// Longer texts have no shape: it would be looked for longer than it saves.
const TEXT_BYTES_MAX: usize = 1024;
/// Shapes that are remembered, each in the place that its hash tells; a newer one takes the place.
const PLACES: usize = 1024;
/// Digits that a number with a shape may have.
const DIGITS_MAX: usize = 18;
/// Stands for a number, and for a string. Texts with bytes like these have no shape.
const NUMBER: u8 = 1;
const STRING: u8 = 2;

/// The meaning of a byte for the shape of a text. Bytes of the first two are their own shape. These have the numbers 0 and 1, so
/// that the numbers of several bytes, or'ed, are below 2 only if all are of these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Class {
    /// White space and marks that mean the same wherever they stand.
    Mark,
    /// Letters and `_`.
    Letter,
    /// The text has no shape.
    No,
    /// A digit: of a number, or of a name that began with a letter.
    Digit,
    /// A single quote.
    Quote,
    /// A backtick.
    Backtick,
    /// `-` and `/`: with another mark behind them they begin a comment.
    MayComment,
    /// A point: a digit behind it may be part of a number or of a name.
    Point,
}

const CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut classes = [Class::No; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            // A `$` may begin a text that reads by other rules.
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' | b'\n' | b'\r' => Class::Mark,
            b'(' | b')' | b',' | b'=' | b'<' | b'>' | b'!' | b'+' | b'*' | b'%' | b'&' | b'|' | b'^' | b'~' => {
                Class::Mark
            }
            b'\'' => Class::Quote,
            b'`' => Class::Backtick,
            b'-' | b'/' => Class::MayComment,
            b'.' => Class::Point,
            _ => Class::No,
        };
        byte += 1;
    }
    classes
}

/// Remembers what statements are.
#[derive(Debug)]
pub struct Memo {
    places: Box<[Option<Entry>]>,
    shape: Box<[u8; TEXT_BYTES_MAX]>,
}

#[derive(Debug)]
struct Entry {
    dialect: Dialect,
    shape: Box<[u8]>,
    statement: Rc<Statement>,
}

impl Default for Memo {
    fn default() -> Memo {
        Memo { places: (0..PLACES).map(|_| None).collect(), shape: Box::new([0; TEXT_BYTES_MAX]) }
    }
}

impl Memo {
    /// The same as [`classify()`] gives. `functions` must be the same at each call, or [`Memo::clear`] be called between.
    pub fn classify(&mut self, text: &[u8], dialect: &Dialect, functions: &dyn Functions) -> Rc<Statement> {
        let Some(shape) = shape_of(text, &mut self.shape) else {
            return Rc::new(classify(text, dialect, functions));
        };
        let place = &mut self.places[hash(shape) as usize % PLACES];
        if let Some(known) = place
            && *known.shape == *shape
            && known.dialect == *dialect
        {
            return known.statement.clone();
        }
        let statement = Rc::new(classify(text, dialect, functions));
        if has_meaning_of_shape(&statement, shape) {
            *place = Some(Entry { dialect: *dialect, shape: shape.into(), statement: statement.clone() });
        }
        statement
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.places.fill_with(|| None);
    }
}

/// Whether every text of this shape is this statement: no number or string of the text went into it.
fn has_meaning_of_shape(statement: &Statement, shape: &[u8]) -> bool {
    use Kind::{Delete, Insert, Select, Transaction, Update};
    let plain = matches!(statement.kind, Select | Insert | Update | Delete | Transaction)
        && statement.parts == 1
        && statement.effects.is_empty()
        && statement.asks.is_empty()
        && statement.hint.is_none();
    // MariaDB's VALUES as a query: what stands in its strings is looked at.
    let is_values =
        || statement.kind == Kind::Select && shape.windows(6).any(|word| word.eq_ignore_ascii_case(b"values"));
    let skips = matches!(statement.found_rows, FoundRows::Rows { skipped } if skipped > 0);
    plain && !skips && !is_values()
}

/// How many letters and marks a text begins with. Most are found eight at a time.
fn plain_bytes(text: &[u8]) -> usize {
    let class = |byte: &u8| CLASSES[usize::from(*byte)] as u8;
    let is_plain = |classes: u8| classes <= Class::Letter as u8;
    let (words, _) = text.as_chunks::<8>();
    let plain =
        words.iter().take_while(|word| is_plain(word.iter().fold(0, |all, byte| all | class(byte)))).count() * 8;
    let last = text[plain..].iter().position(|byte| !is_plain(class(byte)));
    last.map_or(text.len(), |last| plain + last)
}

/// Writes the text's shape, which is no longer than the text; `None` if it has none.
fn shape_of<'a>(text: &[u8], shape: &'a mut [u8; TEXT_BYTES_MAX]) -> Option<&'a [u8]> {
    let mut bytes = text.iter();
    let next = |bytes: &std::slice::Iter<'_, u8>| bytes.as_slice().first().copied().unwrap_or(b' ');
    let class = |byte: u8| CLASSES[usize::from(byte)];
    // Numbers behind LIMIT are part of the shape: what an OFFSET skips is part of the statement.
    let (mut limited, mut in_word) = (false, false);
    let mut end = 0;
    loop {
        // Letters and marks, the most of a text, are their own shape.
        let rest = bytes.as_slice();
        let (plain, rest) = rest.split_at(plain_bytes(rest));
        if let Some(last) = plain.last() {
            in_word = class(*last) == Class::Letter;
            shape.get_mut(end..end + plain.len())?.copy_from_slice(plain);
            (end, bytes) = (end + plain.len(), rest.iter());
        }
        let Some(&byte) = bytes.next() else { break };
        let mut mark = byte;
        match class(byte) {
            Class::Digit if in_word => {}
            Class::Digit => {
                limited |= ends_with_limit(&shape[..end]);
                let mut digits = 1;
                while class(next(&bytes)) == Class::Digit {
                    if limited {
                        *shape.get_mut(end)? = mark;
                        end += 1;
                    }
                    (mark, digits) = (*bytes.next()?, digits + 1);
                }
                if digits > DIGITS_MAX || matches!(class(next(&bytes)), Class::Letter | Class::Point) {
                    return None;
                }
                if !limited {
                    mark = NUMBER;
                }
            }
            // `x'41'` is no string.
            Class::Quote if in_word => return None,
            Class::Quote => {
                skip_string(&mut bytes)?;
                mark = STRING;
            }
            Class::Backtick => loop {
                *shape.get_mut(end)? = mark;
                end += 1;
                mark = *bytes.next()?;
                match mark {
                    b'`' => break,
                    b' '..=b'~' => {}
                    _ => return None,
                }
            },
            Class::MayComment if matches!(next(&bytes), b'-' | b'*') => return None,
            Class::Point if class(next(&bytes)) == Class::Digit => return None,
            Class::MayComment | Class::Point => in_word = false,
            Class::Mark | Class::Letter | Class::No => return None,
        }
        *shape.get_mut(end)? = mark;
        end += 1;
    }
    shape.get(..end)
}

/// Takes the rest of a string and its last quote; `None` if no text with such a string has a shape.
#[inline(always)]
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) -> Option<()> {
    loop {
        match bytes.next()? {
            b'\'' => return Some(()),
            b'\\' => return None,
            byte if !byte.is_ascii() => return None,
            _ => {}
        }
    }
}

/// Whether LIMIT stands before a number.
fn ends_with_limit(shape: &[u8]) -> bool {
    shape.trim_ascii_end().last_chunk::<5>().is_some_and(|word| word.eq_ignore_ascii_case(b"limit"))
}

/// Finds the place; nothing else stands on it.
fn hash(shape: &[u8]) -> u64 {
    let (chunks, rest) = shape.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mix = |hash: u64, chunk: [u8; 8]| fold(hash ^ u64::from_le_bytes(chunk), SPREAD);
    mix(chunks.iter().fold(shape.len() as u64, |hash, chunk| mix(hash, *chunk)), last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoding, Family, Modes, NoFunctions};

    const DIALECT: Dialect =
        Dialect { family: Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::Utf8 };

    /// Whether the second text is found by what was remembered of the first.
    fn finds(first: &str, second: &str) -> bool {
        let mut memo = Memo::default();
        let mut understand = |text: &str| memo.classify(text.as_bytes(), &DIALECT, &NoFunctions);
        let statements = [understand(first), understand(second)];
        for (text, statement) in [first, second].into_iter().zip(&statements) {
            assert_eq!(**statement, classify(text.as_bytes(), &DIALECT, &NoFunctions), "{text}");
        }
        Rc::ptr_eq(&statements[0], &statements[1])
    }

    #[test]
    fn letters_and_marks_are_counted_to_the_first_other_byte() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255_u8 {
                    let mut text = b"SELECT c, d FROM t_a WHERE (a = b) AND c"[..length].to_vec();
                    text[at] = byte;
                    let is_plain = |byte: &u8| matches!(CLASSES[usize::from(*byte)], Class::Mark | Class::Letter);
                    assert_eq!(plain_bytes(&text), text.iter().take_while(|byte| is_plain(byte)).count());
                }
            }
        }
    }

    #[test]
    fn other_numbers_and_strings_make_no_other_statement() {
        assert!(finds("SELECT c FROM sbtest1 WHERE id=5012", "SELECT c FROM sbtest1 WHERE id=77"));
        assert!(finds("SELECT `a b` FROM t WHERE n = 'x' LIMIT 5", "SELECT `a b` FROM t WHERE n = 'y; DROP' LIMIT 5"));
        assert!(finds(
            "INSERT INTO t (a, b) VALUES (1, 'a'), (2, '')",
            "INSERT INTO t (a, b) VALUES (7, ''), (0, 'b')"
        ));
        assert!(finds("UPDATE t SET a = a - 1 WHERE id IN (1, 2)", "UPDATE t SET a = a - 9 WHERE id IN (4, 5)"));
        assert!(finds("DELETE FROM t WHERE a='it''s'", "DELETE FROM t WHERE a='that''s'"));
        assert!(finds("START TRANSACTION READ ONLY", "START TRANSACTION READ ONLY"));
    }

    #[test]
    fn what_differs_in_more_is_another_statement() {
        for (first, second) in [
            ("SELECT 1 FROM t", "SELECT 1 FROM u"),
            ("SELECT a FROM t LIMIT 0, 5", "SELECT a FROM t LIMIT 3, 5"),
            ("SELECT a FROM t LIMIT 5 OFFSET 0", "SELECT a FROM t LIMIT 5 OFFSET 3"),
            ("VALUES ('a')", "VALUES ('union')"),
            ("SELECT 12 FROM t", "SELECT 1e FROM t"),
            ("SELECT t.1 FROM t", "SELECT t.2 FROM t"),
            ("SELECT 1/2", "SELECT 1/*2*/"),
            ("SELECT 1 - -1", "SELECT 1 -- 1"),
            ("ROLLBACK", "ROLLBACK TO a"),
        ] {
            assert!(!finds(first, second), "{first} | {second}");
        }
    }

    #[test]
    fn what_may_mean_something_else_has_no_shape() {
        for text in [
            "SELECT /* sqluice: primary */ 1",
            "SELECT 1 # one",
            "SELECT @a",
            "SELECT 'a\\'",
            "SELECT \"a\"",
            "SELECT x'41'",
            "SELECT 1.5",
            "SELECT 0x41",
            "SELECT 'ü'",
            "SELECT 'open",
            "SELECT `open",
            "SELECT 1; SELECT 2",
            "SELECT ?",
            "SELECT \u{1}",
        ] {
            assert!(!finds(text, text), "{text}");
        }
    }

    #[test]
    fn the_dialect_is_part_of_it_and_what_is_forgotten_is_read_again() {
        let text = b"SELECT a || b FROM t WHERE c = 1";
        let mut memo = Memo::default();
        let first = memo.classify(text, &DIALECT, &NoFunctions);
        let other = Dialect { modes: Modes::PIPES_AS_CONCAT, ..DIALECT };
        assert!(!Rc::ptr_eq(&first, &memo.classify(text, &other, &NoFunctions)));
        let second = memo.classify(text, &DIALECT, &NoFunctions);
        assert!(Rc::ptr_eq(&second, &memo.classify(text, &DIALECT, &NoFunctions)));
        memo.clear();
        assert!(!Rc::ptr_eq(&second, &memo.classify(text, &DIALECT, &NoFunctions)));
    }
}

//! Marks: the comment ahead of a write by which a server's log tells on which connection of which process it was sent.
//!
//! Servers log the text of a statement with the comments in front of it, also that of a prepared statement with its values (seen
//! with MariaDB 10.11 and MySQL 9.7), and no log of a replica has anything else that tells whose a transaction is. In front a
//! comment disturbs nothing: what a text ends with, versioned comments, hints behind the verb and the lines that errors
//! name stay as they are. Only writes are marked, so no server's query cache sees one.

use std::sync::atomic::{AtomicU64, Ordering};

use sql::{Access, Kind, Statement, Why};

/// The beginning of a mark.
pub const BEGIN: &[u8] = b"/*sq:";
/// The end of a mark.
pub const END: &[u8] = b"*/";
/// Longest mark that is looked for: two numbers of sixteen digits.
const MARK_BYTES_MAX: usize = 40;
/// Marks in front of a text that are looked at; each Sqluice behind another one adds one.
const MARKS_MAX: usize = 8;
/// Longer texts are not marked, so that a mark takes none beyond `max_allowed_packet`.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the number that tells processes apart.
const INSTANCE_BYTES: usize = 6;

/// Makes marks that no other process makes, nor this one a second time.
#[derive(Debug)]
pub struct Marks {
    instance: Option<String>,
    next: AtomicU64,
}

/// The comment before the writes of one backend connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(Box<[u8]>);

impl Default for Marks {
    fn default() -> Marks {
        // Without randomness nothing is marked, and TLS does not work either.
        let random = wire::auth::ed25519::new_nonce().ok();
        let digits = |bytes: &[u8]| bytes.iter().take(INSTANCE_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Marks { instance: random.map(|random| digits(&random)), next: AtomicU64::new(0) }
    }
}

impl Marks {
    /// One for a new connection.
    pub fn next(&self) -> Option<Mark> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Some(Mark(format!("/*sq:{}.{number:x}*/", self.instance.as_ref()?).into_bytes().into()))
    }
}

impl Mark {
    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether a text of this meaning is marked. The answer for a text must not depend on anything else.
#[inline]
pub fn belongs_to(statement: &Statement, text: &[u8]) -> bool {
    statement.access == Access::Primary(Why::Writes)
        && matches!(statement.kind, Kind::Insert | Kind::Update | Kind::Delete)
        && statement.parts == 1
        && text.len() <= TEXT_BYTES_MAX
}

/// A text without the marks that it begins with.
pub fn without(mut text: &[u8]) -> &[u8] {
    for _ in 0..MARKS_MAX {
        match in_front_of(text).next() {
            Some((_, behind)) if text.starts_with(BEGIN) => text = behind,
            _ => break,
        }
    }
    text
}

/// The marks in front of a text, and where it goes on behind each.
pub fn in_front_of(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = text;
    let next = move || {
        let text = rest.trim_ascii_start();
        let window = text.get(..text.len().min(MARK_BYTES_MAX)).unwrap_or_default();
        let inner = window.strip_prefix(BEGIN)?;
        let length = BEGIN.len() + memchr::memmem::find(inner, END)? + END.len();
        let (mark, behind) = text.split_at_checked(length)?;
        rest = behind;
        Some((mark, behind))
    };
    std::iter::from_fn(next).take(MARKS_MAX)
}

#[cfg(test)]
mod tests {
    use sql::{Dialect, Encoding, Family, Modes, NoFunctions};

    use super::*;

    #[test]
    fn no_two_marks_are_the_same() {
        let (one, other) = (Marks::default(), Marks::default());
        let marks = [one.next(), one.next(), other.next(), other.next()].map(Option::unwrap);
        for (index, mark) in marks.iter().enumerate() {
            assert!(mark.bytes().len() <= MARK_BYTES_MAX, "{mark:?}");
            assert!(!marks[index + 1..].contains(mark), "{marks:?}");
        }
        let longest = Marks { instance: one.instance, next: AtomicU64::new(u64::MAX) }.next().unwrap();
        assert!(longest.bytes().len() <= MARK_BYTES_MAX, "{longest:?}");
    }

    #[test]
    fn marks_are_found_in_front_only() {
        let found = |text: &'static str| {
            let found = in_front_of(text.as_bytes()).map(|(mark, _)| String::from_utf8_lossy(mark).into_owned());
            found.collect::<Vec<_>>()
        };
        assert_eq!(found("/*sq:a.1*/INSERT"), ["/*sq:a.1*/"]);
        assert_eq!(found(" /*sq:a.1*/\n/*sq:b.2*/ INSERT /*sq:c.3*/"), ["/*sq:a.1*/", "/*sq:b.2*/"]);
        assert_eq!(found("/* why */ /*sq:a.1*/INSERT"), [""; 0]);
        assert_eq!(found("/*sq:a"), [""; 0]);
        assert_eq!(found("/*sq:0123456789012345678901234567890123456789*/"), [""; 0]);
        assert_eq!(in_front_of(b"/*sq:a.1*/ x").map(|(_, rest)| rest).collect::<Vec<_>>(), [b" x"]);
        assert_eq!(in_front_of(&b"/*sq:a.1*/".repeat(100)).count(), MARKS_MAX);
    }

    #[test]
    fn a_text_without_its_marks_is_as_it_was() {
        for (marked, text) in [
            ("/*sq:a.1*/INSERT", "INSERT"),
            ("/*sq:a.1*//*sq:b.2*/ INSERT /*sq:c.3*/", " INSERT /*sq:c.3*/"),
            (" /*sq:a.1*/INSERT", " /*sq:a.1*/INSERT"),
            ("/*sq:a", "/*sq:a"),
            ("", ""),
        ] {
            assert_eq!(without(marked.as_bytes()), text.as_bytes(), "{marked}");
        }
    }

    #[test]
    fn only_single_writes_of_rows_are_marked() {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let is = |text: &str| belongs_to(&sql::classify(text.as_bytes(), &dialect, &NoFunctions), text.as_bytes());
        for text in [
            "INSERT INTO t VALUES (1)",
            "/*!50000 REPLACE INTO t VALUES (?) */",
            "UPDATE t SET a = 1",
            " -- why\nDELETE FROM t",
            "WITH c AS (SELECT 1) DELETE FROM t WHERE id IN (SELECT * FROM c)",
            "INSERT INTO t SELECT f()",
        ] {
            assert!(is(text), "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT * FROM t FOR UPDATE",
            "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)",
            "CREATE TABLE t (a INT)",
            "LOAD DATA INFILE 'x' INTO TABLE t",
            "CALL p()",
            "COMMIT",
            "EXPLAIN INSERT INTO t VALUES (1)",
        ] {
            assert!(!is(text), "{text}");
        }
        assert!(!is(&format!("INSERT INTO t VALUES ('{}')", "x".repeat(TEXT_BYTES_MAX))));
    }
}

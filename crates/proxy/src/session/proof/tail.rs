//! Looks for one session's transaction in the tail of a binary log.
//!
//! No log says whose a transaction was once it came by replication: MariaDB 10.11 names no connection for rows, and MySQL 9.7 names
//! that of its own applier. The texts of the statements tell, where they are logged, and what sessions were told of their own
//! transactions is left out. Another text is no proof that a transaction is another one: where a trigger writes first, both
//! families log the trigger's text instead of the client's. So nothing is absent while a transaction is there of which nobody
//! knows whose it is.

use wire::binlog::{Event, Kind};

/// A transaction by its GTID: the server's UUID (MySQL) or the domain (MariaDB), and the number.
pub type Name = (u128, u64);

/// Stands in the statement by which the monitor writes its heartbeat.
const HEARTBEAT: &[u8] = b".heartbeat (writer, at_us)";

/// What is sought.
#[derive(Debug)]
pub struct Sought {
    /// `server_id` of the server that has the log: what began there is not it.
    pub logged_on: u32,
    /// The statements that may have written, in order.
    pub texts: Vec<Text>,
}

/// A statement's text.
#[derive(Debug)]
pub struct Text {
    /// As it was sent.
    pub text: Vec<u8>,
    /// It has parameters, whose values stand in the log instead of the question marks.
    pub has_parameters: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: it is not there.
    Nothing,
    /// These may be it: each would do.
    These(Vec<Name>),
    /// There are transactions of others of which nobody knows yet whose they are.
    Others,
    /// What is there cannot be told from it.
    Unclear(&'static str),
}

/// The transaction that is read.
#[derive(Debug)]
struct Current {
    name: Name,
    /// The first text that the next annotation may be of.
    next: usize,
    annotated: bool,
    guessed: bool,
    is_other: bool,
    /// The monitor wrote it, and is told nothing.
    is_heartbeat: bool,
}

/// The search.
#[derive(Debug)]
pub struct Tail {
    sought: Sought,
    current: Option<Current>,
    names: Vec<Name>,
    guesses: Vec<Name>,
    textless: Vec<Name>,
    others: Vec<Name>,
    unclear: Option<&'static str>,
}

impl Tail {
    /// Nothing read yet.
    pub fn new(sought: Sought) -> Tail {
        Tail {
            sought,
            current: None,
            names: Vec::new(),
            guesses: Vec::new(),
            textless: Vec::new(),
            others: Vec::new(),
            unclear: None,
        }
    }

    /// Takes the next event in.
    pub fn take(&mut self, event: &Event<'_>) {
        let foreign = event.server != self.sought.logged_on;
        match event.kind {
            Kind::MySqlGtid { source, number } if foreign => self.begin((u128::from_be_bytes(source), number)),
            Kind::MariaDbGtid { domain, sequence } if foreign => self.begin((u128::from(domain), sequence)),
            Kind::MySqlGtid { .. } | Kind::MariaDbGtid { .. } => {
                self.end();
                self.current = None;
            }
            Kind::Query { text: b"BEGIN" | b"COMMIT", .. } => {}
            // A statement that was logged as such.
            Kind::Query { text, .. } => self.annotate(text),
            Kind::Annotate(text) => self.annotate(text),
            Kind::Opaque if foreign => self.unclear = Some("transactions in it are compressed, encrypted or tagged"),
            Kind::Commit | Kind::Opaque | Kind::Format { .. } | Kind::Other => {}
        }
    }

    /// What was found, but for transactions that somebody knows to be his own. The log must have been read to its end.
    pub fn found(&self, known: impl Fn(Name) -> bool) -> Found {
        let unknown = |names: &[Name]| names.iter().copied().filter(|name| !known(*name)).collect::<Vec<_>>();
        let names = unknown(&self.names);
        match self.unclear {
            Some(why) => Found::Unclear(why),
            None if !unknown(&self.textless).is_empty() => Found::Unclear(
                "it holds rows without their statements (binlog_annotate_row_events, binlog_rows_query_log_events)",
            ),
            None if !names.is_empty() => Found::These(names),
            None if !unknown(&self.guesses).is_empty() => {
                Found::Unclear("it holds statements of the same form, whose parameters are not compared")
            }
            None if !unknown(&self.others).is_empty() => Found::Others,
            None => Found::Nothing,
        }
    }

    fn begin(&mut self, name: Name) {
        self.end();
        self.current =
            Some(Current { name, next: 0, annotated: false, guessed: false, is_other: false, is_heartbeat: false });
    }

    fn annotate(&mut self, text: &[u8]) {
        let Some(current) = &mut self.current else { return };
        if !current.annotated && memchr::memmem::find(text, HEARTBEAT).is_some() {
            current.is_heartbeat = true;
        }
        current.annotated = true;
        let mut later = self.sought.texts.iter().enumerate().skip(current.next);
        match later.find(|(_, sought)| sought.may_be(text)) {
            Some((index, sought)) => {
                current.guessed |= trim(text) != trim(&sought.text);
                // The same text may stand for several annotations, as behind a trigger.
                current.next = index;
            }
            None => current.is_other = true,
        }
    }

    /// The log's end is reached.
    pub fn end(&mut self) {
        let Some(current) = self.current.take() else { return };
        match current {
            Current { is_heartbeat: true, .. } => {}
            Current { is_other: true, name, .. } => self.others.push(name),
            Current { annotated: false, name, .. } => self.textless.push(name),
            Current { guessed: true, name, .. } => self.guesses.push(name),
            Current { name, .. } => self.names.push(name),
        }
    }
}

impl Text {
    /// Whether the log's text may be this one's.
    fn may_be(&self, logged: &[u8]) -> bool {
        let (mut logged, own) = (trim(logged), trim(&self.text));
        if !self.has_parameters {
            // What goes on behind it is not understood, and no proof of anything.
            return logged.starts_with(own);
        }
        // What stands between question marks stands there too; a question mark within a string makes it only more likely.
        let mut parts = own.split(|byte| *byte == b'?');
        let Some(rest) = parts.next().and_then(|first| logged.strip_prefix(first)) else { return false };
        logged = rest;
        for part in parts {
            let Some(at) = memchr::memmem::find(logged, part) else { return false };
            logged = &logged[at + part.len()..];
        }
        true
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
mod tests {
    use super::*;

    fn sought(texts: &[&str]) -> Tail {
        let texts =
            texts.iter().map(|text| Text { text: text.as_bytes().to_vec(), has_parameters: text.contains('?') });
        Tail::new(Sought { logged_on: 2, texts: texts.collect() })
    }

    fn mariadb(tail: &mut Tail, sequence: u64, texts: &[&str]) {
        tail.take(&Event { server: 1, kind: Kind::MariaDbGtid { domain: 0, sequence } });
        texts.iter().for_each(|text| tail.take(&Event { server: 1, kind: Kind::Annotate(text.as_bytes()) }));
        tail.take(&Event { server: 1, kind: Kind::Commit });
    }

    #[test]
    fn mysql_tells_by_the_texts_too() {
        let source = 9_u128.to_be_bytes();
        let found = |server, kinds: &[Kind<'_>]| {
            let mut tail = sought(&["UPDATE t SET a = 1"]);
            tail.take(&Event { server, kind: Kind::MySqlGtid { source, number: 4 } });
            tail.take(&Event { server, kind: Kind::Query { thread: 21, text: b"BEGIN" } });
            kinds.iter().for_each(|kind| tail.take(&Event { server, kind: *kind }));
            tail.end();
            tail.found(|_| false)
        };
        let (ours, other) = (b"UPDATE t SET a = 1", b"UPDATE t SET a = 2");
        assert_eq!(found(1, &[Kind::Annotate(ours)]), Found::These(vec![(9, 4)]));
        assert_eq!(found(1, &[Kind::Query { thread: 21, text: ours }]), Found::These(vec![(9, 4)]));
        assert_eq!(found(1, &[Kind::Annotate(other)]), Found::Others);
        assert!(matches!(found(1, &[Kind::Other, Kind::Commit]), Found::Unclear(_)), "no texts");
        assert_eq!(found(2, &[Kind::Annotate(ours)]), Found::Nothing, "it began on the server that has the log");
        assert!(matches!(found(1, &[Kind::Opaque]), Found::Unclear(_)));
    }

    #[test]
    fn the_texts_of_the_statements_tell() {
        let found = |texts: &[&str], transactions: &[(u64, &[&str])], told: &[u64]| {
            let mut tail = sought(texts);
            transactions.iter().for_each(|(sequence, texts)| mariadb(&mut tail, *sequence, texts));
            tail.end();
            tail.found(|(_, number)| told.contains(&number))
        };
        let insert = "INSERT INTO t VALUES (7)";
        assert_eq!(found(&[insert], &[(1, &["DELETE FROM t"]), (2, &[insert])], &[]), Found::These(vec![(0, 2)]));
        assert_eq!(found(&[" INSERT INTO t VALUES (7); "], &[(2, &[insert])], &[]), Found::These(vec![(0, 2)]));
        let trigger = "INSERT INTO audit VALUES (NEW.id)";
        assert_eq!(found(&[insert], &[(1, &[trigger])], &[]), Found::Others, "perhaps ours: a trigger wrote first");
        assert_eq!(found(&[insert], &[(1, &[trigger])], &[1]), Found::Nothing);
        let heartbeat = "INSERT INTO `sqluice`.heartbeat (writer, at_us) SELECT 1, 2";
        assert_eq!(found(&[insert], &[(1, &[heartbeat])], &[]), Found::Nothing);
        assert_eq!(found(&[insert], &[(1, &[insert])], &[1]), Found::Nothing, "somebody else's");
        assert_eq!(found(&[insert], &[(1, &[insert]), (2, &[insert])], &[1]), Found::These(vec![(0, 2)]));
        let both = ["UPDATE a", "UPDATE b"];
        assert_eq!(found(&both, &[(1, &both), (2, &["UPDATE b", "UPDATE a"])], &[]), Found::These(vec![(0, 1)]));
        assert_eq!(found(&both, &[(1, &["UPDATE b"])], &[]), Found::These(vec![(0, 1)]), "the first changed nothing");
        let prepared = "INSERT INTO t VALUES (?, '?')";
        assert!(matches!(found(&[prepared], &[(1, &["INSERT INTO t VALUES (5, '?')"])], &[]), Found::Unclear(_)));
        assert_eq!(found(&[prepared], &[(1, &["INSERT INTO u VALUES (5, '?')"])], &[]), Found::Others);
        assert!(matches!(found(&[insert], &[(1, &[])], &[]), Found::Unclear(_)), "no texts at all");
        assert!(matches!(found(&[insert], &[(1, &["INSERT INTO t VALUES (7)\x01\x02"])], &[]), Found::Unclear(_)));
    }
}

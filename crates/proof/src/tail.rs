//! Looks for one session's transaction in the tail of a binary log.
//!
//! No log says whose a transaction was once it came by replication: MariaDB 10.11 names no connection for rows, and MySQL 9.7 names
//! that of its own applier. The texts of the statements tell, where they are logged, and what sessions were told of their own
//! transactions is left out. Another text is no proof that a transaction is another one: where a trigger writes first, both
//! families log the trigger's text instead of the client's. So nothing is absent while a transaction is there of which nobody
//! knows whose it is. A transaction with a mark names its connection: the mark of another connection is another's.

use std::collections::HashMap;

use wire::binlog::{Event, EventKind};

use crate::changed::{Changed, Target};
use crate::logged::{Likeness, Text};
use crate::mark::{self, Mark};

/// A transaction by its GTID: the server's UUID (MySQL) or the domain (MariaDB), and the number.
pub type Name = (u128, u64);

/// Stands in the statement by which the monitor writes its heartbeat.
const HEARTBEAT: &[u8] = b".heartbeat (writer, at_us)";

/// The transaction that is searched.
#[derive(Debug)]
pub struct Sought {
    /// `server_id` of the server that has the log: what began there is not it. `None` where logs do not tell where a transaction
    /// began, as in a Galera group.
    pub logged_on: Option<u32>,
    /// The mark of the session's writes.
    pub mark: Option<Mark>,
    /// The statements that may have written, in order.
    pub texts: Vec<Text>,
    /// The table whose rows count, if there is one statement that changes one table.
    pub target: Option<Target>,
}

impl Sought {
    /// Whether a text of the log has marks in front, and none that the session's texts were sent with. A mark may also have come
    /// with the text, from a Sqluice that is a client of this one.
    fn was_sent_by_another(&self, logged: &[u8]) -> bool {
        let mut marks = mark::in_front_of(logged).map(|(mark, _)| mark).peekable();
        let came =
            |mark: &[u8]| self.texts.iter().any(|text| mark::in_front_of(&text.text).any(|(came, _)| came == mark));
        let is_own = |mark: &[u8]| self.mark.as_ref().is_some_and(|own| own.bytes() == mark);
        marks.peek().is_some() && !marks.any(|mark| is_own(mark) || came(mark))
    }
}

/// The outcome of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchOutcome {
    /// Nothing: it is not there.
    Nothing,
    /// These may be it: each would do.
    These(Vec<Name>),
    /// There are other transactions of unknown origin so far.
    Others,
    /// The same, and some of them look as if they were it.
    Similar,
    /// The log cannot prove it; with the reason.
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
    /// It is not the session's: the monitor wrote it, or it was sent on another connection.
    is_foreign: bool,
    /// The last text's tables are all in other schemas than its own, so far.
    is_elsewhere: bool,
    changed: Changed,
}

/// The search.
#[derive(Debug)]
pub struct Tail {
    sought: Sought,
    current: Option<Current>,
    names: Vec<Name>,
    /// The changes of those transactions to the target.
    changed: HashMap<Name, Changed>,
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
            changed: HashMap::new(),
            guesses: Vec::new(),
            textless: Vec::new(),
            others: Vec::new(),
            unclear: None,
        }
    }

    /// Takes the next event in.
    pub fn take(&mut self, event: &Event<'_>) {
        let foreign = self.sought.logged_on.is_none_or(|own| event.server != own);
        match event.kind {
            EventKind::MySqlGtid { source, number } if foreign => {
                self.begin((u128::from_be_bytes(source), number), event.server);
            }
            EventKind::MariaDbGtid { domain, sequence } if foreign => {
                self.begin((u128::from(domain), sequence), event.server);
            }
            EventKind::MySqlGtid { .. } | EventKind::MariaDbGtid { .. } => {
                self.end();
                self.current = None;
            }
            EventKind::Query { text: b"BEGIN" | b"COMMIT", .. } => {}
            // A statement that was logged as such.
            EventKind::Query { error, schema, text } => self.statement(error, schema, text),
            EventKind::Annotate(text) => self.annotate(text),
            EventKind::Opaque if foreign => {
                self.unclear = Some("transactions in it are compressed, encrypted or tagged")
            }
            _ => self.count(event),
        }
    }

    /// Takes in what tells how many rows there were.
    fn count(&mut self, event: &Event<'_>) {
        let Some(current) = &mut self.current else { return };
        let (changed, target) = (&mut current.changed, &self.sought.target);
        match &event.kind {
            EventKind::Table(map) => {
                let text = self.sought.texts.get(current.next);
                let own = text.and_then(|text| text.table_schema.as_deref());
                current.is_elsewhere &= own.is_none_or(|own| !map.schema.eq_ignore_ascii_case(own));
                target.iter().for_each(|target| changed.table(map, target));
            }
            EventKind::Rows(rows) => target.iter().for_each(|target| changed.rows(rows, target)),
            EventKind::InsertId(id) => changed.made_id = Some(*id),
            EventKind::OpaqueRows => changed.is_unclear = true,
            EventKind::Commit => changed.committed = true,
            _ => {}
        }
    }

    /// A statement instead of its rows.
    fn statement(&mut self, error: u16, schema: &[u8], text: &[u8]) {
        self.annotate(text);
        let Some(current) = &mut self.current else { return };
        let own = self.sought.texts.get(current.next).and_then(|text| text.schema.as_deref()).unwrap_or_default();
        current.is_elsewhere = !schema.eq_ignore_ascii_case(own.as_bytes());
        current.changed.is_unclear |= error != 0 || current.changed.is_statement;
        current.changed.is_statement = true;
    }

    /// The outcome, without transactions that belong to a known session. The log must have been read to its end.
    pub fn found(&self, known: impl Fn(Name) -> bool) -> SearchOutcome {
        let unknown = |names: &[Name]| names.iter().copied().filter(|name| !known(*name)).collect::<Vec<_>>();
        let names = unknown(&self.names);
        match self.unclear {
            Some(why) => SearchOutcome::Unclear(why),
            None if !unknown(&self.textless).is_empty() => SearchOutcome::Unclear(
                "it holds rows without their statements (binlog_annotate_row_events, binlog_rows_query_log_events)",
            ),
            None if !names.is_empty() => SearchOutcome::These(names),
            None if !unknown(&self.guesses).is_empty() => SearchOutcome::Similar,
            None if !unknown(&self.others).is_empty() => SearchOutcome::Others,
            None => SearchOutcome::Nothing,
        }
    }

    /// The changes of a found transaction to the target.
    pub fn changed(&self, name: Name) -> Option<&Changed> {
        self.changed.get(&name)
    }

    fn begin(&mut self, name: Name, server: u32) {
        self.end();
        self.current = Some(Current {
            name,
            next: 0,
            annotated: false,
            guessed: false,
            is_other: false,
            is_foreign: false,
            is_elsewhere: false,
            changed: Changed { server, ..Changed::default() },
        });
    }

    fn annotate(&mut self, logged: &[u8]) {
        let Some(current) = &mut self.current else { return };
        if !current.annotated && memchr::memmem::find(logged, HEARTBEAT).is_some() {
            current.is_foreign = true;
        }
        current.is_foreign |= self.sought.was_sent_by_another(logged);
        current.annotated = true;
        let mark = self.sought.mark.as_ref();
        current.guessed |= std::mem::take(&mut current.is_elsewhere);
        let later = self.sought.texts.iter().enumerate().skip(current.next);
        let mut like = later.map(|(index, sought)| (index, sought.is_like(logged, mark)));
        let found = like.clone().find(|(_, like)| *like == Likeness::Same);
        match found.or_else(|| like.find(|(_, like)| *like == Likeness::Similar)) {
            Some((index, likeness)) => {
                current.guessed |= likeness == Likeness::Similar;
                // The same text may stand for several annotations, as behind a trigger.
                current.next = index;
                current.is_elsewhere = self.sought.texts.get(index).is_some_and(|text| text.table_schema.is_some());
            }
            None => current.is_other = true,
        }
    }

    /// The log's end is reached.
    pub fn end(&mut self) {
        let Some(current) = self.current.take() else { return };
        match current {
            Current { is_foreign: true, .. } => {}
            Current { is_other: true, name, .. } => self.others.push(name),
            Current { annotated: false, name, .. } => self.textless.push(name),
            Current { guessed: true, name, .. } | Current { is_elsewhere: true, name, .. } => self.guesses.push(name),
            Current { name, changed, .. } => {
                self.names.push(name);
                self.changed.insert(name, changed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::binlog::TableMap;
    use wire::binlog::rows::Rows;

    use super::*;
    use crate::logged::tests::{DIALECT, prepared};
    use crate::mark::Marks;

    fn sought(texts: &[&str]) -> Tail {
        let texts = texts.iter().map(|text| Text {
            text: text.as_bytes().to_vec(),
            is_marked: true,
            execution: None,
            dialect: DIALECT,
            schema: Some("app".into()),
            table_schema: None,
        });
        Tail::new(Sought { logged_on: Some(2), mark: None, texts: texts.collect(), target: None })
    }

    #[test]
    fn marks_tell_whose_a_transaction_is() {
        let marks = Marks::default();
        let [own, other] = [marks.next().unwrap(), Marks::default().next().unwrap()];
        let with = |mark: &Mark, text: &str| format!("{}{text}", String::from_utf8_lossy(mark.bytes()));
        let found = |mark: Option<&Mark>, text: &str, logged: &[&str]| {
            let mut tail = sought(&[text]);
            tail.sought.mark = mark.cloned();
            mariadb(&mut tail, 1, logged);
            tail.end();
            tail.found(|_| false)
        };
        let (insert, delete) = ("INSERT INTO t VALUES (7)", "DELETE FROM t");
        let these = SearchOutcome::These(vec![(0, 1)]);
        assert_eq!(found(Some(&own), insert, &[&with(&own, insert)]), these);
        assert_eq!(found(Some(&own), &format!(" {insert};"), &[&with(&own, &format!(" {insert}"))]), these);
        assert_eq!(
            found(Some(&own), insert, &[&with(&other, insert)]),
            SearchOutcome::Nothing,
            "the very same of another"
        );
        assert_eq!(found(Some(&own), insert, &[&with(&other, delete)]), SearchOutcome::Nothing);
        assert_eq!(found(Some(&own), insert, &[&with(&other, delete), "INSERT INTO audit"]), SearchOutcome::Nothing);
        assert_eq!(
            found(Some(&own), insert, &[&with(&own, delete)]),
            SearchOutcome::Others,
            "earlier on the same connection"
        );
        assert_eq!(found(Some(&own), insert, &[insert]), SearchOutcome::Similar, "past Sqluice");
        assert_eq!(found(Some(&own), insert, &[delete]), SearchOutcome::Others);
        assert_eq!(found(None, insert, &[&with(&other, insert)]), SearchOutcome::Nothing, "nothing is marked here");
        // Between here and the server stands another Sqluice, or a client of this one is one.
        assert_eq!(found(Some(&own), insert, &[&with(&other, &with(&own, insert))]), these);
        let came = with(&other, insert);
        assert_eq!(found(Some(&own), &came, &[&with(&own, &came)]), these);
        assert_eq!(found(None, &came, &[&came]), these);
        // A text that is too long for a mark.
        let mut tail = sought(&[insert]);
        tail.sought.mark = Some(own);
        tail.sought.texts[0].is_marked = false;
        mariadb(&mut tail, 1, &[insert]);
        tail.end();
        assert_eq!(tail.found(|_| false), these);
    }

    fn mariadb(tail: &mut Tail, sequence: u64, texts: &[&str]) {
        tail.take(&Event { server: 1, kind: EventKind::MariaDbGtid { domain: 0, sequence } });
        texts.iter().for_each(|text| tail.take(&Event { server: 1, kind: EventKind::Annotate(text.as_bytes()) }));
        tail.take(&Event { server: 1, kind: EventKind::Commit });
    }

    /// The body of a map of a table with one column, a BIGINT.
    fn map(schema: &str) -> Vec<u8> {
        let head = [9, 0, 0, 0, 0, 0, 1, 0, u8::try_from(schema.len()).unwrap()];
        [&head[..], schema.as_bytes(), b"\0\x01t\0\x01\x08\0\0"].concat()
    }

    #[test]
    fn mysql_tells_by_the_texts_too() {
        let source = 9_u128.to_be_bytes();
        let found = |server, kinds: &[EventKind<'_>]| {
            let mut tail = sought(&["UPDATE t SET a = 1"]);
            tail.take(&Event { server, kind: EventKind::MySqlGtid { source, number: 4 } });
            tail.take(&Event { server, kind: EventKind::Query { error: 0, schema: b"", text: b"BEGIN" } });
            kinds.iter().for_each(|kind| tail.take(&Event { server, kind: kind.clone() }));
            tail.end();
            tail.found(|_| false)
        };
        let (ours, other) = (b"UPDATE t SET a = 1", b"UPDATE t SET a = 2");
        assert_eq!(found(1, &[EventKind::Annotate(ours)]), SearchOutcome::These(vec![(9, 4)]));
        let statement = |schema| EventKind::Query { error: 0, schema, text: ours };
        assert_eq!(found(1, &[statement(b"app")]), SearchOutcome::These(vec![(9, 4)]));
        assert_eq!(found(1, &[statement(b"other")]), SearchOutcome::Similar);
        assert_eq!(found(1, &[EventKind::Annotate(other)]), SearchOutcome::Others);
        assert!(matches!(found(1, &[EventKind::Other, EventKind::Commit]), SearchOutcome::Unclear(_)), "no texts");
        assert_eq!(
            found(2, &[EventKind::Annotate(ours)]),
            SearchOutcome::Nothing,
            "it began on the server that has the log"
        );
        assert!(matches!(found(1, &[EventKind::Opaque]), SearchOutcome::Unclear(_)));
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
        assert_eq!(
            found(&[insert], &[(1, &["DELETE FROM t"]), (2, &[insert])], &[]),
            SearchOutcome::These(vec![(0, 2)])
        );
        assert_eq!(found(&[" INSERT INTO t VALUES (7); "], &[(2, &[insert])], &[]), SearchOutcome::These(vec![(0, 2)]));
        let trigger = "INSERT INTO audit VALUES (NEW.id)";
        assert_eq!(
            found(&[insert], &[(1, &[trigger])], &[]),
            SearchOutcome::Others,
            "perhaps ours: a trigger wrote first"
        );
        assert_eq!(found(&[insert], &[(1, &[trigger])], &[1]), SearchOutcome::Nothing);
        let heartbeat = "INSERT INTO `sqluice`.heartbeat (writer, at_us) SELECT 1, 2";
        assert_eq!(found(&[insert], &[(1, &[heartbeat])], &[]), SearchOutcome::Nothing);
        assert_eq!(found(&[insert], &[(1, &[insert])], &[1]), SearchOutcome::Nothing, "somebody else's");
        assert_eq!(found(&[insert], &[(1, &[insert]), (2, &[insert])], &[1]), SearchOutcome::These(vec![(0, 2)]));
        let both = ["UPDATE a", "UPDATE b"];
        assert_eq!(
            found(&both, &[(1, &both), (2, &["UPDATE b", "UPDATE a"])], &[]),
            SearchOutcome::These(vec![(0, 1)])
        );
        assert_eq!(
            found(&both, &[(1, &["UPDATE b"])], &[]),
            SearchOutcome::These(vec![(0, 1)]),
            "the first changed nothing"
        );
        assert!(matches!(found(&[insert], &[(1, &[])], &[]), SearchOutcome::Unclear(_)), "no texts at all");
        assert!(matches!(found(&[insert], &[(1, &["INSERT INTO t VALUES (7)\x01\x02"])], &[]), SearchOutcome::Similar));
    }

    #[test]
    fn parameters_and_schemas_tell_statements_apart() {
        let found = |number: i64, schemas: &[&str], logged: &str| {
            let sought = prepared("INSERT INTO t VALUES (?)", &[(8, 0, Some(&number.to_le_bytes()))]);
            let target = Target { schema: "app".into(), table: "t".into(), columns: 1, counter: Some(0) };
            let mut tail =
                Tail::new(Sought { logged_on: Some(2), mark: None, texts: vec![sought], target: Some(target) });
            let maps: Vec<_> = schemas.iter().map(|schema| map(schema)).collect();
            let rows =
                [&[9, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0][..], &41_u64.to_le_bytes(), &[0], &42_u64.to_le_bytes()].concat();
            let mut take = |kind| tail.take(&Event { server: 1, kind });
            take(EventKind::MariaDbGtid { domain: 0, sequence: 5 });
            take(EventKind::Annotate(logged.as_bytes()));
            maps.iter().for_each(|map| take(EventKind::Table(TableMap::parse(map).unwrap())));
            take(EventKind::Rows(Rows::parse(23, &rows).unwrap().unwrap()));
            take(EventKind::Commit);
            tail.end();
            (tail.found(|_| false), tail.changed((0, 5)).cloned())
        };
        let (what, changed) = found(7, &["other", "app"], "INSERT INTO t VALUES (7)");
        let changed = changed.unwrap();
        assert_eq!(what, SearchOutcome::These(vec![(0, 5)]));
        assert_eq!((changed.inserted, changed.first_id, changed.committed, changed.server), (2, Some(41), true, 1));
        assert!(!changed.is_unclear && !changed.is_statement);
        assert_eq!(
            found(7, &["other"], "INSERT INTO t VALUES (7)").0,
            SearchOutcome::Similar,
            "another table of that name"
        );
        assert_eq!(found(8, &["app"], "INSERT INTO t VALUES (7)").0, SearchOutcome::Others);
        assert_eq!(found(8, &["app"], "INSERT INTO t VALUES ('8')").0, SearchOutcome::Similar);
    }
}

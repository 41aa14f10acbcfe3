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
mod tests;

//! The changes of the transactions of a binary log, in the order of their commits.
//!
//! It errs on the side of more: an event that is not understood makes its transaction change [`LoggedChange::Everything`].

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{Key, Rows};
use super::table::{TableMap, table_number};
use super::{CHECKSUM_BYTES, HEADER_BYTES, Header, KEYS_MAX, Query, compressed};
use crate::codec::{Malformed, Reader};

/// Tables that a transaction may name; one that names more changes everything.
pub const TABLES_MAX: usize = 1024;
/// Statements of a transaction that are kept, and bytes of one; beyond them everything changes.
pub const STATEMENTS_MAX: usize = 64;
/// See [`STATEMENTS_MAX`].
pub const STATEMENT_BYTES_MAX: usize = 64 << 10;
/// Events of this kind may be passed over by who does not know them (`LOG_EVENT_IGNORABLE_F`).
const IGNORABLE: u16 = 0x80;

/// A transaction's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gtid {
    /// MySQL: the UUID of the server that it began on, and its number.
    MySql([u8; 16], u64),
    /// MariaDB: domain, `server_id` of the server that it began on, number.
    MariaDb(u32, u32, u64),
    /// It has one that is not read here, a tagged one, or none.
    Unknown,
}

/// A transaction that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its name.
    pub gtid: Gtid,
    /// When it was logged, in seconds since 1970 by the clock of the server that it began on; 0: not reported.
    pub at: u32,
    /// The changes.
    pub what: LoggedChange,
}

/// The changes of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedChange {
    /// The changed tables, and the statements.
    These {
        /// Tables with rows that were changed.
        tables: Vec<TableChange>,
        /// Statements that were logged as such: DDL, and changes where rows are not logged.
        statements: Vec<Statement>,
    },
    /// They are not known. The text is the reason, for logs.
    Everything(&'static str),
}

/// A table with rows that were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChange {
    /// Its schema.
    pub schema: Box<str>,
    /// Its name.
    pub table: Box<str>,
    /// The primary keys of those rows, before and behind the change; `None` when they are not known, or too many.
    pub keys: Option<BTreeSet<Key>>,
}

/// A statement as it was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The schema that names without one are in; may be empty.
    pub schema: Box<str>,
    /// The bits of `sql_mode` with which it was run, as servers number them; `None`: not reported.
    pub sql_mode: Option<u64>,
    /// Its text.
    pub text: Box<[u8]>,
}

/// The meaning of an event for a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing yet.
    Nothing,
    /// A transaction is whole.
    Committed(Transaction),
    /// There is nothing to send now.
    Idle,
}

/// Takes the events of one connection in.
#[derive(Debug)]
pub struct Changes {
    mariadb: bool,
    checksummed: bool,
    tables: BTreeMap<u64, TableMap>,
    open: Option<Open>,
}

/// Schema and name of a table.
type Name = (Box<str>, Box<str>);

/// The transaction that is being read.
#[derive(Debug)]
struct Open {
    gtid: Gtid,
    at: u32,
    /// More than one statement: its end is reported.
    group: bool,
    /// By schema and name.
    tables: BTreeMap<Name, Option<BTreeSet<Key>>>,
    keys: usize,
    statements: Vec<Statement>,
    everything: Option<&'static str>,
}

impl Changes {
    /// Of a server of this family; nothing is read yet.
    pub fn new(mariadb: bool) -> Changes {
        Changes { mariadb, checksummed: false, tables: BTreeMap::new(), open: None }
    }

    /// Takes the next event in, as it was sent.
    ///
    /// # Errors
    /// It has no header; nothing that follows can be understood.
    pub fn take(&mut self, event: &[u8]) -> Result<Said, Malformed> {
        let code = *event.get(4).ok_or(Malformed("type of an event"))?;
        // The server makes this one up for each connection, always with a checksum if it has checksums at all.
        let bare = match self.checksummed && code != FORMAT {
            true => event.len().checked_sub(CHECKSUM_BYTES).and_then(|end| event.get(..end)),
            false => Some(event),
        };
        self.event(bare.ok_or(Malformed("checksum of an event"))?)
    }

    fn event(&mut self, event: &[u8]) -> Result<Said, Malformed> {
        let (header, body) = Header::parse(event)?;
        let (at, code) = (header.at, header.code);
        let understood = self.understand(&header, body);
        Ok(understood.unwrap_or_else(|_| {
            self.opened(at).everything.get_or_insert("an event is malformed");
            // Whether it ended here is unknown: a second report does no harm.
            if ends(code) { self.commit() } else { Said::Nothing }
        }))
    }

    fn understand(&mut self, header: &Header, mut body: Reader<'_>) -> Result<Said, Malformed> {
        let at = header.at;
        match (header.code, self.mariadb) {
            (FORMAT, _) => {
                self.checksummed = super::is_checksummed(body)?;
                self.tables.clear();
            }
            (GTID, false) => {
                let (source, number) = super::mysql_gtid(&mut body)?;
                self.begin(Gtid::MySql(source, number), at);
            }
            // Without a name, and with one that has a tag.
            (34 | 42, false) => self.begin(Gtid::Unknown, at),
            (162, true) => {
                let (domain, sequence) = super::mariadb_gtid(&mut body)?;
                let standalone = body.u8("flags of a GTID event")? & 1 != 0;
                self.begin(Gtid::MariaDb(domain, header.server, sequence), at);
                self.opened(at).group = !standalone;
            }
            (2, _) => return self.query(at, body, false),
            (165, true) => return self.query(at, body, true),
            // XID, and the first half of a distributed transaction: its second half is a statement that is not understood.
            (16 | 38, _) => return Ok(self.commit()),
            (19, _) => {
                if self.tables.len() >= TABLES_MAX {
                    self.opened(at).everything.get_or_insert("a transaction names too many tables");
                    self.tables.clear();
                }
                let table = TableMap::parse(body.rest())?;
                self.tables.insert(table.number, table);
            }
            (code @ (23..=25 | 30..=32), _) => self.rows(at, code, body.rest(), false)?,
            // The same, compressed.
            (code @ 166..=168, true) => self.rows(at, code - 166 + 23, body.rest(), true)?,
            (code @ 169..=171, true) => self.rows(at, code - 169 + 30, body.rest(), true)?,
            // Parts of JSON documents.
            (39, false) => {
                let number = table_number(&mut body)?;
                self.changed(at, number, None)?;
            }
            (40, false) => return Ok(self.payload(at, body.rest())),
            (27, _) | (41, false) => return Ok(Said::Idle),
            // STOP, ROTATE, INTVAR, RAND, USER_VAR; texts of rows' statements; lists of GTIDs and places.
            (3 | 4 | 5 | 13 | 14 | 28 | 29 | 35 | 36 | 37, _) | (160 | 161 | 163, true) => {}
            (17, _) | (9, _) => {}
            _ if header.flags & IGNORABLE != 0 => {}
            (18, _) => {
                self.opened(at).everything.get_or_insert("a LOAD DATA was logged as a statement");
                if !self.opened(at).group {
                    return Ok(self.commit());
                }
            }
            _ => {
                self.opened(at).everything.get_or_insert("an event is of a kind that is not known");
            }
        }
        Ok(Said::Nothing)
    }

    fn begin(&mut self, gtid: Gtid, at: u32) {
        let unfinished = self.open.is_some();
        self.open = None;
        let open = self.opened(at);
        open.gtid = gtid;
        if unfinished {
            open.everything = Some("a transaction has no end");
        }
    }

    fn opened(&mut self, at: u32) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            gtid: Gtid::Unknown,
            at,
            group: false,
            tables: BTreeMap::new(),
            keys: 0,
            statements: Vec::new(),
            everything: None,
        })
    }

    fn commit(&mut self) -> Said {
        self.tables.clear();
        let Some(open) = self.open.take() else { return Said::Nothing };
        let table = |((schema, table), keys)| TableChange { schema, table, keys };
        let what = match open.everything {
            Some(why) => LoggedChange::Everything(why),
            None => LoggedChange::These {
                tables: open.tables.into_iter().map(table).collect(),
                statements: open.statements,
            },
        };
        Said::Committed(Transaction { gtid: open.gtid, at: open.at, what })
    }

    fn query(&mut self, at: u32, body: Reader<'_>, is_compressed: bool) -> Result<Said, Malformed> {
        let query = Query::parse(body)?;
        let sql_mode = sql_mode(query.status);
        let schema = std::str::from_utf8(query.schema).map_err(|_| Malformed("schema of a query event"))?;
        let inflated;
        let text = match is_compressed {
            true => {
                inflated = compressed::inflate(query.text).ok_or(Malformed("compressed statement"))?;
                &inflated[..]
            }
            false => query.text,
        };
        let starts = |word: &[u8]| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        if text.eq_ignore_ascii_case(b"BEGIN") || starts(b"XA START") || starts(b"XA BEGIN") {
            self.opened(at).group = true;
            return Ok(Said::Nothing);
        }
        // A transaction that was rolled back and is logged nevertheless has touched tables without transactions.
        if text.eq_ignore_ascii_case(b"COMMIT") || text.eq_ignore_ascii_case(b"ROLLBACK") {
            return Ok(self.commit());
        }
        if starts(b"XA END") || starts(b"SAVEPOINT ") || starts(b"ROLLBACK TO ") {
            return Ok(Said::Nothing);
        }
        let open = self.opened(at);
        if text.len() > STATEMENT_BYTES_MAX || open.statements.len() >= STATEMENTS_MAX {
            open.everything.get_or_insert("a transaction has too many statements, or too long ones");
        } else {
            open.statements.push(Statement { schema: schema.into(), sql_mode, text: text.into() });
        }
        let second_half = starts(b"XA COMMIT") || starts(b"XA ROLLBACK");
        if open.group && !second_half { Ok(Said::Nothing) } else { Ok(self.commit()) }
    }

    fn rows(&mut self, at: u32, code: u8, body: &[u8], is_compressed: bool) -> Result<(), Malformed> {
        let mut rows = Rows::parse(code, body)?.ok_or(Malformed("type of a rows event"))?;
        let Some(table) = self.tables.get(&rows.table) else {
            // The end of a statement without rows, or rows whose table was not reported.
            self.opened(at).everything.get_or_insert("rows of a table that was not told");
            return Ok(());
        };
        let inflated;
        if is_compressed {
            inflated = compressed::inflate(rows.images).ok_or(Malformed("compressed rows"))?;
            rows.images = &inflated;
        }
        // Which table it is is known whatever its rows look like.
        let keys = rows.keys(table);
        self.changed(at, rows.table, keys)
    }

    /// These rows of a table were changed, or any.
    fn changed(&mut self, at: u32, number: u64, keys: Option<Vec<Key>>) -> Result<(), Malformed> {
        let table = self.tables.get(&number).ok_or(Malformed("table of a rows event"))?;
        let name = (table.schema.clone(), table.name.clone());
        let open = self.opened(at);
        let added = keys.as_ref().map_or(0, Vec::len);
        if open.tables.len() >= TABLES_MAX && !open.tables.contains_key(&name) {
            open.everything.get_or_insert("a transaction names too many tables");
            return Ok(());
        }
        let entry = open.tables.entry(name).or_insert_with(|| Some(BTreeSet::new()));
        match (entry.as_mut(), keys) {
            (Some(known), Some(keys)) if open.keys + added <= KEYS_MAX => {
                known.extend(keys);
                open.keys += added;
            }
            _ => *entry = None,
        }
        Ok(())
    }

    fn payload(&mut self, at: u32, body: &[u8]) -> Said {
        let Some(events) = compressed::payload(body) else {
            self.opened(at).everything.get_or_insert("a compressed transaction cannot be read");
            return self.commit();
        };
        let mut rest = &events[..];
        let mut said = Said::Nothing;
        while !rest.is_empty() {
            // The size stands behind time, type and server; events in here have no checksums.
            let size = rest.get(9..13).map(|size| u32::from_le_bytes([size[0], size[1], size[2], size[3]]));
            let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size >= HEADER_BYTES);
            let nested = size.and_then(|size| rest.get(..size)).filter(|event| event[4] != 40);
            match nested.and_then(|event| Some((event.len(), self.event(event).ok()?))) {
                Some((length, Said::Nothing | Said::Idle)) => rest = &rest[length..],
                Some((length, whole @ Said::Committed(_))) => {
                    said = whole;
                    rest = &rest[length..];
                }
                None => {
                    self.opened(at).everything.get_or_insert("a compressed transaction cannot be read");
                    return self.commit();
                }
            }
        }
        said
    }
}

const FORMAT: u8 = 15;
const GTID: u8 = 33;

/// Whether a transaction is over behind an event of this kind.
fn ends(code: u8) -> bool {
    matches!(code, 2 | 16 | 38 | 40 | 165)
}

/// `sql_mode` among the status variables of a query event; it stands first, but for a word of flags.
fn sql_mode(status: &[u8]) -> Option<u64> {
    let mut status = Reader::new(status);
    let mut code = status.u8("status of a query event").ok()?;
    if code == 0 {
        status.u32("flags of a query event").ok()?;
        code = status.u8("status of a query event").ok()?;
    }
    if code == 1 { status.u64("sql_mode of a query event").ok() } else { None }
}

#[cfg(test)]
mod tests;

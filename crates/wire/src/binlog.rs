//! Events of the binary log, as far as they tell which transactions there are, whose they were, and how many rows they changed.
//!
//! Sources: MySQL's documentation "Binlog Event", MariaDB's "Replication Protocol"; both families, version 4 of the format.

pub mod changes;
mod compressed;
pub mod position;
pub mod rows;
mod table;

use crate::codec::{Malformed, Reader};
pub use compressed::INFLATED_BYTES_MAX;
use rows::Rows;
pub use rows::{Key, KeyPart};
pub use table::TableMap;

/// Bytes of an event's header.
const HEADER_BYTES: usize = 19;
/// Bytes of the checksum behind an event, where there is one.
pub const CHECKSUM_BYTES: usize = 4;

/// Keys of a transaction, in all its tables; a table whose keys are not kept is changed as a whole.
pub const KEYS_MAX: usize = 1000;

/// One event, as far as it is understood here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// `server_id` of the server that it began on.
    pub server: u32,
    /// The content.
    pub kind: EventKind<'a>,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind<'a> {
    /// A transaction of MySQL begins.
    MySqlGtid {
        /// UUID of the server that it began on.
        source: [u8; 16],
        /// Its number.
        number: u64,
    },
    /// A transaction of MariaDB begins.
    MariaDbGtid {
        /// The domain.
        domain: u32,
        /// Its number.
        sequence: u64,
    },
    /// A statement, BEGIN and COMMIT among them.
    Query {
        /// The error that it ended with on the server that it began on; 0 is none.
        error: u16,
        /// The schema that it ran in.
        schema: &'a [u8],
        /// The text.
        text: &'a [u8],
    },
    /// The first AUTO_INCREMENT value that the statement behind it makes.
    InsertId(u64),
    /// The table of rows that follow.
    Table(TableMap),
    /// Rows.
    Rows(Rows<'a>),
    /// The log begins, or the server tells how it is written.
    Format {
        /// All other events end with a checksum of [`CHECKSUM_BYTES`], which is to be cut off before they are read.
        checksummed: bool,
    },
    /// The text of the statement whose rows follow (with MySQL only if `binlog_rows_query_log_events` is on).
    Annotate(&'a [u8]),
    /// The transaction is committed.
    Commit,
    /// Rows that are not read here.
    OpaqueRows,
    /// It is compressed or of a kind that may hold transactions which are not read here.
    Opaque,
    /// Something else.
    Other,
}

impl<'a> Event<'a> {
    /// Reads one event of a server of this family.
    ///
    /// # Errors
    /// It is cut off, or no event.
    pub fn parse(mariadb: bool, bytes: &'a [u8]) -> Result<Event<'a>, Malformed> {
        let (Header { code, server, .. }, mut body) = Header::parse(bytes)?;
        let kind = match (code, mariadb) {
            (2, _) => {
                let Query { error, schema, text, .. } = Query::parse(body)?;
                EventKind::Query { error, schema, text }
            }
            (15, _) => EventKind::Format { checksummed: is_checksummed(body)? },
            (16, _) => EventKind::Commit,
            (5, _) => match body.u8("kind of a number event")? {
                2 => EventKind::InsertId(body.u64("number of a number event")?),
                _ => EventKind::Other,
            },
            (19, _) => TableMap::parse(body.rest()).map_or(EventKind::OpaqueRows, EventKind::Table),
            (23..=25 | 30..=32, _) => match Rows::parse(code, body.rest()) {
                Ok(Some(rows)) => EventKind::Rows(rows),
                _ => EventKind::OpaqueRows,
            },
            // Changes within JSON values.
            (39, false) => EventKind::OpaqueRows,
            (33, false) => {
                let (source, number) = mysql_gtid(&mut body)?;
                EventKind::MySqlGtid { source, number }
            }
            (160, true) => EventKind::Annotate(body.rest()),
            (29, false) => {
                // A length that is too short for most texts; servers do not read it either.
                body.u8("length of a rows query event")?;
                EventKind::Annotate(body.rest())
            }
            (162, true) => {
                let (domain, sequence) = mariadb_gtid(&mut body)?;
                EventKind::MariaDbGtid { domain, sequence }
            }
            // Tagged GTIDs and compressed transactions of MySQL, compressed and encrypted events of MariaDB.
            (40 | 42, false) | (164..=171, true) => EventKind::Opaque,
            _ => EventKind::Other,
        };
        Ok(Event { server, kind })
    }
}

/// The header of each event.
struct Header {
    /// Seconds since 1970.
    at: u32,
    /// The type.
    code: u8,
    /// `server_id` of the server that it began on.
    server: u32,
    /// Where in its file the event ends; 0: it stands in none.
    end: u32,
    flags: u16,
}

impl Header {
    /// The header, and what stands behind it.
    fn parse(bytes: &[u8]) -> Result<(Header, Reader<'_>), Malformed> {
        let mut reader = Reader::new(bytes);
        let at = reader.u32("time of an event")?;
        let code = reader.u8("type of an event")?;
        let server = reader.u32("server of an event")?;
        reader.u32("size of an event")?;
        let end = reader.u32("position of an event")?;
        let flags = reader.u16("flags of an event")?;
        Ok((Header { at, code, server, end, flags }, reader))
    }
}

/// Whether all other events end with a checksum, as a format event says.
fn is_checksummed(body: Reader<'_>) -> Result<bool, Malformed> {
    // The algorithm stands before the event's own checksum, which it has in any case; 0 is none.
    let at = body.rest().len().checked_sub(CHECKSUM_BYTES + 1);
    let algorithm = at.and_then(|at| body.rest().get(at)).ok_or(Malformed("checksum of a format event"))?;
    Ok(*algorithm != 0)
}

/// UUID and number.
fn mysql_gtid(body: &mut Reader<'_>) -> Result<([u8; 16], u64), Malformed> {
    body.u8("flags of a GTID event")?;
    let mut source = [0; 16];
    source.copy_from_slice(body.bytes(16, "UUID of a GTID event")?);
    Ok((source, body.u64("number of a GTID event")?))
}

/// Domain and number.
fn mariadb_gtid(body: &mut Reader<'_>) -> Result<(u32, u64), Malformed> {
    let sequence = body.u64("number of a GTID event")?;
    Ok((body.u32("domain of a GTID event")?, sequence))
}

/// A statement in the log.
struct Query<'a> {
    error: u16,
    schema: &'a [u8],
    /// The session's state, as far as it counts.
    status: &'a [u8],
    text: &'a [u8],
}

impl Query<'_> {
    fn parse(mut body: Reader<'_>) -> Result<Query<'_>, Malformed> {
        body.u32("thread of a query event")?;
        body.u32("time of a query event")?;
        let schema = usize::from(body.u8("schema of a query event")?);
        let error = body.u16("error of a query event")?;
        let status = usize::from(body.u16("status of a query event")?);
        let status = body.bytes(status, "status of a query event")?;
        let schema = body.bytes(schema, "schema of a query event")?;
        body.u8("schema of a query event")?;
        Ok(Query { error, schema, status, text: body.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(code: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![1, 2, 3, 4, code, 7, 0, 0, 0];
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn what_tells_whose_a_transaction_was_is_read() {
        let query = [&[9, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 2, 0, 0xaa, 0xbb][..], b"app\0BEGIN"].concat();
        let read = |mariadb, code, body: &[u8]| {
            let bytes = event(code, body);
            let event = Event::parse(mariadb, &bytes).unwrap();
            assert_eq!(event.server, 7);
            format!("{:?}", event.kind)
        };
        assert_eq!(
            read(false, 2, &query),
            format!("{:?}", EventKind::Query { error: 0, schema: b"app", text: b"BEGIN" })
        );
        let gtid = [&[0][..], &[1; 16], &5_u64.to_le_bytes(), &[0; 20]].concat();
        assert_eq!(read(false, 33, &gtid), format!("{:?}", EventKind::MySqlGtid { source: [1; 16], number: 5 }));
        assert_eq!(read(true, 33, &gtid), "Other");
        let gtid = [&9_u64.to_le_bytes()[..], &2_u32.to_le_bytes(), &[0; 7]].concat();
        assert_eq!(read(true, 162, &gtid), format!("{:?}", EventKind::MariaDbGtid { domain: 2, sequence: 9 }));
        assert_eq!(read(true, 160, b"INSERT"), format!("{:?}", EventKind::Annotate(b"INSERT")));
        assert_eq!(read(false, 29, b"\x06INSERT"), format!("{:?}", EventKind::Annotate(b"INSERT")));
        assert_eq!(read(true, 16, &[0; 8]), "Commit");
        assert_eq!(read(true, 15, &[4, 0, 1, 9, 9, 9, 9]), "Format { checksummed: true }");
        assert_eq!(read(false, 15, &[4, 0, 0, 9, 9, 9, 9]), "Format { checksummed: false }");
        assert_eq!(read(false, 40, b"zstd"), "Opaque");
        assert_eq!(read(true, 5, b"\x02\x07\0\0\0\0\0\0\0"), "InsertId(7)");
        assert_eq!(read(true, 5, b"\x01\x07\0\0\0\0\0\0\0"), "Other", "what LAST_INSERT_ID() gives");
        assert_eq!(read(false, 39, b""), "OpaqueRows");
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let query = event(2, &[9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 2, 0, 0xaa, 0xbb, b'a', b'p', b'p', 0]);
        for length in 0..query.len() {
            assert!(Event::parse(true, &query[..length]).is_err(), "{length}");
        }
        assert!(Event::parse(true, &query).is_ok());
    }
}

//! The packets that end replies: OK, ERR, EOF; and the head of a prepared statement.
//!
//! Source: MariaDB's documentation "OK_Packet", "ERR_Packet", "EOF_Packet"; for session tracking
//! `enum_session_state_type` of `mysql_com.h`.

use crate::codec::{Malformed, Reader, Write};
use crate::{Capabilities, Status};

/// First byte of an OK packet.
pub const OK: u8 = 0x00;
/// First byte of an ERR packet.
pub const ERR: u8 = 0xff;
/// First byte of an EOF packet, and of the OK packet that takes its place under `DEPRECATE_EOF`.
pub const EOF: u8 = 0xfe;
/// First byte of the request for a local file.
pub const LOCAL_INFILE: u8 = 0xfb;
/// The error code with which MariaDB marks progress packets, which are not errors.
pub const PROGRESS_CODE: u16 = 0xffff;

/// An OK packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ok<'a> {
    /// Rows changed.
    pub affected_rows: u64,
    /// The AUTO_INCREMENT value made, or 0.
    pub insert_id: u64,
    /// Status flags.
    pub status: Status,
    /// Warnings of the statement.
    pub warnings: u16,
    /// Text such as `Rows matched: 1  Changed: 1  Warnings: 0`.
    pub info: &'a [u8],
    /// Session changes, raw; read them by [`Ok::changes`].
    pub session_state: &'a [u8],
    /// The packet announces session changes, and its list of them is empty: MySQL sends this after a BEGIN in a transaction.
    pub empty_report: bool,
}

impl<'a> Ok<'a> {
    /// Reads the payload, first byte included, as a peer with these capabilities in common wrote it.
    pub fn parse(payload: &'a [u8], capabilities: Capabilities) -> Result<Ok<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8("OK header")?;
        let affected_rows = reader.lenenc("OK affected rows")?;
        let insert_id = reader.lenenc("OK insert id")?;
        let status = Status::from_bits_retain(reader.u16("OK status")?);
        let warnings = reader.u16("OK warnings")?;
        let mut ok =
            Ok { affected_rows, insert_id, status, warnings, info: &[], session_state: &[], empty_report: false };
        if !reader.is_empty() {
            // Servers write a length in front of it with and without session tracking, whatever their manuals say.
            ok.info = reader.lenenc_bytes("OK info")?;
            let tracks = capabilities.contains(Capabilities::SESSION_TRACK);
            if tracks && status.contains(Status::SESSION_STATE_CHANGED) && !reader.is_empty() {
                ok.session_state = reader.lenenc_bytes("OK session state")?;
                ok.empty_report = ok.session_state.is_empty();
            }
        }
        Ok(ok)
    }

    /// Writes the payload with this first byte ([`OK`] or [`EOF`]) for a peer with these capabilities in common.
    pub fn write(&self, out: &mut Vec<u8>, header: u8, capabilities: Capabilities) {
        let reports = !self.session_state.is_empty() || self.empty_report;
        let tracks = capabilities.contains(Capabilities::SESSION_TRACK) && reports;
        out.push(header);
        out.put_lenenc(self.affected_rows);
        out.put_lenenc(self.insert_id);
        let mut status = self.status;
        status.set(Status::SESSION_STATE_CHANGED, tracks);
        out.put_u16(status.bits());
        out.put_u16(self.warnings);
        if tracks || !self.info.is_empty() {
            out.put_lenenc_bytes(self.info);
            if tracks {
                out.put_lenenc_bytes(self.session_state);
            }
        }
    }

    /// The session's changes that the server reported.
    pub fn changes(&self) -> Changes<'a> {
        Changes { rest: Reader::new(self.session_state), variables: Reader::new(&[]) }
    }
}

/// The variable that MySQL reports with each statement, if all variables are tracked: the statement's number.
pub const STATEMENT_NUMBER: &[u8] = b"statement_id";

/// One change of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A system variable has this value now.
    Variable {
        /// Name, lower case.
        name: &'a [u8],
        /// Value as text; empty also stands for NULL.
        value: &'a [u8],
    },
    /// The schema is this one now; empty when none.
    Schema(&'a [u8]),
    /// Something of the session changed (`session_track_state_change`).
    State,
    /// GTIDs of the last commit (MySQL).
    Gtids(&'a [u8]),
    /// The statements that would set up the open or next transaction's characteristics.
    TransactionCharacteristics(&'a [u8]),
    /// The transaction's state in eight letters.
    TransactionState(&'a [u8]),
    /// A kind not known here.
    Other {
        /// Kind byte.
        kind: u8,
        /// Its data.
        data: &'a [u8],
    },
}

/// Reads session changes one by one; stops at the first malformed one with its error.
#[derive(Clone, Debug)]
pub struct Changes<'a> {
    rest: Reader<'a>,
    /// MariaDB may put several variables into one entry.
    variables: Reader<'a>,
}

impl<'a> Changes<'a> {
    fn variable(&mut self) -> Result<Change<'a>, Malformed> {
        let name = self.variables.lenenc_bytes("tracked variable name")?;
        let value = self.variables.lenenc_bytes("tracked variable value")?;
        Ok(Change::Variable { name, value })
    }

    fn entry(&mut self) -> Result<Change<'a>, Malformed> {
        let kind = self.rest.u8("session change kind")?;
        let data = self.rest.lenenc_bytes("session change")?;
        let mut reader = Reader::new(data);
        Ok(match kind {
            0 => {
                self.variables = reader;
                return self.variable();
            }
            1 => Change::Schema(reader.lenenc_bytes("tracked schema")?),
            2 => Change::State,
            3 => {
                reader.u8("GTID encoding")?;
                Change::Gtids(reader.lenenc_bytes("GTIDs")?)
            }
            4 => Change::TransactionCharacteristics(reader.lenenc_bytes("transaction characteristics")?),
            5 => Change::TransactionState(reader.lenenc_bytes("transaction state")?),
            kind => Change::Other { kind, data },
        })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let change = if !self.variables.is_empty() {
            self.variable()
        } else if !self.rest.is_empty() {
            self.entry()
        } else {
            return None;
        };
        if change.is_err() {
            self.rest.remaining();
            self.variables.remaining();
        }
        Some(change)
    }
}

/// An EOF packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Eof {
    /// Warnings.
    pub warnings: u16,
    /// Status flags.
    pub status: Status,
}

impl Eof {
    /// Reads the payload, first byte included.
    pub fn parse(payload: &[u8]) -> Result<Eof, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8("EOF header")?;
        Ok(Eof { warnings: reader.u16("EOF warnings")?, status: Status::from_bits_retain(reader.u16("EOF status")?) })
    }

    /// Writes the payload.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(EOF);
        out.put_u16(self.warnings);
        out.put_u16(self.status.bits());
    }
}

/// An ERR packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerError<'a> {
    /// Error code.
    pub code: u16,
    /// SQLSTATE; `HY000` when the packet has none (errors before login).
    pub sqlstate: [u8; 5],
    /// Message, in the client's character set.
    pub message: &'a [u8],
}

impl<'a> ServerError<'a> {
    /// Reads the payload, first byte included.
    pub fn parse(payload: &'a [u8]) -> Result<ServerError<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8("ERR header")?;
        let code = reader.u16("ERR code")?;
        let mut sqlstate = *b"HY000";
        if reader.rest().first() == Some(&b'#') {
            reader.u8("ERR marker")?;
            sqlstate.copy_from_slice(reader.bytes(5, "SQLSTATE")?);
        }
        Ok(ServerError { code, sqlstate, message: reader.remaining() })
    }

    /// Writes the payload.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(ERR);
        out.put_u16(self.code);
        out.push(b'#');
        out.extend_from_slice(&self.sqlstate);
        out.extend_from_slice(self.message);
    }
}

/// The first packet of a successful reply to `COM_STMT_PREPARE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The server's id of the statement.
    pub statement: u32,
    /// Columns of its result.
    pub columns: u16,
    /// Parameters.
    pub parameters: u16,
    /// Warnings.
    pub warnings: u16,
}

impl Prepared {
    /// Where the statement id stands in the payload.
    pub const STATEMENT_AT: std::ops::Range<usize> = 1..5;

    /// Reads the payload, first byte included.
    pub fn parse(payload: &[u8]) -> Result<Prepared, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8("prepared header")?;
        let statement = reader.u32("statement id")?;
        let columns = reader.u16("column count")?;
        let parameters = reader.u16("parameter count")?;
        reader.u8("filler")?;
        let warnings = if reader.is_empty() { 0 } else { reader.u16("warnings")? };
        Ok(Prepared { statement, columns, parameters, warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACK: Capabilities = Capabilities::SESSION_TRACK;

    fn written(ok: &Ok<'_>, capabilities: Capabilities) -> Vec<u8> {
        let mut out = Vec::new();
        ok.write(&mut out, OK, capabilities);
        out
    }

    #[test]
    fn an_ok_without_text_is_the_same_bytes_with_and_without_tracking() {
        let ok = Ok { affected_rows: 300, insert_id: 7, status: Status::AUTOCOMMIT, ..Ok::default() };
        assert_eq!(written(&ok, TRACK), written(&ok, Capabilities::empty()));
        assert_eq!(Ok::parse(&written(&ok, TRACK), TRACK), Ok(ok));
    }

    #[test]
    fn session_changes_reach_only_a_peer_that_tracks() {
        let state = [0, 11, 10, b'a', b'u', b't', b'o', b'c', b'o', b'm', b'm', b'i', b't'];
        // A name of ten letters and no value is malformed: the iterator must say so and stop.
        let ok = Ok { status: Status::SESSION_STATE_CHANGED, session_state: &state, info: b"hi", ..Ok::default() };
        let changes: Vec<_> = ok.changes().collect();
        assert_eq!(changes.len(), 1);
        assert!(changes[0].is_err());
        let plain = written(&ok, Capabilities::empty());
        let read = Ok::parse(&plain, Capabilities::empty()).unwrap();
        assert_eq!((read.info, read.status, read.session_state), (&b"hi"[..], Status::empty(), &[][..]));
    }

    #[test]
    fn an_empty_report_stays_one() {
        let ok = Ok { status: Status::SESSION_STATE_CHANGED, empty_report: true, ..Ok::default() };
        assert_eq!(written(&ok, TRACK), [0, 0, 0, 0, 0x40, 0, 0, 0, 0]);
        assert_eq!(Ok::parse(&written(&ok, TRACK), TRACK), Ok(ok));
        let bytes = written(&ok, Capabilities::empty());
        let plain = Ok::parse(&bytes, Capabilities::empty()).unwrap();
        assert_eq!((plain.status, plain.empty_report), (Status::empty(), false));
    }

    #[test]
    fn every_kind_of_change_is_read() {
        let mut state = Vec::new();
        let mut entry = |kind: u8, data: &[u8]| {
            state.push(kind);
            state.put_lenenc_bytes(data);
        };
        entry(0, b"\x01a\x011\x01b\x00");
        entry(1, b"\x04test");
        entry(2, b"\x011");
        entry(3, b"\x00\x03g:1");
        entry(5, b"\x08T_______");
        entry(9, b"new");
        let ok = Ok { status: Status::SESSION_STATE_CHANGED, session_state: &state, ..Ok::default() };
        let bytes = written(&ok, TRACK);
        let read = Ok::parse(&bytes, TRACK).unwrap();
        let changes: Vec<_> = read.changes().map(Result::unwrap).collect();
        assert_eq!(
            changes,
            [
                Change::Variable { name: b"a", value: b"1" },
                Change::Variable { name: b"b", value: b"" },
                Change::Schema(b"test"),
                Change::State,
                Change::Gtids(b"g:1"),
                Change::TransactionState(b"T_______"),
                Change::Other { kind: 9, data: b"new" },
            ]
        );
        for cut in 0..bytes.len() {
            if let Ok(ok) = Ok::parse(&bytes[..cut], TRACK) {
                ok.changes().for_each(drop);
            }
        }
    }

    #[test]
    fn an_error_keeps_its_sqlstate() {
        let error = ServerError { code: 1146, sqlstate: *b"42S02", message: b"no table" };
        let mut out = Vec::new();
        error.write(&mut out);
        assert_eq!(ServerError::parse(&out), Ok(error));
        let bare = ServerError::parse(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((bare.code, bare.sqlstate), (1040, *b"HY000"));
        assert!(ServerError::parse(b"\xff\x10\x04#420").is_err());
    }
}

//! Where in its reply a server is, and when the reply is over.
//!
//! An [`Exchange`] is made for each command sent and fed with the reply's bytes as they come:
//!
//! ```text
//! let mut exchange = Exchange::new(Expect::of(command)…, capabilities);
//! loop {
//!     match exchange.advance(&unread)? {
//!         Advance::Pass(n)        the first n bytes are data (columns, rows): forward them unread
//!         Advance::Packet(packet) a packet that means something starts here and takes `packet.taken` bytes
//!         Advance::Needs(n)       come back when `unread` is at least n bytes long
//!     }
//! }
//! ```
//!
//! After [`Packet::over`] nothing of this reply is left. Rows are never looked at beyond their first byte.

use crate::codec::{Malformed, Reader};
use crate::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use crate::reply::{self, Eof, Ok, Prepared, ServerError};
use crate::{Capabilities, Status};

/// The reply that a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// None at all: COM_STMT_SEND_LONG_DATA, COM_STMT_CLOSE, COM_QUIT.
    Nothing,
    /// OK, ERR, LOCAL INFILE or results: COM_QUERY, COM_STMT_EXECUTE, and every command with a plain OK.
    Results,
    /// COM_STMT_EXECUTE that asks for a cursor: like [`Expect::Results`], but a result may end behind its columns. Of other
    /// results, `CURSOR_EXISTS` tells something else: that a stored procedure has a cursor of its own open.
    Cursor,
    /// COM_STMT_PREPARE.
    Prepared,
    /// Rows without columns before them: COM_STMT_FETCH.
    Rows,
    /// Columns up to an EOF: COM_FIELD_LIST.
    Columns,
    /// One packet with a string, which is never OK or EOF: COM_STATISTICS.
    Text,
}

/// The meaning of the next bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Advance<'a> {
    /// So many bytes belong to columns and rows.
    Pass(usize),
    /// A packet with a meaning.
    Packet(Packet<'a>),
    /// At least so many bytes must be there.
    Needs(usize),
}

/// A packet with a meaning.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its meaning.
    pub event: Event<'a>,
    /// Its sequence number.
    pub sequence: u8,
    /// How many bytes it takes, header included.
    pub taken: usize,
    /// The reply is over.
    pub over: bool,
}

/// The meaning of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An OK packet in place of a result.
    Ok(Ok<'a>),
    /// The OK packet that ends rows under `DEPRECATE_EOF`.
    RowsEnd(Ok<'a>),
    /// The EOF packet behind columns or parameters, without `DEPRECATE_EOF`: what it is about goes on, or has no result.
    ColumnsEnd(Eof),
    /// The EOF packet that ends rows without `DEPRECATE_EOF`, or columns whose rows stay in a cursor.
    Eof(Eof),
    /// An error.
    Error(ServerError<'a>),
    /// The server asks the client for this file; [`Exchange::infile_sent`] must be called before its answer is read.
    Infile(&'a [u8]),
    /// The head of a prepared statement.
    Prepared(Prepared),
    /// A progress report of MariaDB.
    Progress,
    /// The text of COM_STATISTICS.
    Text(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first packet of a result.
    Head(Expect),
    /// So many columns (or parameters) are to come, then an EOF if `eof`, then `next`.
    Columns { left: u64, next: AfterColumns },
    /// An EOF packet closes the columns.
    ColumnsEof { next: AfterColumns },
    /// Rows up to their end.
    Rows,
    /// Columns of COM_FIELD_LIST up to their end.
    FieldList,
    /// The client sends a file.
    Infile,
    /// Nothing is left.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterColumns {
    Rows,
    /// Columns of a prepared statement, after its parameters.
    PreparedColumns(u16),
    Over,
}

/// Follows one reply.
#[derive(Clone, Debug)]
pub struct Exchange {
    phase: Phase,
    capabilities: Capabilities,
    /// Bytes of the current data packet that have not passed yet.
    skip: usize,
    /// The current data packet goes on in the next one.
    continued: bool,
    rows: u64,
    /// The client asked for a cursor.
    asks_cursor: bool,
    /// The rows are OUT parameters: the OK of the CALL follows, although MySQL's EOF behind them says that nothing does.
    out_parameters: bool,
}

impl Exchange {
    /// Waits for this reply on a connection with these capabilities in common.
    pub fn new(expect: Expect, capabilities: Capabilities) -> Exchange {
        let phase = match expect {
            Expect::Nothing => Phase::Over,
            Expect::Rows => Phase::Rows,
            Expect::Columns => Phase::FieldList,
            Expect::Cursor => Phase::Head(Expect::Results),
            expect => Phase::Head(expect),
        };
        let asks_cursor = expect == Expect::Cursor;
        Exchange { phase, capabilities, skip: 0, continued: false, rows: 0, asks_cursor, out_parameters: false }
    }

    /// Nothing of the reply is left.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over) && self.skip == 0 && !self.continued
    }

    /// The server waits for the client's file.
    pub fn awaits_infile(&self) -> bool {
        matches!(self.phase, Phase::Infile)
    }

    /// The client has sent its file, empty packet included: the server's answer comes next.
    pub fn infile_sent(&mut self) {
        if matches!(self.phase, Phase::Infile) {
            self.phase = Phase::Head(Expect::Results);
        }
    }

    /// Rows of the result that is read or was read last.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Says what the next bytes of the reply mean. See the module for the calling order.
    pub fn advance<'a>(&mut self, bytes: &'a [u8]) -> Result<Advance<'a>, Malformed> {
        let mut passed = 0;
        loop {
            let rest = &bytes[passed..];
            if self.skip > 0 {
                let step = self.skip.min(rest.len());
                self.skip -= step;
                passed += step;
                if self.skip > 0 {
                    return Ok(if passed > 0 { Advance::Pass(passed) } else { Advance::Needs(1) });
                }
                continue;
            }
            if !self.continued {
                passed += self.whole_columns(rest);
                passed += self.whole_rows(&bytes[passed..]);
            }
            let rest = &bytes[passed..];
            let pass_or = |needs| if passed > 0 { Advance::Pass(passed) } else { Advance::Needs(needs) };
            let Some(header) = Header::read(rest) else { return Ok(pass_or(HEADER_BYTES)) };
            if self.continued {
                self.begin_data(header);
                passed += HEADER_BYTES;
                continue;
            }
            if matches!(self.phase, Phase::Over) {
                return if passed > 0 {
                    Ok(Advance::Pass(passed))
                } else {
                    Err(Malformed("bytes behind a reply's end"))
                };
            }
            if header.length == 0 {
                // The bytes before it were good, with any cut.
                return if passed > 0 { Ok(Advance::Pass(passed)) } else { Err(Malformed("empty packet in a reply")) };
            }
            let Some(first) = rest.get(HEADER_BYTES).copied() else { return Ok(pass_or(HEADER_BYTES + 1)) };
            if self.is_data(first, header.length) {
                self.begin_data(header);
                self.count_data();
                passed += HEADER_BYTES;
                continue;
            }
            if passed > 0 {
                return Ok(Advance::Pass(passed));
            }
            let taken = HEADER_BYTES + header.length;
            let Some(payload) = bytes.get(HEADER_BYTES..taken) else { return Ok(Advance::Needs(taken)) };
            if let Some(event) = self.read(payload)? {
                let over = matches!(self.phase, Phase::Over);
                return Ok(Advance::Packet(Packet { event, sequence: header.sequence, taken, over }));
            }
            passed = taken;
        }
    }

    /// Counts the columns that `bytes` begins with, as far as they are to come and are whole, and gives how many bytes they take.
    #[inline]
    fn whole_columns(&mut self, bytes: &[u8]) -> usize {
        let Phase::Columns { left, next } = &mut self.phase else { return 0 };
        let mut rest = bytes;
        while *left > 0
            && let Some(behind) = behind_data(rest, |first| first != reply::ERR)
        {
            rest = behind;
            *left -= 1;
        }
        if *left == 0 {
            let next = *next;
            self.after_columns(next);
        }
        bytes.len() - rest.len()
    }

    /// Counts the rows that `bytes` begins with, as far as they are whole and nothing is special about them, and gives how
    /// many bytes they take.
    #[inline]
    fn whole_rows(&mut self, bytes: &[u8]) -> usize {
        if !matches!(self.phase, Phase::Rows) {
            return 0;
        }
        let mut rest = bytes;
        while let Some(behind) = behind_data(rest, |first| !matches!(first, reply::EOF | reply::ERR)) {
            rest = behind;
            self.rows += 1;
        }
        bytes.len() - rest.len()
    }

    fn begin_data(&mut self, header: Header) {
        self.skip = header.length;
        self.continued = header.is_continued();
    }

    /// Whether a packet can pass without being read.
    fn is_data(&self, first: u8, length: usize) -> bool {
        match self.phase {
            Phase::Columns { .. } => first != reply::ERR,
            Phase::Rows | Phase::FieldList => match first {
                // A row may begin with 0xfe: the length of a value of 16 MiB and more, which no single packet holds.
                reply::EOF => length >= if self.deprecates_eof() { PAYLOAD_BYTES_MAX } else { 9 },
                reply::ERR => false,
                _ => true,
            },
            _ => false,
        }
    }

    fn count_data(&mut self) {
        match &mut self.phase {
            Phase::Columns { left, next } => {
                *left -= 1;
                if *left == 0 {
                    let next = *next;
                    self.after_columns(next);
                }
            }
            Phase::Rows => self.rows += 1,
            _ => {}
        }
    }

    fn after_columns(&mut self, next: AfterColumns) {
        if self.deprecates_eof() {
            self.enter(next);
        } else {
            self.phase = Phase::ColumnsEof { next };
        }
    }

    fn enter(&mut self, next: AfterColumns) {
        self.phase = match next {
            AfterColumns::Rows => Phase::Rows,
            AfterColumns::PreparedColumns(0) | AfterColumns::Over => Phase::Over,
            AfterColumns::PreparedColumns(columns) => {
                Phase::Columns { left: u64::from(columns), next: AfterColumns::Over }
            }
        };
    }

    fn deprecates_eof(&self) -> bool {
        self.capabilities.contains(Capabilities::DEPRECATE_EOF)
    }

    /// Reads a packet that is not plain data; `None` for a column count, which passes like data.
    fn read<'a>(&mut self, payload: &'a [u8]) -> Result<Option<Event<'a>>, Malformed> {
        let first = payload[0];
        if first == reply::ERR && !matches!(self.phase, Phase::Head(Expect::Text)) {
            let error = ServerError::parse(payload)?;
            if error.code == reply::PROGRESS_CODE && self.capabilities.contains(Capabilities::PROGRESS) {
                return Ok(Some(Event::Progress));
            }
            self.phase = Phase::Over;
            return Ok(Some(Event::Error(error)));
        }
        match self.phase {
            Phase::Head(Expect::Text) => {
                self.phase = Phase::Over;
                Ok(Some(Event::Text(payload)))
            }
            Phase::Head(Expect::Prepared) => self.read_prepared(payload).map(Some),
            Phase::Head(_) => self.read_head(payload),
            Phase::ColumnsEof { next } => {
                let eof = Eof::parse(payload)?;
                if first != reply::EOF {
                    return Err(Malformed("no EOF behind columns"));
                }
                self.out_parameters = eof.status.contains(Status::OUT_PARAMETERS);
                if self.asks_cursor && next == AfterColumns::Rows && eof.status.contains(Status::CURSOR_EXISTS) {
                    self.phase = Phase::Over;
                    return Ok(Some(Event::Eof(eof)));
                }
                self.enter(next);
                Ok(Some(Event::ColumnsEnd(eof)))
            }
            Phase::Rows | Phase::FieldList if self.deprecates_eof() && payload.len() > 5 => {
                let ok = Ok::parse(payload, self.capabilities)?;
                self.result_over(ok.status);
                Ok(Some(Event::RowsEnd(ok)))
            }
            Phase::Rows | Phase::FieldList => {
                let eof = Eof::parse(payload)?;
                self.result_over(eof.status);
                Ok(Some(Event::Eof(eof)))
            }
            Phase::Infile => Err(Malformed("a reply before the local file was sent")),
            Phase::Columns { .. } | Phase::Over => Err(Malformed("a packet out of order")),
        }
    }

    fn read_head<'a>(&mut self, payload: &'a [u8]) -> Result<Option<Event<'a>>, Malformed> {
        match payload[0] {
            reply::OK => {
                let ok = Ok::parse(payload, self.capabilities)?;
                self.rows = 0;
                self.result_over(ok.status);
                Ok(Some(Event::Ok(ok)))
            }
            // COM_SET_OPTION and COM_DEBUG are answered by EOF.
            reply::EOF if payload.len() < 9 && !self.deprecates_eof() => {
                let eof = Eof::parse(payload)?;
                self.phase = Phase::Over;
                Ok(Some(Event::Eof(eof)))
            }
            reply::EOF => {
                let ok = Ok::parse(payload, self.capabilities)?;
                self.phase = Phase::Over;
                Ok(Some(Event::RowsEnd(ok)))
            }
            reply::LOCAL_INFILE => {
                self.phase = Phase::Infile;
                Ok(Some(Event::Infile(&payload[1..])))
            }
            _ => {
                let left = Reader::new(payload).lenenc("column count")?;
                if left == 0 {
                    return Err(Malformed("a result of no columns"));
                }
                self.rows = 0;
                self.phase = Phase::Columns { left, next: AfterColumns::Rows };
                Ok(None)
            }
        }
    }

    fn read_prepared<'a>(&mut self, payload: &'a [u8]) -> Result<Event<'a>, Malformed> {
        let prepared = Prepared::parse(payload)?;
        self.phase = match (prepared.parameters, prepared.columns) {
            (0, 0) => Phase::Over,
            (0, columns) => Phase::Columns { left: u64::from(columns), next: AfterColumns::Over },
            (parameters, columns) => {
                Phase::Columns { left: u64::from(parameters), next: AfterColumns::PreparedColumns(columns) }
            }
        };
        Ok(Event::Prepared(prepared))
    }

    fn result_over(&mut self, status: Status) {
        let more = std::mem::take(&mut self.out_parameters) || status.contains(Status::MORE_RESULTS);
        self.phase = if more { Phase::Head(Expect::Results) } else { Phase::Over };
    }
}

/// The bytes behind the packet that `bytes` begins with, if it is whole, is one of its own, and its first byte is one of data.
#[inline]
fn behind_data(bytes: &[u8], is_data: impl Fn(u8) -> bool) -> Option<&[u8]> {
    let (&[a, b, c, _, first], _) = bytes.split_first_chunk::<{ HEADER_BYTES + 1 }>()?;
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    let is_plain = is_data(first) && (1..PAYLOAD_BYTES_MAX).contains(&length);
    bytes.get(HEADER_BYTES + length..).filter(|_| is_plain)
}

#[cfg(test)]
mod tests;

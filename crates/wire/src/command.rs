//! The commands of clients: the first byte of a command packet, and the layouts that Sqluice has to read.
//!
//! Source: MariaDB's documentation "Text protocol" and "Binary protocol"; `enum_server_command` of `my_command.h`.

use crate::Capabilities;
use crate::codec::{Malformed, Reader, Write};

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $byte:literal, $word:literal;)*) => {
        /// A command's kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Command {
            $($(#[$doc])* $name,)*
        }

        impl Command {
            /// The command that a packet's first byte names.
            pub fn from_byte(byte: u8) -> Option<Command> {
                match byte {
                    $($byte => Some(Command::$name),)*
                    _ => None,
                }
            }

            /// The byte on the wire.
            pub fn byte(self) -> u8 {
                match self {
                    $(Command::$name => $byte,)*
                }
            }

            /// Its name in the protocol's documentation.
            pub fn word(self) -> &'static str {
                match self {
                    $(Command::$name => $word,)*
                }
            }
        }
    };
}

commands! {
    /// Never sent by clients.
    Sleep = 0x00, "COM_SLEEP";
    /// The client leaves; no reply.
    Quit = 0x01, "COM_QUIT";
    /// Changes the schema.
    InitDb = 0x02, "COM_INIT_DB";
    /// SQL text.
    Query = 0x03, "COM_QUERY";
    /// Columns of a table (old clients).
    FieldList = 0x04, "COM_FIELD_LIST";
    /// Old form of CREATE DATABASE.
    CreateDb = 0x05, "COM_CREATE_DB";
    /// Old form of DROP DATABASE.
    DropDb = 0x06, "COM_DROP_DB";
    /// Old form of FLUSH.
    Refresh = 0x07, "COM_REFRESH";
    /// Stops the server.
    Shutdown = 0x08, "COM_SHUTDOWN";
    /// A line of figures; the reply is a bare string.
    Statistics = 0x09, "COM_STATISTICS";
    /// Old form of SHOW PROCESSLIST.
    ProcessInfo = 0x0a, "COM_PROCESS_INFO";
    /// Internal to servers.
    Connect = 0x0b, "COM_CONNECT";
    /// Old form of KILL.
    ProcessKill = 0x0c, "COM_PROCESS_KILL";
    /// Dumps debug information into the server's log.
    Debug = 0x0d, "COM_DEBUG";
    /// Are you there?
    Ping = 0x0e, "COM_PING";
    /// Internal to servers.
    Time = 0x0f, "COM_TIME";
    /// Internal to servers.
    DelayedInsert = 0x10, "COM_DELAYED_INSERT";
    /// Logs in again on the same connection.
    ChangeUser = 0x11, "COM_CHANGE_USER";
    /// Starts a stream of the binary log.
    BinlogDump = 0x12, "COM_BINLOG_DUMP";
    /// Internal to servers.
    TableDump = 0x13, "COM_TABLE_DUMP";
    /// Internal to servers.
    ConnectOut = 0x14, "COM_CONNECT_OUT";
    /// A replica introduces itself.
    RegisterReplica = 0x15, "COM_REGISTER_SLAVE";
    /// Prepares a statement.
    StmtPrepare = 0x16, "COM_STMT_PREPARE";
    /// Executes a prepared statement.
    StmtExecute = 0x17, "COM_STMT_EXECUTE";
    /// Part of a parameter's value; no reply.
    StmtSendLongData = 0x18, "COM_STMT_SEND_LONG_DATA";
    /// Forgets a prepared statement; no reply.
    StmtClose = 0x19, "COM_STMT_CLOSE";
    /// Forgets long data and closes the cursor.
    StmtReset = 0x1a, "COM_STMT_RESET";
    /// Multi-statements on or off.
    SetOption = 0x1b, "COM_SET_OPTION";
    /// Rows from a cursor.
    StmtFetch = 0x1c, "COM_STMT_FETCH";
    /// Internal to servers.
    Daemon = 0x1d, "COM_DAEMON";
    /// Starts a stream of the binary log from a set of GTIDs (MySQL).
    BinlogDumpGtid = 0x1e, "COM_BINLOG_DUMP_GTID";
    /// Cleans the session's state, keeps user and schema.
    ResetConnection = 0x1f, "COM_RESET_CONNECTION";
    /// Executes a prepared statement for many rows (MariaDB).
    StmtBulkExecute = 0xfa, "COM_STMT_BULK_EXECUTE";
}

/// `COM_SET_OPTION`'s argument: multi-statements on.
pub const MULTI_STATEMENTS_ON: u16 = 0;
/// `COM_SET_OPTION`'s argument: multi-statements off.
pub const MULTI_STATEMENTS_OFF: u16 = 1;

/// Flag of [`Execute::flags`]: open a read-only cursor.
pub const CURSOR_READ_ONLY: u8 = 1;

/// Statement id with which MariaDB (10.2 and later) means the statement prepared last on the connection.
pub const LAST_PREPARED: u32 = 0xffff_ffff;

/// Flag of [`Execute::flags`]: the number of parameters, attributes among them, is sent (MySQL).
pub const PARAMETER_COUNT_TOLD: u8 = 8;

/// Flag of [`BulkExecute::flags`]: types stand in front of the values.
pub const BULK_SENDS_TYPES: u16 = 128;

/// Where the SQL text begins behind the first byte of COM_QUERY: with [`Capabilities::QUERY_ATTRIBUTES`] attributes come
/// first, even if there are none.
///
/// Source: MySQL's documentation of COM_QUERY.
pub fn query_text_at(arguments: &[u8], capabilities: Capabilities) -> Result<usize, Malformed> {
    if !capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        return Ok(0);
    }
    let mut reader = Reader::new(arguments);
    let count = reader.lenenc("number of query attributes")?;
    reader.lenenc("number of attribute sets")?;
    if count > 0 {
        let parameters = Parameters::read(&mut reader, count, true)?;
        let types = parameters.types.ok_or(Malformed("query attributes without types"))?;
        let mut kinds = Reader::new(types);
        for at in 0..usize::try_from(count).map_err(|_| Malformed("number of query attributes"))? {
            let kind = kinds.u16("attribute type")?;
            kinds.lenenc_bytes("attribute name")?;
            if !parameters.is_null(at) {
                skip_value(&mut reader, kind)?;
            }
        }
    }
    Ok(arguments.len() - reader.rest().len())
}

/// COM_QUERY's first bytes when the sender has no attributes.
pub fn begin_query(out: &mut Vec<u8>, capabilities: Capabilities) {
    out.push(Command::Query.byte());
    if capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        // None, in the one set that there is.
        out.extend_from_slice(&[0, 1]);
    }
}

/// Skips a value of the binary protocol.
pub(crate) fn skip_value(reader: &mut Reader<'_>, kind: u16) -> Result<(), Malformed> {
    let bytes = match kind & 0xff {
        // TINY, BOOL
        0x01 | 0xf4 => 1,
        // SHORT, YEAR
        0x02 | 0x0d => 2,
        // LONG, INT24, FLOAT
        0x03 | 0x09 | 0x04 => 4,
        // LONGLONG, DOUBLE
        0x08 | 0x05 => 8,
        // NULL
        0x06 => 0,
        // DATE, DATETIME, TIMESTAMP, TIME
        0x0a | 0x0c | 0x07 | 0x0b => usize::from(reader.u8("length of a time")?),
        _ => return reader.lenenc_bytes("attribute value").map(drop),
    };
    reader.bytes(bytes, "attribute value").map(drop)
}

/// The common beginning of executions and attributes: the values that are NULL, and the types of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters<'a> {
    pub(crate) null_bitmap: &'a [u8],
    pub(crate) types: Option<&'a [u8]>,
}

impl<'a> Parameters<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>, count: u64, named: bool) -> Result<Parameters<'a>, Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed("number of parameters"))?;
        let null_bitmap = reader.bytes(count.div_ceil(8), "null bitmap")?;
        if reader.u8("new parameters flag")? == 0 {
            return Ok(Parameters { null_bitmap, types: None });
        }
        if !named {
            return Ok(Parameters { null_bitmap, types: Some(reader.bytes(2 * count, "parameter types")?) });
        }
        let all = reader.rest();
        for _ in 0..count {
            reader.u16("parameter type")?;
            reader.lenenc_bytes("parameter name")?;
        }
        Ok(Parameters { null_bitmap, types: Some(&all[..all.len() - reader.rest().len()]) })
    }

    pub(crate) fn is_null(&self, at: usize) -> bool {
        self.null_bitmap.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }
}

/// `COM_STMT_EXECUTE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Statement id.
    pub statement: u32,
    /// Cursor type.
    pub flags: u8,
    /// How many parameters there are, query attributes among them, where the layout tells it.
    pub count: Option<u64>,
    /// One bit for each parameter that is NULL.
    pub null_bitmap: &'a [u8],
    /// Two bytes for each parameter (and its name, with query attributes), when the client sent them: at the first
    /// execution, or when they changed.
    pub types: Option<&'a [u8]>,
    /// The values behind.
    pub values: &'a [u8],
}

impl<'a> Execute<'a> {
    /// Reads the payload behind the command byte, for a statement with `parameters` parameters, as a peer with these
    /// capabilities in common wrote it.
    pub fn parse(payload: &'a [u8], parameters: u16, capabilities: Capabilities) -> Result<Execute<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let statement = reader.u32("statement id")?;
        let flags = reader.u8("cursor flags")?;
        reader.u32("iteration count")?;
        let named = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let mut execute = Execute { statement, flags, count: None, null_bitmap: &[], types: None, values: &[] };
        let mut count = u64::from(parameters);
        if named && (parameters > 0 || flags & PARAMETER_COUNT_TOLD != 0) {
            count = reader.lenenc("parameter count")?;
            execute.count = Some(count);
        }
        if count > 0 {
            let parameters = Parameters::read(&mut reader, count, named)?;
            execute.null_bitmap = parameters.null_bitmap;
            execute.types = parameters.types;
        }
        execute.values = reader.remaining();
        Ok(execute)
    }

    /// Writes the command's payload, command byte included, for another statement id and with the types given.
    pub fn write(&self, out: &mut Vec<u8>, statement: u32, types: Option<&[u8]>) {
        out.push(Command::StmtExecute.byte());
        out.put_u32(statement);
        out.push(self.flags);
        out.put_u32(1);
        if let Some(count) = self.count {
            out.put_lenenc(count);
        }
        if !self.null_bitmap.is_empty() {
            out.extend_from_slice(self.null_bitmap);
            out.push(u8::from(types.is_some()));
            out.extend_from_slice(types.unwrap_or_default());
        }
        out.extend_from_slice(self.values);
    }
}

/// `COM_STMT_BULK_EXECUTE` (MariaDB): one statement for many rows of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkExecute<'a> {
    /// Statement id.
    pub statement: u32,
    /// [`BULK_SENDS_TYPES`] and what the reply shall hold.
    pub flags: u16,
    /// Two bytes for each parameter, when the client sent them.
    pub types: Option<&'a [u8]>,
    /// The rows behind, each value with a byte in front that says whether it is one.
    pub rows: &'a [u8],
}

impl<'a> BulkExecute<'a> {
    /// Reads the payload behind the command byte, for a statement with `parameters` parameters.
    pub fn parse(payload: &'a [u8], parameters: u16) -> Result<BulkExecute<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let (statement, flags) = (reader.u32("statement id")?, reader.u16("bulk flags")?);
        let sends_types = flags & BULK_SENDS_TYPES != 0;
        let types = sends_types.then(|| reader.bytes(2 * usize::from(parameters), "parameter types")).transpose()?;
        Ok(BulkExecute { statement, flags, types, rows: reader.remaining() })
    }

    /// Writes the command's payload, command byte included, for another statement id and with the types given.
    pub fn write(&self, out: &mut Vec<u8>, statement: u32, types: Option<&[u8]>) {
        out.push(Command::StmtBulkExecute.byte());
        out.put_u32(statement);
        out.put_u16(if types.is_some() { self.flags | BULK_SENDS_TYPES } else { self.flags & !BULK_SENDS_TYPES });
        out.extend_from_slice(types.unwrap_or_default());
        out.extend_from_slice(self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Capabilities = Capabilities::empty();
    const NAMED: Capabilities = Capabilities::QUERY_ATTRIBUTES;

    #[test]
    fn every_byte_names_its_command_back() {
        let known: Vec<Command> = (0..=255).filter_map(Command::from_byte).collect();
        assert_eq!(known.len(), 33);
        for command in known {
            assert_eq!(Command::from_byte(command.byte()), Some(command));
        }
        assert_eq!(Command::from_byte(0xfe), None, "COM_MULTI is refused");
    }

    #[test]
    fn an_execution_is_rewritten_with_remembered_types() {
        // Statement 7, no cursor, 2 parameters, the second NULL, types not sent again, one value.
        let payload = [7, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 0, 42];
        let execute = Execute::parse(&payload, 2, PLAIN).unwrap();
        assert_eq!((execute.statement, execute.types, execute.values), (7, None, &[42u8][..]));
        let mut out = Vec::new();
        execute.write(&mut out, 9, Some(&[1, 0, 8, 0]));
        assert_eq!(out, [0x17, 9, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 1, 0, 8, 0, 42]);
        assert_eq!(Execute::parse(&out[1..], 2, PLAIN).unwrap().types, Some(&[1u8, 0, 8, 0][..]));
        for cut in 0..11 {
            assert!(Execute::parse(&payload[..cut], 2, PLAIN).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn without_parameters_there_is_neither_bitmap_nor_flag() {
        let payload = [7, 0, 0, 0, 1, 1, 0, 0, 0];
        let execute = Execute::parse(&payload, 0, PLAIN).unwrap();
        assert_eq!(execute.flags, CURSOR_READ_ONLY);
        let mut out = Vec::new();
        execute.write(&mut out, 1, None);
        assert_eq!(out, [0x17, 1, 0, 0, 0, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn the_text_stands_behind_the_attributes() {
        assert_eq!(query_text_at(b"SELECT 1", PLAIN), Ok(0));
        assert_eq!(query_text_at(b"\0\x01SELECT 1", NAMED), Ok(2));
        // Three attributes: a BIGINT, a NULL, a string.
        let mut payload = vec![3, 1, 0b010, 1];
        for (kind, name) in [(8, "n"), (6, ""), (0xfd, "trace")] {
            payload.extend([kind, 0, name.len() as u8]);
            payload.extend(name.as_bytes());
        }
        payload.extend(7_u64.to_le_bytes());
        payload.extend(b"\x03abc");
        let at = payload.len();
        payload.extend(b"SELECT 1");
        assert_eq!(query_text_at(&payload, NAMED), Ok(at));
        for cut in 0..at {
            assert!(query_text_at(&payload[..cut], NAMED).is_err(), "cut at {cut}");
        }
        assert!(query_text_at(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", NAMED).is_err());
    }

    #[test]
    fn an_execution_with_attributes_is_rewritten() {
        // One parameter and one attribute.
        let payload = [7, 0, 0, 0, 8, 1, 0, 0, 0, 2, 0, 1, 1, 0, 0, 1, 0, 1, b'a', 42, 43];
        let execute = Execute::parse(&payload, 1, NAMED).unwrap();
        assert_eq!((execute.count, execute.types, execute.values), (Some(2), Some(&payload[12..19]), &payload[19..]));
        let mut out = Vec::new();
        execute.write(&mut out, 7, execute.types);
        assert_eq!(out[1..], payload);
        for cut in 0..19 {
            assert!(Execute::parse(&payload[..cut], 1, NAMED).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_bulk_execution_is_rewritten_with_remembered_types() {
        let payload = [7, 0, 0, 0, 0, 0, 0, 42, 0, 43];
        let bulk = BulkExecute::parse(&payload, 1).unwrap();
        assert_eq!((bulk.types, bulk.rows), (None, &payload[6..]));
        let mut out = Vec::new();
        bulk.write(&mut out, 9, Some(&[1, 0]));
        assert_eq!(out, [0xfa, 9, 0, 0, 0, 128, 0, 1, 0, 0, 42, 0, 43]);
        let again = BulkExecute::parse(&out[1..], 1).unwrap();
        assert_eq!((again.types, again.rows), (Some(&[1u8, 0][..]), bulk.rows));
        for cut in 0..8 {
            assert!(BulkExecute::parse(&out[1..][..cut], 1).is_err(), "cut at {cut}");
        }
    }
}

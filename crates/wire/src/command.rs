//! What a client asks for: the first byte of a command packet, and the layouts that Sqluice has to read.
//!
//! Source: MariaDB's documentation "Text protocol" and "Binary protocol"; `enum_server_command` of `my_command.h`.

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

/// `COM_STMT_EXECUTE` without query attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Statement id.
    pub statement: u32,
    /// Cursor type.
    pub flags: u8,
    /// One bit for each parameter that is NULL.
    pub null_bitmap: &'a [u8],
    /// Two bytes for each parameter, when the client sent them: at the first execution, or when they changed.
    pub types: Option<&'a [u8]>,
    /// The values behind.
    pub values: &'a [u8],
}

impl<'a> Execute<'a> {
    /// Reads the payload behind the command byte, for a statement with `parameters` parameters.
    pub fn parse(payload: &'a [u8], parameters: u16) -> Result<Execute<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let statement = reader.u32("statement id")?;
        let flags = reader.u8("cursor flags")?;
        reader.u32("iteration count")?;
        let mut execute = Execute { statement, flags, null_bitmap: &[], types: None, values: &[] };
        if parameters > 0 {
            let count = usize::from(parameters);
            execute.null_bitmap = reader.bytes(count.div_ceil(8), "null bitmap")?;
            if reader.u8("new parameters flag")? != 0 {
                execute.types = Some(reader.bytes(2 * count, "parameter types")?);
            }
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
        if !self.null_bitmap.is_empty() {
            out.extend_from_slice(self.null_bitmap);
            out.push(u8::from(types.is_some()));
            out.extend_from_slice(types.unwrap_or_default());
        }
        out.extend_from_slice(self.values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let execute = Execute::parse(&payload, 2).unwrap();
        assert_eq!((execute.statement, execute.types, execute.values), (7, None, &[42u8][..]));
        let mut out = Vec::new();
        execute.write(&mut out, 9, Some(&[1, 0, 8, 0]));
        assert_eq!(out, [0x17, 9, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 1, 0, 8, 0, 42]);
        assert_eq!(Execute::parse(&out[1..], 2).unwrap().types, Some(&[1u8, 0, 8, 0][..]));
        for cut in 0..11 {
            assert!(Execute::parse(&payload[..cut], 2).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn without_parameters_there_is_neither_bitmap_nor_flag() {
        let payload = [7, 0, 0, 0, 1, 1, 0, 0, 0];
        let execute = Execute::parse(&payload, 0).unwrap();
        assert_eq!(execute.flags, CURSOR_READ_ONLY);
        let mut out = Vec::new();
        execute.write(&mut out, 1, None);
        assert_eq!(out, [0x17, 1, 0, 0, 0, 1, 1, 0, 0, 0]);
    }
}

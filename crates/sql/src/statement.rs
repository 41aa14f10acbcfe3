//! The meaning of one statement, in the words the proxy decides by.
//!
//! A [`Statement`] is made by [`crate::classify()`] from the text alone; nobody classifies SQL after it.

use crate::leaves::Leaves;
use crate::tables::NamedTables;
use crate::verdict::Verdict;
use bitflags::bitflags;

/// The meaning of one client request, which may hold several statements separated by `;`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The verb. For several statements: the first one's.
    pub kind: Kind,
    /// Where it may run.
    pub access: Access,
    /// The step of the transaction, if it can be read from the text.
    pub transaction: Option<TransactionStep>,
    /// The effects on the session, in order. Empty (and unallocated) for most statements.
    pub effects: Vec<Effect>,
    /// The parts of the session's past that it asks for.
    pub asks: Asks,
    /// A routing comment (`/* sqluice: … */`), if it has one.
    pub hint: Option<Hint>,
    /// How many statements the text holds, empty ones not counted.
    pub parts: u16,
    /// A part of it changes accounts or rights, or may do so in a text that is not here.
    pub accounts: bool,
    /// LAST_INSERT_ID() may be something else behind it than the id that its OK packet tells: values may have been given
    /// for the AUTO_INCREMENT column, rows may have been left out, or routines may have inserted.
    pub insert_id_unsure: bool,
    /// It names tables, as far as the text shows: servers forget the messages of the statement before then.
    pub uses_tables: bool,
    /// The value of FOUND_ROWS() behind it.
    pub found_rows: FoundRows,
    /// The hash of the whole text's digest, as [`crate::digest_hash`] gives it; 0 is that of no text.
    pub digest: u64,
    /// The tables that [`Statement::tables`] has found.
    pub named: NamedTables,
    /// The verdict that [`Statement::verdict`] has heard.
    pub verdict: Verdict,
}

/// The value of FOUND_ROWS() behind a statement, as far as the text tells. Seen with MariaDB 10.11 and MySQL 9.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoundRows {
    /// The value from before.
    Left,
    /// The rows of the result, and so many more that an OFFSET skipped.
    Rows {
        /// The number behind OFFSET.
        skipped: u64,
    },
    /// The rows of the result. But MariaDB leaves it as it was where an aggregate function has made the only row of nothing, and
    /// the server has seen that before it read.
    Aggregate,
    /// The rows of the result, unless `sql_select_limit` cut it off.
    Uncut,
    /// The rows that an UPDATE found, changed or not.
    Matched,
    /// 1.
    One,
    /// Only the server knows.
    Unsure,
}

/// The verb of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing but white space and comments.
    Empty,
    /// SELECT, TABLE, VALUES, parenthesised and WITH … SELECT.
    Select,
    /// INSERT, REPLACE.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// LOAD DATA / LOAD XML.
    Load,
    /// CALL.
    Call,
    /// DO.
    Do,
    /// SET of any form.
    Set,
    /// USE.
    Use,
    /// SHOW, DESCRIBE, EXPLAIN of a table, HELP.
    Show,
    /// EXPLAIN / ANALYZE of a statement.
    Explain,
    /// BEGIN, START TRANSACTION, COMMIT, ROLLBACK, SAVEPOINT, RELEASE.
    Transaction,
    /// XA of any form.
    Xa,
    /// LOCK TABLES, UNLOCK TABLES, FLUSH … WITH READ LOCK, BACKUP LOCK.
    Lock,
    /// HANDLER.
    Handler,
    /// PREPARE, EXECUTE, DEALLOCATE, EXECUTE IMMEDIATE.
    PreparedText,
    /// CREATE, ALTER, DROP, RENAME, TRUNCATE: the schema and its objects.
    Definition,
    /// GRANT, REVOKE, CREATE USER, SET PASSWORD, roles.
    Account,
    /// ANALYZE, CHECK, CHECKSUM, OPTIMIZE, REPAIR, FLUSH, KILL, RESET, PURGE, INSTALL, replication control, …
    Administration,
    /// KILL.
    Kill,
    /// GET DIAGNOSTICS, SIGNAL, RESIGNAL.
    Diagnostics,
    /// BEGIN NOT ATOMIC … END, IF, LOOP and other compound statements outside a routine (MariaDB).
    Compound,
    /// Not known.
    Unknown,
}

/// Where a statement may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It reads only: any server with fresh enough data will do.
    Read,
    /// The primary must run it, for this reason.
    Primary(Why),
}

impl Access {
    /// It changes nothing, wherever it runs.
    pub fn only_reads(self) -> bool {
        matches!(self, Access::Read | Access::Primary(Why::ServerState))
    }
}

/// Why a statement must run on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It changes data.
    Writes,
    /// It changes the schema.
    Definition,
    /// It changes accounts or privileges.
    Account,
    /// It administers the server.
    Administration,
    /// It reads only, but what tells of one server: its variables, what runs there, what it has counted.
    ServerState,
    /// FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE.
    LockingRead,
    /// SELECT … INTO (a variable, OUTFILE, DUMPFILE).
    Into,
    /// GET_LOCK and its relatives, LOCK TABLES, HANDLER.
    Locks,
    /// NEXTVAL, LASTVAL, SETVAL, NEXT VALUE FOR.
    Sequence,
    /// Assigns a user variable.
    AssignsVariable,
    /// LAST_INSERT_ID(expr), SLEEP-free functions with a side effect on the session or the server.
    SideEffect,
    /// Calls a stored function that writes.
    WritingFunction,
    /// Calls a function whose data access is not known.
    UnknownFunction,
    /// Its meaning depends on the session's connection (FOUND_ROWS(), temporary state).
    SessionState,
    /// Part of transaction control.
    Transaction,
    /// It changes the session.
    SessionChange,
    /// Stored procedure or compound statement: anything may happen.
    Procedure,
    /// The statement is not known.
    Unknown,
}

/// The effect of a statement on the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionStep {
    /// Opens one: BEGIN, START TRANSACTION; `read_only` when it says READ ONLY, `snapshot` for WITH CONSISTENT SNAPSHOT.
    Begin {
        /// READ ONLY was given (`Some(true)`), READ WRITE was given (`Some(false)`).
        read_only: Option<bool>,
        /// WITH CONSISTENT SNAPSHOT was given.
        snapshot: bool,
    },
    /// Ends it: COMMIT.
    Commit {
        /// AND CHAIN was given: a new one opens at once.
        chain: bool,
        /// RELEASE was given: the server closes the connection.
        release: bool,
    },
    /// Ends it: ROLLBACK (not to a savepoint).
    Rollback {
        /// AND CHAIN was given.
        chain: bool,
        /// RELEASE was given.
        release: bool,
    },
    /// SAVEPOINT, ROLLBACK TO, RELEASE SAVEPOINT.
    Savepoint,
    /// A statement that commits what is open before it runs (DDL and the like).
    ImplicitCommit,
}

/// The effect of a statement on the session's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// USE.
    Schema(String),
    /// SET of a system variable in the session's scope; the name in lower case without `@@session.`.
    Variable {
        /// Lower-case name.
        name: String,
        /// The new value.
        value: Value,
    },
    /// SET STATEMENT … FOR: the variable has the value while the statement runs, and servers tell it all the same.
    WhileRunning {
        /// Lower-case name.
        name: String,
    },
    /// SET GLOBAL / PERSIST: the session itself does not change.
    GlobalVariable {
        /// Lower-case name.
        name: String,
    },
    /// SET NAMES; `None` is DEFAULT.
    Names {
        /// Character set, lower case.
        charset: Option<String>,
        /// COLLATE, lower case.
        collation: Option<String>,
    },
    /// SET CHARACTER SET / CHARSET; `None` is DEFAULT.
    CharacterSet(Option<String>),
    /// A user variable gets a value; the name as the server folds it (lower case, without `@`).
    UserVariable {
        /// Name without `@`.
        name: String,
        /// The new value.
        value: Value,
    },
    /// SET TRANSACTION.
    TransactionCharacteristics {
        /// SESSION was given; without it the next transaction only.
        session: bool,
        /// READ ONLY (`true`) or READ WRITE (`false`).
        read_only: Option<bool>,
        /// ISOLATION LEVEL, upper case with spaces (`READ COMMITTED`); empty if only the server knows it.
        isolation: Option<String>,
    },
    /// CREATE TEMPORARY TABLE; the name as written (schema-qualified if it was).
    CreateTemporaryTable(String),
    /// DROP TABLE, DROP TEMPORARY TABLE; the names as written.
    DropTable {
        /// Names as written.
        names: Vec<String>,
        /// TEMPORARY was given.
        temporary: bool,
    },
    /// Locks of this kind are taken.
    LockTables(LockKind),
    /// Locks of this kind are released.
    UnlockTables(LockKind),
    /// GET_LOCK(name): the literal name as the server compares it, if it is one of ASCII characters.
    TakeUserLock(Option<String>),
    /// RELEASE_LOCK(name): the same.
    ReleaseUserLock(Option<String>),
    /// RELEASE_ALL_LOCKS().
    ReleaseAllUserLocks {
        /// The statement consists of that call, so that it runs if the statement does.
        surely: bool,
    },
    /// The statement may leave this on its connection, and no reply tells of it.
    Leaves(Leaves),
    /// HANDLER … OPEN.
    OpenHandler(String),
    /// HANDLER … CLOSE.
    CloseHandler(String),
    /// XA START / BEGIN.
    XaStart,
    /// XA COMMIT, XA ROLLBACK, XA PREPARE (the connection is free of it afterwards), XA END.
    XaEnd {
        /// The transaction is over on this connection (COMMIT, ROLLBACK).
        finished: bool,
    },
    /// PREPARE name FROM ….
    PrepareText {
        /// Lower-case name.
        name: String,
        /// The SQL text when it is a literal; `None` from a variable or expression.
        text: Option<String>,
        /// The state that its execution may leave on the connection.
        leaves: Leaves,
    },
    /// EXECUTE name, or EXECUTE IMMEDIATE with a non-literal (`name` is empty then).
    ExecuteText {
        /// Lower-case name.
        name: String,
    },
    /// DEALLOCATE / DROP PREPARE.
    DeallocateText {
        /// Lower-case name.
        name: String,
    },
    /// SQL_CALC_FOUND_ROWS: FOUND_ROWS() is likely to follow.
    CalcFoundRows,
    /// SHOW STATUS, FLUSH STATUS: the session counts what its own connection does.
    CountsConnection,
    /// KILL.
    Kill {
        /// QUERY was given.
        query_only: bool,
        /// SOFT was given (MariaDB).
        soft: bool,
        /// The connection.
        victim: Victim,
    },
    /// SET ROLE, SET DEFAULT ROLE, SET PASSWORD and other changes that no variable shows: the statement's own text
    /// repeated on another connection would give the same state when `repeatable`.
    Role {
        /// The statement's text.
        text: String,
    },
    /// It may change the session in ways the text does not show (CALL, compound statements, unknown functions).
    MayChangeSession,
}

/// The connections that a KILL means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The connection of this id; `None` if it is no literal.
    Connection(Option<u64>),
    /// All connections of a user (MariaDB).
    User {
        /// Its name; `None` for CURRENT_USER.
        name: Option<String>,
        /// From where, if the statement says so.
        host: Option<String>,
    },
}

/// A value that a statement assigns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A literal or bare word, as SQL text that gives the same value on any connection whatever its sql_mode
    /// (strings in single quotes with doubled quotes and no backslash escapes, or hexadecimal when they hold one).
    Literal(String),
    /// DEFAULT.
    Default,
    /// An expression: only the server knows.
    Unknown,
}

/// Locks that are released by a statement of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// LOCK TABLES, FLUSH TABLES … WITH READ LOCK / FOR EXPORT; UNLOCK TABLES.
    Tables,
    /// LOCK INSTANCE FOR BACKUP; UNLOCK INSTANCE.
    Instance,
    /// BACKUP STAGE START; BACKUP STAGE END.
    BackupStage,
    /// BACKUP LOCK; BACKUP UNLOCK.
    BackupLock,
}

bitflags! {
    /// The parts of the session's past or identity that a statement asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Asks: u16 {
        /// LAST_INSERT_ID() without argument, `@@last_insert_id`, `@@identity`.
        const LAST_INSERT_ID = 1;
        /// FOUND_ROWS().
        const FOUND_ROWS = 1 << 1;
        /// ROW_COUNT().
        const ROW_COUNT = 1 << 2;
        /// SHOW WARNINGS / ERRORS / COUNT(*) WARNINGS, GET DIAGNOSTICS, `@@warning_count`, `@@error_count`.
        const DIAGNOSTICS = 1 << 3;
        /// CONNECTION_ID(), `@@pseudo_thread_id`.
        const CONNECTION_ID = 1 << 4;
        /// Any `@name`.
        const USER_VARIABLES = 1 << 5;
        /// Any `@@name`.
        const SYSTEM_VARIABLES = 1 << 6;
        /// Calls a function that is not built in.
        const STORED_FUNCTIONS = 1 << 7;
        /// SHOW PROFILE(S), SHOW SESSION STATUS and other reports on the very connection.
        const CONNECTION = 1 << 8;
        /// LOAD … LOCAL: the server will ask the client for a file.
        const LOCAL_FILE = 1 << 9;
        /// SHOW PROCESSLIST, SHOW ENGINE: the ids of connections.
        const PROCESSES = 1 << 10;
        /// Tables that list connections under the server's own ids.
        const SERVER_IDS = 1 << 11;
        /// Tables that list what clients said of themselves at their logins.
        const CONNECT_ATTRIBUTES = 1 << 12;
        /// SHOW COUNT(*) WARNINGS / ERRORS, which gives a row as a SELECT does.
        const MESSAGE_COUNT = 1 << 13;
        /// The last statement of the text is GET DIAGNOSTICS, which leaves ROW_COUNT() as it was.
        const KEEPS_ROW_COUNT = 1 << 14;
        /// LASTVAL(), PREVIOUS VALUE FOR: what NEXTVAL() gave on the connection last.
        const SEQUENCE_VALUE = 1 << 15;
    }
}

/// A routing comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// `/* sqluice: primary */`.
    Primary,
    /// `/* sqluice: replica */`.
    Replica,
    /// `/* sqluice: server=NAME */`.
    Server(String),
    /// `/* sqluice: consistency=… */`: what the read must see.
    Consistency(HintConsistency),
}

/// The writes that a read must see, as a comment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintConsistency {
    /// Nothing in particular.
    None,
    /// The writes of its session.
    Session,
    /// The writes of all sessions.
    Cluster,
    /// The writes of all sessions to the tables that the read names.
    Table,
}

/// Which family and version of server the text is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// MariaDB.
    MariaDb,
    /// MySQL, Percona Server.
    MySql,
}

/// How the server would read the text: changes with the session's sql_mode and character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// Family.
    pub family: Family,
    /// Version as in versioned comments: 101119 is MariaDB 10.11.19, 80400 is MySQL 8.4.0.
    pub version: u32,
    /// The modes that change how text is read.
    pub modes: Modes,
    /// The encoding of `character_set_client` as far as the lexer must know it.
    pub encoding: Encoding,
}

bitflags! {
    /// The sql_mode bits that change how text is read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Modes: u8 {
        /// `"` quotes identifiers.
        const ANSI_QUOTES = 1;
        /// `\` is an ordinary character.
        const NO_BACKSLASH_ESCAPES = 1 << 1;
        /// `||` is concatenation.
        const PIPES_AS_CONCAT = 1 << 2;
        /// Spaces are allowed between a function's name and `(`.
        const IGNORE_SPACE = 1 << 3;
        /// Oracle syntax (MariaDB).
        const ORACLE = 1 << 4;
    }
}

/// Encodings told apart by how a byte that looks like ASCII may be the tail of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// No multi-byte character holds a byte below 0x80 (latin1, euckr, …).
    #[default]
    AsciiSafe,
    /// utf8mb4 and utf8mb3: read like [`Encoding::AsciiSafe`], but the value of a literal is known beyond ASCII.
    Utf8,
    /// big5: the second byte may be 0x40..=0x7e.
    Big5,
    /// gbk: the second byte may be 0x40..=0x7e.
    Gbk,
    /// sjis and cp932: the second byte may be 0x40..=0x7e.
    Sjis,
    /// gb18030: the second byte may be 0x30..=0x39 or 0x40..=0x7e.
    Gb18030,
}

impl Encoding {
    /// Whether no multi-byte character holds a byte below 0x80.
    pub fn is_ascii_safe(self) -> bool {
        matches!(self, Encoding::AsciiSafe | Encoding::Utf8)
    }
}

/// The access of a stored function, as the servers know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionAccess {
    /// NO SQL, CONTAINS SQL or READS SQL DATA (and it is not known to call what writes).
    Reads,
    /// MODIFIES SQL DATA.
    Writes,
    /// Not known.
    Unknown,
}

/// Looks up functions that are not built in.
pub trait Functions {
    /// The data access of `schema.name`; `schema` is `None` when the call was not qualified.
    fn access(&self, schema: Option<&str>, name: &str) -> FunctionAccess;

    /// The state that the stored function may leave on the connection that calls it.
    fn leaves(&self, _schema: Option<&str>, _name: &str) -> Leaves {
        Leaves::empty()
    }

    /// The same of a procedure.
    fn procedure_leaves(&self, _schema: Option<&str>, _name: &str) -> Leaves {
        Leaves::empty()
    }
}

/// Knows no function.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn access(&self, _schema: Option<&str>, _name: &str) -> FunctionAccess {
        FunctionAccess::Unknown
    }
}

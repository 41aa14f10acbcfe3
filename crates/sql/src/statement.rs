//! The meaning of one statement, in the words the proxy decides by.
//!
//! A [`Statement`] is made by [`crate::classify()`] from the text alone; nobody classifies SQL after it.

use crate::effect::Effect;
use crate::hint::Hint;
use crate::names::NamedTables;
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
    /// Whether a definition or a change of accounts opens tables with locks.
    pub opens: Opens,
    /// The hash of the whole text's digest, as [`crate::digest_hash`] gives it; 0 is that of no text.
    pub digest: u64,
    /// The tables that [`Statement::tables`] has found.
    pub named: NamedTables,
    /// The verdict that [`Statement::verdict`] has heard.
    pub verdict: Verdict,
}

impl Statement {
    /// Whether it is one SELECT from tables that asks nothing of its session, and changes nothing of it but the results that each
    /// statement leaves.
    #[inline]
    pub fn is_plain_read(&self) -> bool {
        self.kind == Kind::Select
            && self.access == Access::Read
            && self.parts <= 1
            && self.uses_tables
            && self.found_rows == (FoundRows::Rows { skipped: 0 })
            && self.asks.is_empty()
            && self.effects.is_empty()
            && self.transaction.is_none()
            && !self.insert_id_unsure
            && !self.accounts
    }
}

/// Whether a definition or a change of accounts opens tables with locks, its own or the server's, as far as the text tells. That
/// begins a transaction for a moment, which a server announces. Seen with MariaDB 10.11 and MySQL 9.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Opens {
    /// It opens none, or its reply tells: ALTER TABLE and the like count rows.
    #[default]
    Untold,
    /// It does.
    Tables,
    /// It does, unless it warns: IF EXISTS does so where there is nothing.
    IfThere,
    /// It opens the session's locked tables anew.
    LockedTables,
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
        /// RELEASE was given (`Some(true)`): the server closes the connection. NO RELEASE was given (`Some(false)`); without
        /// either, `completion_type` decides.
        release: Option<bool>,
    },
    /// Ends it: ROLLBACK (not to a savepoint).
    Rollback {
        /// AND CHAIN was given.
        chain: bool,
        /// As with COMMIT.
        release: Option<bool>,
    },
    /// SAVEPOINT, ROLLBACK TO, RELEASE SAVEPOINT.
    Savepoint,
    /// A statement that commits what is open before it runs (DDL and the like).
    ImplicitCommit,
}

bitflags! {
    /// The parts of the session's past or identity that a statement asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Asks: u32 {
        /// LAST_INSERT_ID() without argument, `@@last_insert_id`, `@@identity`.
        const LAST_INSERT_ID = 1;
        /// FOUND_ROWS().
        const FOUND_ROWS = 1 << 1;
        /// ROW_COUNT(), as a function or as an item of GET DIAGNOSTICS; SQL%ROWCOUNT.
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
        /// All statements of the text are GET DIAGNOSTICS.
        const ONLY_DIAGNOSTICS = 1 << 19;
        /// LASTVAL(), PREVIOUS VALUE FOR: what NEXTVAL() gave on the connection last.
        const SEQUENCE_VALUE = 1 << 15;
        /// Code that is not in the text, such as a routine's, may ask for ROW_COUNT().
        const ROW_COUNT_IN_CODE = 1 << 16;
        /// The same for FOUND_ROWS().
        const FOUND_ROWS_IN_CODE = 1 << 17;
        /// The same for any `@name`.
        const USER_VARIABLES_IN_CODE = 1 << 20;
        /// `/* sqluice: direct */`: lists of connections as the server has them, with its own ids.
        const DIRECT = 1 << 18;
    }
}

impl Asks {
    /// The same asked for by code that is not in the text, as far as that differs.
    #[must_use]
    pub fn in_code(self) -> Asks {
        let pairs = [
            (Asks::ROW_COUNT, Asks::ROW_COUNT_IN_CODE),
            (Asks::FOUND_ROWS, Asks::FOUND_ROWS_IN_CODE),
            (Asks::USER_VARIABLES, Asks::USER_VARIABLES_IN_CODE),
        ];
        let asked = pairs.into_iter().filter(|(in_text, in_code)| self.intersects(*in_text | *in_code));
        asked.fold(Asks::empty(), |all, (_, in_code)| all | in_code)
    }
}

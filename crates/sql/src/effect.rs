//! The effects of a statement on the session that runs it.

use crate::leaves::Leaves;

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
        /// Its execution may announce characteristics of the next transaction ([`Effect::may_announce`]).
        announces: bool,
        /// It is known to read only.
        reads: bool,
        /// It is a definition, perhaps of code.
        defines: bool,
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
    /// FLUSH USER_VARIABLES: the session has none any more (MariaDB).
    FlushUserVariables,
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

impl Effect {
    /// Whether it may leave SET TRANSACTION waiting for the next transaction: by its text, or in code that the text does not show.
    pub fn may_announce(&self) -> bool {
        match self {
            Effect::TransactionCharacteristics { session, .. } => !session,
            Effect::MayChangeSession | Effect::ExecuteText { .. } => true,
            _ => false,
        }
    }
}

/// The connections that a KILL means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The connection of this id.
    Connection(u64),
    /// CONNECTION_ID(): the connection that the statement runs on.
    Own,
    /// The connection whose id a user variable has; its lower-case name.
    UserVariable(String),
    /// The connection whose id is the parameter of a prepared statement.
    Parameter,
    /// An expression with a subquery or a sequence: servers refuse it in a KILL, or find no id of a session there.
    Query,
    /// Another expression, or nothing.
    Computed,
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

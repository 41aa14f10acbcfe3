//! Status flags that servers send in OK and EOF packets.

use bitflags::bitflags;

bitflags! {
    /// Server status (`SERVER_STATUS_*` of `mysql_com.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Status: u16 {
        /// A transaction is open.
        const IN_TRANSACTION = 1;
        /// autocommit is on.
        const AUTOCOMMIT = 1 << 1;
        /// Another result follows.
        const MORE_RESULTS = 1 << 3;
        /// No good index was used.
        const NO_GOOD_INDEX = 1 << 4;
        /// No index was used.
        const NO_INDEX = 1 << 5;
        /// A cursor is open: rows come by COM_STMT_FETCH.
        const CURSOR_EXISTS = 1 << 6;
        /// The cursor's last row was sent.
        const LAST_ROW_SENT = 1 << 7;
        /// A schema was dropped.
        const SCHEMA_DROPPED = 1 << 8;
        /// sql_mode has NO_BACKSLASH_ESCAPES.
        const NO_BACKSLASH_ESCAPES = 1 << 9;
        /// The metadata of a prepared statement changed.
        const METADATA_CHANGED = 1 << 10;
        /// The query was slow.
        const QUERY_WAS_SLOW = 1 << 11;
        /// The result holds OUT parameters.
        const OUT_PARAMETERS = 1 << 12;
        /// The open transaction is READ ONLY.
        const IN_READ_ONLY_TRANSACTION = 1 << 13;
        /// Session changes follow in this packet.
        const SESSION_STATE_CHANGED = 1 << 14;
        /// ANSI_QUOTES is on (MariaDB).
        const ANSI_QUOTES = 1 << 15;
        const _ = !0;
    }
}

impl Status {
    /// The flags that tell of the session; all others tell of one statement and are gone with the next.
    pub const OF_SESSION: Status = Status::IN_TRANSACTION
        .union(Status::AUTOCOMMIT)
        .union(Status::NO_BACKSLASH_ESCAPES)
        .union(Status::IN_READ_ONLY_TRANSACTION)
        .union(Status::ANSI_QUOTES);
    /// The flags that show the session's `sql_mode`.
    pub const OF_MODES: Status = Status::NO_BACKSLASH_ESCAPES.union(Status::ANSI_QUOTES);
}

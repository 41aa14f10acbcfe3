//! Capability bits that both sides of a connection tell at login.
//!
//! Source: MariaDB's documentation "Connecting" (capabilities) and MySQL's `mysql_com.h`. The lower 32 bits are common;
//! the upper 32 bits are MariaDB's extended capabilities, sent in four bytes that MySQL leaves reserved, and only by
//! peers that clear [`Capabilities::LONG_PASSWORD`] (which MariaDB calls `CLIENT_MYSQL`).

use bitflags::bitflags;

bitflags! {
    /// A set of capabilities.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Capabilities: u64 {
        /// `CLIENT_MYSQL`/`CLIENT_LONG_PASSWORD`: the peer is not MariaDB's own and sends no extended bits.
        const LONG_PASSWORD = 1;
        /// Affected rows are found rows.
        const FOUND_ROWS = 1 << 1;
        /// Longer column flags.
        const LONG_FLAG = 1 << 2;
        /// The login names a schema.
        const CONNECT_WITH_DB = 1 << 3;
        /// `schema.table.column` is refused.
        const NO_SCHEMA = 1 << 4;
        /// zlib compression after login.
        const COMPRESS = 1 << 5;
        /// The client is an ODBC driver; changes nothing known.
        const ODBC = 1 << 6;
        /// LOAD DATA LOCAL INFILE.
        const LOCAL_FILES = 1 << 7;
        /// Spaces before `(` of a function.
        const IGNORE_SPACE = 1 << 8;
        /// The 4.1 protocol: the only one spoken here.
        const PROTOCOL_41 = 1 << 9;
        /// `interactive_timeout` instead of `wait_timeout`.
        const INTERACTIVE = 1 << 10;
        /// TLS after the first packet.
        const TLS = 1 << 11;
        /// The client ignores SIGPIPE; changes nothing.
        const IGNORE_SIGPIPE = 1 << 12;
        /// Status flags in OK packets.
        const TRANSACTIONS = 1 << 13;
        /// Old name for 4.1 protocol.
        const RESERVED_14 = 1 << 14;
        /// Twenty-byte scramble.
        const SECURE_CONNECTION = 1 << 15;
        /// Several statements in one COM_QUERY.
        const MULTI_STATEMENTS = 1 << 16;
        /// Several results of one COM_QUERY.
        const MULTI_RESULTS = 1 << 17;
        /// Several results of one COM_STMT_EXECUTE.
        const PS_MULTI_RESULTS = 1 << 18;
        /// Authentication plugins are named.
        const PLUGIN_AUTH = 1 << 19;
        /// Connection attributes follow the login.
        const CONNECT_ATTRS = 1 << 20;
        /// The authentication answer's length is length-encoded.
        const PLUGIN_AUTH_LENENC_DATA = 1 << 21;
        /// The client can work in the sandbox of an expired password.
        const CAN_HANDLE_EXPIRED_PASSWORDS = 1 << 22;
        /// OK packets tell changes of the session.
        const SESSION_TRACK = 1 << 23;
        /// Result sets end with an OK packet (header `0xfe`) and have no EOF behind the columns.
        const DEPRECATE_EOF = 1 << 24;
        /// Result metadata may be left out (MySQL).
        const OPTIONAL_RESULTSET_METADATA = 1 << 25;
        /// zstd compression after login (MySQL).
        const ZSTD_COMPRESSION = 1 << 26;
        /// Query attributes change the layout of COM_QUERY and COM_STMT_EXECUTE (MySQL).
        const QUERY_ATTRIBUTES = 1 << 27;
        /// Several factors at login (MySQL).
        const MULTI_FACTOR_AUTHENTICATION = 1 << 28;
        /// Extends the capabilities (reserved).
        const CAPABILITY_EXTENSION = 1 << 29;
        /// The client verifies the server's certificate; never sent.
        const SSL_VERIFY_SERVER_CERT = 1 << 30;
        /// The client remembers options; never sent.
        const REMEMBER_OPTIONS = 1 << 31;
        /// Progress packets inside replies (MariaDB).
        const PROGRESS = 1 << 32;
        /// COM_MULTI (MariaDB, deprecated).
        const COM_MULTI = 1 << 33;
        /// COM_STMT_BULK_EXECUTE (MariaDB).
        const STMT_BULK = 1 << 34;
        /// Extended column metadata (MariaDB).
        const EXTENDED_METADATA = 1 << 35;
        /// Metadata of prepared statements may be left out (MariaDB).
        const CACHE_METADATA = 1 << 36;
        /// One result per row of a bulk execution (MariaDB).
        const BULK_UNIT_RESULTS = 1 << 37;
        // Bits that are not named here exist in newer peers; they are kept when read and never offered.
        const _ = !0;
    }
}

impl Capabilities {
    /// The common 32 bits.
    pub fn low(self) -> u32 {
        (self.bits() & 0xffff_ffff) as u32
    }

    /// MariaDB's extended 32 bits.
    pub fn extended(self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// Both halves together.
    pub fn from_halves(low: u32, extended: u32) -> Capabilities {
        Capabilities::from_bits_retain(u64::from(low) | (u64::from(extended) << 32))
    }
}

//! How a server reads a text: its family and version, and the parts of sql_mode and character sets that change it.

use bitflags::bitflags;

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
        /// `[` begins a quoted name (MariaDB).
        const MSSQL = 1 << 5;
    }
}

impl Modes {
    /// The modes that change where strings and names end.
    pub const OF_QUOTES: Modes = Modes::ANSI_QUOTES.union(Modes::NO_BACKSLASH_ESCAPES);
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

/// The reading modes of a `sql_mode` value as the server shows it or a client sets it: names parted by commas, in any
/// case, combined names expanded. Unknown names are ignored.
pub fn modes_from_sql_mode(sql_mode: &str) -> Modes {
    let combined = Modes::PIPES_AS_CONCAT | Modes::ANSI_QUOTES | Modes::IGNORE_SPACE;
    let mut modes = Modes::empty();
    let meanings = [
        ("ANSI_QUOTES", Modes::ANSI_QUOTES),
        ("NO_BACKSLASH_ESCAPES", Modes::NO_BACKSLASH_ESCAPES),
        ("PIPES_AS_CONCAT", Modes::PIPES_AS_CONCAT),
        ("IGNORE_SPACE", Modes::IGNORE_SPACE),
        ("ANSI", combined),
        ("MSSQL", combined | Modes::MSSQL),
        ("DB2", combined),
        ("POSTGRESQL", combined),
        ("MAXDB", combined),
        ("ORACLE", combined | Modes::ORACLE),
    ];
    for name in sql_mode.split(',') {
        let meaning = meanings.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
        modes |= meaning.map_or(Modes::empty(), |(_, meaning)| *meaning);
    }
    modes
}

/// How the text of a client that uses this character set (or collation) is to be read.
pub fn encoding_of_charset(charset: &str) -> Encoding {
    const ENCODINGS: [(&str, Encoding); 8] = [
        ("utf8mb4", Encoding::Utf8),
        ("utf8mb3", Encoding::Utf8),
        ("utf8", Encoding::Utf8),
        ("big5", Encoding::Big5),
        ("gbk", Encoding::Gbk),
        ("sjis", Encoding::Sjis),
        ("cp932", Encoding::Sjis),
        ("gb18030", Encoding::Gb18030),
    ];
    // A collation's name begins with its character set's.
    let name = charset.split_once('_').map_or(charset, |(name, _)| name);
    let known = ENCODINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map_or(Encoding::AsciiSafe, |(_, encoding)| *encoding)
}

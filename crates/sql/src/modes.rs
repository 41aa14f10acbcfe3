//! The parts of sql_mode and character sets that change how text is read.

use crate::statement::{Encoding, Modes};

/// The reading modes of a `sql_mode` value as the server shows it or a client sets it: names parted by commas, in any
/// case, combined names expanded. Unknown names are ignored.
pub fn modes_from_sql_mode(sql_mode: &str) -> Modes {
    let combined = Modes::PIPES_AS_CONCAT | Modes::ANSI_QUOTES | Modes::IGNORE_SPACE;
    let mut modes = Modes::empty();
    for name in sql_mode.split(',') {
        modes |= match name.trim().to_ascii_uppercase().as_str() {
            "ANSI_QUOTES" => Modes::ANSI_QUOTES,
            "NO_BACKSLASH_ESCAPES" => Modes::NO_BACKSLASH_ESCAPES,
            "PIPES_AS_CONCAT" => Modes::PIPES_AS_CONCAT,
            "IGNORE_SPACE" => Modes::IGNORE_SPACE,
            "ANSI" | "MSSQL" | "DB2" | "POSTGRESQL" | "MAXDB" => combined,
            "ORACLE" => combined | Modes::ORACLE,
            _ => Modes::empty(),
        };
    }
    modes
}

/// How the text of a client that uses this character set (or collation) is to be read.
pub fn encoding_of_charset(charset: &str) -> Encoding {
    let charset = charset.to_ascii_lowercase();
    // A collation's name begins with its character set's.
    match charset.split('_').next().unwrap_or_default() {
        "big5" => Encoding::Big5,
        "gbk" => Encoding::Gbk,
        "sjis" | "cp932" => Encoding::Sjis,
        "gb18030" => Encoding::Gb18030,
        "utf8" | "utf8mb3" | "utf8mb4" => Encoding::Utf8,
        _ => Encoding::AsciiSafe,
    }
}

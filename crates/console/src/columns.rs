//! Columns of views and results.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// UTF-8.
    Text,
    /// 64 bits with a sign.
    Integer,
    /// A double.
    Real,
}

impl Kind {
    /// As `CREATE TABLE` and `DESCRIBE` have it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Text => "VARCHAR",
            Kind::Integer => "BIGINT",
            Kind::Real => "DOUBLE",
        }
    }

    /// Of a word that [`Kind::word`] gives, or SQLite's own tables have.
    pub(crate) fn of_word(word: &str) -> Kind {
        match word {
            "BIGINT" | "INTEGER" | "INT" => Kind::Integer,
            "DOUBLE" | "REAL" => Kind::Real,
            _ => Kind::Text,
        }
    }
}

/// A column of a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// A text.
pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

/// A whole number.
pub(crate) const fn int(name: &'static str) -> Column {
    Column { name, kind: Kind::Integer }
}

/// A number.
pub(crate) const fn real(name: &'static str) -> Column {
    Column { name, kind: Kind::Real }
}

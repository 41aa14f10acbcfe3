//! Columns of views and results.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// UTF-8.
    Text,
    /// 64 bits with a sign.
    Integer,
    /// A double.
    Real,
}

impl ColumnKind {
    /// As `CREATE TABLE` and `DESCRIBE` have it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ColumnKind::Text => "VARCHAR",
            ColumnKind::Integer => "BIGINT",
            ColumnKind::Real => "DOUBLE",
        }
    }

    /// Of a word that [`ColumnKind::word`] gives, or SQLite's own tables have.
    pub(crate) fn of_word(word: &str) -> ColumnKind {
        match word {
            "BIGINT" | "INTEGER" | "INT" => ColumnKind::Integer,
            "DOUBLE" | "REAL" => ColumnKind::Real,
            _ => ColumnKind::Text,
        }
    }
}

/// A column of a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnKind,
}

/// A text.
pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text }
}

/// A whole number.
pub(crate) const fn int(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Integer }
}

/// A number.
pub(crate) const fn real(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Real }
}

//! The names that stand in a text: tables, views and functions.
//!
//! [`crate::tables()`] finds them, a [`Statement`](crate::Statement) keeps them: this file stands below both.

use std::cell::OnceCell;

/// A table's name, or a view's, as it is written: quotes undone, case kept. Whether case counts is the server's affair
/// (`lower_case_table_names`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The schema; `None` stands for the session's.
    pub schema: Option<Box<str>>,
    /// The name.
    pub name: Box<str>,
}

/// The name of a function that is called and not built in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName {
    /// The schema; `None` stands for the session's.
    pub schema: Option<Box<str>>,
    /// The name.
    pub name: Box<str>,
}

/// The names in a text. No name stands twice in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Tables and views that it reads.
    pub read: Vec<TableName>,
    /// Tables and views that it writes, or makes, changes or drops. An UPDATE or DELETE of several tables counts for all of
    /// them. A written table is not also in `read`, unless the text names it to be read.
    pub written: Vec<TableName>,
    /// Functions that are called: stored ones and loaded ones, which may read and write anything.
    pub functions: Vec<FunctionName>,
    /// It makes, changes, renames or drops tables: what was known of the tables of [`Tables::written`] is no longer so, and
    /// views and triggers may mean something else from now on.
    pub defines: bool,
}

/// The tables of a text are not known: it may touch any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Why, for logs and tests.
    pub reason: UnreadReason,
}

/// Why the tables of a text are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnreadReason {
    /// A statement that is not looked into: CALL, EXECUTE, SHOW, EXPLAIN, HANDLER, administration, unknown ones.
    Statement,
    /// It defines something that is no table: a view, a routine, a trigger, a schema.
    Definition,
    /// Something stands where a table's name should: a function, a variable, a mark that is not known there.
    Form,
    /// A sequence is asked, which is a table by another name.
    Sequence,
    /// The text is written for `sql_mode = ORACLE`.
    Oracle,
    /// The schema changes between the statements of one text.
    Schema,
    /// A name outside ASCII in a character set that is not UTF-8.
    Encoding,
    /// The server could not read the text to its end.
    Bad,
    /// More tables, levels of parentheses or names of WITH than [`NAMES_MAX`] and [`DEPTH_MAX`].
    Limit,
}

/// Names in all lists of [`Tables`] together, and names that WITH gives.
pub const NAMES_MAX: usize = 128;
/// Parentheses inside one another.
pub const DEPTH_MAX: usize = 128;

/// The tables of a statement, and whether it touches one row, once somebody has asked for that. It is no part of what the
/// statement is: all are equal.
#[derive(Clone, Debug, Default)]
pub struct NamedTables {
    tables: OnceCell<Box<Result<Tables, Unread>>>,
    is_point: OnceCell<bool>,
}

impl NamedTables {
    /// The tables, which are read by the first who asks.
    pub(crate) fn tables(&self, read: impl FnOnce() -> Result<Tables, Unread>) -> &Result<Tables, Unread> {
        self.tables.get_or_init(|| Box::new(read()))
    }

    /// Whether the statement touches one row, which is found out by the first who asks.
    pub(crate) fn is_point(&self, find_out: impl FnOnce() -> bool) -> bool {
        *self.is_point.get_or_init(find_out)
    }
}

impl PartialEq for NamedTables {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for NamedTables {}

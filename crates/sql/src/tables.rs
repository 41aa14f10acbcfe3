//! Which tables a statement reads and writes, as far as its text shows.
//!
//! [`tables`] reads a text token by token, without a tree: only where the grammar has a table's name is a name taken for one.
//! It errs on the side of more. A name that it gives may be no table (an alias, say); a table that the statement names is
//! never missing, else there would be [`Unread`] instead. What a text does not show is not here: what a view reads, what
//! triggers, foreign keys and stored functions do, and which schema an unqualified name is in.
//!
//! It costs about as much as [`crate::classify()`] twice; [`Statement::tables`] remembers what came out.

mod define;
mod verbs;
mod walk;

use std::cell::{OnceCell, RefCell};

use crate::classify;
use crate::statement::{Dialect, FunctionAccess, Functions, Statement};

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
    /// them. What is written is not also in `read`, unless it is named to be read.
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

/// The tables that a text names. Several statements in one text are taken together.
///
/// # Errors
/// [`Unread`] if the text may touch others than it would give.
pub fn tables(text: &[u8], dialect: &Dialect) -> Result<Tables, Unread> {
    let mut tables = walk::walk(text, dialect)?;
    let called = Called::default();
    classify(text, dialect, &called);
    tables.functions = called.names.into_inner();
    if tables.functions.len() > NAMES_MAX {
        return Err(Unread { reason: UnreadReason::Limit });
    }
    Ok(tables)
}

impl Statement {
    /// The same as [`tables`] gives, which is read once: for a text that [`crate::Memo`] remembers, once for all of its shape,
    /// else once for this statement. A prepared statement's is read once for all executions.
    ///
    /// `text` and `dialect` are those that the statement was made from.
    pub fn tables(&self, text: &[u8], dialect: &Dialect) -> &Result<Tables, Unread> {
        self.named.0.get_or_init(|| Box::new(tables(text, dialect)))
    }
}

/// The tables of a statement, and whether it touches one row, once somebody has asked for that. It is no part of what the statement is: all
/// are equal.
#[derive(Clone, Debug, Default)]
pub struct NamedTables(OnceCell<Box<Result<Tables, Unread>>>, OnceCell<bool>);

impl NamedTables {
    pub(crate) fn is_point(&self) -> &OnceCell<bool> {
        &self.1
    }
}

impl PartialEq for NamedTables {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for NamedTables {}

/// Notes which functions the classifier asks for.
#[derive(Default)]
struct Called {
    names: RefCell<Vec<FunctionName>>,
}

impl Functions for Called {
    fn access(&self, schema: Option<&str>, name: &str) -> FunctionAccess {
        let name = FunctionName { schema: schema.map(Box::from), name: name.into() };
        let mut names = self.names.borrow_mut();
        if names.len() <= NAMES_MAX && !names.contains(&name) {
            names.push(name);
        }
        FunctionAccess::Unknown
    }
}

//! Which tables a statement reads and writes, as far as its text shows.
//!
//! [`tables`] reads a text token by token, without a tree: only where the grammar has a table's name is a name taken for one.
//! It errs on the side of more. A name that it gives may be no table (an alias, say); a table that the statement names is
//! never missing, else there would be [`Unread`] instead. Facts outside the text are not here: the tables of a view,
//! the work of triggers, foreign keys and stored functions, and which schema an unqualified name is in.
//!
//! It costs about as much as [`crate::classify()`] twice; [`Statement::tables`] remembers what came out.

mod common;
mod define;
mod list;
mod verbs;
mod walk;

use std::cell::RefCell;

use crate::classify;
use crate::dialect::Dialect;
use crate::functions::{FunctionAccess, Functions};
use crate::names::{FunctionName, NAMES_MAX, Tables, Unread, UnreadReason};
use crate::statement::Statement;

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
        self.named.tables(|| tables(text, dialect))
    }
}

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

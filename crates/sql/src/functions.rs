//! The facts of stored functions that a text does not show, asked of whoever knows the servers.

use crate::leaves::Leaves;
use crate::statement::Asks;

/// The access of a stored function, as the servers know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionAccess {
    /// NO SQL, CONTAINS SQL or READS SQL DATA (and it is not known to call what writes).
    Reads,
    /// MODIFIES SQL DATA.
    Writes,
    /// Not known.
    Unknown,
}

/// Looks up functions that are not built in.
pub trait Functions {
    /// The data access of `schema.name`; `schema` is `None` when the call was not qualified.
    fn access(&self, schema: Option<&str>, name: &str) -> FunctionAccess;

    /// Whether a stored function bears this name of a built-in one, or of a word of the language: a call in quotes may mean either.
    fn bears_own_word(&self, _name: &str) -> bool {
        false
    }

    /// The state that the stored function may leave on the connection that calls it.
    fn leaves(&self, _schema: Option<&str>, _name: &str) -> Leaves {
        Leaves::empty()
    }

    /// The same of a procedure.
    fn procedure_leaves(&self, _schema: Option<&str>, _name: &str) -> Leaves {
        Leaves::empty()
    }

    /// The state that functions and procedures may leave which this text may call, a compound statement: any of its words may be
    /// a name.
    fn leaves_of_named(&self, _text: &str) -> Leaves {
        Leaves::empty()
    }

    /// The results of earlier statements that the body of a function or procedure may ask for: LAST_INSERT_ID(), ROW_COUNT(),
    /// FOUND_ROWS().
    fn asks(&self, _schema: Option<&str>, _name: &str) -> Asks {
        Asks::empty()
    }
}

/// Knows no function.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn access(&self, _schema: Option<&str>, _name: &str) -> FunctionAccess {
        FunctionAccess::Unknown
    }
}

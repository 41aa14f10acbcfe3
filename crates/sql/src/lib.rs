//! The meaning of a SQL statement, found without building a tree.
//!
//! [`classify()`] tells the verb of a text, where it may run and what it does to the session ([`Memo`] remembers it); [`digest()`] removes its
//! literals; [`tables()`] names the tables that it reads and writes, [`point()`] the row, if there is only one; [`rewrite`] changes the little that must not reach a server as it is. All of it stands on [`lexer`].
//!
//! Facts that a text does not show are not known here: a SELECT from a view whose definition calls a writing function, and
//! the actions of a stored function beyond the access that [`Functions`] reports.

mod classify;
pub mod connections;
mod cursor;
mod diagnostics;
mod digest;
mod hint;
mod leaves;
pub mod lexer;
mod memo;
pub mod modes;
mod point;
pub mod rewrite;
mod row_change;
pub mod statement;
mod tables;
pub mod text;
mod varies;
mod verdict;
mod volatile;
mod walk;
mod words;

pub use classify::{classify, parts};
pub use diagnostics::{AskedDiagnostics, DiagnosticsItem, ShownMessages, asked_diagnostics, shown_messages};
pub use digest::{DIGEST_TEXT_MAX, Digest, digest, digest_hash};
pub use leaves::Leaves;
pub use memo::Memo;
pub use modes::{encoding_of_charset, modes_from_sql_mode};
pub use point::{Point, Sought, point};
pub use row_change::{Given, RowChange, Verb, row_change};
pub use statement::{
    Access, Asks, Dialect, Effect, Encoding, Family, FoundRows, FunctionAccess, Functions, Hint, HintConsistency, Kind,
    LockKind, Modes, NoFunctions, Statement, TransactionStep, Value, Victim, Why,
};
pub use tables::{DEPTH_MAX, FunctionName, NAMES_MAX, NamedTables, TableName, Tables, Unread, UnreadReason, tables};
pub use varies::{Varies, varies};
pub use verdict::Verdict;
pub use volatile::volatile;

//! The meaning of a SQL statement, found without building a tree.
//!
//! [`classify()`] tells the verb of a text, where it may run and what it does to the session ([`Memo`] remembers it); [`digest()`] removes its
//! literals, and [`replace_literals()`] puts something in their place; [`tables()`] names the tables that it reads and writes, [`point()`] the row, if there is only one; [`rewrite`] changes the little that must not reach a server as it is. All of it stands on [`lexer`].
//!
//! Facts that a text does not show are not known here: a SELECT from a view whose definition calls a writing function, and
//! the actions of a stored function beyond the access that [`Functions`] reports.

mod calls;
mod classify;
pub mod connections;
mod cursor;
mod diagnostics;
mod dialect;
mod digest;
mod effect;
mod functions;
mod hash;
mod hint;
mod leaves;
pub mod lexer;
mod literals;
mod memo;
mod names;
mod point;
pub mod rewrite;
mod row_change;
mod shape;
pub mod statement;
mod tables;
mod tags;
pub mod text;
mod varies;
mod verdict;
mod volatile;
mod walk;
mod words;

pub use calls::{is_server_word, may_call_stored};
pub use classify::{classify, parts, statements};
pub use diagnostics::{AskedDiagnostics, DiagnosticsItem, ShownMessages, asked_diagnostics, resignals, shown_messages};
pub use dialect::{Dialect, Encoding, Family, Modes, encoding_of_charset, modes_from_sql_mode};
pub use digest::{DIGEST_TEXT_MAX, Digest, digest, digest_hash};
pub use effect::{Effect, LockKind, Value, Victim};
pub use functions::{FunctionAccess, Functions, NoFunctions};
pub use hint::{Hint, HintConsistency};
pub use leaves::Leaves;
pub use literals::replace_literals;
pub use memo::Memo;
pub use names::{DEPTH_MAX, FunctionName, NAMES_MAX, NamedTables, TableName, Tables, Unread, UnreadReason};
pub use point::{Point, Sought, point};
pub use row_change::{Given, RowChange, Verb, row_change};
pub use statement::{Access, Asks, FoundRows, Kind, Opens, Statement, TransactionStep, Why};
pub use tables::tables;
pub use tags::{TAG_NAME_BYTES_MAX, TRACE_PARENT, Tag, TraceParent, cut_tag_value, only_tags, tags, without_tags};
pub use varies::{Varies, varies};
pub use verdict::Verdict;
pub use volatile::volatile;

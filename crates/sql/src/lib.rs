//! What a SQL statement is, without building a tree.

mod classify;
mod cursor;
mod digest;
mod hint;
pub mod lexer;
pub mod modes;
pub mod rewrite;
pub mod statement;
pub mod text;
mod words;

pub use classify::classify;
pub use digest::{DIGEST_TEXT_MAX, Digest, digest, digest_hash};
pub use modes::{encoding_of_charset, modes_from_sql_mode};
pub use statement::{
    Access, Asks, Dialect, Effect, Encoding, Family, FunctionAccess, Functions, Hint, Kind, Modes, NoFunctions,
    Statement, TransactionStep, Value, Why,
};

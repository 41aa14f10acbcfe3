//! The SQL console: the state of the process as tables, in the MySQL protocol, on an address of its own.
//!
//! **Start here:** `Session::serve` in `session.rs` is the life of a connection. A statement becomes a `Plan`: the views
//! that it names, and SQL. `Gathered` takes a snapshot of those views alone, as the API does, and `engine.rs` runs
//! the SQL on it in SQLite, in memory, read-only, with limits of time and memory. No statement of the console stops traffic.
//!
//! A user is a role (`admin`, `operate`, `view`), and the password is the role's key ([`Keys`]).

mod cells;
mod columns;
mod engine;
mod error;
mod functions;
mod handle;
mod keys;
mod kill;
mod listener;
mod login;
mod orders;
mod plan;
mod prepared;
mod replies;
mod rewrite;
mod session;
mod show;
mod sources;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tokens;
mod variables;
mod views;

pub use handle::{ConsoleHandle, start};
pub use keys::{Keys, Role};
pub use listener::{LOGINS_MAX, SESSIONS_MAX};
pub use sources::Sources;

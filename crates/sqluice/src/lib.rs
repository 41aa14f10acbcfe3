//! Sqluice: a database traffic manager for MySQL and MariaDB.
//!
//! The binary is one call of [`cli::main`]. All of it is a library so that end-to-end tests can run Sqluice in their own
//! process: [`wiring`] is where both planes meet.

// A reader that has gone, or a full disk, must not panic; see `out`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod api;
mod cache;
mod change;
mod check;
pub mod cli;
mod demo;
mod init;
mod limits;
mod log_tail;
mod logs;
mod out;
mod regressions;
mod relieve;
mod run;
mod sessions;
mod status;
mod top;
pub mod wiring;

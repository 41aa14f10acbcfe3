//! Sqluice: a database traffic manager for MySQL and MariaDB.
//!
//! The binary is one call of [`cli::main`]. All of it is a library so that end-to-end tests can run Sqluice in their own
//! process: [`wiring`] is where both planes meet.

mod api;
mod cache;
mod change;
mod check;
pub mod cli;
mod demo;
mod init;
mod limits;
mod logs;
mod run;
mod status;
pub mod wiring;

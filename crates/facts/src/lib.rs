//! Facts about servers, accounts, tables and positions: the snapshots that both planes read.
//!
//! The control plane reads servers and decides (crate `cluster`), and publishes here; the data plane routes by it. Neither knows the
//! other. Nothing here reads a clock, a socket or a file; `now` is an argument. [`published::Published`] is where both planes meet.

pub mod accounts;
pub mod believed;
pub mod catalog;
pub mod changes;
pub mod command;
pub mod evidence;
pub mod grants;
pub mod group_logs;
pub mod gtid;
pub mod lags;
pub mod positions;
pub mod published;
pub mod sessions;
pub mod tables;
pub mod view;
pub mod writing;

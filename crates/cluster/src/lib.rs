//! The control plane's brain, pure: observations in, decisions out.
//!
//! Nothing here reads a clock, a socket or a file; `now` is an argument. [`driver::Driver`] is the entry of the deciding
//! part; [`published::Published`] is where its decisions meet the data plane.

pub mod accounts;
mod analysis;
pub mod believed;
mod candidate;
pub mod catalog;
pub mod changes;
pub mod command;
mod detect;
pub mod diagnosis;
pub mod driver;
pub mod galera;
pub mod grants;
pub mod group_logs;
mod group_replication;
pub mod gtid;
mod guard;
mod health;
mod history;
pub mod journal;
mod lag;
pub mod lags;
pub mod memory;
mod ndb;
pub mod observation;
pub mod positions;
pub mod published;
pub mod settings;
pub mod step;
pub mod tables;
mod topology;
pub mod view;

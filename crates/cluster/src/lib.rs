//! The control plane's brain, pure: observations in, decisions out.
//!
//! Nothing here reads a clock, a socket or a file; `now` is an argument. [`driver::Driver`] is the entry of the deciding
//! part; [`facts::published::Published`] is where its decisions meet the data plane.

mod analysis;
mod candidate;
mod detect;
pub mod diagnosis;
pub mod driver;
pub mod galera;
mod group_replication;
mod guard;
mod health;
mod history;
pub mod journal;
mod lag;
pub mod memory;
mod ndb;
pub mod observation;
pub mod settings;
pub mod step;
mod topology;

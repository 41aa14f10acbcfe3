//! The decision for one statement: where, and the reason in words. After a [`Route`] nobody classifies SQL.

pub mod causal_reads;
pub mod loads;
pub mod near;
pub mod pin;
pub mod read_write_split;
pub mod rules;
pub mod select_server;

pub use causal_reads::{Needs, OwnWrites, SharedWrites};
pub use loads::Loads;
pub use near::{LagBounds, Near};
pub use pin::{OneUse, Pin, Pins, UnsureLocks};
pub use read_write_split::{Directive, Facts, Reason, Route, Target, Way, decide, needs_primary_in_transaction};
pub use select_server::{Preferences, select};

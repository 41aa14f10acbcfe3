//! The decision for one statement: where it goes, and the reason in words. After a [`Route`] no code classifies SQL.
//!
//! Everything here is a function of values: of the session's state ([`state`]) and pins ([`pin`]), of what it wrote and of what
//! servers reported ([`causal_reads`], [`near`]), and of how busy servers are ([`loads`]). `now` is an argument. [`relief`] decides
//! in the same way which worker runs a session.

pub mod causal_reads;
pub mod decision;
pub mod loads;
pub mod near;
pub mod pin;
pub mod read_write_split;
pub mod reason;
pub mod relief;
pub mod select_server;
pub mod short_forms;
pub mod state;
#[cfg(test)]
mod testing;

pub use causal_reads::{Needs, OwnWrites, SharedWrites};
pub use decision::{Demand, Route, Servers, Target, decide};
pub use loads::Loads;
pub use near::{LagBounds, Near};
pub use pin::{OneUse, Pin, Pins, UnsureLocks};
pub use read_write_split::{CachePromise, Directive, Facts, RuleTarget, demand, needs_primary_in_transaction};
pub use reason::Reason;
pub use select_server::{Preferences, select};
pub use short_forms::{ShortBounds, ShortForms};

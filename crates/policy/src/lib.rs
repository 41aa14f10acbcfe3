//! The policy of the operator: what is decided for a query before it runs.
//!
//! **Start here:** [`Chain::ask`] shows a query to each [`Step`] in turn. A step writes its part of the query's [`Plan`], or ends
//! the query with a [`Verdict`]. A new kind of policy is a file of its own and a variant of [`Step`].
//!
//! Everything here is a function of values: no socket, no clock, and no allocation for a query whose outcome is remembered.

mod chain;
mod plan;
pub mod rules;

pub use chain::{Chain, Needs, Step, WorkerChain};
pub use plan::{Action, CacheRule, Plan, Verdict};

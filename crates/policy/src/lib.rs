//! The policy of the operator: what its rules say of a query before the query runs.
//!
//! Everything here is a function of values: no socket, no clock, and no allocation for a query whose outcome is remembered.

pub mod rules;

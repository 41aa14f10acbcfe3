//! The outcome of a write whose reply was lost, by the new primary's binary log: events in, verdict out.
//!
//! Nothing here reads a clock, a socket or a file. [`tail::Tail`] takes the log's events and finds the session's transaction among them,
//! [`answer::ProvenWrite`] gives the reply that the server would have sent.

pub mod answer;
pub mod changed;
pub mod logged;
pub mod mark;
pub mod tail;

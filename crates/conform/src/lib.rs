//! Proof that a client cannot tell Sqluice from a server.
//!
//! A [`script::Script`] is run twice: against a server of its own, and through Sqluice in front of a primary and its
//! replicas. The replies are compared packet by packet. Scripts are written by hand (`cases/`) or [generated](generate)
//! from a seed; one that shows a difference is [made small](shrink). Allowed differences are listed, with reasons, in
//! `differences`.

mod ask_again;
pub mod campaign;
pub mod cli;
pub mod client;
mod corpus;
pub mod differences;
pub mod generate;
pub mod lane;
mod observe;
pub mod random;
pub mod script;
pub mod shrink;
pub mod world;

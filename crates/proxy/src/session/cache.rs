//! The result cache: asked before a server is, filled by what a server answers, and told of what was written.
//!
//! Only a session that could run the statement on any connection asks: one that keeps none, or only for a transaction in which nothing but
//! what is committed is seen ([`in_transaction`]). What the cache promises is said in [`cache`]; here it is seen to that it holds
//! ([`keep`]). A statement comes by in this order: [`hit`], [`question`], [`ask`], [`keep`].

mod ask;
mod context;
mod hit;
mod in_tier;
mod in_transaction;
mod keep;
mod question;
mod rights;
mod rows;

pub(super) use ask::Asked;
pub(super) use context::ContextHere;
pub(super) use in_transaction::TransactionReads;
pub(super) use keep::Fill;
pub(super) use question::is_for_cache;
pub(super) use rows::Told;
pub(crate) use rows::table_writes;

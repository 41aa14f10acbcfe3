//! The result cache: read before a server is, filled from a server's reply, and invalidated by writes.
//!
//! Only a session that could run the statement on any connection asks: one that keeps none, or only for a transaction in which nothing but
//! what is committed is seen ([`in_transaction`]). [`cache`] defines the promise of the cache; this module keeps it
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

pub(super) use ask::CacheDecision;
pub(super) use context::ContextHere;
pub(super) use in_transaction::TransactionReads;
pub(super) use keep::Fill;
pub(super) use question::is_for_cache;

//! Models of who reads and writes through the cache, played in all orders of their steps.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

#[path = "models/follow.rs"]
mod follow;
#[path = "models/seeds.rs"]
mod seeds;
#[path = "models/writes.rs"]
mod writes;

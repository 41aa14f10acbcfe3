//! Models of who reads and writes through the cache, played in all orders of their steps.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

#[path = "models/follow.rs"]
mod follow;
#[path = "models/seeds.rs"]
mod seeds;
#[path = "models/writes.rs"]
mod writes;

use std::time::{Duration, Instant};

use sqluice_cache::{AnswerParts, Refusal, Summary};

/// The reply of a database that was read at this moment.
fn parts(reply: Result<Box<[u8]>, Refusal>, asked: Instant, took: Duration) -> AnswerParts {
    let summary = Summary { rows: 1, found_rows: None, status: 2, server: 0, took, asked, digest: 1 };
    AnswerParts { reply, summary, rule: "r".into(), cluster: "main".into(), tier: None }
}

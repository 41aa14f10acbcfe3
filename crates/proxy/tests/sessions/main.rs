//! Sessions through the data plane, on a real primary and a real replica, with a view that this test publishes itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

mod multiplexing;
mod prepared;
mod routing;
mod support;

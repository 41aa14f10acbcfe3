//! Every form of reply and of login, cut at every byte: what is seen is the same as in one piece.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

#[path = "framing/logins.rs"]
mod logins;
#[path = "framing/replies.rs"]
mod replies;

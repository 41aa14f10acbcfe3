//! For tests only: what real servers and networks would never do on demand.
//!
//! [`Server`] speaks as a standalone MariaDB does, well enough for the monitor and for sessions, until its script says
//! otherwise. [`Dribble`] is a way to a server on which bytes come one at a time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test")]

mod answers;
mod dribble;
mod reply;
mod server;

pub use dribble::Dribble;
pub use reply::ReplyBuilder;
pub use server::{Act, Moment, Server};

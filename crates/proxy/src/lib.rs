//! The data plane: workers, sessions and pools.
//!
//! Where does a query go? [`listener`] accepts the client, [`worker`] serves it on one thread, [`session`] tells the life
//! of each query (`Session::handle`), [`route`] decides, [`pool`] lends backend connections; [`route::state`] is what
//! both sides believe of each other.

pub mod addresses;
pub mod busy_poll;
pub mod coarse_clock;
pub mod error;
mod follow;
pub mod keyring;
pub mod listener;
mod login_log;
pub mod login_memory;
pub mod pool;
pub mod prepared_memory;
pub mod session;
pub mod sessions;
pub mod shared;
pub mod start;
pub mod wake;
pub mod warm;
pub mod worker;

pub use start::{Proxy, StartError, workers};

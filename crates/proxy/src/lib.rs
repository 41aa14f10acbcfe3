//! The data plane: workers, sessions and pools.
//!
//! Where does a query go? [`listener`] accepts the client, the event loop of a [`worker`] begins its [`session`], which
//! tells the life of each query (`Session::handle`), [`route`] decides, [`pool`] lends backend connections;
//! [`route::state`] is what both sides believe of each other.
//!
//! Imports run one way: `start`, `event_loop`, `relief`, `warm` → [`session`] → [`worker`] → [`pipeline`] → [`pool`] → [`shared`].

pub mod addresses;
pub mod busy_poll;
pub mod bytes_in_use;
pub mod coarse_clock;
pub mod error;
mod event_loop;
mod follow;
pub mod keyring;
mod leavers;
pub mod listener;
mod login_log;
pub mod login_memory;
mod newcomers;
mod operator;
pub mod outgoing;
pub mod pipeline;
pub mod pool;
mod relief;
pub mod session;
pub mod sessions;
pub mod shared;
pub mod start;
#[cfg(test)]
mod testing;
pub mod turned_away;
pub mod wake;
pub mod warm;
pub mod worker;

pub use operator::{KillError, KillWhat, Operator, RelieveError, Seen};
pub use start::{Proxy, StartError, workers};

//! How far each server was behind the primary when it was probed last: what bounds narrower than the cluster's look at.
//!
//! The view has lags, too, but coarse ones, so that it does not change with every probe.

use std::time::Duration;

use crate::view::ServerId;

/// The servers' lags.
#[derive(Clone, Debug, Default)]
pub struct Lags {
    /// By [`ServerId`].
    servers: Vec<Option<Duration>>,
}

impl Lags {
    /// How far this server was behind; `None` while that is not known. Replication that is broken, stopped or delayed by
    /// intention is never told to be near.
    pub fn of(&self, server: ServerId) -> Option<Duration> {
        *self.servers.get(usize::from(server.0))?
    }

    /// Takes note of a server's lag.
    pub fn note(&mut self, server: ServerId, lag: Option<Duration>) {
        let index = usize::from(server.0);
        if self.servers.len() <= index {
            self.servers.resize(index + 1, None);
        }
        self.servers[index] = lag;
    }
}

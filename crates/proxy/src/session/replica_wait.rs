//! A read that no replica is known to be able to serve waits for one, if it may: on the replica itself, which is asked ahead of the
//! statement and in the same write to wait until it has applied what the read must find.

use std::time::{Duration, Instant};

use facts::view::{ServerId, View};
use wire::command::Command;
use wire::exchange::Expect;

use super::attempts::Attempts;
use super::environment::Environment;
use super::{Held, Session};
use crate::outgoing::Outgoing;
use crate::outgoing::Purpose;
use crate::pool::Connection;
use route::{Preferences, Target, select};

/// The positions that a server waits for.
#[derive(Debug)]
pub(super) struct Awaits {
    /// As its function takes them.
    pub(super) positions: String,
    /// How long it waits.
    pub(super) limit: Duration,
}

impl Awaits {
    /// A statement with one row if the server has what it waits for, and with none if it has not in time. So no caller has to read
    /// a row.
    fn text(&self, mariadb: bool) -> String {
        let function = if mariadb { "MASTER_GTID_WAIT" } else { "WAIT_FOR_EXECUTED_GTID_SET" };
        format!("SELECT 1 FROM DUAL WHERE {function}('{}', {:.6}) = 0", self.positions, self.limit.as_secs_f64())
    }

    /// Puts the question into what goes to the server.
    pub(super) fn put(&self, connection: &Connection, out: &mut Outgoing) {
        let text = self.text(connection.origin.mariadb);
        out.command(connection, Command::Query, text.as_bytes(), Purpose::Wait, Expect::Results);
    }
}

impl Session {
    /// A replica that can be asked to wait for what the read must find, and what that is.
    pub(super) fn choose_waiting(
        &self,
        view: &View,
        target: &Target,
        preferences: Preferences<'_>,
        now: Instant,
    ) -> Option<(ServerId, String)> {
        if self.env.listener.settings.load().consistency_wait.is_zero() {
            return None;
        }
        let chosen = select(view, target, &self.here.cluster.loads, Preferences { awaits: true, ..preferences }, now)?;
        // The primary is the last resort, and waits for no other server.
        if view.primary == Some(chosen) {
            return None;
        }
        Some((chosen, preferences.needs?.awaited(chosen)?))
    }

    /// The replica did not get so far in time. The statement is on its way to it all the same: its reply is of no use, and neither is
    /// the connection.
    pub(super) async fn waited_too_long(&mut self, held: Held, attempts: &mut Attempts) {
        let server = held.lease.server();
        self.env.worker.stats.replica_wait_timeouts.add_one();
        self.env.close(held).await;
        attempts.waited_too_long = true;
        attempts.at = Instant::now();
        self.here.cluster.loads.was_late(server, attempts.at);
    }
}

impl Environment {
    /// How much longer a read that no replica can serve yet may wait for one.
    pub(super) fn replica_wait_left(&self, attempts: &mut Attempts, now: Instant) -> Option<Duration> {
        let limit = self.listener.settings.load().consistency_wait;
        if limit.is_zero() || attempts.waited_too_long {
            return None;
        }
        let stats = &self.worker.stats;
        let since = *attempts.lacking_since.get_or_insert_with(|| {
            stats.replica_waits.add_one();
            now
        });
        let left = limit.checked_sub(now.saturating_duration_since(since)).filter(|left| !left.is_zero());
        if left.is_none() {
            stats.replica_wait_timeouts.add_one();
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_wait_in_their_own_words() {
        let awaits = Awaits { positions: "0-1-7".into(), limit: Duration::from_micros(12_500) };
        assert_eq!(awaits.text(true), "SELECT 1 FROM DUAL WHERE MASTER_GTID_WAIT('0-1-7', 0.012500) = 0");
        assert_eq!(awaits.text(false), "SELECT 1 FROM DUAL WHERE WAIT_FOR_EXECUTED_GTID_SET('0-1-7', 0.012500) = 0");
    }
}

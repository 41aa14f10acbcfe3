//! Holding: a statement waits for a view that has what it needs. Statements that wait for a primary are let go one after the other,
//! in the order in which they came, and only so many at a time: a fresh primary is cold.

use std::time::{Duration, Instant};

use facts::view::View;

use super::Session;
use super::attempts::Attempts;
use crate::error::Refusal;
use crate::sessions::WaitsFor;
use crate::shared::ShortOf;
use crate::worker::ClusterHere;
use route::{Route, Target};

/// While everything that fits has failed, the choice is made again at this pace, whether or not the view changes.
const RETRY_PACE: Duration = Duration::from_millis(100);
/// The same in a Galera group, while there is a writer.
const GROUP_PACE: Duration = Duration::from_millis(10);
/// How long a server is given to notice that a connection was closed to make room. A session that may take an idle one waits no longer,
/// either.
const ROOM_PACE: Duration = Duration::from_millis(2);
/// Bytes of all statements that wait on one worker.
pub const HELD_BYTES_MAX: usize = 64 << 20;

impl Session {
    /// Waits until the statement should look for a server again: there is another view, some time has passed, or its turn has
    /// come.
    ///
    /// # Errors
    /// Its time is over, or too many wait.
    pub(super) async fn hold(&self, route: &Route, view: &View, attempts: &mut Attempts) -> Result<(), Refusal> {
        let limit = self.env.listener.settings.load().hold;
        let changed = self.here.cluster.changed.notified();
        let _waiting = self.may_wait(limit, route, view, attempts)?;
        let _shown = self.env.handle.activity.wait(WaitsFor::Server, self.env.worker.shared.started);
        let left = attempts.held_since.map_or(limit, |since| limit.saturating_sub(since.elapsed()));
        if attempts.turn.is_none() && matches!(route.target, Target::Primary | Target::Pinned) {
            // Statements with a turn look at views; all others stand in line behind them.
            let turn = self.here.cluster.turns.clone().acquire_owned();
            if let Ok(Ok(turn)) = tokio::time::timeout(left, turn).await {
                attempts.turn = Some(turn);
            }
            return Ok(());
        }
        let looks_again = attempts.has_avoided() || route.lacks_replica();
        let pace = match looks_again {
            // A member shows any moment that it has what the session wrote; no message wakes a statement for that.
            _ if view.group.is_some() && view.primary.is_some() => left.min(GROUP_PACE),
            true => left.min(RETRY_PACE),
            false => left,
        };
        if attempts.short_of.is_empty() {
            // Whether the view has changed or the time is over shows when it is looked at again.
            let _ = tokio::time::timeout(pace, changed).await;
        } else {
            let short_of = std::mem::take(&mut attempts.short_of);
            Box::pin(self.wait_short(&short_of, attempts.in_any_schema, pace, changed)).await;
        }
        // Another view, or some time: who failed before may be good again.
        attempts.forgive();
        Ok(())
    }

    /// Waits until a connection has come free, at any worker, that a server has refused to open.
    async fn wait_short(
        &self,
        short_of: &[ShortOf],
        in_any_schema: bool,
        pace: Duration,
        changed: impl Future<Output = ()>,
    ) {
        let (pools, identity) = (&self.here.cluster.pools, &self.who.identity);
        let _places: Vec<_> = short_of.iter().map(|short| pools.wait_short(short)).collect();
        let has_room = short_of.iter().any(|short| {
            // One may have come free while the server was asked. Others are of no use to this session.
            pools.has_idle(short.server, &identity.key, identity.login, &self.belief.state, in_any_schema)
                || pools.make_room(short)
        });
        let pace = if has_room { pace.min(ROOM_PACE) } else { pace };
        let woken = async {
            tokio::select! {
                () = changed => {}
                () = pools.freed() => {}
            }
        };
        let _ = tokio::time::timeout(pace, woken).await;
    }

    fn may_wait(
        &self,
        limit: Duration,
        route: &Route,
        view: &View,
        attempts: &mut Attempts,
    ) -> Result<Holding<'_>, Refusal> {
        let stats = &self.env.worker.stats;
        let mut full = None;
        if attempts.held_since.is_none() {
            stats.held.add_one();
            if stats.holding.get() >= i64::from(self.here.cluster.shared.settings.load().pool.wait_max) {
                full = Some("pool.wait_max statements wait already".to_owned());
            } else if self.here.cluster.held_bytes.get().saturating_add(attempts.bytes) > HELD_BYTES_MAX {
                full = Some(format!("statements of {HELD_BYTES_MAX} bytes wait already"));
            }
        }
        let waited = attempts.held_since.get_or_insert_with(Instant::now).elapsed();
        if waited < limit && full.is_none() {
            return Ok(Holding::new(stats, &self.here.cluster, attempts.bytes));
        }
        stats.hold_timeouts.add_one();
        if let Some(refusal) = &attempts.refusal {
            return Err(refusal.clone());
        }
        let mut why = attempts.last_error.clone().unwrap_or_else(|| reasons(view));
        if let Some(full) = full {
            why = format!("{full}; {why}");
        }
        let needs = match &route.target {
            Target::Reader => "server that takes reads".to_owned(),
            Target::Named(name) => format!("server '{name}'"),
            Target::Primary | Target::Pinned => "primary".to_owned(),
        };
        Err(Refusal::no_server(&format!("{needs} of cluster '{}'", view.cluster), waited, &why))
    }
}

/// Counts as waiting while it lives.
struct Holding<'a> {
    stats: &'a stats::WorkerStats,
    cluster: &'a ClusterHere,
    bytes: usize,
}

impl<'a> Holding<'a> {
    fn new(stats: &'a stats::WorkerStats, cluster: &'a ClusterHere, bytes: usize) -> Holding<'a> {
        stats.holding.add(1);
        cluster.held_bytes.set(cluster.held_bytes.get() + bytes);
        Holding { stats, cluster, bytes }
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.stats.holding.add(-1);
        self.cluster.held_bytes.set(self.cluster.held_bytes.get().saturating_sub(self.bytes));
    }
}

/// Why the servers of a view do not fit, in the monitor's words.
fn reasons(view: &View) -> String {
    if view.servers.is_empty() {
        return "no server has been seen yet".into();
    }
    if view.hold_writes {
        return "a switchover is under way".into();
    }
    let words = view
        .servers
        .iter()
        .map(|server| format!("{} is {} {}: {}", server.name, server.health.word(), server.role.word(), server.reason));
    words.collect::<Vec<_>>().join("; ")
}

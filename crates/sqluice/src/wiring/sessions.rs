//! The sessions of the data plane, for the admin listener.

use admin::{Kill, Later, Sessions};
use facts::sessions::{Relieved, SessionFacts};
use proxy::{KillWhat, Operator, Seen};

/// The sessions in the hands of an operator.
pub(super) struct OperatedSessions(pub(super) Operator);

impl Sessions for OperatedSessions {
    fn list(&self) -> Later<Vec<SessionFacts>> {
        let operator = self.0.clone();
        Box::pin(async move { operator.sessions().await })
    }

    fn glance(&self) -> Vec<SessionFacts> {
        self.0.glance()
    }

    fn kill(&self, kill: Kill) -> Later<Result<bool, String>> {
        let operator = self.0.clone();
        let what = if kill.query_only { KillWhat::Query } else { KillWhat::Session };
        let seen = kill.seen.map(|(is_busy, digest)| Seen { is_busy, digest });
        Box::pin(async move { operator.kill(kill.id, what, seen).await.map_err(|error| error.to_string()) })
    }

    fn relieve(&self, worker: usize, dry_run: bool) -> Later<Result<Relieved, String>> {
        let operator = self.0.clone();
        Box::pin(async move { operator.relieve(worker, dry_run).await.map_err(|error| error.to_string()) })
    }
}

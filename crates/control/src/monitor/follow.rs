//! One server's position, read whenever sessions need it: probes alone would send every read behind a write to the primary
//! until the next one.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::observation::ObservationKind;
use facts::gtid::Applied;
use facts::published::Published;
use facts::view::ServerId;
use net::query::{Client, Limits};
use tokio::sync::{Notify, mpsc};

use super::dialect::{self, Dialect};
use super::link::ServerAccess;
use super::probe::Probed;

/// Least time between two questions: a hundred a second at most.
const PACE: Duration = Duration::from_millis(10);
/// A server that answers slowly is asked so seldom that it spends a tenth of its time on this.
const SHARE: u32 = 10;
/// Largest answer: sets of MySQL can be long.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// After a failure the next attempt waits this long; probes tell what is wrong.
const RETRY: Duration = Duration::from_secs(1);
/// The connection is closed when no session wanted a position for this long.
const IDLE: Duration = Duration::from_secs(60);

/// A member of a Galera group answers when it has all that the group has. While the group looks for a lost member it
/// answers late; the server's own limit (`repl.causal_read_timeout`) is as long.
const GROUP_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failure of a member of a group: another one may have to take over.
const GROUP_RETRY: Duration = Duration::from_millis(100);

/// Reads one server's position when it is wanted.
pub(crate) struct Follower {
    pub(crate) id: ServerId,
    pub(crate) access: ServerAccess,
    pub(crate) timeout: Duration,
    pub(crate) wanted: Rc<Notify>,
    pub(crate) published: Arc<Published>,
    /// In a Galera group: where to tell that the server has all that was written anywhere before it was asked.
    pub(crate) group: Option<mpsc::Sender<Probed>>,
}

impl Follower {
    /// Runs until the task is aborted.
    pub(crate) async fn run(self) {
        let mut client = None;
        let (limit, retry) = match self.group {
            Some(_) => (GROUP_TIMEOUT, GROUP_RETRY),
            None => (self.timeout * 2, RETRY),
        };
        loop {
            if tokio::time::timeout(IDLE, self.wanted.notified()).await.is_err() {
                client = None;
                self.wanted.notified().await;
            }
            let asked = Instant::now();
            self.published.reading_positions();
            let answer = tokio::time::timeout(limit, self.ask(&mut client)).await;
            let pause = match answer {
                // A group that stood still for a while is not slow for ever.
                Ok(Some(())) if self.group.is_some() => PACE,
                Ok(Some(())) => PACE.max(asked.elapsed() * SHARE),
                Ok(None) | Err(_) => {
                    client = None;
                    retry
                }
            };
            tokio::time::sleep(pause.saturating_sub(asked.elapsed())).await;
        }
    }

    /// Asks once, over a connection that stays; `None` when that failed.
    async fn ask(&self, kept: &mut Option<Client>) -> Option<()> {
        let client = match kept {
            Some(client) => client,
            None => {
                let timeout = if self.group.is_some() { GROUP_TIMEOUT } else { self.timeout };
                let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout };
                let mut client = self.access.open(self.timeout, limits).await.ok()?;
                if self.group.is_some() {
                    client.query("SET SESSION wsrep_sync_wait = 1").await.ok()?;
                }
                kept.insert(client)
            }
        };
        let dialect = Dialect::of(&dialect::greeting(client.greeting()));
        let asked = Instant::now();
        if let Some(group) = &self.group {
            // The server opens a transaction when it has applied all that the group had ordered by then.
            client.query("START TRANSACTION READ ONLY; COMMIT").await.ok()?;
            self.published.publish_position(self.id, Some((Applied::Group, false)), asked);
            let probed = Probed {
                id: self.id,
                seen: ObservationKind::CaughtUp(asked),
                asked,
                took: asked.elapsed(),
                reported: None,
            };
            // No receiver is left: the watch ends.
            let _ = group.send(probed).await;
            return Some(());
        }
        let answer = client.query_one(dialect.position()).await.ok()?;
        self.published.publish_position(self.id, dialect::read_position(dialect, &answer), asked);
        Some(())
    }
}

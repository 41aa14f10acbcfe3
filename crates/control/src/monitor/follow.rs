//! One server's position, read whenever sessions need it: probes alone would send every read behind a write to the primary
//! until the next one.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::published::Published;
use cluster::view::ServerId;
use net::query::{Client, Limits};
use tokio::sync::Notify;

use super::dialect::{self, Dialect};
use super::link::Way;

/// Least time between two questions: a hundred a second at most.
const PACE: Duration = Duration::from_millis(10);
/// A server that answers slowly is asked so seldom that it spends a tenth of its time on this.
const SHARE: u32 = 10;
/// Largest answer: sets of MySQL can be long.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// After a failure the next attempt waits this long; probes tell what is wrong.
const RETRY: Duration = Duration::from_secs(1);
/// The connection is closed when nobody wanted a position for this long.
const IDLE: Duration = Duration::from_secs(60);

/// Reads one server's position when it is wanted.
pub(crate) struct Follower {
    pub(crate) id: ServerId,
    pub(crate) way: Way,
    pub(crate) timeout: Duration,
    pub(crate) wanted: Rc<Notify>,
    pub(crate) published: Arc<Published>,
}

impl Follower {
    /// Runs until the task is aborted.
    pub(crate) async fn run(self) {
        let mut client = None;
        loop {
            if tokio::time::timeout(IDLE, self.wanted.notified()).await.is_err() {
                client = None;
                self.wanted.notified().await;
            }
            let asked = Instant::now();
            self.published.reading_positions();
            let answer = tokio::time::timeout(self.timeout * 2, self.ask(&mut client)).await;
            let pause = match answer {
                Ok(Some(())) => PACE.max(asked.elapsed() * SHARE),
                Ok(None) | Err(_) => {
                    client = None;
                    RETRY
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
                let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: self.timeout };
                kept.insert(self.way.open(self.timeout, limits).await.ok()?)
            }
        };
        let dialect = Dialect::of(&dialect::greeting(client.greeting()));
        let asked = Instant::now();
        let answer = client.query_one(dialect.position()).await.ok()?;
        self.published.publish_position(self.id, dialect::read_position(dialect, &answer), asked);
        Some(())
    }
}

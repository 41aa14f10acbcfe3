//! Follows the primary's binary log for who keeps results of reads, as long as somebody listens.
//!
//! The log is asked for by GTID, so that it goes on behind a failover where it was; where it cannot, the listener is told that
//! everything changed. How far it is, is asked over a second connection: what the primary had logged when it was asked, and what
//! has come since, is compared.

mod named;
mod position;
mod stream;
mod visible;

use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::ChangeFigures;
use facts::changes::{Change, ChangeListener, ChangeMessage, ChangeScope, Gtid};
use tokio::sync::watch;

use self::position::Position;
use crate::monitor::heartbeat::Primary;
use crate::status::ClusterStatus;

/// Wait behind a lost stream: it doubles from the first to the second.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How often a stream may break at one position until it is given up and everything changes.
const STUCK_MAX: u32 = 3;

/// Why a stream ended.
#[derive(Debug)]
pub(super) enum End {
    /// It may go on from where it was.
    Lost(String),
    /// The server has not what must come next.
    Gap(String),
}

/// Follows the binary log of the primary, also after a change of primary.
pub(crate) struct ChangeFollower {
    pub(crate) cluster: Arc<str>,
    pub(crate) listener: Arc<dyn ChangeListener>,
    pub(crate) primary: watch::Receiver<Option<Primary>>,
    /// The user and password that may read logs; none: the monitor's.
    pub(crate) account: Option<(Arc<str>, config::Secret)>,
    /// How often the primary is asked how far it is.
    pub(crate) interval: Duration,
    /// Longest wait for a connection and for an answer.
    pub(crate) timeout: Duration,
    pub(crate) status: Arc<ClusterStatus>,
}

impl ChangeFollower {
    /// Runs until the task is aborted.
    pub(crate) async fn run(mut self) {
        let mut position: Option<Position> = None;
        let (mut wait, mut stuck, mut reported) = (RETRY_MIN, 0, String::new());
        let delay_max = self.listener.delay_max();
        self.status.figures().changes = Some(ChangeFigures { delay_max, ..ChangeFigures::default() });
        loop {
            let Some(primary) = self.primary.borrow_and_update().clone() else {
                if self.primary.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let before = position.clone();
            let mut moved = self.primary.clone();
            let end = tokio::select! {
                end = self.follow(&primary, &mut position) => end,
                // The log goes on elsewhere.
                _ = moved.changed() => End::Lost("there is another primary, or none".into()),
            };
            let came_further = position != before;
            stuck = if came_further { 0 } else { stuck + 1 };
            wait = if came_further { RETRY_MIN } else { (wait * 2).min(RETRY_MAX) };
            let (why, gap) = match end {
                End::Lost(why) => (why, stuck >= STUCK_MAX),
                End::Gap(why) => (why, true),
            };
            if why != reported {
                tracing::warn!(
                    cluster = &*self.cluster,
                    server = &*primary.name,
                    "the stream of changes is lost: {why}"
                );
                reported.clone_from(&why);
            }
            if let Some(figures) = &mut self.status.figures().changes {
                figures.as_of = None;
                figures.losses += 1;
            }
            self.listener.receive(ChangeMessage::Lost { why });
            if gap {
                position = None;
                stuck = 0;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = self.primary.changed() => self.primary.mark_changed(),
            }
        }
    }

    /// Tells of a change.
    fn tell(&self, gtid: Gtid, what: ChangeScope) {
        if let Some(figures) = &mut self.status.figures().changes {
            match &what {
                ChangeScope::Tables(_) => figures.tables += 1,
                ChangeScope::Everything(_) => figures.everything += 1,
            }
        }
        self.listener.receive(ChangeMessage::Change(Change { gtid, what }));
    }

    fn caught_up(&self, as_of: Instant, position: &Position) {
        // The listener hears it before the figures show it.
        self.listener.receive(ChangeMessage::CaughtUp { as_of });
        if let Some(figures) = &mut self.status.figures().changes {
            figures.as_of = Some(as_of);
            figures.position = position.shown();
        }
    }
}

//! The task that writes heartbeats to the primary.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::observation::{NotWritten, ObservationKind};
use config::Heartbeat as Mode;
use facts::view::ServerId;
use net::query::{Client, Limits, QueryError};
use tokio::sync::{mpsc, watch};
use wire::errno;

use super::{Clock, HeartbeatRow, Log, Primary};
use crate::monitor::link::is_denied;
use crate::monitor::probe::Probed;
use crate::monitor::unwritten;
use crate::status::ClusterStatus;

/// Wait before another attempt when the monitor user lacks rights.
const DENIED_RETRY: Duration = Duration::from_secs(60);
/// A write that hangs for longer is begun anew. Until then there is one, for another would hang beside it.
const HANGS_MAX: Duration = Duration::from_secs(120);

/// Writes the heartbeat to the primary, each interval.
pub(crate) struct Writer {
    pub(crate) cluster: Arc<str>,
    pub(crate) mode: Mode,
    pub(crate) heartbeat_row: HeartbeatRow,
    pub(crate) clock: Clock,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) log: Rc<RefCell<Log>>,
    pub(crate) status: Arc<ClusterStatus>,
    pub(crate) primary: watch::Receiver<Option<Primary>>,
    /// The receiver of reports that writes fail, and that they succeed again.
    pub(crate) results: mpsc::Sender<Probed>,
    /// Their failure was reported.
    pub(crate) reported_not_written: bool,
}

/// Why writing stopped.
enum Stop {
    /// Another primary, or none.
    Moved,
    /// Rights are missing; in words.
    Denied(String),
    /// Anything else; in words, if worth telling.
    Failed(Option<String>),
}

impl Writer {
    /// Runs until the task is aborted.
    pub(crate) async fn run(mut self) {
        if self.mode == Mode::Off {
            return;
        }
        // The same complaint is reported once until something works again.
        let mut reported = String::new();
        let mut before = None;
        loop {
            let Some(primary) = self.primary.borrow_and_update().clone() else {
                if self.primary.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // Writes to the same one count on: replicas may lack them still.
            if before.replace(primary.id) != Some(primary.id) {
                self.log.borrow_mut().writes.clear();
            }
            let stop = self.serve(&primary, &mut reported).await;
            let (wait, complaint) = match stop {
                Stop::Moved => continue,
                Stop::Denied(words) => (DENIED_RETRY, Some(words)),
                Stop::Failed(words) => (self.interval, words),
            };
            if let Some(words) = complaint {
                self.status.figures().heartbeat_failures += 1;
                if reported != words {
                    self.complain(&primary.name, &words);
                    reported = words;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = self.primary.changed() => if changed.is_err() { return },
            }
        }
    }

    fn complain(&self, server: &str, words: &str) {
        let cluster = &*self.cluster;
        match self.mode {
            Mode::On => tracing::error!(cluster, server, "no heartbeat can be written: {words}"),
            Mode::Auto | Mode::Off => tracing::warn!(
                cluster,
                server,
                "no heartbeat can be written, so lag is what the servers tell, in whole seconds: {words}"
            ),
        }
    }

    async fn serve(&mut self, primary: &Primary, reported: &mut String) -> Stop {
        let limits = Limits { reply_bytes_max: 1 << 20, timeout: HANGS_MAX };
        let mut client = match primary.access.open(self.timeout, limits).await {
            Ok(client) => client,
            // The prober tells what is wrong with the server.
            Err(_) => return Stop::Failed(None),
        };
        let format = client.query_one("SELECT @@global.binlog_format").await.ok();
        let by_statement =
            format.and_then(|row| Some(row.scalar()?.eq_ignore_ascii_case("statement"))).unwrap_or(false);
        loop {
            let at_us = self.clock.now_us();
            let Some(written) = self.write_patiently(primary, &mut client, (at_us, by_statement), reported).await
            else {
                return Stop::Moved;
            };
            if let Err(error) = written {
                if let Some(seen) = unwritten::of_error(&error) {
                    self.tell(primary.id, Some(seen)).await;
                }
                return match error.code() {
                    // Most likely read-only: the server is the primary no longer, and the prober will notice.
                    Some(errno::ER_OPTION_PREVENTS_STATEMENT | errno::ER_READ_ONLY_MODE) => Stop::Failed(None),
                    Some(code) if is_denied(code) => Stop::Denied(error.to_string()),
                    _ => Stop::Failed(Some(error.to_string())),
                };
            }
            if !reported.is_empty() {
                tracing::info!(cluster = &*self.cluster, server = &*primary.name, "the heartbeat is written again");
                reported.clear();
            }
            self.tell(primary.id, None).await;
            self.log.borrow_mut().wrote(at_us);
            self.status.figures().heartbeat_writes += 1;
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                changed = self.primary.changed() => if changed.is_err() || self.has_moved(primary) {
                    return Stop::Moved;
                },
            }
        }
    }

    /// Writes, and tells meanwhile why it takes so long. `None`: there is another primary, or none.
    async fn write_patiently(
        &mut self,
        primary: &Primary,
        client: &mut Client,
        (at_us, by_statement): (u64, bool),
        reported: &mut String,
    ) -> Option<Result<(), QueryError>> {
        let (id, heartbeat_row) = (client.greeting().connection_id, self.heartbeat_row.clone());
        let mut write = std::pin::pin!(heartbeat_row.write_to(client, at_us, by_statement));
        let mut wait = self.timeout;
        loop {
            tokio::select! {
                done = &mut write => return Some(done),
                () = tokio::time::sleep(wait) => {}
                changed = self.primary.changed() => {
                    if changed.is_err() || self.has_moved(primary) {
                        return None;
                    }
                    continue;
                }
            }
            // A server that does not answer either is the prober's matter.
            let Some(seen) = unwritten::look(&primary.access, self.timeout, id).await else {
                return Some(Err(QueryError::Timeout(self.timeout)));
            };
            self.status.figures().heartbeat_failures += 1;
            if *reported != *seen.text {
                self.complain(&primary.name, &seen.text);
                *reported = seen.text.to_string();
            }
            self.tell(primary.id, Some(seen)).await;
            wait = self.interval;
        }
    }

    fn has_moved(&self, primary: &Primary) -> bool {
        self.primary.borrow().as_ref().is_none_or(|new| new.id != primary.id)
    }

    /// Tells that a write failed, and once that they are done again.
    async fn tell(&mut self, id: ServerId, failed: Option<NotWritten>) {
        if failed.is_none() && !self.reported_not_written {
            return;
        }
        self.reported_not_written = failed.is_some();
        let seen = failed.map_or(ObservationKind::Written, ObservationKind::NotWritten);
        // No receiver is left when the cluster is watched no more.
        let _ =
            self.results.send(Probed { id, seen, asked: Instant::now(), took: Duration::ZERO, reported: None }).await;
    }
}

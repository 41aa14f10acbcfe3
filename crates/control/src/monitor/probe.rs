//! One server's probes: a connection that stays, asked each interval.

mod questions;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::observation::{Channel, Facts, Failure, FailureClass, ObservationKind};
use facts::gtid::Applied;
use facts::view::ServerId;
use net::query::{Client, Limits};
use tokio::sync::{Notify, mpsc};

use super::details;
use super::dialect::{self, Dialect};
use super::heartbeat::{Clock, HeartbeatRow, Log};
use super::late;
use super::link::{ServerAccess, query_failure};

/// Largest answer; replication status and GTID sets are far smaller.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// After a refused login the next attempt waits this long, so that the server's log is not flooded.
const LOGIN_RETRY: Duration = Duration::from_secs(5);

/// Wait after what the binary log leaves out could not be read.
const FILTERS_RETRY: Duration = Duration::from_secs(5);

/// The values that a server's task was made from.
pub(crate) struct Prober {
    pub(crate) id: ServerId,
    pub(crate) cluster: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) access: ServerAccess,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    /// Where heartbeats are, if any are written.
    pub(crate) heartbeat_row: HeartbeatRow,
    pub(crate) clock: Clock,
    pub(crate) log: Rc<RefCell<Log>>,
    pub(crate) filters: Filters,
    /// A lost primary may be replaced. A question that is not answered soon is asked over a new connection too, so that a lost server is
    /// found sooner.
    pub(crate) asks_twice: bool,
    /// How the servers keep the same data.
    pub(crate) kind: config::ClusterKind,
    /// That a replica cannot tell it was logged.
    pub(crate) reported_heartbeats: Cell<bool>,
    /// The channels of the replication status that was read last.
    pub(crate) channels: RefCell<Option<Vec<Channel>>>,
}

/// The filters of a server's binary log, which only a restart changes. The query waits for a lock that commits hold while they
/// wait for an acknowledgement, so no probe asks it.
#[derive(Default)]
pub(crate) struct Filters {
    reported: RefCell<Option<Arc<str>>>,
    /// The server may have been restarted.
    look: Notify,
}

/// A probe's outcome.
pub(crate) struct Probed {
    pub(crate) id: ServerId,
    pub(crate) seen: ObservationKind,
    /// When the probe began.
    pub(crate) asked: Instant,
    pub(crate) took: Duration,
    /// The position that it has applied, if it was asked; see [`dialect::read_position`].
    pub(crate) reported: Option<PositionReport>,
}

/// The server's report of its position, and when it was asked.
pub(crate) struct PositionReport {
    pub(crate) position: Option<(Applied, bool)>,
    pub(crate) asked: Instant,
}

/// The state that is kept between probes.
#[derive(Default)]
struct Kept {
    client: Option<Client>,
    /// One step waits for all answers together, and goes by nothing that is not so now: the replication status may take this long.
    step: Option<Duration>,
}

impl Prober {
    /// Asks once, over a connection of its own.
    pub(crate) async fn once(&self, limit: Duration) -> Result<Facts, Failure> {
        self.anew(limit, Some(late::share(limit))).await.map(|(facts, _)| facts)
    }

    async fn anew(&self, limit: Duration, step: Option<Duration>) -> Result<(Facts, PositionReport), Failure> {
        let asked = async {
            let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: limit };
            // A little less than all of the time, so that the error can say how far it came.
            let client = self.access.open(limit * 9 / 10, limits).await?;
            self.ask(&mut Kept { client: Some(client), step }).await
        };
        tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(late(limit)))
    }

    /// Asks once, over a connection that is open; it is given back if it is still good.
    pub(crate) async fn over(&self, client: Client, limit: Duration) -> (Result<Facts, Failure>, Option<Client>) {
        let mut kept = Kept { client: Some(client), step: Some(late::share(limit)) };
        let asked = tokio::time::timeout(limit, self.ask(&mut kept)).await;
        match asked {
            Ok(Ok((facts, _))) => (Ok(facts), kept.client),
            Ok(Err(failure)) => (Err(failure), None),
            Err(_) => (Err(late(limit)), None),
        }
    }

    /// Runs until the task is aborted or no receiver is left; `urgent` asks for a probe at once.
    pub(crate) async fn run(self: Rc<Prober>, urgent: Rc<Notify>, results: mpsc::Sender<Probed>) {
        let mut kept = Kept::default();
        let mut dice = u64::from(self.id.0) + 1;
        loop {
            let started = Instant::now();
            let (outcome, twice) = self.probe_twice(&mut kept).await;
            let refused = matches!(&outcome, Err(failure) if failure.class == FailureClass::Login);
            let (seen, reported) = match outcome {
                Ok((facts, report)) => {
                    // A Galera group's members tell by a read that waits, not by GTIDs, what they have; SQL nodes of an NDB cluster
                    // all have the same, and binary logs of their own.
                    let by_gtids = !matches!(self.kind, config::ClusterKind::Galera | config::ClusterKind::Ndb);
                    (ObservationKind::Facts(Box::new(facts)), Some(report).filter(|_| by_gtids))
                }
                Err(failure) if twice => (ObservationKind::FailedTwice(failure), None),
                Err(failure) => (ObservationKind::Failure(failure), None),
            };
            if results
                .send(Probed { id: self.id, seen, asked: started, took: started.elapsed(), reported })
                .await
                .is_err()
            {
                return;
            }
            let wait = if refused { self.interval.max(LOGIN_RETRY) } else { self.interval };
            let wait = jitter(wait, &mut dice).saturating_sub(started.elapsed()).max(self.interval / 10);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = urgent.notified() => {}
            }
        }
    }

    /// Reads what the binary log leaves out, after each new connection of the probes. Runs until the task is aborted.
    pub(crate) async fn read_filters(self: Rc<Prober>) {
        loop {
            self.filters.look.notified().await;
            while let Err(failure) = self.ask_filters().await {
                tracing::debug!("what the binary log leaves out cannot be read: {}", failure.text);
                tokio::time::sleep(FILTERS_RETRY).await;
            }
        }
    }

    async fn ask_filters(&self) -> Result<(), Failure> {
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: self.timeout };
        let mut client = self.access.open(self.timeout, limits).await?;
        let dialect = Dialect::of(&dialect::greeting(client.greeting()));
        let answer = client.query_one(dialect.binlog_filters()).await.map_err(|error| query_failure(&error))?;
        self.filters.reported.replace(Some(details::read_binlog_filters(&answer)));
        Ok(())
    }

    /// Probes. When the open connection says nothing for a while, a new one is tried beside it: its answer counts as well, and when
    /// neither brings one, how the new one failed tells more. Says whether that was so.
    async fn probe_twice(self: &Rc<Prober>, kept: &mut Kept) -> (Result<(Facts, PositionReport), Failure>, bool) {
        if kept.client.is_none() || !self.asks_twice {
            return (self.probe_in_time(kept).await, false);
        }
        let outcome = {
            let mut open = pin!(self.probe_in_time(kept));
            tokio::select! {
                biased;
                ended = &mut open => return (ended, false),
                () = tokio::time::sleep(self.timeout / 4) => {}
            }
            // It goes on by itself when the open one answers: servers count logins that are broken off, and block a host at last.
            let (me, limit) = (self.clone(), self.timeout / 2);
            let new = tokio::task::spawn_local(async move { me.anew(limit, None).await });
            tokio::select! {
                biased;
                ended = &mut open => return (ended, false),
                new = new => match new.unwrap_or_else(|_| Err(late(limit))) {
                    Ok(answer) => Ok(answer),
                    Err(new) => match open.await {
                        Err(failure) if failure.class == FailureClass::Timeout => {
                            let text = format!("{}; over a new connection: {}", failure.text, new.text).into();
                            Err(Failure { class: new.class, text })
                        }
                        ended => return (ended, false),
                    },
                },
            }
        };
        // A late answer on this connection belongs to a query that no probe waits for any more.
        kept.client = None;
        let twice = outcome.is_err();
        (outcome, twice)
    }

    async fn probe_in_time(&self, kept: &mut Kept) -> Result<(Facts, PositionReport), Failure> {
        // Two limits of the probe's time: each step has its own, and all of them together have this one.
        match tokio::time::timeout(self.timeout * 2, self.probe(kept)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                kept.client = None;
                Err(late(self.timeout))
            }
        }
    }

    async fn probe(&self, kept: &mut Kept) -> Result<(Facts, PositionReport), Failure> {
        if kept.client.is_some() {
            match self.ask(kept).await {
                // A lost connection need not be a lost server: it may have been killed or timed out.
                Err(failure) if matches!(failure.class, FailureClass::Lost | FailureClass::NotReady) => {
                    kept.client = None;
                }
                Err(failure) => {
                    if !failure.class.proves_life() {
                        kept.client = None;
                    }
                    return Err(failure);
                }
                Ok(facts) => return Ok(facts),
            }
        }
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: self.timeout };
        kept.client = Some(self.access.open(self.timeout, limits).await?);
        let unknown = self.filters.reported.borrow().is_none();
        if unknown {
            // The first facts should be complete; if it takes long, the task of its own goes on with it.
            let _ = tokio::time::timeout(self.timeout / 2, self.ask_filters()).await;
        }
        self.filters.look.notify_one();
        let facts = self.ask(kept).await;
        if facts.as_ref().is_err_and(|failure| !failure.class.proves_life()) {
            kept.client = None;
        }
        facts
    }
}

fn late(limit: Duration) -> Failure {
    let text = format!("no answer within {} ms", limit.as_millis()).into();
    Failure { class: FailureClass::Timeout, text }
}

/// Nine to eleven tenths of a time, so that probes of many servers do not stay in step.
fn jitter(time: Duration, dice: &mut u64) -> Duration {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    time * 9 / 10 + (time / 5).mul_f64((*dice % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_tenth_and_varies() {
        let mut dice = 1;
        let times: Vec<_> = (0..100).map(|_| jitter(Duration::from_millis(1000), &mut dice).as_millis()).collect();
        assert!(times.iter().all(|time| (900..=1100).contains(time)), "{times:?}");
        assert!(times.iter().any(|time| *time < 960) && times.iter().any(|time| *time > 1040));
    }
}

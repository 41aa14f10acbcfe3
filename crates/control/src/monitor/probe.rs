//! One server's probes: a connection that stays, asked each interval.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::observation::{
    Channel, Details, Facts, Failure, FailureClass, GroupReplication, ObservationKind, Replication,
};
use facts::gtid::Applied;
use facts::view::ServerId;
use net::query::{Client, Limits, QueryError};
use tokio::sync::{Notify, mpsc};

use super::details;
use super::dialect::{self, Dialect};
use super::heartbeat::{Clock, HeartbeatRow, Log};
use super::late;
use super::link::{ServerAccess, query_failure};
use super::ndb;

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
    pub(crate) told_of_heartbeats: Cell<bool>,
    /// The channels of the replication status that was read last.
    pub(crate) channels: RefCell<Option<Vec<Channel>>>,
}

/// The filters of a server's binary log, which only a restart changes. The query waits for a lock that commits hold while they
/// wait for an acknowledgement, so no probe asks it.
#[derive(Default)]
pub(crate) struct Filters {
    told: RefCell<Option<Arc<str>>>,
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
        self.filters.told.replace(Some(details::read_binlog_filters(&answer)));
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

    /// A replica of MySQL does not tell whether it still hears its source.
    fn miss_heartbeats(&self, error: Option<&QueryError>) {
        if self.told_of_heartbeats.get() || !self.asks_twice {
            return;
        }
        self.told_of_heartbeats.set(true);
        let why = error.map_or_else(|| "performance_schema is off there".to_owned(), ToString::to_string);
        tracing::warn!(
            cluster = &*self.cluster,
            server = &*self.name,
            "it does not tell when it last heard the primary: a primary that vanishes from the network is noticed only after \
             replica_net_timeout, and a frozen one only by the heartbeat that is written; GRANT SELECT ON \
             performance_schema.replication_connection_status and performance_schema.replication_connection_configuration \
             to the monitor user: {why}"
        );
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
        let unknown = self.filters.told.borrow().is_none();
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

    async fn ask(&self, kept: &mut Kept) -> Result<(Facts, PositionReport), Failure> {
        let Some(client) = kept.client.as_mut() else {
            return Err(Failure { class: FailureClass::Lost, text: "no connection".into() });
        };
        let greeting = dialect::greeting(client.greeting());
        let dialect = Dialect::of(&greeting);
        let asked = Instant::now();
        let answer = client.query_one(dialect.facts()).await.map_err(|error| query_failure(&error))?;
        let report = PositionReport { position: dialect::read_position(dialect, &answer), asked };
        let resolved = client.stream().peer_addr();
        let unknown = Replication::Channels(Vec::new());
        let mut facts = dialect::read_facts(greeting, &answer, unknown).ok_or_else(|| Failure {
            class: FailureClass::Protocol,
            text: "the answer to the monitor's first question is no answer".into(),
        })?;
        facts.resolved = resolved;
        match self.status(client, dialect, kept.step).await {
            Ok(replication) => {
                if let Replication::Channels(channels) = &replication {
                    self.channels.replace(Some(channels.clone()));
                }
                facts.replication = replication;
                self.add_details(client, dialect, &mut facts).await?;
                self.add_lag(client, dialect, &mut facts).await?;
            }
            // The server lives, but something that hangs, such as a STOP REPLICA, blocks this statement.
            Err(failure) if failure.class == FailureClass::Timeout => {
                kept.client = None;
                self.go_on(dialect, &mut facts, failure, kept.step.is_some()).await?;
            }
            Err(failure) => return Err(failure),
        }
        Ok((facts, report))
    }

    /// Asks for the replication status, and on MySQL for the signs of life, which it does not tell.
    async fn status(
        &self,
        client: &mut Client,
        dialect: Dialect,
        limit: Option<Duration>,
    ) -> Result<Replication, Failure> {
        let limit = limit.unwrap_or(self.timeout);
        let asked = tokio::time::timeout(limit, client.query_one(dialect.replication())).await;
        let status = match asked.unwrap_or(Err(QueryError::Timeout(limit))) {
            Ok(status) => status,
            Err(error) if query_failure(&error).class == FailureClass::Query => {
                return Ok(Replication::Unreadable(error.to_string().into()));
            }
            Err(error) => return Err(query_failure(&error)),
        };
        let mut replication = dialect::read_replication(&status);
        if let Replication::Channels(channels) = &mut replication
            && !dialect.mariadb
            && !channels.is_empty()
        {
            let told = client.query_one(details::LIFE).await;
            if let Err(error) = &told
                && error.server_error().is_none()
            {
                return Err(query_failure(error));
            }
            if !details::add_life(channels, &status, told.as_ref().ok()) {
                self.miss_heartbeats(told.err().as_ref());
            }
        }
        Ok(replication)
    }

    /// Goes on over a new connection when the replication status is late: the heartbeat tells how far it is behind, and a table of
    /// MySQL the state of its channels. Failing that, a probe takes the channels as they were; a step fails.
    async fn go_on(&self, dialect: Dialect, facts: &mut Facts, late: Failure, step: bool) -> Result<(), Failure> {
        facts.replication = late::outdated(self.channels.borrow().as_deref(), &late.text);
        let (limit, mut told) = (late::share(self.timeout), false);
        let asked = async {
            let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: limit / 2 };
            let mut client = self.access.open(limit / 2, limits).await?;
            self.add_lag(&mut client, dialect, facts).await?;
            if let Some(channels) = self.late_channels(&mut client, dialect).await? {
                told = true;
                self.channels.replace(Some(channels.clone()));
                facts.replication = Replication::Channels(channels);
            }
            self.add_details(&mut client, dialect, facts).await
        };
        let complete = tokio::time::timeout(limit, asked).await.is_ok_and(|asked| asked.is_ok());
        if step && !(told && complete) {
            return Err(late);
        }
        Ok(())
    }

    async fn late_channels(&self, client: &mut Client, dialect: Dialect) -> Result<Option<Vec<Channel>>, Failure> {
        // SLAVE_STATUS of MariaDB 11.6 takes the same locks as the statement.
        if dialect.mariadb {
            return Ok(None);
        }
        match client.query_one(late::CHANNELS).await {
            Ok(answer) => Ok(late::read(&answer, self.channels.borrow().as_deref().unwrap_or_default())),
            Err(error) if error.server_error().is_some() => {
                tracing::debug!("the state of replication channels cannot be read: {error}");
                Ok(None)
            }
            Err(error) => Err(query_failure(&error)),
        }
    }

    async fn add_details(&self, client: &mut Client, dialect: Dialect, facts: &mut Facts) -> Result<(), Failure> {
        let filters = self.filters.told.borrow().clone();
        facts.details = read_details(client, dialect, filters).await?;
        if self.in_group(dialect) {
            facts.details.group_replication = read_group(client, &facts.details.server_uuid).await?;
        }
        if self.kind == config::ClusterKind::Ndb {
            facts.details.ndb = ndb::read(client).await?;
        }
        Ok(())
    }

    async fn add_lag(&self, client: &mut Client, dialect: Dialect, facts: &mut Facts) -> Result<(), Failure> {
        let alone = matches!(&facts.replication, Replication::Channels(channels) if channels.is_empty());
        if (alone && !self.in_group(dialect)) || !self.log.borrow().has_writes() {
            return Ok(());
        }
        // Without the row, or the right to read it, lag is what the server tells; what it tells while it delays may be 0.
        let row = match client.query_one(self.heartbeat_row.select()).await {
            Ok(row) => Some(row),
            Err(QueryError::Server(_)) => None,
            Err(error) => return Err(query_failure(&error)),
        };
        let row_us = row.and_then(|row| row.scalar()?.parse().ok());
        facts.heartbeat_lag = row_us.and_then(|row_us| self.log.borrow().lag(self.clock.now_us(), row_us));
        Ok(())
    }

    fn in_group(&self, dialect: Dialect) -> bool {
        self.kind == config::ClusterKind::GroupReplication && !dialect.mariadb
    }
}

fn late(limit: Duration) -> Failure {
    let text = format!("no answer within {} ms", limit.as_millis()).into();
    Failure { class: FailureClass::Timeout, text }
}

/// A server's refusal leaves out what it refuses; any other failure is the probe's.
async fn read_details(
    client: &mut Client,
    dialect: Dialect,
    binlog_filters: Option<Arc<str>>,
) -> Result<Details, Failure> {
    match client.query(details::DETAILS).await {
        Ok(answers) => Ok(details::read(dialect, &answers, binlog_filters.as_ref())),
        Err(error) if error.server_error().is_some() => Ok(Details::default()),
        Err(error) => Err(query_failure(&error)),
    }
}

/// The report of a member about its replication group; nothing where the plugin is not there or may not be asked.
async fn read_group(client: &mut Client, own: &str) -> Result<Option<GroupReplication>, Failure> {
    match client.query(details::GROUP).await {
        Ok(answers) => Ok(details::read_group(&answers, own)),
        Err(error) if error.server_error().is_some() => {
            tracing::debug!("the replication group cannot be read: {error}");
            Ok(None)
        }
        Err(error) => Err(query_failure(&error)),
    }
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

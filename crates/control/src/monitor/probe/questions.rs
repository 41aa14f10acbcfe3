//! The questions of one probe over one connection, and the facts that a server's answers give.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::observation::{Channel, Details, Facts, Failure, FailureClass, GroupReplication, Replication};
use net::query::{Client, Limits, QueryError};

use super::super::dialect::{self, Dialect};
use super::super::link::query_failure;
use super::super::{channel_life, details, late, ndb, replication_group};
use super::{Kept, PositionReport, Prober, REPLY_BYTES_MAX};

impl Prober {
    /// A replica of MySQL does not tell whether it still hears its source.
    fn miss_heartbeats(&self, error: Option<&QueryError>) {
        if self.reported_heartbeats.get() || !self.asks_twice {
            return;
        }
        self.reported_heartbeats.set(true);
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

    pub(super) async fn ask(&self, kept: &mut Kept) -> Result<(Facts, PositionReport), Failure> {
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
            let reported = client.query_one(channel_life::LIFE).await;
            if let Err(error) = &reported
                && error.server_error().is_none()
            {
                return Err(query_failure(error));
            }
            if !channel_life::add_life(channels, &status, reported.as_ref().ok()) {
                self.miss_heartbeats(reported.err().as_ref());
            }
        }
        Ok(replication)
    }

    /// Goes on over a new connection when the replication status is late: the heartbeat tells how far it is behind, and a table of
    /// MySQL the state of its channels. Failing that, a probe takes the channels as they were; a step fails.
    async fn go_on(&self, dialect: Dialect, facts: &mut Facts, late: Failure, step: bool) -> Result<(), Failure> {
        facts.replication = late::outdated(self.channels.borrow().as_deref(), &late.text);
        let (limit, mut reported) = (late::share(self.timeout), false);
        let asked = async {
            let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: limit / 2 };
            let mut client = self.access.open(limit / 2, limits).await?;
            self.add_lag(&mut client, dialect, facts).await?;
            if let Some(channels) = self.late_channels(&mut client, dialect).await? {
                reported = true;
                self.channels.replace(Some(channels.clone()));
                facts.replication = Replication::Channels(channels);
            }
            self.add_details(&mut client, dialect, facts).await
        };
        let complete = tokio::time::timeout(limit, asked).await.is_ok_and(|asked| asked.is_ok());
        if step && !(reported && complete) {
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
        let filters = self.filters.reported.borrow().clone();
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
    match client.query(replication_group::GROUP).await {
        Ok(answers) => Ok(replication_group::read_group(&answers, own)),
        Err(error) if error.server_error().is_some() => {
            tracing::debug!("the replication group cannot be read: {error}");
            Ok(None)
        }
        Err(error) => Err(query_failure(&error)),
    }
}

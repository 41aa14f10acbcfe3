//! A primary and its replicas.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::accounts::{REPL_PASSWORD, REPL_USER, accounts_sql};
use crate::{Family, LabError, Server, ServerOptions, TlsFiles};

/// Longest that the new replicas may take to catch up with the accounts.
const FIRST_SYNC_LIMIT: Duration = Duration::from_secs(30);
/// Longest that a promotion waits for the new primary to catch up with the old one.
const PROMOTE_SYNC_LIMIT: Duration = Duration::from_secs(30);
/// Options of every replica's connection besides its address: quick to notice, and never giving up.
const RETRY_SECONDS: u32 = 1;

/// The kind of cluster to start.
#[derive(Debug, Clone)]
pub struct ReplicationOptions {
    /// MariaDB or MySQL.
    pub family: Family,
    /// How many replicas beside the primary.
    pub replicas: usize,
    /// Sync every commit to the disk on all servers.
    pub durable: bool,
    /// Offer TLS on all servers.
    pub tls: Option<TlsFiles>,
    /// More configuration lines for all servers.
    pub config: Vec<String>,
    /// Statements that root runs on the primary before replicas attach, after the accounts are made.
    pub init_sql: String,
}

impl ReplicationOptions {
    /// A cluster with this many replicas and the standard accounts.
    pub fn new(family: Family, replicas: usize) -> ReplicationOptions {
        ReplicationOptions { family, replicas, durable: false, tls: None, config: Vec::new(), init_sql: String::new() }
    }
}

/// A cluster of servers that replicate with GTIDs. Server 0 is the primary at first.
#[derive(Debug)]
pub struct Replication {
    servers: Vec<Server>,
    primary: AtomicUsize,
}

impl Replication {
    /// Starts all servers at the same time, makes the accounts, attaches the replicas and waits until they caught up.
    ///
    /// # Errors
    /// When any of that fails; nothing stays behind.
    pub fn start(options: ReplicationOptions) -> Result<Replication, LabError> {
        let servers = start_servers(&options)?;
        let cluster = Replication { servers, primary: AtomicUsize::new(0) };
        let primary = cluster.primary();
        primary.sql(&accounts_sql(options.family))?;
        if !options.init_sql.is_empty() {
            primary.sql(&options.init_sql)?;
        }
        for replica in cluster.replicas() {
            replica.sql(&format!("{} {}", change_source(primary), start_replica(options.family)))?;
        }
        cluster.wait_in_sync(FIRST_SYNC_LIMIT)?;
        Ok(cluster)
    }

    /// All servers, in the order of their index.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One server by its index; its `server_id` is one more.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn server(&self, index: usize) -> &Server {
        &self.servers[index]
    }

    /// The server that was last made primary.
    pub fn primary(&self) -> &Server {
        &self.servers[self.primary_index()]
    }

    /// The index of the primary.
    pub fn primary_index(&self) -> usize {
        self.primary.load(Ordering::Acquire)
    }

    /// The other servers.
    pub fn replicas(&self) -> impl Iterator<Item = &Server> {
        let primary = self.primary_index();
        self.servers.iter().enumerate().filter(move |(index, _)| *index != primary).map(|(_, server)| server)
    }

    /// Waits until every running replica has applied what the primary has written so far.
    ///
    /// # Errors
    /// [`LabError::Start`] naming the replica, with its replication status, when it did not get there in time.
    pub fn wait_in_sync(&self, timeout: Duration) -> Result<(), LabError> {
        let deadline = Instant::now() + timeout;
        let primary = self.primary();
        let position = written(primary)?;
        for replica in self.replicas().filter(|replica| replica.is_running()) {
            wait_applied(replica, &position, deadline.saturating_duration_since(Instant::now()))?;
        }
        Ok(())
    }

    /// Makes another server the primary, as an administrator would: the old one becomes read-only, the new one catches
    /// up and becomes writable, all others follow it. An old primary that does not run is left out; see
    /// [`Replication::rejoin`].
    ///
    /// # Errors
    /// When a server refuses, or the new primary does not catch up.
    pub fn promote(&self, index: usize) -> Result<(), LabError> {
        let old_index = self.primary_index();
        if index == old_index {
            return Ok(());
        }
        let (old, new) = (self.primary(), self.server(index));
        if old.is_running() {
            old.set_read_only(true)?;
            wait_applied(new, &written(old)?, PROMOTE_SYNC_LIMIT)?;
        } else {
            self.fetch_from_others(index)?;
        }
        new.sql(forget_source(new.family()))?;
        new.set_read_only(false)?;
        self.primary.store(index, Ordering::Release);
        for (other, server) in self.servers.iter().enumerate() {
            if other != index && server.is_running() {
                self.rejoin(other)?;
            }
        }
        Ok(())
    }

    /// Gives a server what any other replica has got of a primary that is no more: else that one would have too much.
    fn fetch_from_others(&self, index: usize) -> Result<(), LabError> {
        let new = self.server(index);
        let others = self.replicas().filter(|other| other.is_running() && other.port() != new.port());
        for other in others {
            // Events that it has received and not applied are nowhere.
            other.sql(stop_replica(other.family()))?;
            let position = written(other)?;
            if !has_applied(new, &position, Duration::ZERO)? {
                let family = new.family();
                new.sql(&format!("{} {} {}", stop_replica(family), change_source(other), start_replica(family)))?;
                wait_applied(new, &position, PROMOTE_SYNC_LIMIT)?;
            }
        }
        Ok(())
    }

    /// Lets a server, such as a primary that was killed and is back, follow the present primary, read-only. Writes that it alone has
    /// stay in its tables, and are removed from its log.
    ///
    /// # Errors
    /// When the server refuses, for one because it is the primary itself.
    pub fn rejoin(&self, index: usize) -> Result<(), LabError> {
        let server = self.server(index);
        server.set_read_only(true)?;
        let family = server.family();
        server.sql(stop_replica(family))?;
        let position = match family {
            Family::MariaDb => self.common_position(server)?,
            Family::MySql => self.common_set(server)?,
        };
        let (change, start) = (change_source(self.primary()), start_replica(family));
        server.sql(&format!("{position} {change} {start}")).map(drop)
    }

    /// The statements that have a server of MariaDB go on where the primary's log does. All that both have logged counts as seen: a
    /// former primary's own transactions, and a statement of the primary that a killed replica logged without noting its position
    /// (which it does in a step of its own after DDL).
    fn common_position(&self, server: &Server) -> Result<String, LabError> {
        let own = server.sql("SELECT COALESCE(NULLIF(@@GLOBAL.gtid_binlog_pos, ''), @@GLOBAL.gtid_current_pos)")?;
        let state = self.primary().sql("SELECT @@GLOBAL.gtid_binlog_state")?;
        let (mut common, mut alone) = (Vec::new(), false);
        for gtid in gtids(&own) {
            // A server's last write is in the primary's log, or never came there.
            let there =
                gtids(&state).find(|there| (there.0, there.1) == (gtid.0, gtid.1)).filter(|there| there.2 < gtid.2);
            alone |= there.is_some();
            let (domain, server, sequence) = there.unwrap_or(gtid);
            common.push(format!("{domain}-{server}-{sequence}"));
        }
        let position = format!("SET GLOBAL gtid_slave_pos = '{}';", common.join(","));
        let forget = "RESET MASTER; SET GLOBAL slave_exec_mode = 'IDEMPOTENT';";
        Ok(if alone { format!("{forget} {position}") } else { position })
    }

    /// The statements that have a server of MySQL forget what the primary does not have.
    fn common_set(&self, server: &Server) -> Result<String, LabError> {
        let there = written(self.primary())?;
        let alone = server.sql(&format!("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, '{there}')"))?;
        let alone = alone.trim();
        if alone.is_empty() {
            return Ok(String::new());
        }
        let common =
            server.sql(&format!("SELECT REPLACE(GTID_SUBTRACT(@@GLOBAL.gtid_executed, '{alone}'), '\\n', '')"))?;
        Ok(format!(
            "RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{}'; SET GLOBAL replica_exec_mode = 'IDEMPOTENT';",
            common.trim()
        ))
    }

    /// The checksum of every table of a database, for every server in the order of their index.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn checksums(&self, database: &str) -> Result<Vec<BTreeMap<String, String>>, LabError> {
        self.servers.iter().map(|server| checksums(server, database)).collect()
    }
}

fn start_servers(options: &ReplicationOptions) -> Result<Vec<Server>, LabError> {
    thread::scope(|scope| {
        let starting: Vec<_> = (0..=options.replicas)
            .map(|index| {
                let server = ServerOptions {
                    server_id: u32::try_from(index + 1).unwrap_or(u32::MAX),
                    read_only: index > 0,
                    durable: options.durable,
                    tls: options.tls.clone(),
                    config: options.config.clone(),
                    ..ServerOptions::new(options.family)
                };
                scope.spawn(move || Server::start(server))
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Server, LabError>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        starting.into_iter().map(join).collect()
    })
}

/// The statement that lets a server read the binary log of `source`, by GTID, and apply it at once: a test that failed may have left a
/// delay to those after it.
///
/// TLS is said either way: newer servers ask for it by default, and refuse a source that has none.
fn change_source(source: &Server) -> String {
    let (port, tls) = (source.port(), u8::from(source.offers_tls()));
    match source.family() {
        Family::MariaDb => format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{REPL_USER}', \
             MASTER_PASSWORD='{REPL_PASSWORD}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY={RETRY_SECONDS}, \
             MASTER_HEARTBEAT_PERIOD={RETRY_SECONDS}, MASTER_SSL={tls}, MASTER_SSL_VERIFY_SERVER_CERT=0, MASTER_DELAY=0;"
        ),
        // Without TLS, caching_sha2_password needs the server's public key to send a password for the first time.
        Family::MySql => format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{REPL_USER}', \
             SOURCE_PASSWORD='{REPL_PASSWORD}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, \
             SOURCE_CONNECT_RETRY={RETRY_SECONDS}, SOURCE_RETRY_COUNT=86400, \
             SOURCE_HEARTBEAT_PERIOD={RETRY_SECONDS}, SOURCE_SSL={tls}, SOURCE_SSL_VERIFY_SERVER_CERT=0, SOURCE_DELAY=0;"
        ),
    }
}

fn start_replica(family: Family) -> &'static str {
    match family {
        Family::MariaDb => "START SLAVE;",
        Family::MySql => "START REPLICA;",
    }
}

fn stop_replica(family: Family) -> &'static str {
    match family {
        Family::MariaDb => "STOP SLAVE;",
        Family::MySql => "STOP REPLICA;",
    }
}

fn forget_source(family: Family) -> &'static str {
    match family {
        Family::MariaDb => "STOP SLAVE; RESET SLAVE ALL;",
        Family::MySql => "STOP REPLICA; RESET REPLICA ALL;",
    }
}

/// Everything that a server has written to its binary log, as GTIDs.
fn written(server: &Server) -> Result<String, LabError> {
    let position = server.sql(match server.family() {
        Family::MariaDb => "SELECT @@GLOBAL.gtid_binlog_pos",
        Family::MySql => "SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')",
    })?;
    Ok(position.trim().to_owned())
}

/// The GTIDs of a list as MariaDB writes it: domain, server, sequence.
fn gtids(text: &str) -> impl Iterator<Item = (u64, u64, u64)> {
    text.trim().split(',').filter_map(|gtid| {
        let mut numbers = gtid.trim().split('-').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    })
}

fn has_applied(replica: &Server, position: &str, limit: Duration) -> Result<bool, LabError> {
    let wait = match replica.family() {
        Family::MariaDb => format!("MASTER_GTID_WAIT('{position}', {})", limit.as_secs_f64()),
        // No time at all means for ever there.
        Family::MySql if limit.is_zero() => format!("NOT GTID_SUBSET('{position}', @@GLOBAL.gtid_executed)"),
        Family::MySql => format!("WAIT_FOR_EXECUTED_GTID_SET('{position}', {})", limit.as_secs_f64()),
    };
    // All say 0 when the position is reached.
    Ok(replica.sql(&format!("SELECT {wait}"))?.trim() == "0")
}

fn wait_applied(replica: &Server, position: &str, limit: Duration) -> Result<(), LabError> {
    if has_applied(replica, position, limit)? {
        return Ok(());
    }
    let status = replica.sql_vertical(match replica.family() {
        Family::MariaDb => "SHOW ALL SLAVES STATUS",
        Family::MySql => "SHOW REPLICA STATUS",
    })?;
    let what = format!("did not reach {position} within {limit:?}; its replication status:\n{status}");
    Err(LabError::Start { port: replica.port(), what, log: replica.log_tail() })
}

fn checksums(server: &Server, database: &str) -> Result<BTreeMap<String, String>, LabError> {
    let tables = server.sql(&format!(
        "SELECT table_name FROM information_schema.tables \
         WHERE table_schema = '{database}' AND table_type = 'BASE TABLE' ORDER BY table_name"
    ))?;
    let names: Vec<String> = tables.lines().map(|table| format!("`{database}`.`{table}`")).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sums = server.sql(&format!("CHECKSUM TABLE {}", names.join(", ")))?;
    let pairs = sums.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs.map(|(table, sum)| (table.to_owned(), sum.to_owned())).collect())
}

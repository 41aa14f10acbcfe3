//! A model of one database server: its log, its relay log, its threads, and what it tells.

use std::time::Duration;

use facts::gtid::mariadb::Gtids;
use facts::gtid::mysql::GtidSet;

use cluster::observation::{Channel, Details, Facts, Greeting, Receiver, Replication, SemiSync};

/// A transaction. The same name with another `id` is another transaction: a server that lost its tail numbers anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Txn {
    pub id: u64,
    pub origin: usize,
    pub number: u64,
}

/// The transactions of a server, by origin, as intervals; cheap to extend.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<Vec<(u64, u64)>>);

impl Names {
    pub fn new(servers: usize) -> Names {
        Names(vec![Vec::new(); servers])
    }

    pub fn add(&mut self, txn: Txn) {
        let known = &mut self.0[txn.origin];
        match known.last_mut() {
            Some((_, last)) if *last + 1 == txn.number => *last += 1,
            Some((_, last)) if *last >= txn.number => {
                known.push((txn.number, txn.number));
                known.sort_unstable();
            }
            _ => known.push((txn.number, txn.number)),
        }
    }

    pub fn has(&self, txn: Txn) -> bool {
        self.0[txn.origin].iter().any(|(first, last)| (*first..=*last).contains(&txn.number))
    }

    pub fn last(&self, origin: usize) -> u64 {
        self.0[origin].iter().map(|(_, last)| *last).max().unwrap_or(0)
    }

    fn mysql(&self) -> String {
        let mut text = Vec::new();
        for (origin, intervals) in self.0.iter().enumerate().filter(|(_, intervals)| !intervals.is_empty()) {
            let parts: Vec<String> = intervals.iter().map(|(first, last)| format!("{first}-{last}")).collect();
            text.push(format!("{}:{}", uuid(origin), parts.join(":")));
        }
        text.join(",")
    }

    fn binlog_state(&self) -> String {
        let all = (0..self.0.len()).filter(|origin| self.last(*origin) > 0);
        all.map(|origin| format!("0-{}-{}", origin + 1, self.last(origin))).collect::<Vec<_>>().join(",")
    }
}

pub fn uuid(origin: usize) -> String {
    format!("00000000-0000-0000-0000-{:012}", origin + 1)
}

#[derive(Clone, Debug)]
pub struct Feed {
    pub source: usize,
    pub receiving: bool,
    pub applying: bool,
    pub connected: bool,
    /// Its source refused its position.
    pub refused: bool,
    pub life: u64,
    pub heard_ms: u64,
    pub retry_ms: u64,
}

/// A write that waits for its acknowledgement.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub txn: Txn,
    /// The manager whose client waits; `None` once its session was cut.
    pub manager: Option<usize>,
    pub acks: Vec<usize>,
    /// A client's, not a heartbeat.
    pub counts: bool,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub number: usize,
    pub mariadb: bool,
    pub up: bool,
    pub frozen: bool,
    /// Its disk is full: reads are answered, writes wait.
    pub full: bool,
    pub started_ms: u64,
    pub read_only: bool,
    pub read_only_at_start: bool,
    pub semi_sync: Option<u32>,
    pub log: Vec<Txn>,
    pub names: Names,
    /// When the last own transactions were written, so that a crash can lose them: milliseconds and log length before.
    pub fresh: Vec<(u64, usize)>,
    pub feed: Option<Feed>,
    pub relay: Vec<Txn>,
    /// `gtid_slave_pos` of MariaDB.
    pub replicated: Option<Txn>,
    pub waiting: Vec<Waiting>,
    /// Requests that reached a frozen server.
    pub queued: Vec<(usize, bool)>,
    pub applier_broken: bool,
    pub applier_slow: bool,
    /// The holder of this server's part of the lease, and until when.
    pub lock: Option<(usize, u64)>,
    pub promoted_ms: u64,
}

impl Server {
    pub fn new(
        number: usize,
        servers: usize,
        mariadb: bool,
        semi_sync: Option<u32>,
        read_only_at_start: bool,
    ) -> Server {
        let feed = (number > 0).then(|| Feed::new(0));
        Server {
            number,
            mariadb,
            up: true,
            frozen: false,
            full: false,
            started_ms: 0,
            read_only: number > 0,
            read_only_at_start,
            semi_sync,
            log: Vec::new(),
            names: Names::new(servers),
            fresh: Vec::new(),
            feed,
            relay: Vec::new(),
            replicated: None,
            waiting: Vec::new(),
            queued: Vec::new(),
            applier_broken: false,
            applier_slow: false,
            lock: None,
            promoted_ms: 0,
        }
    }

    pub fn works(&self) -> bool {
        self.up && !self.frozen
    }

    /// Writes a transaction of its own.
    pub fn write(&mut self, now_ms: u64, id: u64) -> Txn {
        let last = match self.mariadb {
            true => self.log.last().map_or(0, |txn| txn.number).max(self.names.last(self.number)),
            false => self.names.last(self.number),
        };
        let txn = Txn { id, origin: self.number, number: last + 1 };
        self.fresh.push((now_ms, self.log.len()));
        if self.fresh.len() > 20 {
            self.fresh.remove(0);
        }
        self.push(txn);
        txn
    }

    pub fn push(&mut self, txn: Txn) {
        self.names.add(txn);
        self.log.push(txn);
    }

    /// The process dies. `lost` of the transactions that it wrote in the last moments are gone.
    pub fn crash(&mut self, now_ms: u64, lost: usize) {
        self.up = false;
        self.frozen = false;
        self.waiting.clear();
        self.queued.clear();
        let recent: Vec<usize> =
            self.fresh.iter().filter(|(at, _)| at + 200 >= now_ms).map(|(_, length)| *length).collect();
        // Only a tail that is its own: nothing that came by replication was written behind it.
        let own = self.log.iter().rev().take_while(|txn| txn.origin == self.number).count();
        let lost = lost.min(recent.len()).min(own);
        self.log.truncate(self.log.len() - lost);
        self.names = Names::new(self.names.0.len());
        self.log.iter().for_each(|txn| self.names.add(*txn));
        self.fresh.clear();
        if let Some(feed) = &mut self.feed {
            feed.connected = false;
        }
    }

    pub fn start(&mut self, now_ms: u64) {
        self.up = true;
        self.started_ms = now_ms;
        self.read_only = self.read_only_at_start;
        // Threads are started with the server.
        if let Some(feed) = &mut self.feed {
            (feed.receiving, feed.applying, feed.connected) = (true, true, false);
        }
    }

    pub fn has(&self, txn: Txn) -> bool {
        self.log.contains(&txn)
    }

    fn last_received(&self) -> Option<Txn> {
        self.relay.last().copied().or(self.replicated).or(if self.feed.is_some() {
            self.log.last().copied()
        } else {
            None
        })
    }

    pub fn facts(&self, now_ms: u64) -> Facts {
        let gtid = |txn: Option<Txn>| txn.map_or(String::new(), |txn| format!("0-{}-{}", txn.origin + 1, txn.number));
        let mut received = Names::new(self.names.0.len());
        self.relay.iter().for_each(|txn| received.add(*txn));
        let channels = self.feed.iter().map(|feed| Channel {
            name: "".into(),
            source_host: format!("s{}", feed.source + 1).into(),
            source_port: 3306,
            source_server_id: feed.source as u32 + 1,
            receiver: match (feed.receiving && !feed.refused, feed.connected) {
                (false, _) => Receiver::Stopped,
                (true, true) => Receiver::Running,
                (true, false) => Receiver::Connecting,
            },
            applier_running: feed.applying && !self.applier_broken,
            seconds_behind: (feed.connected && feed.applying).then_some(0),
            gtid_received: if self.mariadb { gtid(self.last_received()) } else { received.mysql() }.into(),
            receiver_error: match (feed.refused, feed.connected) {
                (true, _) => "1236 the position is not in the log".into(),
                (false, true) => "".into(),
                // It stays when the receiver is stopped then.
                (false, false) => "error reconnecting to master".into(),
            },
            receiver_lost_source: !feed.refused && !feed.connected,
            applier_error: if self.applier_broken { "1062 duplicate key".into() } else { "".into() },
            delay_s: 0,
            uses_gtid: Some(true),
            filters: "".into(),
            life: Some(feed.life),
            heartbeat_period: Some(Duration::from_secs(1)),
            outdated: false,
        });
        let (executed, state) = match self.mariadb {
            true => (gtid(self.log.last().copied()), self.names.binlog_state()),
            false => (self.names.mysql(), String::new()),
        };
        Facts {
            greeting: Greeting {
                mariadb: self.mariadb,
                version: "x".into(),
                number: if self.mariadb { 101_106 } else { 80_402 },
                capabilities: 1,
                auth_plugin: "mysql_native_password".into(),
                collation: 45,
            },
            resolved: None,
            server_id: self.number as u32 + 1,
            hostname: format!("s{}", self.number + 1).into(),
            port: 3306,
            report_host: "".into(),
            report_port: 0,
            read_only: self.read_only,
            super_read_only: self.read_only && !self.mariadb,
            gtid_executed: executed.into(),
            replication: Replication::Channels(channels.collect()),
            heartbeat_lag: None,
            details: Details {
                server_uuid: if self.mariadb { "".into() } else { uuid(self.number).into() },
                uptime_s: Some(now_ms.saturating_sub(self.started_ms) / 1000),
                gtid_on: Some(true),
                gtid_replicated: if self.mariadb { gtid(self.replicated) } else { String::new() }.into(),
                gtid_binlog_state: state.into(),
                offline: false,
                log_bin: Some(true),
                log_replica_updates: Some(true),
                logs_statements: None,
                event_scheduler: None,
                binlog_filters: "".into(),
                semi_sync: SemiSync {
                    source_enabled: Some(self.semi_sync.is_some()),
                    source_active: Some(self.semi_sync.is_some() && !self.read_only),
                    after_sync: Some(true),
                    timeout_ms: Some(4_000_000_000),
                    acks_needed: self.semi_sync,
                    clients: None,
                    replica_enabled: Some(self.semi_sync.is_some()),
                    replica_active: None,
                },
                group: None,
                galera: None,
                group_replication: None,
                ndb: None,
            },
        }
    }

    /// It has applied this position.
    pub fn has_position(&self, position: &str) -> bool {
        let here = self.facts(0).gtid_executed;
        if self.mariadb {
            let (Some(here), Some(there)) = (Gtids::parse(&here), Gtids::parse(position)) else { return false };
            return there.iter().all(|gtid| here.of(gtid.domain).is_some_and(|last| last.sequence >= gtid.sequence));
        }
        match (GtidSet::parse(&here), GtidSet::parse(position)) {
            (Some(here), Some(there)) => here.contains(&there),
            _ => false,
        }
    }

    /// All that was received is applied.
    pub fn is_drained(&self) -> bool {
        self.relay.is_empty()
    }

    pub fn forget_replication(&mut self) {
        self.feed = None;
        self.relay.clear();
    }

    pub fn follow(&mut self, source: usize) {
        self.read_only = true;
        match &mut self.feed {
            Some(feed) if feed.source == source => {
                // MariaDB discards its relay log when both threads are started anew.
                if self.mariadb && !feed.receiving && !feed.applying {
                    self.relay.clear();
                }
                (feed.receiving, feed.applying) = (true, true);
            }
            _ => {
                self.relay.clear();
                self.replicated = self.log.last().copied();
                self.feed = Some(Feed::new(source));
            }
        }
    }
}

impl Feed {
    pub fn new(source: usize) -> Feed {
        Feed {
            source,
            receiving: true,
            applying: true,
            connected: false,
            refused: false,
            life: 1,
            heard_ms: 0,
            retry_ms: 0,
        }
    }
}

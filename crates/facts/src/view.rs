//! An immutable, numbered snapshot of a cluster's roles and health: what routing reads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// A server: small, stable for as long as the server stays in the configuration, and never given to another server of any
/// cluster while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub u16);

impl ServerId {
    /// An identity that no server has.
    pub const NONE: ServerId = ServerId(u16::MAX);
}

/// Gives out identities. All clusters of a process share one.
#[derive(Clone, Debug, Default)]
pub struct ServerIds(Arc<AtomicU16>);

impl ServerIds {
    /// An identity that was not given out before; `None` when none is left.
    pub fn next_id(&self) -> Option<ServerId> {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1)).ok().map(ServerId)
    }
}

/// The role of a server in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes writes.
    Primary,
    /// Follows a primary.
    Replica,
    /// Not known (yet), or neither.
    Unknown,
}

impl Role {
    /// The word that users meet.
    pub fn word(self) -> &'static str {
        match self {
            Role::Primary => "primary",
            Role::Replica => "replica",
            Role::Unknown => "unknown",
        }
    }
}

/// Which members of a Galera group take writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// One.
    One,
    /// All that may.
    All,
}

/// Whether traffic may go to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// Answers.
    Up,
    /// Did not answer lately, not yet given up: no new work while another server can do it.
    Suspect,
    /// Given up until it answers again several times.
    Down,
    /// Finishes what it has, takes nothing new.
    Draining,
    /// An operator works on it: as when it is drained, and it is neither promoted nor repaired.
    Maintenance,
}

impl Health {
    /// It answers as far as is known, be it slow.
    pub fn answers(self) -> bool {
        self != Health::Down
    }

    /// The word that users meet.
    pub fn word(self) -> &'static str {
        match self {
            Health::Up => "up",
            Health::Suspect => "suspect",
            Health::Down => "down",
            Health::Draining => "draining",
            Health::Maintenance => "maintenance",
        }
    }
}

/// One server as routing sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerView {
    /// Identity.
    pub id: ServerId,
    /// The name in the configuration.
    pub name: Arc<str>,
    /// `host:port` or a socket path, as configured.
    pub address: Arc<str>,
    /// The address that `address` resolved to last; `None` while it did not resolve.
    pub resolved: Option<SocketAddr>,
    /// Role.
    pub role: Role,
    /// Health.
    pub health: Health,
    /// How far it is behind the primary; `None` when not known (broken replication is never zero).
    pub lag: Option<Duration>,
    /// Lag within the configured bound and replication running: reads may go here.
    pub serves_reads: bool,
    /// No session may use it, and sessions that have a connection to it lose that at once: it was, or takes itself for, a
    /// primary that is none. It stays so until it follows the primary.
    pub fenced: bool,
    /// Relative share of reads, 0 takes none.
    pub weight: u32,
    /// Zone, empty when none was given.
    pub zone: Arc<str>,
    /// Why it is in this state, in words, for the operator.
    pub reason: Arc<str>,
}

/// Family and version of the cluster's servers, which the greeting must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavour {
    /// MariaDB (true) or MySQL.
    pub mariadb: bool,
    /// The version as the servers' greeting tells it, for example `5.5.5-10.11.6-MariaDB` or `8.4.2`.
    pub greeting_version: Arc<str>,
    /// The version as a number, for example 101106 or 80402.
    pub number: u32,
    /// The capability bits that every server's greeting carried (extended bits of MariaDB in the upper half).
    pub capabilities: u64,
    /// The default authentication plugin of the servers' greeting.
    pub auth_plugin: Arc<str>,
    /// The greeting's collation byte.
    pub collation: u8,
}

/// A snapshot of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Grows by one with each change.
    pub number: u64,
    /// Grows by one with each change of primary, for as long as this process lives. Knowledge from an older epoch may
    /// be out of date.
    pub epoch: u64,
    /// The cluster's name.
    pub cluster: Arc<str>,
    /// The server that takes writes, if there is exactly one and it is not down. A suspect one stays: it may be well,
    /// and no other server can do its work.
    pub primary: Option<ServerId>,
    /// A switchover is under way: new writes and new transactions must be held although the primary lives, while running
    /// statements and open transactions may end there.
    pub hold_writes: bool,
    /// The servers form a Galera group or an NDB cluster, and so many of them take writes. With [`Writers::All`] each of them has the role
    /// [`Role::Primary`], and `primary` is one of them.
    pub group: Option<Writers>,
    /// The servers work on the same data (NDB Cluster): what one has acknowledged, every other one finds at once.
    pub same_data: bool,
    /// All servers of the configuration.
    pub servers: Arc<[ServerView]>,
    /// The version and capabilities of the servers; `None` until one has answered.
    pub flavour: Option<Arc<Flavour>>,
    /// That is `None` since servers answer and refuse the monitor user: its account is not there, its password is another one.
    pub monitor_denied: bool,
}

impl ServerView {
    /// It is given up, or takes no sessions any more: no statement waits for it.
    pub fn is_lost(&self) -> bool {
        self.health == Health::Down || self.fenced
    }
}

impl View {
    /// The view before anything is known: nothing can be routed.
    pub fn empty(cluster: &str) -> View {
        View {
            number: 0,
            epoch: 0,
            cluster: cluster.into(),
            primary: None,
            hold_writes: false,
            group: None,
            same_data: false,
            servers: Arc::new([]),
            flavour: None,
            monitor_denied: false,
        }
    }

    /// The server with this identity.
    pub fn server(&self, id: ServerId) -> Option<&ServerView> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// Reads are shared among servers like this one; whether it is up is another question.
    pub fn takes_reads(&self, server: &ServerView) -> bool {
        let in_writers = self.group == Some(Writers::All) && server.role == Role::Primary;
        (server.role == Role::Replica || in_writers) && server.serves_reads && server.weight > 0
    }

    /// The server with this configured name.
    pub fn server_named(&self, name: &str) -> Option<&ServerView> {
        self.servers.iter().find(|server| &*server.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_given_once_and_end() {
        let ids = ServerIds::default();
        let other = ids.clone();
        assert_eq!([ids.next_id(), other.next_id(), ids.next_id()], [0, 1, 2].map(|id| Some(ServerId(id))));
        let last = std::iter::from_fn(|| ids.next_id()).last();
        assert_eq!(last, Some(ServerId(ServerId::NONE.0 - 1)));
        assert_eq!((ids.next_id(), other.next_id()), (None, None));
    }
}

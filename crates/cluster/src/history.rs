//! All that a server has, applied or only received: what candidates and servers that come back are compared by.

use std::fmt;

use facts::gtid::mariadb::{BinlogState, Gtid, Gtids};
use facts::gtid::mysql::GtidSet;

use crate::observation::{Channel, Facts, Replication};

/// The transactions of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum History {
    MariaDb(Lineage),
    MySql {
        /// The transactions that it has applied.
        applied: GtidSet,
        /// That, and what it received.
        received: GtidSet,
        /// Its `server_uuid`.
        origin: Box<str>,
    },
}

/// MariaDB tells the last of each domain, and of its binary log the last of each server in each domain. Within a stream the
/// numbers of a domain follow one another, so the last one that was received stands for those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    server: u32,
    /// The transactions that came by replication and are applied; of a server without channels, all that it has.
    applied: Gtids,
    /// That, and what was received.
    received: Gtids,
    /// The transactions that came by replication, be it long ago.
    replicated: Gtids,
    /// The transactions that it has written itself beyond that.
    own: Vec<Gtid>,
    /// The state of its binary log; empty when not reported.
    state: BinlogState,
}

/// The transactions that one server has and another lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// The last one of each server and domain, and the number up to which the other has that server's.
    MariaDb(Vec<(Gtid, u64)>),
    MySql(GtidSet),
}

impl History {
    /// Reads it from a server's report; `None` when that is no position.
    pub(crate) fn of(facts: &Facts) -> Option<History> {
        let channels: &[Channel] = match &facts.replication {
            Replication::Channels(channels) => channels,
            Replication::Unreadable(_) => &[],
        };
        if !facts.greeting.mariadb {
            let applied = GtidSet::parse(&facts.gtid_executed)?;
            let mut received = applied.clone();
            for channel in channels {
                received.add(&GtidSet::parse(&channel.gtid_received)?);
            }
            return Some(History::MySql { applied, received, origin: (*facts.details.server_uuid).into() });
        }
        let current = Gtids::parse(&facts.gtid_executed)?;
        let replicated = Gtids::parse(&facts.details.gtid_replicated)?;
        let mut applied = replicated.clone();
        let beyond =
            |applied: &Gtids, gtid: &Gtid| applied.of(gtid.domain).is_none_or(|last| last.sequence < gtid.sequence);
        let mut own = Vec::new();
        if channels.is_empty() || applied.is_empty() {
            applied.advance(&current);
        } else {
            own = current
                .iter()
                .filter(|gtid| gtid.server == facts.server_id && beyond(&applied, gtid))
                .copied()
                .collect();
        }
        let mut received = applied.clone();
        for channel in channels {
            received.advance(&Gtids::parse(&channel.gtid_received)?);
        }
        // A replica that does not log what it applies tells nothing by its log.
        let logs_all = channels.is_empty() || facts.details.log_replica_updates == Some(true);
        let state =
            if logs_all { BinlogState::parse(&facts.details.gtid_binlog_state)? } else { BinlogState::default() };
        Some(History::MariaDb(Lineage { server: facts.server_id, applied, received, replicated, own, state }))
    }

    /// The transactions that this server has, received included, and `base` lacks.
    pub(crate) fn beyond(&self, base: &History) -> Extra {
        match (self, base) {
            (History::MySql { received, .. }, History::MySql { received: base, .. }) => {
                Extra::MySql(received.without(base))
            }
            (History::MariaDb(here), History::MariaDb(base)) => {
                let known = here.received.iter().copied().chain(here.own.iter().copied()).chain(here.state.iter());
                let mut extra: Vec<Gtid> = known.filter(|gtid| !base.has(*gtid)).collect();
                extra.sort_by_key(|gtid| (gtid.domain, gtid.server, std::cmp::Reverse(gtid.sequence)));
                extra.dedup_by_key(|gtid| (gtid.domain, gtid.server));
                let from = |gtid: &Gtid| base.state.last(gtid.domain, gtid.server).unwrap_or(0);
                Extra::MariaDb(extra.into_iter().map(|gtid| (gtid, from(&gtid))).collect())
            }
            // Two families in one cluster: nothing can be compared, so all of it is too much.
            (History::MySql { received, .. }, _) => Extra::MySql(received.clone()),
            (History::MariaDb(here), _) => Extra::MariaDb(here.received.iter().map(|gtid| (*gtid, 0)).collect()),
        }
    }

    /// Splits `extra` into the part that began on this server itself, and the part that came from elsewhere.
    pub(crate) fn split(&self, extra: Extra) -> (Extra, Extra) {
        match (self, extra) {
            (History::MySql { origin, .. }, Extra::MySql(set)) => {
                let (own, others) = set.split_by_origin(origin);
                (Extra::MySql(own), Extra::MySql(others))
            }
            (History::MariaDb(here), Extra::MariaDb(gtids)) => {
                let (own, others) = gtids.into_iter().partition(|(gtid, _)| gtid.server == here.server);
                (Extra::MariaDb(own), Extra::MariaDb(others))
            }
            (_, extra @ Extra::MySql(_)) => (Extra::MySql(GtidSet::default()), extra),
            (_, extra @ Extra::MariaDb(_)) => (Extra::MariaDb(Vec::new()), extra),
        }
    }

    /// All that was received is applied.
    pub(crate) fn is_drained(&self) -> bool {
        match self {
            History::MySql { applied, received, .. } => applied.contains(received),
            History::MariaDb(here) => here.received == here.applied,
        }
    }

    /// The received transactions, as text that the server itself can wait for.
    pub(crate) fn received(&self) -> String {
        match self {
            History::MySql { received, .. } => received.to_string(),
            History::MariaDb(here) => here.received.to_string(),
        }
    }
}

impl Lineage {
    /// Whether it may have anything that this one's server wrote in its domain after that number.
    fn may_have_after(&self, gtid: Gtid, from: u64) -> bool {
        let same = |known: &&Gtid| (known.domain, known.server) == (gtid.domain, gtid.server);
        let known = self.received.iter().chain(&self.own).filter(same).map(|known| known.sequence).max();
        let logged = self.state.last(gtid.domain, gtid.server);
        // Of the transactions that are not applied yet, servers report only the last one.
        self.received != self.applied || known.max(logged).is_some_and(|last| last > from)
    }

    fn has(&self, gtid: Gtid) -> bool {
        let last = |gtids: &Gtids| gtids.of(gtid.domain);
        let number = |gtids: &Gtids| last(gtids).map_or(0, |last| last.sequence);
        let is_last = last(&self.received).is_some_and(|last| covers(last, gtid));
        // The part of the stream that the binary log does not know yet.
        let in_relay = (number(&self.applied) + 1..number(&self.received)).contains(&gtid.sequence);
        if is_last || in_relay || self.own.iter().any(|own| covers(*own, gtid)) {
            return true;
        }
        match self.state.last(gtid.domain, gtid.server) {
            Some(logged) => logged >= gtid.sequence,
            // It never logged anything of that server: that was before it was made from a copy, or its log is off. Then the
            // order within the domain has to do.
            None if self.state.is_empty() => gtid.sequence < number(&self.received),
            None => gtid.sequence < number(&self.replicated),
        }
    }
}

fn covers(last: Gtid, gtid: Gtid) -> bool {
    last.domain == gtid.domain && last.server == gtid.server && last.sequence >= gtid.sequence
}

impl Extra {
    /// Whether `other` has any of it.
    pub(crate) fn is_partly_in(&self, other: &History) -> bool {
        match (self, other) {
            (Extra::MariaDb(gtids), History::MariaDb(other)) => {
                gtids.iter().any(|(gtid, from)| other.may_have_after(*gtid, *from))
            }
            (Extra::MySql(set), History::MySql { received, .. }) => set.without(received) != *set,
            _ => false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Extra::MariaDb(gtids) => gtids.is_empty(),
            Extra::MySql(set) => set.is_empty(),
        }
    }

    /// It without another part of the same.
    pub(crate) fn except(self, other: &Extra) -> Extra {
        match (self, other) {
            (Extra::MariaDb(gtids), Extra::MariaDb(other)) => {
                Extra::MariaDb(gtids.into_iter().filter(|gtid| !other.contains(gtid)).collect())
            }
            (Extra::MySql(set), Extra::MySql(other)) => Extra::MySql(set.without(other)),
            (extra, _) => extra,
        }
    }

    /// The part of it that `other` lacks too.
    pub(crate) fn without(self, other: &History) -> Extra {
        match (self, other) {
            (Extra::MariaDb(gtids), History::MariaDb(other)) => {
                Extra::MariaDb(gtids.into_iter().filter(|(gtid, _)| !other.has(*gtid)).collect())
            }
            (Extra::MySql(set), History::MySql { received, .. }) => Extra::MySql(set.without(received)),
            (extra, _) => extra,
        }
    }
}

impl fmt::Display for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extra::MySql(set) => set.fmt(f),
            Extra::MariaDb(gtids) => {
                for (index, (gtid, _)) in gtids.iter().enumerate() {
                    write!(f, "{}up to {gtid}", if index > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

//! Positions in the stream of changes, of both families: what a session has written, and what a server has applied.
//!
//! MariaDB numbers transactions within a domain, and a server's position is the last number of each domain: who has
//! `0-1-100` has all of domain 0 up to 100, whichever server they came from. MySQL names each transaction by the server
//! that it began on, and a server's position is the set of all that it has; sets may have gaps.

pub mod mariadb;
pub mod mysql;

use mariadb::{Gtid, Gtids};
use mysql::GtidSet;

/// The writes of a session: the least that a server must have applied to show it its own writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenGtids {
    /// The last write in each domain.
    MariaDb(Gtids),
    /// The last writes, a bounded number of intervals of each server.
    MySql(GtidSet),
}

impl WrittenGtids {
    /// Reads a server's report of a commit: `last_gtid` of MariaDB, the GTID tracker of MySQL. `None` if it isn't that,
    /// or tells nothing.
    pub fn parse(mariadb: bool, text: &str) -> Option<WrittenGtids> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        Some(if mariadb {
            WrittenGtids::MariaDb(Gtids::parse(text)?)
        } else {
            WrittenGtids::MySql(GtidSet::parse(text)?)
        })
    }

    /// Takes a later write in. One of the other family, which a cluster cannot have, takes its place.
    /// On MySQL so many intervals of each server stay: the last ones, and the later write's.
    ///
    /// Gives back what counts no longer although its numbers are higher, for another server's word is taken for the newer one:
    /// who hears of writes of many sessions may hear of this one late.
    pub fn add(&mut self, later: WrittenGtids, intervals_max: usize) -> Option<WrittenGtids> {
        match (self, later) {
            (WrittenGtids::MariaDb(gtids), WrittenGtids::MariaDb(later)) => {
                let mut higher = Gtids::default();
                later.iter().filter_map(|gtid| gtids.wrote(*gtid)).for_each(|gtid| higher.advance_to(gtid));
                return (!higher.is_empty()).then_some(WrittenGtids::MariaDb(higher));
            }
            (WrittenGtids::MySql(set), WrittenGtids::MySql(later)) => {
                set.add(&later);
                set.keep_newest(intervals_max, &later);
            }
            (other, later) => *other = later,
        }
        None
    }

    /// Takes other writes in: of each domain the highest number counts, of any server.
    pub fn add_highest(&mut self, other: WrittenGtids) {
        match (self, other) {
            (WrittenGtids::MariaDb(gtids), WrittenGtids::MariaDb(other)) => gtids.advance(&other),
            (WrittenGtids::MySql(set), WrittenGtids::MySql(other)) => set.add(&other),
            (this, other) => *this = other,
        }
    }
}

/// The transactions that a server has applied, by its last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// MariaDB.
    MariaDb {
        /// `@@server_id`.
        server: u32,
        /// `@@gtid_slave_pos`: what came by replication.
        replicated: Gtids,
        /// `@@gtid_current_pos`: that, and what began here.
        current: Gtids,
    },
    /// MySQL: `@@gtid_executed`.
    MySql(GtidSet),
    /// A member of a Galera group: all that was written anywhere before it was asked. Only the moment tells more, see
    /// [`crate::positions::Position::asked`].
    Group,
}

impl Applied {
    /// Whether everything that was written is there.
    pub fn has(&self, written: &WrittenGtids) -> bool {
        match (self, written) {
            (Applied::MariaDb { .. }, WrittenGtids::MariaDb(gtids)) => gtids.iter().all(|gtid| self.has_gtid(*gtid)),
            (Applied::MySql(executed), WrittenGtids::MySql(set)) => executed.contains(set),
            _ => false,
        }
    }

    /// A transaction that began on a server counts as its own word; a replica's own write says nothing about the transactions
    /// of others that it has applied, although it may bear a higher number.
    fn has_gtid(&self, gtid: Gtid) -> bool {
        let Applied::MariaDb { server, replicated, current } = self else { return false };
        let own = || current.of(gtid.domain).is_some_and(|own| own.server == *server && own.sequence >= gtid.sequence);
        replicated.of(gtid.domain).is_some_and(|last| last.sequence >= gtid.sequence)
            || (gtid.server == *server && own())
    }

    /// The writes that a server with this position lacks, as text for the function by which a server waits for positions
    /// (`MASTER_GTID_WAIT`, `WAIT_FOR_EXECUTED_GTID_SET`). `None` if it lacks nothing, or cannot be asked.
    pub fn awaits<'a>(&self, written: impl Iterator<Item = &'a WrittenGtids>) -> Option<String> {
        let text = match self {
            Applied::MariaDb { .. } => {
                let mut lacking = Gtids::default();
                for written in written {
                    let WrittenGtids::MariaDb(gtids) = written else { return None };
                    gtids.iter().filter(|gtid| !self.has_gtid(**gtid)).for_each(|gtid| lacking.advance_to(*gtid));
                }
                lacking.to_string()
            }
            Applied::MySql(executed) => {
                let mut lacking = GtidSet::default();
                for written in written {
                    let WrittenGtids::MySql(set) = written else { return None };
                    lacking.add(&set.without(executed));
                }
                lacking.to_string()
            }
            Applied::Group => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    /// Whether everything that the other server had written by itself, and on MySQL all that it had, is here. A MariaDB server
    /// tells the last number of a domain only: what another one wrote there may have come behind a write of its own.
    pub fn has_all_written_on(&self, other: &Applied) -> bool {
        match (self, other) {
            (Applied::MariaDb { replicated: here, .. }, Applied::MariaDb { server, current, .. }) => {
                let counts = |gtid: &&Gtid| gtid.server == *server || here.of(gtid.domain).is_some();
                current.iter().filter(counts).all(|gtid| self.has_gtid(*gtid))
            }
            (Applied::MySql(here), Applied::MySql(there)) => here.contains(there),
            _ => false,
        }
    }

    /// Whether reads that move here from the other server do not go back in time. A MariaDB domain or a MySQL server
    /// of which this server has nothing at all is not replicated to it, and does not count.
    pub fn is_not_before(&self, other: &Applied) -> bool {
        match (self, other) {
            (Applied::MariaDb { replicated: here, .. }, Applied::MariaDb { replicated: there, .. }) => {
                self.has_all_written_on(other)
                    && there.iter().filter(|gtid| here.of(gtid.domain).is_some()).all(|gtid| self.has_gtid(*gtid))
            }
            (Applied::MySql(here), Applied::MySql(there)) => here.contains_of_shared_sources(there),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maria(server: u32, replicated: &str, current: &str) -> Applied {
        let gtids = |text| Gtids::parse(text).unwrap();
        Applied::MariaDb { server, replicated: gtids(replicated), current: gtids(current) }
    }

    fn wrote(text: &str) -> WrittenGtids {
        WrittenGtids::parse(true, text).unwrap()
    }

    #[test]
    fn a_replica_has_what_came_by_replication() {
        let replica = maria(2, "0-1-100,1-1-5", "0-1-100,1-1-5");
        assert!(replica.has(&wrote("0-1-100")) && replica.has(&wrote("0-1-99,1-1-5")));
        assert!(
            !replica.has(&wrote("0-1-101")) && !replica.has(&wrote("0-1-1,1-1-6")) && !replica.has(&wrote("2-1-1"))
        );
        assert!(replica.has(&wrote("0-7-100")), "of any server: numbers of a domain follow one another");
    }

    #[test]
    fn what_a_replica_wrote_by_itself_says_nothing_about_the_rest() {
        let replica = maria(2, "0-1-100", "0-2-500");
        assert!(!replica.has(&wrote("0-1-101")));
        assert!(replica.has(&wrote("0-2-500")) && !replica.has(&wrote("0-2-501")));
        let primary = maria(1, "", "0-1-100");
        assert!(primary.has(&wrote("0-1-100")));
        assert!(maria(2, "0-1-100", "0-2-500").has_all_written_on(&primary));
        assert!(!maria(2, "0-1-99", "0-1-99").has_all_written_on(&primary));
        let former = maria(1, "0-2-120", "0-2-120");
        assert!(!maria(3, "0-1-99", "0-1-99").has_all_written_on(&former), "its own writes are before that");
        assert!(maria(3, "0-2-120", "0-2-120").has_all_written_on(&former));
        assert!(maria(3, "0-1-99", "0-1-99").has_all_written_on(&maria(1, "7-9-1", "0-1-99,7-9-1")));
    }

    #[test]
    fn a_server_is_waited_for_by_what_it_lacks() {
        let replica = maria(2, "0-1-100,1-1-5", "0-1-100,1-1-5");
        let awaits = |texts: &[&str]| replica.awaits(texts.iter().map(|text| wrote(text)).collect::<Vec<_>>().iter());
        assert_eq!(awaits(&["0-1-100", "1-1-4"]), None, "it has them");
        assert_eq!(awaits(&["0-1-101,1-1-5"]).as_deref(), Some("0-1-101"));
        assert_eq!(
            awaits(&["0-1-103", "0-3-102,2-1-1"]).as_deref(),
            Some("0-1-103,2-1-1"),
            "the last one of each domain"
        );
        const UUID: &str = "6aa342cb-e4ff-11f1-87a0-02fc00000001";
        let set = |text: &str| GtidSet::parse(&format!("{UUID}:{text}")).unwrap();
        let (replica, written) =
            (Applied::MySql(set("1-7")), [set("6-8"), set("10"), set("3")].map(WrittenGtids::MySql));
        assert_eq!(replica.awaits(written.iter()), Some(format!("{UUID}:8:10")));
        assert_eq!(replica.awaits([wrote("0-1-1")].iter()), None, "of the other family");
        assert_eq!(Applied::Group.awaits(written.iter()), None);
    }

    #[test]
    fn reads_do_not_go_back() {
        let (fresh, stale) = (maria(2, "0-1-100", "0-1-100"), maria(3, "0-1-90", "0-1-90"));
        assert!(fresh.is_not_before(&stale) && !stale.is_not_before(&fresh));
        let primary = maria(1, "", "0-1-95");
        assert!(fresh.is_not_before(&primary) && !stale.is_not_before(&primary));
        let other_domain = maria(4, "0-1-100,7-9-1", "0-1-100,7-9-1");
        assert!(fresh.is_not_before(&other_domain), "what is not replicated here does not count");
    }

    #[test]
    fn the_last_write_of_each_domain_counts() {
        let mut written = wrote("0-1-100");
        written.add(wrote("1-1-7"), 8);
        written.add(wrote("0-1-102"), 8);
        assert_eq!(written.add(wrote("0-1-101"), 8), None);
        assert_eq!(written, wrote("0-1-102,1-1-7"), "one that is told late is no step back");
        assert_eq!(written.add(wrote("0-2-50"), 8), Some(wrote("0-1-102")));
        assert_eq!(written, wrote("0-2-50,1-1-7"), "another primary may have lost some: the newest word counts");
    }

    #[test]
    fn families_do_not_mix_and_nonsense_is_nothing() {
        assert_eq!(WrittenGtids::parse(true, ""), None);
        assert_eq!(WrittenGtids::parse(false, " "), None);
        assert_eq!(WrittenGtids::parse(true, "6aa342cb-e4ff-11f1-87a0-02fc00000001:1"), None);
        assert_eq!(WrittenGtids::parse(false, "0-1-1"), None);
        let mysql = WrittenGtids::parse(false, "6aa342cb-e4ff-11f1-87a0-02fc00000001:1").unwrap();
        assert!(!maria(1, "0-1-9", "0-1-9").has(&mysql));
        assert!(!Applied::MySql(GtidSet::default()).has(&wrote("0-1-1")));
    }
}

//! Where in the log a stream is, by GTID.

use facts::changes::Gtid;
use facts::gtid::mariadb::Gtids;
use facts::gtid::mysql::GtidSet;

/// The transactions that have been reported, or that a server has logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    MariaDb(Gtids),
    /// Without what has tags: the stream does not tell those.
    MySql(GtidSet),
}

impl Position {
    /// Reads what a server says of itself: the position, and whether there are transactions with tags.
    pub(super) fn parse(mariadb: bool, text: &str) -> Option<(Position, bool)> {
        if mariadb {
            return Some((Position::MariaDb(Gtids::parse(text)?), false));
        }
        let all = GtidSet::parse(text)?;
        let untagged = all.untagged();
        let tagged = untagged != all;
        Some((Position::MySql(untagged), tagged))
    }

    /// As servers write it, cut off where it is long.
    pub(super) fn shown(&self) -> String {
        /// Sets of a cluster with a long history have many parts.
        const CHARACTERS_MAX: usize = 200;
        let whole = match self {
            Position::MariaDb(gtids) => gtids.to_string(),
            Position::MySql(set) => set.to_string(),
        };
        match whole.char_indices().nth(CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", whole.get(..end).unwrap_or_default()),
            None => whole,
        }
    }

    /// Takes the next transaction in.
    pub(super) fn add(&mut self, gtid: Gtid) {
        match (self, gtid) {
            (Position::MariaDb(gtids), Gtid::MariaDb(domain, server, sequence)) => {
                gtids.passed(facts::gtid::mariadb::Gtid { domain, server, sequence });
            }
            (Position::MySql(set), Gtid::MySql(source, number)) => set.add_one(u128::from_be_bytes(source), number),
            _ => {}
        }
    }

    /// Whether all of `other` has been reported.
    pub(super) fn covers(&self, other: &Position) -> bool {
        match (self, other) {
            (Position::MariaDb(own), Position::MariaDb(other)) => {
                other.iter().all(|gtid| own.of(gtid.domain).is_some_and(|known| known.sequence >= gtid.sequence))
            }
            (Position::MySql(own), Position::MySql(other)) => own.contains(other),
            _ => false,
        }
    }
}

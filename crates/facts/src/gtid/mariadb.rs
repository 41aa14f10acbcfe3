//! MariaDB's GTIDs: `domain-server-sequence`, and lists of the last one of each domain.
//!
//! Source: MariaDB's documentation "Global Transaction ID".

use std::collections::BTreeMap;
use std::fmt;

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gtid {
    /// `gtid_domain_id`: a stream whose numbers follow one another.
    pub domain: u32,
    /// `server_id` of the server that it began on.
    pub server: u32,
    /// Its number within the domain.
    pub sequence: u64,
}

impl Gtid {
    fn parse(text: &str) -> Option<Gtid> {
        let (domain, rest) = number(text.trim().as_bytes())?;
        let (server, rest) = number(rest.strip_prefix(b"-")?)?;
        let (sequence, rest) = number(rest.strip_prefix(b"-")?)?;
        let gtid = Gtid { domain: domain.try_into().ok()?, server: server.try_into().ok()?, sequence };
        rest.is_empty().then_some(gtid)
    }
}

/// The number that a text begins with, and the text behind it. Each commit on MariaDB tells a GTID, so this reads bytes and not
/// patterns.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let add = |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let number = digits.iter().try_fold(0, add)?;
    (!digits.is_empty()).then_some((number, rest))
}

/// The last transaction of each domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gtids(Vec<Gtid>);

impl Gtids {
    /// Reads `0-1-100,1-2-7`. Of a domain that stands there twice the last one counts. `None` if it isn't such a list.
    pub fn parse(text: &str) -> Option<Gtids> {
        let mut gtids = Gtids::default();
        if text.trim().is_empty() {
            return Some(gtids);
        }
        for part in text.split(',') {
            gtids.put(Gtid::parse(part)?);
        }
        Some(gtids)
    }

    /// The last one of a domain.
    pub fn of(&self, domain: u32) -> Option<Gtid> {
        self.0.binary_search_by_key(&domain, |gtid| gtid.domain).ok().map(|index| self.0[index])
    }

    /// All, by domain.
    pub fn iter(&self) -> impl Iterator<Item = &Gtid> {
        self.0.iter()
    }

    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the later one of each domain.
    pub fn advance(&mut self, other: &Gtids) {
        other.iter().for_each(|gtid| self.advance_to(*gtid));
    }

    /// Takes it if it is the later one of its domain.
    pub fn advance_to(&mut self, gtid: Gtid) {
        if self.of(gtid.domain).is_none_or(|known| known.sequence < gtid.sequence) {
            self.put(gtid);
        }
    }

    /// A log was read up to this one, whatever its number.
    pub fn passed(&mut self, gtid: Gtid) {
        self.put(gtid);
    }

    fn put(&mut self, gtid: Gtid) {
        match self.0.binary_search_by_key(&gtid.domain, |known| known.domain) {
            Ok(index) => self.0[index] = gtid,
            Err(index) => self.0.insert(index, gtid),
        }
    }

    /// A session wrote this. Of one server the highest number counts, for what it tells may come late; the word of another
    /// server is newer: it is the primary now, and may have lost some numbers. Gives back what has a higher number nevertheless.
    pub(super) fn wrote(&mut self, gtid: Gtid) -> Option<Gtid> {
        let known = self.of(gtid.domain);
        if known.is_none_or(|known| known.server != gtid.server || known.sequence < gtid.sequence) {
            self.put(gtid);
        }
        known.filter(|known| known.server != gtid.server && known.sequence > gtid.sequence)
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl fmt::Display for Gtids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, gtid) in self.0.iter().enumerate() {
            write!(f, "{}{gtid}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// The last transaction of each server in each domain, as `@@gtid_binlog_state` lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinlogState(BTreeMap<(u32, u32), u64>);

impl BinlogState {
    /// Reads the variable. `None` if it isn't such a list.
    pub fn parse(text: &str) -> Option<BinlogState> {
        let mut state = BinlogState::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let gtid = Gtid::parse(part)?;
            let last = state.0.entry((gtid.domain, gtid.server)).or_default();
            *last = gtid.sequence.max(*last);
        }
        Some(state)
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last number of a server in a domain; `None` if the log never had any.
    pub fn last(&self, domain: u32, server: u32) -> Option<u64> {
        self.0.get(&(domain, server)).copied()
    }

    /// The last of each server in each domain.
    pub fn iter(&self) -> impl Iterator<Item = Gtid> {
        self.0.iter().map(|((domain, server), sequence)| Gtid { domain: *domain, server: *server, sequence: *sequence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let gtids = Gtids::parse("10-2-7, 0-1-100").unwrap();
        assert_eq!(gtids.of(10), Some(Gtid { domain: 10, server: 2, sequence: 7 }));
        assert_eq!(gtids.of(0).map(|gtid| gtid.sequence), Some(100));
        assert_eq!(gtids.of(1), None);
        assert_eq!(Gtids::parse(" ").map(|gtids| gtids.iter().count()), Some(0));
        for bad in
            ["0-1", "0-1-2-3", "0-1-x", "-1-2", "0-1-+2", "4294967296-1-1", "0-1-18446744073709551616", "0-1-1,,"]
        {
            assert_eq!(Gtids::parse(bad), None, "{bad}");
        }
    }
}

//! After a round: what clients were told, against what the servers have.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lab::Server;

use crate::load::ledger::{End, Ledger, Work, Write};
use crate::load::table::TOKENS_MAX;
use crate::world::World;

/// Longest wait for replicas to have what the primary has.
const EQUAL_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);
/// Tokens that a violation names.
const NAMED_MAX: usize = 5;

/// The findings of a check.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) lost: u64,
    pub(crate) duplicates: u64,
    pub(crate) unknown: u64,
    pub(crate) unknown_done: u64,
    pub(crate) other_ids: u64,
    pub(crate) notes: Vec<String>,
    pub(crate) violations: Vec<String>,
}

/// The rows of a server.
struct Rows {
    keyed: HashSet<i64>,
    /// Ids by token.
    counted: HashMap<i64, Vec<u64>>,
    moved: HashMap<i64, u64>,
    balance: HashMap<i64, u64>,
}

impl Rows {
    fn read(server: &Server) -> anyhow::Result<Rows> {
        let pairs = |sql: &str| -> anyhow::Result<Vec<(i64, u64)>> {
            let text = server.sql(sql)?;
            let pair = |line: &str| {
                let (one, two) = line.split_once('\t')?;
                Some((one.parse().ok()?, two.parse().ok()?))
            };
            text.lines().map(|line| pair(line).with_context(|| format!("{sql} gives {line:?}"))).collect()
        };
        let keyed = pairs("SELECT token, 1 FROM app.keyed")?.into_iter().map(|(token, _)| token).collect();
        let mut counted: HashMap<i64, Vec<u64>> = HashMap::new();
        for (token, id) in pairs("SELECT token, id FROM app.counted")? {
            counted.entry(token).or_default().push(id);
        }
        let moved = pairs("SELECT token, COUNT(*) FROM app.moved GROUP BY token")?.into_iter().collect();
        let balance = pairs("SELECT client, n FROM app.balance")?.into_iter().collect();
        Ok(Rows { keyed, counted, moved, balance })
    }

    /// How often a write is there.
    fn count(&self, write: &Write) -> u64 {
        match write.work {
            Work::Keyed => u64::from(self.keyed.contains(&write.token)),
            Work::Counted => self.counted.get(&write.token).map_or(0, |ids| ids.len() as u64),
            Work::Moved => self.moved.get(&write.token).copied().unwrap_or(0),
            Work::Read => 0,
        }
    }
}

/// Compares everything. `settled_ms` is when a new primary took writes, or when harm was done if none was made; `followers` are the
/// servers that should have what the primary has.
///
/// # Errors
/// The primary cannot be read.
pub(crate) fn all(
    world: &World,
    primary: usize,
    followers: &[usize],
    ledger: &Ledger,
    settled_ms: f64,
) -> anyhow::Result<Checked> {
    let rows = Rows::read(world.server(primary))?;
    let mut checked = Checked::default();
    checked.compare(ledger, &rows);
    checked.balances(&rows);
    for (index, server) in world.all().iter().enumerate() {
        let name = format!("db{}", index + 1);
        if index == primary || !server.is_running() {
            continue;
        }
        if followers.contains(&index) {
            if !becomes_equal(world, primary, index)? {
                checked.violations.push(format!("{name} does not become equal to the primary"));
            }
        } else {
            checked.notes.push(format!("{name} is no replica"));
        }
        checked.strays(ledger, &rows, &Rows::read(server)?, &name, settled_ms);
    }
    Ok(checked)
}

impl Checked {
    fn compare(&mut self, ledger: &Ledger, rows: &Rows) {
        let (mut lost, mut twice, mut denied) = (Vec::new(), Vec::new(), Vec::new());
        for write in &ledger.writes {
            let count = rows.count(write);
            if count > 1 {
                twice.push(write.token);
            }
            match write.end {
                End::Acknowledged { .. } if count == 0 => lost.push(write.token),
                End::Acknowledged { id } if write.work == Work::Counted => {
                    let same = rows.counted.get(&write.token).is_some_and(|ids| ids.contains(&id));
                    self.other_ids += u64::from(!same);
                }
                End::Acknowledged { .. } => {}
                End::Unknown => {
                    self.unknown += 1;
                    self.unknown_done += count.min(1);
                }
                End::Refused if count > 0 => denied.push(write.token),
                End::Refused => {}
            }
        }
        (self.lost, self.duplicates) = (lost.len() as u64, twice.len() as u64);
        self.violation("acknowledged writes are lost", &lost);
        self.violation("writes are done twice", &twice);
        self.violation("writes are done although the client was told that they are not", &denied);
        if self.other_ids > 0 {
            self.notes.push(format!("{} ids are not the ones that clients were told", self.other_ids));
        }
    }

    /// Each transaction inserts one row and adds one to its client's balance: all or nothing, once.
    fn balances(&mut self, rows: &Rows) {
        let mut moved: HashMap<i64, u64> = HashMap::new();
        for (token, count) in &rows.moved {
            *moved.entry(token / TOKENS_MAX).or_default() += count;
        }
        let torn = |(client, n): (&i64, &u64)| (moved.get(client).copied().unwrap_or(0) != *n).then_some(*client);
        let torn: Vec<i64> = rows.balance.iter().filter_map(torn).collect();
        self.violation("clients have transactions that are done by half", &torn);
    }

    /// Rows that another server has and the primary lacks.
    fn strays(&mut self, ledger: &Ledger, rows: &Rows, others: &Rows, name: &str, settled_ms: f64) {
        let extra: Vec<&Write> =
            ledger.writes.iter().filter(|write| others.count(write) > 0 && rows.count(write) == 0).collect();
        if extra.is_empty() {
            return;
        }
        self.notes.push(format!("{name} has {} rows that nobody was promised", extra.len()));
        let late: Vec<i64> =
            extra.iter().filter(|write| write.began_ms > settled_ms).map(|write| write.token).collect();
        self.violation(&format!("writes went to {name} beside the primary"), &late);
    }

    fn violation(&mut self, what: &str, tokens: &[i64]) {
        if tokens.is_empty() {
            return;
        }
        let named: Vec<String> = tokens.iter().take(NAMED_MAX).map(i64::to_string).collect();
        let more = if tokens.len() > NAMED_MAX { ", …" } else { "" };
        self.violations.push(format!("{} {what}: {}{more}", tokens.len(), named.join(", ")));
    }
}

fn becomes_equal(world: &World, primary: usize, other: usize) -> anyhow::Result<bool> {
    let deadline = Instant::now() + EQUAL_LIMIT;
    loop {
        // A server that is just being set up may refuse for a moment.
        if world.checksum(other).is_ok_and(|sum| world.checksum(primary).is_ok_and(|wanted| wanted == sum)) {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(token: i64, work: Work, began_ms: f64, end: End) -> Write {
        Write { token, work, began_ms, ended_ms: began_ms + 1.0, end }
    }

    fn rows(keyed: &[i64], counted: &[(i64, &[u64])], moved: &[(i64, u64)], balance: &[(i64, u64)]) -> Rows {
        Rows {
            keyed: keyed.iter().copied().collect(),
            counted: counted.iter().map(|(token, ids)| (*token, ids.to_vec())).collect(),
            moved: moved.iter().copied().collect(),
            balance: balance.iter().copied().collect(),
        }
    }

    #[test]
    fn every_kind_of_harm_is_found() {
        let reported = |id| End::Acknowledged { id };
        let ledger = Ledger {
            writes: vec![
                write(1, Work::Keyed, 0.0, reported(0)),
                write(2, Work::Keyed, 0.0, reported(0)),
                write(3, Work::Counted, 0.0, reported(30)),
                write(4, Work::Counted, 0.0, reported(40)),
                write(5, Work::Moved, 0.0, reported(0)),
                write(6, Work::Keyed, 0.0, End::Unknown),
                write(7, Work::Keyed, 0.0, End::Unknown),
                write(8, Work::Keyed, 0.0, End::Refused),
            ],
            ..Ledger::default()
        };
        let mut checked = Checked::default();
        checked.compare(&ledger, &rows(&[1, 6, 8], &[(3, &[30, 31]), (4, &[41])], &[(5, 1)], &[]));
        assert_eq!((checked.lost, checked.duplicates, checked.other_ids), (1, 1, 1));
        assert_eq!((checked.unknown, checked.unknown_done), (2, 1));
        let expected = [
            "1 acknowledged writes are lost: 2",
            "1 writes are done twice: 3",
            "1 writes are done although the client was told that they are not: 8",
        ];
        assert_eq!(checked.violations, expected);
    }

    #[test]
    fn half_a_transaction_is_found() {
        let token = 2 * TOKENS_MAX + 1;
        let mut checked = Checked::default();
        checked.balances(&rows(&[], &[], &[(token, 1)], &[(2, 1), (3, 0)]));
        assert_eq!(checked.violations, [""; 0]);
        checked.balances(&rows(&[], &[], &[(token, 1)], &[(2, 2), (3, 0)]));
        assert_eq!(checked.violations, ["1 clients have transactions that are done by half: 2"]);
    }

    #[test]
    fn a_second_writable_server_is_found_by_what_was_begun_late() {
        let early = write(1, Work::Keyed, 10.0, End::Unknown);
        let late = write(2, Work::Keyed, 90.0, End::Unknown);
        let none = rows(&[], &[], &[], &[]);
        let mut checked = Checked::default();
        let mut ledger = Ledger { writes: vec![early], ..Ledger::default() };
        checked.strays(&ledger, &none, &rows(&[1, 2], &[], &[], &[]), "db1", 50.0);
        assert_eq!((checked.notes.len(), checked.violations.len()), (1, 0));
        ledger.writes.push(late);
        checked.strays(&ledger, &none, &rows(&[1, 2], &[], &[], &[]), "db1", 50.0);
        assert_eq!(checked.violations, ["1 writes went to db1 beside the primary: 2"]);
    }
}

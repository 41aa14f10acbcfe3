//! When is a change that the log tells of seen by sessions? Servers log it first, and commit it in the engine afterwards: with semi-synchronous
//! replication as much later as a replica takes to confirm it.
//!
//! - MySQL puts a transaction into `gtid_executed` behind its commit in the engine.
//! - MariaDB tells as `binlog_snapshot_file` and `_position` up to where its log is committed, in the log's order. The two are read together but
//!   change one by one: when the log goes on in another file, the file is that one at once, while the position may still be that of a
//!   transaction which ended in the file before. So such a position proves nothing of the new file.

use std::collections::VecDeque;

use facts::changes::Gtid;
use facts::gtid::mysql::GtidSet;
use wire::binlog::position::LogPosition;

use super::position::Position;

/// The transactions that sessions on the primary see, as the server reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VisiblePosition {
    /// The transactions that have no tags.
    MySql(GtidSet),
    /// All in this file, up to this offset, and in the files before it.
    MariaDb { file: Vec<u8>, end: u64 },
}

impl VisiblePosition {
    /// Reads `binlog_snapshot_file` and `binlog_snapshot_position`, with a blank between them.
    pub(super) fn parse(text: &str) -> Option<VisiblePosition> {
        let (file, end) = text.rsplit_once(' ')?;
        Some(VisiblePosition::MariaDb { file: file.as_bytes().to_vec(), end: end.parse().ok()? })
    }
}

/// A change in the binary log.
#[derive(Clone, Copy, Debug)]
struct One {
    gtid: Gtid,
    file: u64,
    end: u64,
}

/// The changes of one stream that were reported and are not known to be visible.
#[derive(Debug)]
pub(super) struct Hidden {
    waiting: VecDeque<One>,
    /// All that was logged before the stream began is visible.
    begun: bool,
    /// The server's report when the stream began: the steps before it are not known.
    at_first: VisiblePosition,
    /// Where changes ended that were waiting when the log went on in another file.
    left_behind: Vec<u64>,
    /// The file of the last change, and where its first one ended.
    newest: Option<(u64, u64)>,
}

impl Hidden {
    /// A stream begins where the server said this.
    pub(super) fn new(at_first: VisiblePosition) -> Hidden {
        // A transaction that MySQL calls executed is visible.
        let begun = matches!(at_first, VisiblePosition::MySql(_));
        Hidden { waiting: VecDeque::new(), begun, at_first, left_behind: Vec::new(), newest: None }
    }

    /// Whether all that was logged before the stream began is visible.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The binary log has this change; it ends at `log`.
    pub(super) fn logged(&mut self, gtid: Gtid, log: &LogPosition) {
        if self.newest.is_none_or(|(file, _)| file != log.file) {
            self.left_behind.extend(self.waiting.iter().map(|one| one.end));
            self.newest = Some((log.file, log.end));
        }
        self.waiting.push_back(One { gtid, file: log.file, end: log.end });
    }

    /// The server says what can be seen, and has sent its log up to `log`; `idle`: there was nothing more then. Takes out what is visible, the
    /// oldest first, adds it to `settled`, and gives how many.
    pub(super) fn settle(
        &mut self,
        seen: &VisiblePosition,
        log: &LogPosition,
        idle: bool,
        settled: &mut Position,
    ) -> usize {
        let visible = match seen {
            VisiblePosition::MySql(executed) => {
                let is_in = |one: &One| match one.gtid {
                    Gtid::MySql(source, number) => executed.has(u128::from_be_bytes(source), number),
                    _ => false,
                };
                // One without a name is as visible as the next one that has one: servers commit in the order of the log.
                let up_to = self.waiting.iter().take_while(|one| one.gtid == Gtid::Unknown || is_in(one)).count();
                (0..up_to).rev().find(|at| is_in(&self.waiting[*at])).map_or(0, |last| last + 1)
            }
            VisiblePosition::MariaDb { file, end } => {
                if *file != log.name {
                    return 0;
                }
                self.up_to(seen, *end, log, idle)
            }
        };
        for one in self.waiting.drain(..visible) {
            settled.add(one.gtid);
        }
        visible
    }

    /// How many changes are visible if MariaDB reports `end` of the file of `log`.
    fn up_to(&mut self, seen: &VisiblePosition, end: u64, log: &LogPosition, idle: bool) -> usize {
        let reported_here = self.newest.is_some_and(|(file, first_end)| file == log.file && first_end <= end);
        let is_sure = reported_here && *seen != self.at_first && !self.left_behind.contains(&end);
        if is_sure {
            self.begun = true;
            let visible = self.waiting.partition_point(|one| one.file < log.file || one.end <= end);
            if self.waiting.iter().skip(visible).all(|one| one.file == log.file) {
                self.left_behind.clear();
            }
            return visible;
        }
        // Nothing is behind what can be seen.
        if idle && end == log.end && self.waiting.is_empty() {
            self.begun = true;
        }
        // The position is of a file before this one, or it may be: it says so much of that.
        match self.left_behind.contains(&end) {
            true => {
                let older = self.waiting.partition_point(|one| one.file < log.file);
                let last = self.waiting.iter().take(older).rposition(|one| one.end == end);
                last.map_or(0, |last| last + 1)
            }
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use facts::gtid::mariadb::Gtids;

    use super::*;

    fn mariadb(file: &str, end: u64) -> VisiblePosition {
        VisiblePosition::parse(&format!("{file} {end}")).unwrap()
    }

    fn log(file: u64, name: &str, end: u64) -> LogPosition {
        let mut log = LogPosition::default();
        (log.file, log.name, log.end) = (file, name.into(), end);
        log
    }

    fn gtid(number: u64) -> Gtid {
        Gtid::MariaDb(0, 1, number)
    }

    #[test]
    fn what_is_committed_behind_the_first_word_is_visible_up_to_there() {
        let mut hidden = Hidden::new(mariadb("a", 300));
        let mut settled = Position::MariaDb(Gtids::default());
        let here = log(1, "a", 500);
        hidden.logged(gtid(7), &log(1, "a", 400));
        hidden.logged(gtid(8), &here);
        assert!(!hidden.has_begun());
        assert_eq!(hidden.settle(&mariadb("a", 300), &here, false, &mut settled), 0);
        assert_eq!(hidden.settle(&mariadb("a", 400), &here, false, &mut settled), 1);
        assert!(hidden.has_begun() && hidden.len() == 1);
        assert_eq!(settled, Position::MariaDb(Gtids::parse("0-1-7").unwrap()));
        // It is ahead of the reports.
        assert_eq!(hidden.settle(&mariadb("a", 900), &here, false, &mut settled), 1);
        assert_eq!(hidden.len(), 0);
    }

    #[test]
    fn a_quiet_server_has_begun_when_its_log_has_no_more() {
        let mut hidden = Hidden::new(mariadb("a", 300));
        let mut settled = Position::MariaDb(Gtids::default());
        assert_eq!(hidden.settle(&mariadb("a", 300), &log(1, "a", 300), false, &mut settled), 0);
        assert_eq!(hidden.settle(&mariadb("a", 300), &log(1, "a", 500), true, &mut settled), 0);
        assert!(!hidden.has_begun());
        assert_eq!(hidden.settle(&mariadb("a", 300), &log(1, "a", 300), true, &mut settled), 0);
        assert!(hidden.has_begun());
    }

    #[test]
    fn a_position_of_the_file_before_proves_nothing_of_this_one() {
        let mut hidden = Hidden::new(mariadb("a", 300));
        let mut settled = Position::MariaDb(Gtids::default());
        hidden.logged(gtid(7), &log(1, "a", 794));
        // The log goes on elsewhere while 7 waits for a replica; so does 8.
        assert_eq!(hidden.settle(&mariadb("b", 336), &log(2, "b", 336), true, &mut settled), 0);
        let here = log(2, "b", 600);
        hidden.logged(gtid(8), &here);
        assert_eq!(hidden.settle(&mariadb("b", 336), &here, true, &mut settled), 0);
        // 7 is committed: the file is the new one, the position is not.
        assert_eq!(hidden.settle(&mariadb("b", 794), &here, true, &mut settled), 1);
        assert_eq!(hidden.settle(&mariadb("b", 794), &here, true, &mut settled), 0);
        assert_eq!(hidden.settle(&mariadb("b", 600), &here, true, &mut settled), 1);
        // From now on it may be true.
        hidden.logged(gtid(9), &log(2, "b", 794));
        assert_eq!(hidden.settle(&mariadb("b", 794), &log(2, "b", 794), false, &mut settled), 1);
        assert_eq!(settled, Position::MariaDb(Gtids::parse("0-1-9").unwrap()));
    }

    #[test]
    fn mysql_names_what_is_visible() {
        let seen = |text: &str| VisiblePosition::MySql(GtidSet::parse(text).unwrap());
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let source = 0x3e11_fa47_71ca_11e1_9e33_c80a_a942_9562_u128.to_be_bytes();
        let mut hidden = Hidden::new(seen(""));
        let mut settled = Position::MySql(GtidSet::default());
        let here = log(1, "a", 9);
        assert!(hidden.has_begun());
        for gtid in [Gtid::MySql(source, 5), Gtid::Unknown, Gtid::MySql(source, 4), Gtid::Unknown] {
            hidden.logged(gtid, &here);
        }
        assert_eq!(hidden.settle(&seen(&format!("{uuid}:1-3")), &here, true, &mut settled), 0);
        assert_eq!(hidden.settle(&seen(&format!("{uuid}:1-3:5")), &here, true, &mut settled), 1);
        assert_eq!(hidden.settle(&seen(&format!("{uuid}:1-5")), &here, true, &mut settled), 2);
        assert_eq!(settled, Position::MySql(GtidSet::parse(&format!("{uuid}:4-5")).unwrap()));
        // The last one is unknown.
        assert_eq!(hidden.settle(&seen(&format!("{uuid}:1-9")), &here, true, &mut settled), 0);
        assert_eq!(hidden.len(), 1);
    }
}

//! The figures of a round, and how they are reckoned.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::check::Checked;
use crate::journal::Times;
use crate::load::ledger::Ledger;

/// Acknowledgements that come this long before the harm still begin an outage, milliseconds.
const BEFORE_MS: f64 = 1_000.0;

/// The figures of one round. Times are milliseconds since the harm.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Round {
    pub(crate) scenario: String,
    pub(crate) round: u32,
    /// Until it was decided that another primary is needed.
    pub(crate) detection_ms: Option<f64>,
    /// From there until the new primary took writes.
    pub(crate) promotion_ms: Option<f64>,
    /// Until writes were acknowledged again.
    pub(crate) first_write_ms: Option<f64>,
    /// The time without an acknowledged write, of all clients together, that the promotion ended; without a promotion the
    /// longest one.
    pub(crate) outage_ms: Option<f64>,
    /// The longest wait of one client for one statement.
    pub(crate) stall_ms: f64,
    /// When that ended.
    pub(crate) stall_at_ms: f64,
    /// The kind of transaction of that statement.
    pub(crate) stall_of: String,
    /// How long a Galera group itself stood still: the longest write directly on a member.
    pub(crate) standstill_ms: Option<f64>,
    /// By how much a client's longest wait exceeds that, in the part of the harm where it does most.
    pub(crate) added_ms: Option<f64>,
    /// The slowest statement before the harm.
    pub(crate) calm_ms: f64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// One message of each kind of error.
    pub(crate) messages: BTreeMap<String, String>,
    pub(crate) reconnects: u64,
    /// Writes.
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_per_s: f64,
    pub(crate) lost: u64,
    pub(crate) duplicates: u64,
    /// Writes whose client does not know whether they are done, and how many of them are.
    pub(crate) unknown: u64,
    pub(crate) unknown_done: u64,
    /// AUTO_INCREMENT ids that are not the ones the client was told.
    pub(crate) other_ids: u64,
    pub(crate) reads: u64,
    pub(crate) idle: u64,
    pub(crate) idle_harmed: u64,
    /// The oldest answer of a reader that wrote nothing.
    pub(crate) oldest_read_ms: Option<f64>,
    /// The primary at the end.
    pub(crate) primary: String,
    /// Diagnoses that stood at some time.
    pub(crate) diagnoses: BTreeSet<String>,
    /// Further notes.
    pub(crate) notes: Vec<String>,
    /// Faults: nothing of this kind may be.
    pub(crate) violations: Vec<String>,
}

impl Round {
    /// Takes what clients wrote down. Harm was done at `event_ms`, and a new primary was made at `promoted_ms`.
    pub(crate) fn count(&mut self, ledger: Ledger, event_ms: f64, promoted_ms: Option<f64>) {
        let times = ledger.acknowledged_ms();
        self.acknowledged = times.len() as u64;
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            self.acknowledged_per_s = self.acknowledged as f64 * 1e3 / (last - first).max(1.0);
        }
        match promoted_ms {
            Some(promoted) => {
                if let Some((gap, end)) = gap_around(&times, promoted) {
                    (self.outage_ms, self.first_write_ms) = (Some(gap), Some(end - event_ms));
                }
            }
            None => self.outage_ms = longest_gap(&times, event_ms),
        }
        for slow in &ledger.slow {
            let took = slow.ended_ms - slow.began_ms;
            if slow.ended_ms < event_ms {
                self.calm_ms = self.calm_ms.max(took);
            } else if took > self.stall_ms {
                (self.stall_ms, self.stall_at_ms) = (took, slow.ended_ms - event_ms);
                self.stall_of = slow.work.word().to_owned();
            }
        }
        if ledger.age_reads > 0 {
            self.oldest_read_ms = Some(ledger.oldest_ms);
        }
        if ledger.blind_reads > 0 {
            self.violations.push(format!("{} reads did not see what their session had written", ledger.blind_reads));
        }
        if ledger.idle_harmed > 0 {
            self.violations.push(format!("{} of {} idle sessions were harmed", ledger.idle_harmed, ledger.idle));
        }
        (self.reads, self.reconnects) = (ledger.reads, ledger.reconnects);
        (self.idle, self.idle_harmed) = (ledger.idle, ledger.idle_harmed);
        (self.errors, self.messages) = (ledger.errors, ledger.messages);
    }

    /// Compares clients' waits with those of the writer beside Sqluice, each part of the harm for itself; `parts` are their beginnings.
    pub(crate) fn compare(&mut self, ledger: &Ledger, parts: &[f64]) {
        if ledger.beside.is_empty() {
            return;
        }
        let longest = |spans: &mut dyn Iterator<Item = (f64, f64)>, from: f64, to: f64| {
            let within = spans.filter(|(_, end)| (from..to).contains(end));
            within.map(|(begin, end)| end - begin).fold(0.0, f64::max)
        };
        let ends = parts.iter().skip(1).copied().chain([f64::INFINITY]);
        for (from, to) in parts.iter().copied().zip(ends) {
            let stood = longest(&mut ledger.beside.iter().copied(), from, to);
            let waited = longest(&mut ledger.slow.iter().map(|slow| (slow.began_ms, slow.ended_ms)), from, to);
            self.standstill_ms = Some(self.standstill_ms.unwrap_or_default().max(stood));
            self.added_ms = Some(self.added_ms.unwrap_or(f64::NEG_INFINITY).max(waited - stood));
            if parts.len() > 1 {
                self.notes.push(format!(
                    "from {:.0} ms on: the group stood still for {stood:.0} ms, a client waited for {waited:.0} ms",
                    from - parts[0]
                ));
            }
        }
    }

    /// Takes what the servers have.
    pub(crate) fn take(&mut self, checked: Checked) {
        (self.lost, self.duplicates) = (checked.lost, checked.duplicates);
        (self.unknown, self.unknown_done) = (checked.unknown, checked.unknown_done);
        self.other_ids = checked.other_ids;
        self.notes.extend(checked.notes);
        self.violations.extend(checked.violations);
    }

    /// Takes what Sqluice wrote down.
    pub(crate) fn time(&mut self, times: Times, event_ms: f64) {
        self.detection_ms = times.decided_ms.map(|decided| decided - event_ms);
        self.promotion_ms = times.decided_ms.zip(times.promoted_ms).map(|(decided, promoted)| promoted - decided);
    }

    pub(crate) fn errors_sum(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// The time between the last acknowledgement before this moment and the first one behind it, and the latter.
fn gap_around(times: &[f64], moment_ms: f64) -> Option<(f64, f64)> {
    let around = times.windows(2).find(|pair| pair[0] < moment_ms && pair[1] >= moment_ms)?;
    Some((around[1] - around[0], around[1]))
}

/// The longest time between two acknowledgements that ends behind the harm.
fn longest_gap(times: &[f64], event_ms: f64) -> Option<f64> {
    let around = times.windows(2).filter(|pair| pair[1] >= event_ms && pair[0] >= event_ms - BEFORE_MS);
    around.map(|pair| pair[1] - pair[0]).max_by(f64::total_cmp)
}

/// Middle and largest value; `None` without any.
pub(crate) fn middle_and_worst(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let worst = *values.last()?;
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    Some(((low + high) / 2.0, worst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::ledger::{Slow, Work};

    #[test]
    fn outages_are_found() {
        let times = [0.0, 900.0, 1_000.0, 1_010.0, 1_700.0, 1_705.0];
        assert_eq!(gap_around(&times, 1_005.0), Some((10.0, 1_010.0)));
        assert_eq!(gap_around(&times, 1_200.0), Some((690.0, 1_700.0)));
        assert_eq!(gap_around(&times, 1_706.0), None);
        assert_eq!(longest_gap(&times, 1_005.0), Some(690.0));
        // A pause that was over before the harm is no outage of it.
        assert_eq!(longest_gap(&times, 1_701.0), Some(5.0));
        assert_eq!(longest_gap(&times, 2_000.0), None);
    }

    #[test]
    fn each_part_of_the_harm_is_compared_for_itself() {
        let slow = |began_ms, ended_ms| Slow { work: Work::Keyed, began_ms, ended_ms };
        let ledger = Ledger {
            beside: vec![(10.0, 12.0), (100.0, 600.0), (1_000.0, 1_010.0)],
            slow: vec![slow(0.0, 90.0), slow(101.0, 620.0), slow(1_000.0, 1_060.0)],
            ..Ledger::default()
        };
        let mut round = Round::default();
        round.compare(&ledger, &[95.0, 900.0]);
        assert_eq!((round.standstill_ms, round.added_ms), (Some(500.0), Some(50.0)));
        let mut round = Round::default();
        round.compare(&ledger, &[95.0]);
        assert_eq!((round.standstill_ms, round.added_ms), (Some(500.0), Some(19.0)));
        round = Round::default();
        round.compare(&Ledger::default(), &[95.0]);
        assert_eq!(round.added_ms, None);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(middle_and_worst([4.0, 1.0, 2.0].into_iter()), Some((2.0, 4.0)));
        assert_eq!(middle_and_worst([4.0, 1.0].into_iter()), Some((2.5, 4.0)));
        assert_eq!(middle_and_worst(std::iter::empty()), None);
    }
}

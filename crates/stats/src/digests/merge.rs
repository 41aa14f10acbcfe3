//! The sum of several tables.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::{DigestReport, DigestRow};

/// The order of digests, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The time of all statements.
    #[default]
    Time,
    /// How many statements.
    Statements,
    /// Rows sent to clients.
    Rows,
    /// Statements that ended in an error.
    Errors,
}

impl Order {
    /// Each order with its word.
    pub const WORDS: [(&'static str, Order); 4] =
        [("time", Order::Time), ("statements", Order::Statements), ("rows", Order::Rows), ("errors", Order::Errors)];

    /// The order of this word.
    pub fn from_word(word: &str) -> Option<Order> {
        Order::WORDS.iter().find(|(known, _)| *known == word).map(|(_, order)| *order)
    }

    fn of(self, row: &DigestRow) -> u64 {
        match self {
            Order::Time => row.figures.time_us,
            Order::Statements => row.figures.statements,
            Order::Rows => row.figures.rows_sent,
            Order::Errors => row.figures.errors,
        }
    }
}

/// Adds up the tables of all workers, sorted. A digest of several clusters is one row, which has their names.
pub fn merge(reports: impl IntoIterator<Item = DigestReport>, order: Order) -> DigestReport {
    merge_with(reports, order, false)
}

/// The same with a row for each cluster.
pub fn merge_by_cluster(reports: impl IntoIterator<Item = DigestReport>, order: Order) -> DigestReport {
    merge_with(reports, order, true)
}

/// Hash, user and schema of a row, and its cluster where each has rows of its own.
type RowKey = (u64, Arc<str>, Arc<str>, Option<Arc<str>>);

fn merge_with(reports: impl IntoIterator<Item = DigestReport>, order: Order, by_cluster: bool) -> DigestReport {
    let mut sum = DigestReport::default();
    let mut places: HashMap<RowKey, usize> = HashMap::new();
    for report in reports {
        sum.others.add(&report.others);
        sum.others_cached.add(&report.others_cached);
        for row in report.rows {
            let cluster = by_cluster.then(|| row.name.cluster.clone());
            let key = (row.name.hash, row.name.user.clone(), row.name.schema.clone(), cluster);
            let place = *places.entry(key).or_insert(sum.rows.len());
            match sum.rows.get_mut(place) {
                Some(known) => {
                    let name = &row.name.cluster;
                    if known.name.cluster != *name && !known.other_clusters.contains(name) {
                        known.other_clusters.push(name.clone());
                    }
                    known.figures.add(&row.figures);
                    known.cached.add(&row.cached);
                    known.spread.add(&row.spread);
                    match (&mut known.questions, row.questions) {
                        (Some(mine), Some(theirs)) => mine.add(&theirs),
                        (mine @ None, theirs) => *mine = theirs,
                        (Some(_), None) => {}
                    }
                    known.sample = known.sample.take().or(row.sample);
                    known.first_seen = known.first_seen.min(row.first_seen);
                    known.last_seen = known.last_seen.max(row.last_seen);
                }
                None => sum.rows.push(row),
            }
        }
    }
    // Among equals the order is always the same.
    sum.rows.sort_by(|one, other| {
        let key = |row: &DigestRow| (Reverse(order.of(row)), Reverse(row.figures.time_us));
        key(one).cmp(&key(other)).then_with(|| {
            let name = |row: &DigestRow| {
                let name = &*row.name;
                (name.text.clone(), name.user.clone(), name.schema.clone(), name.cluster.clone())
            };
            name(one).cmp(&name(other))
        })
    });
    sum
}

//! The writes that the tier must learn of: gathered from all workers, sent over the one connection.
//!
//! It is a set and no queue. However long the tier is away, it has a bound, and many writes at once are reported in one command.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// More fields than this are reported as everything.
const FIELDS_MAX: usize = 1024;

/// The gathered writes.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    gathered: Mutex<Gathered>,
    /// There is something.
    pub(crate) changed: Notify,
}

/// The writes, as fields of the tier.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The fields that end.
    pub(crate) fields: BTreeSet<Box<[u8]>>,
    /// All fields end.
    pub(crate) everything: bool,
    /// How often something was added.
    pub(crate) number: u64,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty() && !self.everything
    }
}

impl Reports {
    /// Adds fields. Gives the number up to which all must have been reported.
    pub(crate) fn add(&self, fields: impl IntoIterator<Item = Box<[u8]>>) -> u64 {
        let number = {
            let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            if !gathered.everything {
                gathered.fields.extend(fields);
            }
            if gathered.fields.len() > FIELDS_MAX {
                gathered.everything = true;
                gathered.fields.clear();
            }
            gathered.number += 1;
            gathered.number
        };
        self.changed.notify_one();
        number
    }

    /// Takes all that was added; the numbers go on.
    pub(crate) fn take(&self) -> Gathered {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let number = gathered.number;
        std::mem::replace(&mut gathered, Gathered { number, ..Gathered::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: usize) -> Box<[u8]> {
        number.to_be_bytes().into()
    }

    #[test]
    fn what_is_gathered_has_a_bound_and_loses_nothing() {
        let reports = Reports::default();
        assert!(reports.take().is_empty());
        assert_eq!((reports.add([field(1), field(2)]), reports.add([field(2)])), (1, 2));
        let taken = reports.take();
        assert_eq!((taken.fields.len(), taken.everything, taken.number), (2, false, 2));
        assert!(reports.take().is_empty());
        assert_eq!(reports.add((0..=FIELDS_MAX).map(field)), 3);
        reports.add([field(1)]);
        let taken = reports.take();
        assert_eq!((taken.fields.len(), taken.everything, taken.number), (0, true, 4));
    }
}

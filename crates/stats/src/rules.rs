//! How often routing rules decided, by one worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Counter;

/// The counters of the rules that are in effect; other rules keep the counts of those with the same names.
#[derive(Debug, Default)]
pub struct RuleHits(Mutex<RuleCounts>);

/// Rules by name, each with its counter.
#[derive(Clone, Debug, Default)]
pub struct RuleCounts {
    /// The rules in their order.
    pub names: Arc<[Arc<str>]>,
    /// How often each has decided.
    pub hits: Arc<[Counter]>,
}

impl RuleHits {
    /// Takes other rules, and gives their counters. Called by the worker that counts.
    pub fn renew(&self, names: &[Arc<str>]) -> Arc<[Counter]> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before: HashMap<&str, u64> = counts.names.iter().map(|name| &**name).zip(counts.iter_hits()).collect();
        let counter = |name: &Arc<str>| {
            let counter = Counter::default();
            counter.add(before.get(&**name).copied().unwrap_or(0));
            counter
        };
        let hits: Arc<[Counter]> = names.iter().map(counter).collect();
        *counts = RuleCounts { names: names.into(), hits: hits.clone() };
        hits
    }

    /// The counters as they are.
    pub fn get(&self) -> RuleCounts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RuleCounts {
    fn iter_hits(&self) -> impl Iterator<Item = u64> + '_ {
        self.hits.iter().map(Counter::get)
    }

    /// Each rule's name with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().map(|name| &**name).zip(self.iter_hits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_with_their_names() {
        let rules = RuleHits::default();
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
        let hits = rules.renew(&names(&["a", "b"]));
        hits[1].add(7);
        let hits = rules.renew(&names(&["b", "c"]));
        hits[0].add_one();
        assert_eq!(rules.get().iter().collect::<Vec<_>>(), [("b", 8), ("c", 0)]);
        rules.renew(&[]);
        assert_eq!(rules.get().iter().count(), 0);
    }
}

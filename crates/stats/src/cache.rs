//! The effects of the result cache for each rule, counted by one worker.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Counter;

/// The counts of one rule.
#[derive(Debug, Default)]
pub struct CacheCounts {
    /// Statements that the cache answered, or would have answered where it only advises.
    pub hits: Counter,
    /// Hits whose cached result was past its `ttl` while another session refreshed it.
    pub stale: Counter,
    /// Statements that waited for another session's answer.
    pub waits: Counter,
    /// Statements whose answer was not known and went to a server to be kept.
    pub misses: Counter,
    /// Answers that were kept.
    pub kept: Counter,
    /// Bytes given out.
    pub bytes: Counter,
    /// Time that servers took for the answers that were given out, in microseconds.
    pub saved_us: Counter,
    /// Statements that were not answered, or whose answer was not kept, by reason, in the order of the reasons' words.
    pub refused: Box<[Counter]>,
}

impl CacheCounts {
    /// Nothing was counted yet; there are so many reasons.
    fn new(reasons: usize) -> CacheCounts {
        CacheCounts { refused: (0..reasons).map(|_| Counter::default()).collect(), ..CacheCounts::default() }
    }

    /// Adds the counts of another worker.
    pub fn add(&self, other: &CacheCounts) {
        let pairs = [
            (&self.hits, &other.hits),
            (&self.stale, &other.stale),
            (&self.waits, &other.waits),
            (&self.misses, &other.misses),
            (&self.kept, &other.kept),
            (&self.bytes, &other.bytes),
            (&self.saved_us, &other.saved_us),
        ];
        for (sum, count) in pairs.into_iter().chain(self.refused.iter().zip(&other.refused)) {
            sum.add(count.get());
        }
    }

    /// Nothing was counted yet, for as many reasons.
    pub fn empty(&self) -> CacheCounts {
        CacheCounts::new(self.refused.len())
    }
}

/// The counts of the rules that use the cache; a rule keeps its counts over reloads by its name.
#[derive(Debug, Default)]
pub struct RuleCaches(Mutex<Vec<(Arc<str>, Arc<CacheCounts>)>>);

impl RuleCaches {
    /// The counts of a rule, made at the first call. Called by the worker that counts.
    pub fn of(&self, rule: &Arc<str>, reasons: usize) -> Arc<CacheCounts> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counts)) = rules.iter().find(|(name, _)| name == rule) {
            return counts.clone();
        }
        let counts = Arc::new(CacheCounts::new(reasons));
        rules.push((rule.clone(), counts.clone()));
        counts
    }

    /// Forgets rules that are there no more.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(name, _)| is_there(name));
    }

    /// All rules that were counted.
    pub fn get(&self) -> Vec<(Arc<str>, Arc<CacheCounts>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_with_their_rules_and_add_up() {
        let caches = RuleCaches::default();
        let (one, two): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
        caches.of(&one, 2).hits.add(3);
        caches.of(&one, 2).refused[1].add_one();
        caches.of(&two, 2).hits.add(5);
        caches.retain(|name| name == "one");
        let known = caches.get();
        assert_eq!(known.len(), 1);
        let sum = known[0].1.empty();
        sum.add(&known[0].1);
        sum.add(&known[0].1);
        assert_eq!((sum.hits.get(), sum.refused[1].get(), sum.refused[0].get()), (6, 2, 0));
    }
}

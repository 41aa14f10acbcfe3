//! The result cache.

use stats::cache::CacheCounts;

use super::names::*;
use super::{Metric, Page, Shared, family};

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let store = shared.cache();
    let size = store.map(|store| store.size()).unwrap_or_default();
    family(page, CACHE_ANSWERS).sample(&[], size.entries);
    family(page, CACHE_BYTES).sample(&[], size.bytes);
    family(page, CACHE_EVICTED).sample(&[], store.map_or(0, |store| store.evicted()));
    let counts = crate::admin::cache::counts(&shared.workers);
    let mut each = |metric: Metric, count: fn(&CacheCounts) -> u64| {
        let mut family = family(page, metric);
        for (rule, counts) in &counts {
            family.sample(&[rule], count(counts));
        }
    };
    each(CACHE_HITS, |counts| counts.hits.get());
    each(CACHE_STALE, |counts| counts.stale.get());
    each(CACHE_MISSES, |counts| counts.misses.get());
    each(CACHE_WAITS, |counts| counts.waits.get());
    each(CACHE_KEPT, |counts| counts.kept.get());
    each(CACHE_SENT, |counts| counts.bytes.get());
    let mut saved = family(page, CACHE_SAVED);
    for (rule, counts) in &counts {
        saved.sample(&[rule], counts.saved_us.get() as f64 / 1e6);
    }
    let mut refused = family(page, CACHE_REFUSED);
    for (rule, counts) in &counts {
        for (word, count) in cache::Refusal::WORDS.iter().zip(&counts.refused) {
            refused.sample(&[rule, word], count.get());
        }
    }
}

//! The result cache.

use ::cache::{WarmCounts, WarmReport};
use stats::cache::CacheCounts;

use super::names::*;
use super::{Metric, Page, Shared, family};
use crate::rest::{cache_counts, known_rights};
use crate::status::Clusters;

pub(super) fn render(page: &mut Page, shared: &Shared, clusters: &Clusters) {
    let store = shared.cache.as_ref().map(|cache| &cache.store);
    let size = store.map(|store| store.size()).unwrap_or_default();
    family(page, CACHE_ANSWERS).sample(&[], size.entries);
    family(page, CACHE_BYTES).sample(&[], size.bytes);
    family(page, CACHE_EVICTED).sample(&[], store.map_or(0, |store| store.evicted()));
    let mut ends = family(page, CACHE_ENDS);
    for (cluster, writes) in shared.cache_writes() {
        for (by, count) in [("row", writes.by_row), ("table", writes.by_table), ("all", writes.to_any)] {
            ends.sample(&[&cluster, by], count);
        }
    }
    let mut rights = family(page, CACHE_RIGHTS);
    for (cluster, known) in known_rights(clusters) {
        rights.sample(&[cluster], u64::from(known));
    }
    let counts = cache_counts(&shared.workers);
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
    warming(page, shared);
}

/// Filling it from files.
fn warming(page: &mut Page, shared: &Shared) {
    let files = shared.cache.as_ref().map(|cache| cache.warmer.report()).unwrap_or_default();
    let mut each = |metric: Metric, figure: fn(&WarmReport) -> u64| {
        let mut family = family(page, metric);
        for file in &files {
            family.sample(&[&file.name], figure(file));
        }
    };
    each(WARM_KINDS, |file| file.kinds as u64);
    each(WARM_RUNNING, |file| file.running.into());
    each(WARM_RUNS, |file| file.runs);
    let mut statements = family(page, WARM_STATEMENTS);
    for file in &files {
        let WarmCounts { kept, there, without_rule, refused, failed } = file.total;
        for (outcome, count) in
            [("kept", kept), ("there", there), ("without_rule", without_rule), ("refused", refused), ("failed", failed)]
        {
            statements.sample(&[&file.name, outcome], count);
        }
    }
}

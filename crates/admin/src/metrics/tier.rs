//! The result cache's shared tier. Without one all is 0.

use stats::Snapshot;
use tier::State;

use super::names::*;
use super::{LATENCY_BOUNDS, Page, Shared, family};

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let tier = shared.tier.as_ref();
    let status = tier.map(|tier| tier.status());
    let counts = status.as_ref().map(|status| status.counts).unwrap_or_default();
    let mut states = family(page, TIER_STATE);
    for (state, word) in State::ALL {
        states.sample(&[word], u8::from(status.as_ref().is_some_and(|status| status.state == state)));
    }
    family(page, TIER_MEMBERS).sample(&[], status.as_ref().map_or(0, |status| status.members.len()));
    let mut questions = family(page, TIER_QUESTIONS);
    for (word, count) in [
        ("found", counts.found),
        ("good", counts.good),
        ("missed", counts.missed),
        ("closed", counts.closed),
        ("unasked", counts.unasked),
        ("timeout", counts.timeouts),
        ("error", counts.errors),
    ] {
        questions.sample(&[word], count);
    }
    let mut puts = family(page, TIER_PUTS);
    puts.sample(&["kept"], counts.puts);
    puts.sample(&["dropped"], counts.unput);
    family(page, TIER_REPORTS).sample(&[], counts.reports);
    family(page, TIER_UNREPORTED).sample(&[], counts.unreported);
    family(page, TIER_CONNECTS).sample(&[], counts.connects);
    family(page, TIER_LATENCY);
    let latency = tier.map_or_else(Snapshot::default, |tier| tier.latency_us().snapshot());
    let name = |suffix: &str| format!("{}_{suffix}", TIER_LATENCY.name);
    for (bound, word) in LATENCY_BOUNDS {
        page.sample(&name("bucket"), &[("le", word)], latency.count_at_most(bound));
    }
    page.sample(&name("bucket"), &[("le", "+Inf")], latency.count());
    page.sample(&name("sum"), &[], latency.sum() as f64 / 1e6);
    page.sample(&name("count"), &[], latency.count());
}

//! The result cache's shared tier. Without one its families have no samples.

use tier::State;

use super::names::*;
use super::{LATENCY_BOUNDS, Page, Shared, family};

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let tier = shared.tier();
    let status = tier.map(|tier| tier.status());
    let counts = status.as_ref().map(|status| status.counts);
    let mut states = family(page, TIER_STATE);
    for (state, word) in State::ALL.iter().filter(|_| status.is_some()) {
        states.sample(&[word], u8::from(status.as_ref().is_some_and(|status| status.state == *state)));
    }
    let mut members = family(page, TIER_MEMBERS);
    status.iter().for_each(|status| members.sample(&[], status.members.len()));
    let mut questions = family(page, TIER_QUESTIONS);
    if let Some(counts) = counts {
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
    }
    let mut puts = family(page, TIER_PUTS);
    if let Some(counts) = counts {
        puts.sample(&["kept"], counts.puts);
        puts.sample(&["dropped"], counts.unput);
    }
    let mut tells = family(page, TIER_TELLS);
    counts.iter().for_each(|counts| tells.sample(&[], counts.tells));
    let mut untold = family(page, TIER_UNTOLD);
    counts.iter().for_each(|counts| untold.sample(&[], counts.untold));
    let mut connects = family(page, TIER_CONNECTS);
    counts.iter().for_each(|counts| connects.sample(&[], counts.connects));
    family(page, TIER_LATENCY);
    let Some(tier) = tier else { return };
    let latency = tier.latency_us().snapshot();
    let name = |suffix: &str| format!("{}_{suffix}", TIER_LATENCY.name);
    for (bound, word) in LATENCY_BOUNDS {
        page.sample(&name("bucket"), &[("le", word)], latency.count_at_most(bound));
    }
    page.sample(&name("bucket"), &[("le", "+Inf")], latency.count());
    page.sample(&name("sum"), &[], latency.sum() as f64 / 1e6);
    page.sample(&name("count"), &[], latency.count());
}

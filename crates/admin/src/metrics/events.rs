//! Events of queries and logins.

use events::{Events, SinkFigures};

use super::names::*;
use super::{Page, Shared, family};

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let events = shared.events.as_deref();
    let count = |pick: fn(&Events) -> u64| events.map_or(0, pick);
    let mut kinds = family(page, EVENTS);
    kinds.sample(&["query"], count(Events::queries));
    kinds.sample(&["login"], count(Events::logins));
    kinds.sample(&["admin"], count(Events::admin));
    family(page, EVENTS_LOST).sample(&[], count(Events::lost));
    let waits = shared.workers.iter().map(|worker| worker.event_waits.get()).sum::<u64>();
    family(page, EVENT_WAITS).sample(&[], waits);
    let sinks = events.map(Events::sinks).unwrap_or_default();
    let mut each = |metric, pick: fn(&SinkFigures) -> u64| {
        let mut samples = family(page, metric);
        sinks.iter().for_each(|sink| samples.sample(&[&*sink.name], pick(sink)));
    };
    each(EVENT_SINK_WRITTEN, |sink| sink.written);
    each(EVENT_SINK_BYTES, |sink| sink.bytes);
    each(EVENT_SINK_FAILURES, |sink| sink.failures);
    each(EVENT_SINK_DROPPED, |sink| sink.dropped);
    let mut behind = family(page, EVENT_SINK_BEHIND);
    sinks.iter().for_each(|sink| behind.sample(&[&*sink.name], sink.behind.as_secs_f64()));
    let spool = events.and_then(Events::spool).unwrap_or_default();
    family(page, EVENT_SPOOL_BYTES).sample(&[], spool.bytes);
    family(page, EVENT_SPOOL_FAILURES).sample(&[], spool.failures);
    family(page, EVENT_SPOOL_LOST).sample(&[], spool.lost);
    family(page, EVENT_SPOOL_REMOVED).sample(&[], spool.removed_unread);
    family(page, EVENT_SPOOL_DAMAGED).sample(&[], spool.damaged);
}

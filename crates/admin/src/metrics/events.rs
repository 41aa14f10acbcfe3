//! Events of queries and logins.

use events::Events;

use super::names::*;
use super::{Page, Shared, family};

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let events = shared.events.as_deref();
    let count = |pick: fn(&Events) -> u64| events.map_or(0, pick);
    let mut kinds = family(page, EVENTS);
    kinds.sample(&["query"], count(Events::queries));
    kinds.sample(&["login"], count(Events::logins));
    family(page, EVENTS_LOST).sample(&[], count(Events::lost));
    family(page, EVENT_FILE_BYTES).sample(&[], count(Events::file_bytes));
    family(page, EVENT_FILE_LOST).sample(&[], count(Events::file_lost));
    family(page, EVENT_FILE_FAILURES).sample(&[], count(Events::file_failures));
}

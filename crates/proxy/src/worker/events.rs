//! A worker's events: the choice of the operator, and the ring that takes them to the thread that writes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use config::EventQueries;
use events::{Event, Filter, Queries, Ring};
use tokio::sync::Notify;

/// Steps of a wait for room.
const ROOM_STEP: Duration = Duration::from_millis(5);

use super::traces::Traces;

/// The way of a worker's events. Without a ring there are none.
#[derive(Debug, Default)]
pub struct WorkerEvents {
    ring: Option<Ring>,
    filter: Cell<Filter>,
    /// A rule may choose a query that the filter does not.
    rules_log: Cell<bool>,
    /// A wait for room is over, or sessions need not wait.
    room: Notify,
    /// Somebody looks whether there is room.
    watched: Cell<bool>,
    /// The last wait for room was in vain: there is none until there was room.
    given_up: Cell<bool>,
    /// The filter, or a rule, may take a query.
    takes_queries: Cell<bool>,
    /// The spans of queries, and their tags.
    pub traces: Traces,
}

impl WorkerEvents {
    /// Events into this ring; of queries there are none until settings are taken.
    pub fn new(ring: Option<Ring>) -> WorkerEvents {
        WorkerEvents { ring, ..WorkerEvents::default() }
    }

    /// Takes the operator's choice.
    pub fn take_settings(&self, settings: &config::Events) {
        let queries = match settings.queries {
            EventQueries::Off => Queries::Off,
            EventQueries::Errors => Queries::Errors,
            EventQueries::Writes => Queries::Writes,
            EventQueries::All => Queries::All,
        };
        let slow_us = stats::micros(settings.slow);
        let filter = Filter { queries, slow_us, sample: settings.sample, texts: settings.has_texts() };
        self.filter.set(filter);
        self.traces.take_settings(settings);
        self.note_takes_queries();
    }

    /// Takes whether a rule may choose queries.
    pub fn take_rules(&self, rules_log: bool) {
        self.rules_log.set(rules_log);
        self.note_takes_queries();
    }

    fn note_takes_queries(&self) {
        let takes = !self.filter.get().is_off() || self.rules_log.get() || self.traces.makes_spans();
        self.takes_queries.set(self.ring.is_some() && takes);
    }

    /// Whether there are events at all.
    pub fn are_made(&self) -> bool {
        self.ring.is_some()
    }

    /// Which queries become events; `None` if no query does.
    #[inline]
    pub fn filter(&self) -> Option<Filter> {
        self.takes_queries.get().then(|| self.filter.get())
    }

    /// The moment, if a query that comes now may become an event.
    #[inline]
    pub fn arrival(&self) -> Option<Instant> {
        self.takes_queries.get().then(Instant::now)
    }

    /// Hands an event over, without a wait. Gives whether sessions shall wait before their next statements.
    pub fn put(&self, event: impl FnOnce() -> Event) -> bool {
        if let Some(ring) = &self.ring {
            ring.put(event());
        }
        self.is_crowded().is_some()
    }

    /// The limit of a wait for room, if sessions shall wait.
    fn is_crowded(&self) -> Option<Duration> {
        let limit = self.ring.as_ref()?.is_crowded();
        if limit.is_none() {
            self.given_up.set(false);
        }
        limit.filter(|_| !self.given_up.get())
    }

    /// Waits until there is room for events, or that was in vain.
    pub async fn wait_for_room(&self) {
        // One session looks, and wakes the others.
        if self.watched.get() {
            return self.room.notified().await;
        }
        let _watching = Watching::begin(self);
        let begun = Instant::now();
        while let Some(limit) = self.is_crowded() {
            if begun.elapsed() >= limit {
                let waited_ms = limit.as_millis();
                tracing::error!(waited_ms, "sessions have waited in vain for room for events (events.when_full)");
                self.given_up.set(true);
                return;
            }
            tokio::time::sleep(ROOM_STEP).await;
        }
    }
}

/// The one who looks whether there is room. If its session ends meanwhile, another one looks.
struct Watching<'a>(&'a WorkerEvents);

impl<'a> Watching<'a> {
    fn begin(events: &'a WorkerEvents) -> Watching<'a> {
        events.watched.set(true);
        Watching(events)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.watched.set(false);
        self.0.room.notify_waiters();
    }
}

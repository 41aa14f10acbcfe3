//! A worker's events: the choice of the operator, and the ring that takes them to the thread that writes.

use std::cell::Cell;
use std::time::Instant;

use config::EventQueries;
use events::{Event, Filter, Queries, Ring};

/// The way of a worker's events. Without a ring there are none.
#[derive(Debug, Default)]
pub struct WorkerEvents {
    ring: Option<Ring>,
    filter: Cell<Filter>,
    /// A rule may choose a query that the filter does not.
    rules_log: Cell<bool>,
    /// The filter, or a rule, may take a query.
    takes_queries: Cell<bool>,
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
        self.note_takes_queries();
    }

    /// Takes whether a rule may choose queries.
    pub fn take_rules(&self, rules_log: bool) {
        self.rules_log.set(rules_log);
        self.note_takes_queries();
    }

    fn note_takes_queries(&self) {
        let takes = !self.filter.get().is_off() || self.rules_log.get();
        self.takes_queries.set(self.ring.is_some() && takes);
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

    /// Hands an event over, without a wait.
    pub fn put(&self, event: impl FnOnce() -> Event) {
        if let Some(ring) = &self.ring {
            ring.put(event());
        }
    }
}

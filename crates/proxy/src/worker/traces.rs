//! A worker's part in traces: the queries that get spans, and the tags that events keep.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::sync::Arc;

/// The operator's choice.
#[derive(Debug, Default)]
pub struct Traces {
    /// A sink takes spans.
    spans: Cell<bool>,
    /// Of queries without a trace, one in so many begins one; 0 is none.
    sample: Cell<u32>,
    /// Names of tags that events keep.
    tags: RefCell<Rc<[Arc<str>]>>,
    /// Queries without a trace.
    count: Cell<u64>,
    /// Makes ids of traces: its keys come from the system, and differ from those of all other workers and processes.
    ids: RandomState,
}

impl Traces {
    /// Takes the operator's choice.
    pub fn take_settings(&self, settings: &config::Events) {
        self.spans.set(settings.has_spans());
        self.sample.set(settings.trace_sample);
        self.tags.replace(settings.tags.iter().cloned().collect());
    }

    /// Whether a sink takes spans.
    #[inline]
    pub fn makes_spans(&self) -> bool {
        self.spans.get()
    }

    /// Names of tags that events keep.
    pub fn tags(&self) -> Rc<[Arc<str>]> {
        self.tags.borrow().clone()
    }

    /// The id of the trace that the next query without one begins, if it is its turn.
    pub fn begin(&self) -> Option<[u8; 16]> {
        let sample = u64::from(self.sample.get());
        if sample == 0 || !self.spans.get() {
            return None;
        }
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        let half = |half: u8| self.ids.hash_one((count, half)).max(1).to_be_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&half(0));
        id[8..].copy_from_slice(&half(1));
        count.is_multiple_of(sample).then_some(id)
    }
}

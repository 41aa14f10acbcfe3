//! A worker's part in traces: the queries that get spans, and the tags that events keep.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use config::TraceKeep;

/// The operator's choice.
#[derive(Debug, Default)]
pub struct Traces {
    /// A sink takes spans.
    spans: Cell<bool>,
    /// Of queries without a trace, one in so many begins one; 0 is none.
    sample: Cell<u32>,
    /// Queries with errors get spans at their end.
    keep_errors: Cell<bool>,
    /// Slow queries do as well.
    keep_slow: Cell<bool>,
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
        self.keep_errors.set(settings.trace_keep != TraceKeep::Off);
        self.keep_slow.set(settings.trace_keep == TraceKeep::Slow);
        self.tags.replace(settings.tags.iter().cloned().collect());
    }

    /// Whether a sink takes spans.
    #[inline]
    pub fn makes_spans(&self) -> bool {
        self.spans.get()
    }

    /// Whether a query gets spans because of its end.
    pub fn keeps(&self, failed: bool, slow: bool) -> bool {
        self.spans.get() && (failed && self.keep_errors.get() || slow && self.keep_slow.get())
    }

    /// Names of tags that events keep.
    pub fn tags(&self) -> Rc<[Arc<str>]> {
        self.tags.borrow().clone()
    }

    /// The id of the trace that the next query without one begins, if it is its turn, or if the query is kept.
    pub fn begin(&self, is_kept: bool) -> Option<[u8; 16]> {
        let sample = u64::from(self.sample.get());
        if !self.spans.get() || sample == 0 && !is_kept {
            return None;
        }
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        let half = |half: u8| self.ids.hash_one((count, half)).max(1).to_be_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&half(0));
        id[8..].copy_from_slice(&half(1));
        // Nothing but 0 is a multiple of 0.
        (is_kept || count.is_multiple_of(sample)).then_some(id)
    }
}

//! The surroundings of a session: where it runs. They change only when it moves to another worker, which makes it anew.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use stats::ListenerStats;

use super::client::CountedBytes;
use crate::sessions::SessionHandle;
use crate::shared::ListenerShared;
use crate::worker::Worker;

/// The surroundings of a session, for as long as it is on its worker.
#[derive(Debug)]
pub(super) struct Environment {
    /// The worker that runs it.
    pub worker: Rc<Worker>,
    /// The listener that its client came to.
    pub listener: Arc<ListenerShared>,
    /// The part of it that other threads see.
    pub handle: Arc<SessionHandle>,
    /// The listener's counts of this worker.
    pub counts: Arc<ListenerStats>,
    /// The fingerprint of the state that others see.
    pub shown: Cell<u64>,
}

impl Environment {
    /// Of a client's session.
    pub fn new(worker: Rc<Worker>, listener: Arc<ListenerShared>, handle: Arc<SessionHandle>) -> Environment {
        let counts = worker.stats.listener(&listener.cluster.name, &listener.name);
        Environment { worker, listener, handle, counts, shown: Cell::new(0) }
    }

    /// The bytes of its client are counted here.
    pub fn counted(&self) -> CountedBytes {
        CountedBytes { handle: self.handle.clone(), of_listener: self.counts.clone() }
    }
}

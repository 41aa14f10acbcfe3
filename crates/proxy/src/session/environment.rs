//! The surroundings of a session: where it runs. They change only when it moves to another worker, which makes it anew.

use std::rc::Rc;
use std::sync::Arc;

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
}

//! The surroundings of a session: where it runs. They never change.

use std::rc::Rc;
use std::sync::Arc;

use crate::sessions::SessionHandle;
use crate::shared::ListenerShared;
use crate::worker::Worker;

/// The surroundings of a session, from its login to its end.
#[derive(Debug)]
pub(super) struct Environment {
    /// The worker that runs it.
    pub worker: Rc<Worker>,
    /// The listener that its client came to.
    pub listener: Arc<ListenerShared>,
    /// The part of it that other threads see.
    pub handle: Arc<SessionHandle>,
}

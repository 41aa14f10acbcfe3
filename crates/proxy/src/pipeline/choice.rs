//! The pipelines of one worker to one cluster, and the choice of one for a read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::ServerView;
use route::state::StateMap;
use route::{ShortBounds, ShortForms};

use super::{Pipeline, Scratch, driver};
use crate::busy_poll::BusyPoll;
use crate::pool::{Key, Lease, Origin, Pools};

/// Bytes read from a connection at a time.
const SCRATCH_BYTES: usize = 32 * 1024;

/// Reads that are outstanding on a pipeline before another one is begun, if there may be one.
const DEPTH_WANTED: usize = 16;

/// The bounds of one worker's pipelines to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineBounds {
    /// How many there may be; 0: none.
    pub pipelines: usize,
    /// A run beyond these is long.
    pub short: ShortBounds,
}

impl PipelineBounds {
    /// No pipelines.
    pub(super) const NONE: PipelineBounds =
        PipelineBounds { pipelines: 0, short: ShortBounds { time: Duration::from_millis(10), bytes: 16 * 1024 } };

    /// Those that the operator has set.
    pub fn of(pool: &config::Pool) -> PipelineBounds {
        let short = ShortBounds { time: pool.pipeline_time, bytes: pool.pipeline_reply_max };
        PipelineBounds { pipelines: pool.pipelines as usize, short }
    }
}

/// The pipelines of one worker to one cluster.
#[derive(Debug)]
pub struct Pipelines {
    all: RefCell<Vec<Rc<Pipeline>>>,
    /// The forms of reads that are known to be short.
    forms: Rc<RefCell<ShortForms>>,
    bounds: Cell<PipelineBounds>,
    /// Where replies are read into; borrowed for one poll at a time.
    scratch: Rc<Scratch>,
    busy_poll: Rc<BusyPoll>,
}

/// The connection that a session's read needs.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The server.
    pub server: &'a ServerView,
    /// The user and what else must be equal.
    pub key: &'a Arc<Key>,
    /// The number of the client's login.
    pub login: u64,
    /// The state that the connection must be in.
    pub state: &'a StateMap,
}

impl Wanted<'_> {
    /// A connection does for it as it is: nothing has to go ahead of the read.
    pub(super) fn fits(&self, origin: &Origin) -> bool {
        origin.state.fingerprint() == self.state.fingerprint()
            && origin.tracks
            && origin.logged_in >= self.login
            && *origin.key == **self.key
            && !origin.mode_flags_unsure
            && !origin.in_some_schema
            && !origin.tells_characteristics
    }
}

impl Pipelines {
    /// None yet.
    pub fn new(busy_poll: Rc<BusyPoll>) -> Pipelines {
        Pipelines {
            all: RefCell::default(),
            forms: Rc::default(),
            bounds: Cell::new(PipelineBounds::NONE),
            scratch: Rc::new(RefCell::new(vec![0; SCRATCH_BYTES].into())),
            busy_poll,
        }
    }

    /// Takes other bounds.
    pub fn set_bounds(&self, bounds: PipelineBounds) {
        self.bounds.set(bounds);
    }

    /// There may be pipelines.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.bounds.get().pipelines > 0
    }

    /// Whether runs of the form with this digest are known to be short.
    #[inline]
    pub fn is_short(&self, digest: u64, now: Instant) -> bool {
        self.forms.borrow().is_short(digest, now)
    }

    /// A run of this form on a connection of its own is over.
    pub fn ran_alone(&self, digest: u64, took: Duration, bytes: u64) {
        self.forms.borrow_mut().ran_alone(digest, took, bytes, self.bounds.get().short);
    }

    /// A pipeline for a read: the one with the fewest outstanding, or a new one if all have many. `None` if the read has to run
    /// on a connection of its own.
    pub fn find(&self, pools: &Rc<Pools>, wanted: &Wanted<'_>) -> Option<Rc<Pipeline>> {
        let bounds = self.bounds.get();
        let (mut best, mut least, mut open) = (None, usize::MAX, 0);
        let all = self.all.borrow();
        for pipeline in all.iter().filter(|pipeline| pipeline.server == wanted.server.id) {
            let inner = pipeline.inner.borrow();
            open += usize::from(inner.is_open());
            if inner.outstanding() < least && inner.takes(wanted, pools) {
                (best, least) = (Some(pipeline), inner.outstanding());
            }
        }
        let best = best.cloned();
        drop(all);
        if least >= DEPTH_WANTED
            && open < pools.share_for_pipelines(wanted.server, bounds.pipelines)
            && let Some(lease) = take_idle(pools, wanted)
        {
            return Some(self.begin(lease));
        }
        // Sessions that wait for a whole connection get this one when its replies are here.
        let has_room = least < pools.settings().pool.wait_max as usize;
        best.filter(|_| has_room && !pools.needs_all(wanted.server))
    }

    /// Whether a session's connection may become a pipeline.
    pub fn may_begin(&self, pools: &Rc<Pools>, wanted: &Wanted<'_>, lease: &Lease) -> bool {
        let is_open =
            |pipeline: &&Rc<Pipeline>| pipeline.server == wanted.server.id && pipeline.inner.borrow().is_open();
        let open = self.all.borrow().iter().filter(is_open).count();
        wanted.fits(&lease.origin)
            && !pools.is_too_old(&lease.origin)
            && !pools.needs_all(wanted.server)
            && open < pools.share_for_pipelines(wanted.server, self.bounds.get().pipelines)
    }

    /// A pipeline on this connection. Those that wait for one, and may share it, come to it.
    pub fn begin(&self, lease: Lease) -> Rc<Pipeline> {
        lease.call_sharers();
        let bounds = self.bounds.get().short;
        let unused =
            |pipeline: &&Rc<Pipeline>| pipeline.server == lease.server() && pipeline.inner.borrow().is_unused();
        let known = self.all.borrow().iter().find(unused).cloned();
        let pipeline = known.unwrap_or_else(|| {
            let pipeline = Rc::new(Pipeline::new(lease.server(), self.forms.clone()));
            tokio::task::spawn_local(driver::run(pipeline.clone(), self.scratch.clone(), self.busy_poll.clone()));
            self.all.borrow_mut().push(pipeline.clone());
            pipeline
        });
        pipeline.inner.borrow_mut().begin(lease, bounds);
        pipeline
    }

    /// Forgets those to servers that are gone, once they are unused.
    pub fn tidy(&self, servers: &[ServerView]) {
        let is_known = |id| servers.iter().any(|server| server.id == id);
        self.all.borrow_mut().retain(|pipeline| {
            let gone = !is_known(pipeline.server) && pipeline.inner.borrow().is_unused();
            if gone {
                pipeline.end();
            }
            !gone
        });
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        self.all.borrow().iter().for_each(|pipeline| pipeline.end());
    }
}

/// An idle connection that does as it is; one that does not goes back.
fn take_idle(pools: &Rc<Pools>, wanted: &Wanted<'_>) -> Option<Lease> {
    let lease = pools.take_idle(wanted.server, wanted.key, wanted.login, wanted.state, false)?;
    if wanted.fits(&lease.origin) && !pools.is_too_old(&lease.origin) {
        return Some(lease);
    }
    lease.give_back();
    None
}

//! Pipelines: backend connections on which short reads of several sessions are outstanding at once.
//!
//! A session appends its read to a [`Pipeline`] and waits for its [`Place`]. The pipeline's driver, a task, sends all that was
//! appended in one turn of the event loop in one write, reads replies in their order, and wakes each session with its own. A read
//! whose reply is not as clean as a pipeline needs it runs again, on a connection of its own; so does each read when the
//! connection is lost, and each read behind one that turns out to be long. Reads change nothing: running one twice is no harm.
//!
//! The connection comes from the pool with the first read, and returns to it when no reply is outstanding.

mod driver;
mod place;
mod replies;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use facts::view::{ServerId, ServerView};
use route::state::StateMap;
use route::{ShortBounds, ShortForms};
use stats::ServerStats;

use crate::busy_poll::BusyPoll;
use crate::outgoing::Outgoing;
use crate::pool::{End, Key, Lease, Origin, Pools};
pub use place::{Answer, Lost, Place, Read, Why};

/// Bytes read from a connection at a time.
const SCRATCH_BYTES: usize = 32 * 1024;
/// Most bytes of a read that is appended to a pipeline.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Reads that are outstanding on a pipeline before another one is begun, if there may be one.
const DEPTH_WANTED: usize = 16;
/// Reads that are sent before the server has answered all of them, and its thread rests. A thread that always finds the next read
/// keeps its core for a slice of some milliseconds, and others wait for it. Reads behind them lose nothing with the connection.
const SENT_IN_A_ROW_MAX: usize = 24;
/// Reads that are over and whose memory a pipeline keeps.
const SPARE_MAX: usize = 32;

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
    const NONE: PipelineBounds =
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

/// Memory for bytes that have just been read.
type Scratch = RefCell<Box<[u8]>>;

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
    fn fits(&self, origin: &Origin) -> bool {
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
            if inner.takes(wanted, pools) && inner.outstanding() < least {
                (best, least) = (Some(pipeline), inner.outstanding());
            }
        }
        let best = best.cloned();
        drop(all);
        if least >= DEPTH_WANTED
            && open < pools.share_for_pipelines(wanted.server, bounds.pipelines)
            && let Some(lease) = take_idle(pools, wanted)
        {
            return Some(self.begin(lease, bounds.short));
        }
        // Sessions that wait for a whole connection get this one when its replies are here.
        let has_room = least < pools.settings().pool.wait_max as usize;
        best.filter(|_| has_room && !pools.needs_all(wanted.server))
    }

    fn begin(&self, lease: Lease, bounds: ShortBounds) -> Rc<Pipeline> {
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

/// A backend connection on which reads of several sessions are outstanding, or the place for one.
#[derive(Debug)]
pub struct Pipeline {
    server: ServerId,
    forms: Rc<RefCell<ShortForms>>,
    inner: RefCell<Inner>,
}

/// The changing part of a pipeline.
#[derive(Debug)]
struct Inner {
    /// The connection, while the pipeline has one and no session works with it.
    lease: Option<Lease>,
    bounds: ShortBounds,
    stats: Option<Arc<ServerStats>>,
    /// The reads that were sent, in order.
    sent: VecDeque<Rc<Read>>,
    /// How many were sent since none was outstanding.
    sent_in_a_row: usize,
    /// Those that are to be sent.
    waiting: VecDeque<Rc<Read>>,
    /// Those that are over: their memory serves the next ones.
    spare: Vec<Rc<Read>>,
    /// Bytes on their way to the server, and how many of them it has.
    out: Vec<u8>,
    written: usize,
    /// The connection holds bytes back until it is flushed.
    unflushed: bool,
    /// Bytes of the server that are not understood yet.
    inbox: Vec<u8>,
    /// Replies that are here, and that their sessions have not taken yet.
    untaken: usize,
    /// Since when the server can be working on the first read.
    first_since: Instant,
    /// A read on it is long, or its session has not let the connection go yet: it takes no others.
    has_long: bool,
    /// Wakes the driver.
    driver: Option<Waker>,
    /// The driver is to end.
    ended: bool,
}

impl Pipeline {
    fn new(server: ServerId, forms: Rc<RefCell<ShortForms>>) -> Pipeline {
        let inner = Inner {
            lease: None,
            bounds: PipelineBounds::NONE.short,
            stats: None,
            sent: VecDeque::new(),
            sent_in_a_row: 0,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            out: Vec::new(),
            written: 0,
            unflushed: false,
            inbox: Vec::new(),
            untaken: 0,
            first_since: Instant::now(),
            has_long: false,
            driver: None,
            ended: false,
        };
        Pipeline { server, forms, inner: RefCell::new(inner) }
    }

    /// Appends a read of this form; its reply comes to the place. `outgoing` has the memory of an earlier one then.
    pub fn append(self: &Rc<Self>, digest: u64, outgoing: &mut Outgoing) -> Place {
        let mut inner = self.inner.borrow_mut();
        let mut read = inner.spare.pop().unwrap_or_default();
        match Rc::get_mut(&mut read) {
            Some(spare) => spare.begin(digest, outgoing),
            None => read = Rc::new(Read::new(digest, outgoing)),
        }
        inner.append(read.clone());
        drop(inner);
        Place::new(self.clone(), read)
    }

    /// Keeps the memory of a read that is over, for the next one.
    fn keep(&self, read: Rc<Read>) {
        let mut inner = self.inner.borrow_mut();
        if inner.spare.len() < SPARE_MAX {
            inner.spare.push(read);
        }
    }

    /// Appends something that the connection needs for reads to come; nobody waits for its reply.
    pub fn append_setup(&self, setup: Read) {
        self.inner.borrow_mut().append(Rc::new(setup));
    }

    /// Lets a session work with the connection, while no other does. `None` if it was lost.
    pub fn with_lease<T>(&self, work: impl FnOnce(Lease) -> (Lease, T)) -> Option<T> {
        let lease = self.inner.borrow_mut().lease.take()?;
        let (lease, result) = work(lease);
        self.inner.borrow_mut().lease = Some(lease);
        Some(result)
    }

    /// A session has taken its reply. One whose read was long leaves the connection to others by that.
    fn taken(&self, was_long: bool) {
        {
            let mut inner = self.inner.borrow_mut();
            inner.untaken = inner.untaken.saturating_sub(1);
            if was_long {
                inner.has_long = false;
                // Replies of reads behind it may still be outstanding, and nobody has looked at their time.
                inner.wake_driver();
            }
        }
        self.leave();
    }

    /// A session that has found the pipeline leaves it.
    pub fn leave(&self) {
        let idle = self.inner.borrow_mut().take_if_idle();
        give_back(idle);
    }

    /// The connection is of no use any more.
    fn lose(&self) {
        drop(self.take_lost());
    }

    /// The same; gives the connection.
    fn take_lost(&self) -> Option<Lease> {
        self.inner.borrow_mut().lose(Why::Lost)
    }

    /// The connection has failed: a long read is told how.
    fn fail(&self, error: &io::Error) {
        let mut inner = self.inner.borrow_mut();
        let long = inner.sent.front().filter(|first| first.is_long.get()).cloned();
        let lease = inner.lose(Why::Lost);
        drop(inner);
        if let (Some(long), Some(lease)) = (long, lease) {
            *long.lost.borrow_mut() = Some(Lost { lease, end: End::of(error), text: error.to_string() });
        }
    }

    fn end(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.ended = true;
        inner.wake_driver();
    }
}

/// A connection without a reply outstanding returns to the pool.
fn give_back(idle: Option<Lease>) {
    let Some(mut lease) = idle else { return };
    // The last statement on it may have been any session's.
    (lease.origin.messages, lease.origin.last_session, lease.origin.of_several) = (None, 0, true);
    lease.give_back();
}

impl Inner {
    fn begin(&mut self, lease: Lease, bounds: ShortBounds) {
        (self.stats, self.bounds, self.has_long) = (Some(lease.stats().clone()), bounds, false);
        self.lease = Some(lease);
    }

    fn is_open(&self) -> bool {
        self.lease.is_some()
    }

    fn is_unused(&self) -> bool {
        self.lease.is_none() && self.outstanding() == 0 && self.untaken == 0
    }

    fn outstanding(&self) -> usize {
        self.sent.len() + self.waiting.len()
    }

    /// A read that wants such a connection may be appended. One that is too old returns to the pool when its replies are here, and
    /// is closed there.
    fn takes(&self, wanted: &Wanted<'_>, pools: &Pools) -> bool {
        let does = |lease: &Lease| wanted.fits(&lease.origin) && !pools.is_too_old(&lease.origin);
        !self.has_long && self.lease.as_ref().is_some_and(does)
    }

    fn append(&mut self, read: Rc<Read>) {
        if let Some(stats) = &self.stats {
            stats.pipelined_now.add(1);
        }
        self.waiting.push_back(read);
        self.wake_driver();
    }

    /// So many reads are not outstanding any more.
    fn count_gone(&self, reads: usize) {
        if let Some(stats) = &self.stats {
            stats.pipelined_now.add(-(reads as i64));
        }
    }

    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Gives the connection up, and with it all that is outstanding. Sessions that have a reply can still take it, but have no
    /// connection to learn by.
    #[must_use]
    fn lose(&mut self, why: Why) -> Option<Lease> {
        self.count_gone(self.outstanding());
        for read in self.sent.drain(..).chain(self.waiting.drain(..)) {
            let lost = if read.is_long.take() { Answer::LostLong } else { Answer::Alone(why) };
            read.tell(lost);
        }
        self.out.clear();
        self.inbox.clear();
        (self.written, self.unflushed, self.has_long) = (0, false, false);
        self.lease.take()
    }

    /// The connection, if no reply is outstanding on it and none is untaken.
    fn take_if_idle(&mut self) -> Option<Lease> {
        let is_idle = self.outstanding() == 0 && self.untaken == 0;
        self.lease.take_if(|_| is_idle)
    }
}

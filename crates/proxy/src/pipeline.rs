//! Pipelines: backend connections on which short reads of several sessions are outstanding at once.
//!
//! A session appends its read to a [`Pipeline`] and waits for its [`Place`]. The pipeline's driver, a task, sends all that was
//! appended in one turn of the event loop in one write, reads replies in their order, and wakes each session with its own. A read
//! whose reply is not as clean as a pipeline needs it runs again, on a connection of its own; so does each read when the
//! connection is lost, and each read behind one that turns out to be long. Reads change nothing: running one twice is no harm.
//!
//! The connection comes from the pool with the first read, and returns to it when no reply is outstanding.

mod choice;
mod driver;
mod place;
mod replies;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use facts::view::ServerId;
use route::{ShortBounds, ShortForms};
use stats::ServerStats;

use crate::outgoing::Outgoing;
use crate::pool::{ConnectionEnd, Lease, Pools};
pub use choice::{PipelineBounds, Pipelines, Wanted};
pub use place::{Answer, CleanEnd, LastPacket, LostConnection, Place, Read, Why};

/// Most bytes of a read that is appended to a pipeline.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Reads that are sent before the server has answered all of them, and its thread rests. A thread that always finds the next read
/// keeps its core for a slice of some milliseconds, and others wait for it. Reads behind them lose nothing with the connection.
const SENT_IN_A_ROW_MAX: usize = 24;
/// Reads that are over and whose memory a pipeline keeps.
const SPARE_MAX: usize = 32;

/// Memory for bytes that have just been read.
type Scratch = RefCell<Box<[u8]>>;

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

    /// Appends a read of this form that came then; its reply comes to the place. `outgoing` has the memory of an earlier one then.
    pub fn append(self: &Rc<Self>, digest: u64, came: Instant, outgoing: &mut Outgoing) -> Place {
        let mut inner = self.inner.borrow_mut();
        let mut spare = inner.spare.pop();
        match spare.as_mut().and_then(Rc::get_mut) {
            Some(spare) => spare.begin(digest, came, outgoing),
            None => spare = None,
        }
        let read = spare.unwrap_or_else(|| Rc::new(Read::new(digest, came, outgoing)));
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
            *long.lost.borrow_mut() =
                Some(LostConnection { lease, end: ConnectionEnd::of(error), text: error.to_string() });
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

    /// Reads wait in the order in which they came, so that one from another pipeline loses nothing.
    fn append(&mut self, read: Rc<Read>) {
        if let Some(stats) = &self.stats {
            stats.pipelined_now.add(1);
        }
        match self.waiting.back() {
            Some(last) if last.came > read.came => {
                // It has waited on the other one, and those behind it may be known as waiting already.
                read.waits.set(true);
                let place = self.waiting.partition_point(|other| other.came <= read.came);
                self.waiting.insert(place, read);
            }
            _ => self.waiting.push_back(read),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_read_from_another_pipeline_stands_by_the_time_when_it_came() {
        let pipeline = Pipeline::new(ServerId(1), Rc::default());
        let start = Instant::now();
        for ms in [1, 3, 5, 4, 2, 6, 5] {
            let read = Read::new(ms, start + Duration::from_millis(ms), &mut Outgoing::default());
            pipeline.append_setup(read);
        }
        let order: Vec<u64> = pipeline.inner.borrow().waiting.iter().map(|read| read.digest).collect();
        assert_eq!(order, [1, 2, 3, 4, 5, 5, 6]);
        let inner = pipeline.inner.borrow();
        let came_late: Vec<u64> =
            inner.waiting.iter().filter(|read| read.waits.get()).map(|read| read.digest).collect();
        assert_eq!(came_late, [2, 4, 5], "their wait on the other one counts");
    }
}

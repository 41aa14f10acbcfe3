//! A session's place in a pipeline, and the read that has it.

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::mem::swap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use wire::Status;

use super::Pipeline;
use crate::outgoing::{Expected, Outgoing};
use crate::pool::{ConnectionEnd, Lease};

/// The memory of a read that had more bytes than these is not kept for the next one.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// Why a read has to run on a connection of its own, in the order of [`stats::UNPIPELINED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its form is not known to be short.
    UnknownForm,
    /// Nothing else runs on its server.
    Quiet,
    /// No connection in its session's state is at hand.
    NoConnection,
    /// It needs what a server may not have yet, or no server fits.
    Position,
    /// Its reply is an error, has warnings, or changes the session.
    Reply,
    /// Its reply is larger than replies on a pipeline may be.
    Large,
    /// A read ahead of it is long.
    BehindLong,
    /// The connection was lost.
    Lost,
}

/// The end of a result that has no warnings and tells nothing of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanEnd {
    /// Its flags.
    pub status: Status,
    /// Rows of the result.
    pub rows: u64,
    /// It is an EOF packet of the old framing.
    pub is_eof: bool,
    /// Its last packet.
    pub last: LastPacket,
}

/// The last packet of a clean result, as its client may get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastPacket {
    /// As it came: it has flags and nothing else.
    AsCame,
    /// It has flags and reports: of the number of the statement, or that something has changed.
    Reports {
        /// Its bytes, the header included.
        bytes: usize,
    },
    /// As a relay makes it.
    Relayed,
}

/// The outcome of a read on a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The reply is here: a result without warnings.
    Clean(CleanEnd),
    /// The read is long. The connection is for it alone; the answer is still to come.
    Long,
    /// The connection of a long read was lost: [`Place::take_lost`] has it.
    LostLong,
    /// A long read was killed, or its time is over.
    ErrorLong,
    /// It has to run on a connection of its own.
    Alone(Why),
}

/// A connection that was lost, and how.
#[derive(Debug)]
pub struct LostConnection {
    /// The connection.
    pub lease: Lease,
    /// How it ended.
    pub end: ConnectionEnd,
    /// The same in words.
    pub text: String,
}

/// A read on a pipeline. The pipeline writes its outcome, the session takes it.
#[derive(Debug)]
pub struct Read {
    /// Its form.
    pub(super) digest: u64,
    /// When it came, to whatever pipeline was its first.
    pub(super) came: Instant,
    /// The packets to send.
    pub(super) request: Vec<u8>,
    /// The replies that it has; the last one is the session's, unless nobody waits for it.
    pub(super) expected: RefCell<VecDeque<Expected>>,
    /// The session's reply, as far as it is here.
    pub(super) reply: RefCell<Vec<u8>>,
    /// It is long, and its session knows it.
    pub(super) is_long: Cell<bool>,
    /// It was long: the connection takes no other read until its session lets it go. A kill may still be on its way there.
    pub(super) was_long: Cell<bool>,
    /// Its reply is here, and the connection waits until its session has taken it.
    pub(super) is_untaken: Cell<bool>,
    /// A kill of it may still be on its way: its connection is closed when the session has taken the reply.
    pub(super) is_killed: Cell<bool>,
    /// Its connection, if that was lost while the read was long.
    pub(super) lost: RefCell<Option<LostConnection>>,
    /// It was not sent in the turn in which it came.
    pub(super) waits: Cell<bool>,
    /// When it was sent, if it had to wait for that.
    pub(super) sent_late: Cell<Option<Instant>>,
    pub(super) answer: Cell<Option<Answer>>,
    pub(super) session: RefCell<Option<Waker>>,
}

impl Read {
    /// A read of this form that came then: takes the bytes and the outstanding replies of `outgoing`.
    pub fn new(digest: u64, came: Instant, outgoing: &mut Outgoing) -> Read {
        let mut read = Read {
            digest,
            came,
            request: Vec::new(),
            expected: RefCell::default(),
            reply: RefCell::default(),
            is_long: Cell::new(false),
            was_long: Cell::new(false),
            is_untaken: Cell::new(false),
            is_killed: Cell::new(false),
            lost: RefCell::default(),
            waits: Cell::new(false),
            sent_late: Cell::new(None),
            answer: Cell::new(None),
            session: RefCell::default(),
        };
        read.begin(digest, came, outgoing);
        read
    }

    /// Becomes a read of this form: takes the bytes and the outstanding replies of `outgoing`, and gives the memory of those that
    /// it had.
    pub(super) fn begin(&mut self, digest: u64, came: Instant, outgoing: &mut Outgoing) {
        (self.digest, self.came) = (digest, came);
        swap(&mut self.request, &mut outgoing.bytes);
        swap(self.expected.get_mut(), &mut outgoing.pending);
        self.reply.get_mut().clear();
        for mark in [&self.is_long, &self.was_long, &self.is_untaken, &self.is_killed, &self.waits] {
            mark.set(false);
        }
        self.sent_late.set(None);
        self.answer.set(None);
    }

    /// The end of its use. Gives whether its memory may serve the next read.
    fn end(&self) -> bool {
        drop((self.session.take(), self.lost.take()));
        self.request.capacity() <= KEPT_BYTES_MAX && self.reply.borrow().capacity() <= KEPT_BYTES_MAX
    }

    /// Tells its session.
    pub(super) fn tell(&self, answer: Answer) {
        self.answer.set(Some(answer));
        if let Some(session) = self.session.borrow_mut().take() {
            session.wake();
        }
    }
}

/// A session's place in a pipeline. When it is dropped, the session has taken its reply, or needs none any more.
#[derive(Debug)]
pub struct Place {
    pipeline: Rc<Pipeline>,
    read: Rc<Read>,
}

impl Place {
    pub(super) fn new(pipeline: Rc<Pipeline>, read: Rc<Read>) -> Place {
        Place { pipeline, read }
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Waits for the next news of the read.
    pub fn poll_answer(&self, cx: &mut Context<'_>) -> Poll<Answer> {
        if let Some(answer) = self.read.answer.take() {
            return Poll::Ready(answer);
        }
        let mut session = self.read.session.borrow_mut();
        if !session.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *session = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Until when the read has waited for its turn, if it could not be sent when it came; now, if it never was sent.
    pub fn waited_until(&self) -> Option<Instant> {
        self.read.waits.get().then(|| self.read.sent_late.get().unwrap_or_else(Instant::now))
    }

    /// The connection of a long read that was lost, once.
    pub fn take_lost(&self) -> Option<LostConnection> {
        self.read.lost.take()
    }

    /// The server of a long read was given up: takes the connection.
    pub fn give_up(&self) -> Option<Lease> {
        self.read.is_long.set(false);
        self.pipeline.take_lost()
    }

    /// Somebody kills what runs on the connection, which may be the next read by then: it is closed when the place is dropped.
    pub fn close_behind_reply(&self) {
        self.read.is_killed.set(true);
    }

    /// The bytes of the reply.
    pub fn reply(&self) -> Ref<'_, Vec<u8>> {
        self.read.reply.borrow()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.read.is_killed.take() {
            self.pipeline.lose();
        }
        if self.read.is_untaken.take() {
            self.pipeline.taken(self.read.was_long.take());
        } else if self.read.is_long.take() {
            // Nobody waits for the end of a long read: the server may end it.
            self.pipeline.lose();
        }
        // The pipeline does not know it any more.
        if Rc::strong_count(&self.read) == 1 && self.read.end() {
            self.pipeline.keep(self.read.clone());
        }
    }
}

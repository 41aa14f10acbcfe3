//! The task that sends what sessions append to a pipeline, and reads the replies.

use std::cell::LazyCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::place::{Answer, Why};
use super::{Inner, Pipeline, SENT_IN_A_ROW_MAX, Scratch, give_back};
use crate::busy_poll::BusyPoll;
use crate::pool::Lease;

/// Larger buffers are not kept for the next reads.
const BUFFER_KEPT_BYTES: usize = 64 * 1024;

/// Runs a pipeline until it is ended.
pub(super) async fn run(pipeline: Rc<Pipeline>, scratch: Rc<Scratch>, busy_poll: Rc<BusyPoll>) {
    let mut timer = Timer { sleep: Box::pin(tokio::time::sleep_until(Instant::now().into())), is_set: false };
    poll_fn(|cx| {
        let driven = pipeline.poll_drive(cx, &scratch, &busy_poll);
        if driven.is_pending() {
            pipeline.poll_long(cx, &mut timer);
        }
        driven
    })
    .await;
}

/// Looks after the first read now and then, for as long as there is one. It is set anew when it rings, not with each read.
#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    is_set: bool,
}

impl Pipeline {
    /// Sends and reads as much as can be now. Ready when the pipeline is ended.
    fn poll_drive(&self, cx: &mut Context<'_>, scratch: &Scratch, busy_poll: &BusyPoll) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        if inner.ended {
            return Poll::Ready(());
        }
        if !inner.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            inner.driver = Some(cx.waker().clone());
        }
        drop(inner);
        let driven = self.poll_connection(cx, scratch, busy_poll);
        // A server that fails is for each read to find out, on a connection of its own.
        if let Err(error) = driven {
            self.fail(&error);
        }
        let idle = self.inner.borrow_mut().take_if_idle();
        give_back(idle);
        Poll::Pending
    }

    fn poll_connection(&self, cx: &mut Context<'_>, scratch: &Scratch, busy_poll: &BusyPoll) -> io::Result<()> {
        loop {
            {
                let mut inner = self.inner.borrow_mut();
                inner.send(cx)?;
                if inner.sent.is_empty() {
                    return Ok(());
                }
            }
            let mut scratch = scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            {
                let mut inner = self.inner.borrow_mut();
                let Some(lease) = &mut inner.lease else { return Ok(()) };
                match Pin::new(&mut lease.stream).poll_read(cx, &mut buffer) {
                    Poll::Ready(read) => read?,
                    Poll::Pending => return Ok(()),
                }
            }
            busy_poll.note();
            if buffer.filled().is_empty() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            let too_large = self.take(buffer.filled()).map_err(io::Error::other)?;
            if too_large {
                self.give_up_large();
            }
        }
    }

    /// The first reply is larger than replies on a pipeline may be: its read runs again alone, and the rest is never read.
    fn give_up_large(&self) {
        let mut inner = self.inner.borrow_mut();
        if let Some(first) = inner.sent.pop_front() {
            self.forms.borrow_mut().was_large(first.digest, Instant::now());
            inner.count_gone(1);
            first.is_long.set(false);
            first.tell(Answer::Alone(Why::Large));
        }
        let lost = inner.lose(Why::BehindLong);
        drop(inner);
        drop(lost);
    }

    /// Sees to it that a long read is noticed.
    fn poll_long(&self, cx: &mut Context<'_>, timer: &mut Timer) {
        let mut inner = self.inner.borrow_mut();
        if inner.sent.is_empty() || inner.has_long {
            return;
        }
        let due = inner.first_since + inner.bounds.time;
        if timer.is_set && timer.sleep.as_mut().poll(cx).is_pending() {
            return;
        }
        if timer.is_set && Instant::now() >= due {
            timer.is_set = false;
            let lost = self.first_is_long(&mut inner);
            drop(inner);
            return drop(lost);
        }
        timer.set(due);
        if timer.sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// The first read is long: those behind it run elsewhere, and the connection is its own until it ends. Gives the connection if
    /// nobody waits for that.
    fn first_is_long(&self, inner: &mut Inner) -> Option<Lease> {
        let first = inner.sent.front().cloned()?;
        self.forms.borrow_mut().was_long(first.digest, Instant::now());
        inner.run_elsewhere(1);
        // The queue and this function know it.
        if Rc::strong_count(&first) <= 2 {
            return inner.lose(Why::BehindLong);
        }
        inner.has_long = true;
        first.is_long.set(true);
        first.tell(Answer::Long);
        None
    }
}

impl Timer {
    fn set(&mut self, due: Instant) {
        self.sleep.as_mut().reset(due.into());
        self.is_set = true;
    }
}

impl Inner {
    /// Sends as many reads as may be sent in a row.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.lease.is_some() {
            self.take_turns();
        }
        let Some(lease) = &mut self.lease else { return Ok(()) };
        while self.written < self.out.len() {
            match Pin::new(&mut lease.stream).poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.written += written?,
                Poll::Pending => return Ok(()),
            }
        }
        if self.written > 0 {
            (self.written, self.unflushed) = (0, lease.stream.is_buffered());
            self.out.clear();
            self.out.shrink_to(BUFFER_KEPT_BYTES);
        }
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut lease.stream).poll_flush(cx)
        {
            self.unflushed = false;
            flushed?;
        }
        Ok(())
    }

    /// Puts as many reads as may be sent in a row behind those that were sent. The others wait for their turn.
    fn take_turns(&mut self) {
        if self.sent.is_empty() {
            self.sent_in_a_row = 0;
        }
        // All of them are sent in one write: one look at the clock will do.
        let now = LazyCell::new(Instant::now);
        while self.sent_in_a_row < SENT_IN_A_ROW_MAX
            && let Some(read) = self.waiting.pop_front()
        {
            if self.sent.is_empty() {
                self.first_since = *now;
            }
            if read.waits.get() {
                read.sent_late.set(Some(*now));
            }
            self.out.extend_from_slice(&read.request);
            self.sent_in_a_row += 1;
            self.sent.push_back(read);
        }
        // Those that are left wait; those before them do already.
        for read in self.waiting.iter().rev() {
            if read.waits.replace(true) {
                break;
            }
        }
    }

    /// All reads but the first ones run on connections of their own. The replies of those that were sent are thrown away.
    fn run_elsewhere(&mut self, first: usize) {
        for read in self.sent.iter().skip(first).chain(&self.waiting) {
            read.tell(Answer::Alone(Why::BehindLong));
        }
        self.count_gone(self.waiting.len());
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::Outgoing;
    use facts::view::ServerId;

    #[test]
    fn reads_beyond_a_row_wait_until_they_are_sent() {
        let pipeline = Rc::new(Pipeline::new(ServerId(1), Rc::default()));
        let start = Instant::now();
        let append = |pipeline: &Rc<Pipeline>| pipeline.append(1, start, &mut Outgoing::default());
        let places: Vec<_> = (0..SENT_IN_A_ROW_MAX + 3).map(|_| append(&pipeline)).collect();
        let waits = || places.iter().filter(|place| place.waited_until().is_some()).count();
        pipeline.inner.borrow_mut().take_turns();
        assert_eq!((pipeline.inner.borrow().sent.len(), waits()), (SENT_IN_A_ROW_MAX, 3));
        // One more that comes now waits, too, before and behind its turn.
        let more = append(&pipeline);
        pipeline.inner.borrow_mut().take_turns();
        assert!(more.waited_until().is_some());
        let later = Instant::now();
        pipeline.inner.borrow_mut().sent.clear();
        pipeline.inner.borrow_mut().take_turns();
        let sent = more.waited_until().unwrap();
        assert!(sent >= later && more.waited_until() == Some(sent) && waits() == 3);
        // Its memory says nothing of that to the next one.
        assert!(append(&pipeline).waited_until().is_none());
    }
}

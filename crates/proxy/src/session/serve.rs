//! A session from its client's first byte to its end, and how it is called from outside meanwhile.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::client::Request;
use super::event::LoginTried;
use super::{Session, event, login, moving};
use crate::addresses::FromAddress;
use crate::error::SessionEnd;
use crate::sessions::SessionHandle;
use crate::shared::{Counted, ListenerShared, NewClient, Shared};
use crate::worker::Worker;

/// All that lasts as long as the client's connection, on whichever worker its session runs.
#[derive(Debug)]
pub(super) struct Stay {
    /// When its login was over.
    pub logged_in: Instant,
    /// Counts as a client of its worker.
    pub of_worker: Option<Counted>,
    _registered: Registered,
    /// Counts as a session of its listener, and as a client of the process.
    _counted: [Counted; 2],
    /// Counts as a session of its address.
    _from: Option<FromAddress>,
}

/// Serves a client that has just connected, until it leaves.
pub fn spawn(worker: Rc<Worker>, client: NewClient) {
    tokio::task::spawn_local(async move {
        if let Some((session, stay)) = let_in(&worker, client).await {
            live(worker, session, stay).await;
        }
    });
}

/// Lets a client log in. `None` if it may not.
async fn let_in(worker: &Rc<Worker>, client: NewClient) -> Option<(Box<Session>, Stay)> {
    let NewClient { socket, listener, counted, of_process, of_worker, memory } = client;
    worker.stats.accepted.add_one();
    let stream = net::Stream::attach(socket).ok()?;
    let handle = worker.shared.sessions.register(stream.peer_addr());
    let registered = Registered::new(worker, &handle);
    let limit = listener.settings.load().login_timeout;
    let mut tried = LoginTried::begin();
    let login = login::log_in(worker.clone(), stream, listener.clone(), handle.clone(), memory, &mut tried);
    let came = {
        let mut login = Box::pin(tokio::time::timeout(limit, login));
        let came = login.as_mut().await;
        if came.is_err() {
            worker.leavers.turn().await;
        }
        came
    };
    let (mut session, from) = match came {
        Ok(Ok((session, from))) => (Box::new(session), from),
        failed => {
            let failed = failed.map(Result::err).unwrap_or_default();
            login_failed(worker, &handle, &listener, &tried, failed.as_ref());
            return None;
        }
    };
    worker.stats.logins.add_one();
    session.env.counts.logins.add_one();
    worker.stats.sessions.add(1);
    session.note_login(tried.begun, false);
    session.note_init_connect();
    let stay = Stay {
        logged_in: Instant::now(),
        of_worker,
        _registered: registered,
        _counted: [counted, of_process],
        _from: from,
    };
    Some((session, stay))
}

/// The life of a session on this worker: to its end, or until it moves to another worker.
pub(super) async fn live(worker: Rc<Worker>, mut session: Box<Session>, stay: Stay) {
    let handle = session.env.handle.clone();
    let end = run_until_called(&worker, &handle, pin!(session.run())).await.unwrap_or_else(|end| end);
    if let SessionEnd::Moves(to) = end {
        return moving::depart(worker, session, stay, to);
    }
    tracing::debug!(client = handle.client(), user = %session.who.identity.user, reason = %end, "session ended");
    session.note_end(stay.logged_in, &end);
    if matches!(end, SessionEnd::Idle) {
        Box::pin(session.tell_overdue()).await;
    }
    // On the heap: here it would take as much memory all the while that it has not begun.
    Box::pin(session.end()).await;
}

/// A client was not let in; without a reason its time was over.
fn login_failed(
    worker: &Worker,
    handle: &SessionHandle,
    listener: &ListenerShared,
    tried: &LoginTried,
    reason: Option<&SessionEnd>,
) {
    worker.stats.login_failures.add_one();
    worker.stats.listener(&listener.cluster.name, &listener.name).login_failures.add_one();
    let why = match reason {
        Some(end) => {
            tracing::debug!(client = handle.client(), reason = %end, "login failed");
            event::failure(end)
        }
        None => {
            tracing::debug!(client = handle.client(), "login took longer than login_timeout_ms");
            Some("the login took longer than login_timeout_ms".to_owned())
        }
    };
    if let Some(why) = why {
        event::login_refused(worker, handle, listener, tried, why);
    }
}

/// Runs what a session does, and listens to who calls the session from outside meanwhile. The caller keeps the work: by value
/// this future would have it twice, as its argument and as the future that it runs. While the worker is measured, so is each turn.
pub(super) async fn run_until_called<T>(
    worker: &Worker,
    handle: &SessionHandle,
    mut run: Pin<&mut impl Future<Output = T>>,
) -> Result<T, SessionEnd> {
    let mut first = true;
    poll_fn(|cx| {
        worker.begin_turn();
        let measured = if worker.presses.get() { worker.relief.begin_turn() } else { None };
        let polled = poll_called(worker, handle, run.as_mut(), cx, &mut first);
        if let Some(begun) = measured {
            worker.relief.end_turn(handle.id, begun);
        }
        polled
    })
    .await
}

#[inline]
fn poll_called<T>(
    worker: &Worker,
    handle: &SessionHandle,
    mut run: Pin<&mut impl Future<Output = T>>,
    cx: &mut Context<'_>,
    first: &mut bool,
) -> Poll<Result<T, SessionEnd>> {
    if let Poll::Ready(end) = run.as_mut().poll(cx) {
        return Poll::Ready(Ok(end));
    }
    while handle.wake.is_called(cx, first) {
        if handle.is_killed() {
            return Poll::Ready(Err(SessionEnd::Killed));
        }
        // By the clock and not by the call: the client may have been answered meanwhile.
        if handle.is_overdue(worker.shared.uptime_s()) {
            return Poll::Ready(Err(SessionEnd::Idle));
        }
        if worker.draining.get() && handle.droppable.load(Ordering::SeqCst) {
            return Poll::Ready(Err(SessionEnd::Draining));
        }
        // The statement that it runs may have been given up.
        if let Poll::Ready(end) = run.as_mut().poll(cx) {
            return Poll::Ready(Ok(end));
        }
    }
    Poll::Pending
}

/// Keeps the session in the list, and counted, while it lives.
#[derive(Debug)]
pub(super) struct Registered {
    shared: Arc<Shared>,
    handle: Arc<SessionHandle>,
}

impl Registered {
    /// A session of this worker that is in the list already.
    pub(super) fn new(worker: &Worker, handle: &Arc<SessionHandle>) -> Registered {
        handle.worker.store(worker.index, Ordering::Relaxed);
        Registered { shared: worker.shared.clone(), handle: handle.clone() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.sessions.remove(self.handle.id);
    }
}

/// The thing that a session does before its next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressed {
    /// It ends: the process stops, and nothing of the session's is under way.
    Leaves,
    /// It waits for room for events.
    Waits,
    /// It goes on at this worker.
    Moves(usize),
}

impl Session {
    /// One request after the other, to the end.
    async fn run(&mut self) -> SessionEnd {
        if self.here.init_connect.is_some()
            && let Err(end) = Box::pin(self.run_init_connect()).await
        {
            return end;
        }
        loop {
            let request = match self.next_request().await {
                Ok(request) => request,
                Err(end) => return end,
            };
            if request.packets.len() as u64 > self.belief.packet_limit.refused_bytes()
                && let Some(end) = Box::pin(self.refuse_length(&request)).await
            {
                return end;
            }
            if let Err(end) = self.handle(&request).await {
                // The last message should still arrive; whether it does changes nothing.
                let _ = self.client.flush().await;
                return end;
            }
            self.client.reuse(request);
        }
    }

    /// Waits for a command that the result cache does not answer; those that it does are answered meanwhile. An idle session costs
    /// memory only: who has to end it wakes it.
    pub(super) async fn next_request(&mut self) -> Result<Request, SessionEnd> {
        loop {
            self.client.flush_answers().await?;
            let pressed = if self.env.worker.presses.get() { self.pressed() } else { None };
            match pressed {
                Some(Pressed::Leaves) => return Err(SessionEnd::Draining),
                Some(Pressed::Moves(to)) => return Err(SessionEnd::Moves(to)),
                Some(Pressed::Waits) | None => {}
            }
            self.env.handle.droppable.store(self.here.held.is_none(), Ordering::Relaxed);
            self.env.handle.idle_since_s.store(self.env.worker.uptime_s.get(), Ordering::Relaxed);
            if pressed == Some(Pressed::Waits) {
                Box::pin(self.env.worker.wait_for_events()).await;
            }
            self.show_state();
            let mut timer = self.idle_timer();
            let next = poll_fn(|cx| {
                let polled = self.poll_unknown(cx);
                if polled.is_pending()
                    && let Some(timer) = &mut timer
                {
                    let since_s = self.env.handle.idle_since_s.load(Ordering::Relaxed);
                    return timer.poll(cx, since_s).map(|()| Err(SessionEnd::Idle));
                }
                polled
            });
            let request = match next.await {
                Ok(None) if !self.must_stop() => self.long_request().await.map(Some),
                request => request,
            };
            self.env.handle.begin_command();
            self.env.handle.idle_since_s.store(0, Ordering::Relaxed);
            self.env.handle.droppable.store(false, Ordering::Relaxed);
            if let Some(request) = request? {
                self.env.worker.stats.requests.add_one();
                self.env.worker.spend_bytes(request.packets.len());
                return Ok(request);
            }
        }
    }

    /// A command that the result cache does not answer. `None` if something else is to be done before the next one, or if that is not
    /// [a short one](Client::poll_short).
    ///
    /// A command that it does answer is looked up, answered and forgotten here, within one call: with many sessions most of
    /// the time for that goes to waiting for memory, and each future between here and the socket has some; and behind a system
    /// call each return is a slow one.
    #[inline]
    fn poll_unknown(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Request>, SessionEnd>> {
        while !self.must_stop() {
            ready!(self.env.worker.poll_turn(cx));
            let request = match ready!(self.client.poll_short(cx, &self.env.worker)) {
                Ok(Some(request)) => request,
                other => return Poll::Ready(other),
            };
            let Some(reply) = self.known_reply(&request) else { return Poll::Ready(Ok(Some(request))) };
            self.env.worker.stats.requests.add_one();
            self.env.worker.spend_bytes(request.packets.len() + reply.bytes().len() / 4);
            // It is never pending: what the socket does not take waits to be flushed.
            if let Poll::Ready(Err(error)) = self.client.poll_answer(cx, reply.bytes()) {
                return Poll::Ready(Err(SessionEnd::ClientLost(error)));
            }
            reply.over(&self.env.worker);
            self.client.reuse(request);
            let now = self.env.worker.uptime_s.get();
            if self.env.handle.idle_since_s.load(Ordering::Relaxed) != now {
                self.env.handle.idle_since_s.store(now, Ordering::Relaxed);
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Before the next command is taken there is something else to do.
    #[inline]
    fn must_stop(&self) -> bool {
        self.client.must_flush() || self.env.worker.presses.get() && self.pressed().is_some()
    }

    /// The thing that the session does before its next statement, if its worker wants something.
    #[cold]
    fn pressed(&self) -> Option<Pressed> {
        let worker = &self.env.worker;
        if worker.draining.get() {
            return (self.here.held.is_none() && self.client.is_idle()).then_some(Pressed::Leaves);
        }
        if worker.events_crowded.get() {
            return Some(Pressed::Waits);
        }
        worker.relief.target_of(self.env.handle.id).filter(|_| self.can_move()).map(Pressed::Moves)
    }

    /// The next command, whatever its length.
    async fn long_request(&mut self) -> Result<Request, SessionEnd> {
        let listener = &self.env.listener;
        let max_bytes = || usize::try_from(listener.settings.load().max_packet).unwrap_or(usize::MAX);
        let refused_bytes = self.belief.packet_limit.refused_bytes();
        self.client.next_request(&self.env.worker, max_bytes, refused_bytes).await
    }
}

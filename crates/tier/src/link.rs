//! The one connection: it logs in, becomes a member, and carries lookups, results and reports of writes until it breaks.

mod login;
mod replies;
mod requests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

use crate::membership::Clock;
use crate::resp;
use crate::{FORM, ResultKey, Shared, State, TierReply};
use login::Server;

/// Requests that are under way; those behind them wait.
const UNDER_WAY_MAX: usize = 4096;
/// Requests that go out in one piece.
const BATCH: usize = 256;
/// Bytes that wait to be sent; then no more requests are taken.
const UNSENT_MAX: usize = 4 << 20;
/// The member says that it is there so many times in the time of a membership.
const BEATS: u32 = 4;
/// Pauses between attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Longest that leaving may take.
const LEAVE_LIMIT: Duration = Duration::from_millis(200);
/// Longest text of the server's that is passed on, in characters.
const TEXT_MAX: usize = 200;

/// The workers' requests.
#[derive(Debug)]
pub(crate) enum Order {
    Ask(Ask),
    Put(Put),
}

/// A question.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) fields: Vec<Box<[u8]>>,
    pub(crate) have: Box<[u8]>,
    pub(crate) key: Option<ResultKey>,
    pub(crate) reply: oneshot::Sender<TierReply>,
}

/// An answer to keep.
#[derive(Debug)]
pub(crate) struct Put {
    pub(crate) key: ResultKey,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_ms: u64,
}

/// Why a connection is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Malformed(#[from] resp::Malformed),
    #[error("{0}")]
    Text(String),
    /// The server's error.
    #[error("it says {0}")]
    Refused(String),
}

/// The server's own words, fit for a log.
fn refused(words: &[u8]) -> Trouble {
    Trouble::Refused(String::from_utf8_lossy(words).chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect())
}

/// Connects again and again until the process ends.
pub(crate) async fn run(shared: &Arc<Shared>, mut orders: mpsc::Receiver<Order>) {
    let mut state = LinkState::default();
    let mut pause = PAUSE_MIN;
    let mut complained: Option<String> = None;
    while !shared.stopping.load(Ordering::SeqCst) {
        let opening = tokio::time::timeout(shared.settings.connect_timeout, login::open(&shared.settings));
        let opened = tokio::select! {
            opened = opening => opened,
            () = shared.wait_for_stop() => return,
        };
        let opened = opened.unwrap_or_else(|_| {
            let limit = shared.settings.connect_timeout.as_millis();
            Err(Trouble::Text(format!("it has not let this process in within {limit} ms")))
        });
        let trouble = match opened {
            Ok((stream, server)) => {
                shared.counts.connects.fetch_add(1, Ordering::Relaxed);
                shared.words().server = Some(server.version.clone());
                let mut link = Link::new(shared, stream, server, &mut state);
                let ended = link.serve(&mut orders, &mut complained).await;
                if link.was_member {
                    pause = PAUSE_MIN;
                }
                let lost = link.under_way.iter().any(|(request, _)| matches!(request, Request::Report(_)));
                drop(link);
                state.has_unreported |= lost;
                ended.err()
            }
            Err(trouble) => Some(trouble),
        };
        shared.set_state(State::Away);
        while let Ok(order) = orders.try_recv() {
            shared.drop_order(order);
        }
        let Some(trouble) = trouble else { continue };
        let text = trouble.to_string();
        if complained.as_ref() != Some(&text) {
            tracing::warn!(tier = %shared.settings.address, "the cache's tier cannot be used, servers answer: {text}");
        }
        shared.words().trouble = Some(text.clone());
        complained = Some(text);
        // A stop need not wait.
        let _ = tokio::time::timeout(pause, shared.wait_for_stop()).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl Shared {
    fn words(&self) -> std::sync::MutexGuard<'_, crate::Words> {
        self.words.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    async fn wait_for_stop(&self) {
        while !self.stopping.load(Ordering::SeqCst) {
            self.reports.changed.notified().await;
        }
    }

    fn drop_order(&self, order: Order) {
        if let Order::Put(put) = order {
            self.put_bytes.fetch_sub(put.body.len(), Ordering::Relaxed);
        }
    }
}

/// Sends as much as goes, or sees to it that all goes out; gives 0 when it has.
async fn send(writer: &mut WriteHalf<net::Stream>, unsent: &[u8]) -> std::io::Result<usize> {
    match unsent {
        [] => writer.flush().await.map(|()| 0),
        unsent => writer.write(unsent).await,
    }
}

/// The state that survives a connection.
#[derive(Debug, Default)]
struct LinkState {
    /// The other members, as they were seen last.
    members: Vec<Box<[u8]>>,
    /// Some writes may not have been reported.
    has_unreported: bool,
}

/// The request that a reply belongs to.
#[derive(Debug)]
enum Request {
    /// Up to which number it reports what was written.
    Join(u64),
    Beat,
    Ask(Ask),
    Put,
    Report(u64),
    Leave,
}

struct Link<'a> {
    shared: &'a Arc<Shared>,
    state: &'a mut LinkState,
    server: Server,
    reader: ReadHalf<net::Stream>,
    writer: WriteHalf<net::Stream>,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// How many of these were sent.
    sent: usize,
    /// Something is still to be sent, or to be pushed out.
    unflushed: bool,
    under_way: VecDeque<(Request, Instant)>,
    clock: Clock,
    members_key: Vec<u8>,
    tags_key: Vec<u8>,
    nothing_key: Vec<u8>,
    is_member: bool,
    was_member: bool,
    /// A word of membership is under way.
    beats: bool,
    next_beat: Instant,
}

impl<'a> Link<'a> {
    fn new(shared: &'a Arc<Shared>, stream: net::Stream, server: Server, state: &'a mut LinkState) -> Link<'a> {
        let (reader, writer) = tokio::io::split(stream);
        let key = |what: &str| format!("{}:{FORM}:{}:{what}", shared.settings.prefix, server.run).into_bytes();
        Link {
            members_key: key("members"),
            tags_key: key("marks"),
            nothing_key: key("nothing"),
            clock: server.clock,
            shared,
            state,
            server,
            reader,
            writer,
            received: Vec::with_capacity(16 << 10),
            unsent: Vec::new(),
            sent: 0,
            unflushed: false,
            under_way: VecDeque::new(),
            is_member: false,
            was_member: false,
            beats: false,
            next_beat: Instant::now(),
        }
    }

    /// Serves until the process ends.
    async fn serve(
        &mut self,
        orders: &mut mpsc::Receiver<Order>,
        complained: &mut Option<String>,
    ) -> Result<(), Trouble> {
        let mut leaving = None;
        loop {
            if leaving.is_none() && self.shared.stopping.load(Ordering::SeqCst) {
                leaving = Some(Instant::now() + LEAVE_LIMIT);
                self.leave();
            }
            if leaving.is_some_and(|end| self.under_way.is_empty() || Instant::now() >= end) {
                return Ok(());
            }
            let wakes = leaving.unwrap_or_else(|| self.wakes_at());
            let has_room = self.under_way.len() < UNDER_WAY_MAX && self.unsent.len() - self.sent < UNSENT_MAX;
            let shared = self.shared;
            tokio::select! {
                read = self.reader.read_buf(&mut self.received) => {
                    if read? == 0 {
                        return Err(Trouble::Text("it has closed the connection".into()));
                    }
                    self.take_replies(complained)?;
                }
                sent = send(&mut self.writer, &self.unsent[self.sent..]), if self.unflushed => {
                    let sent = sent?;
                    self.unflushed = sent > 0;
                    self.sent += sent;
                    if self.sent == self.unsent.len() {
                        self.unsent.clear();
                        self.unsent.shrink_to(UNSENT_MAX);
                        self.sent = 0;
                    }
                }
                order = orders.recv(), if has_room => {
                    let Some(order) = order else { return Ok(()) };
                    let mut batch = vec![order];
                    while batch.len() < BATCH && let Ok(order) = orders.try_recv() {
                        batch.push(order);
                    }
                    // Writes from before these requests go first.
                    self.report();
                    batch.into_iter().for_each(|order| self.order(order));
                }
                () = shared.reports.changed.notified() => self.report(),
                () = sleep_until(wakes.into()) => self.on_time()?,
            }
        }
    }

    /// When there is something to do if nothing happens.
    fn wakes_at(&self) -> Instant {
        let limit = match self.shared.state() {
            State::Serves => self.shared.settings.timeout,
            State::Slow | State::Away => self.shared.settings.membership,
        };
        let late = self.under_way.front().map(|(_, since)| *since + limit);
        let beat = (!self.beats).then_some(self.next_beat);
        late.into_iter().chain(beat).min().unwrap_or_else(|| Instant::now() + self.shared.settings.membership)
    }

    fn on_time(&mut self) -> Result<(), Trouble> {
        let now = Instant::now();
        if let Some((_, since)) = self.under_way.front() {
            let waits = now.saturating_duration_since(*since);
            if waits >= self.shared.settings.membership {
                return Err(Trouble::Text(format!("it has not answered for {} ms", waits.as_millis())));
            }
            if waits >= self.shared.settings.timeout && self.shared.state() == State::Serves {
                self.shared.set_state(State::Slow);
                self.shared.words().trouble = Some(format!("it has not answered for {} ms", waits.as_millis()));
            }
        }
        if !self.beats && now >= self.next_beat {
            self.next_beat = now + self.shared.settings.membership / BEATS;
            self.beats = true;
            if self.is_member { self.beat(now) } else { self.join(now) }
        }
        Ok(())
    }
}

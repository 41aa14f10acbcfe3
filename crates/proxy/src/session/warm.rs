//! Running a file of statements in sessions that are like a client's, so that the result cache keeps the answers under the
//! questions that such clients ask.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::cache::{Context, Refusal, WarmCounts, WarmRun};
use config::Warm;
use stats::digests::CacheSaid;
use wire::Capabilities;

use super::begin::Beginning;
use super::environment::Environment;
use super::login::UserSession;
use super::serve::{Registered, run_until_called};
use super::who::{LoginFacts, Who};
use super::{Identity, Session, stand_in};
use crate::error::SessionEnd;
use crate::shared::{ClientKind, Mail, Warming};
use crate::worker::Worker;

/// Longest wait for one statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(60);
/// Statements that were not kept for a reason that passes are tried so often, at this pace.
const ROUNDS: u32 = 10;
const ROUND_PACE: Duration = Duration::from_secs(1);
/// Mistakes that are logged one by one.
const MISTAKES_MAX: usize = 20;
/// Progress is logged so often.
const TELL_EACH: Duration = Duration::from_secs(5);

/// Reasons that pass: the tables were not read yet, a replica is behind, somebody writes.
const PASSING: [Refusal; 4] = [Refusal::UnknownTables, Refusal::Behind, Refusal::Raced, Refusal::NotFollowing];

/// A run that is under way.
struct FileRun<'a> {
    name: &'a str,
    warming: &'a Warming,
    warm: &'a Warm,
    waiting: RefCell<VecDeque<usize>>,
    again: RefCell<VecDeque<usize>>,
    is_last: Cell<bool>,
    done: Cell<usize>,
    reported: Cell<Instant>,
    tally: RefCell<WarmRun>,
}

/// Runs a file for one kind of clients; nothing when its clients have gone.
pub async fn warm_up(
    worker: &Rc<Worker>,
    name: &Arc<str>,
    warm: &Arc<Warm>,
    kind: &Arc<ClientKind>,
    why: &'static str,
) -> Option<WarmRun> {
    kind.key.upgrade()?;
    let begun = Instant::now();
    tracing::info!(warm = %name, user = %warm.user, statements = warm.statements.len(), why, "filling the result cache");
    let run = FileRun {
        name,
        warming: &worker.shared.warming,
        warm,
        waiting: RefCell::new((0..warm.statements.len()).collect()),
        again: RefCell::default(),
        is_last: Cell::new(false),
        done: Cell::new(0),
        reported: Cell::new(begun),
        tally: RefCell::new(WarmRun { why, ..WarmRun::default() }),
    };
    for round in 1..=ROUNDS {
        run.is_last.set(round == ROUNDS);
        let sessions = warm.sessions.min(run.waiting.borrow().len());
        let feeders = (0..sessions).map(|_| feed(worker, kind, &run));
        all(feeders.map(Box::pin).collect()).await;
        run.waiting.swap(&run.again);
        if run.waiting.borrow().is_empty() || worker.draining.get() {
            break;
        }
        tokio::time::sleep(ROUND_PACE).await;
    }
    let mut tally = run.tally.into_inner();
    tally.took = begun.elapsed();
    tracing::info!(
        warm = %name, kept = tally.counts.kept, there = tally.counts.there, without_rule = tally.counts.without_rule,
        failed = tally.counts.failed, refused = tally.counts.refused, ms = tally.took.as_millis() as u64, "the result cache was filled"
    );
    Some(tally)
}

/// Waits for all of them, side by side.
async fn all<F: Future<Output = ()> + Unpin>(mut futures: Vec<F>) {
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| std::pin::Pin::new(future).poll(cx).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// One session takes one statement after the other.
async fn feed(worker: &Rc<Worker>, kind: &ClientKind, run: &FileRun<'_>) {
    let mut session = None;
    loop {
        // The borrow must not last.
        let next = run.waiting.borrow_mut().pop_front();
        let Some(index) = next.filter(|_| !worker.draining.get()) else { break };
        let Some(statement) = run.warm.statements.get(index) else { break };
        let warm = match session.take() {
            Some(warm) => warm,
            None => match WarmSession::new(worker, kind) {
                Some(warm) => warm,
                None => break,
            },
        };
        let (warm, came) = warm.ask(worker, &statement.text).await;
        session = warm;
        run.count(index, statement.line, came);
    }
    if let Some(warm) = session {
        warm.session.end().await;
    }
}

impl Session {
    /// A session asks the cache: those like it are a kind for which it may be filled. A hash stands for the user's rights.
    pub(super) fn note_kind(&self, rights: u64) {
        if self.env.worker.shared.config.load().warms.is_empty() {
            return;
        }
        let key = &self.who.identity.key;
        let ip = key.client.map(|client| client.ip().to_string()).unwrap_or_default();
        let capabilities = self.client.capabilities.bits().to_le_bytes();
        let fixed = [self.env.listener.name.as_bytes(), ip.as_bytes(), &capabilities];
        let context = Context::new(fixed.into_iter().chain(self.belief.state.answer_context()));
        let (cluster, user) = (&self.here.cluster.shared, &self.who.identity.user);
        let config = self.env.worker.shared.config.load();
        for (name, warm) in &config.warms {
            let fits = warm.cluster == cluster.name && warm.user == *user;
            if !fits || warm.schema.as_deref() != self.belief.state.schema() {
                continue;
            }
            let kind = || self.kind(context.clone(), rights);
            if let Some(kind) = self.env.worker.shared.warming.note(name, (&context, rights), kind) {
                cluster.send(self.env.worker.index, Mail::WarmKind(name.clone(), kind));
            }
        }
    }

    /// The kind of clients that this session's is of.
    fn kind(&self, context: Context, rights: u64) -> ClientKind {
        let key = &self.who.identity.key;
        ClientKind {
            context,
            rights,
            listener: self.env.listener.clone(),
            key: Arc::downgrade(key),
            state: self.belief.state.clone(),
            // Its replies go nowhere, so they need not be small.
            capabilities: self.client.capabilities - Capabilities::COMPRESS - Capabilities::ZSTD_COMPRESSION,
            client: self.env.handle.client_addr(),
            collation: self.who.identity.collation,
            split: self.who.identity.split,
            consistency: (self.who.identity.consistency, self.who.identity.configured),
            connections_max: self.who.identity.connections_max,
            busy: Arc::default(),
            again: Arc::default(),
        }
    }
}

/// The outcome of a statement.
enum Came {
    Said(Option<CacheSaid>),
    Failed(String),
}

impl FileRun<'_> {
    fn count(&self, index: usize, line: u32, came: Came) {
        let mut tally = self.tally.borrow_mut();
        let count: fn(&mut WarmCounts) -> &mut u64 = match came {
            Came::Said(Some(CacheSaid::Miss)) => |counts| &mut counts.kept,
            Came::Said(Some(CacheSaid::Hit { .. })) => |counts| &mut counts.there,
            Came::Said(None) => |counts| &mut counts.without_rule,
            Came::Said(Some(CacheSaid::Refused(reason))) => {
                let reason = Refusal::ALL.get(usize::from(reason)).copied();
                if reason.is_some_and(|reason| PASSING.contains(&reason)) && !self.is_last.get() {
                    self.again.borrow_mut().push_back(index);
                    return;
                }
                *tally.refused.entry(reason.map_or("", Refusal::word)).or_default() += 1;
                |counts| &mut counts.refused
            }
            Came::Failed(why) => {
                if tally.mistakes.len() < MISTAKES_MAX {
                    tracing::warn!(warm = self.name, "{}:{line}: {why}", self.warm.file.display());
                    tally.mistakes.push((line, why));
                }
                |counts| &mut counts.failed
            }
        };
        *count(&mut tally.counts) += 1;
        self.warming.count(self.name, count);
        self.done.set(self.done.get() + 1);
        if self.reported.get().elapsed() >= TELL_EACH {
            self.reported.set(Instant::now());
            let (done, of) = (self.done.get(), self.warm.statements.len());
            tracing::info!(warm = self.name, done, of, kept = tally.counts.kept, "filling the result cache goes on");
        }
    }
}

/// A session like a client's, whose replies are dropped.
struct WarmSession {
    session: Session,
    _registered: Registered,
}

impl WarmSession {
    fn new(worker: &Rc<Worker>, kind: &ClientKind) -> Option<WarmSession> {
        let key = kind.key.upgrade()?;
        let client = stand_in::client(kind.capabilities).ok()?;
        let handle = worker.shared.sessions.register(None);
        let registered = Registered::new(worker, &handle);
        if let Some(client) = kind.client {
            let _ = handle.proxied_from.set(client);
        }
        handle.idle_s_max.store(u32::MAX, std::sync::atomic::Ordering::Relaxed);
        let listener = kind.listener.clone();
        let cluster = worker.cluster(&listener.cluster);
        let view = cluster.view();
        let flavour = view.flavour.as_ref()?;
        let identity = Identity {
            user: key.user.clone(),
            user_hash: route::state::user_hash(&cluster.shared.name, &key.user),
            _session: UserSession::unlimited(&worker.shared, &key.user)?,
            key,
            login: cluster.shared.logins.now().max(1),
            attributes: None,
            collation: kind.collation,
            split: kind.split,
            pipelines: config::Pipelines::Off,
            consistency: kind.consistency.0,
            configured: kind.consistency.1,
            policy_scope: Cell::default(),
            connections_max: kind.connections_max,
        };
        let scramble = wire::auth::new_scramble().ok()?;
        let facts = LoginFacts { scramble, fingerprint: None, speaks_native: true, refused_changes: 0 };
        let beginning = Beginning {
            env: Environment {
                worker: worker.clone(),
                listener,
                handle: handle.clone(),
                // It is no client of the listener.
                counts: Arc::default(),
                shown: Cell::default(),
            },
            cluster,
            client,
            who: Who { identity, login: facts, client: None, numbers: Cell::default() },
            state: kind.state.clone(),
        };
        let mut session = Session::begin(beginning, flavour);
        session.belief.status = session.belief.status_at_rest();
        worker.stats.sessions.add(1);
        Some(WarmSession { session, _registered: registered })
    }

    /// Runs a statement. The session may be over afterwards.
    async fn ask(mut self, worker: &Worker, text: &[u8]) -> (Option<WarmSession>, Came) {
        let request = stand_in::query(text, self.session.client.capabilities);
        // The short way to an answer tells nothing of it.
        self.session.here.cache_context = None;
        self.session.belief.past.error = None;
        let handle = self.session.env.handle.clone();
        let asked = {
            let run = pin!(self.session.handle(&request));
            tokio::time::timeout(STATEMENT_LIMIT, run_until_called(worker, &handle, run)).await
        };
        let (ended, cache_came) = match asked {
            Ok(Ok(Ok(came))) => (None, came),
            Ok(Ok(Err(end)) | Err(end)) => (Some(end), None),
            Err(_) => (Some(SessionEnd::ServerLost(format!("no answer in {} s", STATEMENT_LIMIT.as_secs()))), None),
        };
        let came = match (&ended, &self.session.belief.past.error) {
            (Some(end), _) => Came::Failed(end.to_string()),
            (None, Some(error)) => Came::Failed(format!("error {}: {}", error.code, error.message)),
            (None, None) => Came::Said(cache_came),
        };
        // A transaction or state that a file leaves open ends with its session.
        if ended.is_some() || self.session.here.held.is_some() {
            self.session.end().await;
            return (None, came);
        }
        (Some(self), came)
    }
}

//! A session moves to another worker: it is taken apart between two statements, and put together there as if it had begun there.
//!
//! All that the client may notice goes along: its connection with its encryption, identity, state, prepared statements, the results
//! of the last statement, and what its reads must find. Its backend connections stay: it has none between statements unless it is
//! pinned, and then it does not move.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ::facts::tables::{TableScope, WrittenRows};
use ::facts::view::ServerId;
use net::Stream;
use net::stream::{DetachError, Detached};
use route::OwnWrites;
use wire::{Capabilities, Status};

use super::belief::PackedBelief;
use super::cache::TransactionReads;
use super::client::Client;
use super::cluster_session::ClusterSession;
use super::environment::Environment;
use super::serve::{Stay, live};
use super::transaction::Transaction;
use super::who::Who;
use super::{Session, event};
use crate::error::SessionEnd;
use crate::pool::Key;
use crate::sessions::SessionHandle;
use crate::shared::{Counted, ListenerShared, Mail};
use crate::worker::{ClusterHere, Worker};

/// A session with more prepared statements stays: each takes some microseconds.
const STATEMENTS_MAX: usize = 1000;

/// A session on its way to another worker.
#[derive(Debug)]
pub struct Moving {
    socket: Detached,
    capabilities: Capabilities,
    listener: Arc<ListenerShared>,
    handle: Arc<SessionHandle>,
    who: Who,
    belief: PackedBelief,
    transaction: BetweenTransactions,
    own_writes: Option<Box<OwnWrites>>,
    read_last: Option<ServerId>,
    written_for_cache: Option<WrittenRows>,
    stay: Stay,
}

/// The part of [`Transaction`] that is there while none is open.
#[derive(Debug)]
struct BetweenTransactions {
    reads: TransactionReads,
    written: Option<TableScope>,
    writes_open: bool,
}

impl Session {
    /// Whether nothing ties the session to its worker.
    pub(super) fn can_move(&self) -> bool {
        self.here.held.is_none()
            && self.here.init_connect.is_none()
            && self.client.is_at_rest()
            && self.belief.pins.is_empty()
            && self.transaction.log.is_none()
            && !self.belief.status.contains(Status::IN_TRANSACTION)
            && self.belief.statements.len() <= STATEMENTS_MAX
    }
}

/// The session leaves its worker, between two statements.
pub(super) fn depart(worker: Rc<Worker>, session: Box<Session>, stay: Stay, to: usize) {
    let Session { env, client, who, belief, transaction, mut here } = *session;
    let Client { stream, capabilities, .. } = client;
    let id = env.handle.id;
    let socket = match stream.detach() {
        Ok(socket) => socket,
        Err(DetachError::Stays(stream)) => {
            worker.relief.settle(id, false);
            let client = Client::new(*stream, capabilities, env.counted());
            let session = Session { env, client, who, belief, transaction, here };
            tokio::task::spawn_local(live(worker, Box::new(session), stay));
            return;
        }
        Err(DetachError::Io(error)) => {
            worker.relief.settle(id, false);
            worker.stats.sessions.add(-1);
            return lost(&worker, &env.handle, &who, stay.logged_in, error);
        }
    };
    let Transaction { reads, written, writes_open, .. } = transaction;
    let (own_writes, written_for_cache) = (here.own_writes.take(), here.written_for_cache.take());
    let cluster = here.cluster.shared.clone();
    let moving = Moving {
        socket,
        capabilities,
        listener: env.listener,
        handle: env.handle,
        who,
        belief: belief.pack(),
        transaction: BetweenTransactions { reads, written, writes_open },
        own_writes,
        read_last: here.read_last,
        written_for_cache,
        stay,
    };
    // Its user has one session less here.
    drop(here);
    worker.relief.settle(id, true);
    worker.stats.sessions.add(-1);
    // A worker that is gone has dropped its mailbox: the process stops, and the client is closed with the mail.
    cluster.send(to, Mail::Session(Box::new(moving)));
}

/// A session comes from another worker: a [`Moving`], as its mail has it.
pub fn arrive(worker: &Rc<Worker>, moving: Box<dyn Any + Send>) {
    let Ok(moving) = moving.downcast::<Moving>() else { return };
    let cluster = worker.cluster(&moving.listener.cluster);
    // The other worker may have heard of a change before this one.
    let (published, view) = (&cluster.shared.published, cluster.view());
    if !Arc::ptr_eq(&view, &published.view.load()) || !Arc::ptr_eq(&cluster.catalog(), &published.catalog.load()) {
        worker.take_published(&cluster);
    }
    if let Some((session, stay)) = moving.settle(worker, cluster) {
        worker.stats.sessions.add(1);
        worker.stats.sessions_taken.add_one();
        tokio::task::spawn_local(live(worker.clone(), session, stay));
    }
}

impl Moving {
    /// Puts the session together on its new worker. `None` when the client's connection is lost.
    fn settle(self, worker: &Rc<Worker>, cluster: Rc<ClusterHere>) -> Option<(Box<Session>, Stay)> {
        let Moving { socket, capabilities, listener, handle, mut who, belief, mut stay, .. } = self;
        let stream = match Stream::attach(socket) {
            Ok(stream) => stream,
            Err(error) => {
                lost(worker, &handle, &who, stay.logged_in, error);
                return None;
            }
        };
        handle.worker.store(worker.index, std::sync::atomic::Ordering::Relaxed);
        stay.of_worker = worker.shared.worker_clients.get(worker.index).and_then(|of| Counted::begin(of, u32::MAX));
        who.identity.policy_scope.take();
        if who.identity.key.attributes.is_none() {
            // Keys of one worker are compared by their place in memory.
            who.identity.key = cluster.same_key(Key::clone(&who.identity.key));
        }
        let belief = belief.unpack(&cluster);
        let BetweenTransactions { reads, written, writes_open } = self.transaction;
        let mut here = ClusterSession::new(cluster, &who.identity.user);
        here.own_writes = self.own_writes;
        here.read_last = self.read_last;
        here.written_for_cache = self.written_for_cache;
        let env = Environment::new(worker.clone(), listener, handle);
        let session = Session {
            client: Client::new(stream, capabilities, env.counted()),
            env,
            who,
            belief,
            transaction: Transaction { log: None, reads, written, writes_open },
            here,
        };
        Some((Box::new(session), stay))
    }
}

/// The system has refused to take a client's connection from a worker, or to give it to one.
fn lost(worker: &Worker, handle: &SessionHandle, who: &Who, logged_in: Instant, error: std::io::Error) {
    let end = SessionEnd::ClientLost(error);
    tracing::warn!(client = handle.client(), user = %who.identity.user, reason = %end, "a session was lost on its way");
    event::ended(worker, handle.id, who, logged_in, &end);
}

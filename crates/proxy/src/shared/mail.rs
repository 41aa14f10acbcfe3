//! The mail between workers, and to them.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use facts::sessions::Relieved;
use facts::view::ServerId;
use proof::tail::Name;
use route::relief::Relief;
use stats::digests::{Deliver, DigestSource};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::NewClient;
use super::warming::ClientKind;
use crate::pool::Parcel;
use crate::turned_away::TurnedAway;

/// Where mail to each worker goes in.
pub type Mailboxes = Arc<[UnboundedSender<Mail>]>;

/// A message to a worker.
#[derive(Debug)]
pub enum Mail {
    /// A client has connected.
    Client(Box<NewClient>),
    /// A session comes from another worker: a [`crate::session::Moving`], which only sessions know.
    Session(Box<dyn Any + Send>),
    /// Sessions are to move to another worker.
    Relieve(Box<ReliefOrder>),
    /// A cluster has a new view, new accounts, a new catalog or new settings.
    Published(Arc<str>),
    /// An idle backend connection, with its permit.
    Connection(Arc<str>, Box<Parcel>),
    /// The right to open a backend connection.
    Permit(Arc<str>, ServerId),
    /// Another worker waits for a connection to this server.
    Asked(Arc<str>, ServerId),
    /// There is room in the cluster's limit again.
    Room(Arc<str>),
    /// Another worker waits for a connection that this server has refused to open.
    Short(Arc<str>, ServerId),
    /// A server may open one now.
    Freed(Arc<str>),
    /// A client was refused.
    Refused(Box<TurnedAway>),
    /// Sessions end when they are between transactions; then the worker ends.
    Drain,
    /// There are other rules.
    Rules,
    /// The file of this name is to be run, so that the result cache has its answers.
    Warm(Arc<str>),
    /// The file of this name is to be run for a kind of clients that is new.
    WarmKind(Arc<str>, Arc<ClientKind>),
    /// Another server is the primary of this cluster.
    PrimaryChanged(Arc<str>),
    /// Another worker asks for the transactions that servers confirmed to sessions.
    Confirmed(Arc<str>, AskConfirmed),
    /// Somebody wants to know the digests.
    Digests(AskDigests),
}

/// An order to a worker: it gives sessions to another one.
#[derive(Debug)]
pub struct ReliefOrder {
    /// To which, and how many.
    pub relief: Relief,
    /// An operator has ordered it; else the worker was busy.
    pub by_operator: bool,
    /// Takes the result; `None` if the worker ends, or gives sessions away already.
    pub answer: Option<oneshot::Sender<Option<Relieved>>>,
}

/// A request for the transactions that servers confirmed to a worker's sessions.
#[derive(Debug)]
pub struct AskConfirmed {
    /// All since then are needed.
    pub since: Instant,
    /// Takes them; `None` if not all are known any more.
    pub answer: oneshot::Sender<Option<Vec<Name>>>,
}

/// A request for a worker's digests.
pub struct AskDigests {
    /// The worker begins to count anew.
    pub reset: bool,
    /// Takes them.
    pub deliver: Deliver,
}

impl std::fmt::Debug for AskDigests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskDigests").field("reset", &self.reset).finish_non_exhaustive()
    }
}

/// Where all workers are asked for their digests.
#[derive(Debug)]
pub struct Digests(pub Mailboxes);

impl DigestSource for Digests {
    fn ask(&self, reset: bool, deliver: &mut dyn FnMut() -> Deliver) {
        for mailbox in self.0.iter() {
            // A worker that has ended has none.
            let _ = mailbox.send(Mail::Digests(AskDigests { reset, deliver: deliver() }));
        }
    }
}

//! A connection to each server that is there before it is needed: an action then costs no login, and works when the server
//! has no connection left for anybody.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use cluster::observation::Failure;
use net::query::{Client, Limits};
use tokio::time::Instant;

use crate::monitor::link::{ServerAccess, query_failure};
use crate::steps::{self, FailedKind, Hand, Running};

/// Time between two looks whether it still lives; far below what servers allow to be idle.
const LOOK: Duration = Duration::from_secs(2);
/// So many looks lie between two readings of the events that run on a primary.
const LOOKS_PER_EVENTS: u64 = 5;
/// Answers of steps are small: lists of sessions and replication status.
const REPLY_BYTES_MAX: usize = 16 << 20;
/// A step's own limit is shorter; this one is for what it leaves behind.
const STATEMENT_LIMIT: Duration = Duration::from_secs(3_600);

/// A server's connection for actions.
pub(crate) struct Kept {
    access: ServerAccess,
    connect_timeout: Duration,
    idle: RefCell<Option<Client>>,
    watches_events: bool,
    events: RefCell<Events>,
}

/// The events that run on a server while it is the primary, as far as they were read.
#[derive(Default)]
struct Events {
    running: Option<Running>,
    /// They are being disabled there: what is read now tells nothing.
    held: bool,
    /// It was read-only at the last look.
    was_read_only: bool,
}

/// A connection in use.
pub(crate) struct Taken {
    pub(crate) client: Client,
    /// It was opened just now.
    pub(crate) fresh: bool,
}

impl Kept {
    /// `watches_events`: while the server takes writes, its enabled events are read from time to time.
    pub(crate) fn new(access: ServerAccess, connect_timeout: Duration, watches_events: bool) -> Rc<Kept> {
        let events = RefCell::new(Events::default());
        Rc::new(Kept { access, connect_timeout, idle: RefCell::new(None), watches_events, events })
    }

    /// The events that ran on the server when it was last seen as a primary; `None` when they were never read.
    pub(crate) fn events(&self) -> Option<Running> {
        self.events.borrow().running.clone()
    }

    /// These are about to be disabled. They are kept in mind beside those of an earlier attempt.
    pub(crate) fn hold_events(&self, running: Running) {
        let mut events = self.events.borrow_mut();
        if !events.held {
            events.running = None;
        }
        events.held = true;
        let known = events.running.get_or_insert_default();
        known.events.extend(running.events);
        known.scheduler = running.scheduler;
    }

    /// The server is the primary, and these should run there.
    pub(crate) fn release_events(&self, wanted: Option<Running>) {
        let mut events = self.events.borrow_mut();
        (events.running, events.held) = (wanted, false);
    }

    /// Reads what runs on a server that takes writes. Gives whether the connection is still good.
    async fn look_at_events(&self, client: &mut Client) -> bool {
        let mut hand = Hand::new(client, Instant::now() + self.connect_timeout);
        let running = match steps::events_of_primary(&mut hand).await {
            Ok(running) => running,
            Err(failed) => return matches!(failed.kind, FailedKind::Denied | FailedKind::Refused),
        };
        let mut events = self.events.borrow_mut();
        match running {
            None => (events.held, events.was_read_only) = (false, true),
            // It became writable just now: a step may be about to enable them.
            Some(_) if events.was_read_only => events.was_read_only = false,
            Some(running) if !events.held => events.running = Some(running),
            Some(_) => {}
        }
        true
    }

    /// The idle connection, or a new one.
    pub(crate) async fn take(&self, until: Instant) -> Result<Taken, Failure> {
        if let Some(client) = self.idle.borrow_mut().take() {
            return Ok(Taken { client, fresh: false });
        }
        let limit = until.saturating_duration_since(Instant::now()).min(self.connect_timeout);
        Ok(Taken { client: self.open(limit).await?, fresh: true })
    }

    /// Keeps a connection whose last reply was read to its end.
    pub(crate) fn give_back(&self, client: Client) {
        *self.idle.borrow_mut() = Some(client);
    }

    /// Sees to it that there is a connection, until the task is aborted.
    pub(crate) async fn keep(self: Rc<Kept>) {
        for look in 0_u64.. {
            // While it is looked at, a step opens one of its own.
            let idle = self.idle.borrow_mut().take();
            let good = match idle {
                Some(mut client) => {
                    let answered = tokio::time::timeout(self.connect_timeout, client.ping()).await;
                    matches!(answered, Ok(Ok(()))).then_some(client)
                }
                None => self.open(self.connect_timeout).await.ok(),
            };
            if let Some(mut client) = good {
                let asks = self.watches_events && look % LOOKS_PER_EVENTS == 0;
                if !asks || self.look_at_events(&mut client).await {
                    self.give_back(client);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn open(&self, limit: Duration) -> Result<Client, Failure> {
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: STATEMENT_LIMIT };
        let open = async {
            let mut client = self.access.open(limit, limits).await?;
            // Literals are written for this mode, and nothing of the server's own makes the connection go.
            let session = "SET SESSION sql_mode = '', wait_timeout = 3600";
            client.query(session).await.map_err(|error| query_failure(&error))?;
            Ok(client)
        };
        match tokio::time::timeout(limit, open).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure {
                class: cluster::observation::FailureClass::Timeout,
                text: format!("no connection within {} ms", limit.as_millis()).into(),
            }),
        }
    }
}

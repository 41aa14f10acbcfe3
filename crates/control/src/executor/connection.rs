//! A connection to each server that is there before it is needed: an action then costs no login, and works when the server
//! has no connection left for anybody.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use cluster::observation::Failure;
use net::query::{Client, Limits};
use tokio::time::Instant;

use crate::monitor::link::{Way, query_failure};

/// Time between two looks whether it still lives; far below what servers allow to be idle.
const LOOK: Duration = Duration::from_secs(2);
/// Answers of steps are small: lists of sessions and replication status.
const REPLY_BYTES_MAX: usize = 16 << 20;
/// A step's own limit is shorter; this one is for what it leaves behind.
const STATEMENT_LIMIT: Duration = Duration::from_secs(3_600);

/// A server's connection for actions.
pub(crate) struct Kept {
    way: Way,
    connect_timeout: Duration,
    idle: RefCell<Option<Client>>,
}

/// A connection in use.
pub(crate) struct Taken {
    pub(crate) client: Client,
    /// It was opened just now.
    pub(crate) fresh: bool,
}

impl Kept {
    pub(crate) fn new(way: Way, connect_timeout: Duration) -> Rc<Kept> {
        Rc::new(Kept { way, connect_timeout, idle: RefCell::new(None) })
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
        loop {
            // While it is looked at, a step opens one of its own.
            let idle = self.idle.borrow_mut().take();
            let good = match idle {
                Some(mut client) => {
                    let answered = tokio::time::timeout(self.connect_timeout, client.ping()).await;
                    matches!(answered, Ok(Ok(()))).then_some(client)
                }
                None => self.open(self.connect_timeout).await.ok(),
            };
            if let Some(client) = good {
                self.give_back(client);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn open(&self, limit: Duration) -> Result<Client, Failure> {
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: STATEMENT_LIMIT };
        let open = async {
            let mut client = self.way.open(limit, limits).await?;
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

//! Accepting clients, and the places that there are for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use net::Stream;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use wire::errno;

use crate::error::SqlError;
use crate::keys::Role;
use crate::login::{Entrance, LoginError, login};
use crate::replies;
use crate::session::{STATEMENTS_MAX, Session};
use crate::sources::Shared;

/// Sessions at a time.
pub const SESSIONS_MAX: usize = 32;
/// Connections at a time that have not logged in.
pub const LOGINS_MAX: usize = 16;
/// Longest time for a login.
const LOGIN_MAX: Duration = Duration::from_secs(10);
/// Pause after an accept that failed, so that a lack of file descriptors does not become a busy loop.
const PAUSE: Duration = Duration::from_millis(20);

/// The places of sessions, by their ids.
#[derive(Default)]
pub(crate) struct Seats {
    next: AtomicU32,
    taken: Mutex<HashMap<u32, Taken>>,
}

struct Taken {
    role: Role,
    is_cancelled: Arc<AtomicBool>,
    end: Arc<Notify>,
}

/// The place of one session. It is free again when this is dropped.
pub(crate) struct Seat {
    pub(crate) id: u32,
    pub(crate) is_cancelled: Arc<AtomicBool>,
    end: Arc<Notify>,
    seats: Arc<Seats>,
}

impl Seats {
    /// An id for a client: a small one, which no session of the data plane has.
    fn next_id(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed) % (1 << 30) + 1
    }

    /// A place for a session, if there is one.
    pub(crate) fn take(self: &Arc<Seats>, id: u32, role: Role) -> Option<Seat> {
        let mut taken = self.taken();
        if taken.len() >= SESSIONS_MAX {
            return None;
        }
        let (is_cancelled, end) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        taken.insert(id, Taken { role, is_cancelled: is_cancelled.clone(), end: end.clone() });
        Some(Seat { id, is_cancelled, end, seats: self.clone() })
    }

    /// Ends a session of the console, or its statement, if there is one of this id and the role is not below its own.
    pub(crate) fn kill(&self, id: u32, query_only: bool, role: Role) -> bool {
        let taken = self.taken();
        let Some(found) = taken.get(&id).filter(|found| role >= found.role) else { return false };
        found.is_cancelled.store(true, Ordering::Relaxed);
        if !query_only {
            found.end.notify_one();
        }
        true
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<u32, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until a KILL ends the session.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let end = self.end.clone();
        async move { end.notified().await }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken().remove(&self.id);
    }
}

/// Accepts clients for as long as it is polled.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let house = Arc::new(House {
        shared,
        seats: Arc::default(),
        logins: Arc::new(Semaphore::new(LOGINS_MAX)),
        turns: Arc::new(Semaphore::new(STATEMENTS_MAX)),
    });
    loop {
        match listener.accept().await {
            Ok((tcp, client)) => {
                let house = house.clone();
                tokio::spawn(async move { house.admit(tcp, client.to_string()).await });
            }
            Err(error) => {
                tracing::warn!(%error, "a client of the SQL console could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The state that all connections share.
struct House {
    shared: Arc<Shared>,
    seats: Arc<Seats>,
    logins: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl House {
    async fn admit(self: Arc<House>, tcp: TcpStream, client: String) {
        let mut stream = Stream::from(tcp);
        let Ok(place) = self.logins.clone().try_acquire_owned() else {
            return turn_away(&mut stream, &format!("{LOGINS_MAX} connections log in already")).await;
        };
        if let Err(error) = stream.set_nodelay().and_then(|()| stream.set_keepalive(&net::stream::Keepalive::default()))
        {
            tracing::debug!(%error, "options of a connection to the SQL console");
        }
        let (id, settings) = (self.seats.next_id(), self.shared.settings());
        let entrance = Entrance { id, settings: &settings, seats: &self.seats };
        let logged_in = match timeout(LOGIN_MAX, login(stream, entrance)).await {
            Ok(Ok(logged_in)) => logged_in,
            Ok(Err(LoginError::Refused(user, reason))) => {
                let why = format!("user '{user}': {reason}");
                self.shared.note("nobody".to_owned(), &client, "login".to_owned(), false, why);
                return tracing::warn!(client, user, reason, "a login to the SQL console was refused");
            }
            Ok(Err(error)) => return tracing::debug!(client, %error, "a login to the SQL console did not end"),
            Err(_) => return tracing::debug!(client, "a login to the SQL console took too long"),
        };
        drop(place);
        tracing::info!(client, user = %logged_in.role, id, "logged in to the SQL console");
        self.shared.note(logged_in.role.to_string(), &client, "login".to_owned(), true, "logged in".to_owned());
        let (shared, seats, turns) = (self.shared.clone(), self.seats.clone(), self.turns.clone());
        Session::new(logged_in, shared, seats, turns, client).serve().await;
    }
}

/// Tells a client that there is no place, as far as its socket takes it at once.
async fn turn_away(stream: &mut Stream, why: &str) {
    let mut out = Vec::new();
    let error = SqlError::new(errno::ER_CON_COUNT_ERROR, format!("Too many connections: {why}"));
    replies::send(&mut out, 0, |payload| error.write(payload));
    let written = async {
        stream.write_all(&out).await?;
        stream.flush().await
    };
    // The client may have gone.
    let _ = timeout(PAUSE, written).await;
}

//! A backend connection for a statement: the pinned one, or one from the pool of a server that fits, perhaps after a wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::evidence::{Evidence, EvidenceKind};
use facts::view::{Health, ServerId, ServerView, View, Writers};
use net::client::{Cause, ConnectError};
use wire::errno;
use wire::handshake::HandshakeError;

use super::attempts::{Attempts, Sharing};
use super::belief::Belief;
use super::cluster_session::ClusterSession;
use super::replica_wait::Awaits;
use super::{Held, Session};
use crate::error::Refusal;
use crate::pool::{Lease, LeaseError, Shares, UserLease, UserLeaseError, Waits};
use crate::sessions::WaitsFor;
use crate::shared::{ShortOf, is_of_an_hour};
use route::{Pin, Preferences, Reason, Route, SharedWrites, Target, select};

/// A read that waits for a replica looks at the reported positions at this pace.
const POSITION_PACE: Duration = Duration::from_millis(2);

/// The server for a statement.
pub(super) enum Choice {
    /// This one, which may have to be asked to wait for what was written.
    Server(ServerId, Option<Awaits>),
    /// None fits now; a replica may in a moment.
    Soon,
    /// None fits.
    None,
}

impl Session {
    /// Finds a server that fits the route and takes a connection to it.
    ///
    /// # Errors
    /// There is none for the statement, or somebody kills it while it waits.
    pub(super) async fn checkout(&mut self, route: &Route, attempts: &mut Attempts) -> Result<Held, Refusal> {
        loop {
            if let Some(held) = self.checkout_unless_shared(route, attempts).await? {
                return Ok(held);
            }
            attempts.sharing = Sharing::Never;
        }
    }

    /// The same for a statement that may [share](Attempts::sharing) a connection. `None` if it waits no longer, because a pipeline
    /// has begun that it may use.
    ///
    /// # Errors
    /// As [`Session::checkout`].
    pub(super) async fn checkout_unless_shared(
        &mut self,
        route: &Route,
        attempts: &mut Attempts,
    ) -> Result<Option<Held>, Refusal> {
        if let Some(held) = self.here.held.take() {
            return Ok(Some(held));
        }
        let mut user = UserLease::default();
        if self.who.identity.connections_max > 0 {
            user = self.env.unless_killed(Box::pin(self.user_lease())).await?;
            attempts.at = Instant::now();
        }
        let mut first = true;
        let mut written: Option<Vec<SharedWrites>> = None;
        loop {
            if route.lacks_replica() {
                self.settle_writes();
            }
            let view = self.here.cluster.view();
            if !std::mem::take(&mut first) {
                attempts.at = Instant::now();
            }
            let (chosen, awaits) = match self.choose(route, &view, attempts, &mut written) {
                Choice::Server(server, awaits) => (view.server(server), awaits),
                Choice::Soon => {
                    let _shown = self.env.handle.activity.wait(WaitsFor::Server, self.env.worker.shared.started);
                    let paced = async {
                        tokio::time::sleep(POSITION_PACE).await;
                        Ok(())
                    };
                    self.env.unless_killed(Box::pin(paced)).await?;
                    continue;
                }
                Choice::None => (None, None),
            };
            let Some(server) = chosen else {
                if let Target::Named(name) = &route.target {
                    named_exists(&view, name)?;
                }
                if view.group.is_some() {
                    // A member has to show that it has what was written on another one.
                    self.here.cluster.shared.published.want_positions();
                }
                self.env.unless_killed(Box::pin(self.hold(route, &view, attempts))).await?;
                continue;
            };
            let (key, login, state) = (&self.who.identity.key, self.who.identity.login, &self.belief.state);
            let lease = match self.here.cluster.pools.take_idle(server, key, login, state, attempts.in_any_schema) {
                Some(idle) if idle.origin.logged_in >= login => Some(idle),
                idle => {
                    let leased = Box::pin(self.lease(idle, server, (route, &view), attempts));
                    self.env.unless_killed(leased).await?
                }
            };
            // One that takes less than the session may send is closed, and makes room for a new one.
            if let Some(lease) = lease.filter(|lease| !self.limits_differ(&lease.origin)) {
                return Ok(Some(Held { lease, awaits, _user: user }));
            }
            if attempts.sharing == Sharing::Now {
                return Ok(None);
            }
        }
    }

    /// Chooses a server for a statement. `written` keeps what was written in a group when the statement came.
    #[inline]
    pub(super) fn choose(
        &self,
        route: &Route,
        view: &View,
        attempts: &mut Attempts,
        written: &mut Option<Vec<SharedWrites>>,
    ) -> Choice {
        let (now, published) = (attempts.at, &self.here.cluster.shared.published);
        let settings = self.here.cluster.pools.settings();
        let positions = published.positions.load();
        // In a group what was written when the statement came is waited for, not what has been written since.
        let all = written.take().unwrap_or_else(|| self.writes_of_all(route, &positions));
        let needs = self.here.needs(route, &all, &positions);
        let (zone, slow_start) = (&*settings.zone, settings.slow_start);
        let gather = attempts.conflicts > 1;
        let lags = route.max_lag.map(|_| published.lags.load());
        let near = self.here.near(route, lags.as_ref().map(|lags| &***lags));
        let preferences = Preferences { zone, slow_start, avoid: &attempts.avoid, gather, needs, awaits: false, near };
        let chosen = select(view, &route.target, &self.here.cluster.loads, preferences, now);
        let lacks = route.lacks_replica() && (chosen.is_none() || chosen == view.primary);
        let waiting = if lacks && attempts.may_ask_replicas {
            self.choose_waiting(view, &route.target, preferences, now)
        } else {
            None
        };
        *written = view.group.is_some().then_some(all);
        if lacks {
            // Newer positions may come any moment; no message wakes a statement for them.
            published.want_positions();
            match (self.env.replica_wait_left(attempts, now), waiting) {
                (Some(limit), Some((replica, positions))) => {
                    return Choice::Server(replica, Some(Awaits { positions, limit }));
                }
                (Some(_), None) => return Choice::Soon,
                (None, _) => {}
            }
        }
        chosen.map_or(Choice::None, |server| Choice::Server(server, None))
    }

    /// A connection to this server where none is at hand: an `idle` one that logs in again, a new one, or the next that is given back.
    /// `None` if that came to nothing, and a server is to be chosen again, or a pipeline has begun that the statement may share.
    async fn lease(
        &self,
        idle: Option<Lease>,
        server: &ServerView,
        (route, view): (&Route, &View),
        attempts: &mut Attempts,
    ) -> Result<Option<Lease>, Refusal> {
        let target = &route.target;
        if let Some(idle) = idle {
            return self.log_in_again(idle, server, (target, view), attempts).await;
        }
        let wanted = self.connection_wanted(attempts.in_any_schema);
        let wait = self.here.cluster.pools.settings().pool.wait;
        attempts.has_waited = true;
        let waits = Waits { since: attempts.queued_since.take(), shares: self.belief.shares(attempts.sharing) };
        let leaves = self.replica_catches_up(route, server.id, attempts.has_left_primary);
        let _shown = self.env.handle.activity.wait(WaitsFor::Connection, self.env.worker.shared.started);
        let leased = tokio::select! {
            biased;
            () = self.here.unfit(server.id, target, view) => {
                attempts.avoid.push(server.id);
                return Ok(None);
            }
            leased = self.here.cluster.pools.lease(server, &wanted, wait, waits, leaves) => leased,
        };
        match leased {
            Ok(lease) if lease.origin.logged_in < self.who.identity.login => {
                self.log_in_again(lease, server, (target, view), attempts).await
            }
            Ok(lease) => {
                attempts.at = Instant::now();
                Ok(Some(lease))
            }
            Err(LeaseError::Timeout { waited }) => {
                Err(Refusal::pool_wait(&server.name, waited, "max_connections_per_server or max_connections"))
            }
            Err(LeaseError::QueueFull { waiting }) => Err(Refusal::pool_queue_full(&server.name, waiting)),
            Err(LeaseError::Open(error)) => self.open_failed(server.id, *error, target, attempts).map(|()| None),
            Err(LeaseError::Left { since }) => {
                (attempts.has_left_primary, attempts.queued_since) = (true, Some(since));
                Ok(None)
            }
            Err(LeaseError::PipelineBegan { since }) => {
                (attempts.sharing, attempts.queued_since) = (Sharing::Now, Some(since));
                Ok(None)
            }
        }
    }

    /// The user's right to one more connection, perhaps after a wait.
    pub(super) async fn user_lease(&self) -> Result<UserLease, Refusal> {
        let max = self.who.identity.connections_max;
        if max == 0 {
            return Ok(UserLease::default());
        }
        let (wait, waiting_max) = {
            let pool = &self.here.cluster.shared.settings.load().pool;
            (pool.wait, pool.wait_max as usize)
        };
        let (leases, user) = (&self.here.cluster.shared.user_leases, &self.who.identity.user);
        let begins = || self.env.handle.activity.wait(WaitsFor::UserLimit, self.env.worker.shared.started);
        let lease = leases.acquire(user, max, wait, waiting_max, &self.env.worker.stats, begins).await;
        lease.map_err(|error| match error {
            UserLeaseError::QueueFull(waiting) => Refusal::pool_queue_full("any", waiting),
            UserLeaseError::Timeout => Refusal::pool_wait("any", wait, "max_connections_per_user"),
        })
    }

    /// Takes the connection on which a user whose password has expired may change it. Servers refuse clients that could not
    /// handle that, with words of their own.
    pub(super) async fn enter_sandbox(&mut self, schema: Option<&[u8]>) -> Result<(), Refusal> {
        if let Some(schema) = schema {
            Arc::make_mut(&mut self.belief.state).set_schema(Some(&String::from_utf8_lossy(schema)));
        }
        let target = if self.here.cluster.view().primary.is_some() { Target::Primary } else { Target::Reader };
        let route = Route::to(target, Reason::SessionChange, config::Consistency::None);
        self.here.held = Some(self.checkout(&route, &mut Attempts::new()).await?);
        self.belief.pins.put(Pin::ExpiredPassword, true);
        self.env.show_pins(self.belief.pins.bits());
        Ok(())
    }

    /// A new connection could not be opened: the client gets an error if the server refused this very user, else another
    /// server is tried.
    pub(super) fn open_failed(
        &self,
        server: ServerId,
        error: ConnectError,
        target: &Target,
        attempts: &mut Attempts,
    ) -> Result<(), Refusal> {
        let text = error.to_string();
        let kind = match &error.cause {
            Cause::Server(said) => {
                let is_final = matches!(
                    said.code,
                    errno::ER_DBACCESS_DENIED_ERROR
                        | errno::ER_ACCESS_DENIED_ERROR
                        | errno::ER_BAD_DB_ERROR
                        | errno::ER_WRONG_DB_NAME
                        | errno::ER_INVALID_CHARACTER_STRING
                        | errno::ER_HOST_NOT_PRIVILEGED
                        | errno::ER_NEW_ABORTING_CONNECTION
                        | errno::ER_ACCESS_DENIED_NO_PASSWORD_ERROR
                        | errno::ER_MUST_CHANGE_PASSWORD_LOGIN
                        | errno::ER_ACCOUNT_HAS_BEEN_LOCKED
                        | errno::ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB
                ) || is_of_an_hour(said);
                // A replica may not have heard of the schema, the account or its rights yet: the primary has the last word.
                let other = self.here.cluster.view().primary.is_some_and(|primary| primary != server);
                if is_final && !(other && *target == Target::Reader) {
                    // All others come behind a password that was right.
                    if matches!(said.code, errno::ER_ACCESS_DENIED_ERROR | errno::ER_ACCESS_DENIED_NO_PASSWORD_ERROR) {
                        self.here.cluster.shared.keyring.forget(&self.who.identity.user);
                    }
                    self.here.cluster.shared.published.request_accounts_refresh();
                    return Err(Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message));
                }
                // Too many connections and the like: the server lives, but has no place for us. If no place comes free in time,
                // the client gets the server's own error.
                let worker = self.here.cluster.pools.worker();
                if let Some(short) = ShortOf::new(worker, server, &self.who.identity.user, said) {
                    attempts.short_of.push(short);
                    let words = Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message);
                    attempts.refusal.get_or_insert(words);
                }
                (said.code == errno::ER_UNKNOWN_COM_ERROR).then_some(EvidenceKind::NotInGroup)
            }
            Cause::Protocol(HandshakeError::CredentialRefused(why)) => {
                // All servers of a cluster are treated alike: no other one would get more.
                return Err(Refusal::own(errno::ER_ACCESS_DENIED_ERROR, b"28000", format_args!("{why}")));
            }
            Cause::Protocol(_) => None,
            Cause::Io(_) | Cause::Timeout(_) | Cause::NoTls => Some(EvidenceKind::ConnectFailed),
        };
        tracing::debug!(error = text, "a backend connection could not be opened");
        if let Some(kind) = kind {
            self.here.cluster.shared.published.evidence(Evidence { server, kind });
        }
        attempts.last_error = Some(text);
        attempts.avoid.push(server);
        Ok(())
    }
}

impl Belief {
    /// The connection that a statement could share with others while it waits.
    fn shares(&self, sharing: Sharing) -> Shares {
        let statement = |id: u32| self.statements.find(id).map(|known| known.prepared.key.clone());
        match sharing {
            Sharing::Waits(None) => Shares::Any,
            Sharing::Waits(Some(id)) => statement(id).map_or(Shares::Never, Shares::Prepared),
            _ => Shares::Never,
        }
    }
}

impl ClusterSession {
    /// Ends when a later view would not have this server chosen any more. One that hangs accepts connections and says nothing:
    /// who wants one waits no longer than that.
    pub(super) async fn unfit(&self, server: ServerId, target: &Target, view: &View) {
        let is_fit = |view: &View| {
            let known = view.server(server).filter(|known| !known.is_lost());
            let for_writes = matches!(target, Target::Primary | Target::Pinned) && view.group != Some(Writers::All);
            let held = for_writes && view.hold_writes;
            let of_role =
                |known: &ServerView| view.primary == Some(server) || !for_writes && known.health == Health::Up;
            known.is_some_and(|known| !held && of_role(known))
        };
        if !is_fit(view) {
            // It was the last resort already.
            return std::future::pending().await;
        }
        loop {
            let changed = self.cluster.changed.notified();
            if !is_fit(&self.cluster.view()) {
                return;
            }
            changed.await;
        }
    }
}

/// A server that a hint or a rule names, and the cluster does not have, would be waited for without an end.
fn named_exists(view: &View, name: &str) -> Result<(), Refusal> {
    if view.servers.is_empty() || view.server_named(name).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = view.servers.iter().map(|server| &*server.name).collect();
    let why = format_args!(
        "cluster '{}' has no server '{name}', as a hint or a rule says; it has {}",
        view.cluster,
        known.join(", ")
    );
    Err(Refusal::own(errno::ER_UNKNOWN_ERROR, b"HY000", why))
}

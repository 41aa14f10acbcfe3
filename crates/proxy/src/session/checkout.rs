//! A backend connection for a statement: the pinned one, or one from the pool of a server that fits, perhaps after a wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::observation::{Evidence, EvidenceKind};
use cluster::view::{Health, ServerId, View, Writers};
use net::client::{Cause, ConnectError};
use tokio::sync::OwnedSemaphorePermit;
use wire::handshake::HandshakeError;

use super::replica_wait::Awaits;
use super::{Held, Session};
use crate::error::Refusal;
use crate::pool::{LeaseError, ShortOf, UserLease, UserLeaseError};
use crate::route::{Pin, Preferences, Reason, Route, SharedWrites, Target, select};

/// Servers that may fail one statement before the client is told.
const FAILURES_MAX: usize = 4;
/// A read that waits for a replica looks at what they told at this pace.
const POSITION_PACE: Duration = Duration::from_millis(2);

/// What has been tried for one statement.
#[derive(Debug)]
pub struct Attempts {
    /// When a server was chosen last, or a connection came after a wait.
    pub(super) at: Instant,
    pub(super) avoid: Vec<ServerId>,
    failures: usize,
    pub(super) last_error: Option<String>,
    /// What the client is told when no other server turns up.
    pub(super) refusal: Option<Refusal>,
    /// Since when the statement waits for a server that fits.
    pub(super) held_since: Option<Instant>,
    /// It has waited for a primary, and is one of those that go on now.
    pub(super) turn: Option<OwnedSemaphorePermit>,
    /// How long the statement is.
    pub(super) bytes: usize,
    /// How often the open transaction was replayed for it.
    pub(super) replays: u32,
    /// How often it lost against another one in its Galera group.
    pub(super) conflicts: u32,
    /// Since when it waits for a replica that has what its session has written.
    pub(super) lacking_since: Option<Instant>,
    /// What servers that refused connections are short of; looked at by [`Session::hold`].
    pub(super) short_of: Vec<ShortOf>,
    /// A replica may be asked ahead of the statement to wait.
    pub(super) may_ask_replicas: bool,
    /// A replica has waited in vain.
    pub(super) waited_in_vain: bool,
    /// The statement does the same whatever schema its connection is in.
    pub(super) in_any_schema: bool,
}

impl Attempts {
    /// Nothing yet.
    pub fn new() -> Attempts {
        Attempts {
            at: Instant::now(),
            avoid: Vec::new(),
            failures: 0,
            last_error: None,
            refusal: None,
            held_since: None,
            turn: None,
            bytes: 0,
            replays: 0,
            conflicts: 0,
            lacking_since: None,
            short_of: Vec::new(),
            may_ask_replicas: false,
            waited_in_vain: false,
            in_any_schema: false,
        }
    }

    /// What is tried for a statement of so many bytes.
    pub fn of(bytes: usize) -> Attempts {
        Attempts { bytes, may_ask_replicas: true, ..Attempts::new() }
    }

    /// A server is avoided for now.
    pub(super) fn has_avoided(&self) -> bool {
        !self.avoid.is_empty()
    }

    /// No server is avoided any longer.
    pub(super) fn forgive(&mut self) {
        self.avoid.clear();
    }

    /// This server refused the statement, which has done nothing; no other may turn up.
    pub fn refused(&mut self, server: ServerId, refusal: Refusal) {
        self.at = Instant::now();
        self.avoid.push(server);
        self.refusal = Some(refusal);
    }

    /// The statement failed on this server, which is avoided from now on. Gives whether another try is allowed.
    pub fn failed_on(&mut self, server: ServerId) -> bool {
        self.at = Instant::now();
        self.failures += 1;
        if !self.avoid.contains(&server) {
            self.avoid.push(server);
        }
        self.failures < FAILURES_MAX
    }
}

impl Session {
    /// Finds a server that fits the route and takes a connection to it.
    pub(super) async fn checkout(&mut self, route: &Route, attempts: &mut Attempts) -> Result<Held, Refusal> {
        if let Some(held) = self.held.take() {
            return Ok(held);
        }
        let user = self.user_lease().await?;
        if self.identity.connections_max > 0 {
            attempts.at = Instant::now();
        }
        let mut first = true;
        let mut written: Option<Vec<SharedWrites>> = None;
        loop {
            if route.lacks_replica() {
                self.settle_writes();
            }
            let view = self.cluster.view();
            if !std::mem::take(&mut first) {
                attempts.at = Instant::now();
            }
            let now = attempts.at;
            let (mut chosen, waiting) = {
                let settings = self.cluster.pools.settings();
                let positions = self.cluster.shared.published.positions.load();
                // In a group what was written when the statement came is waited for, not what has been written since.
                let all = written.take().unwrap_or_else(|| self.writes_of_all(route, &positions));
                let needs = self.needs(route, &all, &positions);
                let (zone, slow_start) = (&*settings.zone, settings.slow_start);
                let gather = attempts.conflicts > 1;
                let lags = route.max_lag.map(|_| self.cluster.shared.published.lags.load());
                let near = self.near(route, lags.as_ref().map(|lags| &***lags));
                let preferences =
                    Preferences { zone, slow_start, avoid: &attempts.avoid, gather, needs, awaits: false, near };
                let chosen = select(&view, &route.target, &self.cluster.loads, preferences, now);
                let lacks = route.lacks_replica() && (chosen.is_none() || chosen == view.primary);
                let waiting = if lacks && attempts.may_ask_replicas {
                    self.choose_waiting(&view, &route.target, preferences, now)
                } else {
                    None
                };
                written = view.group.is_some().then_some(all);
                (chosen, waiting)
            };
            let mut awaits = None;
            if route.lacks_replica() && (chosen.is_none() || chosen == view.primary) {
                // Newer positions may be told any moment; nobody wakes a statement for them.
                self.cluster.shared.published.want_positions();
                match (self.replica_wait_left(attempts, now), waiting) {
                    (Some(limit), Some((replica, positions))) => {
                        chosen = Some(replica);
                        awaits = Some(Awaits { positions, limit });
                    }
                    (Some(_), None) => {
                        tokio::time::sleep(POSITION_PACE).await;
                        continue;
                    }
                    (None, _) => {}
                }
            }
            if let (None, Target::Named(name)) = (chosen, &route.target) {
                self.named_exists(&view, name)?;
            }
            let Some(server) = chosen.and_then(|id| view.server(id)) else {
                if view.group.is_some() {
                    // A member has to show that it has what was written on another one.
                    self.cluster.shared.published.want_positions();
                }
                Box::pin(self.hold(route, &view, attempts)).await?;
                continue;
            };
            let (key, login, state) = (&self.identity.key, self.identity.login, &self.state);
            if let Some(lease) = self.cluster.pools.take_idle(server, key, login, state, attempts.in_any_schema) {
                if lease.origin.logged_in >= login {
                    return Ok(Held { lease, awaits, _user: user });
                }
                match Box::pin(self.log_in_again(lease, server, (&route.target, &view), attempts)).await? {
                    Some(lease) => return Ok(Held { lease, awaits, _user: user }),
                    None => continue,
                }
            }
            let wanted = self.connection_wanted(attempts.in_any_schema);
            let wait = self.cluster.pools.settings().pool.wait;
            let leased = tokio::select! {
                biased;
                leased = self.cluster.pools.lease(server, &wanted, wait) => leased,
                () = self.unfit(server.id, &route.target, &view) => {
                    attempts.avoid.push(server.id);
                    continue;
                }
            };
            match leased {
                Ok(lease) if lease.origin.logged_in < self.identity.login => {
                    if let Some(lease) =
                        Box::pin(self.log_in_again(lease, server, (&route.target, &view), attempts)).await?
                    {
                        return Ok(Held { lease, awaits, _user: user });
                    }
                }
                Ok(lease) => {
                    attempts.at = Instant::now();
                    return Ok(Held { lease, awaits, _user: user });
                }
                Err(LeaseError::Timeout { waited }) => {
                    return Err(Refusal::pool_wait(
                        &server.name,
                        waited,
                        "max_connections_per_server or max_connections",
                    ));
                }
                Err(LeaseError::QueueFull { waiting }) => return Err(Refusal::pool_queue_full(&server.name, waiting)),
                Err(LeaseError::Open(error)) => self.open_failed(server.id, *error, &route.target, attempts)?,
            }
        }
    }

    /// Ends when a later view would not have this server chosen any more. One that hangs accepts connections and says nothing:
    /// who wants one waits no longer than that.
    pub(super) async fn unfit(&self, server: ServerId, target: &Target, view: &View) {
        let is_fit = |view: &View| {
            let known = view.server(server).filter(|known| !known.is_lost());
            let for_writes = matches!(target, Target::Primary | Target::Pinned) && view.group != Some(Writers::All);
            known.is_some_and(|known| view.primary == Some(server) || !for_writes && known.health == Health::Up)
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

    /// The user's right to one more connection, perhaps after a wait.
    pub(super) async fn user_lease(&self) -> Result<UserLease, Refusal> {
        let max = self.identity.connections_max;
        if max == 0 {
            return Ok(UserLease::default());
        }
        let (wait, waiting_max) = {
            let pool = &self.cluster.shared.settings.load().pool;
            (pool.wait, pool.wait_max as usize)
        };
        let (leases, user) = (&self.cluster.shared.user_leases, &self.identity.user);
        let lease = leases.acquire(user, max, wait, waiting_max, &self.worker.stats).await;
        lease.map_err(|error| match error {
            UserLeaseError::QueueFull(waiting) => Refusal::pool_queue_full("any", waiting),
            UserLeaseError::Timeout => Refusal::pool_wait("any", wait, "max_connections_per_user"),
        })
    }

    /// Takes the connection on which a user whose password has expired may change it. Servers refuse clients that could not
    /// handle that, with words of their own.
    pub(super) async fn enter_sandbox(&mut self, schema: Option<&[u8]>) -> Result<(), Refusal> {
        if let Some(schema) = schema {
            Arc::make_mut(&mut self.state).set_schema(Some(&String::from_utf8_lossy(schema)));
        }
        let target = if self.cluster.view().primary.is_some() { Target::Primary } else { Target::Reader };
        let route = Route::to(target, Reason::SessionChange, config::Consistency::None);
        self.held = Some(self.checkout(&route, &mut Attempts::new()).await?);
        self.pins.put(Pin::ExpiredPassword, true);
        self.show_pins(self.pins.bits());
        Ok(())
    }

    /// A hint, or a rule, that names a server which the cluster does not have would be waited for in vain.
    fn named_exists(&self, view: &View, name: &str) -> Result<(), Refusal> {
        if view.servers.is_empty() || view.server_named(name).is_some() {
            return Ok(());
        }
        let known: Vec<&str> = view.servers.iter().map(|server| &*server.name).collect();
        let why = format_args!(
            "cluster '{}' has no server '{name}', as a hint or a rule says; it has {}",
            view.cluster,
            known.join(", ")
        );
        Err(Refusal::own(1105, b"HY000", why))
    }

    /// A new connection could not be opened: the client is told if the server refused this very user, else another
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
                let is_final = matches!(said.code, 1044 | 1045 | 1049 | 1130 | 1698 | 1862 | 3118 | 4151);
                // A replica may not have heard of the schema, the account or its rights yet: the primary has the last word.
                let other = self.cluster.view().primary.is_some_and(|primary| primary != server);
                if is_final && !(other && *target == Target::Reader) {
                    // All others come behind a password that was right.
                    if matches!(said.code, 1045 | 1698) {
                        self.cluster.shared.keyring.forget(&self.identity.user);
                    }
                    self.cluster.shared.published.request_accounts_refresh();
                    return Err(Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message));
                }
                // Too many connections and the like: the server lives, but has no place for us. If nobody makes one in time,
                // the client hears the server's own words.
                let worker = self.cluster.pools.worker();
                if let Some(short) = ShortOf::new(worker, server, &self.identity.user, said.code) {
                    attempts.short_of.push(short);
                    let words = Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message);
                    attempts.refusal.get_or_insert(words);
                }
                (said.code == 1047).then_some(EvidenceKind::NotInGroup)
            }
            Cause::Protocol(HandshakeError::CredentialRefused(why)) => {
                // All servers of a cluster are treated alike: no other one would be told more.
                return Err(Refusal::own(1045, b"28000", format_args!("{why}")));
            }
            Cause::Protocol(_) => None,
            Cause::Io(_) | Cause::Timeout(_) | Cause::NoTls => Some(EvidenceKind::ConnectFailed),
        };
        tracing::debug!(error = text, "a backend connection could not be opened");
        if let Some(kind) = kind {
            self.cluster.shared.published.evidence(Evidence { server, kind });
        }
        attempts.last_error = Some(text);
        attempts.avoid.push(server);
        Ok(())
    }
}

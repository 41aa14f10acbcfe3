//! A session has the rights of its own login: what servers fixed for connections that logged in before is not for it.
//!
//! Servers read an account's lock, rights and roles when it logs in, and keep them for the connection. So a client's login is asked of the
//! primary as well, on an idle connection that logs in again (COM_CHANGE_USER), or on a new one. The session takes no connection
//! that has logged in before its client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::{ServerView, View};
use net::client::Cause;
use sql::{Kind, Statement};
use wire::errno;

use super::attempts::Attempts;
use super::cluster_session::ClusterSession;
use super::relay::RelayError;
use super::{Held, Session};
use crate::error::Refusal;
use crate::pool::{ConnectionNeeds, Lease, LeaseError};
use crate::shared::AccountChange;
use crate::shared::Write;
use route::{Reason, Route, Target};

/// How long a schema that a user has entered counts as one where a login finds no free connection, in seconds.
const SCHEMA_KNOWN_S: u32 = 5;
/// How many users' schemas are remembered for that.
const SCHEMAS_KNOWN_MAX: usize = 10_000;

/// Errors of statements about accounts that servers refuse before they change anything: a client without rights is to cause no reading.
fn is_refused(code: u16) -> bool {
    matches!(
        code,
        errno::ER_DBACCESS_DENIED_ERROR
            | errno::ER_ACCESS_DENIED_ERROR
            | errno::ER_PARSE_ERROR
            | errno::ER_TABLEACCESS_DENIED_ERROR
            | errno::ER_SPECIFIC_ACCESS_DENIED_ERROR
    )
}

impl Session {
    /// A session that begins behind a change of accounts reads from replicas that have it, if it would find writes of its own there.
    /// Later than replicas may be behind nothing is known of that change any more.
    pub(super) fn find_account_change(&mut self) {
        let change = match &*self.here.cluster.shared.account_change.load() {
            Some(change) if self.watches_writes() && change.at.elapsed() < self.window() => **change,
            _ => return,
        };
        self.note_write(Write::Unreported(change.server, change.at));
    }

    /// The connection that the session needs now.
    pub(super) fn connection_wanted(&self, in_any_schema: bool) -> ConnectionNeeds {
        ConnectionNeeds {
            key: self.who.identity.key.clone(),
            state: self.belief.state.clone(),
            login: self.who.identity.login,
            collation: self.who.identity.collation,
            in_any_schema,
        }
    }

    /// A connection that logged in before this session's client logs in again. `None` if that came to nothing, and another
    /// connection is to be taken.
    ///
    /// # Errors
    /// The server refuses the user.
    pub(super) async fn log_in_again(
        &self,
        mut lease: Lease,
        server: &ServerView,
        (target, view): (&Target, &View),
        attempts: &mut Attempts,
    ) -> Result<Option<Lease>, Refusal> {
        let wanted = self.connection_wanted(attempts.in_any_schema);
        let done = tokio::select! {
            biased;
            () = self.here.unfit(server.id, target, view) => {
                attempts.avoid.push(server.id);
                return Ok(None);
            }
            done = self.here.cluster.pools.log_in_again(&mut lease, server, &wanted) => done,
        };
        attempts.at = Instant::now();
        match done {
            Ok(()) => Ok(Some(lease)),
            // A connection that was idle may have ended; that says nothing of the server.
            Err(error) if matches!(error.cause, Cause::Io(_)) => Ok(None),
            Err(error) => self.open_failed(server.id, error, target, attempts).map(|()| None),
        }
    }

    /// Logs in to the primary for a client that chose no schema. Where there is no primary or no free connection, the session's first
    /// statement does that.
    ///
    /// # Errors
    /// The primary refuses the user.
    pub(super) async fn enter_none(&mut self) -> Result<(), Refusal> {
        if let Some(held) = self.admission().await? {
            self.release(held).await;
        }
        Ok(())
    }

    /// Enters a schema on a real server, so that an unknown or forbidden one fails the login as it would there. Without a free
    /// connection, one that the user has entered a moment ago is left to the session's first statement.
    ///
    /// # Errors
    /// The server refuses the user or the schema, or there is none.
    pub(super) async fn enter_schema(&mut self, schema: &[u8]) -> Result<(), Refusal> {
        let schema = String::from_utf8_lossy(schema);
        Arc::make_mut(&mut self.belief.state).choose_schema(Some(&schema), &self.belief.catalog, false);
        let known = (self.who.identity.user.clone(), Arc::from(&*schema));
        let now = self.env.worker.uptime_s.get();
        let mut held = match self.admission().await? {
            Some(held) => held,
            None => {
                let fresh = |entered: &u32| now.saturating_sub(*entered) <= SCHEMA_KNOWN_S;
                if self.here.cluster.entered.borrow().get(&known).is_some_and(fresh) {
                    return Ok(());
                }
                let view = self.here.cluster.view();
                let primary = view.primary.is_some() && !view.hold_writes;
                let target = if primary { Target::Primary } else { Target::Reader };
                let route = Route::to(target, Reason::SessionChange, config::Consistency::None);
                self.checkout(&route, &mut Attempts::new()).await?
            }
        };
        if held.lease.origin.state.schema() != Some(&*schema)
            && let Err(refusal) = self.choose_schema(&mut held).await
        {
            drop(held);
            if self.belief.is_of_schema(&refusal) || !self.belief.leave_uneven(&refusal) {
                return Err(refusal);
            }
            return Box::pin(self.enter_schema(schema.as_bytes())).await;
        }
        self.release(held).await;
        let mut entered = self.here.cluster.entered.borrow_mut();
        if entered.len() >= SCHEMAS_KNOWN_MAX {
            entered.clear();
        }
        entered.insert(known, now);
        Ok(())
    }

    async fn choose_schema(&mut self, held: &mut Held) -> Result<(), Refusal> {
        match self.bring_to_state(held).await {
            Ok(()) => Ok(()),
            Err(
                RelayError::FixUp(refusal)
                | RelayError::Unprepared(refusal)
                | RelayError::Withheld(refusal)
                | RelayError::Ended(refusal)
                | RelayError::NotThere(refusal),
            ) => Err(refusal),
            Err(RelayError::Server(error)) => Err(Refusal::lost(held.lease.server_name(), &error)),
            Err(RelayError::UnexpectedInfile { name, .. }) => {
                Err(Refusal::file_refused(held.lease.server_name(), &name))
            }
            Err(RelayError::Client(error)) => Err(Refusal::own(errno::ER_UNKNOWN_COM_ERROR, b"08S01", error)),
        }
    }

    /// A connection to the primary that has logged in after the client, if one can be had without a wait.
    async fn admission(&mut self) -> Result<Option<Held>, Refusal> {
        let view = self.here.cluster.view();
        let Some(server) = view.primary.and_then(|id| view.server(id)).filter(|_| !view.hold_writes) else {
            return Ok(None);
        };
        let Ok(user) = tokio::time::timeout(Duration::ZERO, self.user_lease()).await else { return Ok(None) };
        let user = user?;
        let attempts = &mut Attempts::new();
        let (key, login) = (&self.who.identity.key, self.who.identity.login);
        let mut lease = self.here.cluster.pools.take_idle(server, key, login, &self.belief.state, false);
        if let Some(idle) = lease.take_if(|lease| lease.origin.logged_in < login) {
            lease = self.log_in_again(idle, server, (&Target::Primary, &view), attempts).await?;
        }
        if lease.is_none() && !attempts.has_avoided() {
            let wanted = self.connection_wanted(false);
            let opened = tokio::select! {
                biased;
                opened = self.here.cluster.pools.lease_now(server, &wanted) => opened,
                () = self.here.unfit(server.id, &Target::Primary, &view) => None,
            };
            match opened {
                Some(Ok(opened)) => lease = Some(opened),
                Some(Err(LeaseError::Open(error))) => {
                    self.open_failed(server.id, *error, &Target::Primary, attempts)?
                }
                Some(Err(_)) | None => {}
            }
        }
        Ok(lease.map(|lease| Held { lease, awaits: None, _user: user }))
    }
}

impl ClusterSession {
    /// A statement changed accounts, or may have: a client that logs in from now on is judged by what they are then, also by replicas.
    pub(super) fn note_account_change(
        &self,
        held: &Held,
        statement: &Statement,
        error: Option<&Refusal>,
        over: Instant,
    ) {
        if statement.kind == Kind::Account && statement.parts == 1 && error.is_some_and(|error| is_refused(error.code))
        {
            return;
        }
        let shared = &self.cluster.shared;
        let change = AccountChange { server: held.lease.server(), at: over, login: shared.logins.now() };
        shared.account_change.store(Some(Arc::new(change)));
        shared.published.accounts_changed();
    }
}

//! `init_connect`: the statements that servers run in each session before its first command.
//!
//! Servers run them when a connection is opened, and not when it is reset. A backend connection serves many sessions: it is
//! opened without them ([`ClusterShared::quiet_login`]), or what they left on it is undone when it is opened ([`crate::pool`]), and
//! each session runs them itself behind its login.
//!
//! [`ClusterShared::quiet_login`]: crate::shared::ClusterShared::quiet_login

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use route::Pin;
use wire::command::{Command, MULTI_STATEMENTS_OFF};
use wire::{Capabilities, errno};

use super::{Session, stand_in};
use crate::error::{Refusal, SessionEnd};

/// Longest that the statements may run.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// How long it is believed whether an account goes without them. A change of accounts made through Sqluice counts at once.
const EXEMPT_FOR: Duration = Duration::from_secs(60);
/// Accounts that are remembered for a cluster, on each worker.
const ACCOUNTS_MAX: usize = 1024;

/// An account as far as Sqluice tells accounts apart: the user, and the address that servers see if it is the client's.
type Account = (Arc<str>, Option<IpAddr>);

/// Which accounts go without `init_connect`, as the servers said lately.
#[derive(Debug, Default)]
pub struct ExemptAccounts(RefCell<HashMap<Account, Exempt>>);

#[derive(Clone, Copy, Debug)]
struct Exempt {
    yes: bool,
    asked: Instant,
    /// The change of accounts through Sqluice that came before the question ([`crate::shared::AccountChange::login`]).
    change: u64,
}

impl ExemptAccounts {
    fn get(&self, account: &Account, change: u64) -> Option<bool> {
        let known = self.0.borrow().get(account).copied()?;
        (known.change == change && known.asked.elapsed() < EXEMPT_FOR).then_some(known.yes)
    }

    fn put(&self, account: Account, exempt: Exempt) {
        let mut accounts = self.0.borrow_mut();
        if accounts.len() >= ACCOUNTS_MAX {
            accounts.clear();
        }
        accounts.insert(account, exempt);
    }
}

impl Session {
    /// The client has logged in: the session's first turn runs what the servers have for that. With an expired password the session
    /// keeps a connection on which the server itself has run it, or not.
    pub(super) fn note_init_connect(&mut self) {
        if self.belief.pins.has(Pin::ExpiredPassword) {
            return;
        }
        self.here.init_connect = self.belief.catalog_at_login.init_connect().map(Box::from);
    }

    /// Runs `init_connect`, once. When it fails, the session ends behind its next command, as on a server.
    ///
    /// # Errors
    /// The session is over.
    pub(super) async fn run_init_connect(&mut self) -> Result<(), SessionEnd> {
        let Some(text) = self.here.init_connect.clone() else { return Ok(()) };
        if !self.goes_without_init_connect().await
            && let Err(why) = self.run_for_nobody(text.as_bytes()).await?
        {
            // It stays due: a session that is to end goes to no other worker, and no answer is found in the cache.
            self.here.cache_context = None;
            return Err(self.abort(&why).await);
        }
        self.here.init_connect = None;
        Ok(())
    }

    async fn goes_without_init_connect(&self) -> bool {
        let key = &self.who.identity.key;
        let account = (key.user.clone(), key.client.map(|client| client.ip()));
        let change = self.here.cluster.shared.account_change.load().as_ref().map_or(0, |change| change.login);
        let known = &self.here.cluster.exempt_accounts;
        if let Some(yes) = known.get(&account, change) {
            return yes;
        }
        let asked = Instant::now();
        let yes = self.is_connection_admin().await;
        known.put(account, Exempt { yes, asked, change });
        yes
    }

    /// Runs a text of several statements whose replies nobody gets. The inner error is the last statement's.
    async fn run_for_nobody(&mut self, text: &[u8]) -> Result<Result<(), String>, SessionEnd> {
        let capabilities = self.client.capabilities - Capabilities::COMPRESS - Capabilities::ZSTD_COMPRESSION;
        let nobody = stand_in::client(capabilities).map_err(SessionEnd::ClientLost)?;
        let client = std::mem::replace(&mut self.client, nobody);
        let ran = tokio::time::timeout(RUN_LIMIT, Box::pin(self.run_several(text))).await;
        self.client = client;
        let error = self.belief.past.error.as_ref();
        match ran {
            Err(_) => Ok(Err(format!("it was not over within {} s", RUN_LIMIT.as_secs()))),
            Ok(Err(SessionEnd::ServerLost(why))) => Ok(Err(why)),
            Ok(Err(end)) => Err(end),
            Ok(Ok(())) => Ok(error.map_or(Ok(()), |error| Err(format!("error {}: {}", error.code, error.message)))),
        }
    }

    /// Runs a text that may hold several statements, whatever the client may send.
    async fn run_several(&mut self, text: &[u8]) -> Result<(), SessionEnd> {
        let key = self.who.identity.key.clone();
        let allowed = key.capabilities.contains(Capabilities::MULTI_STATEMENTS);
        self.belief.past.error = None;
        self.who.set_multi_statements(true);
        self.handle(&stand_in::query(text, self.client.capabilities)).await?;
        if self.here.held.is_none() {
            self.who.identity.key = key;
        } else if !allowed && self.belief.past.error.is_none() {
            // The connection that the session keeps must hear it, too.
            self.handle(&stand_in::command(Command::SetOption, &MULTI_STATEMENTS_OFF.to_le_bytes())).await?;
        }
        Ok(())
    }

    /// Answers the next command with the error of servers, which ends the session.
    async fn abort(&mut self, why: &str) -> SessionEnd {
        let (user, client) = (&self.who.identity.user, self.env.handle.client());
        self.env.worker.shared.login_log.init_connect_failed(&self.here.cluster.shared.name, &client, user, why);
        let request = match self.next_request().await {
            Ok(request) => request,
            Err(end) => return end,
        };
        let resolves_names = self.here.cluster.shared.published.accounts.load().resolves_names;
        let host = self.env.handle.client_ip().filter(|ip| !(resolves_names && ip.is_loopback()));
        let host = host.map_or("localhost".to_owned(), |ip| ip.to_string());
        let schema = self.belief.state.schema().unwrap_or("unconnected");
        let message = format!(
            "Aborted connection {} to db: '{schema}' user: '{}' host: '{host}' (init_connect command failed)",
            self.env.handle.id, self.who.identity.user,
        );
        let refusal = Refusal::like_server(errno::ER_NEW_ABORTING_CONNECTION, b"08S01", message);
        self.client.put_error(request.sequence.wrapping_add(1), &refusal);
        // The session ends, whether the client hears it or not.
        let _ = self.client.flush().await;
        SessionEnd::Aborted(format!("init_connect failed: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(user: &str) -> Account {
        (user.into(), None)
    }

    #[test]
    fn an_account_is_asked_about_again_after_a_change_of_accounts() {
        let known = ExemptAccounts::default();
        known.put(account("app"), Exempt { yes: true, asked: Instant::now(), change: 3 });
        assert_eq!(known.get(&account("app"), 3), Some(true));
        assert_eq!(known.get(&account("app"), 4), None);
        assert_eq!(known.get(&account("other"), 3), None);
    }

    #[test]
    fn no_more_accounts_are_remembered_than_fit() {
        let known = ExemptAccounts::default();
        for number in 0..2 * ACCOUNTS_MAX {
            known.put(account(&format!("app{number}")), Exempt { yes: false, asked: Instant::now(), change: 0 });
        }
        assert!(known.0.borrow().len() <= ACCOUNTS_MAX);
    }
}

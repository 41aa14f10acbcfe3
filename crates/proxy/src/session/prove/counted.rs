//! Wrong passwords that servers count: MariaDB's `max_password_errors`, and FAILED_LOGIN_ATTEMPTS of MySQL's accounts.
//!
//! A server that has counted enough of them in a row refuses the account's clients, also with the right password. Sqluice checks
//! passwords itself, so it has the primary count: for each wrong password it logs in there with a wrong one. The primary is asked
//! again ahead of each client with the right one, which also has it begin to count anew. So the count is the server's, with
//! direct logins in it, and all that unblocks an account there does so here.

use std::sync::Arc;

use wire::auth::Credential;
use wire::handshake::client::COLLATION_FALLBACK;
use wire::handshake::server::Denial;
use wire::{Capabilities, errno};

use super::Prover;
use crate::error::Refusal;
use crate::shared::login_as;

/// The value of MariaDB's `max_password_errors` with which nobody is refused.
const NO_MAX: &str = "4294967295";

/// Whether a server refuses the account for its many wrong passwords.
pub(super) fn is_blocked(code: u16) -> bool {
    const BY_ACCOUNT: u16 = errno::ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK;
    matches!(code, errno::ER_USER_IS_BLOCKED | BY_ACCOUNT)
}

impl Prover<'_> {
    /// A client's password was wrong. The primary counts that, if it counts them; the client's error is the server's own.
    pub(super) async fn wrong_password(&self, user: &Arc<str>, given: bool) -> Refusal {
        let denied = self.denied(user, Some(Denial::WrongPassword), given);
        // MariaDB does not count the empty password (seen with 10.11).
        if !self.failures_count(user) || !given && self.is_mariadb() {
            return denied;
        }
        let Ok(wrong) = wire::auth::new_scramble() else { return denied };
        self.refused_by_primary(user, &Credential::password(wrong), false).await.unwrap_or(denied)
    }

    /// A client's password is right: whether the primary refuses the account all the same.
    pub(super) async fn not_blocked(&self, user: &Arc<str>, credential: &Credential) -> Result<(), Refusal> {
        if !self.failures_count(user) {
            return Ok(());
        }
        self.refused_by_primary(user, credential, true).await.map_or(Ok(()), Err)
    }

    fn failures_count(&self, user: &str) -> bool {
        if self.is_mariadb() {
            return self.cluster.catalog().globals.get("max_password_errors").is_some_and(|max| max != NO_MAX);
        }
        let accounts = self.cluster.shared.published.accounts.load();
        accounts.find(user, self.handle.client_ip()).is_some_and(|account| account.counts_failures)
    }

    fn is_mariadb(&self) -> bool {
        self.cluster.view().flavour.as_ref().is_none_or(|flavour| flavour.mariadb)
    }

    /// Logs in to the primary. Only a refusal for many wrong passwords counts here.
    async fn refused_by_primary(&self, user: &Arc<str>, credential: &Credential, right: bool) -> Option<Refusal> {
        let (shared, view) = (&self.cluster.shared, self.cluster.view());
        let primary = view.primary.and_then(|id| view.server(id))?;
        let target = shared.target(primary, shared.settings.load().pool.connect_timeout, self.handle.client_addr());
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS;
        let login = login_as(user, credential, capabilities, COLLATION_FALLBACK);
        let connected = match right {
            true => shared.connect_quietly(&target, login).await,
            // No `init_connect` follows it.
            false => net::client::connect(&target, login).await,
        };
        let error = connected.err()?;
        let said = error.server_error().filter(|said| is_blocked(said.code))?;
        Some(Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message))
    }
}

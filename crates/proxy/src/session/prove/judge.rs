//! Whether a client's proof is right: by what is known here, by the servers' accounts, or by a server that is asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::accounts::Verifier;
use net::client::Cause;
use wire::auth::Credential;
use wire::handshake::HandshakeError;
use wire::handshake::client::COLLATION_FALLBACK;
use wire::handshake::server::{Denial, Proof};
use wire::{Capabilities, errno};

use super::Prover;
use super::counted;
use super::plan::{self, Judge};
use crate::error::Refusal;
use crate::shared::login_as;

/// How long a login waits for its turn to try a password on a server, or for another login that proves the same one.
const TRY_WAIT: Duration = Duration::from_millis(2500);
/// How often it looks meanwhile.
const TRY_PACE: Duration = Duration::from_millis(25);

impl Prover<'_> {
    /// Whether the proof is right; what Sqluice logs in to servers with for this user from now on.
    pub(super) async fn judge(&self, user: &Arc<str>, proof: Proof, judge: Judge) -> Result<Arc<Credential>, Refusal> {
        let keyring = &self.cluster.shared.keyring;
        let wrong = |given| Err(self.denied(user, Some(Denial::WrongPassword), given));
        match (proof, judge) {
            // Checked against this very password; or another one, which may be newer.
            (Proof::CachingSha2Stage1(_) | Proof::NativeStage1(_) | Proof::Signature, Judge::OwnValue(known)) => {
                Ok(known)
            }
            (Proof::Empty, Judge::OwnValue(known)) => match known.cleartext() {
                Some(&[]) => Ok(known),
                _ => self.newer_password(user, b"").await,
            },
            (Proof::Password(given), Judge::OwnValue(known)) => {
                match known.cleartext().is_some_and(|known| wire::auth::equal(&given, known)) {
                    true => Ok(known),
                    false => self.newer_password(user, &given).await,
                }
            }
            (Proof::NativeStage1(stage1), Judge::Method | Judge::Account { .. }) => {
                Ok(keyring.remember(user, Credential::NativeStage1(stage1)))
            }
            (Proof::Password(given), Judge::Account { verifiers, server }) => {
                if let Some(verifier) = plan::fitting(&given, &verifiers).await {
                    return Ok(self.remember(user, &given, &verifier));
                }
                match server {
                    true => self.try_on_server(user, Credential::Password(given)).await,
                    false => self.newer_password(user, &given).await,
                }
            }
            (Proof::Empty, Judge::Account { verifiers, server }) => {
                match plan::fitting(b"", &verifiers).await.is_some() {
                    true => Ok(keyring.remember(user, Credential::Empty)),
                    false if server => self.try_on_server(user, Credential::Empty).await,
                    false => self.newer_password(user, b"").await,
                }
            }
            (Proof::Password(given), Judge::Server) => self.try_on_server(user, Credential::Password(given)).await,
            (Proof::Empty, Judge::Server) => self.try_on_server(user, Credential::Empty).await,
            (Proof::CachingSha2Stage1(_), Judge::Server | Judge::Account { .. }) => match keyring.credential(user) {
                Some(known) => Ok(known),
                None => wrong(true),
            },
            (Proof::Password(given), Judge::Nobody(verifiers)) => {
                plan::fitting(&given, &verifiers).await;
                wrong(true)
            }
            (Proof::Empty, _) => wrong(false),
            _ => wrong(true),
        }
    }

    fn remember(&self, user: &Arc<str>, password: &[u8], verifier: &Verifier) -> Arc<Credential> {
        let keyring = &self.cluster.shared.keyring;
        let credential = keyring.remember(user, Credential::password(password.to_vec()));
        keyring.checked(user, &credential, verifier, true);
        credential
    }

    /// A password that fits nothing known is checked against accounts that are read anew.
    async fn newer_password(&self, user: &Arc<str>, password: &[u8]) -> Result<Arc<Credential>, Refusal> {
        let accounts = self.refresh_accounts().await;
        if let Some(account) = accounts.find(user, self.handle.client_ip())
            && let Some(verifier) = plan::fitting(password, &account.verifiers).await
        {
            return Ok(match password {
                [] => self.cluster.shared.keyring.remember(user, Credential::Empty),
                _ => self.remember(user, password, &verifier),
            });
        }
        Err(self.wrong_password(user, !password.is_empty()).await)
    }

    /// A password that only a server can check is tried on one.
    async fn try_on_server(&self, user: &Arc<str>, credential: Credential) -> Result<Arc<Credential>, Refusal> {
        let keyring = &self.cluster.shared.keyring;
        let proved = || keyring.credential(user).is_some_and(|known| *known == credential);
        if proved() {
            return Ok(keyring.remember(user, credential));
        }
        let deadline = tokio::time::Instant::now() + TRY_WAIT;
        while !keyring.may_try(user, Instant::now()) {
            // Many clients of one user may come at once: the first of them proves the password for all.
            tokio::time::sleep(TRY_PACE).await;
            if proved() {
                return Ok(keyring.remember(user, credential));
            }
            if tokio::time::Instant::now() < deadline {
                continue;
            }
            let why = format_args!("too many failed logins of user '{user}' lately; try again in a second");
            return Err(Refusal::own(errno::ER_ACCESS_DENIED_ERROR, b"28000", why));
        }
        let shared = &self.cluster.shared;
        let view = self.cluster.view();
        let up = |server: &&facts::view::ServerView| server.health == facts::view::Health::Up;
        let primary = view.primary.and_then(|id| view.server(id));
        let mut last = Refusal::no_server("server", Duration::ZERO, "none is up to check the password");
        for server in
            primary.into_iter().chain(view.servers.iter().filter(up).filter(|server| Some(server.id) != view.primary))
        {
            let target = shared.target(server, shared.settings.load().pool.connect_timeout, self.handle.client_addr());
            let capabilities = Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS;
            let login = login_as(user, &credential, capabilities, COLLATION_FALLBACK);
            match net::client::connect(&target, login).await {
                Ok(_) => return Ok(keyring.remember(user, credential)),
                Err(error) => match error.server_error() {
                    // The password was right, and has expired. The session's own connection gets the server's error.
                    Some(said) if said.code == errno::ER_MUST_CHANGE_PASSWORD_LOGIN => {
                        return Ok(keyring.remember(user, credential));
                    }
                    Some(said) if said.code == errno::ER_ACCESS_DENIED_ERROR => {
                        // The account may be another one by now, or gone.
                        shared.published.request_accounts_refresh();
                        let given = credential != Credential::Empty;
                        return Err(self.denied(user, Some(Denial::WrongPassword), given));
                    }
                    Some(said) if counted::is_blocked(said.code) => {
                        return Err(Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message));
                    }
                    Some(said) => last = Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message),
                    None if matches!(error.cause, Cause::Protocol(HandshakeError::CredentialRefused(_))) => {
                        // PAM asks once more when a password was wrong, and other things than passwords.
                        last = self.denied(user, None, true);
                        last.message = format!("{}; sqluice: {error}", last.message);
                    }
                    None => last = Refusal::no_server("server", Duration::ZERO, &error.to_string()),
                },
            }
        }
        Err(last)
    }
}

//! The conditions that an account has beside its password: its lock, and TLS.

use facts::accounts::TlsDemand;
use net::tls::Names;
use wire::errno;

use super::Prover;
use super::plan::Facts;
use crate::error::Refusal;

impl Prover<'_> {
    /// The same as [`Prover::admit`], and once more by accounts that are read anew before anybody is refused.
    pub(super) async fn admit_now(&self, user: &str, account: &mut Facts) -> Result<(), Refusal> {
        if self.admit(user, account).is_ok() {
            return Ok(());
        }
        let accounts = self.refresh_accounts().await;
        if let Some(now) = accounts.find(user, self.handle.client_ip()) {
            *account = Facts::of(now);
        }
        self.admit(user, account)
    }

    /// Checks an account's demands beside the password. Servers look at them when the password is right.
    fn admit(&self, user: &str, account: &Facts) -> Result<(), Refusal> {
        if account.locked {
            return Err(self.locked(user));
        }
        let names = || self.stream.peer_certificate().and_then(Names::of);
        let shown = self.stream.peer_certificate().is_some();
        let good = match &account.tls {
            TlsDemand::None => true,
            TlsDemand::Tls => self.stream.is_tls(),
            TlsDemand::Certificate => shown,
            TlsDemand::Unknown => false,
            TlsDemand::These { cipher, issuer, subject } => {
                let needs_names = !issuer.is_empty() || !subject.is_empty();
                let fits = |demanded: &str, is: &str| demanded.is_empty() || demanded == is;
                self.stream.is_tls()
                    && fits(cipher, self.stream.tls_cipher().unwrap_or_default())
                    && (!needs_names
                        || names().is_some_and(|names| fits(issuer, &names.issuer) && fits(subject, &names.subject)))
            }
        };
        if good {
            return Ok(());
        }
        let mut refusal = self.denied(user, None, true);
        let asked = self.listener.settings.load().tls.client_ca.is_some();
        if account.tls == TlsDemand::Unknown {
            let why = "the monitor user may not read what the account requires; `sqluice init` prints the grants";
            refusal.message = format!("{}; sqluice: {why}", refusal.message);
        } else if !asked && !matches!(account.tls, TlsDemand::Tls) && self.stream.is_tls() && !shown {
            let why =
                "the account requires a certificate, and the listener has no tls.client_ca_file to check one with";
            refusal.message = format!("{}; sqluice: {why}", refusal.message);
        }
        Err(refusal)
    }

    fn locked(&self, user: &str) -> Refusal {
        let mariadb = self.cluster.view().flavour.as_ref().is_none_or(|flavour| flavour.mariadb);
        let (code, message) = match mariadb {
            true => (errno::ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB, "Access denied, this account is locked".to_owned()),
            false => (
                errno::ER_ACCOUNT_HAS_BEEN_LOCKED,
                format!("Access denied for user '{user}'@'{}'. Account is locked.", self.client_host()),
            ),
        };
        Refusal::like_server(code, b"HY000", message)
    }
}

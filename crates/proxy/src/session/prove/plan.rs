//! How a client is asked for its password, and who says whether it is right.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use facts::accounts::{Account, Accounts, TlsDemand, Verifier};
use wire::auth::{Credential, Plugin, RsaKey, caching_sha2, ed25519, native, parsec};
use wire::errno;
use wire::handshake::Channel;
use wire::handshake::server::Method;

use super::Prover;
use crate::error::Refusal;
use crate::keyring::PasswordCheck;

/// The method of a login, and the judge of the client's proof.
#[derive(Debug)]
pub struct Plan {
    pub method: Method,
    pub judge: Judge,
    /// The account as the servers have it, where that is known.
    pub account: Facts,
}

/// The judge of a proof.
#[derive(Debug)]
pub enum Judge {
    /// The method itself: nothing more is known than the hash that it was given.
    Method,
    /// This password is the right one.
    OwnValue(Arc<Credential>),
    /// One of these must fit, else a server is asked if `server`.
    Account { verifiers: Vec<Verifier>, server: bool },
    /// A server.
    Server,
    /// There is no such account. The login is checked all the same, so that it takes as long.
    Nobody(Vec<Verifier>),
}

/// The demands of an account beside the password.
#[derive(Debug, Default)]
pub struct Facts {
    pub locked: bool,
    pub expired: bool,
    pub tls: TlsDemand,
}

impl Facts {
    /// Those of an account.
    pub fn of(account: &Account) -> Facts {
        Facts { locked: account.locked, expired: account.expired, tls: account.tls.clone() }
    }
}

/// The meaning of plugins that Sqluice does not speak, for a client.
enum Policy {
    /// The server takes the password itself: so may we, where no stranger listens.
    Cleartext,
    /// The server looks at who owns the other end of its local socket, which is Sqluice.
    Socket,
    /// The plugin is spoken here, but what is stored fits no password, such as `invalid`.
    Never,
    /// Tickets and tokens that are made for one server, and cannot be passed on.
    Bound,
}

fn policy(plugin: &str) -> Policy {
    match plugin {
        "mysql_native_password" | "ed25519" | "parsec" | "mysql_no_login" => Policy::Never,
        "unix_socket" | "auth_socket" | "socket" => Policy::Socket,
        "gssapi"
        | "auth_gssapi"
        | "named_pipe"
        | "authentication_kerberos"
        | "authentication_ldap_sasl"
        | "authentication_ldap_sasl_client"
        | "authentication_windows"
        | "authentication_fido"
        | "authentication_webauthn"
        | "authentication_oci"
        | "mysql_old_password" => Policy::Bound,
        // PAM, LDAP, the clouds' tokens, and others of which nothing is known.
        _ => Policy::Cleartext,
    }
}

/// The client, as far as it matters for asking it.
#[derive(Clone, Copy)]
pub struct AskedClient {
    /// The plugin that it names; `None` if it names none, or one that is not spoken here.
    pub plugin: Option<Plugin>,
    /// It lacks the greeting's plugin: it named another.
    pub lacks_native: bool,
    pub channel: Channel,
}

impl Prover<'_> {
    /// How this user's password is checked: by the configuration, by what the servers' account says, or by the servers.
    pub(super) async fn plan(&self, user: &Arc<str>, plugin: Option<&[u8]>, channel: Channel) -> Result<Plan, Refusal> {
        let greeted = self.cluster.view().flavour.as_ref().map(|flavour| flavour.auth_plugin.clone());
        let greets_native = greeted.is_none_or(|name| *name != *Plugin::CachingSha2.name());
        let plugin = plugin.map_or(Some(Plugin::Native), Plugin::from_name);
        let lacks_native =
            !self.speaks_native && greets_native && plugin.is_some_and(|plugin| plugin != Plugin::Native);
        let asked = AskedClient { plugin, lacks_native, channel };
        let config = self.worker.shared.config.load_full();
        let own = config.users.get(&**user).map(|own| &own.credential);
        let mut accounts = self.cluster.shared.published.accounts.load_full();
        let address = self.handle.client_ip();
        let unknown = accounts.readable && accounts.find(user, address).is_none();
        if accounts.number == 0 || unknown {
            // Perhaps the account was made just now.
            accounts = self.refresh_accounts().await;
        }
        let account = accounts.find(user, address);
        let facts = || account.map_or_else(Facts::default, Facts::of);
        if accounts.readable && account.is_none() {
            // That a password is known here makes no account for this host.
            return self.ask_nobody(user, &accounts, asked).await;
        }
        match own {
            Some(config::Credential::Password(password)) => {
                let password =
                    self.cluster.shared.keyring.remember(user, Credential::password(password.expose().to_vec()));
                let verifiers = account.map_or(&[][..], |account| &account.verifiers);
                return self.ask_known(password, verifiers, asked, facts()).await;
            }
            Some(config::Credential::NativeHash(hash)) => {
                if let Ok(stage2) = <[u8; 20]>::try_from(hash.expose()) {
                    let method = Method::Native { stage2 };
                    return Ok(Plan { method, judge: Judge::Method, account: facts() });
                }
            }
            Some(config::Credential::Servers) | None => {}
        }
        if !accounts.readable {
            let remembered = self.cluster.shared.keyring.sha2_stage2(user);
            let method = Method::CachingSha2 { remembered, rsa: self.rsa_key(channel).await };
            return Ok(Plan { method, judge: Judge::Server, account: Facts::default() });
        }
        let Some(account) = account else { return self.ask_nobody(user, &accounts, asked).await };
        if let Some(password) = self.known_password(user, &account.verifiers).await {
            return self.ask_known(password, &account.verifiers, asked, facts()).await;
        }
        let Some(method) = self.method(user, &account.verifiers, asked).await else {
            self.not_here(user, account, channel);
            return self.ask_nobody(user, &accounts, asked).await;
        };
        let server = account.verifiers.iter().any(|one| match one {
            Verifier::CachingSha2(None) | Verifier::Sha256(None) => true,
            Verifier::Other(plugin) => matches!(policy(plugin), Policy::Cleartext),
            _ => false,
        });
        let judge = Judge::Account { verifiers: account.verifiers.clone(), server };
        Ok(Plan { method, judge, account: facts() })
    }

    /// The password that is remembered of this user, if it is this account's.
    async fn known_password(&self, user: &Arc<str>, verifiers: &[Verifier]) -> Option<Arc<Credential>> {
        let keyring = &self.cluster.shared.keyring;
        let credential = match keyring.knows(user, verifiers) {
            PasswordCheck::Yes(credential) => return Some(credential),
            PasswordCheck::No => return None,
            PasswordCheck::Unchecked(credential) => credential,
        };
        let password = credential.cleartext()?;
        let fitting = fitting(password, verifiers).await;
        if let Some(verifier) = fitting.as_ref().or(verifiers.first()) {
            keyring.checked(user, &credential, verifier, fitting.is_some());
        }
        fitting.map(|_| credential)
    }

    /// Asks a client for a password that is known here: by its own plugin where that is possible, so that it needs no
    /// switch.
    async fn ask_known(
        &self,
        known: Arc<Credential>,
        verifiers: &[Verifier],
        asked: AskedClient,
        account: Facts,
    ) -> Result<Plan, Refusal> {
        let no_randomness = |error| Refusal::own(errno::ER_ACCESS_DENIED_ERROR, b"28000", error);
        let password = known.cleartext().unwrap_or_default();
        let parsec = verifiers.iter().find_map(|one| match one {
            Verifier::Parsec { salt, key } => Some((*salt, *key)),
            _ => None,
        });
        let method = match (asked.plugin, parsec) {
            _ if password.is_empty() => Method::Empty,
            (Some(Plugin::Ed25519), _) => Method::Ed25519 {
                key: ed25519::public_key(password),
                nonce: ed25519::new_nonce().map_err(no_randomness)?,
            },
            (Some(Plugin::Parsec), Some((salt, key))) => {
                Method::Parsec { salt, key, nonce: ed25519::new_nonce().map_err(no_randomness)? }
            }
            (Some(Plugin::Sha256), _) => Method::Sha256 { rsa: self.rsa_key(self.without_tls()).await },
            (Some(Plugin::Clear), _) if asked.channel == Channel::Secure => Method::Clear,
            (Some(Plugin::Native), _) => Method::Native { stage2: native::stage2(&native::stage1(password)) },
            _ => {
                let stage2 = caching_sha2::stage2(&caching_sha2::stage1(password));
                Method::CachingSha2 { remembered: Some(stage2), rsa: self.rsa_key(asked.channel).await }
            }
        };
        Ok(Plan { method, judge: Judge::OwnValue(known), account })
    }

    /// How a password that is not known here is asked for; `None` if it cannot be.
    async fn method(&self, user: &str, verifiers: &[Verifier], asked: AskedClient) -> Option<Method> {
        let secure = asked.channel == Channel::Secure;
        let native = verifiers.iter().find_map(|one| match one {
            Verifier::Native(stage2) => Some(Method::Native { stage2: *stage2 }),
            Verifier::Empty => Some(Method::Empty),
            _ => None,
        });
        if let Some(native) = native {
            // MySQL's clients since 9.0 lack the native plugin. They can say the password, which its hash can check.
            let instead = asked.plugin == Some(Plugin::CachingSha2) && (secure || asked.lacks_native);
            if !instead || matches!(native, Method::Empty) {
                return Some(native);
            }
        }
        if asked.plugin == Some(Plugin::Clear) && secure {
            return Some(Method::Clear);
        }
        let has = |wanted: fn(&Verifier) -> bool| verifiers.iter().any(wanted);
        if has(|one| matches!(one, Verifier::Sha256(_))) && asked.plugin != Some(Plugin::CachingSha2) {
            return Some(Method::Sha256 { rsa: self.rsa_key(self.without_tls()).await });
        }
        if has(|one| !matches!(one, Verifier::Other(_))) {
            // The one plugin that all drivers have, and that gives the password over TLS and, encrypted, without.
            let unreadable = has(|one| matches!(one, Verifier::CachingSha2(None)));
            let remembered = self.cluster.shared.keyring.sha2_stage2(user).filter(|_| unreadable);
            return Some(Method::CachingSha2 { remembered, rsa: self.rsa_key(asked.channel).await });
        }
        let cleartext =
            has(|one| matches!(one, Verifier::Other(plugin) if matches!(policy(plugin), Policy::Cleartext)));
        (cleartext && secure).then_some(Method::Clear)
    }

    /// Why an account cannot log in through Sqluice, or not from this client's address. The log has it; the client is asked and
    /// refused like a user without an account, for whoever guesses names must not learn which there are.
    fn not_here(&self, user: &str, account: &Account, channel: Channel) {
        let other = |one: &Verifier| match one {
            Verifier::Other(plugin) => Some(plugin.clone()),
            _ => None,
        };
        let Some(plugin) = account.verifiers.iter().find_map(other) else { return };
        let why = match policy(&plugin) {
            Policy::Cleartext => {
                format!("for which the client must use TLS and its cleartext plugin (the channel is {channel:?})")
            }
            Policy::Never => return,
            Policy::Socket => {
                "which works on the server's own socket only; give the account a password as well".to_owned()
            }
            Policy::Bound => {
                "whose proofs are made for one server and cannot be passed on; give it another plugin, or \
                              connect to the server itself"
                    .to_owned()
            }
        };
        let why = format!("account '{user}'@'{}' uses authentication plugin '{plugin}', {why}", account.host);
        let log = &self.worker.shared.login_log;
        log.refused(&self.cluster.shared.name, &self.handle.client(), user.as_bytes(), &why);
    }

    /// A user without an account is asked like one with, and gets no other error than that of a wrong password. Like servers do,
    /// an account is drawn by lot, the same for the same name.
    async fn ask_nobody(&self, user: &Arc<str>, accounts: &Accounts, asked: AskedClient) -> Result<Plan, Refusal> {
        static LOT: OnceLock<RandomState> = OnceLock::new();
        let drawn = LOT.get_or_init(RandomState::new).hash_one(user);
        let asks = |one: &&Account| {
            matches!(
                one.verifiers.first(),
                Some(Verifier::Native(_) | Verifier::CachingSha2(_) | Verifier::Ed25519(_) | Verifier::Parsec { .. })
            )
        };
        let candidates: Vec<_> = accounts.accounts.iter().filter(asks).collect();
        let index = usize::try_from(drawn % candidates.len().max(1) as u64).unwrap_or(0);
        let verifiers = candidates.get(index).map_or(&[][..], |one| &one.verifiers);
        let method = match self.method("", verifiers, asked).await {
            Some(Method::CachingSha2 { rsa, .. }) => Method::CachingSha2 { remembered: None, rsa },
            Some(Method::Sha256 { rsa }) => Method::Sha256 { rsa },
            // A check that always fails.
            _ => Method::Native {
                stage2: wire::auth::new_scramble()
                    .map_err(|error| Refusal::own(errno::ER_ACCESS_DENIED_ERROR, b"28000", error))?,
            },
        };
        Ok(Plan { method, judge: Judge::Nobody(verifiers.to_vec()), account: Facts::default() })
    }

    /// To `sha256_password` a local socket is no better than plain TCP.
    fn without_tls(&self) -> Channel {
        if self.stream.is_tls() { Channel::Secure } else { Channel::Open }
    }

    /// The key for a client whose channel others can read. The first that needs it waits for it to be made; the worker's
    /// other clients do not.
    async fn rsa_key(&self, channel: Channel) -> Option<Arc<RsaKey>> {
        let shared = &self.worker.shared;
        match (channel, shared.rsa.get()) {
            (Channel::Secure, _) => None,
            (Channel::Open, Some(key)) => key.clone(),
            (Channel::Open, None) => {
                let shared = shared.clone();
                tokio::task::spawn_blocking(move || shared.rsa_key()).await.ok().flatten()
            }
        }
    }
}

/// The verifier that the password fits. The worker's other clients do not wait for the computing.
pub(super) async fn fitting(password: &[u8], verifiers: &[Verifier]) -> Option<Verifier> {
    let find = |password: &[u8], verifiers: &[Verifier]| {
        verifiers.iter().find(|verifier| verifier.fits(password) == Some(true)).cloned()
    };
    if verifiers.iter().all(|one| matches!(one, Verifier::Native(_) | Verifier::Empty | Verifier::Other(_))) {
        return find(password, verifiers);
    }
    let (password, verifiers) = (zeroize::Zeroizing::new(password.to_vec()), verifiers.to_vec());
    tokio::task::spawn_blocking(move || find(&password, &verifiers)).await.ok().flatten()
}

/// The password's hash in MariaDB's proof of the certificate, after a signature by this method.
pub(super) fn signed_hash(method: &Method) -> Option<Vec<u8>> {
    match method {
        Method::Ed25519 { key, .. } => Some(key.to_vec()),
        Method::Parsec { salt, key, .. } => Some(parsec::stored_hash(salt, key)),
        _ => None,
    }
}

//! Proving who a client is: by the configuration, by what the servers' account says, or by the servers themselves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::accounts::{Accounts, Verifier};
use config::TlsMode;
use net::Stream;
use tokio::io::AsyncWriteExt;
use wire::Capabilities;
use wire::auth::{Credential, Plugin, RsaKey, Scramble, caching_sha2, native};
use wire::handshake::client::COLLATION_FALLBACK;
use wire::handshake::server::{Conversation, Denial, Finish, Method, Proof, Step};
use wire::handshake::{Channel, LOGIN_BYTES_MAX, ServerError};

use crate::error::{Refusal, SessionEnd};
use crate::shared::{ListenerShared, login_as};
use crate::worker::{ClusterHere, Worker};

/// How long a failed login waits for the accounts to be read again: the password may have been changed just now.
const REFRESH_WAIT: Duration = Duration::from_millis(1500);

/// How long a login waits for its turn to try a password on a server, or for another login that proves the same one.
const TRY_WAIT: Duration = Duration::from_millis(2500);
/// How often it looks meanwhile.
const TRY_PACE: Duration = Duration::from_millis(25);

/// Who a client has proved to be.
pub struct Proven {
    pub user: Arc<str>,
    pub credential: Arc<Credential>,
    pub finish: Finish,
}

/// Says no, and ends the connection.
pub async fn refuse(stream: &mut Stream, finish: Finish, refusal: &Refusal) -> SessionEnd {
    let mut out = Vec::new();
    let sqlstate = String::from_utf8_lossy(&refusal.sqlstate).into_owned();
    let error = ServerError { code: refusal.code, sqlstate: Some(sqlstate), message: refusal.message.clone() };
    finish.refuse(&error, &mut out);
    // A client that is gone already has nothing to hear.
    let _ = stream.write_all(&out).await;
    let _ = stream.shutdown().await;
    SessionEnd::LoginRefused(refusal.message.clone())
}

/// Proves who a client is, at login and at COM_CHANGE_USER.
pub struct Prover<'a> {
    pub worker: &'a Worker,
    pub cluster: &'a ClusterHere,
    pub listener: &'a ListenerShared,
    pub stream: &'a mut Stream,
}

impl Prover<'_> {
    /// Runs the conversation to its end; a client that fails has been told so.
    pub async fn prove(
        &mut self,
        conversation: Conversation,
        user: &[u8],
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> Result<Proven, SessionEnd> {
        let (channel, scramble) = (conversation.channel(), conversation.scramble());
        let user: Arc<str> = String::from_utf8_lossy(user).into();
        if self.listener.settings.load().tls.mode == TlsMode::Required && channel == Channel::Open {
            let refusal =
                Refusal::own(3159, b"HY000", "connections using insecure transport are prohibited (listener tls)");
            return Err(refuse(self.stream, conversation.finish(), &refusal).await);
        }
        let method = self.method(&user, plugin, channel).await;
        let method = match method {
            Ok(method) => method,
            Err(refusal) => return Err(refuse(self.stream, conversation.finish(), &refusal).await),
        };
        // A native answer can be checked again, should the accounts turn out to be old.
        let native = matches!(method, Method::Native { .. });
        let mut last_answer = answer.to_vec();
        let mut out = Vec::new();
        let mut step = conversation.begin(method, plugin, answer, &mut out);
        let (proof, finish) = loop {
            self.stream.write_all(&out).await.map_err(SessionEnd::ClientLost)?;
            self.stream.flush().await.map_err(SessionEnd::ClientLost)?;
            out.clear();
            match step.map_err(|error| SessionEnd::ClientMisbehaved(error.to_string()))? {
                Step::Proven(proof, finish) => break (proof, finish),
                Step::Denied(denial, finish) => {
                    if native && let Some(proof) = self.check_again(&user, channel, &scramble, &last_answer).await {
                        break (proof, finish);
                    }
                    let refusal = self.denied(&user, Some(denial), answer);
                    return Err(refuse(self.stream, finish, &refusal).await);
                }
                Step::Await(next) => {
                    let packet = net::packets::read(self.stream, LOGIN_BYTES_MAX).await;
                    let packet = packet.map_err(|error| SessionEnd::ClientMisbehaved(error.to_string()))?;
                    if native {
                        last_answer.clone_from(&packet.payload);
                    }
                    step = next.handle(packet.received(), &mut out);
                }
            }
        };
        match self.credential(&user, proof).await {
            Ok(credential) => Ok(Proven { user, credential, finish }),
            Err(refusal) => Err(refuse(self.stream, finish, &refusal).await),
        }
    }

    /// Checks a native answer that was wrong against accounts that are read anew: the password may have been changed just
    /// now.
    async fn check_again(
        &self,
        user: &Arc<str>,
        channel: Channel,
        scramble: &Scramble,
        answer: &[u8],
    ) -> Option<Proof> {
        self.refresh_accounts().await.find(user, self.stream.peer_ip())?;
        match self.method(user, None, channel).await {
            Ok(Method::Native { stage2 }) => native::verify(scramble, &stage2, answer).map(Proof::NativeStage1),
            // Another plugin, or no account any more: the next login will be asked accordingly.
            _ => None,
        }
    }

    /// How this user's password is checked: by the configuration, by what the servers' account says, or by the servers.
    async fn method(&self, user: &Arc<str>, plugin: Option<&[u8]>, channel: Channel) -> Result<Method, Refusal> {
        let config = self.worker.shared.config.load_full();
        match config.users.get(&**user).map(|own| &own.credential) {
            Some(config::Credential::Password(password)) => {
                // Whatever the client speaks: the password answers both.
                if plugin.is_none_or(|name| name == Plugin::Native.name().as_bytes()) {
                    return Ok(Method::Native { stage2: native::stage2(&native::stage1(password.expose())) });
                }
                let stage2 = caching_sha2::stage2(&caching_sha2::stage1(password.expose()));
                return Ok(Method::CachingSha2 { remembered: Some(stage2), rsa: self.rsa_key(channel).await });
            }
            Some(config::Credential::NativeHash(hash)) => {
                if let Ok(stage2) = <[u8; 20]>::try_from(hash.expose()) {
                    return Ok(Method::Native { stage2 });
                }
            }
            Some(config::Credential::Servers) | None => {}
        }
        let published = &self.cluster.shared.published;
        let address = self.stream.peer_ip();
        let mut accounts = published.accounts.load_full();
        if accounts.number == 0 || (accounts.readable && accounts.find(user, address).is_none()) {
            // Perhaps the account was made just now.
            accounts = self.refresh_accounts().await;
        }
        if !accounts.readable {
            return Ok(self.pass_through(user, channel).await);
        }
        let Some(account) = accounts.find(user, address) else {
            // A check that nobody can pass tells no more than a wrong password does.
            let stage2 = wire::auth::new_scramble().map_err(|error| Refusal::own(1045, b"28000", error))?;
            return Ok(Method::Native { stage2 });
        };
        if account.locked {
            let message = "Access denied, this account is locked".to_owned();
            return Err(Refusal { code: 4151, sqlstate: *b"HY000", message });
        }
        if account.tls_required && channel == Channel::Open {
            return Err(self.denied(user, None, b"x"));
        }
        for verifier in &account.verifiers {
            match verifier {
                Verifier::Native(stage2) => return Ok(Method::Native { stage2: *stage2 }),
                Verifier::Empty => return Ok(Method::Empty),
                Verifier::CachingSha2 => return Ok(self.pass_through(user, channel).await),
                Verifier::Other(_) => {}
            }
        }
        match account.verifiers.first() {
            // Directories, PAM and the like: the server asks for the password itself, and so may we where nobody listens.
            Some(Verifier::Other(_)) if channel == Channel::Secure => Ok(Method::Clear),
            Some(Verifier::Other(plugin)) => Err(Refusal::own(
                1251,
                b"08004",
                format_args!(
                    "account '{user}'@'{}' uses authentication plugin '{plugin}', for which the client must use TLS and \
                     its cleartext plugin",
                    account.host
                ),
            )),
            _ => Err(self.denied(user, None, b"x")),
        }
    }

    async fn pass_through(&self, user: &str, channel: Channel) -> Method {
        let remembered = self.cluster.shared.keyring.sha2_stage2(user);
        Method::CachingSha2 { remembered, rsa: self.rsa_key(channel).await }
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

    /// Asks for the accounts to be read again, and waits for that a little.
    async fn refresh_accounts(&self) -> Arc<Accounts> {
        let published = &self.cluster.shared.published;
        let before = published.accounts.load().number;
        let deadline = tokio::time::Instant::now() + REFRESH_WAIT;
        published.request_accounts_refresh();
        loop {
            let changed = self.cluster.changed.notified();
            let accounts = published.accounts.load_full();
            if accounts.number != before || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return accounts;
            }
        }
    }

    /// What Sqluice logs in to servers with for this user from now on.
    async fn credential(&self, user: &Arc<str>, proof: Proof) -> Result<Arc<Credential>, Refusal> {
        let keyring = &self.cluster.shared.keyring;
        let config = self.worker.shared.config.load_full();
        if let Some(config::Credential::Password(password)) = config.users.get(&**user).map(|own| &own.credential) {
            let right = match &proof {
                Proof::Password(given) => wire::auth::equal(given, password.expose()),
                // Checked against this very password.
                Proof::CachingSha2Stage1(_) | Proof::NativeStage1(_) => true,
                Proof::Empty => password.expose().is_empty(),
            };
            return match right {
                true => Ok(keyring.remember(user, Credential::password(password.expose().to_vec()))),
                false => Err(self.denied(user, Some(Denial::WrongPassword), b"x")),
            };
        }
        let credential = match proof {
            Proof::Empty => Credential::Empty,
            Proof::NativeStage1(stage1) => return Ok(keyring.remember(user, Credential::NativeStage1(stage1))),
            Proof::CachingSha2Stage1(_) => match keyring.credential(user) {
                Some(known) => return Ok(known),
                None => return Err(self.denied(user, Some(Denial::WrongPassword), b"x")),
            },
            Proof::Password(password) => Credential::Password(password),
        };
        self.try_on_server(user, credential).await
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
            return Err(Refusal::own(1045, b"28000", why));
        }
        let shared = &self.cluster.shared;
        let view = self.cluster.view();
        let up = |server: &&cluster::view::ServerView| server.health == cluster::view::Health::Up;
        let primary = view.primary.and_then(|id| view.server(id));
        let mut last = Refusal::no_server("server", Duration::ZERO, "none is up to check the password");
        for server in
            primary.into_iter().chain(view.servers.iter().filter(up).filter(|server| Some(server.id) != view.primary))
        {
            let target = shared.target(server, shared.settings.load().pool.connect_timeout);
            let capabilities = Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS;
            let login = login_as(user, &credential, capabilities, COLLATION_FALLBACK);
            match net::client::connect(&target, login).await {
                Ok(_) => return Ok(keyring.remember(user, credential)),
                Err(error) => match error.server_error() {
                    Some(said) if said.code == 1045 => {
                        // The account may be another one by now, or gone.
                        shared.published.request_accounts_refresh();
                        let answer: &[u8] = if credential == Credential::Empty { b"" } else { b"x" };
                        return Err(self.denied(user, Some(Denial::WrongPassword), answer));
                    }
                    Some(said) => last = Refusal::of_server(said.code, said.sqlstate.as_deref(), &said.message),
                    None => last = Refusal::no_server("server", Duration::ZERO, &error.to_string()),
                },
            }
        }
        Err(last)
    }

    /// The server's own words for a failed login.
    fn denied(&self, user: &str, denial: Option<Denial>, answer: &[u8]) -> Refusal {
        let host = self.stream.peer_ip().map_or_else(|| "localhost".into(), |ip| ip.to_string());
        let using = if answer.is_empty() { "NO" } else { "YES" };
        let mut message = format!("Access denied for user '{user}'@'{host}' (using password: {using})");
        if let Some(denial @ (Denial::NeedsTls | Denial::CannotSwitch)) = denial {
            message = format!("{message}; sqluice: {denial}");
        }
        Refusal { code: 1045, sqlstate: *b"28000", message }
    }
}

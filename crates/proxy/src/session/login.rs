//! A client logs in: greeting, TLS, proof of the password, the schema it asks for; and COM_CHANGE_USER, which is the same
//! on a connection that lives.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use cluster::accounts::{Accounts, Verifier};
use cluster::view::Flavour;
use config::TlsMode;
use net::Stream;
use sql::{Dialect, Encoding, Family, Modes};
use tokio::io::AsyncWriteExt;
use wire::auth::{Credential, Plugin, Scramble};
use wire::greeting::Greeting;
use wire::handshake::server::{AwaitResponse, Conversation, Denial, Finish, Method, Proof, Response, Step};
use wire::handshake::{ChangeUser, Channel, HandshakeResponse, LOGIN_BYTES_MAX, ServerError};
use wire::{Capabilities, Status};

use super::client::{Client, Request};
use super::statements::ClientStatements;
use super::tracking::TrackWish;
use super::{Identity, Past, Session};
use crate::error::{Refusal, SessionEnd};
use crate::pool::{Key, MEANINGFUL};
use crate::route::Pins;
use crate::shared::{ListenerShared, SessionHandle, Shared};
use crate::state::StateMap;
use crate::worker::{ClusterHere, Worker};

/// What clients are offered, as far as the servers have it too.
const OFFERED: Capabilities = MEANINGFUL
    .union(Capabilities::LONG_PASSWORD)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::ODBC)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::RESERVED_14)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC_DATA)
    .union(Capabilities::SESSION_TRACK);

/// How long a failed login waits for the accounts to be read again: the password may have been changed just now.
const REFRESH_WAIT: Duration = Duration::from_millis(1500);

/// Counts as one of a user's sessions while it lives.
#[derive(Debug)]
pub struct UserSession {
    shared: Arc<Shared>,
    user: Arc<str>,
}

impl UserSession {
    fn begin(shared: &Arc<Shared>, user: &Arc<str>, max: u32) -> Option<UserSession> {
        let mut users = shared.user_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = users.entry(user.clone()).or_insert(0);
        if max > 0 && *count >= max {
            return None;
        }
        *count += 1;
        Some(UserSession { shared: shared.clone(), user: user.clone() })
    }
}

impl Drop for UserSession {
    fn drop(&mut self) {
        let mut users = self.shared.user_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// A client on its way in.
struct Door {
    worker: Rc<Worker>,
    cluster: Rc<ClusterHere>,
    listener: Arc<ListenerShared>,
    stream: Stream,
}

/// Who a client has proved to be.
struct Proven {
    user: Arc<str>,
    credential: Arc<Credential>,
    finish: Finish,
}

/// Lets a client in.
pub async fn log_in(
    worker: Rc<Worker>,
    stream: Stream,
    listener: Arc<ListenerShared>,
    handle: Arc<SessionHandle>,
) -> Result<Session, SessionEnd> {
    stream.set_nodelay().map_err(SessionEnd::ClientLost)?;
    stream.set_keepalive(&net::stream::Keepalive::default()).map_err(SessionEnd::ClientLost)?;
    let cluster = worker.cluster(&listener.cluster);
    let mut door = Door { worker, cluster, listener, stream };
    let flavour = door.flavour().await?;
    let greeting = door.greeting(&flavour, handle.id)?;
    let (login, conversation) = door.greet(&greeting).await?;
    let proven = match door.prove(conversation, &login.user, login.plugin.as_deref(), &login.auth_response).await {
        Ok(proven) => proven,
        Err(end) => return Err(end),
    };
    let mut session = match door.make_session(&greeting, &flavour, &login, &proven, handle) {
        Ok(session) => session,
        Err((mut stream, refusal)) => return Err(refuse(&mut stream, proven.finish, &refusal).await),
    };
    if let Some(schema) = &login.schema {
        if let Err(refusal) = session.enter_schema(schema).await {
            return Err(refuse(&mut session.client.stream, proven.finish, &refusal).await);
        }
    }
    session.login_state = session.state.clone();
    session.status = session.status_at_rest();
    session.accept(proven.finish).await?;
    Ok(session)
}

impl Door {
    /// What the cluster's servers are; waited for, since a greeting must fit them.
    async fn flavour(&mut self) -> Result<Arc<Flavour>, SessionEnd> {
        let limit = self.listener.settings.load().hold;
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let changed = self.cluster.changed.notified();
            if let Some(flavour) = &self.cluster.view().flavour {
                return Ok(flavour.clone());
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                let name = &self.cluster.shared.name;
                let why = format!("no server of cluster '{name}' has answered yet");
                let refusal = Refusal::no_server("server", limit, &why);
                let mut out = Vec::new();
                wire::packet::append(&mut out, 0, &{
                    let mut payload = Vec::new();
                    refusal.as_packet().write(&mut payload);
                    payload
                });
                let _ = self.stream.write_all(&out).await;
                return Err(SessionEnd::LoginRefused(refusal.message));
            }
        }
    }

    fn greeting(&self, flavour: &Flavour, id: u32) -> Result<Greeting, SessionEnd> {
        let settings = self.listener.settings.load();
        let mut capabilities = OFFERED & Capabilities::from_bits_retain(flavour.capabilities);
        capabilities.set(Capabilities::LONG_PASSWORD, !flavour.mariadb);
        capabilities.set(Capabilities::TLS, self.listener.tls.load().is_some() && !self.stream.is_secure());
        capabilities.set(Capabilities::LOCAL_FILES, settings.local_infile);
        let plugin = Plugin::from_name(flavour.auth_plugin.as_bytes()).unwrap_or(Plugin::Native);
        let scramble = wire::auth::new_scramble().map_err(|error| SessionEnd::LoginRefused(error.to_string()))?;
        Ok(Greeting {
            server_version: settings.server_version.as_ref().unwrap_or(&flavour.greeting_version).to_string(),
            connection_id: id,
            scramble,
            capabilities,
            collation: flavour.collation,
            status: Status::AUTOCOMMIT,
            plugin: plugin.name().into(),
        })
    }

    /// Greets, and takes the client's login, through TLS if the client wants that.
    async fn greet(&mut self, greeting: &Greeting) -> Result<(Box<HandshakeResponse>, Conversation), SessionEnd> {
        let mut out = Vec::new();
        let mut awaiting = AwaitResponse::greet(greeting, self.stream.channel(), &mut out);
        self.stream.write_all(&out).await.map_err(SessionEnd::ClientLost)?;
        loop {
            let packet = self.read().await?;
            match awaiting.handle(packet.received()) {
                Ok(Response::Login(login, conversation)) => return Ok((login, conversation)),
                Ok(Response::Tls(tls)) => {
                    self.start_tls().await?;
                    awaiting = tls.secured();
                }
                Err(error) => {
                    let refusal = Refusal::own(1043, b"08S01", format_args!("bad handshake: {error}"));
                    let mut out = Vec::new();
                    let begun = wire::packet::begin(&mut out);
                    refusal.as_packet().write(&mut out);
                    begun.end(&mut out, packet.sequence.wrapping_add(1));
                    let _ = self.stream.write_all(&out).await;
                    return Err(SessionEnd::ClientMisbehaved(error.to_string()));
                }
            }
        }
    }

    async fn start_tls(&mut self) -> Result<(), SessionEnd> {
        let tls = self.listener.tls.load_full();
        let Some(tls) = &*tls else { return Err(SessionEnd::ClientMisbehaved("TLS is not offered".into())) };
        // The placeholder is never used: either TLS takes its place, or the session ends.
        let plain = std::mem::replace(&mut self.stream, placeholder()?);
        self.stream = tls.accept(plain).await.map_err(SessionEnd::ClientLost)?;
        Ok(())
    }

    async fn read(&mut self) -> Result<net::packets::Packet, SessionEnd> {
        net::packets::read(&mut self.stream, LOGIN_BYTES_MAX).await.map_err(|error| match error {
            net::packets::ReadError::Io(error) => SessionEnd::ClientLost(error),
            net::packets::ReadError::Closed => SessionEnd::ClientLeft,
            error => SessionEnd::ClientMisbehaved(error.to_string()),
        })
    }

    async fn prove(
        &mut self,
        conversation: Conversation,
        user: &[u8],
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> Result<Proven, SessionEnd> {
        let mut prover =
            Prover { worker: &self.worker, cluster: &self.cluster, listener: &self.listener, stream: &mut self.stream };
        prover.prove(conversation, user, plugin, answer).await
    }

    #[allow(clippy::result_large_err)] // The stream goes back to the caller, who says goodbye on it.
    fn make_session(
        self,
        greeting: &Greeting,
        flavour: &Flavour,
        login: &HandshakeResponse,
        proven: &Proven,
        handle: Arc<SessionHandle>,
    ) -> Result<Session, (Stream, Refusal)> {
        let Door { worker, cluster, listener, stream } = self;
        let identity = match identify(&worker, &cluster, &listener, proven, login.capabilities, login.collation) {
            Ok(identity) => identity,
            Err(refusal) => return Err((stream, refusal)),
        };
        let idle_s = u32::try_from(listener.settings.load().idle_timeout.as_secs()).unwrap_or(u32::MAX);
        handle.idle_s_max.store(idle_s, std::sync::atomic::Ordering::Relaxed);
        let _ = handle.user.set(proven.user.clone());
        let catalog = cluster.catalog();
        let family = if flavour.mariadb { Family::MariaDb } else { Family::MySql };
        let dialect = Dialect { family, version: flavour.number, modes: Modes::empty(), encoding: Encoding::AsciiSafe };
        let state = Arc::new(StateMap::after_login(&catalog, login.collation, None));
        worker.stats.sessions.add(1);
        Ok(Session {
            wish: TrackWish::of_servers(&catalog),
            client: Client::new(stream, login.capabilities),
            scramble: greeting.scramble,
            dialect: (state.fingerprint(), state.dialect(&catalog, dialect.family, dialect.version)),
            login_state: state.clone(),
            state,
            identity,
            worker,
            cluster,
            listener,
            handle,
            pins: Pins::default(),
            status: Status::AUTOCOMMIT,
            statements: ClientStatements::default(),
            past: Past::default(),
            held: None,
        })
    }
}

/// A stream that leads nowhere, to stand where one is taken out.
fn placeholder() -> Result<Stream, SessionEnd> {
    let (one, _) = std::os::unix::net::UnixStream::pair().map_err(SessionEnd::ClientLost)?;
    Stream::attach(net::stream::Detached::Unix(one)).map_err(SessionEnd::ClientLost)
}

fn identify(
    worker: &Worker,
    cluster: &ClusterHere,
    listener: &ListenerShared,
    proven: &Proven,
    capabilities: Capabilities,
    collation: u16,
) -> Result<Identity, Refusal> {
    let config = worker.shared.config.load();
    let settings = listener.settings.load();
    let own = config.users.get(&*proven.user);
    if let Some(only) = own.and_then(|own| own.cluster.as_ref()).filter(|only| *only != &cluster.shared.name) {
        let why = format_args!("user '{}' may use cluster '{only}' only ([user.NAME] cluster)", proven.user);
        return Err(Refusal::own(1044, b"42000", why));
    }
    let limits = [settings.max_sessions_per_user, own.map_or(0, |own| own.max_sessions)];
    let max = limits.into_iter().filter(|max| *max > 0).min().unwrap_or(0);
    let Some(session) = UserSession::begin(&worker.shared, &proven.user, max) else {
        let why = format_args!(
            "user '{}' has {max} sessions already (max_sessions_per_user or [user.NAME] max_sessions)",
            proven.user
        );
        return Err(Refusal::own(1226, b"42000", why));
    };
    let pool = &cluster.shared.settings.load().pool;
    let connections_max = crate::shared::limit_of(pool.max_connections_per_user, own.map(|own| own.max_connections));
    let key = Key {
        user: proven.user.clone(),
        credential: proven.credential.clone(),
        capabilities: capabilities & MEANINGFUL,
    };
    let split = own.and_then(|own| own.split).unwrap_or(settings.split);
    Ok(Identity { user: proven.user.clone(), key: Arc::new(key), collation, split, connections_max, _session: session })
}

async fn refuse(stream: &mut Stream, finish: Finish, refusal: &Refusal) -> SessionEnd {
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
struct Prover<'a> {
    worker: &'a Worker,
    cluster: &'a ClusterHere,
    listener: &'a ListenerShared,
    stream: &'a mut Stream,
}

impl Prover<'_> {
    async fn prove(
        &mut self,
        conversation: Conversation,
        user: &[u8],
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> Result<Proven, SessionEnd> {
        let channel = conversation.channel();
        let user: Arc<str> = String::from_utf8_lossy(user).into();
        if self.listener.settings.load().tls.mode == TlsMode::Required && channel == Channel::Open {
            let refusal =
                Refusal::own(3159, b"HY000", "connections using insecure transport are prohibited (listener tls)");
            return Err(refuse(self.stream, conversation.finish(), &refusal).await);
        }
        let method = self.method(&user, channel).await;
        let method = match method {
            Ok(method) => method,
            Err(refusal) => return Err(refuse(self.stream, conversation.finish(), &refusal).await),
        };
        // A native answer can be checked again, should the accounts turn out to be old.
        let native = matches!(method, Method::Native { .. });
        let mut out = Vec::new();
        let mut step = conversation.begin(method, plugin, answer, &mut out);
        let (proof, finish) = loop {
            self.stream.write_all(&out).await.map_err(SessionEnd::ClientLost)?;
            self.stream.flush().await.map_err(SessionEnd::ClientLost)?;
            out.clear();
            match step.map_err(|error| SessionEnd::ClientMisbehaved(error.to_string()))? {
                Step::Proven(proof, finish) => break (proof, finish),
                Step::Denied(denial, finish) => {
                    if native {
                        self.refresh_accounts().await;
                    }
                    let refusal = self.denied(&user, Some(denial), answer);
                    return Err(refuse(self.stream, finish, &refusal).await);
                }
                Step::Await(next) => {
                    let packet = net::packets::read(self.stream, LOGIN_BYTES_MAX).await;
                    let packet = packet.map_err(|error| SessionEnd::ClientMisbehaved(error.to_string()))?;
                    step = next.handle(packet.received(), &mut out);
                }
            }
        };
        match self.credential(&user, proof).await {
            Ok(credential) => Ok(Proven { user, credential, finish }),
            Err(refusal) => Err(refuse(self.stream, finish, &refusal).await),
        }
    }

    /// How this user's password is checked: by the configuration, by what the servers' account says, or by the servers.
    async fn method(&self, user: &Arc<str>, channel: Channel) -> Result<Method, Refusal> {
        let config = self.worker.shared.config.load_full();
        match config.users.get(&**user).map(|own| &own.credential) {
            Some(config::Credential::Password(password)) => {
                return Ok(Method::CachingSha2 {
                    remembered: Some(wire::auth::caching_sha2::stage2(&wire::auth::caching_sha2::stage1(
                        password.expose(),
                    ))),
                    rsa: self.worker.shared.rsa_key(),
                });
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
            return Ok(self.pass_through(user));
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
                Verifier::CachingSha2 => return Ok(self.pass_through(user)),
                Verifier::Other(_) => {}
            }
        }
        match account.verifiers.first() {
            Some(Verifier::Other(plugin)) => Err(Refusal::own(
                1251,
                b"08004",
                format_args!(
                    "account '{user}'@'{}' uses authentication plugin '{plugin}', which is not supported",
                    account.host
                ),
            )),
            _ => Err(self.denied(user, None, b"x")),
        }
    }

    fn pass_through(&self, user: &str) -> Method {
        Method::CachingSha2 {
            remembered: self.cluster.shared.keyring.sha2_stage2(user),
            rsa: self.worker.shared.rsa_key(),
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
                Proof::CachingSha2Stage1(_) => true,
                Proof::Empty => password.expose().is_empty(),
                Proof::NativeStage1(_) => false,
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
        if keyring.credential(user).is_some_and(|known| *known == credential) {
            return Ok(keyring.remember(user, credential));
        }
        if !keyring.may_try(user, Instant::now()) {
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
            let settings = shared.settings.load_full();
            let target = net::client::Target {
                address: shared.address_of(server),
                timeout: settings.pool.connect_timeout,
                tls: settings.tls.clone(),
                keepalive: net::stream::Keepalive::default(),
            };
            let login = wire::handshake::client::LoginRequest {
                user: user.as_bytes().to_vec(),
                credential: credential.clone(),
                schema: None,
                capabilities: Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS,
                collation: wire::handshake::client::COLLATION_FALLBACK,
                packet_bytes_max: 1 << 24,
                attributes: vec![(b"program_name".to_vec(), b"sqluice".to_vec())],
                rsa: wire::handshake::client::RsaPolicy::AskServer,
            };
            match net::client::connect(&target, login).await {
                Ok(_) => return Ok(keyring.remember(user, credential)),
                Err(error) => match error.server_error() {
                    Some(said) if said.code == 1045 => {
                        return Err(self.denied(user, Some(Denial::WrongPassword), b"x"));
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

impl Session {
    async fn accept(&mut self, finish: Finish) -> Result<(), SessionEnd> {
        let mut payload = Vec::new();
        let ok = wire::reply::Ok { status: self.status, ..wire::reply::Ok::default() };
        ok.write(&mut payload, wire::reply::OK, self.client.capabilities);
        let mut out = Vec::new();
        finish.accept(&payload, &mut out);
        self.client.put(&out);
        self.client.flush().await.map_err(SessionEnd::ClientLost)
    }

    /// COM_CHANGE_USER: a new login; all of the session's state goes.
    pub(super) async fn change_user(&mut self, request: &Request) -> Result<(), SessionEnd> {
        let change = match ChangeUser::parse(request.payload(), self.client.capabilities) {
            Ok(change) => change,
            Err(error) => {
                let refusal = Refusal::own(1047, b"08S01", format_args!("COM_CHANGE_USER: {error}"));
                self.answer_error(request, &refusal);
                return Err(SessionEnd::ClientMisbehaved(error.to_string()));
            }
        };
        if let Some(held) = self.held.take() {
            self.clean_up(held).await;
        }
        self.lose_pinned_state();
        self.statements.clear();
        self.past = Past::default();
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        let scramble: Scramble = self.scramble;
        let channel = self.client.stream.channel();
        let conversation = Conversation::resume(scramble, request.sequence, channel, self.client.capabilities);
        let mut prover = Prover {
            worker: &self.worker,
            cluster: &self.cluster,
            listener: &self.listener,
            stream: &mut self.client.stream,
        };
        let proven = prover.prove(conversation, &change.user, change.plugin.as_deref(), &change.auth_response).await?;
        let collation = change.collation.unwrap_or(self.identity.collation);
        let capabilities = self.client.capabilities;
        match identify(&self.worker, &self.cluster, &self.listener, &proven, capabilities, collation) {
            Ok(identity) => self.identity = identity,
            Err(refusal) => return Err(refuse(&mut self.client.stream, proven.finish, &refusal).await),
        }
        let catalog = self.cluster.catalog();
        self.wish = TrackWish::of_servers(&catalog);
        self.state = Arc::new(StateMap::after_login(&catalog, collation, None));
        if let Some(schema) = &change.schema {
            if let Err(refusal) = self.enter_schema(schema).await {
                return Err(refuse(&mut self.client.stream, proven.finish, &refusal).await);
            }
        }
        self.login_state = self.state.clone();
        self.status = self.status_at_rest();
        self.accept(proven.finish).await
    }
}

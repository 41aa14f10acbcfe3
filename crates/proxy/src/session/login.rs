//! A client logs in: greeting, TLS, proof of the password, the schema it asks for; and COM_CHANGE_USER, which is the same
//! on a connection that lives.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use cluster::view::Flavour;
use net::Stream;
use sql::{Dialect, Encoding, Family, Modes};
use tokio::io::AsyncWriteExt;
use wire::auth::{Plugin, Scramble};
use wire::greeting::Greeting;
use wire::handshake::server::{AwaitResponse, Conversation, Finish, Response};
use wire::handshake::{ChangeUser, HandshakeResponse, LOGIN_BYTES_MAX};
use wire::{Capabilities, Status};

use super::client::{Client, Request};
use super::prove::{Proven, Prover, refuse};
use super::statements::ClientStatements;
use super::tracking::TrackWish;
use super::{Identity, Past, Session};
use crate::error::{Refusal, SessionEnd};
use crate::pool::{Key, MEANINGFUL};
use crate::route::Pins;
use crate::sessions::SessionHandle;
use crate::shared::{ListenerShared, Shared};
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
    if let Some(schema) = &login.schema
        && let Err(refusal) = session.enter_schema(schema).await
    {
        return Err(refuse(&mut session.client.stream, proven.finish, &refusal).await);
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
        let _ = handle.cluster.set(cluster.shared.name.clone());
        let catalog = cluster.catalog();
        let family = if flavour.mariadb { Family::MariaDb } else { Family::MySql };
        let dialect = Dialect { family, version: flavour.number, modes: Modes::empty(), encoding: Encoding::AsciiSafe };
        let state = Arc::new(StateMap::after_login(&catalog, login.collation, None));
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
        if let Some(schema) = &change.schema
            && let Err(refusal) = self.enter_schema(schema).await
        {
            return Err(refuse(&mut self.client.stream, proven.finish, &refusal).await);
        }
        self.login_state = self.state.clone();
        self.status = self.status_at_rest();
        self.accept(proven.finish).await
    }
}

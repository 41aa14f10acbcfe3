//! A client logs in: greeting, TLS, proof of the password, the schema it asks for. COM_CHANGE_USER is the same on a connection
//! that lives.

mod address;
mod arrival;
mod change_user;
mod identity;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::ClientCompression;
use facts::view::Flavour;
use net::Stream;
use net::packets::ReadError;
use net::stream::Keepalive;
use sql::Family;
use tokio::io::AsyncWriteExt;
use wire::auth::Plugin;
use wire::compress::{Compression, Side};
use wire::greeting::Greeting;
use wire::handshake::server::{AwaitResponse, Conversation, Response};
use wire::handshake::{CLIENT_LOGIN_BYTES_MAX, HandshakeResponse};
use wire::{Capabilities, Status, errno};

use super::Session;
use super::begin::Beginning;
use super::client::Client;
use super::environment::Environment;
use super::event::LoginTried;
use super::prove::{Proven, Prover, refuse};
use super::who::{LoginFacts, Who};
use crate::addresses::FromAddress;
use crate::error::{Refusal, SessionEnd};
use crate::login_memory::{LoginShare, TLS_BYTES};
use crate::pool::{MEANINGFUL, ON_DEMAND};
use crate::sessions::SessionHandle;
use crate::shared::ListenerShared;
use crate::worker::{ClusterHere, Worker};
pub use identity::UserSession;
use identity::identify;
use route::state::StateMap;

/// The capabilities that clients are offered, as far as the servers have them too.
const OFFERED: Capabilities = MEANINGFUL
    .union(ON_DEMAND)
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
    .union(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS)
    .union(Capabilities::SESSION_TRACK)
    // Servers offer them and clients never send them.
    .union(Capabilities::SSL_VERIFY_SERVER_CERT)
    .union(Capabilities::REMEMBER_OPTIONS);

/// How long the first clients wait for the servers' dictionaries; at most a quarter of the time for a login.
const CATALOG_WAIT: Duration = Duration::from_secs(3);

/// How long a login, or a reset, waits for defaults that were changed a moment ago. Before the greeting at most an eighth of the
/// time for a login.
pub(super) const FRESH_CATALOG_WAIT: Duration = Duration::from_secs(1);

/// A client on its way in.
struct OngoingLogin {
    worker: Rc<Worker>,
    cluster: Rc<ClusterHere>,
    listener: Arc<ListenerShared>,
    handle: Arc<SessionHandle>,
    stream: Stream,
    /// Of the certificate that the client saw.
    fingerprint: Option<[u8; 32]>,
    /// The client's share of the memory for logins, until it has logged in.
    memory: LoginShare,
    /// Counts as a connection of its address, once that is known.
    from: Option<FromAddress>,
}

/// Lets a client in. `tried` gets the client's user, schema and attributes on the way.
pub(super) async fn log_in(
    worker: Rc<Worker>,
    stream: Stream,
    listener: Arc<ListenerShared>,
    handle: Arc<SessionHandle>,
    memory: LoginShare,
    tried: &mut LoginTried,
) -> Result<(Session, Option<FromAddress>), SessionEnd> {
    stream.set_nodelay().map_err(SessionEnd::ClientLost)?;
    let settings = listener.settings.load_full();
    let keepalive = Keepalive::after(settings.keepalive, settings.user_timeout);
    stream.set_keepalive(&keepalive).map_err(SessionEnd::ClientLost)?;
    let cluster = worker.cluster(&listener.cluster);
    let mut ongoing = OngoingLogin { worker, cluster, listener, handle, stream, fingerprint: None, memory, from: None };
    if !ongoing.may_announce() {
        ongoing.count_address(0).await?;
    }
    ongoing.take_required_header().await?;
    let flavour = ongoing.flavour().await?;
    let greeting = ongoing.greeting(&flavour)?;
    let (login, conversation) = match ongoing.greet(&greeting).await {
        Ok(greeted) => greeted,
        Err(end) => {
            ongoing.worker.leavers.turn().await;
            return Err(end);
        }
    };
    tried.names(&login.user, login.schema.as_deref(), ongoing.fingerprint.is_some());
    let (shared, handle) = (ongoing.worker.shared.clone(), ongoing.handle.clone());
    let name = ongoing.cluster.shared.name.clone();
    let came = let_in(ongoing, &greeting, &flavour, &login, conversation).await;
    if let Err(SessionEnd::LoginRefused(why)) = &came {
        shared.login_log.refused(&name, &handle.client(), &login.user, &why.message);
    }
    came
}

/// The client has said who it is.
async fn let_in(
    mut ongoing: OngoingLogin,
    greeting: &Greeting,
    flavour: &Flavour,
    login: &HandshakeResponse,
    conversation: Conversation,
) -> Result<(Session, Option<FromAddress>), SessionEnd> {
    let proven = match ongoing.prove(conversation, &login.user, login.plugin.as_deref(), &login.auth_response).await {
        Ok(proven) => proven,
        Err(end) => return Err(end),
    };
    let mut from = ongoing.from.take();
    if let Some(refusal) = from.as_mut().and_then(|from| ongoing.counts_as_session(from)) {
        return Err(refuse(&mut ongoing.stream, proven.finish, &refusal).await);
    }
    let mut session = match ongoing.make_session(greeting, flavour, login, &proven) {
        Ok(session) => session,
        Err((mut stream, refusal)) => return Err(refuse(&mut stream, proven.finish, &refusal).await),
    };
    session.find_account_change();
    if let Err(refusal) = session.enter(login.schema.as_deref(), proven.expired).await {
        return Err(refuse(&mut session.client.stream, proven.finish, &refusal).await);
    }
    session.belief.status = session.belief.status_at_rest();
    session.accept(proven).await?;
    if let Some(compression) = Compression::agreed(session.client.capabilities, login.zstd_level) {
        let plain = std::mem::replace(&mut session.client.stream, placeholder()?);
        session.client.stream = plain.compressed(compression, Side::Server);
    }
    Ok((session, from))
}

fn unread(error: ReadError) -> SessionEnd {
    match error {
        ReadError::Io(error) => SessionEnd::ClientLost(error),
        ReadError::Closed => SessionEnd::ClientLeft,
        error => SessionEnd::ClientMisbehaved(error.to_string()),
    }
}

impl OngoingLogin {
    /// The flavour of the cluster's servers; waited for, since a greeting must fit them. Their dictionaries are read a moment
    /// later, and give the character sets that the session begins with: they are waited for too, but not for long. A part of the
    /// time for a login is left in each case: for the greeting, or for the error that says why there is none.
    async fn flavour(&mut self) -> Result<Arc<Flavour>, SessionEnd> {
        let (limit, in_all) = {
            let settings = self.listener.settings.load();
            (settings.hold.min(settings.login_timeout * 3 / 4), settings.login_timeout)
        };
        let begun = tokio::time::Instant::now();
        let deadline = begun + limit;
        loop {
            let changed = self.cluster.changed.notified();
            if let Some(flavour) = &self.cluster.view().flavour {
                let left = CATALOG_WAIT.min(limit).min(in_all / 4).saturating_sub(begun.elapsed());
                if self.cluster.catalog().number > 0 || left.is_zero() {
                    self.cluster.fresh_catalog(FRESH_CATALOG_WAIT.min(in_all / 8)).await;
                    return Ok(flavour.clone());
                }
                // The next round looks at the result.
                let _ = tokio::time::timeout(left, changed).await;
                continue;
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                let name = &self.cluster.shared.name;
                let why = match self.cluster.view().monitor_denied {
                    true => format!("access denied for the monitor on the servers of cluster '{name}'"),
                    false => format!("no server of cluster '{name}' has answered yet"),
                };
                let refusal = Refusal::no_server("server", limit, &why);
                self.tell(0, &refusal).await;
                return Err(SessionEnd::LoginRefused(refusal));
            }
        }
    }

    fn greeting(&self, flavour: &Flavour) -> Result<Greeting, SessionEnd> {
        let settings = self.listener.settings.load();
        let mut status = Status::empty();
        status.set(Status::AUTOCOMMIT, StateMap::default().autocommit(&self.cluster.catalog()));
        let mut capabilities = OFFERED & Capabilities::from_bits_retain(flavour.capabilities);
        capabilities.set(Capabilities::LONG_PASSWORD, !flavour.mariadb);
        capabilities.set(Capabilities::TLS, self.listener.tls.load().is_some() && !self.stream.is_secure());
        if !settings.local_infile {
            capabilities.remove(Capabilities::LOCAL_FILES);
        }
        let offered = |algorithm| [algorithm, ClientCompression::All].contains(&settings.compression);
        capabilities.set(Capabilities::COMPRESS, offered(ClientCompression::Zlib));
        // Clients have no reason to expect capabilities that the servers would never offer.
        capabilities.set(Capabilities::ZSTD_COMPRESSION, offered(ClientCompression::Zstd) && !flavour.mariadb);
        let plugin = match Plugin::from_name(flavour.auth_plugin.as_bytes()) {
            Some(Plugin::CachingSha2) => Plugin::CachingSha2,
            // All clients that know MariaDB know it, and MySQL's own name another.
            _ => Plugin::Native,
        };
        let scramble = wire::auth::new_scramble()
            .map_err(|error| SessionEnd::LoginRefused(Refusal::own(errno::ER_HANDSHAKE_ERROR, b"08S01", error)))?;
        Ok(Greeting {
            server_version: settings.server_version.as_ref().unwrap_or(&flavour.greeting_version).to_string(),
            connection_id: self.handle.id,
            scramble,
            capabilities,
            collation: flavour.collation,
            status,
            plugin: plugin.name().into(),
        })
    }

    /// Greets, and takes the client's login, through TLS if the client wants that.
    async fn greet(&mut self, greeting: &Greeting) -> Result<(Box<HandshakeResponse>, Conversation), SessionEnd> {
        let mut out = Vec::new();
        let mut awaiting = AwaitResponse::greet(greeting, self.stream.channel(), &mut out);
        self.stream.write_all(&out).await.map_err(SessionEnd::ClientLost)?;
        let mut packet = match self.first_packet().await {
            Ok(packet) => packet,
            Err(end) => return Err(end),
        };
        if self.from.is_none() {
            self.count_address(packet.sequence.wrapping_add(1)).await?;
        }
        loop {
            match awaiting.handle(packet.received()) {
                Ok(Response::Login(login, conversation)) => return Ok((login, conversation)),
                Ok(Response::Tls(tls)) => {
                    self.start_tls().await?;
                    awaiting = tls.secured();
                    packet = self.read().await?;
                }
                Err(error) => {
                    let refusal =
                        Refusal::own(errno::ER_HANDSHAKE_ERROR, b"08S01", format_args!("bad handshake: {error}"));
                    self.tell(packet.sequence.wrapping_add(1), &refusal).await;
                    return Err(SessionEnd::ClientMisbehaved(error.to_string()));
                }
            }
        }
    }

    async fn start_tls(&mut self) -> Result<(), SessionEnd> {
        let tls = self.listener.tls.load_full();
        let Some(tls) = &*tls else { return Err(SessionEnd::ClientMisbehaved("TLS is not offered".into())) };
        self.memory.grow(TLS_BYTES).await;
        // The placeholder is never used: either TLS takes its place, or the session ends.
        let plain = std::mem::replace(&mut self.stream, placeholder()?);
        self.stream = tls.accept(plain).await.map_err(SessionEnd::ClientLost)?;
        self.fingerprint = Some(tls.fingerprint());
        Ok(())
    }

    async fn read(&mut self) -> Result<net::packets::Packet, SessionEnd> {
        let header = net::packets::header(&mut self.stream).await.map_err(unread)?;
        self.read_behind(header).await
    }

    /// Reads a packet whose header was read, once there is memory for it.
    async fn read_behind(&mut self, header: wire::packet::Header) -> Result<net::packets::Packet, SessionEnd> {
        self.memory.grow_for_packet(header.length.min(CLIENT_LOGIN_BYTES_MAX)).await;
        match net::packets::read_behind(&mut self.stream, header, CLIENT_LOGIN_BYTES_MAX).await {
            Err(ReadError::TooLong { limit }) => {
                let why = format_args!("bad handshake: the login is longer than {limit} bytes");
                self.tell(header.sequence.wrapping_add(1), &Refusal::own(errno::ER_HANDSHAKE_ERROR, b"08S01", why))
                    .await;
                Err(unread(ReadError::TooLong { limit }))
            }
            read => read.map_err(unread),
        }
    }

    /// Tells the client why it is not let in. Whether that is heard changes nothing.
    async fn tell(&mut self, sequence: u8, refusal: &Refusal) {
        let mut out = Vec::new();
        let begun = wire::packet::begin(&mut out);
        refusal.as_packet().write(&mut out);
        begun.end(&mut out, sequence);
        let _ = self.stream.write_all(&out).await;
    }

    async fn prove(
        &mut self,
        conversation: Conversation,
        user: &[u8],
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> Result<Proven, SessionEnd> {
        let mut prover = Prover {
            worker: &self.worker,
            cluster: &self.cluster,
            listener: &self.listener,
            handle: &self.handle,
            stream: &mut self.stream,
            speaks_native: false,
            memory: Some(&mut self.memory),
            was_denied: Cell::default(),
        };
        prover.prove(conversation, user, plugin, answer).await
    }

    #[allow(clippy::result_large_err)] // The stream goes back to the caller, who says goodbye on it.
    fn make_session(
        self,
        greeting: &Greeting,
        flavour: &Flavour,
        login: &HandshakeResponse,
        proven: &Proven,
    ) -> Result<Session, (Stream, Refusal)> {
        let OngoingLogin { worker, cluster, listener, handle, stream, fingerprint, .. } = self;
        let mut identity =
            match identify(&worker, &cluster, &listener, &handle, proven, (login.capabilities, login.collation)) {
                Ok(identity) => identity,
                Err(refusal) => return Err((stream, refusal)),
            };
        identity.describe(&login.attributes);
        let catalog = cluster.catalog();
        let ignore_space = login.capabilities.contains(Capabilities::IGNORE_SPACE);
        let statement_time = cluster.shared.statement_time(&identity.user, handle.client_ip());
        let state = StateMap::of_session(&catalog, login.collation, None)
            .ignoring_space(ignore_space, &catalog)
            .with_statement_time(statement_time.as_deref());
        let facts = LoginFacts {
            scramble: greeting.scramble,
            fingerprint,
            speaks_native: login.plugin.as_deref().is_none_or(|name| name == Plugin::Native.name().as_bytes()),
            refused_changes: 0,
        };
        let env = Environment::new(worker, listener, handle);
        let beginning = Beginning {
            client: Client::new(stream, login.capabilities, env.counted()),
            env,
            cluster,
            who: Who { identity, login: facts, client: None, numbers: Cell::default() },
            state: Arc::new(state),
        };
        Ok(Session::begin(beginning, flavour))
    }
}

/// A stream that leads nowhere, to stand where one is taken out.
fn placeholder() -> Result<Stream, SessionEnd> {
    let (one, _) = std::os::unix::net::UnixStream::pair().map_err(SessionEnd::ClientLost)?;
    Stream::attach(one.into()).map_err(SessionEnd::ClientLost)
}

impl Session {
    /// Enters the schema that the client asked for. With an expired password a server says whether the client may come in,
    /// and the session keeps that connection.
    async fn enter(&mut self, schema: Option<&[u8]>, expired: bool) -> Result<(), Refusal> {
        let entered = match schema {
            Some(schema) if !expired => self.enter_schema(schema).await,
            _ if expired => self.enter_sandbox(schema).await,
            _ => self.enter_none().await,
        };
        // Servers let the client in when `init_connect` fails, and tell it behind its first command.
        entered.or_else(|refusal| match refusal.code {
            errno::ER_NEW_ABORTING_CONNECTION => Ok(()),
            _ => Err(refusal),
        })
    }

    async fn accept(&mut self, proven: Proven) -> Result<(), SessionEnd> {
        let mut payload = Vec::new();
        // Clients of MariaDB trust a certificate without a known authority if the server proves to know their password.
        let info = match (proven.certificate_hash, &self.who.login.fingerprint) {
            (Some(hash), Some(fingerprint)) if self.belief.facts().dialect.family == Family::MariaDb => {
                wire::auth::certificate_proof(&hash, &self.who.login.scramble, fingerprint)
            }
            _ => Vec::new(),
        };
        let reported = self.belief.tracking.beginning(self.belief.state.schema());
        let ok = wire::reply::Ok {
            status: self.belief.status,
            info: &info,
            session_state: &reported,
            ..wire::reply::Ok::default()
        };
        ok.write(&mut payload, wire::reply::OK, self.client.capabilities);
        let mut out = Vec::new();
        proven.finish.accept(&payload, &mut out);
        self.client.put(&out);
        self.client.flush().await.map_err(SessionEnd::ClientLost)
    }
}

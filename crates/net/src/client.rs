//! Connecting and logging in to a server.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};
use wire::auth::Scramble;
use wire::compress::{Algorithm, Compression, Side};
use wire::greeting::Greeting;
use wire::handshake::client::{AwaitAuth, AwaitGreeting, Done, Greeted, LoginRequest, Ready, Step};
use wire::handshake::{Channel, HandshakeError, LOGIN_BYTES_MAX, ServerError};
use wire::{Capabilities, errno};

use crate::packets::{self, Packet, ReadError};
use crate::stream::Keepalive;
use crate::tls::ClientTls;
use crate::trust::Trust;
use crate::{Address, Stream, announce, dial};

/// Where to connect to, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server's address.
    pub address: Address,
    /// Time for all of it: name, connection, TLS and login.
    pub timeout: Duration,
    /// TLS; local sockets go without, whatever it says.
    pub tls: ClientTls,
    /// How a vanished server is noticed.
    pub keepalive: Keepalive,
    /// The compressed protocol, if the server has it.
    pub compression: Option<Algorithm>,
    /// A PROXY header ahead of all else.
    pub announce: Option<Announce>,
}

/// For whom a connection to a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announce {
    /// The form of the header.
    pub version: wire::proxy_header::Version,
    /// The client's address; `None` is Sqluice itself, or a client on a local socket.
    pub client: Option<SocketAddr>,
}

impl Target {
    /// A target without TLS, with the usual probes.
    pub fn plain(address: Address, timeout: Duration) -> Target {
        Target {
            address,
            timeout,
            tls: ClientTls::disabled(),
            keepalive: Keepalive::default(),
            compression: None,
            announce: None,
        }
    }
}

/// A connection in its command phase. The server has said nothing yet that is not here.
#[derive(Debug)]
pub struct Connected {
    /// The connection.
    pub stream: Stream,
    /// The server's greeting.
    pub greeting: Greeting,
    /// The capabilities of both sides.
    pub capabilities: Capabilities,
    /// The last challenge that the server sent: a COM_CHANGE_USER answers this one.
    pub scramble: Scramble,
    /// The payload of the OK that ended the login; it may tell the session's state.
    pub ok_payload: Vec<u8>,
}

/// Where on the way to a server something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Finding the address of a name.
    Resolve,
    /// Connecting the socket.
    Connect,
    /// Waiting for the server's first packet.
    Greeting,
    /// The TLS handshake.
    Tls,
    /// Proving who we are.
    Login,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Resolve => "resolving the name",
            Phase::Connect => "connecting",
            Phase::Greeting => "waiting for the greeting",
            Phase::Tls => "starting TLS",
            Phase::Login => "logging in",
        })
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {phase}: {cause}")]
pub struct ConnectError {
    /// The server.
    pub address: Address,
    /// How far it went.
    pub phase: Phase,
    /// The cause.
    #[source]
    pub cause: Cause,
}

/// An error on the way to a server.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The network or the system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The target's time was over.
    #[error("no success within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The server said no.
    #[error("the server says: {0}")]
    Server(ServerError),
    /// TLS is required and the server has none.
    #[error("the server has no TLS, which is required")]
    NoTls,
    /// The server cannot be talked to, or wants what we refuse.
    #[error(transparent)]
    Protocol(HandshakeError),
}

impl ConnectError {
    /// The server's own words, if it had a say.
    pub fn server_error(&self) -> Option<&ServerError> {
        match &self.cause {
            Cause::Server(error) => Some(error),
            _ => None,
        }
    }
}

impl From<HandshakeError> for Cause {
    fn from(error: HandshakeError) -> Cause {
        match error {
            HandshakeError::Refused(error) => Cause::Server(error),
            other => Cause::Protocol(other),
        }
    }
}

impl From<ReadError> for Cause {
    fn from(error: ReadError) -> Cause {
        match error {
            ReadError::Io(error) => Cause::Io(error),
            ReadError::Closed => io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string()).into(),
            ReadError::TooLong { .. } | ReadError::OutOfOrder => {
                io::Error::new(io::ErrorKind::InvalidData, error.to_string()).into()
            }
        }
    }
}

/// Connects and logs in.
///
/// # Errors
/// See [`ConnectError`]. A socket that was opened is closed.
pub async fn connect(target: &Target, login: LoginRequest) -> Result<Connected, ConnectError> {
    let attempt = ConnectAttempt { target, deadline: Instant::now() + target.timeout };
    let login = with_compression(login, target.compression);
    let mut stream = attempt.open().await?;
    if let Some(announce) = &target.announce {
        attempt.step(Phase::Connect, async { Ok(announce::send(&mut stream, announce).await?) }).await?;
    }
    let greeted = attempt.step(Phase::Greeting, greeting(&mut stream)).await?;
    let (stream, mut ready) = attempt.secure(stream, greeted, &login).await?;
    let trust = Trust::of(&stream, target);
    if trust.distrusts() {
        ready = ready.distrusted();
    }
    let login = trust.for_login(login);
    attempt.step(Phase::Login, log_in(stream, ready, login, &trust)).await
}

fn with_compression(mut login: LoginRequest, compression: Option<Algorithm>) -> LoginRequest {
    login.capabilities -= Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION;
    login.capabilities |= match compression {
        Some(Algorithm::Zlib) => Capabilities::COMPRESS,
        Some(Algorithm::Zstd) => Capabilities::ZSTD_COMPRESSION,
        None => Capabilities::empty(),
    };
    login
}

/// One attempt, with its one deadline.
struct ConnectAttempt<'a> {
    target: &'a Target,
    deadline: Instant,
}

impl ConnectAttempt<'_> {
    async fn step<T>(&self, phase: Phase, work: impl Future<Output = Result<T, Cause>>) -> Result<T, ConnectError> {
        let result = timeout_at(self.deadline, work).await.unwrap_or(Err(Cause::Timeout(self.target.timeout)));
        result.map_err(|cause| ConnectError { address: self.target.address.clone(), phase, cause })
    }

    async fn open(&self) -> Result<Stream, ConnectError> {
        let (host, port) = match &self.target.address {
            Address::Unix(path) => {
                return self.step(Phase::Connect, async { Ok(UnixStream::connect(path).await?.into()) }).await;
            }
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        // Names are looked up for each connection: an address that has moved is found with the next one.
        let resolve = async { Ok(tokio::net::lookup_host((host, port)).await?.collect::<Vec<_>>()) };
        let addresses = self.step(Phase::Resolve, resolve).await?;
        let open = async {
            let stream = Stream::from(dial::connect(addresses.into_iter()).await?);
            stream.set_nodelay()?;
            stream.set_keepalive(&self.target.keepalive)?;
            Ok(stream)
        };
        self.step(Phase::Connect, open).await
    }

    async fn secure(
        &self,
        mut stream: Stream,
        greeted: Greeted,
        login: &LoginRequest,
    ) -> Result<(Stream, Ready), ConnectError> {
        let tls = &self.target.tls;
        let channel = stream.channel();
        if channel == Channel::Secure || !tls.is_wanted() || (!greeted.offers_tls() && !tls.is_required()) {
            return Ok((stream, greeted.plain(channel)));
        }
        let host = match &self.target.address {
            Address::Tcp { host, .. } => host.as_str(),
            Address::Unix(_) => "localhost",
        };
        let start = async {
            if !greeted.offers_tls() {
                return Err(Cause::NoTls);
            }
            let mut out = Vec::new();
            let start = greeted.request_tls(login, &mut out)?;
            stream.write_all(&out).await?;
            let Stream::Plain(tcp) = stream else {
                return Err(io::Error::from(io::ErrorKind::Unsupported).into());
            };
            Ok((tls.connect(tcp, host).await?, start.secured()))
        };
        self.step(Phase::Tls, start).await
    }
}

async fn greeting(stream: &mut Stream) -> Result<Greeted, Cause> {
    let packet = packets::read(stream, LOGIN_BYTES_MAX).await?;
    Ok(AwaitGreeting.handle(packet.received())?)
}

/// The parts of a connection's login that a later COM_CHANGE_USER on it needs.
#[derive(Debug)]
pub struct LoginSeen {
    greeting: Greeting,
    capabilities: Capabilities,
    scramble: Scramble,
}

impl LoginSeen {
    /// Of a connection that has just logged in.
    pub fn of(connected: &Connected) -> LoginSeen {
        let Connected { greeting, capabilities, scramble, .. } = connected;
        LoginSeen { greeting: greeting.clone(), capabilities: *capabilities, scramble: *scramble }
    }

    /// The last challenge that the server sent.
    pub fn scramble(&self) -> Scramble {
        self.scramble
    }
}

/// COM_CHANGE_USER: logs in anew on a connection in its command phase. The server reads the account, its rights and its
/// roles again, and forgets the session. `ahead` is sent in the same write as a COM_QUERY, if it is not empty; whether that one succeeds
/// does not matter, and it must have no rows.
///
/// # Errors
/// See [`ConnectError`]. The connection is of no use afterwards.
pub async fn log_in_again(
    stream: &mut Stream,
    seen: &mut LoginSeen,
    target: &Target,
    login: LoginRequest,
    ahead: &str,
) -> Result<(), ConnectError> {
    let attempt = ConnectAttempt { target, deadline: Instant::now() + target.timeout };
    let mut out = zeroize::Zeroizing::new(Vec::new());
    let trust = Trust::of(stream, target);
    let login = trust.for_login(login);
    let channel = if trust.distrusts() { Channel::Open } else { stream.channel() };
    let greeting = seen.greeting.clone();
    if !ahead.is_empty() {
        let begun = wire::packet::begin(&mut out);
        wire::command::begin_query(&mut out, seen.capabilities);
        out.extend_from_slice(ahead.as_bytes());
        begun.end(&mut out, 0);
    }
    let awaiting =
        wire::handshake::client::change_user(greeting, seen.capabilities, seen.scramble, channel, login, &mut out);
    let work = async {
        stream.write_all(&out).await?;
        out.clear();
        if !ahead.is_empty() {
            stream.flush().await?;
            packets::read(stream, LOGIN_BYTES_MAX).await?;
        }
        converse(stream, awaiting, out).await
    };
    let done = attempt.step(Phase::Login, work).await?;
    trust.note(done.rsa_key);
    seen.scramble = done.scramble;
    Ok(())
}

/// COM_RESET_CONNECTION: takes back all that was done on a connection since its login.
///
/// # Errors
/// The server says no, or is gone.
pub async fn reset(stream: &mut Stream, target: &Target) -> Result<(), ConnectError> {
    let attempt = ConnectAttempt { target, deadline: Instant::now() + target.timeout };
    let mut out = Vec::new();
    wire::packet::append(&mut out, 0, &[wire::command::Command::ResetConnection.byte()]);
    let work = async {
        stream.write_all(&out).await?;
        stream.flush().await?;
        let reply = packets::read(stream, LOGIN_BYTES_MAX).await?;
        match ServerError::parse(&reply.payload) {
            // An expired password must be changed first; nothing else was done.
            Ok(error) if error.code != errno::ER_MUST_CHANGE_PASSWORD => Err(Cause::Server(error)),
            _ => Ok(()),
        }
    };
    attempt.step(Phase::Login, work).await
}

async fn log_in(mut stream: Stream, ready: Ready, login: LoginRequest, trust: &Trust<'_>) -> Result<Connected, Cause> {
    let mut out = zeroize::Zeroizing::new(Vec::new());
    let awaiting = ready.log_in(login, &mut out);
    let Done { greeting, capabilities, scramble, rsa_key, ok_payload } = converse(&mut stream, awaiting, out).await?;
    trust.note(rsa_key);
    let stream = match Compression::agreed(capabilities, None) {
        Some(compression) => stream.compressed(compression, Side::Client),
        None => stream,
    };
    Ok(Connected { stream, greeting, capabilities, scramble, ok_payload })
}

/// Sends what is due and answers what the server asks, until it says OK.
async fn converse(
    stream: &mut Stream,
    mut awaiting: AwaitAuth,
    mut out: zeroize::Zeroizing<Vec<u8>>,
) -> Result<Done, Cause> {
    loop {
        stream.write_all(&out).await?;
        stream.flush().await?;
        out.clear();
        let packet: Packet = packets::read(stream, LOGIN_BYTES_MAX).await?;
        let step;
        if awaiting.is_heavy() {
            // The other connections of this thread do not wait for it.
            let work = move || (awaiting.handle(packet.received(), &mut out), out);
            (step, out) = tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?;
        } else {
            step = awaiting.handle(packet.received(), &mut out);
        }
        match step? {
            Step::Await(next) => awaiting = next,
            Step::Done(done) => return Ok(done),
        }
    }
}

//! A small client: one command at a time, whole replies in memory, everything limited.
//!
//! For the monitor, the lab and the tests. After a failure that is not the server's own error the connection's state is
//! unknown: every later call says [`QueryError::Broken`].

use std::future::Future;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use wire::auth::{Credential, Scramble};
use wire::command::Command;
use wire::greeting::Greeting;
use wire::handshake::ServerError;
use wire::handshake::client::{self, Done, LoginRequest, RsaPolicy, Step};
use wire::handshake::{HandshakeError, LOGIN_BYTES_MAX};
use wire::{Capabilities, Status};

use crate::Stream;
use crate::client::{ConnectError, Connected, Target};

mod reply;
mod result;
mod statement;
mod transport;

pub use result::{Column, ResultSet, Row};
pub use statement::{Parameter, Statement};

/// The capabilities that this client can work with.
pub const CAPABILITIES: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF);

/// Collation `utf8mb4_general_ci`.
pub const COLLATION_DEFAULT: u16 = 45;

/// A login as this client does it: UTF-8, no schema; fields may be changed before use.
pub fn login(user: &str, credential: Credential) -> LoginRequest {
    LoginRequest {
        user: user.into(),
        credential,
        schema: None,
        capabilities: CAPABILITIES,
        collation: COLLATION_DEFAULT,
        packet_bytes_max: 16 * 1024 * 1024,
        attributes: [("program_name", "sqluice")].into_iter().collect(),
        rsa: RsaPolicy::AskServer,
    }
}

/// Limits of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All packets of a reply together, in bytes.
    pub reply_bytes_max: usize,
    /// Time from sending a command to the end of its reply.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { reply_bytes_max: 64 * 1024 * 1024, timeout: Duration::from_secs(30) }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The server's error; the connection goes on.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The connection broke.
    #[error("connection lost: {0}")]
    Io(#[from] std::io::Error),
    /// The reply was not over in time.
    #[error("no reply within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The reply was larger than allowed.
    #[error("the reply is larger than {0} bytes")]
    TooLarge(usize),
    /// The reply cannot be read.
    #[error(transparent)]
    Malformed(#[from] wire::codec::Malformed),
    /// COM_CHANGE_USER failed other than by the server's refusal.
    #[error(transparent)]
    Handshake(HandshakeError),
    /// The statement takes another number of parameters.
    #[error("the statement has {expected} parameters, {given} were given")]
    Parameters {
        /// The number of parameters in the server's reply to the preparation.
        expected: u16,
        /// The number of the caller's values.
        given: usize,
    },
    /// An earlier command failed or was cancelled halfway.
    #[error("the connection is not usable any more")]
    Broken,
}

impl QueryError {
    /// The server's error, if it is one.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            QueryError::Server(error) | QueryError::Handshake(HandshakeError::Refused(error)) => Some(error),
            _ => None,
        }
    }

    /// The server's error number, if it is the server's error.
    pub fn code(&self) -> Option<u16> {
        self.server_error().map(|error| error.code)
    }
}

/// A connection to a server that is asked one thing at a time.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    greeting: Greeting,
    capabilities: Capabilities,
    scramble: Scramble,
    status: Status,
    limits: Limits,
    buffer: Vec<u8>,
    /// Bytes that the running reply may still have.
    reply_bytes_left: usize,
    /// A command is running, or one was left halfway.
    busy: bool,
}

impl Client {
    /// Connects and logs in.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(target: &Target, login: LoginRequest, limits: Limits) -> Result<Client, ConnectError> {
        Ok(Client::new(crate::client::connect(target, login).await?, limits))
    }

    /// Takes a connection over that is in its command phase.
    pub fn new(connected: Connected, limits: Limits) -> Client {
        let Connected { stream, greeting, capabilities, scramble, ok_payload } = connected;
        let status = wire::reply::Ok::parse(&ok_payload, capabilities).map(|ok| ok.status).unwrap_or_default();
        let (buffer, busy, reply_bytes_left) = (Vec::new(), false, limits.reply_bytes_max);
        Client { stream, greeting, capabilities, scramble, status, limits, buffer, reply_bytes_left, busy }
    }

    /// The server's greeting.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// The capabilities of both sides.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The status flags of the last reply.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The connection.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Runs SQL text, which may be several statements, and gives all results.
    ///
    /// # Errors
    /// See [`QueryError`]; of several statements the results before the failed one are lost.
    pub async fn query(&mut self, sql: impl AsRef<[u8]>) -> Result<Vec<ResultSet>, QueryError> {
        self.simple(Command::Query, sql.as_ref()).await
    }

    /// Runs SQL text and gives its first result.
    ///
    /// # Errors
    /// See [`Client::query`].
    pub async fn query_one(&mut self, sql: impl AsRef<[u8]>) -> Result<ResultSet, QueryError> {
        Ok(self.query(sql).await?.into_iter().next().unwrap_or_default())
    }

    /// COM_PING.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn ping(&mut self) -> Result<(), QueryError> {
        self.simple(Command::Ping, b"").await.map(drop)
    }

    /// COM_INIT_DB: goes to another schema.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn init_db(&mut self, schema: &str) -> Result<(), QueryError> {
        self.simple(Command::InitDb, schema.as_bytes()).await.map(drop)
    }

    /// COM_RESET_CONNECTION.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn reset_connection(&mut self) -> Result<(), QueryError> {
        self.simple(Command::ResetConnection, b"").await.map(drop)
    }

    /// COM_CHANGE_USER, with the conversation that follows. `login.capabilities` means nothing here.
    ///
    /// # Errors
    /// See [`QueryError`]. After a refusal the connection is broken: servers close it.
    pub async fn change_user(&mut self, login: LoginRequest) -> Result<(), QueryError> {
        self.guarded(async |this| {
            let mut out = zeroize::Zeroizing::new(Vec::new());
            let (greeting, channel) = (this.greeting.clone(), this.stream.channel());
            let mut awaiting =
                client::change_user(greeting, this.capabilities, this.scramble, channel, login, &mut out);
            loop {
                this.stream.write_all(&out).await?;
                this.stream.flush().await?;
                out.clear();
                let (sequence, payload) = this.packet(LOGIN_BYTES_MAX).await?;
                let received = wire::handshake::Received { sequence, payload: &payload };
                // Even the server's own refusal ends the connection here.
                match awaiting.handle(received, &mut out).map_err(QueryError::Handshake)? {
                    Step::Await(next) => awaiting = next,
                    Step::Done(Done { scramble, ok_payload, .. }) => {
                        this.scramble = scramble;
                        this.status = wire::reply::Ok::parse(&ok_payload, this.capabilities)?.status;
                        return Ok(());
                    }
                }
            }
        })
        .await
    }

    /// Says good-bye and closes the connection.
    ///
    /// # Errors
    /// The connection was broken before.
    pub async fn quit(mut self) -> Result<(), QueryError> {
        self.guarded(async |this| {
            this.send(&[Command::Quit.byte()]).await?;
            Ok(this.stream.shutdown().await?)
        })
        .await
    }

    /// Sends any command that has a reply of results or OK, and gives them.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn command(&mut self, payload: &[u8]) -> Result<Vec<ResultSet>, QueryError> {
        self.guarded(async |this| {
            this.send(payload).await?;
            this.results(false).await
        })
        .await
    }

    /// Sends the payload of any command and reads nothing: what comes back is the caller's to read.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send_raw(&mut self, payload: &[u8]) -> Result<(), QueryError> {
        self.guarded(async |this| this.send(payload).await).await
    }

    /// Reads one packet: its sequence number and payload.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn read_raw(&mut self) -> Result<(u8, Vec<u8>), QueryError> {
        self.guarded(async |this| this.packet(this.limits.reply_bytes_max).await).await
    }

    /// Gives the connection back, with bytes that were read but belong to no reply yet.
    pub fn into_parts(self) -> (Stream, Vec<u8>) {
        (self.stream, self.buffer)
    }

    async fn simple(&mut self, command: Command, argument: &[u8]) -> Result<Vec<ResultSet>, QueryError> {
        let mut payload = Vec::with_capacity(1 + argument.len());
        payload.push(command.byte());
        payload.extend_from_slice(argument);
        self.command(&payload).await
    }

    /// Runs one command within its time; afterwards the connection is usable only if the server's reply was read to its
    /// end. A caller that drops the future leaves a broken connection as well.
    async fn guarded<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        if std::mem::replace(&mut self.busy, true) {
            return Err(QueryError::Broken);
        }
        self.reply_bytes_left = self.limits.reply_bytes_max;
        let limit = self.limits.timeout;
        let result = timed(limit, work(self)).await;
        self.busy = !matches!(result, Ok(_) | Err(QueryError::Server(_) | QueryError::Parameters { .. }));
        result
    }
}

async fn timed<T>(limit: Duration, work: impl Future<Output = Result<T, QueryError>>) -> Result<T, QueryError> {
    timeout(limit, work).await.unwrap_or(Err(QueryError::Timeout(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The monitor's runtime may have several threads.
    #[test]
    fn the_client_may_be_used_from_any_thread() {
        fn is_send<T: Send>(_: &T) {}
        fn check(client: &mut Client, target: &Target) {
            let login = || login("n", Credential::Empty);
            is_send(&Client::connect(target, login(), Limits::default()));
            is_send(&client.query("SELECT 1"));
            is_send(&client.change_user(login()));
            is_send(&client.prepare("SELECT 1"));
            is_send(&client.execute(&Statement { id: 1, parameters: 0, columns: 0 }, &[]));
        }
        let _: fn(&mut Client, &Target) = check;
    }
}

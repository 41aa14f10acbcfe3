//! Logging in to the console: a role's name and its key.

use std::sync::Arc;
use std::time::Duration;

use config::Secret;
use net::Stream;
use net::packets;
use tokio::io::AsyncWriteExt;
use wire::auth::{self, Plugin, Scramble, caching_sha2, native};
use wire::greeting::Greeting;
use wire::handshake::server::{AwaitResponse, Conversation, Denial, Finish, Method, Proof, Response, Step};
use wire::handshake::{CLIENT_LOGIN_BYTES_MAX, HandshakeResponse, ServerError};
use wire::{Capabilities, errno, reply};

use crate::keys::Role;
use crate::listener::{SESSIONS_MAX, Seat, Seats};
use crate::plan::schema_named;
use crate::replies::STATUS;
use crate::sources::Settings;
use crate::variables::VERSION;
use crate::views::SCHEMAS;

/// How long a client waits for the refusal of its login, so that guessing takes time.
const REFUSAL_DELAY: Duration = Duration::from_secs(1);
/// Characters of a user's name in the log.
const NAME_CHARS_MAX: usize = 64;

/// A client that has logged in.
pub(crate) struct LoggedIn {
    pub(crate) stream: Stream,
    pub(crate) seat: Seat,
    pub(crate) role: Role,
    pub(crate) schema: &'static str,
    pub(crate) capabilities: Capabilities,
}

/// The parts of a login.
pub(crate) struct Entrance<'a> {
    /// The id of the connection.
    pub(crate) id: u32,
    pub(crate) settings: &'a Settings,
    pub(crate) seats: &'a Arc<Seats>,
}

/// The end of a login that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    #[error(transparent)]
    Read(#[from] packets::ReadError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Handshake(#[from] wire::handshake::HandshakeError),
    #[error(transparent)]
    Crypto(#[from] auth::CryptoError),
    /// User and reason.
    #[error("user '{0}': {1}")]
    Refused(String, String),
}

/// Greets a client and lets it prove its key. It has no limit of time of its own.
///
/// # Errors
/// The client is gone, is no client, or is refused: it has been told.
pub(crate) async fn login(mut stream: Stream, entrance: Entrance<'_>) -> Result<LoggedIn, LoginError> {
    let mut capabilities = OFFERED;
    capabilities.set(Capabilities::TLS, entrance.settings.tls.is_some());
    let greeting = Greeting {
        server_version: VERSION.to_owned(),
        connection_id: entrance.id,
        scramble: auth::new_scramble()?,
        capabilities,
        collation: 45,
        status: STATUS,
        plugin: Plugin::Native.name().to_owned(),
    };
    let mut out = Vec::new();
    let mut awaited = AwaitResponse::greet(&greeting, stream.channel(), &mut out);
    loop {
        flush(&mut stream, &mut out).await?;
        let packet = packets::read(&mut stream, CLIENT_LOGIN_BYTES_MAX).await?;
        match awaited.handle(packet.received()) {
            Ok(Response::Tls(await_tls)) => {
                let unsupported = || std::io::Error::from(std::io::ErrorKind::Unsupported);
                let tls = entrance.settings.tls.as_ref().ok_or_else(unsupported)?;
                stream = tls.accept(stream).await?;
                awaited = await_tls.secured();
            }
            Ok(Response::Login(login, conversation)) => {
                let proving = Proving { stream, entrance, scramble: greeting.scramble };
                return proving.prove(*login, conversation).await;
            }
            Err(error) => {
                let refusal = ServerError {
                    code: errno::ER_HANDSHAKE_ERROR,
                    sqlstate: Some("08S01".into()),
                    message: "Bad handshake".into(),
                };
                crate::replies::send(&mut out, packet.sequence.wrapping_add(1), |payload| refusal.encode(payload));
                flush(&mut stream, &mut out).await?;
                return Err(error.into());
            }
        }
    }
}

const OFFERED: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::FOUND_ROWS)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::ODBC)
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC_DATA);

async fn flush(stream: &mut Stream, out: &mut Vec<u8>) -> std::io::Result<()> {
    stream.write_all(out).await?;
    out.clear();
    stream.flush().await
}

struct Proving<'a> {
    stream: Stream,
    entrance: Entrance<'a>,
    scramble: Scramble,
}

impl Proving<'_> {
    async fn prove(mut self, login: HandshakeResponse, conversation: Conversation) -> Result<LoggedIn, LoginError> {
        let user: String = String::from_utf8_lossy(&login.user).chars().take(NAME_CHARS_MAX).collect();
        if self.entrance.settings.is_tls_required && !self.stream.is_tls() {
            let reason = "no TLS, which admin.tls demands".to_owned();
            return self.refuse(conversation.finish(), Vec::new(), tls_is_required(), user, reason).await;
        }
        let role = Role::of_user(&login.user);
        let key = role.and_then(|role| self.entrance.settings.keys.of_role(role)).cloned();
        let method = method(key.as_ref(), login.plugin.as_deref())?;
        let mut out = Vec::new();
        let mut step = conversation.begin(method, login.plugin.as_deref(), &login.auth_response, &mut out)?;
        let (proof, finish) = loop {
            match step {
                Step::Await(answer) => {
                    flush(&mut self.stream, &mut out).await?;
                    let packet = packets::read(&mut self.stream, CLIENT_LOGIN_BYTES_MAX).await?;
                    step = answer.handle(packet.received(), &mut out)?;
                }
                Step::Proven(proof, finish) => break (Ok(proof), finish),
                Step::Denied(denial, finish) => break (Err(denial), finish),
            }
        };
        let (role, key) = match (role, key, proof) {
            (Some(role), Some(key), Ok(proof)) if is_right(&proof, &key) => (role, key),
            (_, _, proof) => {
                let reason = self.reason(role, proof.err());
                return self
                    .refuse(finish, out, access_denied(&user, !login.auth_response.is_empty()), user, reason)
                    .await;
            }
        };
        let named = login.schema.as_deref().filter(|schema| !schema.is_empty());
        let schema = match named.map(|schema| schema_named(&String::from_utf8_lossy(schema))).transpose() {
            Ok(schema) => schema.unwrap_or(SCHEMAS[0]),
            Err(error) => {
                let refusal =
                    ServerError { code: error.code, sqlstate: Some("42000".into()), message: error.text.clone() };
                return self.refuse(finish, out, refusal, user, error.text).await;
            }
        };
        let Some(seat) = self.entrance.seats.take(self.entrance.id, role) else {
            let text = format!("Too many connections: the SQL console has {SESSIONS_MAX} sessions");
            let code = errno::ER_CON_COUNT_ERROR;
            let refusal = ServerError { code, sqlstate: Some("08004".into()), message: text.clone() };
            return self.refuse(finish, out, refusal, user, text).await;
        };
        let info = self.certificate_proof(&key, login.plugin.as_deref());
        let mut payload = Vec::new();
        reply::Ok { status: STATUS, info: &info, ..reply::Ok::default() }.write(
            &mut payload,
            reply::OK,
            login.capabilities,
        );
        finish.accept(&payload, &mut out);
        flush(&mut self.stream, &mut out).await?;
        Ok(LoggedIn { stream: self.stream, seat, role, schema, capabilities: login.capabilities })
    }

    /// Clients of MariaDB trust a certificate that nobody has signed if the server proves to know their password.
    fn certificate_proof(&self, key: &Secret, plugin: Option<&[u8]>) -> Vec<u8> {
        match self
            .entrance
            .settings
            .tls
            .as_ref()
            .filter(|_| self.stream.is_tls() && plugin == Some(Plugin::Native.name().as_bytes()))
        {
            Some(tls) => {
                let hash = native::stage2(&native::stage1(key.expose()));
                auth::certificate_proof(&hash, &self.scramble, &tls.fingerprint())
            }
            None => Vec::new(),
        }
    }

    /// The reason of a refusal, for the log: the client learns none.
    fn reason(&self, role: Option<Role>, denial: Option<Denial>) -> String {
        match role {
            _ if !self.entrance.settings.keys.are_given() => "the console is closed: no key is set".into(),
            None => "there is no such user: the users are admin, operate and view".into(),
            Some(role) if self.entrance.settings.keys.of_role(role).is_none() => format!("the role {role} has no key"),
            Some(_) => denial.map_or_else(|| "wrong key".into(), |denial| denial.to_string()),
        }
    }

    async fn refuse<T>(
        mut self,
        finish: Finish,
        mut out: Vec<u8>,
        refusal: ServerError,
        user: String,
        reason: String,
    ) -> Result<T, LoginError> {
        tokio::time::sleep(REFUSAL_DELAY).await;
        finish.refuse(&refusal, &mut out);
        flush(&mut self.stream, &mut out).await?;
        Err(LoginError::Refused(user, reason))
    }
}

fn tls_is_required() -> ServerError {
    ServerError {
        code: errno::ER_SECURE_TRANSPORT_REQUIRED,
        sqlstate: Some("HY000".into()),
        message: "Connections using insecure transport are prohibited: the SQL console demands TLS".into(),
    }
}

fn access_denied(user: &str, has_password: bool) -> ServerError {
    let using = if has_password { "YES" } else { "NO" };
    ServerError {
        code: errno::ER_ACCESS_DENIED_ERROR,
        sqlstate: Some("28000".into()),
        message: format!("Access denied for user '{user}' (using password: {using})"),
    }
}

/// How the key is proven, by the client's plugin. Without a key the client goes the same way in vain.
fn method(key: Option<&Secret>, plugin: Option<&[u8]>) -> Result<Method, auth::CryptoError> {
    // Nobody knows a text of twenty random bytes.
    let nobodys = auth::new_scramble()?;
    let key = key.map_or(&nobodys[..], Secret::expose);
    Ok(match plugin.and_then(Plugin::from_name) {
        Some(Plugin::CachingSha2) => {
            Method::CachingSha2 { remembered: Some(caching_sha2::stage2(&caching_sha2::stage1(key))), rsa: None }
        }
        _ => Method::Native { stage2: native::stage2(&native::stage1(key)) },
    })
}

/// Whether a proof is one of this key. Hashes were compared before.
fn is_right(proof: &Proof, key: &Secret) -> bool {
    match proof {
        Proof::NativeStage1(_) | Proof::CachingSha2Stage1(_) => true,
        Proof::Password(password) => auth::equal(password, key.expose()),
        Proof::Empty | Proof::Signature => false,
    }
}

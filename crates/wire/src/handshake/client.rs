//! Sqluice as a client towards a server.
//!
//! ```text
//! AwaitGreeting ─handle→ Greeted ─┬─plain──────────────────────────→ Ready ─log_in→ AwaitAuth ─handle→ Step …
//!                                 └─request_tls→ StartTls ─secured→ ┘
//! ```
//!
//! The caller reads one packet at a time, sends what was appended to `out` after each call, and runs the TLS handshake
//! between [`StartTls`] and [`StartTls::secured`]. It must not read past the greeting before that.

use super::{
    Attributes, AuthSwitch, ChangeUser, Channel, HandshakeError, HandshakeResponse, Received, ServerError, SslRequest,
    check_sequence, send,
};
use crate::Capabilities;
use crate::auth::{Credential, PASSWORD_BYTES_MAX, Plugin, PublicKey, SCRAMBLE_BYTES, Scramble, caching_sha2, clear};
use crate::codec::Malformed;
use crate::greeting::Greeting;
use zeroize::Zeroizing;

/// Packets that a server may send between login and OK. The longest honest login takes four.
pub const AUTH_PACKETS_MAX: u8 = 8;

/// The collation that is told when the wanted one does not fit the login's one byte: `utf8mb4_general_ci`, which all
/// servers know. The caller sets the wanted one afterwards.
pub const COLLATION_FALLBACK: u16 = 45;

/// What every login here needs, whatever the caller wants.
const CAPABILITIES_NEEDED: Capabilities =
    Capabilities::PROTOCOL_41.union(Capabilities::SECURE_CONNECTION).union(Capabilities::PLUGIN_AUTH);

/// Who logs in, and how.
#[derive(Clone, Debug)]
pub struct LoginRequest {
    /// The user's name.
    pub user: Vec<u8>,
    /// What is known of its password.
    pub credential: Credential,
    /// The schema to start in.
    pub schema: Option<Vec<u8>>,
    /// The capabilities that the caller can work with. What the server does not offer is dropped;
    /// [`Capabilities::TLS`], [`Capabilities::CONNECT_WITH_DB`], [`Capabilities::CONNECT_ATTRS`] and those of
    /// authentication are set here as needed.
    pub capabilities: Capabilities,
    /// The connection's collation; above 255 it becomes [`COLLATION_FALLBACK`].
    pub collation: u16,
    /// The longest payload that the caller takes, in bytes.
    pub packet_bytes_max: u32,
    /// Connection attributes (`program_name` and the like).
    pub attributes: Attributes,
    /// How a password may be sent over an open channel.
    pub rsa: RsaPolicy,
}

/// Whose RSA key is good enough to encrypt a password with, on a channel that others can read.
#[derive(Clone, Debug)]
pub enum RsaPolicy {
    /// None: such a login fails.
    Refuse,
    /// The one that the server sends. Who can change what is on the wire can send another and read the password.
    AskServer,
    /// This one.
    Pinned(PublicKey),
}

/// The server's greeting is awaited.
#[derive(Debug, Default)]
pub struct AwaitGreeting;

impl AwaitGreeting {
    /// Takes the server's first packet.
    ///
    /// # Errors
    /// The server refused the connection or is too old.
    pub fn handle(self, received: Received<'_>) -> Result<Greeted, HandshakeError> {
        if received.payload.first() == Some(&0xff) {
            return Err(ServerError::parse(received.payload)?.into());
        }
        check_sequence(received, 0)?;
        Ok(Greeted { greeting: Greeting::parse(received.payload)? })
    }
}

/// The server has greeted.
#[derive(Debug)]
pub struct Greeted {
    greeting: Greeting,
}

impl Greeted {
    /// The greeting.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// The server has TLS.
    pub fn offers_tls(&self) -> bool {
        self.greeting.capabilities.contains(Capabilities::TLS)
    }

    /// Goes on without TLS. `channel` is [`Channel::Secure`] for local sockets.
    pub fn plain(self, channel: Channel) -> Ready {
        Ready { greeting: self.greeting, sequence: 1, channel, tls: false }
    }

    /// Appends the wish for TLS.
    ///
    /// # Errors
    /// The server has no TLS.
    pub fn request_tls(self, login: &LoginRequest, out: &mut Vec<u8>) -> Result<StartTls, HandshakeError> {
        if !self.offers_tls() {
            return Err(HandshakeError::PeerIncompatible("the server has no TLS".into()));
        }
        let request = SslRequest {
            capabilities: negotiate(login, &self.greeting, true),
            packet_bytes_max: login.packet_bytes_max,
            collation: collation(login) as u8,
        };
        let sequence = send(out, 1, |payload| request.encode(payload));
        Ok(StartTls { greeting: self.greeting, sequence })
    }
}

/// The TLS handshake is to be run, after what was appended is sent.
#[derive(Debug)]
pub struct StartTls {
    greeting: Greeting,
    sequence: u8,
}

impl StartTls {
    /// TLS stands.
    pub fn secured(self) -> Ready {
        Ready { greeting: self.greeting, sequence: self.sequence, channel: Channel::Secure, tls: true }
    }
}

/// The login can be sent.
#[derive(Debug)]
pub struct Ready {
    greeting: Greeting,
    sequence: u8,
    channel: Channel,
    tls: bool,
}

impl Ready {
    /// Appends the login with the first answer to the server's scramble.
    pub fn log_in(self, login: LoginRequest, out: &mut Vec<u8>) -> AwaitAuth {
        let Ready { greeting, sequence, channel, tls } = self;
        let capabilities = negotiate(&login, &greeting, tls);
        let (plugin, answer) = first_answer(&login.credential, &greeting.plugin, &greeting.scramble);
        let response = HandshakeResponse {
            capabilities,
            packet_bytes_max: login.packet_bytes_max,
            collation: collation(&login),
            user: login.user,
            auth_response: answer,
            schema: login.schema,
            plugin: Some(plugin.name().into()),
            attributes: login.attributes,
            zstd_level: None,
        };
        let sequence = send(out, sequence, |payload| response.encode(payload));
        AwaitAuth {
            conversation: Conversation {
                credential: login.credential,
                rsa: login.rsa,
                channel,
                plugin,
                scramble: greeting.scramble,
                sequence,
                packets_left: AUTH_PACKETS_MAX,
            },
            awaited: Awaited::Verdict,
            capabilities,
            greeting,
        }
    }
}

/// Where a login stands.
#[derive(Debug)]
pub enum Step {
    /// Send what was appended to `out` (perhaps nothing), read a packet and hand it over.
    Await(AwaitAuth),
    /// The server said OK; the connection is in its command phase.
    Done(Done),
}

/// A finished login.
#[derive(Debug)]
pub struct Done {
    /// The server's greeting.
    pub greeting: Greeting,
    /// What both sides agreed on.
    pub capabilities: Capabilities,
    /// The last challenge that the server sent: a COM_CHANGE_USER answers this one.
    pub scramble: Scramble,
    /// The OK packet's payload, which may tell the session's state.
    pub ok_payload: Vec<u8>,
}

/// Logs in as another user on a connection in its command phase: appends a COM_CHANGE_USER. `scramble` and
/// `capabilities` are those that the login gave; capabilities in `login` mean nothing here.
pub fn change_user(
    greeting: Greeting,
    capabilities: Capabilities,
    scramble: Scramble,
    channel: Channel,
    login: LoginRequest,
    out: &mut Vec<u8>,
) -> AwaitAuth {
    let (plugin, auth_response) = first_answer(&login.credential, &greeting.plugin, &scramble);
    let change = ChangeUser {
        user: login.user,
        auth_response,
        schema: login.schema,
        collation: Some(login.collation),
        plugin: Some(plugin.name().into()),
        attributes: login.attributes,
    };
    let sequence = send(out, 0, |payload| change.encode(capabilities, payload));
    let conversation = Conversation {
        credential: login.credential,
        rsa: login.rsa,
        channel,
        plugin,
        scramble,
        sequence,
        packets_left: AUTH_PACKETS_MAX,
    };
    AwaitAuth { conversation, awaited: Awaited::Verdict, capabilities, greeting }
}

/// The server's verdict on the login, or its next question, is awaited.
#[derive(Debug)]
pub struct AwaitAuth {
    conversation: Conversation,
    awaited: Awaited,
    capabilities: Capabilities,
    greeting: Greeting,
}

impl AwaitAuth {
    /// Takes the server's packet.
    ///
    /// # Errors
    /// The server refused the login, asked for what cannot be answered, or broke the protocol.
    pub fn handle(mut self, received: Received<'_>, out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        match self.conversation.answer(self.awaited, received, out)? {
            Answered::More(awaited) => Ok(Step::Await(AwaitAuth { awaited, ..self })),
            Answered::Ok(ok_payload) => {
                let AwaitAuth { capabilities, greeting, conversation, .. } = self;
                Ok(Step::Done(Done { greeting, capabilities, scramble: conversation.scramble, ok_payload }))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// OK, ERR, a switch, or what the plugin says.
    Verdict,
    /// The server's RSA key.
    Key,
    /// OK or ERR.
    End,
}

enum Answered {
    More(Awaited),
    Ok(Vec<u8>),
}

#[derive(Debug)]
struct Conversation {
    credential: Credential,
    rsa: RsaPolicy,
    channel: Channel,
    plugin: Plugin,
    scramble: Scramble,
    sequence: u8,
    packets_left: u8,
}

impl Conversation {
    fn answer(
        &mut self,
        awaited: Awaited,
        received: Received<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answered, HandshakeError> {
        let payload = received.payload;
        let header = *payload.first().ok_or(Malformed("authentication: empty packet"))?;
        // Servers number their refusals freely when they give up early.
        if header == 0xff {
            return Err(ServerError::parse(payload)?.into());
        }
        check_sequence(received, self.sequence)?;
        self.sequence = self.sequence.wrapping_add(1);
        self.packets_left =
            self.packets_left.checked_sub(1).ok_or(HandshakeError::PeerMisbehaved("the login takes no end"))?;
        match (awaited, header) {
            (_, 0x00) => Ok(Answered::Ok(payload.to_vec())),
            (Awaited::Verdict, 0xfe) => {
                self.switch(AuthSwitch::parse(payload)?, out)?;
                Ok(Answered::More(Awaited::Verdict))
            }
            (Awaited::Verdict, 0x01) if self.plugin == Plugin::CachingSha2 => match payload[1..] {
                [caching_sha2::FAST_OK] => Ok(Answered::More(Awaited::End)),
                [caching_sha2::FULL_AUTH] => self.full(out).map(Answered::More),
                _ => Err(Malformed("authentication: unknown word of caching_sha2_password").into()),
            },
            (Awaited::Key, 0x01) => {
                let key = PublicKey::from_pem(&payload[1..])?;
                self.send_encrypted(&key, out)?;
                Ok(Answered::More(Awaited::End))
            }
            _ => Err(HandshakeError::PeerMisbehaved("this packet does not belong into a login")),
        }
    }

    /// The server's account has another plugin than the one that answered.
    fn switch(&mut self, request: AuthSwitch<'_>, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        self.plugin = Plugin::from_name(request.plugin).ok_or_else(|| {
            let name = String::from_utf8_lossy(&request.plugin[..request.plugin.len().min(64)]).into_owned();
            HandshakeError::PeerIncompatible(format!("the server asks for the authentication plugin {name:?}"))
        })?;
        let answer = match self.plugin {
            Plugin::Clear => self.cleartext()?,
            Plugin::Native | Plugin::CachingSha2 => {
                let scramble = request.data.first_chunk::<SCRAMBLE_BYTES>();
                self.scramble = *scramble.ok_or(Malformed("authentication switch: scramble"))?;
                scrambled(&self.credential, self.plugin, &self.scramble)
                    .ok_or(HandshakeError::CredentialRefused("the server's plugin needs the password itself"))?
            }
        };
        self.sequence = send(out, self.sequence, |payload| payload.extend_from_slice(&answer));
        Ok(())
    }

    /// The server does not remember the user and wants the password itself.
    fn full(&mut self, out: &mut Vec<u8>) -> Result<Awaited, HandshakeError> {
        if self.channel == Channel::Secure {
            let answer = self.cleartext()?;
            self.sequence = send(out, self.sequence, |payload| payload.extend_from_slice(&answer));
            return Ok(Awaited::End);
        }
        match &self.rsa {
            RsaPolicy::Refuse => {
                Err(HandshakeError::CredentialRefused("the server wants the password, and the connection is not TLS"))
            }
            RsaPolicy::AskServer => {
                self.sequence = send(out, self.sequence, |payload| payload.push(caching_sha2::KEY_REQUEST));
                Ok(Awaited::Key)
            }
            RsaPolicy::Pinned(key) => {
                let key = key.clone();
                self.send_encrypted(&key, out)?;
                Ok(Awaited::End)
            }
        }
    }

    fn send_encrypted(&mut self, key: &PublicKey, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        let ciphertext = key.encrypt(&self.scramble, self.password()?)?;
        self.sequence = send(out, self.sequence, |payload| payload.extend_from_slice(&ciphertext));
        Ok(())
    }

    fn cleartext(&self) -> Result<Zeroizing<Vec<u8>>, HandshakeError> {
        if self.channel == Channel::Open {
            return Err(HandshakeError::CredentialRefused(
                "the server wants the password, and the connection is not TLS",
            ));
        }
        self.password().map(clear::encode)
    }

    fn password(&self) -> Result<&[u8], HandshakeError> {
        let password = self
            .credential
            .cleartext()
            .ok_or(HandshakeError::CredentialRefused("the server wants the password, and only its hash is known"))?;
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(HandshakeError::CredentialRefused("the password is too long"));
        }
        Ok(password)
    }
}

/// The answer that goes with the login: by the server's default plugin if that is possible, else by another, and the
/// server asks to switch.
fn first_answer(credential: &Credential, default: &str, scramble: &Scramble) -> (Plugin, Zeroizing<Vec<u8>>) {
    let default = Plugin::from_name(default.as_bytes());
    for plugin in default.into_iter().chain([Plugin::Native, Plugin::CachingSha2]) {
        if let Some(answer) = scrambled(credential, plugin, scramble) {
            return (plugin, answer);
        }
    }
    (Plugin::Native, Zeroizing::default())
}

/// The answer to a scramble; `None` for plugins that have none and for credentials that do not fit.
fn scrambled(credential: &Credential, plugin: Plugin, scramble: &Scramble) -> Option<Zeroizing<Vec<u8>>> {
    match plugin {
        Plugin::Native => credential.native_answer(scramble),
        Plugin::CachingSha2 => credential.caching_sha2_answer(scramble),
        Plugin::Clear => None,
    }
    .map(Zeroizing::new)
}

fn collation(login: &LoginRequest) -> u16 {
    if login.collation > 255 { COLLATION_FALLBACK } else { login.collation }
}

fn negotiate(login: &LoginRequest, greeting: &Greeting, tls: bool) -> Capabilities {
    let mut wanted = login.capabilities | CAPABILITIES_NEEDED | Capabilities::PLUGIN_AUTH_LENENC_DATA;
    wanted.set(Capabilities::TLS, tls);
    wanted.set(Capabilities::CONNECT_WITH_DB, login.schema.is_some());
    wanted.set(Capabilities::CONNECT_ATTRS, !login.attributes.is_empty());
    // The server's choice: it decides whether the extended capabilities mean anything.
    wanted.insert(Capabilities::LONG_PASSWORD);
    wanted & greeting.capabilities
}

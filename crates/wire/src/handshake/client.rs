//! Sqluice as a client towards a server.
//!
//! ```text
//! AwaitGreeting ─handle→ Greeted ─┬─plain──────────────────────────→ Ready ─log_in→ AwaitAuth ─handle→ Step …
//!                                 └─request_tls→ StartTls ─secured→ ┘
//! ```
//!
//! The caller reads one packet at a time, sends what was appended to `out` after each call, and runs the TLS handshake
//! between [`StartTls`] and [`StartTls::secured`]. It must not read past the greeting before that.

mod conversation;

use super::{
    Attributes, ChangeUser, Channel, HandshakeError, HandshakeResponse, Received, ServerError, SslRequest,
    check_sequence, send,
};
use crate::Capabilities;
use crate::auth::{Credential, Plugin, PublicKey, Scramble};
use crate::compress::ZSTD_LEVEL_DEFAULT;
use crate::greeting::Greeting;
use conversation::{Answered, Awaited, Conversation, scrambled};
use zeroize::Zeroizing;

/// Packets that a server may send between login and OK. The longest honest login takes four.
pub const AUTH_PACKETS_MAX: u8 = 8;

/// The collation that is sent when the wanted one does not fit the login's one byte: `utf8mb4_general_ci`, which all
/// servers know. The caller sets the wanted one afterwards.
pub const COLLATION_FALLBACK: u16 = 45;

/// The capabilities that every login here needs.
const CAPABILITIES_NEEDED: Capabilities =
    Capabilities::PROTOCOL_41.union(Capabilities::SECURE_CONNECTION).union(Capabilities::PLUGIN_AUTH);

/// The user that logs in, and the way.
#[derive(Clone, Debug)]
pub struct LoginRequest {
    /// The user's name.
    pub user: Vec<u8>,
    /// The known part of its password.
    pub credential: Credential,
    /// The schema to start in.
    pub schema: Option<Vec<u8>>,
    /// The capabilities that the caller can work with. Capabilities that the server does not offer are dropped;
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

/// The RSA keys that may encrypt a password on a channel that others can read.
#[derive(Clone, Debug)]
pub enum RsaPolicy {
    /// None: such a login fails.
    Refuse,
    /// The key that the server sends. An attacker who can change the bytes on the wire can send another and read the password.
    AskServer,
    /// The key that the server sends, if the hash of its text is this.
    Known([u8; 32]),
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

    /// Appends the request for TLS.
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
    /// The server at the other end of TLS is not known: it gets no password that it could read.
    pub fn distrusted(self) -> Ready {
        Ready { channel: Channel::Open, ..self }
    }

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
            // Always there when it is agreed on; the layout says so, not the value.
            zstd_level: Some(ZSTD_LEVEL_DEFAULT),
        };
        let sequence = send(out, sequence, |payload| response.encode(payload));
        AwaitAuth {
            conversation: Conversation {
                credential: login.credential,
                rsa: login.rsa,
                channel,
                tls,
                plugin,
                scramble: greeting.scramble,
                sequence,
                packets_left: AUTH_PACKETS_MAX,
                rsa_key: None,
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
    /// The capabilities of both sides.
    pub capabilities: Capabilities,
    /// The last challenge that the server sent: a COM_CHANGE_USER answers this one.
    pub scramble: Scramble,
    /// The hash of the RSA key's text with which the password was encrypted, if the server sent one.
    pub rsa_key: Option<[u8; 32]>,
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
        tls: capabilities.contains(Capabilities::TLS),
        plugin,
        scramble,
        sequence,
        packets_left: AUTH_PACKETS_MAX,
        rsa_key: None,
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
    /// Whether the answer to the next packet may take milliseconds of computing, or more.
    pub fn is_heavy(&self) -> bool {
        matches!(self.awaited, Awaited::ExtSalt(_))
    }

    /// Takes the server's packet.
    ///
    /// # Errors
    /// The server refused the login, asked for what cannot be answered, or broke the protocol.
    pub fn handle(mut self, received: Received<'_>, out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        match self.conversation.answer(self.awaited, received, out)? {
            Answered::More(awaited) => Ok(Step::Await(AwaitAuth { awaited, ..self })),
            Answered::Ok(ok_payload) => {
                let AwaitAuth { capabilities, greeting, conversation, .. } = self;
                let Conversation { scramble, rsa_key, .. } = conversation;
                Ok(Step::Done(Done { greeting, capabilities, scramble, rsa_key, ok_payload }))
            }
        }
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

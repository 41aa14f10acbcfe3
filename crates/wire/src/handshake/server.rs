//! Sqluice as a server towards a client.
//!
//! ```text
//! AwaitResponse ─SSLRequest→ AwaitTls ─secured→ AwaitResponse
//!       └─login→ Conversation ─begin→ Step ─┬→ Await(AwaitAnswer) ─handle→ Step …
//!                                           ├→ Proven(Proof, Finish)
//!                                           └→ Denied(Denial, Finish)
//! ```
//!
//! The caller greets, reads one packet at a time, and sends what was appended to `out` after each call. Between login
//! and [`Conversation::begin`] it looks the account up and picks a [`Method`]; after [`Step::Proven`] it decides, checks
//! a cleartext password with a server where it has to, and ends with [`Finish::accept`] or [`Finish::refuse`]. COM_CHANGE_USER
//! enters at [`Conversation::resume`].

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::{
    AuthSwitch, Channel, HandshakeError, HandshakeResponse, Received, ServerError, SslRequest, check_sequence,
    request::FIXED_BYTES, send,
};
use crate::Capabilities;
use crate::auth::{Plugin, RsaKey, Scramble, caching_sha2, clear, native};
use crate::codec::Malformed;
use crate::greeting::Greeting;

/// The greeting is sent; a login or the wish for TLS is awaited.
#[derive(Debug)]
pub struct AwaitResponse {
    offered: Capabilities,
    default_plugin: String,
    scramble: Scramble,
    sequence: u8,
    channel: Channel,
    tls_asked: bool,
}

/// What the client answered to the greeting.
#[derive(Debug)]
pub enum Response {
    /// The client wants TLS: run the TLS handshake on the socket, then go on. Nothing is to be sent before.
    Tls(AwaitTls),
    /// The client logs in.
    Login(Box<HandshakeResponse>, Conversation),
}

impl AwaitResponse {
    /// Appends the greeting. `channel` is [`Channel::Secure`] for local sockets.
    pub fn greet(greeting: &Greeting, channel: Channel, out: &mut Vec<u8>) -> AwaitResponse {
        let sequence = send(out, 0, |payload| greeting.encode(payload));
        AwaitResponse {
            offered: greeting.capabilities,
            default_plugin: greeting.plugin.clone(),
            scramble: greeting.scramble,
            sequence,
            channel,
            tls_asked: false,
        }
    }

    /// Takes the client's answer. The login's capabilities are already cut down to what the greeting offered.
    ///
    /// # Errors
    /// A packet that is neither, a client that is too old, or one that asks for TLS that was not offered. An ERR packet
    /// may be sent with the sequence number after the received one.
    pub fn handle(self, received: Received<'_>) -> Result<Response, HandshakeError> {
        check_sequence(received, self.sequence)?;
        let sequence = self.sequence.wrapping_add(1);
        if !self.tls_asked && received.payload.len() == FIXED_BYTES {
            let request = SslRequest::parse(received.payload)?;
            if !request.capabilities.contains(Capabilities::TLS) {
                return Err(Malformed("login: user").into());
            }
            if !self.offered.contains(Capabilities::TLS) {
                return Err(HandshakeError::PeerMisbehaved("the client asks for TLS, which was not offered"));
            }
            return Ok(Response::Tls(AwaitTls { next: AwaitResponse { sequence, ..self } }));
        }
        let mut login = HandshakeResponse::parse(received.payload)?;
        if login.capabilities.contains(Capabilities::TLS) && !self.tls_asked {
            return Err(HandshakeError::PeerMisbehaved("the client sent its login before the TLS that it asked for"));
        }
        login.capabilities &= self.offered;
        let conversation = Conversation {
            scramble: self.scramble,
            sequence,
            channel: self.channel,
            has_plugins: login.capabilities.contains(Capabilities::PLUGIN_AUTH),
            default_plugin: Some(self.default_plugin),
        };
        Ok(Response::Login(Box::new(login), conversation))
    }
}

/// The TLS handshake is awaited. It begins with the byte after the SSLRequest.
#[derive(Debug)]
pub struct AwaitTls {
    next: AwaitResponse,
}

impl AwaitTls {
    /// TLS stands; the login comes through it.
    pub fn secured(self) -> AwaitResponse {
        AwaitResponse { channel: Channel::Secure, tls_asked: true, ..self.next }
    }
}

/// How an account's password is checked.
#[derive(Clone)]
pub enum Method {
    /// By `mysql_native_password` against stage 2. For a user that does not exist, take random bytes: the client then
    /// learns no more than that the login failed.
    Native {
        /// SHA1(SHA1(password)).
        stage2: [u8; native::HASH_BYTES],
    },
    /// The account has the empty password: only an empty answer is right, whatever the plugin.
    Empty,
    /// By `caching_sha2_password`: the fast path if stage 2 is remembered and fits, else the password itself, which the
    /// caller then checks. Serves also to learn the password of an account whose plugin is not spoken here.
    CachingSha2 {
        /// SHA256(SHA256(password)).
        remembered: Option<[u8; caching_sha2::HASH_BYTES]>,
        /// For clients on an open channel; without it they are told that they need TLS.
        rsa: Option<Arc<RsaKey>>,
    },
    /// By `mysql_clear_password`: the password itself, over a secure channel only.
    Clear,
}

impl Method {
    /// The plugin that checks by this method, for a client that came with `client`.
    fn plugin(&self, client: Option<Plugin>) -> Plugin {
        match self {
            Method::Native { .. } => Plugin::Native,
            Method::CachingSha2 { .. } => Plugin::CachingSha2,
            Method::Clear => Plugin::Clear,
            // Whichever the client has: MySQL's since 9.0 lack the native plugin.
            Method::Empty if client == Some(Plugin::CachingSha2) => Plugin::CachingSha2,
            Method::Empty => Plugin::Native,
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Native { .. } => "Native(…)",
            Method::Empty => "Empty",
            Method::CachingSha2 { .. } => "CachingSha2(…)",
            Method::Clear => "Clear",
        })
    }
}

/// What the client has proved, and what Sqluice can do with it towards servers. Debug output shows only the kind.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// The password is empty, by the client's word. [`Method::Empty`] asked for that; with the other methods the caller
    /// decides.
    Empty,
    /// SHA1(password).
    NativeStage1(Zeroizing<[u8; native::HASH_BYTES]>),
    /// SHA256(password).
    CachingSha2Stage1(Zeroizing<[u8; caching_sha2::HASH_BYTES]>),
    /// A password that nobody has checked yet.
    Password(Zeroizing<Vec<u8>>),
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::Empty => "Empty",
            Proof::NativeStage1(_) => "NativeStage1(…)",
            Proof::CachingSha2Stage1(_) => "CachingSha2Stage1(…)",
            Proof::Password(_) => "Password(…)",
        })
    }
}

/// Why a client failed to prove its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The answer does not fit the password.
    #[error("wrong password")]
    WrongPassword,
    /// The account's plugin needs TLS, and the client came without.
    #[error("the account's authentication plugin needs TLS")]
    NeedsTls,
    /// The account's plugin is another than the client's, and the client cannot switch.
    #[error("the client does not support the account's authentication plugin")]
    CannotSwitch,
}

/// Where an authentication stands.
#[derive(Debug)]
pub enum Step {
    /// Send `out`, read a packet and hand it to [`AwaitAnswer::handle`].
    Await(AwaitAnswer),
    /// The client proved something.
    Proven(Proof, Finish),
    /// The client failed.
    Denied(Denial, Finish),
}

/// A client that wants to be authenticated.
#[derive(Debug)]
pub struct Conversation {
    scramble: Scramble,
    sequence: u8,
    channel: Channel,
    has_plugins: bool,
    /// The greeting's plugin; `None` for COM_CHANGE_USER.
    default_plugin: Option<String>,
}

impl Conversation {
    /// Authenticates again for a COM_CHANGE_USER that came with `sequence`. `scramble` is the one of the greeting: Sqluice,
    /// like MariaDB, keeps one per connection, so that it does not matter which one a client remembers.
    pub fn resume(scramble: Scramble, sequence: u8, channel: Channel, capabilities: Capabilities) -> Conversation {
        let has_plugins = capabilities.contains(Capabilities::PLUGIN_AUTH);
        Conversation { scramble, sequence: sequence.wrapping_add(1), channel, has_plugins, default_plugin: None }
    }

    /// Who can read what the client sends.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// The challenge that all answers are made for.
    pub fn scramble(&self) -> Scramble {
        self.scramble
    }

    /// Refuses or accepts the client without asking for a proof.
    pub fn finish(self) -> Finish {
        Finish { sequence: self.sequence }
    }

    /// Checks the answer that came with the login if `plugin` (the client's) is the method's and the answer counts, else
    /// asks the client to switch.
    ///
    /// An answer counts that was made for the greeting's plugin. MySQL's library names another plugin with no answer at
    /// all when it lacks the greeting's, and waits to be asked to switch: taken at its word, it would seem to have no
    /// password. In COM_CHANGE_USER it does the same.
    ///
    /// # Errors
    /// The client's answer cannot be read.
    pub fn begin(
        self,
        method: Method,
        plugin: Option<&[u8]>,
        auth_response: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, HandshakeError> {
        // Before plugins had names there was only this one.
        let client_plugin = match plugin {
            Some(name) => Plugin::from_name(name),
            None => Some(Plugin::Native),
        };
        let wanted = method.plugin(client_plugin);
        let counts = match (&self.default_plugin, plugin) {
            (_, None) => true,
            (Some(default), Some(name)) => default.as_bytes() == name,
            (None, Some(_)) => !auth_response.is_empty(),
        };
        let needs_secrecy = match &method {
            Method::Clear => true,
            Method::CachingSha2 { rsa, .. } => rsa.is_none() && client_plugin != Some(wanted),
            Method::Native { .. } | Method::Empty => false,
        };
        if needs_secrecy && self.channel == Channel::Open {
            return Ok(Step::Denied(Denial::NeedsTls, self.finish()));
        }
        let awaiting = AwaitAnswer { conversation: self, awaited: Awaited::First(method) };
        if client_plugin == Some(wanted) && counts {
            return awaiting.check(auth_response, out);
        }
        if !awaiting.conversation.has_plugins {
            return Ok(Step::Denied(Denial::CannotSwitch, awaiting.conversation.finish()));
        }
        let AwaitAnswer { mut conversation, awaited } = awaiting;
        let scramble = conversation.scramble;
        conversation.send(out, |payload| AuthSwitch::encode(wanted.name(), &scramble, payload));
        Ok(Step::Await(AwaitAnswer { conversation, awaited }))
    }

    fn send(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.sequence = send(out, self.sequence, write);
    }
}

/// The client's next authentication packet is awaited. Each one awaits a later part than the one before, so a client
/// cannot keep it going.
#[derive(Debug)]
pub struct AwaitAnswer {
    conversation: Conversation,
    awaited: Awaited,
}

#[derive(Debug)]
enum Awaited {
    /// The answer to the scramble.
    First(Method),
    /// The password over a secure channel.
    Cleartext,
    /// A key request or the password encrypted for our key.
    KeyRequest(Arc<RsaKey>),
    /// The password encrypted for our key.
    Ciphertext(Arc<RsaKey>),
}

impl AwaitAnswer {
    /// Takes the client's packet.
    ///
    /// # Errors
    /// It is out of order or cannot be read.
    pub fn handle(mut self, received: Received<'_>, out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        check_sequence(received, self.conversation.sequence)?;
        self.conversation.sequence = self.conversation.sequence.wrapping_add(1);
        self.check(received.payload, out)
    }

    fn check(self, answer: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        let AwaitAnswer { mut conversation, awaited } = self;
        let scramble = conversation.scramble;
        let proof = match awaited {
            Awaited::First(Method::Native { stage2 }) => {
                native::verify(&scramble, &stage2, answer).map(Proof::NativeStage1)
            }
            Awaited::First(Method::Empty) => is_empty(answer).then_some(Proof::Empty),
            Awaited::First(Method::Clear) | Awaited::Cleartext => clear::decode(answer).map(password_or_empty),
            Awaited::First(Method::CachingSha2 { .. }) if is_empty(answer) => Some(Proof::Empty),
            Awaited::First(Method::CachingSha2 { remembered, rsa }) => {
                if answer.len() != caching_sha2::HASH_BYTES {
                    return Err(Malformed("authentication answer: not of caching_sha2_password's length").into());
                }
                let fast = remembered.and_then(|stage2| caching_sha2::verify(&scramble, &stage2, answer));
                if let Some(stage1) = fast {
                    conversation.send(out, |payload| payload.extend([0x01, caching_sha2::FAST_OK]));
                    Some(Proof::CachingSha2Stage1(stage1))
                } else {
                    let awaited = match (conversation.channel, rsa) {
                        (Channel::Secure, _) => Awaited::Cleartext,
                        (Channel::Open, Some(key)) => Awaited::KeyRequest(key),
                        (Channel::Open, None) => return Ok(Step::Denied(Denial::NeedsTls, conversation.finish())),
                    };
                    conversation.send(out, |payload| payload.extend([0x01, caching_sha2::FULL_AUTH]));
                    return Ok(Step::Await(AwaitAnswer { conversation, awaited }));
                }
            }
            Awaited::KeyRequest(key) if answer == [caching_sha2::KEY_REQUEST] => {
                conversation.send(out, |payload| {
                    payload.push(0x01);
                    payload.extend_from_slice(key.public_pem().as_bytes());
                });
                return Ok(Step::Await(AwaitAnswer { conversation, awaited: Awaited::Ciphertext(key) }));
            }
            Awaited::KeyRequest(key) | Awaited::Ciphertext(key) => {
                key.decrypt(&scramble, answer).map(password_or_empty)
            }
        };
        Ok(match proof {
            Some(proof) => Step::Proven(proof, conversation.finish()),
            None => Step::Denied(Denial::WrongPassword, conversation.finish()),
        })
    }
}

/// The last packet of an authentication is to be sent.
#[derive(Debug)]
#[must_use = "the client waits for an OK or an ERR packet"]
pub struct Finish {
    sequence: u8,
}

impl Finish {
    /// Appends an OK packet with this payload; the connection is in its command phase.
    pub fn accept(self, ok_payload: &[u8], out: &mut Vec<u8>) {
        send(out, self.sequence, |payload| payload.extend_from_slice(ok_payload));
    }

    /// Appends an ERR packet; the connection is to be closed.
    pub fn refuse(self, error: &ServerError, out: &mut Vec<u8>) {
        send(out, self.sequence, |payload| error.encode(payload));
    }
}

/// Clients send the empty password as nothing or, with `caching_sha2_password`, as a lone zero byte.
fn is_empty(answer: &[u8]) -> bool {
    matches!(answer, [] | [0])
}

fn password_or_empty(password: Zeroizing<Vec<u8>>) -> Proof {
    if password.is_empty() { Proof::Empty } else { Proof::Password(password) }
}

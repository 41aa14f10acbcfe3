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

mod method;

use std::sync::Arc;

use zeroize::Zeroizing;

use super::{
    Channel, HandshakeError, HandshakeResponse, Received, ServerError, SslRequest, check_sequence, put_switch,
    request::FIXED_BYTES, send,
};
use crate::Capabilities;
use crate::auth::ed25519::{self, Nonce, PublicKey};
use crate::auth::{Plugin, RsaKey, Scramble, caching_sha2, clear, native, parsec, sha256};
use crate::codec::Malformed;
use crate::greeting::Greeting;
pub use method::{Denial, Method, Proof};

/// The greeting is sent; a login or the request for TLS is awaited.
#[derive(Debug)]
pub struct AwaitResponse {
    offered: Capabilities,
    default_plugin: String,
    scramble: Scramble,
    sequence: u8,
    channel: Channel,
    tls_asked: bool,
}

/// The client's answer to the greeting.
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
            switched: false,
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
    /// The client was asked to switch. Most take that once.
    switched: bool,
}

impl Conversation {
    /// Authenticates again for a COM_CHANGE_USER that came with `sequence`. `scramble` is the one of the greeting: Sqluice,
    /// like MariaDB, keeps one per connection, so that it does not matter which one a client remembers.
    pub fn resume(scramble: Scramble, sequence: u8, channel: Channel, capabilities: Capabilities) -> Conversation {
        let has_plugins = capabilities.contains(Capabilities::PLUGIN_AUTH);
        let sequence = sequence.wrapping_add(1);
        Conversation { scramble, sequence, channel, has_plugins, default_plugin: None, switched: false }
    }

    /// Whether others can read the client's bytes.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// The challenge that all answers are made for.
    pub fn scramble(&self) -> Scramble {
        self.scramble
    }

    /// Refuses or accepts the client without asking for a proof.
    pub fn finish(self) -> Finish {
        Finish { conversation: self }
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
        let counts = method.takes_first_answer()
            && match (&self.default_plugin, plugin) {
                (_, None) => true,
                (Some(default), Some(name)) => default.as_bytes() == name,
                (None, Some(_)) => !auth_response.is_empty(),
            };
        // A client that has answered already may pass by the fast path.
        let may_pass = matches!(method, Method::CachingSha2 { .. }) && client_plugin == Some(wanted);
        if method.needs_secrecy() && !may_pass && self.channel == Channel::Open {
            return Ok(Step::Denied(Denial::NeedsTls, self.finish()));
        }
        let awaiting = AwaitAnswer { conversation: self, awaited: Awaited::First(method) };
        if client_plugin == Some(wanted) && counts {
            return awaiting.check(auth_response, out);
        }
        if !awaiting.conversation.has_plugins {
            return Ok(Step::Denied(Denial::CannotSwitch, awaiting.conversation.finish()));
        }
        let AwaitAnswer { conversation, awaited } = awaiting;
        Ok(match awaited {
            Awaited::First(method) => Step::Await(conversation.switch(method, wanted, out)),
            _ => Step::Denied(Denial::CannotSwitch, conversation.finish()),
        })
    }

    fn switch(mut self, method: Method, wanted: Plugin, out: &mut Vec<u8>) -> AwaitAnswer {
        let scramble = self.scramble;
        self.send(out, |payload| {
            put_switch(wanted.name(), payload);
            method.put_challenge(&scramble, payload);
        });
        self.switched = true;
        AwaitAnswer { conversation: self, awaited: Awaited::First(method) }
    }

    fn send(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.sequence = send(out, self.sequence, write);
    }

    fn send_key(mut self, key: Arc<RsaKey>, out: &mut Vec<u8>) -> Step {
        self.send(out, |payload| {
            payload.push(0x01);
            payload.extend_from_slice(key.public_pem().as_bytes());
        });
        Step::Await(AwaitAnswer { conversation: self, awaited: Awaited::Ciphertext(key) })
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
    /// Both challenges, signed, by `parsec`.
    Signature(PublicKey, Nonce),
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
            Awaited::First(Method::Sha256 { .. }) if is_empty(answer) => Some(Proof::Empty),
            // On local sockets, too, clients use the key, if there is one.
            Awaited::First(Method::Sha256 { rsa }) => match (conversation.channel, rsa) {
                (_, Some(key)) if answer == [sha256::KEY_REQUEST] => return Ok(conversation.send_key(key, out)),
                (_, Some(key)) if answer.len() == key.ciphertext_bytes() => {
                    key.decrypt(&scramble, answer).map(password_or_empty)
                }
                (Channel::Secure, _) => clear::decode(answer).map(password_or_empty),
                (Channel::Open, Some(_)) => None,
                (Channel::Open, None) => return Ok(Step::Denied(Denial::NeedsTls, conversation.finish())),
            },
            Awaited::First(Method::Ed25519 { key, nonce }) => {
                ed25519::verify(&key, &nonce, answer).then_some(Proof::Signature)
            }
            Awaited::First(Method::Parsec { salt, key, nonce }) if answer.is_empty() => {
                conversation.send(out, |payload| payload.extend_from_slice(&salt.to_bytes()));
                return Ok(Step::Await(AwaitAnswer { conversation, awaited: Awaited::Signature(key, nonce) }));
            }
            Awaited::First(Method::Parsec { .. }) => {
                return Err(HandshakeError::PeerMisbehaved("an answer before the salt was asked for"));
            }
            Awaited::Signature(key, nonce) => parsec::verify(&key, &nonce, answer).then_some(Proof::Signature),
            Awaited::KeyRequest(key) if answer == [caching_sha2::KEY_REQUEST] => {
                return Ok(conversation.send_key(key, out));
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
    conversation: Conversation,
}

impl Finish {
    /// Asks by another method after all, with a switch. Gives the same back if the client was asked to switch before, knows
    /// no switching, or could be heard by others.
    ///
    /// # Errors
    /// The client cannot be asked.
    pub fn ask_again(self, method: Method, out: &mut Vec<u8>) -> Result<AwaitAnswer, Finish> {
        let conversation = self.conversation;
        let heard = conversation.channel == Channel::Open && method.needs_secrecy();
        if conversation.switched || !conversation.has_plugins || heard {
            return Err(conversation.finish());
        }
        let wanted = method.plugin(None);
        Ok(conversation.switch(method, wanted, out))
    }

    /// Appends an OK packet with this payload; the connection is in its command phase.
    pub fn accept(self, ok_payload: &[u8], out: &mut Vec<u8>) {
        send(out, self.conversation.sequence, |payload| payload.extend_from_slice(ok_payload));
    }

    /// Appends an ERR packet; the connection is to be closed.
    pub fn refuse(self, error: &ServerError, out: &mut Vec<u8>) {
        send(out, self.conversation.sequence, |payload| error.encode(payload));
    }
}

/// Clients send the empty password as nothing or, with `caching_sha2_password`, as a lone zero byte.
fn is_empty(answer: &[u8]) -> bool {
    matches!(answer, [] | [0])
}

fn password_or_empty(password: Zeroizing<Vec<u8>>) -> Proof {
    if password.is_empty() { Proof::Empty } else { Proof::Password(password) }
}

//! The server's questions after the login was sent, and the answers.

use zeroize::Zeroizing;

use super::RsaPolicy;
use crate::auth::ed25519::{self, Nonce};
use crate::auth::{
    Credential, PASSWORD_BYTES_MAX, Plugin, PublicKey, SCRAMBLE_BYTES, Scramble, caching_sha2, clear, parsec, sha256,
};
use crate::codec::Malformed;
use crate::handshake::{AuthSwitch, Channel, HandshakeError, Received, ServerError, check_sequence, send};

/// Why a server does not get a password that it could read.
const OTHER_SERVER: &str = "the server wants the password itself, and its certificate or key is not verified, or not the one that \
                            it has shown before";

#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// OK, ERR, a switch, or what the plugin says.
    Verdict,
    /// The server's RSA key.
    Key,
    /// How `parsec` makes a key of the password; the server's challenge is known already.
    ExtSalt(Nonce),
    /// OK or ERR.
    End,
}

pub(super) enum Answered {
    More(Awaited),
    Ok(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) credential: Credential,
    pub(super) rsa: RsaPolicy,
    pub(super) channel: Channel,
    /// TLS: to `sha256_password` a local socket is no better than plain TCP.
    pub(super) tls: bool,
    pub(super) plugin: Plugin,
    pub(super) scramble: Scramble,
    pub(super) sequence: u8,
    pub(super) packets_left: u8,
    /// Of the key that the server sent.
    pub(super) rsa_key: Option<[u8; 32]>,
}

impl Conversation {
    pub(super) fn answer(
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
            (Awaited::Verdict | Awaited::Key | Awaited::End, 0x00) => Ok(Answered::Ok(payload.to_vec())),
            (Awaited::Verdict, 0xfe) => self.switch(AuthSwitch::parse(payload)?, out).map(Answered::More),
            (Awaited::Verdict, 0x01) if self.plugin == Plugin::CachingSha2 => match payload[1..] {
                [caching_sha2::FAST_OK] => Ok(Answered::More(Awaited::End)),
                [caching_sha2::FULL_AUTH] => {
                    self.full(self.channel == Channel::Secure, caching_sha2::KEY_REQUEST, out).map(Answered::More)
                }
                _ => Err(Malformed("authentication: unknown word of caching_sha2_password").into()),
            },
            (Awaited::ExtSalt(nonce), _) => {
                self.send_parsec(&nonce, payload, out)?;
                Ok(Answered::More(Awaited::End))
            }
            (Awaited::Key, 0x01) => {
                let hash = crate::auth::fingerprint(&payload[1..]);
                if matches!(self.rsa, RsaPolicy::Known(known) if known != hash) {
                    return Err(HandshakeError::CredentialRefused(OTHER_SERVER));
                }
                self.rsa_key = Some(hash);
                let key = PublicKey::from_pem(&payload[1..])?;
                self.send_encrypted(&key, out)?;
                Ok(Answered::More(Awaited::End))
            }
            (Awaited::Verdict | Awaited::End, 0x02) => {
                Err(HandshakeError::PeerIncompatible("the server asks for a second factor".into()))
            }
            (Awaited::Verdict, _) if self.plugin == Plugin::Dialog => {
                Err(HandshakeError::CredentialRefused("the server asks for more than a password"))
            }
            _ => Err(HandshakeError::PeerMisbehaved("this packet does not belong into a login")),
        }
    }

    /// The server's account has another plugin than the one that answered.
    fn switch(&mut self, request: AuthSwitch<'_>, out: &mut Vec<u8>) -> Result<Awaited, HandshakeError> {
        self.plugin = Plugin::from_name(request.plugin).ok_or_else(|| {
            let name = String::from_utf8_lossy(&request.plugin[..request.plugin.len().min(64)]).into_owned();
            HandshakeError::PeerIncompatible(format!("the server asks for the authentication plugin {name:?}"))
        })?;
        let answer = match self.plugin {
            Plugin::Clear => self.cleartext()?,
            Plugin::Dialog => {
                if !is_password_question(request.data) {
                    return Err(HandshakeError::CredentialRefused("the server asks for more than a password"));
                }
                self.cleartext()?
            }
            Plugin::Ed25519 => Zeroizing::new(ed25519::sign(self.password()?, nonce(request.data)?).to_vec()),
            Plugin::Parsec => {
                // Before the salt is asked for: without the password the salt is of no use.
                self.password()?;
                let nonce = *nonce(request.data)?;
                self.sequence = send(out, self.sequence, |_| {});
                return Ok(Awaited::ExtSalt(nonce));
            }
            Plugin::Native | Plugin::CachingSha2 => {
                self.take_scramble(request.data)?;
                scrambled(&self.credential, self.plugin, &self.scramble)
                    .ok_or(HandshakeError::CredentialRefused("the server's plugin needs the password itself"))?
            }
            Plugin::Sha256 => {
                self.take_scramble(request.data)?;
                let no_secret = self.credential == Credential::Empty;
                return if no_secret {
                    self.send_empty(out)
                } else {
                    self.full(self.tls && self.channel == Channel::Secure, sha256::KEY_REQUEST, out)
                };
            }
        };
        self.sequence = send(out, self.sequence, |payload| payload.extend_from_slice(&answer));
        Ok(Awaited::Verdict)
    }

    fn take_scramble(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        self.scramble = *data.first_chunk::<SCRAMBLE_BYTES>().ok_or(Malformed("authentication switch: scramble"))?;
        Ok(())
    }

    /// The empty password, as `sha256_password` wants it.
    fn send_empty(&mut self, out: &mut Vec<u8>) -> Result<Awaited, HandshakeError> {
        self.sequence = send(out, self.sequence, |payload| payload.push(0));
        Ok(Awaited::End)
    }

    fn send_parsec(&mut self, nonce: &Nonce, sent: &[u8], out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        // Servers may put a 0x01 ahead of what plugins say.
        let sent = if sent.len() > parsec::EXT_SALT_BYTES { sent.strip_prefix(&[0x01]).unwrap_or(sent) } else { sent };
        let salt = parsec::ExtSalt::parse(sent).ok_or_else(|| {
            HandshakeError::PeerIncompatible(
                "the server's parsec salt has an unknown form, or asks for too much work".into(),
            )
        })?;
        let answer = salt.answer(self.password()?, nonce)?;
        self.sequence = send(out, self.sequence, |payload| payload.extend_from_slice(&answer));
        Ok(())
    }

    /// The server does not remember the user and wants the password itself.
    fn full(&mut self, as_it_is: bool, key_request: u8, out: &mut Vec<u8>) -> Result<Awaited, HandshakeError> {
        if as_it_is {
            let answer = self.cleartext()?;
            self.sequence = send(out, self.sequence, |payload| payload.extend_from_slice(&answer));
            return Ok(Awaited::End);
        }
        match &self.rsa {
            RsaPolicy::Refuse if self.tls => Err(HandshakeError::CredentialRefused(OTHER_SERVER)),
            RsaPolicy::Refuse => {
                Err(HandshakeError::CredentialRefused("the server wants the password, and the connection is not TLS"))
            }
            RsaPolicy::AskServer | RsaPolicy::Known(_) => {
                self.password()?;
                self.sequence = send(out, self.sequence, |payload| payload.push(key_request));
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
        if self.channel == Channel::Open && self.tls {
            return Err(HandshakeError::CredentialRefused(OTHER_SERVER));
        }
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

/// The answer to a scramble; `None` for plugins that have none and for credentials that do not fit.
pub(super) fn scrambled(credential: &Credential, plugin: Plugin, scramble: &Scramble) -> Option<Zeroizing<Vec<u8>>> {
    match plugin {
        Plugin::Native => credential.native_answer(scramble),
        Plugin::CachingSha2 => credential.caching_sha2_answer(scramble),
        Plugin::Clear | Plugin::Sha256 | Plugin::Ed25519 | Plugin::Parsec | Plugin::Dialog => None,
    }
    .map(Zeroizing::new)
}

/// The challenge of the plugins that sign.
fn nonce(data: &[u8]) -> Result<&Nonce, HandshakeError> {
    Ok(data.first_chunk().ok_or(Malformed("authentication switch: challenge"))?)
}

/// Whether PAM's question, of `dialog`'s form, is for a password and the last one: the kind is in the upper seven bits of
/// its first byte (2 hides the answer on a screen), the lowest says that nothing follows. MariaDB's PAM never sets that
/// bit, as it does not know; what follows there is the verdict.
fn is_password_question(data: &[u8]) -> bool {
    data.first().is_some_and(|first| first >> 1 == 2)
}

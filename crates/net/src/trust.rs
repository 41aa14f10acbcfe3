//! The trust in a server at a login: whether it gets a password that it can read.

use wire::handshake::Channel;
use wire::handshake::client::{LoginRequest, RsaPolicy};

use crate::client::Target;
use crate::tls::SendPasswords;
use crate::{Stream, known};

/// Whether the server at the other end is told a password that it can read.
pub(crate) struct Trust<'a> {
    target: &'a Target,
    /// The certificate that it has shown, where that is not verified.
    certificate: Option<known::Hash>,
    rsa: Option<RsaPolicy>,
    distrusts: bool,
}

impl<'a> Trust<'a> {
    pub(crate) fn of(stream: &Stream, target: &'a Target) -> Trust<'a> {
        let is_tls = stream.is_tls();
        let sure = match is_tls {
            true => target.tls.verifies(),
            false => stream.channel() == Channel::Secure,
        };
        let mut trust = Trust { target, certificate: None, rsa: None, distrusts: false };
        if sure || target.tls.passwords() == SendPasswords::Any {
            return trust;
        }
        trust.certificate = stream.peer_certificate().map(wire::auth::fingerprint);
        let shown = known::of(&target.address.to_string());
        let good = target.tls.passwords() == SendPasswords::Known
            && match trust.certificate {
                Some(certificate) => shown.certificate.map_or(shown.rsa_key.is_none(), |known| known == certificate),
                // One that had a certificate before has lost it.
                None => shown.certificate.is_none(),
            };
        trust.distrusts = is_tls && !good;
        trust.rsa = match (good, shown.rsa_key) {
            (false, _) => Some(RsaPolicy::Refuse),
            (true, Some(key)) => Some(RsaPolicy::Known(key)),
            (true, None) => None,
        };
        trust
    }

    pub(crate) fn distrusts(&self) -> bool {
        self.distrusts
    }

    pub(crate) fn for_login(&self, mut login: LoginRequest) -> LoginRequest {
        if let (RsaPolicy::AskServer, Some(rsa)) = (&login.rsa, &self.rsa) {
            login.rsa = rsa.clone();
        }
        login
    }

    /// A login has succeeded.
    pub(crate) fn note(&self, rsa_key: Option<known::Hash>) {
        if self.target.tls.passwords() == SendPasswords::Known {
            let shown = known::Shown { certificate: self.certificate, rsa_key };
            known::note(&self.target.address.to_string(), shown);
        }
    }
}

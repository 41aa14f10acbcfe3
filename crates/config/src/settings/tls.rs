//! `tls` of those that Sqluice connects to: database servers, and others.

use super::{Kind, Setting, Word, live};
use crate::{ServerTlsMode, TlsVersion};

/// `mode` may be this: no TLS.
pub(super) const DISABLED: Word = Word::new(ServerTlsMode::Disabled.word(), "never");
/// `mode` may be this: TLS, with whoever it is.
pub(super) const REQUIRED: Word = Word::new(
    ServerTlsMode::Required.word(),
    "always; Sqluice does not check the \
     certificate",
);
/// `mode` may be this: TLS with one of the authority's.
pub(super) const VERIFY_CA: Word =
    Word::new(ServerTlsMode::VerifyCa.word(), "always; Sqluice checks the certificate's authority");
/// `mode` may be this: TLS with the right one.
pub(super) const VERIFY_IDENTITY: Word =
    Word::new(ServerTlsMode::VerifyIdentity.word(), "always; Sqluice checks authority and host name");

/// The settings of a table `tls` with its own `mode`.
pub(super) const fn settings(mode: &'static Setting) -> [&'static Setting; 5] {
    [mode, &MIN_VERSION, &CA_FILE, &CERT_FILE, &KEY_FILE]
}

/// `min_version`
pub static MIN_VERSION: Setting = live(
    "min_version",
    Kind::Choice { default: Some(TlsVersion::V12.word()), words: super::listener::TLS_VERSIONS },
    "The lowest version of TLS for servers.",
);
/// `ca_file`
pub static CA_FILE: Setting = live(
    "ca_file",
    Kind::Path,
    "Authorities (PEM) of the servers' certificates. Without it Sqluice uses the system's authorities.",
)
.example("\"/etc/sqluice/ca.pem\"");
/// `cert_file`
pub static CERT_FILE: Setting = live(
    "cert_file",
    Kind::Path,
    "The certificate (PEM) that Sqluice shows to servers that request one. Needs `key_file`.",
)
.example("\"/etc/sqluice/client.pem\"");
/// `key_file`
pub static KEY_FILE: Setting =
    live("key_file", Kind::Path, "Private key (PEM) of `cert_file`.").example("\"/etc/sqluice/client.key\"");

//! TLS configurations for both sides: [`ServerTls`] towards clients, [`ClientTls`] towards servers.
//!
//! Both take TLS 1.2 and 1.3 from one provider, aws-lc-rs, which is passed along and never installed as the process's
//! default. A configuration is immutable; who reloads certificates builds a new one for the connections to come.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, RootCertStore, SupportedProtocolVersion};

mod names;
mod self_made;
#[cfg(test)]
mod tests;
mod to_client;
mod to_server;
mod verifier;

pub use names::Names;
pub use to_client::{ClientCertificates, ServerTls, ServerTlsOptions};
pub use to_server::{ClientTls, ClientTlsOptions};
// The words of the configuration mean the same here.
pub use config::{SendPasswords, ServerTlsMode, TlsVersion};

/// A TLS configuration is of no use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM of the expected kind.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The mistake in it.
        problem: String,
    },
    /// The system's certificate authorities cannot be read.
    #[error("the system's certificate authorities cannot be read: {0}; name a CA file")]
    SystemRoots(String),
    /// A client certificate came without its key, or a key without its certificate.
    #[error("a client certificate and its key belong together: one of them is missing")]
    HalfPair,
    /// Making a certificate failed.
    #[error("no certificate could be made: {0}")]
    SelfMade(#[from] rcgen::Error),
    /// Certificate, key and CA do not make a configuration.
    #[error("TLS configuration: {0}")]
    Configuration(String),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// OpenSSL's name of a cipher suite.
pub(crate) fn openssl_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        // The provider has no others.
        _ => "",
    }
}

fn configuration(error: impl std::fmt::Display) -> TlsError {
    TlsError::Configuration(error.to_string())
}

fn file_error(path: &Path, problem: impl std::fmt::Display) -> TlsError {
    TlsError::File { path: path.into(), problem: problem.to_string() }
}

/// The versions of TLS that are spoken.
fn and_above(lowest: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    match lowest {
        TlsVersion::V12 => ALL_VERSIONS,
        TlsVersion::V13 => NEW_VERSIONS,
    }
}

static ALL_VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static NEW_VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

/// PEM text: where it comes from, for messages, and the text itself if somebody has read it already.
#[derive(Clone)]
pub struct Pem {
    path: PathBuf,
    text: Option<Arc<zeroize::Zeroizing<Vec<u8>>>>,
}

impl Pem {
    /// Text that came from `path`; the file is not read again.
    pub fn read_from(path: impl Into<PathBuf>, text: &[u8]) -> Pem {
        Pem { path: path.into(), text: Some(Arc::new(zeroize::Zeroizing::new(text.to_vec()))) }
    }

    /// The content that the configuration has read.
    pub fn of(pem: &config::Pem) -> Pem {
        Pem::read_from(&pem.path, &pem.text)
    }

    fn text(&self) -> Result<Arc<zeroize::Zeroizing<Vec<u8>>>, TlsError> {
        if let Some(text) = &self.text {
            return Ok(text.clone());
        }
        let text = std::fs::read(&self.path).map_err(|error| file_error(&self.path, error))?;
        Ok(Arc::new(zeroize::Zeroizing::new(text)))
    }
}

impl<T: Into<PathBuf>> From<T> for Pem {
    fn from(path: T) -> Pem {
        Pem { path: path.into(), text: None }
    }
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pem({})", self.path.display())
    }
}

fn read_certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let (path, bytes) = (&pem.path, pem.text()?);
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| file_error(path, format!("no PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(file_error(path, "holds no certificate"));
    }
    Ok(certificates)
}

fn read_roots(pem: &Pem) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(pem)? {
        roots.add(certificate).map_err(|error| file_error(&pem.path, format!("not usable as a CA: {error}")))?;
    }
    Ok(roots)
}

fn read_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, TlsError> {
    let (path, bytes) = (&pem.path, pem.text()?);
    // The error's text names what was found, never its content.
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| file_error(path, "holds no private key"))
}

/// A TLS handshake's failure as an I/O error: what tokio-rustls gives when the peer hangs up is of no help.
fn handshake_error(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::new(error.kind(), "the peer closed the connection during the TLS handshake");
    }
    error
}

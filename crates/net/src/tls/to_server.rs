//! TLS as a client.

use std::io;
use std::sync::Arc;

use config::{SendPasswords, ServerTlsMode, TlsVersion};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::verifier::{AnyCertificate, AnyName, ThisCertificate};
use super::{Pem, TlsError, and_above, configuration, provider, read_certificates, read_key, read_roots};
use crate::{Stream, TlsSocket};

/// The settings of [`ClientTls::new`].
#[derive(Clone, Debug)]
pub struct ClientTlsOptions {
    /// The mode.
    pub mode: ServerTlsMode,
    /// The lowest version that is spoken.
    pub min_version: TlsVersion,
    /// Authorities as PEM; the system's if none. Only the verifying modes look at them.
    pub ca_file: Option<Pem>,
    /// A certificate to show to servers that ask for one (`REQUIRE X509`), as PEM.
    pub certificate_file: Option<Pem>,
    /// Its key, as PEM.
    pub key_file: Option<Pem>,
}

impl Default for ClientTlsOptions {
    /// As a client that was told nothing of TLS.
    fn default() -> ClientTlsOptions {
        let (mode, min_version) = (ServerTlsMode::Preferred, TlsVersion::V12);
        ClientTlsOptions { mode, min_version, ca_file: None, certificate_file: None, key_file: None }
    }
}

impl ClientTlsOptions {
    /// The settings in the table `key` of the configuration.
    pub fn from_config(tls: &config::ServerTls, key: &str) -> ClientTlsOptions {
        ClientTlsOptions {
            mode: tls.mode,
            min_version: tls.min_version,
            ca_file: tls.ca.as_ref().map(Pem::of),
            certificate_file: tls.cert.as_ref().map(Pem::of),
            key_file: tls.key.as_ref().map(|secret| Pem::read_from(format!("{key}.key_file"), secret.expose())),
        }
    }
}

/// How to speak TLS with servers. Cheap to clone; sessions are resumed per server name.
#[derive(Clone, Debug)]
pub struct ClientTls {
    mode: ServerTlsMode,
    config: Option<Arc<ClientConfig>>,
    passwords: SendPasswords,
}

impl ClientTls {
    /// No TLS.
    pub fn disabled() -> ClientTls {
        ClientTls { mode: ServerTlsMode::Disabled, config: None, passwords: SendPasswords::Any }
    }

    /// Reads what is named and makes a configuration.
    ///
    /// # Errors
    /// A file is missing or holds something else.
    pub fn new(options: &ClientTlsOptions) -> Result<ClientTls, TlsError> {
        let mode = options.mode;
        if mode == ServerTlsMode::Disabled {
            return Ok(ClientTls::disabled());
        }
        let provider = provider();
        let verifier: Arc<dyn ServerCertVerifier> = match mode {
            ServerTlsMode::Disabled | ServerTlsMode::Preferred | ServerTlsMode::Required => {
                Arc::new(AnyCertificate::new(provider.signature_verification_algorithms))
            }
            ServerTlsMode::VerifyCa => {
                Arc::new(AnyName::new(roots(options)?, provider.signature_verification_algorithms))
            }
            ServerTlsMode::VerifyIdentity => {
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots(options)?), provider.clone())
                    .build()
                    .map_err(configuration)?
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(and_above(options.min_version))
            .map_err(configuration)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match (&options.certificate_file, &options.key_file) {
            (Some(certificate), Some(key)) => {
                let chain = read_certificates(certificate)?;
                builder.with_client_auth_cert(chain, read_key(key)?).map_err(configuration)?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(TlsError::HalfPair),
        };
        Ok(ClientTls { mode, config: Some(Arc::new(config)), passwords: SendPasswords::Any })
    }

    /// TLS with the server that has the first certificate of this PEM, and its key; names and authorities do not matter.
    ///
    /// # Errors
    /// It holds no certificate.
    pub fn pinned(certificate: &Pem) -> Result<ClientTls, TlsError> {
        let leaf = read_certificates(certificate)?.swap_remove(0);
        let provider = provider();
        let verifier = ThisCertificate::new(leaf, provider.signature_verification_algorithms);
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(and_above(TlsVersion::V12))
            .map_err(configuration)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let mode = ServerTlsMode::VerifyCa;
        Ok(ClientTls { mode, config: Some(Arc::new(config)), passwords: SendPasswords::Any })
    }

    /// The same, with servers told passwords as this says.
    pub fn telling(self, passwords: SendPasswords) -> ClientTls {
        ClientTls { passwords, ..self }
    }

    /// Which servers are told passwords.
    pub fn passwords(&self) -> SendPasswords {
        self.passwords
    }

    /// Certificates are verified.
    pub fn verifies(&self) -> bool {
        matches!(self.mode, ServerTlsMode::VerifyCa | ServerTlsMode::VerifyIdentity)
    }

    /// The mode.
    pub fn mode(&self) -> ServerTlsMode {
        self.mode
    }

    /// TLS is to be spoken with a server that has it.
    pub fn is_wanted(&self) -> bool {
        self.mode != ServerTlsMode::Disabled
    }

    /// A server without TLS is to be refused.
    pub fn is_required(&self) -> bool {
        !matches!(self.mode, ServerTlsMode::Disabled | ServerTlsMode::Preferred)
    }

    /// Runs the TLS handshake with the server called `host`. Has no time limit of its own.
    ///
    /// # Errors
    /// The handshake failed; most often the certificate did not please.
    pub(crate) async fn connect(&self, tcp: TcpStream, host: &str) -> io::Result<Stream> {
        let Some(config) = self.config.clone() else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "TLS is disabled"));
        };
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            // Names that no certificate can hold do not matter where the name is not verified.
            Err(_) if self.mode != ServerTlsMode::VerifyIdentity => ServerName::from(tcp.peer_addr()?.ip()),
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        };
        let tls =
            TlsConnector::from(config).connect(name, TlsSocket::from(tcp)).await.map_err(super::handshake_error)?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }
}

fn roots(options: &ClientTlsOptions) -> Result<RootCertStore, TlsError> {
    match &options.ca_file {
        Some(pem) => read_roots(pem),
        None => {
            let mut roots = RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                let reasons = if reasons.is_empty() { "none found".into() } else { reasons.join("; ") };
                return Err(TlsError::SystemRoots(reasons));
            }
            Ok(roots)
        }
    }
}

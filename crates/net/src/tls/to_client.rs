//! TLS as a server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::self_made::SelfMade;
use super::{Pem, TlsError, configuration, file_error, handshake_error, provider, read_certificates, read_key};
use crate::Stream;

/// What a listener offers to its clients. Cheap to clone; sessions may be resumed.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Takes the certificate chain and the key from PEM files.
    ///
    /// # Errors
    /// A file cannot be read, or key and certificate do not fit.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<ServerTls, TlsError> {
        ServerTls::from_pems(&certificate.into(), &key.into())
    }

    /// Takes the certificate chain and the key from PEM text.
    ///
    /// # Errors
    /// One of them is no PEM of its kind, or they do not fit.
    pub fn from_pems(certificate: &Pem, key: &Pem) -> Result<ServerTls, TlsError> {
        ServerTls::new(read_certificates(certificate)?, read_key(key)?)
    }

    /// Makes a certificate for these names and localhost, which lives in memory as long as this value. Clients that
    /// verify will refuse it.
    ///
    /// # Errors
    /// A name is no name, or there is no randomness.
    pub fn self_made(names: &[String]) -> Result<ServerTls, TlsError> {
        ServerTls::from_pem(&SelfMade::new(names)?)
    }

    /// Like [`ServerTls::self_made`], kept in files: clients that trust the certificate go on to after a restart. The
    /// files are made when neither exists.
    ///
    /// # Errors
    /// Only one file exists, or they cannot be read or written.
    pub fn self_made_in(names: &[String], certificate: &Path, key: &Path) -> Result<ServerTls, TlsError> {
        match (certificate.exists(), key.exists()) {
            (true, true) => ServerTls::from_files(certificate, key),
            (false, false) => {
                let made = SelfMade::new(names)?;
                made.write(certificate, key)?;
                ServerTls::from_pem(&made)
            }
            (true, false) => Err(file_error(key, "missing, but its certificate exists")),
            (false, true) => Err(file_error(certificate, "missing, but its key exists")),
        }
    }

    /// Runs the TLS handshake with a client that asked for it. Has no time limit of its own.
    ///
    /// # Errors
    /// The handshake failed, or the stream is no plain TCP.
    pub async fn accept(&self, stream: Stream) -> io::Result<Stream> {
        let Stream::Plain(tcp) = stream else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "TLS is spoken over plain TCP only"));
        };
        let tls = TlsAcceptor::from(self.config.clone()).accept(tcp).await.map_err(handshake_error)?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }

    /// The rustls configuration.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    fn from_pem(made: &SelfMade) -> Result<ServerTls, TlsError> {
        let certificate = CertificateDer::from_pem_slice(made.certificate.as_bytes()).map_err(configuration)?;
        let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).map_err(configuration)?;
        ServerTls::new(vec![certificate], key)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<ServerTls, TlsError> {
        let provider = provider();
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(configuration)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(configuration)?;
        // Tickets let a client resume on any worker without a cache that the workers would have to share.
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(configuration)?;
        Ok(ServerTls { config: Arc::new(config) })
    }
}

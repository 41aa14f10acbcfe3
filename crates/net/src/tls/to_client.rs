//! TLS as a server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use super::self_made::SelfMade;
use super::{
    Pem, TlsError, TlsVersion, and_above, configuration, file_error, handshake_error, provider, read_certificates,
    read_key, read_roots,
};
use crate::{Stream, TlsSocket};

/// Whether clients are asked for a certificate.
#[derive(Clone, Debug, Default)]
pub enum ClientCertificates {
    /// No.
    #[default]
    NotAsked,
    /// A client may show one of these authorities; one of another is refused.
    Optional(Pem),
    /// A client must show one of these authorities.
    Required(Pem),
}

/// The settings of [`ServerTls::with`], beside a certificate.
#[derive(Clone, Debug)]
pub struct ServerTlsOptions {
    /// The lowest version that is spoken.
    pub min_version: TlsVersion,
    /// Certificates of clients.
    pub clients: ClientCertificates,
}

impl Default for ServerTlsOptions {
    fn default() -> ServerTlsOptions {
        ServerTlsOptions { min_version: TlsVersion::V12, clients: ClientCertificates::NotAsked }
    }
}

/// The TLS of a listener. Cheap to clone; sessions may be resumed.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    fingerprint: [u8; 32],
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
        ServerTls::with(Some((certificate, key)), &ServerTlsOptions::default())
    }

    /// Takes the certificate chain and the key from PEM text; without them it makes a certificate as
    /// [`ServerTls::self_made`] does.
    ///
    /// # Errors
    /// One of the PEMs is not of its kind, or they do not fit.
    pub fn with(own: Option<(&Pem, &Pem)>, options: &ServerTlsOptions) -> Result<ServerTls, TlsError> {
        match own {
            Some((certificate, key)) => ServerTls::new(read_certificates(certificate)?, read_key(key)?, options),
            None => ServerTls::from_pem(&SelfMade::new(&["sqluice".to_owned()])?, options),
        }
    }

    /// The SHA-256 of the certificate that clients see.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Makes a certificate for these names and localhost, which lives in memory as long as this value. Clients that
    /// verify will refuse it.
    ///
    /// # Errors
    /// A name is no name, or there is no randomness.
    pub fn self_made(names: &[String]) -> Result<ServerTls, TlsError> {
        ServerTls::from_pem(&SelfMade::new(names)?, &ServerTlsOptions::default())
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
                ServerTls::from_pem(&made, &ServerTlsOptions::default())
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
        let tls = TlsAcceptor::from(self.config.clone()).accept(TlsSocket::from(tcp)).await.map_err(handshake_error)?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }

    /// The rustls configuration.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    fn from_pem(made: &SelfMade, options: &ServerTlsOptions) -> Result<ServerTls, TlsError> {
        let certificate = CertificateDer::from_pem_slice(made.certificate.as_bytes()).map_err(configuration)?;
        let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).map_err(configuration)?;
        ServerTls::new(vec![certificate], key, options)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        options: &ServerTlsOptions,
    ) -> Result<ServerTls, TlsError> {
        let fingerprint = chain.first().map(|leaf| wire::auth::fingerprint(leaf)).unwrap_or_default();
        let provider = provider();
        let verifier = |authorities: &Pem| {
            let roots = Arc::new(read_roots(authorities)?);
            Ok::<_, TlsError>(WebPkiClientVerifier::builder_with_provider(roots, provider.clone()))
        };
        let verifier = match &options.clients {
            ClientCertificates::NotAsked => WebPkiClientVerifier::no_client_auth(),
            ClientCertificates::Optional(authorities) => {
                verifier(authorities)?.allow_unauthenticated().build().map_err(configuration)?
            }
            ClientCertificates::Required(authorities) => verifier(authorities)?.build().map_err(configuration)?,
        };
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(and_above(options.min_version))
            .map_err(configuration)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(configuration)?;
        // Tickets let a client resume on any worker without a cache that the workers would have to share.
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(configuration)?;
        Ok(ServerTls { config: Arc::new(config), fingerprint })
    }
}

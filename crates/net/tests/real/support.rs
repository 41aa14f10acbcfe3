//! Helpers of the tests with real servers and clients.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::Server;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sqluice_net::client::Target;
use sqluice_net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode};
use sqluice_net::{Address, query};
use tempfile::TempDir;
use wire::auth::Credential;
use wire::handshake::client::LoginRequest;

pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn tcp(server: &Server) -> Target {
    let address = server.address();
    Target::plain(Address::Tcp { host: address.ip().to_string(), port: address.port() }, TIMEOUT)
}

pub(super) fn unix(server: &Server) -> Target {
    Target::plain(Address::Unix(server.socket_path()), TIMEOUT)
}

pub(super) fn with_tls(target: Target, mode: ServerTlsMode, ca: Option<&Path>) -> Target {
    let options = ClientTlsOptions { mode, ca_file: ca.map(Into::into), ..ClientTlsOptions::default() };
    Target { tls: ClientTls::new(&options).unwrap(), ..target }
}

pub(super) fn login(user: &str, password: &str) -> LoginRequest {
    query::login(user, Credential::password(password))
}

/// A certificate authority and certificates that it signed, as files.
pub(super) struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Authority {
        let folder = TempDir::new().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { folder, issuer }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Signs a certificate for one name; gives the files of certificate and key.
    pub(super) fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let (certificate_file, key_file) =
            (self.folder.path().join(format!("{name}.pem")), self.folder.path().join(format!("{name}.key")));
        std::fs::write(&certificate_file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        (certificate_file, key_file)
    }
}

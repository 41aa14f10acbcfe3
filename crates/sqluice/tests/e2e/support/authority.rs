//! A certificate authority for tests.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// A certificate authority, and certificates that it signed, as files.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Authority {
        let folder = TempDir::new().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "e2e authority");
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { folder, issuer }
    }

    /// The authority's own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Signs a certificate for 127.0.0.1; writes it and its key where it is told.
    pub fn sign_into(&self, certificate_file: &Path, key_file: &Path) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "127.0.0.1");
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(certificate_file, certificate.pem()).unwrap();
        std::fs::write(key_file, key.serialize_pem()).unwrap();
    }

    /// Signs a certificate for 127.0.0.1; gives the files of certificate and key.
    pub fn sign(&self) -> (PathBuf, PathBuf) {
        let (certificate, key) = (self.folder.path().join("server.pem"), self.folder.path().join("server.key"));
        self.sign_into(&certificate, &key);
        (certificate, key)
    }
}

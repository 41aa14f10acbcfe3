//! A certificate authority for tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// A certificate authority, and certificates that it signed, as files.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Certificates with files of their own.
    signed: AtomicU32,
}

impl Authority {
    pub fn new() -> Authority {
        let folder = TempDir::new().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "e2e authority");
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { folder, issuer, signed: AtomicU32::new(0) }
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

    /// Signs a certificate for 127.0.0.1; gives the files of certificate and key, which are of this call alone: servers that
    /// start at the same time read their own.
    pub fn sign(&self) -> (PathBuf, PathBuf) {
        let number = self.signed.fetch_add(1, Ordering::Relaxed);
        let file = |end: &str| self.folder.path().join(format!("server{number}.{end}"));
        let (certificate, key) = (file("pem"), file("key"));
        self.sign_into(&certificate, &key);
        (certificate, key)
    }
}

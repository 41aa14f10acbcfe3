//! A certificate that Sqluice makes itself, so that clients have TLS without anybody having done anything.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256};
use zeroize::Zeroizing;

use super::{TlsError, file_error};

/// A certificate and its key as PEM.
pub(super) struct SelfMade {
    pub(super) certificate: String,
    pub(super) key: Zeroizing<String>,
}

impl SelfMade {
    /// Makes a certificate for these names and for this machine's own.
    pub(super) fn new(names: &[String]) -> Result<SelfMade, TlsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut all: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(Into::into).into();
        all.extend(names.iter().filter(|name| !all.contains(name)).cloned().collect::<Vec<_>>());
        let mut parameters = CertificateParams::new(all)?;
        let name = names.first().map_or("sqluice", String::as_str);
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.distinguished_name.push(DnType::OrganizationName, "Sqluice self-made certificate");
        parameters.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let certificate = parameters.self_signed(&key)?.pem();
        Ok(SelfMade { certificate, key: Zeroizing::new(key.serialize_pem()) })
    }

    /// Writes both files; the key is for the owner's eyes only, and written first, so that a certificate never stands
    /// without it.
    pub(super) fn write(&self, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        write_private(key, self.key.as_bytes()).map_err(|error| file_error(key, error))?;
        fs::write(certificate, &self.certificate).map_err(|error| file_error(certificate, error))
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

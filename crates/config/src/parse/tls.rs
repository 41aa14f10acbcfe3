//! `tls` of those that Sqluice connects to.

use super::secrets;
use crate::read::{Reader, Table};
use crate::settings::{Setting, tls as keys};
use crate::{ServerTls, ServerTlsMode, TlsVersion};

/// A table `tls` with this setting as its `mode`.
pub(super) fn read(reader: &mut Reader, table: &Table, mode: &'static Setting) -> ServerTls {
    let mode = reader.choice(table, mode, ServerTlsMode::ALL, ServerTlsMode::word);
    let mode = mode.unwrap_or(ServerTlsMode::VerifyIdentity);
    secrets::paired(reader, table, &keys::CERT_FILE, &keys::KEY_FILE);
    let tls = ServerTls {
        mode,
        min_version: reader
            .choice(table, &keys::MIN_VERSION, TlsVersion::ALL, TlsVersion::word)
            .unwrap_or(TlsVersion::V12),
        ca: secrets::certificate(reader, table, &keys::CA_FILE),
        cert: secrets::certificate(reader, table, &keys::CERT_FILE),
        key: secrets::private_key(reader, table, &keys::KEY_FILE),
    };
    let checks_nothing = matches!(mode, ServerTlsMode::Disabled | ServerTlsMode::Preferred | ServerTlsMode::Required);
    if tls.ca.is_some() && checks_nothing {
        let message = format!("with mode = \"{mode}\" no certificate is checked, so this file has no effect");
        reader.warn(table.place(&keys::CA_FILE), table.key(&keys::CA_FILE), message);
    }
    tls
}

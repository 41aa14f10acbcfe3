//! The TLS of the admin listener and of the SQL console.

use admin::AdminTls;
use anyhow::Context as _;
use config::{Config, TlsMode};
use net::tls::{Pem, ServerTls, ServerTlsOptions};

/// The certificate that clients of both see.
pub(super) struct OperatorTls {
    /// As the configuration has it.
    wanted: config::AdminTls,
    tls: ServerTls,
}

impl OperatorTls {
    /// Takes the certificate of `[admin.tls]`, or makes one.
    ///
    /// # Errors
    /// The certificate is of no use.
    pub(super) fn new(config: &Config) -> anyhow::Result<OperatorTls> {
        let wanted = config.admin.as_ref().map(|admin| admin.tls.clone()).unwrap_or_default();
        let options = ServerTlsOptions { min_version: wanted.min_version, ..ServerTlsOptions::default() };
        let tls = match (&wanted.cert, &wanted.key) {
            (Some(cert), Some(key)) => {
                let key = Pem::read_from("admin.tls.key_file", key.expose());
                ServerTls::with(Some((&Pem::of(cert), &key)), &options)
            }
            _ => ServerTls::with(None, &options),
        };
        Ok(OperatorTls { tls: tls.context("admin.tls")?, wanted })
    }

    /// The same for a new configuration. A certificate that Sqluice has made stays: clients may have remembered it.
    ///
    /// # Errors
    /// As [`OperatorTls::new`].
    pub(super) fn renewed(&self, config: &Config) -> anyhow::Result<OperatorTls> {
        let wanted = config.admin.as_ref().map(|admin| admin.tls.clone()).unwrap_or_default();
        let is_kept = wanted.cert.is_none() && self.wanted.cert.is_none();
        if is_kept && wanted.min_version == self.wanted.min_version {
            return Ok(OperatorTls { tls: self.tls.clone(), wanted });
        }
        OperatorTls::new(config)
    }

    /// That of the admin listener.
    pub(super) fn of_http(&self) -> AdminTls {
        let tls = (self.wanted.mode != TlsMode::Off).then(|| self.tls.clone());
        AdminTls { tls, is_required: self.wanted.mode == TlsMode::Required }
    }

    /// That of the SQL console, which always offers it.
    pub(super) fn of_console(&self) -> ServerTls {
        self.tls.clone()
    }
}

//! The limits of the configuration that are shown beside their uses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use config::{Config, Pem};
use x509_parser::pem::Pem as PemBlock;

/// The limits of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerLimits {
    /// Its name.
    pub(crate) listener: Arc<str>,
    /// Most sessions at a time.
    pub(crate) sessions_max: u32,
    /// The end of its certificate, in seconds since 1970; `None` for one that Sqluice has made.
    pub(crate) certificate_ends_at_s: Option<i64>,
}

/// Most connections by cluster and server; 0 is no limit.
pub(crate) type ServerLimits = BTreeMap<(Arc<str>, Arc<str>), u32>;

/// The end of the admin listener's certificate, in seconds since 1970, if the operator has given one.
pub(crate) fn admin_certificate_end(config: &Config) -> Option<i64> {
    config.admin.as_ref()?.tls.cert.as_ref().and_then(certificate_end)
}

/// The limits of the listeners, in the order of their names.
pub(crate) fn of_listeners(config: &Config) -> Arc<[ListenerLimits]> {
    let limits = config.listeners.iter().map(|(name, listener)| ListenerLimits {
        listener: name.clone(),
        sessions_max: listener.max_sessions,
        certificate_ends_at_s: listener.tls.cert.as_ref().and_then(certificate_end),
    });
    limits.collect()
}

/// The limits of connections to servers: the narrower one of a server's own and of the pool's.
pub(crate) fn of_servers(config: &Config) -> ServerLimits {
    let mut limits = ServerLimits::new();
    for (cluster, settings) in &config.clusters {
        for (name, server) in &settings.servers {
            let all = [server.max_connections, settings.pool.max_connections_per_server];
            let narrowest = all.into_iter().filter(|limit| *limit > 0).min().unwrap_or(0);
            limits.insert((cluster.clone(), name.clone()), narrowest);
        }
    }
    limits
}

/// The end of the first certificate of a file: that of the listener itself.
fn certificate_end(pem: &Pem) -> Option<i64> {
    let block = PemBlock::iter_from_buffer(&pem.text).flatten().find(|block| block.label == "CERTIFICATE")?;
    Some(block.parse_x509().ok()?.validity().not_after.timestamp())
}

/// The reloads of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    /// Those that took effect.
    pub(crate) good: AtomicU64,
    /// Those that were refused.
    pub(crate) refused: AtomicU64,
    /// The last one was refused.
    pub(crate) last_was_refused: AtomicBool,
    /// When the configuration of now took effect, in seconds since 1970.
    pub(crate) good_at_s: AtomicU64,
}

impl Reloads {
    /// A configuration took effect, at a start or a reload.
    pub(crate) fn takes_effect(&self) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.good_at_s.store(now_s, Ordering::Relaxed);
    }

    /// A reload is over.
    pub(crate) fn note(&self, is_good: bool) {
        let count = if is_good { &self.good } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        self.last_was_refused.store(!is_good, Ordering::Relaxed);
    }
}

//! The parts of the process that the console shows.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use admin::{Clusters, Growth, Orders, Sessions, Status};
use cache::Store;
use config::Config;
use events::{Admin, Events};
use net::tls::ServerTls;
use stats::digests::DigestSource;

use crate::keys::Keys;

/// The parts of the process that the console shows: the same handles that the API has.
#[derive(Clone)]
pub struct Sources {
    /// The counters of each worker.
    pub workers: stats::Workers,
    /// The costs of statements.
    pub digests: Arc<dyn DigestSource>,
    /// The result cache.
    pub cache: Arc<Store>,
    /// Events of queries and logins.
    pub events: Arc<Events>,
    /// The sessions of clients.
    pub sessions: Arc<dyn Sessions>,
    /// All that is known of the clusters.
    pub status: Arc<dyn Status>,
    /// The growth of digests since the history's last look at them.
    pub growth: Arc<dyn Growth>,
    /// Where orders go: the API of this process.
    pub orders: Arc<dyn Orders>,
}

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) sources: Sources,
    pub(crate) started: SystemTime,
    settings: RwLock<Arc<Settings>>,
}

/// The values that a reload changes.
pub(crate) struct Settings {
    pub(crate) keys: Keys,
    pub(crate) config: Config,
    /// TLS, if it is offered.
    pub(crate) tls: Option<ServerTls>,
    /// A client without TLS is refused.
    pub(crate) is_tls_required: bool,
}

impl Shared {
    pub(crate) fn new(config: &Config, tls: Option<ServerTls>, sources: Sources) -> Shared {
        Shared { sources, started: SystemTime::now(), settings: RwLock::new(Arc::new(Settings::of(config, tls))) }
    }

    pub(crate) fn reload(&self, config: &Config, tls: Option<ServerTls>) {
        self.take(Settings::of(config, tls));
    }

    pub(crate) fn take(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes an event of an order or a login, with its result.
    pub(crate) fn note(&self, role: String, client: &str, action: String, ok: bool, result: String) {
        let (client, order) = (client.to_owned(), String::new());
        self.sources.events.put(Admin { way: "console", role, client, action, order, ok, result }.into());
    }

    pub(crate) fn clusters(&self) -> Clusters {
        self.sources.status.clusters()
    }
}

impl Settings {
    pub(crate) fn of(config: &Config, tls: Option<ServerTls>) -> Settings {
        let mode = config.admin.as_ref().map(|admin| admin.tls.mode);
        let is_tls_required = mode == Some(config::TlsMode::Required);
        Settings { keys: Keys::of(config), config: config.clone(), tls, is_tls_required }
    }

    /// The file of the history, if it is kept.
    pub(crate) fn history(&self) -> Option<PathBuf> {
        Some(self.config.history.as_ref()?.path.to_path_buf())
    }
}

//! The state that requests read: the parts of the process, and the settings that a reload changes.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use ::cache::{CountedWrites, Store, Warmer};
use config::{Config, Rule};
use events::Events;
use stats::digests::DigestSource;
use tier::Tier;

use super::access::{Access, ChangeRecord, Record};
use super::explain::{Explainer, KeptPlan, KeptPlans};
use super::history::Keeper;
use super::limits::{self, ListenerLimits, Reloads, ServerLimits};
use super::secured::TlsNow;
use super::sessions::{Listed, Sessions};
use super::status::{Clusters, Status};
use super::steering::Steering;

/// The parts of the process that the admin listener shows, and those that take commands.
pub struct Sources {
    /// The counters of each worker.
    pub workers: stats::Workers,
    /// The costs of statements.
    pub digests: Arc<dyn DigestSource>,
    /// The result cache; `None` without a data plane.
    pub cache: Option<ResultCache>,
    /// The shared tier of the result cache.
    pub tier: Option<Arc<Tier>>,
    /// Events of queries and logins; `None` without a data plane.
    pub events: Option<Arc<Events>>,
    /// The sessions of clients; `None` without a data plane.
    pub sessions: Option<Arc<dyn Sessions>>,
    /// All that is known of the clusters.
    pub status: Arc<dyn Status>,
    /// Where commands go.
    pub steering: Arc<dyn Steering>,
    /// Has servers explain statements; `None` without a control plane of this process.
    pub explainer: Option<Arc<dyn Explainer>>,
}

/// The result cache of the process.
pub struct ResultCache {
    /// The cached results.
    pub store: Arc<Store>,
    /// Fills it from files.
    pub warmer: Arc<dyn Warmer>,
    /// The writes that invalidated cached results, of each cluster.
    pub writes: Arc<dyn CountedWrites>,
}

/// The state that all requests share.
pub(super) struct Shared {
    pub(super) workers: stats::Workers,
    pub(super) digests: Arc<dyn DigestSource>,
    pub(super) cache: Option<ResultCache>,
    pub(super) tier: Option<Arc<Tier>>,
    pub(super) events: Option<Arc<Events>>,
    pub(super) sessions: Option<Arc<dyn Sessions>>,
    pub(super) steering: Arc<dyn Steering>,
    pub(super) explainer: Option<Arc<dyn Explainer>>,
    /// The last list of sessions.
    pub(super) listed: Listed,
    /// The plans that were asked for.
    pub(super) plans: KeptPlans,
    pub(super) draining: AtomicBool,
    /// The history, if it is kept.
    pub(super) history: OnceLock<Keeper>,
    pub(super) started: SystemTime,
    /// The TLS of the listener.
    pub(super) tls: TlsNow,
    status: Arc<dyn Status>,
    /// The keys, and the logins of the page.
    pub(super) access: Access,
    /// The newest changes.
    pub(super) record: Record,
    /// The reloads of the configuration.
    pub(super) reloads: Reloads,
    listeners: RwLock<Arc<[ListenerLimits]>>,
    servers: RwLock<Arc<ServerLimits>>,
    certificate_ends_at_s: RwLock<Option<i64>>,
    rules: RwLock<Arc<[Rule]>>,
}

impl Shared {
    pub(super) fn new(config: &Config, sources: Sources) -> Shared {
        let Sources { workers, digests, cache, tier, events, sessions, status, steering, explainer } = sources;
        let (draining, started) = (AtomicBool::new(false), SystemTime::now());
        let (access, record) = (Access::default(), Record::default());
        let (rules, history, reloads) = (RwLock::default(), OnceLock::new(), Reloads::default());
        let (listeners, servers) = (RwLock::default(), RwLock::default());
        let shared = Shared {
            workers,
            digests,
            cache,
            tier,
            events,
            sessions,
            steering,
            explainer,
            listed: Listed::default(),
            plans: KeptPlans::default(),
            draining,
            history,
            started,
            tls: TlsNow::default(),
            status,
            access,
            record,
            reloads,
            listeners,
            servers,
            certificate_ends_at_s: RwLock::default(),
            rules,
        };
        shared.reload(config);
        shared
    }

    /// Keeps a plan for those who ask for it, and in the history.
    pub(super) fn keep_plan(&self, plan: KeptPlan) {
        if let Some(keeper) = self.history.get() {
            keeper.keep_plan(plan.as_seen());
        }
        self.plans.keep(plan);
    }

    /// Records a change, and makes an event of it.
    pub(super) fn note(&self, change: ChangeRecord) {
        if let Some(events) = &self.events {
            events.put(change.as_event().into());
        }
        self.record.note(change);
    }

    /// Takes the keys and the rules of a new configuration.
    pub(super) fn reload(&self, config: &Config) {
        self.access.set_keys(config.admin.as_ref().map(|admin| admin.keys.clone()).unwrap_or_default());
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = config.rules.clone();
        *self.listeners.write().unwrap_or_else(PoisonError::into_inner) = limits::of_listeners(config);
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits::of_servers(config));
        *self.certificate_ends_at_s.write().unwrap_or_else(PoisonError::into_inner) =
            limits::admin_certificate_end(config);
        self.reloads.takes_effect();
    }

    /// The clusters that are watched now.
    pub(super) fn clusters(&self) -> Clusters {
        self.status.clusters()
    }

    /// The rules that are in effect.
    pub(super) fn rules(&self) -> Arc<[Rule]> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The limits of the listeners.
    pub(super) fn listeners(&self) -> Arc<[ListenerLimits]> {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The end of the admin listener's certificate, in seconds since 1970, if the operator has given one.
    pub(super) fn admin_certificate_end(&self) -> Option<i64> {
        *self.certificate_ends_at_s.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits of connections to servers.
    pub(super) fn servers(&self) -> Arc<ServerLimits> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The writes that invalidated cached results, of each cluster, in the order of their names.
    pub(super) fn cache_writes(&self) -> Vec<(Arc<str>, ::cache::Writes)> {
        let mut writes = self.cache.as_ref().map(|cache| cache.writes.writes()).unwrap_or_default();
        writes.sort_by(|(one, _), (other, _)| one.cmp(other));
        writes
    }
}

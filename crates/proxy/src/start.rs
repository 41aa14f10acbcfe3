//! Starting and stopping the data plane.

mod reload;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use config::Config;
use facts::published::Published;
use stats::WorkerStats;
use stats::digests::DigestSource;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{mpsc, watch};

use crate::event_loop;
use crate::listener::{self, Bound};
use crate::login_log::LoginLog;
use crate::login_memory::LoginMemory;
use crate::operator::Operator;
use crate::relief;
use crate::sessions::Sessions;
use crate::shared::{ClusterShared, Digests, FileShares, ListenerShared, Mail, Mailboxes, Shared, Warming};
use policy::rules::RuleSet;
use route::{Pin, Reason};
use settings::{caches, cluster_settings, listener_tls};

/// How often a drain looks whether sessions have ended.
const DRAIN_PACE: Duration = Duration::from_millis(50);

/// Why the data plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be bound.
    #[error("listener.{name}.address: cannot listen on {address}: {error}")]
    Bind {
        /// The listener.
        name: Arc<str>,
        /// Its address.
        address: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// TLS settings are of no use.
    #[error("{key}: {error}")]
    Tls {
        /// The key in the configuration.
        key: String,
        /// The cause.
        error: net::tls::TlsError,
    },
    /// Rules cannot be put together.
    #[error("rule: {0}")]
    Rules(String),
    /// A thread or its event loop could not be made.
    #[error("cannot start a worker: {0}")]
    Worker(#[from] std::io::Error),
}

/// The running data plane.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    mailboxes: Mailboxes,
    listeners: Mutex<BTreeMap<Arc<str>, Running>>,
    workers: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<ListenerShared>,
    address: String,
    stop: watch::Sender<bool>,
}

/// The part of each cluster that workers share. They get each publication.
fn clusters(
    config: &Config,
    published: &HashMap<Arc<str>, Arc<Published>>,
    mailboxes: &Mailboxes,
) -> Result<HashMap<Arc<str>, Arc<ClusterShared>>, StartError> {
    let mut clusters = HashMap::new();
    for (name, published) in published {
        let Some(settings) = cluster_settings(config, name)? else { continue };
        let cluster = ClusterShared::new(name.clone(), published.clone(), settings, mailboxes.clone());
        clusters.insert(name.clone(), Arc::new(cluster));
        let (mailboxes, name) = (mailboxes.clone(), name.clone());
        published.subscribe(Box::new(move || {
            for mailbox in mailboxes.iter() {
                // A worker that has ended needs no news.
                let _ = mailbox.send(Mail::Published(name.clone()));
            }
        }));
    }
    Ok(clusters)
}

/// How many workers there will be.
pub fn workers(config: &Config) -> usize {
    match config.proxy.workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count => count,
    }
}

/// A thread for each worker.
fn spawn_workers(
    shared: &Arc<Shared>,
    inboxes: Vec<UnboundedReceiver<Mail>>,
    rings: Vec<events::Ring>,
) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let rings = rings.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
    let spawn = |((index, inbox), ring)| {
        let shared = shared.clone();
        std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            if let Err(error) = event_loop::run(index, shared, inbox, ring) {
                tracing::error!(worker = index, %error, "a worker could not run");
            }
        })
    };
    inboxes.into_iter().enumerate().zip(rings).map(spawn).collect()
}

impl Proxy {
    /// Starts workers and listeners. Each worker gets one of the rings for its events; without a ring it makes none. Must be called on the control plane's runtime, which also accepts clients.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then but workers without clients, which end with this value.
    pub async fn start(
        config: Config,
        published: &HashMap<Arc<str>, Arc<Published>>,
        tier: Option<Arc<tier::Tier>>,
        rings: Vec<events::Ring>,
    ) -> Result<Proxy, StartError> {
        let count = workers(&config);
        let stats = (0..count).map(|_| Arc::new(WorkerStats::new(Pin::WORDS, Reason::WORDS))).collect();
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let mailboxes: Mailboxes = mailboxes.into();
        let clusters = clusters(&config, published, &mailboxes)?;
        let rules = RuleSet::new(&config.rules).map_err(StartError::Rules)?.map(Arc::new);
        if tier.is_some() {
            // Other processes may keep the tables that are written here: writes are reported from the beginning, and by table.
            clusters
                .values()
                .for_each(|cluster: &Arc<ClusterShared>| _ = cluster.epochs.get_or_init(cache::WriteCounters::default));
        }
        if tier.is_some() || caches(&config.rules) {
            published.values().for_each(|published| published.watch_tables());
        }
        crate::follow::begin(&config, clusters.values(), tier.as_ref());
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let bounds = cache::Bounds {
            memory_max: size(config.cache.memory_max),
            entry_max: size(config.cache.entry_max.min(config.cache.memory_max / 4)),
        };
        let shared = Arc::new(Shared {
            cache: Arc::new(cache::Store::new(bounds)),
            clusters: RwLock::new(clusters),
            rules: ArcSwapOption::new(rules),
            sessions: Sessions::default(),
            stats,
            worker_clients: (0..count).map(|_| Arc::new(AtomicU32::new(0))).collect(),
            rsa: OnceLock::new(),
            login_log: LoginLog::default(),
            started: Instant::now(),
            seconds: watch::Sender::default(),
            tier,
            login_memory: Arc::new(LoginMemory::new(config.proxy.login_memory_max)),
            clients: Arc::default(),
            files: ArcSwap::from_pointee(FileShares::default()),
            prepared_bytes: Arc::default(),
            command_bytes: Arc::default(),
            addresses: Arc::default(),
            user_sessions: Mutex::default(),
            warming: Warming::default(),
            config: ArcSwap::from_pointee(config),
        });
        let workers = spawn_workers(&shared, inboxes, rings)?;
        tokio::spawn(event_loop::tell_seconds(Arc::downgrade(&shared)));
        if count > 1 {
            tokio::spawn(relief::watch(Arc::downgrade(&shared), mailboxes.clone()));
        }
        let proxy = Proxy { shared, mailboxes, listeners: Mutex::default(), workers: Mutex::new(workers) };
        let config = proxy.shared.config.load_full();
        for (name, listener) in &config.listeners {
            proxy.listen(name, listener).await?;
        }
        Ok(proxy)
    }

    async fn listen(&self, name: &Arc<str>, settings: &config::Listener) -> Result<(), StartError> {
        let Some(cluster) = self.shared.cluster(&settings.cluster) else { return Ok(()) };
        let tls = listener_tls(name, settings)?;
        let failed = |error| StartError::Bind { name: name.clone(), address: settings.address.to_string(), error };
        let address = settings
            .address
            .to_string()
            .parse()
            .map_err(|error| failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, format!("{error}"))))?;
        let bound = Bound::bind(&address, settings).await.map_err(failed)?;
        let address = bound.address().map_err(failed)?;
        let shared = Arc::new(ListenerShared {
            name: name.clone(),
            settings: ArcSwap::from_pointee(settings.clone()),
            tls: ArcSwap::from_pointee(tls),
            cluster,
            sessions: Arc::new(AtomicU32::new(0)),
        });
        tracing::info!(listener = %name, address, cluster = %settings.cluster, "listening");
        let (stop, stopped) = watch::channel(false);
        let accepting = listener::run(bound, shared.clone(), self.shared.clone(), self.mailboxes.clone(), stopped);
        tokio::spawn(accepting);
        self.listeners().insert(name.clone(), Running { shared, address, stop });
        Ok(())
    }

    fn listeners(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Running>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where clients reach a listener.
    pub fn address(&self, listener: &str) -> Option<String> {
        self.listeners().get(listener).map(|running| running.address.clone())
    }

    /// The counts of all workers.
    pub fn stats(&self) -> stats::Workers {
        self.shared.stats.clone()
    }

    /// Where all workers are asked for their digests.
    pub fn digests(&self) -> Arc<dyn DigestSource> {
        Arc::new(Digests(self.mailboxes.clone()))
    }

    /// The answers that are kept.
    pub fn cache(&self) -> Arc<cache::Store> {
        self.shared.cache.clone()
    }

    /// Where the workers are asked to fill the cache.
    pub fn warmer(&self) -> Arc<dyn cache::Warmer> {
        Arc::new(crate::warm::WarmAll { shared: self.shared.clone(), mailboxes: self.mailboxes.clone() })
    }

    /// Where the writes are counted that end answers.
    pub fn cache_writes(&self) -> Arc<dyn cache::CountedWrites> {
        self.shared.clone()
    }

    /// The sessions in the hands of an operator.
    pub fn operator(&self) -> Operator {
        Operator::of(&self.shared, &self.mailboxes)
    }

    /// All sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.shared.sessions
    }

    /// Takes how the process's files are shared out.
    pub fn share_files(&self, shares: FileShares) {
        let clusters = self.shared.clusters.read().unwrap_or_else(PoisonError::into_inner);
        for (name, cluster) in clusters.iter() {
            cluster.set_files_max(shares.backends_max.get(name).copied().unwrap_or(0));
        }
        drop(clusters);
        self.shared.files.store(Arc::new(shares));
    }

    /// Stops accepting, lets sessions end between transactions, and after `deadline` closes what is left. Gives how many
    /// sessions were closed in the middle of something.
    pub async fn drain(&self, deadline: Duration) -> usize {
        for running in self.listeners().values() {
            let _ = running.stop.send(true);
        }
        for mailbox in self.mailboxes.iter() {
            let _ = mailbox.send(Mail::Drain);
        }
        let end = tokio::time::Instant::now() + deadline;
        loop {
            let sessions = self.shared.sessions.all();
            if sessions.is_empty() {
                return 0;
            }
            sessions.iter().for_each(|session| session.wake.call());
            if tokio::time::Instant::now() >= end {
                sessions.iter().for_each(|session| session.kill());
                return sessions.len();
            }
            tokio::time::sleep(DRAIN_PACE).await;
        }
    }

    /// Waits until all workers have ended, after a drain.
    pub fn join(&self) {
        for worker in self.workers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
    }
}

//! Where both planes meet: the only file that knows the control plane and the data plane.

mod admin_tls;
mod background;
mod console_start;
mod event_settings;
mod reload;
mod sessions;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use admin::{AdminHandle, ResultCache, Sources};
use anyhow::Context as _;
use config::Config;
use console::ConsoleHandle;
use control::{ClusterLink, ControlHandle, Plans};
use events::{Admin, Events, MetricsPush};
use facts::published::Published;
use net::tls::{ClientTls, ClientTlsOptions};
use proxy::Proxy;

use self::admin_tls::OperatorTls;
use self::event_settings::{event_settings, push_targets};
use self::sessions::OperatedSessions;
use crate::limits;

pub use background::Background;
pub use reload::Reloaded;

/// Longest wait for workers to end after their sessions were closed.
const JOIN_LIMIT: Duration = Duration::from_secs(5);

/// Snapshots of each cluster, by name.
pub type PublishedClusters = HashMap<Arc<str>, Arc<Published>>;

/// Both planes, running.
pub struct Running {
    config: Config,
    published: PublishedClusters,
    proxy: Arc<Proxy>,
    control: ControlHandle,
    admin: Option<AdminHandle>,
    console: Option<ConsoleHandle>,
    operator_tls: OperatorTls,
    plans: Arc<Plans>,
    tier: Option<Arc<tier::Tier>>,
    events: Arc<Events>,
    push: Option<MetricsPush>,
}

impl Running {
    /// Starts both planes. Clients are accepted on the runtime that this is called on; it needs I/O and time.
    ///
    /// # Errors
    /// An address cannot be listened on, a certificate is of no use, or the system has no more threads. Nothing is left
    /// running then.
    pub async fn start(config: Config) -> anyhow::Result<Running> {
        let published: PublishedClusters =
            config.clusters.keys().map(|name| (name.clone(), Arc::new(Published::new(name)))).collect();
        let links = links(&config, &published)?;
        let tier = shared_tier(&config)?;
        let (events, rings) = Events::start(event_settings(&config)?, proxy::workers(&config))?;
        let proxy = Arc::new(Proxy::start(config.clone(), &published, tier.clone(), rings).await?);
        let shares = limits::shares(&config);
        limits::announce(&shares);
        proxy.share_files(shares);
        match operate(&config, &links, &proxy, tier.as_ref(), &events) {
            Ok(Operated { control, admin, console, operator_tls, plans }) => {
                let push = None;
                let mut running = Running {
                    config,
                    published,
                    proxy,
                    control,
                    admin,
                    console,
                    operator_tls,
                    plans,
                    tier,
                    events,
                    push,
                };
                running.push_metrics();
                Ok(running)
            }
            Err(error) => {
                end(&proxy).await;
                Err(error)
            }
        }
    }

    /// Where clients reach each listener: the configured address, with the port that the system chose where it is 0.
    pub fn addresses(&self) -> BTreeMap<Arc<str>, String> {
        let address = |name: &Arc<str>| Some((name.clone(), self.proxy.address(name)?));
        self.config.listeners.keys().filter_map(address).collect()
    }

    /// Where metrics and health are served.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(AdminHandle::address)
    }

    /// Where the SQL console listens.
    pub fn console_address(&self) -> Option<SocketAddr> {
        self.console.as_ref().and_then(ConsoleHandle::address)
    }

    /// The counters of the workers.
    pub fn stats(&self) -> stats::Workers {
        self.proxy.stats()
    }

    /// The clusters' snapshots.
    pub fn published(&self) -> &PublishedClusters {
        &self.published
    }

    /// The configuration in effect.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.proxy.sessions().all().len()
    }

    /// How many sessions have a query that is not over. A session that reads back its state behind the reply is one of them.
    pub fn busy_sessions(&self) -> usize {
        self.proxy.sessions().all().iter().filter(|session| session.state().is_busy()).count()
    }

    /// The sessions, in words for those who look for a fault.
    pub fn session_words(&self) -> Vec<String> {
        self.proxy.sessions().all().iter().map(|session| format!("{session:?}")).collect()
    }

    /// Takes a new configuration without dropping a session, but for what has to wait for the next start.
    ///
    /// # Errors
    /// A certificate is of no use: nothing was changed then.
    pub fn reload(&mut self, new: Config) -> anyhow::Result<Reloaded> {
        let (effective, reloaded) = reload::plan(&self.config, new);
        let links = links(&effective, &self.published)?;
        let tls = self.operator_tls.renewed(&effective)?;
        let event_settings = event_settings(&effective)?;
        // Servers may have new certificates: the operator is here.
        net::known::forget_servers();
        self.proxy.reload(effective.clone())?;
        self.proxy.share_files(limits::shares(&effective));
        self.admin.iter().for_each(|admin| admin.reload(&effective, tls.of_http()));
        self.console.iter().for_each(|console| console.reload(&effective, Some(tls.of_console())));
        self.operator_tls = tls;
        self.control.reload(&effective, &links);
        self.plans.reload(&effective, &links);
        self.events.reload(event_settings);
        self.config = effective;
        self.push_metrics();
        self.note_reload(true, format!("the configuration was read again: {}", reloaded.changes));
        Ok(reloaded)
    }

    /// Has metrics pushed to the collectors that the configuration names. Without one there is no thread for it.
    fn push_metrics(&mut self) {
        let targets = push_targets(&self.config);
        match (&self.push, &self.admin) {
            (Some(push), _) => push.reload(targets),
            (None, Some(admin)) if !targets.is_empty() => {
                let started = MetricsPush::start(admin.metrics_page(), targets);
                self.push = started.inspect_err(|error| tracing::error!(%error, "no thread that pushes metrics")).ok();
            }
            (None, _) => {}
        }
    }

    /// Has the files of events rotated.
    pub fn rotate_events(&self) {
        tracing::info!("the files of events are rotated: SIGUSR1");
        self.events.rotate();
    }

    /// Shows on the page's timeline that the configuration was read again, and makes an event of it.
    pub fn note_reload(&self, is_good: bool, words: String) {
        let reload = Admin {
            way: "signal",
            role: String::new(),
            client: String::new(),
            action: "reload".to_owned(),
            order: String::new(),
            ok: is_good,
            result: words.clone(),
        };
        self.events.put(reload.into());
        if let Some(admin) = &self.admin {
            admin.note_reload(is_good, words);
        }
    }

    /// Takes no new clients, lets sessions end, and after `deadline` closes the others. Gives how many those were.
    pub async fn drain(&self, deadline: Duration) -> usize {
        self.admin.iter().for_each(AdminHandle::drain);
        self.proxy.drain(deadline).await
    }

    /// Closes what is left and ends all threads.
    pub async fn stop(self) {
        end(&self.proxy).await;
        self.events.stop();
        if let Some(push) = self.push {
            push.stop();
        }
        // Nothing is written any more.
        if let Some(tier) = &self.tier {
            tier.stop();
        }
        if let Some(console) = self.console {
            console.shutdown();
        }
        if let Some(admin) = self.admin {
            admin.shutdown();
        }
        self.control.shutdown();
    }
}

/// The control plane, and what operators reach.
struct Operated {
    control: ControlHandle,
    admin: Option<AdminHandle>,
    console: Option<ConsoleHandle>,
    operator_tls: OperatorTls,
    plans: Arc<Plans>,
}

/// Starts the control plane, and the admin listener and the SQL console if they are wanted.
fn operate(
    config: &Config,
    links: &control::Clusters,
    proxy: &Proxy,
    tier: Option<&Arc<tier::Tier>>,
    events: &Arc<Events>,
) -> anyhow::Result<Operated> {
    // A wrong address is reported before a server is watched.
    let bound = config.admin.as_ref().map(|admin| admin::bind(&admin.address)).transpose()?;
    let console = console_start::bind(config)?;
    let operator_tls = OperatorTls::new(config)?;
    let plans = Arc::new(Plans::new(config, links));
    let control = control::start(config, links, proxy.stats())?;
    let Some(bound) = bound else { return Ok(Operated { control, admin: None, console: None, operator_tls, plans }) };
    let sources = Sources {
        workers: proxy.stats(),
        digests: proxy.digests(),
        cache: Some(ResultCache { store: proxy.cache(), warmer: proxy.warmer(), writes: proxy.cache_writes() }),
        tier: tier.cloned(),
        events: Some(events.clone()),
        sessions: Some(Arc::new(OperatedSessions(proxy.operator()))),
        status: control.status(),
        steering: control.steering(),
        explainer: Some(plans.clone()),
    };
    let admin = admin::start(bound, config, operator_tls.of_http(), sources)?;
    let tls = operator_tls.of_console();
    let start =
        |bound| console_start::start(bound, config, tls, proxy, &control, events, (admin.growth(), admin.orders()));
    let console = console.map(start).transpose()?;
    Ok(Operated { control, admin: Some(admin), console, operator_tls, plans })
}

/// Ends the data plane. A session that cannot be closed must not keep the process, so the wait has a limit.
async fn end(proxy: &Arc<Proxy>) {
    proxy.drain(Duration::ZERO).await;
    let (joined, ended) = mpsc::channel();
    let joining = proxy.clone();
    std::thread::spawn(move || {
        joining.join();
        // Nobody listens any more when it took too long.
        let _ = joined.send(());
    });
    if ended.recv_timeout(JOIN_LIMIT).is_err() {
        tracing::warn!("workers did not end within {} s of their last session", JOIN_LIMIT.as_secs());
    }
}

fn links(config: &Config, published: &PublishedClusters) -> anyhow::Result<control::Clusters> {
    let mut links = control::Clusters::new();
    for (name, published) in published {
        let Some(cluster) = config.clusters.get(name) else { continue };
        let key = || format!("cluster.{name}.tls");
        let tls = ClientTls::new(&ClientTlsOptions::from_config(&cluster.tls, &key())).with_context(key)?;
        let tls = tls.telling(cluster.send_passwords);
        let key = || format!("cluster.{name}.etcd.tls");
        let etcd_tls = match cluster.promotion.lease {
            config::Lease::Etcd => {
                ClientTls::new(&ClientTlsOptions::from_config(&cluster.etcd.tls, &key())).with_context(key)?
            }
            config::Lease::Off | config::Lease::Majority => ClientTls::disabled(),
        };
        links.insert(name.clone(), ClusterLink { published: published.clone(), tls, etcd_tls });
    }
    Ok(links)
}

/// The cache's shared tier, if there is one.
fn shared_tier(config: &Config) -> anyhow::Result<Option<Arc<tier::Tier>>> {
    let Some(tier) = &config.cache.tier else { return Ok(None) };
    let key = "cache.tier.tls";
    let largest = config.cache.entry_max.min(config.cache.memory_max / 4);
    let settings = tier::Settings {
        address: tier.address.to_string().parse().context("cache.tier.address")?,
        tls: ClientTls::new(&ClientTlsOptions::from_config(&tier.tls, key)).context(key)?,
        user: tier.user.as_deref().map(str::to_owned),
        password: tier.password.as_ref().map(|password| password.expose().to_vec().into()),
        database: tier.database,
        prefix: tier.prefix.as_ref().to_owned(),
        name: tier.name.as_deref().map(str::to_owned),
        membership: tier.lease,
        timeout: tier.timeout,
        connect_timeout: tier.connect_timeout,
        forget: tier.forget,
        trust: tier.trust,
        entry_max: usize::try_from(largest).unwrap_or(usize::MAX),
    };
    tier::Tier::start(settings).context("cannot start the cache's tier").map(Some)
}

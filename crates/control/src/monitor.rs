//! Watching one cluster: a task that owns the driver, one task for each server's probes, one that writes heartbeats, and
//! short ones that read accounts and dictionaries.

mod accounts;
mod act;
mod catalog;
mod channel_life;
mod details;
pub(crate) mod dialect;
mod follow;
mod grants;
pub(crate) mod heartbeat;
mod late;
pub(crate) mod link;
mod load;
mod ndb;
pub(crate) mod probe;
mod replication_group;
mod settings;
mod tables;
mod tasks;
mod unwritten;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::driver::{Driver, Event, Level, Output};
use cluster::observation::{Observation, ObservationKind};
use facts::changes::ChangeListener;
use facts::lags::Lags;
use facts::published::Published;
use facts::view::{Health, ServerId, ServerIds, View};
use net::tls::ClientTls;
use tokio::sync::{Notify, mpsc, watch};
use wire::proxy_header::Version;

use self::act::Acting;
use self::heartbeat::{Clock, Log, Primary};
use self::link::ServerAccess;
use self::load::Loads;
use self::probe::Probed;
use self::settings::{settings, specs};
use self::tasks::Probing;
use crate::cluster_link::ClusterLink;
use crate::lease::Lease;
use crate::memory::Keeper;
use crate::status::{ClusterStatus, PendingCommand};
use crate::task::{Owned, own};

/// Outcomes that wait for the cluster's task; probers wait when there are more.
const RESULTS_MAX: usize = 64;
/// Longest wait of a process that ends for a lease to be given back.
const LEASE_WAIT: Duration = Duration::from_secs(1);
/// How often time-dependent decisions are looked at.
const TICK: Duration = Duration::from_millis(200);

/// The running watch of a cluster; dropping it ends it.
pub(crate) struct ClusterTask {
    published: Arc<Published>,
    new_config: Rc<RefCell<Option<(config::Cluster, ClusterLink)>>>,
    wake: Arc<Notify>,
    end: Rc<Notify>,
    task: Owned,
}

impl ClusterTask {
    /// Whether this is where it publishes.
    pub(crate) fn watches(&self, published: &Arc<Published>) -> bool {
        Arc::ptr_eq(&self.published, published)
    }

    /// Has the task take another configuration.
    pub(crate) fn reconfigure(&self, cluster: &config::Cluster, link: &ClusterLink) {
        *self.new_config.borrow_mut() = Some((cluster.clone(), link.clone()));
        self.wake.notify_one();
    }

    /// Ends it in good order: steps that run are broken off, and then others may have the lease. That takes as long as [`LEASE_WAIT`]
    /// at most.
    pub(crate) async fn end(self) {
        self.end.notify_one();
        self.task.ended().await;
    }
}

/// Starts watching a cluster. Must be called within a `LocalSet`.
pub(crate) fn spawn(
    name: Arc<str>,
    cluster: &config::Cluster,
    link: &ClusterLink,
    of_process: OfProcess,
) -> ClusterTask {
    let wake = Arc::new(Notify::new());
    let new_config = Rc::new(RefCell::new(None));
    let waker = wake.clone();
    link.published.attach_control(Box::new(move || waker.notify_one()));
    let watched = Watched::new(name, cluster.clone(), link.clone(), of_process);
    let end = Rc::new(Notify::new());
    let (ended, waker, new_config_of_task) = (end.clone(), wake.clone(), new_config.clone());
    let task = own(async move {
        let lease = watched.run(waker, new_config_of_task, &ended).await;
        if let Some(lease) = lease {
            lease.end(LEASE_WAIT).await;
        }
    });
    ClusterTask { published: link.published.clone(), new_config, wake, end, task }
}

/// The parts of the process that a cluster's task uses.
pub(crate) struct OfProcess {
    pub(crate) status: Arc<ClusterStatus>,
    /// Where commands arrive.
    pub(crate) heard: mpsc::Receiver<PendingCommand>,
    pub(crate) workers: stats::Workers,
    /// All clusters take their servers' identities from here.
    pub(crate) server_ids: ServerIds,
}

struct Watched {
    name: Arc<str>,
    config: config::Cluster,
    link: ClusterLink,
    status: Arc<ClusterStatus>,
    driver: Driver,
    clock: Clock,
    heartbeats: Rc<RefCell<Log>>,
    probers: BTreeMap<ServerId, Probing>,
    results: (mpsc::Sender<Probed>, mpsc::Receiver<Probed>),
    primary: watch::Sender<Option<Primary>>,
    writer: Option<Owned>,
    /// Follows the log, while somebody listens.
    changes: Option<(Arc<dyn ChangeListener>, Owned)>,
    loads: Loads,
    heard: mpsc::Receiver<PendingCommand>,
    acting: Acting,
    memory: Keeper,
    /// A primary was published.
    had_primary: bool,
}

impl Watched {
    fn new(name: Arc<str>, config: config::Cluster, link: ClusterLink, of_process: OfProcess) -> Watched {
        let OfProcess { status, heard, workers, server_ids } = of_process;
        let mut driver = Driver::new(settings(&name, &config), specs(&config), server_ids, Instant::now());
        let mut memory = Keeper::new(&name);
        memory.set_journal(config.promotion.journal.as_deref());
        if let Some(kept) = memory.recall() {
            driver.recall(kept);
        }
        Watched {
            driver,
            clock: Clock::new(),
            heartbeats: Rc::new(RefCell::new(Log::new(config.monitor.interval))),
            probers: BTreeMap::new(),
            results: mpsc::channel(RESULTS_MAX),
            primary: watch::Sender::new(None),
            writer: None,
            changes: None,
            loads: Loads::new(name.clone(), link.published.clone(), status.clone()),
            heard,
            acting: Acting::new(workers),
            memory,
            had_primary: false,
            name,
            config,
            link,
            status,
        }
    }

    /// Watches until it shall end; gives the lease then, and drops all else.
    async fn run(
        mut self,
        wake: Arc<Notify>,
        new_config: Rc<RefCell<Option<(config::Cluster, ClusterLink)>>>,
        end: &Notify,
    ) -> Option<Lease> {
        self.start_tasks();
        self.act();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = end.notified() => {
                    self.memory.end();
                    return self.acting.take_lease();
                }
                probed = self.results.1.recv() => if let Some(probed) = probed { self.take(probed) },
                () = wake.notified() => {
                    let new = new_config.borrow_mut().take();
                    if let Some((config, link)) = new {
                        self.reconfigure(config, link);
                    }
                    self.follow_changes();
                    if self.link.published.positions_wanted() {
                        self.probers.values().for_each(|probing| probing.wanted.notify_one());
                    }
                    for evidence in self.link.published.take_evidence() {
                        self.driver.observe(Instant::now(), Observation::of_session(evidence, Instant::now()));
                    }
                }
                _ = tick.tick() => self.driver.tick(Instant::now()),
                loaded = self.loads.finished() => self.loads.take(loaded),
                happened = self.acting.happened() => self.hear(happened),
                Some(command) = self.heard.recv() => self.take_command(command),
            }
            self.act();
        }
    }

    fn take(&mut self, probed: Probed) {
        let Some(name) = self.server_name(probed.id) else { return };
        if let Some(report) = probed.reported {
            self.link.published.publish_position(probed.id, report.position, report.asked);
        }
        if let ObservationKind::Facts(facts) = &probed.seen
            && let Some(galera) = &facts.details.galera
        {
            // Ahead of the view that lets sessions go there.
            self.link.published.publish_group_log(probed.id, galera.log.clone());
        }
        {
            let mut figures = self.status.figures();
            let figures = figures.servers.entry(name).or_default();
            figures.probes += u64::from(matches!(
                probed.seen,
                ObservationKind::Facts(_) | ObservationKind::Failure(_) | ObservationKind::FailedTwice(_)
            ));
            match &probed.seen {
                ObservationKind::Facts(facts) => {
                    figures.probe_time = Some(probed.took);
                    figures.report = Some(act::report(facts));
                    figures.reached = Some(act::reached(facts));
                }
                ObservationKind::Failure(failure) | ObservationKind::FailedTwice(failure) => {
                    figures.count_failure(failure.class)
                }
                ObservationKind::Evidence(_)
                | ObservationKind::CaughtUp(_)
                | ObservationKind::Written
                | ObservationKind::NotWritten(_) => {}
            }
        }
        let Probed { id: server, asked, seen, .. } = probed;
        self.driver.observe(Instant::now(), Observation { server, asked, seen });
    }

    /// Does what the driver wants, and reads what is due.
    fn act(&mut self) {
        while let Some(output) = self.driver.poll_output() {
            match output {
                Output::Publish(view) => self.publish(view),
                Output::Probe(id) => {
                    if let Some(probing) = self.probers.get(&id) {
                        probing.urgent.notify_one();
                    }
                }
                Output::CatchUp(id) => {
                    if let Some(probing) = self.probers.get(&id) {
                        probing.wanted.notify_one();
                    }
                }
                Output::Log(event) => self.log(&event),
                Output::Execute(order) => self.execute(order),
                Output::Journal(entry) => self.note(entry),
                Output::Remember(memory) => self.memory.keep(&memory),
            }
        }
        {
            let mut figures = self.status.figures();
            figures.diagnoses = self.driver.diagnoses().to_vec();
            figures.unsettled = self.driver.unsettled();
            figures.cooldown_until = self.driver.cooldown_until(Instant::now());
            figures.failover_stopped = self.driver.has_stopped();
            let mut lags = Lags::default();
            for (id, spec) in self.driver.servers() {
                let lag = self.driver.lag(id);
                lags.note(id, lag);
                figures.servers.entry(spec.name.clone()).or_default().lag = lag;
            }
            self.link.published.lags.store(Arc::new(lags));
        }
        self.show_lease();
        let sources = self.sources();
        self.loads.start_what_is_due(&self.config, &sources, self.driver.view().primary);
    }

    fn publish(&mut self, view: View) {
        let primary = view.primary.and_then(|id| {
            let server = view.server(id)?;
            Some(Primary { id, name: server.name.clone(), access: self.access(&server.name)? })
        });
        if self.link.published.view.load().epoch < view.epoch && self.had_primary {
            self.status.figures().runs.primary_changes += 1;
        }
        self.had_primary |= view.primary.is_some();
        self.primary.send_if_modified(|current| {
            let changed = current.as_ref().map(|old| old.id) != primary.as_ref().map(|new| new.id);
            if changed {
                *current = primary;
            }
            changed
        });
        self.link.published.publish_view(view);
    }

    fn log(&self, event: &Event) {
        let (cluster, server, text) = (&*self.name, event.server.as_deref().unwrap_or(""), &event.text);
        match event.level {
            Level::Info => tracing::info!(cluster, server, "{text}"),
            Level::Warn => tracing::warn!(cluster, server, "{text}"),
            Level::Error => tracing::error!(cluster, server, "{text}"),
        }
        if event.is_state {
            self.status.note_change(event);
        }
    }

    /// Servers to read accounts and dictionaries from: the primary first, then what is up.
    fn sources(&self) -> Vec<ServerAccess> {
        let view = self.driver.view();
        let mut servers: Vec<_> = view.servers.iter().filter(|server| server.health == Health::Up).collect();
        servers.sort_by_key(|server| Some(server.id) != view.primary);
        servers.into_iter().filter_map(|server| self.access(&server.name)).collect()
    }

    fn access(&self, server: &str) -> Option<ServerAccess> {
        access(&self.config, &self.link.tls, server)
    }

    fn server_name(&self, id: ServerId) -> Option<Arc<str>> {
        self.driver.servers().find(|(known, _)| *known == id).map(|(_, spec)| spec.name.clone())
    }

    fn reconfigure(&mut self, config: config::Cluster, link: ClusterLink) {
        let acts_otherwise = act::differs(&self.config, &config);
        if self.config.replication != config.replication || !Arc::ptr_eq(&self.link.published, &link.published) {
            self.changes = None;
        }
        let other_questions = config.monitor != self.config.monitor
            || config.tls != self.config.tls
            || config.proxy_protocol != self.config.proxy_protocol;
        self.config = config;
        self.link = link;
        self.memory.set_journal(self.config.promotion.journal.as_deref());
        self.driver.reconfigure(settings(&self.name, &self.config), specs(&self.config), Instant::now());
        if other_questions {
            self.probers.clear();
            self.acting.forget_connections();
            self.writer = None;
            self.changes = None;
            self.heartbeats = Rc::new(RefCell::new(Log::new(self.config.monitor.interval)));
            // The primary is reached in another way.
            self.primary = watch::Sender::new(None);
        }
        let names: Vec<Arc<str>> = self.config.servers.keys().cloned().collect();
        self.status.figures().servers.retain(|name, _| names.contains(name));
        if acts_otherwise || other_questions {
            self.acting.forget_lease();
        }
        self.start_tasks();
        let view = self.driver.view().clone();
        if other_questions {
            self.publish(view);
        }
        self.loads.all_is_due();
    }
}

/// How the monitor reaches a server of this cluster.
pub(crate) fn access(cluster: &config::Cluster, tls: &ClientTls, server: &str) -> Option<ServerAccess> {
    let server = cluster.servers.get(server)?;
    Some(ServerAccess {
        address: link::address(&server.address),
        tls: tls.clone(),
        user: cluster.monitor.user.clone(),
        password: cluster.monitor.password.clone(),
        announce: match cluster.proxy_protocol {
            config::ProxyOut::Off => None,
            config::ProxyOut::V1 => Some(Version::V1),
            config::ProxyOut::V2 => Some(Version::V2),
        },
    })
}

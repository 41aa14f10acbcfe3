//! The cluster task's hands: it starts the steps that the driver orders, takes commands, keeps the lease and the journal.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use admin::{ChannelReport, ServerReport};
use cluster::journal::{EntryKind, JournalEntry};
use cluster::observation::{Facts, Receiver, Replication};
use cluster::step::{Order, Step, StepId};
use facts::view::ServerId;
use tokio::sync::watch;
use wire::Capabilities;

use super::Watched;
use crate::executor::{Called, Executor, Kept, Outcome, Shared, Target};
use crate::lease::{Lease, Means};
use crate::status::PendingCommand;
use crate::steps::{Account, Ours, Source};
use crate::task::{Owned, own};

/// The state that acting needs beside the state of watching.
pub(super) struct Acting {
    workers: stats::Workers,
    executor: Executor,
    /// The names of the running steps, for metrics, and the servers that they change.
    running: BTreeMap<StepId, (&'static str, Option<ServerId>)>,
    connections: BTreeMap<ServerId, Connection>,
    /// The values that running and coming steps share; made anew when it is needed and the configuration changed.
    shared: Option<Rc<Shared>>,
    lease: Option<Lease>,
    lease_watch: Option<watch::Receiver<Option<Instant>>>,
}

/// An event for the cluster's task.
pub(super) enum Happened {
    /// A step ended.
    StepEnded(Outcome),
    /// The lease is held until then, or not at all.
    Lease(Option<Instant>),
}

struct Connection {
    kept: Rc<Kept>,
    /// Keeps it open where steps must be expected at any time.
    _keeper: Option<Owned>,
}

impl Acting {
    pub(super) fn new(workers: stats::Workers) -> Acting {
        Acting {
            workers,
            executor: Executor::new(),
            running: BTreeMap::new(),
            connections: BTreeMap::new(),
            shared: None,
            lease: None,
            lease_watch: None,
        }
    }

    /// The servers are reached in another way from now on.
    pub(super) fn forget_connections(&mut self) {
        self.connections.clear();
        self.shared = None;
    }

    /// The lease is tried for in another way from now on.
    pub(super) fn forget_lease(&mut self) {
        self.lease = None;
        self.lease_watch = None;
        self.connections.clear();
        self.shared = None;
    }

    /// The lease, for the end of the process.
    pub(super) fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }

    /// The next thing that happens here. Nothing is lost when it is asked for anew.
    pub(super) async fn happened(&mut self) -> Happened {
        let lease_changes = async {
            if let Some(watch) = &mut self.lease_watch
                && watch.changed().await.is_ok()
            {
                return *watch.borrow_and_update();
            }
            std::future::pending().await
        };
        tokio::select! {
            outcome = self.executor.finished() => Happened::StepEnded(outcome),
            held_until = lease_changes => Happened::Lease(held_until),
        }
    }
}

/// Whether steps are done in another way with the new configuration.
pub(super) fn differs(old: &config::Cluster, new: &config::Cluster) -> bool {
    let parts = |cluster: &config::Cluster| {
        let lease = (cluster.promotion.lease, cluster.promotion.lease_time, cluster.etcd.clone());
        (cluster.failover, lease, cluster.promotion.events, cluster.servers.clone())
    };
    parts(old) != parts(new)
}

impl Watched {
    /// Opens what steps will need, as the configuration says.
    pub(super) fn prepare_to_act(&mut self) {
        let servers: Vec<(ServerId, Arc<str>)> =
            self.driver.servers().map(|(id, spec)| (id, spec.name.clone())).collect();
        self.acting.connections.retain(|id, _| servers.iter().any(|(known, _)| known == id));
        let in_group = self.config.kind.is_group();
        let expected = self.config.failover != config::Failover::Off && !in_group;
        for (id, name) in &servers {
            if self.acting.connections.contains_key(id) {
                continue;
            }
            let Some(access) = self.access(name) else { continue };
            let kept = Kept::new(access, self.config.monitor.timeout, self.config.promotion.events);
            let keeper = expected.then(|| own(kept.clone().keep()));
            self.acting.connections.insert(*id, Connection { kept, _keeper: keeper });
        }
        if self.acting.lease.is_none()
            && !in_group
            && let Some(means) = self.means_of_lease(&servers)
        {
            let lease = Lease::start(&self.name, self.config.promotion.lease_time, means);
            self.acting.lease_watch = Some(lease.watch());
            self.acting.lease = Some(lease);
        }
        if self.acting.lease.is_none() {
            self.driver.lease(Instant::now(), None);
        }
        self.acting.shared = None;
        self.status.journal.set_file(self.config.promotion.journal.as_deref());
        self.status.figures().failover = self.config.failover.word();
    }

    /// How several processes agree on which of them acts, if they do.
    fn means_of_lease(&self, servers: &[(ServerId, Arc<str>)]) -> Option<Means> {
        let interval = self.config.monitor.interval;
        match self.config.promotion.lease {
            config::Lease::Off => None,
            config::Lease::Majority => {
                let servers = servers.iter().filter_map(|(_, name)| Some((name.clone(), self.access(name)?))).collect();
                Some(Means::Majority { servers, interval })
            }
            config::Lease::Etcd => {
                Some(Means::Etcd { etcd: self.config.etcd.clone(), tls: self.link.etcd_tls.clone(), interval })
            }
        }
    }

    /// Starts a step.
    pub(super) fn execute(&mut self, order: Order) {
        let shared = match &self.acting.shared {
            Some(shared) => shared.clone(),
            None => {
                let shared = Rc::new(self.share());
                self.acting.shared = Some(shared.clone());
                shared
            }
        };
        let why = match &order.step {
            Step::RunHook { call, .. } => self.why(call.run),
            _ => Called::default(),
        };
        let changed = order.step.server().filter(|_| order.step.changes());
        self.acting.running.insert(order.id, (order.step.word(), changed));
        self.acting.executor.start(&shared, order, why);
    }

    pub(super) fn hear(&mut self, happened: Happened) {
        match happened {
            Happened::StepEnded(outcome) => self.step_ended(outcome),
            Happened::Lease(held_until) => self.driver.lease(Instant::now(), held_until),
        }
    }

    fn step_ended(&mut self, (id, outcome): Outcome) {
        self.acting.executor.forget(id);
        if let Some((word, changed)) = self.acting.running.remove(&id) {
            let failed = usize::from(outcome.is_err());
            self.status.figures().runs.steps.entry(word).or_default()[failed] += 1;
            // Facts seen in the middle of the step must not be the last word.
            if let Some(probing) = changed.and_then(|server| self.probers.get(&server)) {
                probing.urgent.notify_one();
            }
        }
        self.driver.outcome(Instant::now(), id, outcome);
    }

    pub(super) fn take_command(&mut self, pending: PendingCommand) {
        let answer = self.driver.command(Instant::now(), pending.command);
        // The receiver may have gone meanwhile; the command is carried out all the same.
        let _ = pending.answer.send(answer);
    }

    /// Writes a line of the journal.
    pub(super) fn note(&mut self, entry: JournalEntry) {
        let (cluster, server) = (&*self.name, entry.server.as_deref().unwrap_or(""));
        let (run, text) = (entry.run, &entry.text);
        match entry.kind {
            EntryKind::Failed(_) | EntryKind::Aborted(_) => tracing::warn!(cluster, server, run, "{text}"),
            _ => tracing::info!(cluster, server, run, "{text}"),
        }
        match entry.kind {
            EntryKind::Finished(what) => self.status.figures().runs.ended.entry(what).or_default()[0] += 1,
            EntryKind::Aborted(what) => self.status.figures().runs.ended.entry(what).or_default()[1] += 1,
            _ => {}
        }
        self.status.journal.add(entry);
    }

    /// Keeps what the API tells of the lease up to date.
    pub(super) fn show_lease(&self) {
        let lease = self.acting.lease.as_ref();
        let mut figures = self.status.figures();
        figures.lease = lease.map(Lease::words);
        figures.lease_held = lease.is_some_and(|lease| lease.watch().borrow().is_some_and(|end| end > Instant::now()));
        figures.lease_confirmations = lease.map(Lease::confirmations).unwrap_or(figures.lease_confirmations);
    }

    /// The decision that began a run.
    fn why(&self, run: u64) -> Called {
        let decides = |kind: EntryKind| matches!(kind, EntryKind::Decision);
        let decided = self.status.journal.tail(1, |record| record.entry.run == run && decides(record.entry.kind)).pop();
        let reason = decided.map_or_else(String::new, |record| record.entry.text);
        Called { epoch: self.driver.view().epoch, reason }
    }

    fn share(&self) -> Shared {
        let mut servers = BTreeMap::new();
        let mut ours = Vec::new();
        for (id, spec) in self.driver.servers() {
            let (Some(connection), Some(probing)) = (self.acting.connections.get(&id), self.probers.get(&id)) else {
                continue;
            };
            let Some(source) = self.source(id, &spec.name) else { continue };
            ours.push((source.host.clone(), source.port));
            if let Some(address) = self.driver.view().server(id).and_then(|server| server.resolved) {
                ours.push((address.ip().to_string(), address.port()));
            }
            let (kept, prober) = (connection.kept.clone(), probing.prober.clone());
            servers.insert(id, Target { name: spec.name.clone(), kept, prober, source });
        }
        Shared {
            cluster: self.name.clone(),
            servers,
            ours: Ours(ours),
            account: self.account(),
            lease: self.acting.lease.clone(),
            workers: self.acting.workers.clone(),
            published: self.link.published.clone(),
            carries_scheduler: self.config.promotion.event_scheduler,
            hook_before: self.config.promotion.hook_before.clone(),
            hook_after: self.config.promotion.hook_after.clone(),
        }
    }

    /// Where other servers reach a server: its configured address. One on a local socket is reached where it says itself.
    fn source(&self, id: ServerId, name: &str) -> Option<Source> {
        match &self.config.servers.get(name)?.address {
            config::Address::Tcp { host, port } => Some(Source { host: host.to_string(), port: *port }),
            config::Address::Unix(_) => {
                let figures = self.status.figures();
                let (host, port) = figures.servers.get(name)?.reached.clone()?;
                tracing::debug!(
                    cluster = &*self.name,
                    server = name,
                    id = id.0,
                    "reached by replicas at {host}:{port}"
                );
                Some(Source { host: host.to_string(), port })
            }
        }
    }

    fn account(&self) -> Option<Account> {
        let replication = &self.config.replication;
        let offered =
            self.driver.view().flavour.as_ref().is_some_and(|flavour| {
                Capabilities::from_bits_retain(flavour.capabilities).contains(Capabilities::TLS)
            });
        Some(Account {
            user: replication.user.clone()?,
            password: replication.password.clone().unwrap_or_else(|| config::Secret::new([])),
            tls: match replication.tls {
                config::ReplicationTls::Auto => offered,
                config::ReplicationTls::On => true,
                config::ReplicationTls::Off => false,
            },
        })
    }
}

/// Host and port of a server by its own idea.
pub(super) fn reached(facts: &Facts) -> (Arc<str>, u16) {
    match &*facts.report_host {
        "" => (facts.hostname.clone(), facts.port),
        host => (host.into(), if facts.report_port == 0 { facts.port } else { facts.report_port }),
    }
}

/// The API's view of a server's answer.
pub(super) fn report(facts: &Facts) -> ServerReport {
    let channels = match &facts.replication {
        Replication::Channels(channels) => channels.as_slice(),
        Replication::Unreadable(_) => &[],
    };
    let semi_sync = &facts.details.semi_sync;
    ServerReport {
        version: facts.greeting.version.clone(),
        read_only: facts.read_only,
        gtid_executed: facts.gtid_executed.clone(),
        channels: channels
            .iter()
            .map(|channel| ChannelReport {
                name: channel.name.clone(),
                source: format!("{}:{}", channel.source_host, channel.source_port),
                receiver: match channel.receiver {
                    Receiver::Running => "running",
                    Receiver::Connecting => "connecting",
                    Receiver::Stopped => "stopped",
                },
                applier: if channel.applier_running { "running" } else { "stopped" },
                gtid_received: channel.gtid_received.clone(),
                error: if channel.receiver_error.is_empty() { &channel.applier_error } else { &channel.receiver_error }
                    .clone(),
            })
            .collect(),
        semi_sync: match (semi_sync.source_active, semi_sync.replica_active) {
            (Some(true), _) => "source",
            (_, Some(true)) => "replica",
            _ => "off",
        },
    }
}

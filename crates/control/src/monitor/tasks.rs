//! The tasks beside the one that owns the driver: each server's probes, the writer of heartbeats, and who follows the log.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use facts::view::ServerId;
use tokio::sync::Notify;

use super::Watched;
use super::follow::Follower;
use super::heartbeat::HeartbeatRow;
use super::heartbeat::writer::Writer;
use super::probe::{Filters, Prober};
use crate::changes::ChangeFollower;
use crate::task::{Owned, own};

/// One server's tasks.
pub(super) struct Probing {
    pub(super) prober: Rc<Prober>,
    pub(super) urgent: Rc<Notify>,
    _task: Owned,
    /// Has its position read.
    pub(super) wanted: Rc<Notify>,
    _follower: Owned,
    _filters: Owned,
}

impl Watched {
    /// Starts to follow the binary log for the present listener, or stops.
    pub(super) fn follow_changes(&mut self) {
        let Some(listener) = self.link.published.change_listener() else {
            if self.changes.take().is_some() {
                self.status.figures().changes = None;
                tracing::info!(cluster = &*self.name, "its log is followed no more");
            }
            return;
        };
        if self.changes.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, &listener)) {
            return;
        }
        let replication = &self.config.replication;
        let follower = ChangeFollower {
            cluster: self.name.clone(),
            listener: listener.clone(),
            primary: self.primary.subscribe(),
            account: replication.user.clone().zip(replication.password.clone()),
            interval: self.config.monitor.interval,
            timeout: self.config.monitor.timeout,
            status: self.status.clone(),
        };
        self.changes = Some((listener, own(follower.run())));
    }

    /// Starts what does not run and ends what is no longer configured.
    pub(super) fn start_tasks(&mut self) {
        let servers: Vec<(ServerId, Arc<str>)> =
            self.driver.servers().map(|(id, spec)| (id, spec.name.clone())).collect();
        let kind = self.config.kind;
        let in_galera = kind == config::ClusterKind::Galera;
        self.probers.retain(|id, _| servers.iter().any(|(known, _)| known == id));
        let (monitor, heartbeat_row) =
            (self.config.monitor.clone(), HeartbeatRow::new(&self.config.monitor.heartbeat_schema));
        for (id, name) in servers {
            if self.probers.contains_key(&id) {
                continue;
            }
            let Some(access) = self.access(&name) else { continue };
            let urgent = Rc::new(Notify::new());
            let wanted = Rc::new(Notify::new());
            let follower = Follower {
                id,
                access: access.clone(),
                timeout: monitor.timeout,
                wanted: wanted.clone(),
                published: self.link.published.clone(),
                group: in_galera.then(|| self.results.0.clone()),
            };
            let prober = Rc::new(Prober {
                id,
                cluster: self.name.clone(),
                name: name.clone(),
                access,
                interval: monitor.interval,
                timeout: monitor.timeout,
                heartbeat_row: heartbeat_row.clone(),
                clock: self.clock,
                log: self.heartbeats.clone(),
                filters: Filters::default(),
                asks_twice: self.config.failover != config::Failover::Off,
                kind,
                reported_heartbeats: Cell::new(false),
                channels: RefCell::default(),
            });
            let filters = own(prober.clone().read_filters());
            let task = own(prober.clone().run(urgent.clone(), self.results.0.clone()));
            let follower = own(follower.run());
            self.probers
                .insert(id, Probing { prober, urgent, _task: task, wanted, _follower: follower, _filters: filters });
        }
        self.prepare_to_act();
        self.follow_changes();
        if self.writer.is_none() {
            let writer = Writer {
                cluster: self.name.clone(),
                mode: match kind {
                    // Members of these do not follow one another with a lag that it could measure.
                    config::ClusterKind::Galera | config::ClusterKind::Ndb => config::Heartbeat::Off,
                    _ => monitor.heartbeat,
                },
                heartbeat_row,
                clock: self.clock,
                interval: monitor.interval,
                timeout: monitor.timeout,
                log: self.heartbeats.clone(),
                status: self.status.clone(),
                primary: self.primary.subscribe(),
                results: self.results.0.clone(),
                reported_not_written: false,
            };
            self.writer = Some(own(writer.run()));
        }
    }
}

//! Starting, reloading and stopping the control plane.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use admin::{Status, Steering};
use facts::view::ServerIds;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use crate::cluster_link::Clusters;
use crate::error::StartError;
use crate::monitor::{self, ClusterTask, OfProcess};
use crate::status::{ClusterStatus, Registry};

/// The signals for the control thread; only the newest counts.
#[derive(Default)]
struct ControlSignals {
    reload: Mutex<Option<Reload>>,
    stop: AtomicBool,
    changed: Notify,
}

struct Reload {
    config: config::Config,
    clusters: Clusters,
}

/// The running control plane. Dropping it without [`ControlHandle::shutdown`] stops it as well.
pub struct ControlHandle {
    signals: Arc<ControlSignals>,
    registry: Arc<Registry>,
    thread: Option<JoinHandle<()>>,
}

/// Starts watching on a new thread. `clusters` has an entry for each cluster of `config`; those without one are not watched.
/// When this returns each cluster has its first view, in which no server has answered yet.
///
/// # Errors
/// No thread can be made.
pub fn start(
    config: &config::Config,
    clusters: &Clusters,
    workers: stats::Workers,
) -> Result<ControlHandle, StartError> {
    let registry = Arc::new(Registry::default());
    let signals = Arc::new(ControlSignals::default());
    *signals.reload.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(Reload { config: config.clone(), clusters: clusters.clone() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
    let (ready, clusters_shown) = mpsc::sync_channel(1);
    let (in_thread, in_thread_registry) = (signals.clone(), registry.clone());
    let thread = std::thread::Builder::new()
        .name("sqluice-control".into())
        .spawn(move || {
            LocalSet::new().block_on(&runtime, run(&in_thread, &in_thread_registry, &workers, ready));
            // A name that is being resolved is not waited for.
            runtime.shutdown_background();
        })
        .map_err(StartError::Thread)?;
    // A thread that ended instead is reported when it is joined.
    let _ = clusters_shown.recv();
    Ok(ControlHandle { signals, registry, thread: Some(thread) })
}

impl ControlHandle {
    /// All that is known of the clusters.
    pub fn status(&self) -> Arc<dyn Status> {
        self.registry.clone()
    }

    /// Takes commands for the clusters.
    pub fn steering(&self) -> Arc<dyn Steering> {
        self.registry.clone()
    }

    /// Takes a new configuration: servers, intervals, bounds, the monitor's user, clusters added and removed.
    pub fn reload(&self, config: &config::Config, clusters: &Clusters) {
        let reload = Reload { config: config.clone(), clusters: clusters.clone() };
        *self.signals.reload.lock().unwrap_or_else(PoisonError::into_inner) = Some(reload);
        self.signals.changed.notify_one();
    }

    /// Stops watching, and waits for the thread to end. It waits for no server, and for etcd a second at most, to which it
    /// gives back leases.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.signals.stop.store(true, Ordering::Release);
        self.signals.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked");
        }
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Watches until it shall stop. Sends to `ready` as soon as all clusters can be shown.
async fn run(signals: &ControlSignals, registry: &Registry, workers: &stats::Workers, ready: mpsc::SyncSender<()>) {
    let mut ready = Some(ready);
    let mut tasks: BTreeMap<Arc<str>, ClusterTask> = BTreeMap::new();
    let server_ids = ServerIds::default();
    loop {
        if signals.stop.load(Ordering::Acquire) {
            break;
        }
        let reload = signals.reload.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Reload { config, clusters }) = reload {
            tasks.retain(|name, _| config.clusters.contains_key(name) && clusters.contains_key(name));
            registry.keep_clusters(|name| tasks.contains_key(name));
            let mut added = Vec::new();
            for (name, cluster) in &config.clusters {
                let Some(link) = clusters.get(name) else { continue };
                match tasks.get(name) {
                    Some(task) if task.watches(&link.published) => task.reconfigure(cluster, link),
                    _ => {
                        let (status, heard) = ClusterStatus::new(name, link);
                        let (workers, server_ids) = (workers.clone(), server_ids.clone());
                        let of_process = OfProcess { status: status.clone(), heard, workers, server_ids };
                        let task = monitor::spawn(name.clone(), cluster, link, of_process);
                        tasks.insert(name.clone(), task);
                        added.push(status);
                    }
                }
            }
            // Tasks run in the order in which they were spawned: behind this one, each new cluster has a view to show.
            let _ = tokio::task::spawn_local(async {}).await;
            added.into_iter().for_each(|status| registry.show(status));
            let _ = ready.take().map(|ready| ready.send(()));
        }
        signals.changed.notified().await;
    }
    let mut ending: JoinSet<()> = JoinSet::new();
    for task in tasks.into_values() {
        ending.spawn_local(task.end());
    }
    while ending.join_next().await.is_some() {}
}

//! Starting, reloading and stopping the control plane.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use facts::view::ServerIds;
use stats::digests::DigestSource;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use crate::admin::{self, Bound};
use crate::cluster_link::Clusters;
use crate::error::StartError;
use crate::monitor::{self, ClusterTask, OfProcess};
use crate::status::Shared;

/// The wishes for the control thread; only the newest counts.
#[derive(Default)]
struct Wishes {
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
    wishes: Arc<Wishes>,
    shared: Arc<Shared>,
    admin_address: Option<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

/// Starts watching and serving on a new thread. `clusters` has an entry for each cluster of `config`; those without
/// one are not watched. `digests` is asked for what statements cost.
///
/// # Errors
/// The admin address cannot be listened on, or no thread can be made.
pub fn start(
    config: &config::Config,
    clusters: &Clusters,
    workers: stats::Workers,
    digests: Arc<dyn DigestSource>,
) -> Result<ControlHandle, StartError> {
    let bound = config.admin.as_ref().map(|admin| admin::bind(&admin.address)).transpose()?;
    let admin_address = bound.as_ref().and_then(Bound::tcp_address);
    let shared = Arc::new(Shared::new(workers, digests));
    shared.set_api_key(key_of(config));
    shared.set_rules(&config.rules);
    let wishes = Arc::new(Wishes::default());
    *wishes.reload.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(Reload { config: config.clone(), clusters: clusters.clone() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
    let (in_thread, in_thread_shared) = (wishes.clone(), shared.clone());
    let thread = std::thread::Builder::new()
        .name("sqluice-control".into())
        .spawn(move || {
            LocalSet::new().block_on(&runtime, run(&in_thread, &in_thread_shared, bound));
            // A name that is being resolved is not waited for.
            runtime.shutdown_background();
        })
        .map_err(StartError::Thread)?;
    Ok(ControlHandle { wishes, shared, admin_address, thread: Some(thread) })
}

impl ControlHandle {
    /// Where metrics and health are served, if over TCP; tells the port when the configured one is 0.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Says where the answers are that the data plane keeps, for the API and metrics.
    pub fn show_cache(
        &self,
        store: Arc<cache::Store>,
        warmer: Arc<dyn cache::Warmer>,
        writes: Arc<dyn cache::CountedWrites>,
    ) {
        self.shared.set_cache(store);
        self.shared.set_cache_writes(writes);
        self.shared.set_warmer(warmer);
    }

    /// Says where answers are shared with other processes, for the API and metrics.
    pub fn show_tier(&self, tier: Arc<tier::Tier>) {
        self.shared.set_tier(tier);
    }

    /// Takes a new configuration: servers, intervals, bounds, the monitor's user, clusters added and removed. The admin
    /// address stays as it was, the key of the API is taken at once.
    pub fn reload(&self, config: &config::Config, clusters: &Clusters) {
        self.shared.set_api_key(key_of(config));
        self.shared.set_rules(&config.rules);
        let reload = Reload { config: config.clone(), clusters: clusters.clone() };
        *self.wishes.reload.lock().unwrap_or_else(PoisonError::into_inner) = Some(reload);
        self.wishes.changed.notify_one();
    }

    /// Says that the process takes no new clients: `/readyz` fails from now on, all else goes on.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Stops watching and serving, and waits for the thread to end. It waits for no server, and for etcd a second at most, to which it
    /// gives back leases.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.wishes.stop.store(true, Ordering::Release);
        self.wishes.changed.notify_one();
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

fn key_of(config: &config::Config) -> Option<config::Secret> {
    config.admin.as_ref().and_then(|admin| admin.key.clone())
}

async fn run(wishes: &Wishes, shared: &Arc<Shared>, bound: Option<Bound>) {
    let admin = bound.map(|bound| tokio::task::spawn_local(admin::serve(bound, shared.clone())));
    let mut tasks: BTreeMap<Arc<str>, ClusterTask> = BTreeMap::new();
    let server_ids = ServerIds::default();
    loop {
        if wishes.stop.load(Ordering::Acquire) {
            break;
        }
        let reload = wishes.reload.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Reload { config, clusters }) = reload {
            tasks.retain(|name, _| config.clusters.contains_key(name) && clusters.contains_key(name));
            shared.keep_clusters(|name| tasks.contains_key(name));
            for (name, cluster) in &config.clusters {
                let Some(link) = clusters.get(name) else { continue };
                match tasks.get(name) {
                    Some(task) if task.watches(&link.published) => task.reconfigure(cluster, link),
                    _ => {
                        let (status, heard) = shared.add_cluster(name, link);
                        let (workers, server_ids) = (shared.workers.clone(), server_ids.clone());
                        let of_process = OfProcess { status, heard, workers, server_ids };
                        let task = monitor::spawn(name.clone(), cluster, link, of_process);
                        tasks.insert(name.clone(), task);
                    }
                }
            }
        }
        wishes.changed.notified().await;
    }
    if let Some(admin) = admin {
        admin.abort();
    }
    let mut ending: JoinSet<()> = JoinSet::new();
    for task in tasks.into_values() {
        ending.spawn_local(task.end());
    }
    while ending.join_next().await.is_some() {}
}

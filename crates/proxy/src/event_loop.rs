//! The event loop of a worker: it takes its mail, begins the sessions of clients that have come, and does the work of each second.

use std::rc::Rc;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use stats::digests::DigestTable;
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::newcomers::Newcomers;
use crate::pool::Pools;
use crate::relief;
use crate::session;
use crate::shared::{Mail, Shared};
use crate::warm;
use crate::worker::Worker;

/// How often a worker that is about to end looks whether its sessions have ended.
const DRAIN_PACE: Duration = Duration::from_millis(20);

/// Tells workers once a second what time it is, for as long as there are any.
pub async fn tell_seconds(shared: Weak<Shared>) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while let Some(shared) = shared.upgrade() {
        shared.seconds.send_replace(shared.uptime_s());
        drop(shared);
        second.tick().await;
    }
}

/// Runs a worker until all its sessions have ended after [`Mail::Drain`], or the mail's senders are gone. Takes
/// the thread it is called on.
///
/// # Errors
/// The event loop could not be made.
pub fn run(
    index: usize,
    shared: Arc<Shared>,
    mail: UnboundedReceiver<Mail>,
    ring: Option<events::Ring>,
) -> std::io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default())?;
    let worker = Rc::new(Worker::new(index, shared, ring));
    worker.take_rules();
    runtime.block_on(serve(worker, mail));
    Ok(())
}

async fn serve(worker: Rc<Worker>, mut mail: UnboundedReceiver<Mail>) {
    let busy_poll = worker.busy_poll.clone();
    tokio::task::spawn_local(async move { busy_poll.run().await });
    let leavers = worker.leavers.clone();
    tokio::task::spawn_local(async move { leavers.run().await });
    let mut seconds = worker.shared.seconds.subscribe();
    let mut newcomers = Newcomers::default();
    tidy(&worker);
    loop {
        if worker.draining.get() && worker.stats.sessions.get() == 0 {
            return last_events(&worker, &mut mail);
        }
        tokio::select! {
            // In this order: mail that comes without end would keep newcomers waiting.
            biased;
            () = tokio::task::yield_now(), if newcomers.is_any() => {
                newcomers.next().for_each(|client| session::spawn(worker.clone(), client));
            }
            // The sender lives as long as the data that all workers share.
            _ = seconds.changed() => tidy(&worker),
            received = mail.recv() => match received {
                Some(mail) => receive(&worker, &mut newcomers, mail),
                None => return worker.tell_refused(),
            },
            () = tokio::time::sleep(DRAIN_PACE), if worker.draining.get() => {}
        }
    }
}

/// Makes the events of clients that were refused a moment ago.
fn last_events(worker: &Rc<Worker>, mail: &mut UnboundedReceiver<Mail>) {
    while let Ok(mail) = mail.try_recv() {
        if let Mail::Refused(client) = mail {
            worker.count_refused(*client);
        }
    }
    worker.tell_refused();
}

fn receive(worker: &Rc<Worker>, newcomers: &mut Newcomers, mail: Mail) {
    let pools_of = |name: &str, then: &mut dyn FnMut(&Rc<Pools>)| {
        if let Some(cluster) = worker.known_cluster(name) {
            then(&cluster.pools);
        }
    };
    match mail {
        Mail::Client(client) => newcomers.push(client),
        Mail::Session(moving) => session::arrive(worker, moving),
        Mail::Relieve(order) => {
            tokio::task::spawn_local(relief::relieve(worker.clone(), *order));
        }
        Mail::Published(name) => {
            if let Some(cluster) = worker.known_cluster(&name) {
                worker.take_published(&cluster);
            }
        }
        Mail::Connection(name, parcel) => {
            if let Some(cluster) = worker.known_cluster(&name) {
                cluster.pools.receive(*parcel);
            }
        }
        Mail::Permit(name, server) => pools_of(&name, &mut |pools| pools.receive_permit(server)),
        Mail::Asked(name, server) => pools_of(&name, &mut |pools| pools.asked(server)),
        Mail::Room(name) => pools_of(&name, &mut |pools| pools.serve_waiters()),
        Mail::Short(name, server) => pools_of(&name, &mut |pools| pools.asked_by_short(server)),
        Mail::Freed(name) => pools_of(&name, &mut |pools| pools.room_for_short()),
        Mail::Confirmed(name, ask) => {
            let confirmed =
                worker.known_cluster(&name).map_or(Some(Vec::new()), |cluster| cluster.confirmed_since(ask.since));
            // The session that asked may have gone.
            let _ = ask.answer.send(confirmed);
        }
        Mail::Refused(client) => worker.count_refused(*client),
        Mail::Drain => {
            worker.draining.set(true);
            worker.presses.set(true);
        }
        Mail::Rules => worker.take_rules(),
        Mail::Warm(name) => warm::run_for_all(worker, &name, "asked for"),
        Mail::WarmKind(name, kind) => warm::run_for(worker, &name, kind, "first client"),
        Mail::PrimaryChanged(name) => warm::primary_changed(worker, name),
        Mail::Digests(ask) => {
            let report = worker.digests.borrow().report();
            if ask.reset {
                worker.change_digests(DigestTable::reset);
            }
            (ask.deliver)(report);
        }
    }
}

/// The work of each second.
fn tidy(worker: &Worker) {
    let second = worker.shared.uptime_s();
    worker.uptime_s.set(second);
    worker.stats.busy_permille.add(worker.busy.permille() - worker.stats.busy_permille.get());
    let config = worker.shared.config.load();
    worker.busy_poll.set(config.proxy.busy_poll);
    worker.events.take_settings(&config.events);
    worker.tell_refused();
    worker.change_digests(|digests| {
        digests.set_max(config.proxy.digests_max);
        digests.set_samples(config.proxy.digest_samples);
        digests.set_second(u64::from(second));
    });
    if worker.index == 0 {
        worker.shared.end_idle_sessions();
        tidy_logins(worker);
    }
    worker.refresh_pools();
}

/// Forgets refused logins that no longer matter, and counts the memory and the addresses of clients.
fn tidy_logins(worker: &Worker) {
    let (shared, stats, now) = (&worker.shared, &worker.stats, Instant::now());
    shared.addresses.tidy(now);
    let clusters = shared.clusters.read().unwrap_or_else(PoisonError::into_inner);
    clusters.values().for_each(|cluster| cluster.keyring.tidy(now));
    let set = |gauge: &stats::Gauge, value: i64| gauge.add(value - gauge.get());
    set(&stats.login_memory_bytes, i64::try_from(shared.login_memory.used_bytes()).unwrap_or(i64::MAX));
    set(&stats.prepared_bytes, i64::try_from(shared.prepared_bytes.get()).unwrap_or(i64::MAX));
    set(&stats.command_bytes, i64::try_from(shared.command_bytes.get()).unwrap_or(i64::MAX));
    set(&stats.client_addresses, shared.addresses.count() as i64);
    let waits = &stats.login_memory_waits;
    waits.add(shared.login_memory.waited().saturating_sub(waits.get()));
}

//! Relief for busy workers: sessions move to workers that are less busy, by themselves or because an operator orders it.
//! [`route::relief`] decides, the busy worker measures, and [`crate::session::Moving`] is a session on its way.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use facts::sessions::Relieved;
use route::relief::{Balance, Of, Relief, WorkerLoad, choose};

use crate::shared::{Mail, Mailboxes, ReliefOrder, Shared};
use crate::worker::Worker;

/// How long sessions are measured.
const MEASURE: Duration = Duration::from_millis(200);
/// How long sessions that are to move are waited for.
const MOVE_WAIT: Duration = Duration::from_secs(1);

/// The result of a relief that is planned, or whose sessions were chosen.
pub fn relieved(relief: &Relief, chosen: usize, moved: usize) -> Relieved {
    Relieved { to: relief.to, share: relief.share, by_sessions: relief.of == Of::Sessions, chosen, moved }
}

/// How busy all workers are.
pub fn loads(shared: &Shared) -> Vec<WorkerLoad> {
    let load = |worker: &Arc<stats::WorkerStats>| WorkerLoad {
        busy: worker.busy_permille.get() as f64 / 1000.0,
        sessions: usize::try_from(worker.sessions.get()).unwrap_or(0),
    };
    shared.stats.iter().map(load).collect()
}

/// Looks at all workers once a second, for as long as there are any, and has busy ones relieved.
pub async fn watch(shared: Weak<Shared>, mailboxes: Mailboxes) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut balance = Balance::default();
    while let Some(shared) = shared.upgrade() {
        let threshold = f64::from(shared.config.load().proxy.relieve_above_percent) / 100.0;
        let reliefs = match threshold > 0.0 {
            true => balance.decide(Instant::now(), threshold, &loads(&shared)),
            false => Vec::new(),
        };
        drop(shared);
        for relief in reliefs {
            let order = ReliefOrder { relief, by_operator: false, answer: None };
            // A worker that has ended needs no relief.
            let _ = mailboxes[relief.from].send(Mail::Relieve(Box::new(order)));
        }
        second.tick().await;
    }
}

/// A worker gives sessions to another one.
pub async fn relieve(worker: Rc<Worker>, order: ReliefOrder) {
    let ReliefOrder { relief, by_operator, answer } = order;
    let result = match worker.relief.is_on() || worker.draining.get() {
        true => None,
        false => Some(carry_out(&worker, &relief, usize::from(by_operator)).await),
    };
    if let Some(answer) = answer {
        // The operator may have gone.
        let _ = answer.send(result);
    }
}

/// Measures the worker's sessions and has some of them move. `reason` is a place in [`stats::SESSION_MOVES`].
async fn carry_out(worker: &Worker, relief: &Relief, reason: usize) -> Relieved {
    let sessions = &worker.shared.sessions;
    let costs = match relief.of {
        Of::Load => {
            worker.relief.measure();
            worker.press();
            tokio::time::sleep(MEASURE).await;
            worker.relief.measured()
        }
        Of::Sessions => sessions.on_worker(worker.index).into_iter().map(|session| (session, 1)).collect(),
    };
    let chosen = choose(costs, relief.share);
    worker.relief.move_to(relief.to, &chosen);
    worker.press();
    for session in &chosen {
        // One that waits for its client moves at once.
        match sessions.get(*session) {
            Some(session) => session.wake.call(),
            None => worker.relief.settle(*session, false),
        }
    }
    let moved = worker.relief.wait(MOVE_WAIT).await;
    worker.press();
    if let Some(count) = worker.stats.sessions_given.at(reason) {
        count.add(moved as u64);
    }
    let (from, to, share, chosen) = (relief.from, relief.to, relief.share, chosen.len());
    let reason = stats::SESSION_MOVES[reason];
    tracing::debug!(from, to, share, chosen, moved, reason, "sessions have moved to another worker");
    relieved(relief, chosen, moved)
}

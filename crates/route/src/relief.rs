//! Relief for busy workers: which worker gives sessions to which, and which sessions those are.
//!
//! A session's share of a worker's load is known only after somebody has measured it. So relief has two steps. [`Balance`] looks at
//! all workers once a second: a worker that is busy for some seconds, beside one that is far less so, shall give a share of its load.
//! The busy worker then measures its sessions for a moment, and [`choose`] finds those that make up that share.
//!
//! The larger load gets smaller with each relief: at most half of the difference moves. A session that is more than that by itself
//! stays, and others go.

use std::time::{Duration, Instant};

/// Seconds for which a worker is busy before it is relieved.
pub const BUSY_S: u32 = 3;
/// How much busier it is than the other one at least, as a part of the threshold.
const GAP: f64 = 1.0 / 3.0;
/// How long both workers of a relief rest afterwards: their figures are those of the last seconds.
const REST: Duration = Duration::from_secs(5);
/// The longest rest of a worker that stays as busy as before.
const REST_MAX: Duration = Duration::from_secs(80);
/// A relief counts if the worker is less busy by so much.
const COUNTS: f64 = 0.05;
/// Most sessions of one relief.
pub const SESSIONS_MAX: usize = 256;

/// One worker, as it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerLoad {
    /// Its share of a core, as the average of the last seconds: 0 to 1.
    pub busy: f64,
    /// Its sessions.
    pub sessions: usize,
}

/// A worker gives a share of its load to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relief {
    /// The busy worker.
    pub from: usize,
    /// The other one.
    pub to: usize,
    /// The share, at most one half.
    pub share: f64,
    /// The measure of the share.
    pub of: Of,
}

/// The measure of a relief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The time that sessions take.
    Load,
    /// The sessions, busy or not.
    Sessions,
}

/// The past of one worker, as far as it counts.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    /// Seconds for which it has been busy.
    busy_s: u32,
    /// Until when it neither gives nor gets sessions.
    rests_until: Option<Instant>,
    /// How busy it was when it gave sessions last, and the rest after that.
    gave: Option<(f64, Duration)>,
}

impl Past {
    fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// The rest after a relief now. It doubles each time that the one before has changed nothing.
    fn rest_behind(&mut self, busy: f64) -> Duration {
        let rest = match self.gave {
            Some((before, rest)) if busy > before - COUNTS => (2 * rest).min(REST_MAX),
            _ => REST,
        };
        self.gave = Some((busy, rest));
        rest
    }
}

/// Decides once a second which workers give sessions to which.
#[derive(Debug, Default)]
pub struct Balance {
    workers: Vec<Past>,
}

impl Balance {
    /// A second has passed: the reliefs that begin now. A worker is busy from `threshold` on, a share of a core. The busiest worker
    /// gives to the least busy one, the next busiest to the next, and so on.
    pub fn decide(&mut self, now: Instant, threshold: f64, loads: &[WorkerLoad]) -> Vec<Relief> {
        self.workers.resize(loads.len(), Past::default());
        for (past, load) in self.workers.iter_mut().zip(loads) {
            past.busy_s = if load.busy >= threshold { past.busy_s.saturating_add(1) } else { 0 };
            if load.busy < threshold {
                past.gave = None;
            }
        }
        let mut order: Vec<usize> = (0..loads.len()).filter(|worker| !self.workers[*worker].rests(now)).collect();
        order.sort_by(|one, other| loads[*other].busy.total_cmp(&loads[*one].busy));
        let mut reliefs = Vec::new();
        for pair in 0..order.len() / 2 {
            let (from, to) = (order[pair], order[order.len() - 1 - pair]);
            let gap = loads[from].busy - loads[to].busy;
            // One session alone would be the load of the other worker then.
            if self.workers[from].busy_s < BUSY_S || gap < GAP * threshold || loads[from].sessions < 2 {
                continue;
            }
            let rest = self.workers[from].rest_behind(loads[from].busy);
            self.workers[from].rests_until = Some(now + rest);
            self.workers[to].rests_until = Some(now + REST);
            reliefs.push(Relief { from, to, share: gap / 2.0 / loads[from].busy, of: Of::Load });
        }
        reliefs
    }
}

/// The relief that an operator asks for: of this worker, whatever the thresholds. If it is no busier than the others, it gives half of
/// the sessions that it has more than the one with the fewest. `None` if it has nothing to give.
pub fn on_demand(from: usize, loads: &[WorkerLoad]) -> Option<Relief> {
    let own = *loads.get(from)?;
    let others = || loads.iter().enumerate().filter(|(worker, _)| *worker != from);
    let (to, least) = others().min_by(|(_, one), (_, other)| one.busy.total_cmp(&other.busy))?;
    let gap = own.busy - least.busy;
    if gap >= COUNTS {
        return (own.sessions > 0).then_some(Relief { from, to, share: gap / 2.0 / own.busy, of: Of::Load });
    }
    let (to, fewest) = others().min_by_key(|(_, load)| load.sessions)?;
    let surplus = own.sessions.saturating_sub(fewest.sessions) / 2;
    (surplus > 0).then(|| Relief { from, to, share: surplus as f64 / own.sessions as f64, of: Of::Sessions })
}

/// The sessions that make up this share of the load, by their measured costs. The costliest that fit come first: few sessions move.
pub fn choose(mut costs: Vec<(u32, u64)>, share: f64) -> Vec<u32> {
    let total: u64 = costs.iter().map(|(_, cost)| cost).sum();
    let mut left = total as f64 * share.clamp(0.0, 0.5);
    costs.sort_unstable_by_key(|(session, cost)| (std::cmp::Reverse(*cost), *session));
    let fits = |(session, cost): (u32, u64)| {
        let fits = cost as f64 <= left;
        if fits {
            left -= cost as f64;
        }
        fits.then_some(session)
    };
    costs.into_iter().filter_map(fits).take(SESSIONS_MAX).collect()
}

#[cfg(test)]
mod tests;

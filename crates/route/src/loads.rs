//! How busy and how fast each server is, as one worker knows it, and which is the cheapest.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use facts::view::{Health, ServerId, ServerView, View};

/// How fast the memory of a slow answer fades: to a third in this time.
const DECAY: Duration = Duration::from_secs(5);
/// The time to the first byte that is assumed of a server before its first reply.
const FIRST_GUESS_US: f64 = 500.0;
/// Costs that differ by no more than this factor count as equal.
const NEARLY_EQUAL: f64 = 1.5;
/// The share of its weight that a server gets when it has just come up.
const SLOW_START_SHARE: f64 = 0.1;
/// A replica that did not apply in time what a read needs is not asked to wait again for so long.
const WAIT_PAUSE: Duration = Duration::from_secs(1);

/// The weight that a measurement of this age still has.
fn fade(age: Duration) -> f64 {
    let ages = age.as_secs_f64() * (1.0 / DECAY.as_secs_f64());
    // For most statements the last one was a moment ago, where the curve is a line.
    if ages < 0.01 { 1.0 - ages } else { (-ages).exp() }
}

/// One worker's measurements of one server's speed.
#[derive(Clone, Copy, Debug)]
struct Load {
    outstanding: u32,
    /// Peak-sensitive moving average of the time to the first byte: rises at once, falls slowly.
    first_byte_us: f64,
    measured: Option<Instant>,
    /// When it was first seen up after having been away.
    up_since: Option<Instant>,
    healthy: bool,
    /// When a read last gave up to wait for it.
    late_at: Option<Instant>,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            outstanding: 0,
            first_byte_us: FIRST_GUESS_US,
            measured: None,
            up_since: None,
            healthy: false,
            late_at: None,
        }
    }
}

/// One worker's measurements of its servers' speed.
#[derive(Debug)]
pub struct Loads {
    servers: RefCell<Vec<Load>>,
    /// Room for a choice: each server's cost, and the share of its weight that it takes now.
    costs: RefCell<Vec<(ServerId, f64, f64)>>,
    /// State of a xorshift generator: dice for choices that nothing else decides.
    dice: Cell<u64>,
}

impl Default for Loads {
    fn default() -> Loads {
        Loads { servers: RefCell::default(), costs: RefCell::default(), dice: Cell::new(0x9e37_79b9_7f4a_7c15) }
    }
}

impl Loads {
    fn with<T>(&self, server: ServerId, change: impl FnOnce(&mut Load) -> T) -> T {
        let mut servers = self.servers.borrow_mut();
        let index = usize::from(server.0);
        if servers.len() <= index {
            servers.resize_with(index + 1, Load::default);
        }
        change(&mut servers[index])
    }

    /// A statement is on its way to the server.
    pub fn begin(&self, server: ServerId) {
        self.with(server, |load| load.outstanding += 1);
    }

    /// The statement's reply is over, or will never come.
    pub fn end(&self, server: ServerId) {
        self.with(server, |load| load.outstanding = load.outstanding.saturating_sub(1));
    }

    /// Statements of this worker that are on their way to the server.
    pub fn outstanding(&self, server: ServerId) -> u32 {
        self.with(server, |load| load.outstanding)
    }

    /// No statement of this worker is on its way to any server.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.servers.borrow().iter().all(|load| load.outstanding == 0)
    }

    /// The first byte of a reply came after `waited`.
    pub fn first_byte(&self, server: ServerId, waited: Duration, now: Instant) {
        self.with(server, |load| {
            let sample = waited.as_secs_f64() * 1e6;
            let age = load.measured.map_or(DECAY, |at| now.saturating_duration_since(at));
            let keep = fade(age);
            load.first_byte_us =
                if sample > load.first_byte_us { sample } else { load.first_byte_us * keep + sample * (1.0 - keep) };
            load.measured = Some(now);
        });
    }

    /// Takes note of who is up in a new view, for the slow start of those who were not.
    pub fn viewed(&self, view: &View, now: Instant) {
        let first_view = self.servers.borrow().is_empty();
        for server in view.servers.iter() {
            self.with(server.id, |load| {
                let healthy = server.health == Health::Up && server.serves_reads;
                if healthy && !load.healthy && !first_view {
                    load.up_since = Some(now);
                }
                load.healthy = healthy;
            });
        }
    }

    /// This replica did not apply in time what a read needs.
    pub fn was_late(&self, server: ServerId, now: Instant) {
        self.with(server, |load| load.late_at = Some(now));
    }

    /// Whether a read may ask this replica to wait until it has applied something.
    pub fn may_be_awaited(&self, server: ServerId, now: Instant) -> bool {
        self.with(server, |load| load.late_at.is_none_or(|at| now.saturating_duration_since(at) >= WAIT_PAUSE))
    }

    /// A number from 0 to 1, evenly spread.
    fn roll(&self) -> f64 {
        let mut dice = self.dice.get();
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        self.dice.set(dice);
        (dice >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The cost of sending one more statement to a server, and the share of its weight that it takes now.
    fn cost(&self, server: &ServerView, now: Instant, slow_start: Duration) -> (f64, f64) {
        self.with(server.id, |load| {
            let mut share = 1.0;
            if let Some(since) = load.up_since.filter(|_| !slow_start.is_zero()) {
                let passed = now.saturating_duration_since(since).as_secs_f64() / slow_start.as_secs_f64();
                share = passed.clamp(SLOW_START_SHARE, 1.0);
                if passed >= 1.0 {
                    load.up_since = None;
                }
            }
            // A server that was slow must get another chance, although nothing is measured while it gets no work.
            let age = load.measured.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
            let first_byte_us = (load.first_byte_us * fade(age)).max(1.0);
            (f64::from(load.outstanding + 1) * first_byte_us / f64::from(server.weight.max(1)), share)
        })
    }

    /// The cheapest server. Costs that are nearly equal count as equal: the dice decide among them, each server with the
    /// share that it takes now, so that equal servers get equal work and one that came back gets a little.
    pub fn cheapest<'a>(
        &self,
        mut servers: impl Iterator<Item = &'a ServerView>,
        now: Instant,
        slow_start: Duration,
    ) -> Option<ServerId> {
        let first = servers.next()?;
        let Some(second) = servers.next() else { return Some(first.id) };
        let mut costs = self.costs.borrow_mut();
        costs.clear();
        costs.extend([first, second].into_iter().chain(servers).map(|server| {
            let (cost, share) = self.cost(server, now, slow_start);
            (server.id, cost, share)
        }));
        let lowest = |least_share: f64| {
            let shared = costs.iter().filter(|(.., share)| *share >= least_share);
            shared.map(|(_, cost, _)| *cost).min_by(f64::total_cmp)
        };
        // A server that came back is no measure for the others: it has nothing to do yet.
        let limit = lowest(1.0).or_else(|| lowest(0.0))? * NEARLY_EQUAL;
        costs.retain(|(_, cost, _)| *cost <= limit);
        let shares: f64 = costs.iter().map(|(_, cost, share)| share / cost).sum();
        let mut left = self.roll() * shares;
        let mut chosen = None;
        for &(id, cost, share) in costs.iter() {
            chosen = Some(id);
            left -= share / cost;
            if left <= 0.0 {
                break;
            }
        }
        chosen
    }
}

//! Which of the servers that fit takes a statement: least outstanding work, weighed by how fast each answered lately.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use cluster::view::{Health, Role, ServerId, ServerView, View, Writers};

use super::causal_reads::Needs;
use super::near::Near;
use super::read_write_split::Target;

/// How fast the memory of a slow answer fades: to a third in this time.
const DECAY: Duration = Duration::from_secs(5);
/// What a server is thought to take before it has answered anything.
const FIRST_GUESS_US: f64 = 500.0;
/// Costs that differ by no more than this factor count as equal.
const NEARLY_EQUAL: f64 = 1.5;
/// The share of its weight that a server gets when it has just come up.
const SLOW_START_SHARE: f64 = 0.1;
/// How long a replica that was waited for in vain is not asked to wait again.
const WAIT_PAUSE: Duration = Duration::from_secs(1);

/// The weight that a measurement of this age still has.
fn fade(age: Duration) -> f64 {
    let ages = age.as_secs_f64() * (1.0 / DECAY.as_secs_f64());
    // For most statements the last one was a moment ago, where the curve is a line.
    if ages < 0.01 { 1.0 - ages } else { (-ages).exp() }
}

/// What one worker knows of one server's speed.
#[derive(Clone, Copy, Debug)]
struct Load {
    outstanding: u32,
    /// Peak-sensitive moving average of the time to the first byte: rises at once, falls slowly.
    first_byte_us: f64,
    measured: Option<Instant>,
    /// When it was first seen up after having been away.
    up_since: Option<Instant>,
    healthy: bool,
    /// When a read has waited in vain for it to apply something.
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

/// What one worker knows of its servers' speed.
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

    /// A read has waited in vain for this replica to apply something.
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
            // What was slow once must get another chance, although nothing is measured while it gets no work.
            let age = load.measured.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
            let first_byte_us = (load.first_byte_us * fade(age)).max(1.0);
            (f64::from(load.outstanding + 1) * first_byte_us / f64::from(server.weight.max(1)), share)
        })
    }

    /// The cheapest server. Costs that are nearly equal count as equal: the dice decide among them, each server with the
    /// share that it takes now, so that equal servers get equal work and one that came back gets a little.
    fn cheapest<'a>(
        &self,
        servers: impl Iterator<Item = &'a ServerView>,
        now: Instant,
        slow_start: Duration,
    ) -> Option<ServerId> {
        let mut costs = self.costs.borrow_mut();
        costs.clear();
        costs.extend(servers.map(|server| {
            let (cost, share) = self.cost(server, now, slow_start);
            (server.id, cost, share)
        }));
        if let [(only, ..)] = costs[..] {
            return Some(only);
        }
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

/// What the choice depends on beside the view.
#[derive(Clone, Copy, Debug)]
pub struct Preferences<'a> {
    /// Where this proxy stands; servers of the same zone come first. Empty: no preference.
    pub zone: &'a str,
    /// How long a server that came back gets less than its share.
    pub slow_start: Duration,
    /// Servers that just failed this very statement.
    pub avoid: &'a [ServerId],
    /// The statement lost against writes on other members of its Galera group, and goes to where the losers gather: there they
    /// wait for one another's locks.
    pub gather: bool,
    /// What a replica must have.
    pub needs: Option<Needs<'a>>,
    /// A replica that lacks some of it will do, if it can be asked to wait for that.
    pub awaits: bool,
    /// How near a replica must be.
    pub near: Option<Near<'a>>,
}

/// Chooses a server for a statement that is not pinned; `None` while the view has none that fits.
pub fn select(
    view: &View,
    target: &Target,
    loads: &Loads,
    preferences: Preferences<'_>,
    now: Instant,
) -> Option<ServerId> {
    let is_free =
        |id: &ServerId| !preferences.avoid.contains(id) && view.server(*id).is_none_or(|server| !server.fenced);
    let usable = |server: &&ServerView| server.health == Health::Up && is_free(&server.id);
    let primary = || view.primary.filter(is_free);
    // While a switchover is under way, what may write waits for the new primary.
    let may_write = |id: &ServerId| !view.hold_writes || view.primary != Some(*id);
    let has_all = |id: &ServerId| {
        let may_wait =
            |needs: Needs<'_>| preferences.awaits && loads.may_be_awaited(*id, now) && needs.awaited(*id).is_some();
        preferences.needs.is_none_or(|needs| needs.lacking(*id).is_none() || may_wait(needs))
    };
    let is_near =
        |server: &ServerView| server.role != Role::Replica || preferences.near.is_none_or(|near| near.has(server.id));
    match target {
        Target::Primary | Target::Pinned if view.group == Some(Writers::All) => {
            let takes_writes = |server: &&ServerView| server.role == Role::Primary && has_all(&server.id);
            let writers = || view.servers.iter().filter(usable).filter(takes_writes);
            // A session keeps to one member as long as it can: what it changes again and again is then in no conflict.
            let last = preferences.needs.and_then(|needs| needs.own?.member());
            let find = |wanted: Option<ServerId>| writers().map(|server| server.id).find(|id| Some(*id) == wanted);
            let meeting = view.primary.filter(|_| preferences.gather);
            find(meeting)
                .or_else(|| find(last))
                .or_else(|| loads.cheapest(writers(), now, preferences.slow_start))
                .or_else(|| primary().filter(has_all))
        }
        Target::Primary | Target::Pinned => primary().filter(may_write).filter(has_all),
        Target::Named(name) => view.server_named(name).filter(usable).map(|server| server.id).filter(may_write),
        Target::Reader => {
            let readers = || {
                let fits = |server: &&ServerView| view.takes_reads(server) && is_near(server) && has_all(&server.id);
                view.servers.iter().filter(usable).filter(fits)
            };
            let (zone, slow_start) = (preferences.zone, preferences.slow_start);
            let near = readers().filter(|server| *server.zone == *zone);
            let cheapest_near = if zone.is_empty() { None } else { loads.cheapest(near, now, slow_start) };
            // The only writer has all that was written; one of several need not.
            let last_resort = || primary().filter(|id| view.group != Some(Writers::All) || has_all(id));
            cheapest_near.or_else(|| loads.cheapest(readers(), now, slow_start)).or_else(last_resort)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use cluster::gtid::Applied;
    use cluster::positions::Positions;

    use crate::route::OwnWrites;

    fn server(id: u16, role: Role) -> ServerView {
        ServerView {
            id: ServerId(id),
            name: format!("db{id}").into(),
            address: "".into(),
            resolved: None,
            role,
            health: Health::Up,
            lag: None,
            serves_reads: role == Role::Replica,
            fenced: false,
            weight: 100,
            zone: "".into(),
            reason: "".into(),
        }
    }

    fn view(servers: Vec<ServerView>) -> View {
        let primary = servers.iter().find(|server| server.role == Role::Primary).map(|server| server.id);
        View { primary, servers: Arc::from(servers), ..View::empty("main") }
    }

    fn three() -> View {
        view(vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)])
    }

    const PLAIN: Preferences<'static> = Preferences {
        zone: "",
        slow_start: Duration::from_secs(10),
        avoid: &[],
        gather: false,
        needs: None,
        awaits: false,
        near: None,
    };

    fn choose(view: &View, loads: &Loads, preferences: Preferences<'_>) -> Option<u16> {
        select(view, &Target::Reader, loads, preferences, Instant::now()).map(|id| id.0)
    }

    #[test]
    fn reads_go_to_the_replica_with_less_to_do() {
        let loads = Loads::default();
        loads.begin(ServerId(2));
        assert_eq!(choose(&three(), &loads, PLAIN), Some(3));
        loads.begin(ServerId(3));
        loads.begin(ServerId(3));
        assert_eq!(choose(&three(), &loads, PLAIN), Some(2));
        loads.end(ServerId(3));
        loads.end(ServerId(3));
        assert_eq!(choose(&three(), &loads, PLAIN), Some(3));
    }

    #[test]
    fn a_slow_answer_counts_at_once_and_is_forgotten_slowly() {
        let (loads, start) = (Loads::default(), Instant::now());
        for id in [2, 3] {
            loads.first_byte(ServerId(id), Duration::from_micros(200), start);
        }
        loads.first_byte(ServerId(2), Duration::from_millis(50), start);
        assert_eq!(choose(&three(), &loads, PLAIN), Some(3));
        loads.first_byte(ServerId(2), Duration::from_micros(100), start + Duration::from_secs(1));
        assert_eq!(choose(&three(), &loads, PLAIN), Some(3), "one good answer does not make good for it");
        loads.first_byte(ServerId(2), Duration::from_micros(100), start + Duration::from_secs(200));
        assert_eq!(choose(&three(), &loads, PLAIN), Some(2));
    }

    #[test]
    fn a_slow_server_gets_another_chance_although_nothing_is_measured() {
        let (loads, start) = (Loads::default(), Instant::now());
        loads.first_byte(ServerId(2), Duration::from_millis(5), start);
        let chosen_at = |seconds: u64| {
            let at = start + Duration::from_secs(seconds);
            loads.first_byte(ServerId(3), Duration::from_micros(500), at);
            (0..100).any(|_| select(&three(), &Target::Reader, &loads, PLAIN, at) == Some(ServerId(2)))
        };
        assert!(!chosen_at(1));
        assert!(chosen_at(20));
    }

    #[test]
    fn without_a_replica_that_serves_the_primary_reads() {
        let mut servers = vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)];
        servers[1].health = Health::Down;
        servers[2].serves_reads = false;
        assert_eq!(choose(&view(servers.clone()), &Loads::default(), PLAIN), Some(1));
        servers[0].role = Role::Unknown;
        assert_eq!(choose(&view(servers), &Loads::default(), PLAIN), None);
    }

    #[test]
    fn weights_zones_and_what_just_failed_are_respected() {
        let mut servers = vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)];
        servers[1].weight = 0;
        assert_eq!(choose(&view(servers.clone()), &Loads::default(), PLAIN), Some(3));
        servers[1].weight = 100;
        servers[2].zone = "b".into();
        let near_b = Preferences { zone: "b", ..PLAIN };
        assert_eq!(choose(&view(servers.clone()), &Loads::default(), near_b), Some(3));
        let failed = Preferences { avoid: &[ServerId(3)], ..near_b };
        assert_eq!(choose(&view(servers.clone()), &Loads::default(), failed), Some(2));
        let all_failed = Preferences { avoid: &[ServerId(2), ServerId(3)], ..near_b };
        assert_eq!(choose(&view(servers), &Loads::default(), all_failed), Some(1));
    }

    #[test]
    fn a_server_that_came_back_starts_slowly() {
        let (loads, start) = (Loads::default(), Instant::now());
        let mut servers = vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)];
        servers[1].health = Health::Down;
        loads.viewed(&view(servers.clone()), start);
        servers[1].health = Health::Up;
        loads.viewed(&view(servers.clone()), start);
        let view = view(servers);
        let share_at = |seconds| {
            let at = start + Duration::from_secs(seconds);
            (0..10_000).filter(|_| select(&view, &Target::Reader, &loads, PLAIN, at) == Some(ServerId(2))).count()
        };
        for (seconds, shares) in [(0, 700..1_150), (5, 3_000..3_700), (9, 4_400..5_100), (10, 4_700..5_300)] {
            let share = share_at(seconds);
            assert!(shares.contains(&share), "after {seconds} s: {share} of 10,000");
        }
    }

    #[test]
    fn equal_servers_get_equal_work() {
        let (loads, view) = (Loads::default(), three());
        loads.first_byte(ServerId(2), Duration::from_micros(600), Instant::now());
        loads.first_byte(ServerId(3), Duration::from_micros(650), Instant::now());
        let chosen = (0..10_000).filter(|_| choose(&view, &loads, PLAIN) == Some(2)).count();
        assert!((4_800..5_600).contains(&chosen), "{chosen}");
    }

    #[test]
    fn in_a_group_of_writers_a_session_keeps_to_one_member() {
        let mut servers = vec![server(1, Role::Primary), server(2, Role::Primary), server(3, Role::Primary)];
        servers.iter_mut().for_each(|server| server.serves_reads = true);
        let group = |servers: &[ServerView]| View { group: Some(Writers::All), ..view(servers.to_vec()) };
        let (loads, positions, now) = (Loads::default(), Positions::default(), Instant::now());
        let mut own = OwnWrites::default();
        let writer = |servers: &[ServerView], own: &OwnWrites, positions: &Positions| {
            let needs = Some(Needs { own: Some(own), all: &[], before: None, positions });
            let preferences = Preferences { needs, ..PLAIN };
            select(&group(servers), &Target::Primary, &loads, preferences, now).map(|id| id.0)
        };
        let chosen: std::collections::BTreeSet<_> = (0..1_000).map(|_| writer(&servers, &own, &positions)).collect();
        assert_eq!(chosen.into_iter().collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
        own.was_in_group(ServerId(2), now);
        assert!((0..100).all(|_| writer(&servers, &own, &positions) == Some(2)));
        let readers = (0..1_000).map(|_| choose(&group(&servers), &loads, PLAIN));
        assert_eq!(readers.collect::<std::collections::BTreeSet<_>>().len(), 3);
        // It lost there, and the writer has what it wrote.
        let positions_now = positions.with(ServerId(1), Some((Applied::Group, false)), now + Duration::from_millis(1));
        let gather = |positions: &Positions| {
            let needs = Some(Needs { own: Some(&own), all: &[], before: None, positions });
            let preferences = Preferences { needs, gather: true, ..PLAIN };
            select(&group(&servers), &Target::Primary, &loads, preferences, now).map(|id| id.0)
        };
        assert_eq!((gather(&positions), gather(&positions_now)), (Some(2), Some(1)));
        // The others have not shown yet that they have what it wrote.
        servers[1].health = Health::Down;
        assert_eq!(writer(&servers, &own, &positions), None);
        let shown = positions.with(ServerId(3), Some((Applied::Group, false)), now + Duration::from_millis(1));
        assert_eq!(writer(&servers, &own, &shown), Some(3));
    }

    #[test]
    fn a_named_server_is_taken_only_while_it_is_up() {
        let target = Target::Named("db3".into());
        let named = |view: &View| select(view, &target, &Loads::default(), PLAIN, Instant::now());
        assert_eq!(named(&three()), Some(ServerId(3)));
        assert_eq!(named(&view(vec![server(1, Role::Primary)])), None);
    }
}

//! Which of the servers that fit takes a statement: least outstanding work, weighed by how fast each answered lately.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use cluster::view::{Health, Role, ServerId, ServerView, View};

use super::read_write_split::Target;

/// How fast the memory of a slow answer fades: to a third in this time.
const DECAY: Duration = Duration::from_secs(10);
/// What a server is thought to take before it has answered anything.
const FIRST_GUESS_US: f64 = 500.0;
/// The share of its weight that a server gets when it has just come up.
const SLOW_START_SHARE: f64 = 0.1;

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
}

impl Default for Load {
    fn default() -> Load {
        Load { outstanding: 0, first_byte_us: FIRST_GUESS_US, measured: None, up_since: None, healthy: false }
    }
}

/// What one worker knows of its servers' speed.
#[derive(Debug, Default)]
pub struct Loads {
    servers: RefCell<Vec<Load>>,
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
            let keep = (-age.as_secs_f64() / DECAY.as_secs_f64()).exp();
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

    /// The cost of sending one more statement to a server: the lowest wins.
    fn cost(&self, server: &ServerView, now: Instant, slow_start: Duration) -> f64 {
        self.with(server.id, |load| {
            let mut share = 1.0;
            if let Some(since) = load.up_since.filter(|_| !slow_start.is_zero()) {
                let passed = now.saturating_duration_since(since).as_secs_f64() / slow_start.as_secs_f64();
                share = passed.clamp(SLOW_START_SHARE, 1.0);
                if passed >= 1.0 {
                    load.up_since = None;
                }
            }
            f64::from(load.outstanding + 1) * load.first_byte_us / (f64::from(server.weight.max(1)) * share)
        })
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
}

/// Chooses a server for a statement that is not pinned; `None` while the view has none that fits.
pub fn select(
    view: &View,
    target: &Target,
    loads: &Loads,
    preferences: Preferences<'_>,
    now: Instant,
) -> Option<ServerId> {
    let usable = |server: &&ServerView| server.health == Health::Up && !preferences.avoid.contains(&server.id);
    let primary = || view.primary.filter(|id| !preferences.avoid.contains(id));
    match target {
        Target::Primary | Target::Pinned => primary(),
        Target::Named(name) => view.server_named(name).filter(usable).map(|server| server.id),
        Target::Reader => {
            let readers = || {
                let serves =
                    |server: &&ServerView| server.role == Role::Replica && server.serves_reads && server.weight > 0;
                view.servers.iter().filter(usable).filter(serves)
            };
            let near = || readers().filter(|server| !preferences.zone.is_empty() && *server.zone == *preferences.zone);
            let cheapest = |servers: &mut dyn Iterator<Item = &ServerView>| {
                let cost = |server: &ServerView| loads.cost(server, now, preferences.slow_start);
                servers.map(|server| (cost(server), server.id)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, id)| id)
            };
            cheapest(&mut near()).or_else(|| cheapest(&mut readers())).or_else(primary)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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

    const PLAIN: Preferences<'static> = Preferences { zone: "", slow_start: Duration::from_secs(10), avoid: &[] };

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
        let at = |seconds| select(&view, &Target::Reader, &loads, PLAIN, start + Duration::from_secs(seconds));
        (0..5).for_each(|_| loads.begin(ServerId(3)));
        assert_eq!(at(0), Some(ServerId(3)), "a tenth of its share: ten times the cost");
        assert_eq!(at(9), Some(ServerId(2)));
    }

    #[test]
    fn a_named_server_is_taken_only_while_it_is_up() {
        let target = Target::Named("db3".into());
        let named = |view: &View| select(view, &target, &Loads::default(), PLAIN, Instant::now());
        assert_eq!(named(&three()), Some(ServerId(3)));
        assert_eq!(named(&view(vec![server(1, Role::Primary)])), None);
    }
}

//! A small cluster that fails and moves at random; the seed of a failing run replays it.

use proptest::prelude::*;

use facts::view::{Health, Role};

use super::script::*;
use super::*;
use crate::observation::{Facts, FailureClass, Replication};

/// An event that happens to the servers.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Kill(u32),
    Revive(u32),
    /// An administrator makes this server the primary, properly.
    Promote(u32),
    /// Somebody sets a server's read_only, properly or not.
    ReadOnly(u32, bool),
    Evidence(u32),
    Lag(u32, u64),
    /// All servers are probed.
    Round,
    /// One server is probed.
    Probe(u32),
    Wait(u64),
}

const SERVERS: u32 = 4;

fn deed() -> impl Strategy<Value = Deed> {
    let server = 1..=SERVERS;
    prop_oneof![
        1 => server.clone().prop_map(Deed::Kill),
        1 => server.clone().prop_map(Deed::Revive),
        1 => server.clone().prop_map(Deed::Promote),
        1 => (server.clone(), any::<bool>()).prop_map(|(server, on)| Deed::ReadOnly(server, on)),
        2 => server.clone().prop_map(Deed::Evidence),
        1 => (server.clone(), 0..30u64).prop_map(|(server, lag)| Deed::Lag(server, lag)),
        5 => Just(Deed::Round),
        3 => server.prop_map(Deed::Probe),
        2 => (0..1500u64).prop_map(Deed::Wait),
    ]
}

/// The servers as they really are.
struct World {
    alive: [bool; SERVERS as usize],
    facts: Vec<Facts>,
    /// Probes that failed in a row, as reported to the driver.
    failures: [u32; SERVERS as usize],
    script: Script,
}

impl World {
    fn new() -> World {
        let facts = (1..=SERVERS).map(|n| if n == 1 { facts(1) } else { replica_of(1, n) }).collect();
        World { alive: [true; SERVERS as usize], facts, failures: [0; SERVERS as usize], script: Script::new(SERVERS) }
    }

    fn at(server: u32) -> usize {
        server as usize - 1
    }

    fn probe(&mut self, server: u32) {
        if self.alive[World::at(server)] {
            self.failures[World::at(server)] = 0;
            self.script.good(server, self.facts[World::at(server)].clone());
        } else {
            self.failures[World::at(server)] += 1;
            self.script.fail(server, FailureClass::Refused);
        }
    }

    fn does(&mut self, deed: Deed) {
        match deed {
            Deed::Kill(server) => self.alive[World::at(server)] = false,
            Deed::Revive(server) => self.alive[World::at(server)] = true,
            Deed::Promote(server) => {
                for other in (1..=SERVERS).filter(|other| self.alive[World::at(*other)]) {
                    self.facts[World::at(other)] =
                        if other == server { facts(server) } else { replica_of(server, other) };
                }
            }
            Deed::ReadOnly(server, on) => self.facts[World::at(server)].read_only = on,
            Deed::Evidence(server) => self.script.see(server, ObservationKind::Evidence(EvidenceKind::ConnectionLost)),
            Deed::Lag(server, seconds) => {
                if let Replication::Channels(channels) = &mut self.facts[World::at(server)].replication {
                    channels.iter_mut().for_each(|channel| channel.seconds_behind = Some(seconds));
                }
            }
            Deed::Round => (1..=SERVERS).for_each(|server| self.probe(server)),
            Deed::Probe(server) => self.probe(server),
            Deed::Wait(ms) => self.script.wait(Duration::from_millis(ms)),
        }
    }

    /// Checks the rules that hold at every moment.
    fn check(&self) {
        let view = self.script.driver.view();
        let primaries: Vec<_> = view.servers.iter().filter(|server| server.role == Role::Primary).collect();
        assert!(primaries.len() <= 1, "two primaries: {view:?}");
        assert_eq!(primaries.first().map(|server| server.id), view.primary);
        for (index, server) in view.servers.iter().enumerate() {
            if server.health == Health::Down {
                assert!(server.role != Role::Primary && !server.serves_reads && server.lag.is_none(), "{server:?}");
            }
            assert!(self.failures[index] < 3 || server.health == Health::Down, "too many failures: {server:?}");
            if server.role == Role::Replica && server.serves_reads {
                assert!(server.lag.is_none_or(|lag| lag <= Duration::from_secs(13)), "{server:?}");
            }
        }
        let numbers: Vec<u64> = self.script.views.iter().map(|view| view.number).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
        for pair in self.script.views.windows(2) {
            let same = (pair[0].primary, &pair[0].servers, &pair[0].flavour)
                == (pair[1].primary, &pair[1].servers, &pair[1].flavour);
            assert!(!same, "a view without a change: {:?}", pair[1]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_whatever_happens(deeds in prop::collection::vec(deed(), 1..80)) {
        let mut world = World::new();
        for deed in deeds {
            world.does(deed);
            world.check();
        }
    }

    #[test]
    fn after_the_storm_the_one_writable_server_is_found_and_nothing_changes_any_more(
        deeds in prop::collection::vec(deed(), 1..60),
        primary in 1..=SERVERS,
    ) {
        let mut world = World::new();
        deeds.into_iter().for_each(|deed| world.does(deed));
        world.alive = [true; SERVERS as usize];
        world.does(Deed::Promote(primary));
        (0..3).for_each(|_| {
            world.does(Deed::Wait(1000));
            world.does(Deed::Round);
        });
        prop_assert_eq!(world.script.primary(), Some(primary));
        prop_assert!(world.script.driver.view().servers.iter().all(|server| server.health == Health::Up && server.serves_reads));
        let views = world.script.views.len();
        (0..10).for_each(|_| world.does(Deed::Round));
        prop_assert_eq!(world.script.views.len(), views);
    }

    #[test]
    fn a_flapping_server_changes_between_up_and_down_only_after_runs(pattern in prop::collection::vec(any::<bool>(), 1..200)) {
        let mut script = Script::healthy(2);
        let (mut run, mut last, mut was_down) = (0, true, false);
        for good in pattern {
            run = if good == last { run + 1 } else { 1 };
            last = good;
            if good { script.good(2, replica_of(1, 2)) } else { script.fail(2, FailureClass::Timeout) }
            let down = script.server(2).health == Health::Down;
            if down != was_down {
                prop_assert!(run >= if down { 3 } else { 2 }, "changed after a run of {}", run);
            }
            was_down = down;
        }
    }
}

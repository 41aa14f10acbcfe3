//! Observations for tests, and a driver with its outputs sorted.

use facts::view::ServerView;

use super::*;
use crate::observation::{Channel, Details, Facts, Failure, FailureClass, Greeting, Receiver, Replication};
use crate::step::Step;

/// Where a test's time begins.
pub(crate) fn start() -> Instant {
    Instant::now()
}

pub(crate) fn facts(server_id: u32) -> Facts {
    Facts {
        greeting: Greeting {
            mariadb: true,
            version: "5.5.5-10.11.6-MariaDB".into(),
            number: 101_106,
            capabilities: 0b111,
            auth_plugin: "mysql_native_password".into(),
            collation: 45,
        },
        resolved: None,
        server_id,
        hostname: "host".into(),
        port: 3306,
        report_host: "".into(),
        report_port: 0,
        read_only: false,
        super_read_only: false,
        gtid_executed: "0-1-1".into(),
        replication: Replication::Channels(vec![]),
        heartbeat_lag: None,
        details: Details::default(),
    }
}

/// A working channel from the server with this id.
pub(crate) fn channel(source_server_id: u32) -> Channel {
    Channel {
        name: "".into(),
        source_host: format!("s{source_server_id}").into(),
        source_port: 3306,
        source_server_id,
        receiver: Receiver::Running,
        applier_running: true,
        seconds_behind: Some(0),
        gtid_received: "0-1-1".into(),
        receiver_error: "".into(),
        receiver_lost_source: false,
        applier_error: "".into(),
        delay_s: 0,
        uses_gtid: Some(true),
        filters: "".into(),
        life: None,
        heartbeat_period: None,
        outdated: false,
    }
}

pub(crate) fn replica_of(source: u32, server_id: u32) -> Facts {
    Facts { read_only: true, replication: Replication::Channels(vec![channel(source)]), ..facts(server_id) }
}

pub(crate) fn settings() -> Settings {
    Settings {
        cluster: "main".into(),
        standalone: false,
        group: None,
        max_lag: Duration::from_secs(10),
        down_after: 3,
        up_after: 2,
        interval: Duration::from_millis(500),
        timeout: Duration::from_millis(500),
        failover: Failover::default(),
    }
}

pub(crate) fn spec(name: &str) -> ServerSpec {
    ServerSpec {
        name: name.into(),
        address: format!("{name}:3306").into(),
        weight: 100,
        zone: "".into(),
        promotion: PromotionRule::Neutral,
    }
}

/// A cluster of servers `s1`, `s2`, … with server ids 1, 2, …, and a clock.
pub(crate) struct Script {
    pub(crate) driver: Driver,
    pub(crate) now: Instant,
    pub(crate) views: Vec<View>,
    pub(crate) probes: Vec<ServerId>,
    /// Members that are to show what they have.
    pub(crate) catch_ups: Vec<ServerId>,
    pub(crate) log: Vec<String>,
    /// Steps that are ordered and not answered.
    pub(crate) orders: Vec<Order>,
    pub(crate) journal: Vec<JournalEntry>,
    /// The memory that is to be kept for the next process.
    pub(crate) memory: Memory,
}

impl Script {
    pub(crate) fn new(servers: u32) -> Script {
        Script::with(settings(), servers)
    }

    pub(crate) fn with(settings: Settings, servers: u32) -> Script {
        let now = start();
        let specs = (1..=servers).map(|number| spec(&format!("s{number}"))).collect();
        let mut script = Script {
            driver: Driver::new(settings, specs, ServerIds::default(), now),
            now,
            views: vec![],
            probes: vec![],
            catch_ups: vec![],
            log: vec![],
            orders: vec![],
            journal: vec![],
            memory: Memory::default(),
        };
        script.drain();
        script
    }

    /// A primary `s1` with replicas, all seen.
    pub(crate) fn healthy(servers: u32) -> Script {
        let mut script = Script::new(servers);
        script.good(1, facts(1));
        (2..=servers).for_each(|number| script.good(number, replica_of(1, number)));
        assert_eq!(script.primary(), Some(1));
        script.probes.clear();
        script
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.driver.poll_output() {
            match output {
                Output::Publish(view) => self.views.push(view),
                Output::Probe(id) => self.probes.push(id),
                Output::Log(event) => self.log.push(event.text),
                Output::CatchUp(id) => self.catch_ups.push(id),
                Output::Execute(order) => self.orders.push(order),
                Output::Journal(entry) => self.journal.push(entry),
                Output::Remember(memory) => self.memory = memory,
            }
        }
    }

    /// The orders that stand, in words.
    pub(crate) fn words(&self) -> Vec<String> {
        self.orders.iter().map(|order| self.driver.step_words(&order.step)).collect()
    }

    /// Answers all orders that stand.
    pub(crate) fn answer(&mut self, answer: impl Fn(&Step) -> Result<StepResult, StepError>) {
        for order in std::mem::take(&mut self.orders) {
            self.driver.outcome(self.now, order.id, answer(&order.step));
            self.drain();
        }
    }

    /// Identity of server `number`; valid as long as no server is added or removed.
    pub(crate) fn id(number: u32) -> ServerId {
        ServerId(number as u16 - 1)
    }

    pub(crate) fn see(&mut self, number: u32, seen: ObservationKind) {
        self.see_late(number, self.now, seen);
    }

    /// Sees now what was asked at another moment.
    pub(crate) fn see_late(&mut self, number: u32, asked: Instant, seen: ObservationKind) {
        self.driver.observe(self.now, Observation { server: Script::id(number), asked, seen });
        self.drain();
    }

    pub(crate) fn good(&mut self, number: u32, facts: Facts) {
        self.see(number, ObservationKind::Facts(Box::new(facts)));
    }

    pub(crate) fn fail(&mut self, number: u32, class: FailureClass) {
        self.see(number, ObservationKind::Failure(Failure { class, text: class.word().into() }));
    }

    pub(crate) fn down(&mut self, number: u32) {
        (0..3).for_each(|_| self.fail(number, FailureClass::Refused));
    }

    pub(crate) fn wait(&mut self, duration: Duration) {
        self.now += duration;
        self.driver.tick(self.now);
        self.drain();
    }

    pub(crate) fn primary(&self) -> Option<u32> {
        self.driver.view().primary.map(|id| u32::from(id.0) + 1)
    }

    pub(crate) fn server(&self, number: u32) -> &ServerView {
        self.driver.view().server(Script::id(number)).unwrap()
    }

    pub(crate) fn found(&self) -> Vec<&'static str> {
        self.driver.diagnoses().iter().map(Diagnosis::name).collect()
    }
}

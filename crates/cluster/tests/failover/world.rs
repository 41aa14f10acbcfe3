//! Servers, the network between them, and replication. Time goes in steps of ten milliseconds.

use crate::dice::Dice;
use crate::server::{Server, Txn, Waiting};

/// A step of time.
pub const STEP_MS: u64 = 10;
/// A receiver that hears nothing for so long gives its connection up.
const NET_TIMEOUT_MS: u64 = 4_000;
const RETRY_MS: u64 = 200;
const HEARTBEAT_MS: u64 = 1_000;

/// An acknowledged write.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    pub txn: Txn,
    pub server: usize,
    pub at_ms: u64,
}

pub struct World {
    pub now_ms: u64,
    pub servers: Vec<Server>,
    /// Pairs of nodes that cannot reach each other. Managers are nodes behind the servers.
    cut: Vec<Vec<bool>>,
    pub acked: Vec<Acked>,
    /// The server that acknowledged last, and since when.
    office: Option<(usize, u64)>,
    /// Without semi-sync and without memory a process that sees one server alone cannot know that it was replaced
    /// (docs/guides/failover.md), so that is not held against it.
    pub forgets: bool,
    pub next_id: u64,
    pub story: Vec<String>,
    pub broken: Option<String>,
}

impl World {
    pub fn new(servers: Vec<Server>, managers: usize) -> World {
        let nodes = servers.len() + managers;
        World {
            now_ms: 0,
            servers,
            cut: vec![vec![false; nodes]; nodes],
            acked: Vec::new(),
            office: None,
            forgets: false,
            next_id: 0,
            story: Vec::new(),
            broken: None,
        }
    }

    pub fn tell(&mut self, text: impl Into<String>) {
        let line = format!("{:>7} ms  {}", self.now_ms, text.into());
        self.story.push(line);
    }

    pub fn connected(&self, one: usize, other: usize) -> bool {
        !self.cut[one][other]
    }

    pub fn cut(&mut self, one: usize, other: usize, is_cut: bool) {
        self.cut[one][other] = is_cut;
        self.cut[other][one] = is_cut;
    }

    pub fn heal_network(&mut self) {
        self.cut.iter_mut().for_each(|row| row.fill(false));
    }

    /// A client of a manager, or its heartbeat, writes.
    pub fn write(&mut self, manager: usize, server: usize, counts: bool) {
        let node = self.servers.len() + manager;
        if !self.connected(node, server) || !self.servers[server].up {
            return;
        }
        if self.servers[server].frozen || (self.servers[server].full && !self.servers[server].read_only) {
            self.servers[server].queued.push((manager, counts));
            return;
        }
        self.commit(Some(manager), server, counts);
    }

    fn commit(&mut self, manager: Option<usize>, server: usize, counts: bool) {
        if self.servers[server].read_only {
            return;
        }
        self.next_id += 1;
        let (now_ms, id) = (self.now_ms, self.next_id);
        let txn = self.servers[server].write(now_ms, id);
        let waiting = Waiting { txn, manager, acks: Vec::new(), counts };
        self.servers[server].waiting.push(waiting);
    }

    /// Cuts sessions: of one manager's clients, or all.
    pub fn end_sessions(&mut self, server: usize, manager: Option<usize>) {
        for waiting in &mut self.servers[server].waiting {
            if manager.is_none() || waiting.manager == manager {
                waiting.manager = None;
            }
        }
        // Steps that reached a frozen server's socket run when it wakes up, but no manager hears of them.
        for queued in &mut self.servers[server].queued {
            if manager.is_none_or(|manager| queued.0 == manager) {
                queued.0 = usize::MAX;
            }
        }
    }

    pub fn wake(&mut self, server: usize) {
        self.servers[server].frozen = false;
        self.run_queued(server);
    }

    /// There is room again on its disk.
    pub fn make_room(&mut self, server: usize) {
        self.servers[server].full = false;
        self.run_queued(server);
    }

    fn run_queued(&mut self, server: usize) {
        if self.servers[server].frozen || self.servers[server].full {
            return;
        }
        for (manager, counts) in std::mem::take(&mut self.servers[server].queued) {
            self.commit((manager != usize::MAX).then_some(manager), server, counts);
        }
    }

    pub fn step(&mut self, dice: &mut Dice) {
        self.now_ms += STEP_MS;
        for index in 0..self.servers.len() {
            // Neither a relay log nor a binary log can be written on a full disk.
            if self.servers[index].works() && !self.servers[index].full {
                self.receive(index);
                self.apply(index, dice);
            }
        }
        for index in 0..self.servers.len() {
            if self.servers[index].works() {
                self.acknowledge(index);
            }
        }
    }

    fn receive(&mut self, index: usize) {
        let Some(mut feed) = self.servers[index].feed.clone() else { return };
        let source = feed.source;
        let reach = self.connected(index, source);
        if !feed.receiving || feed.refused {
            feed.connected = false;
        } else if !feed.connected {
            if self.now_ms >= feed.retry_ms && reach && self.servers[source].works() {
                feed.retry_ms = self.now_ms + RETRY_MS;
                if self.missing(index, source).is_none() {
                    feed.refused = true;
                } else {
                    (feed.connected, feed.heard_ms) = (true, self.now_ms);
                    feed.life += 1;
                }
            }
        } else if reach && !self.servers[source].up {
            feed.connected = false;
        } else if !reach || self.servers[source].frozen {
            if self.now_ms > feed.heard_ms + NET_TIMEOUT_MS {
                feed.connected = false;
            }
        } else {
            match self.missing(index, source) {
                None => (feed.refused, feed.connected) = (true, false),
                Some(new) if new.is_empty() => {
                    if self.now_ms >= feed.heard_ms + HEARTBEAT_MS {
                        (feed.life, feed.heard_ms) = (feed.life + 1, self.now_ms);
                    }
                }
                Some(new) => {
                    (feed.life, feed.heard_ms) = (feed.life + new.len() as u64, self.now_ms);
                    for txn in &new {
                        if let Some(waiting) = self.servers[source].waiting.iter_mut().find(|w| w.txn == *txn) {
                            waiting.acks.retain(|ack| *ack != index);
                            waiting.acks.push(index);
                        }
                    }
                    self.servers[index].relay.extend(new);
                }
            }
        }
        self.servers[index].feed = Some(feed);
    }

    /// The transactions that the source would send; `None` when it refuses.
    fn missing(&self, index: usize, source: usize) -> Option<Vec<Txn>> {
        let (here, there) = (&self.servers[index], &self.servers[source]);
        if here.mariadb {
            let last = here.relay.last().or(here.log.last());
            let from = match last {
                None => 0,
                Some(last) => {
                    there.log.iter().rposition(|txn| (txn.origin, txn.number) == (last.origin, last.number))? + 1
                }
            };
            return Some(there.log[from..].iter().take(20).copied().collect());
        }
        if here.names.last(source) > there.names.last(source) {
            return None;
        }
        // Both logs begin alike; looking from the end back is enough.
        let has = |txn: &Txn| {
            here.names.has(*txn)
                || here.relay.iter().any(|known| (known.origin, known.number) == (txn.origin, txn.number))
        };
        let known = there.log.iter().rev().take_while(|txn| !has(txn)).count();
        let from = there.log.len() - known;
        let early = there.log[..from].iter().rev().take(200).filter(|txn| !has(txn));
        let mut new: Vec<Txn> = early.copied().collect();
        new.reverse();
        new.extend(&there.log[from..]);
        new.truncate(20);
        Some(new)
    }

    fn apply(&mut self, index: usize, dice: &mut Dice) {
        let server = &mut self.servers[index];
        let Some(feed) = &server.feed else { return };
        if !feed.applying || server.applier_broken || server.relay.is_empty() {
            return;
        }
        let many = if server.applier_slow { usize::from(dice.percent(20)) } else { 8 };
        for txn in server.relay.drain(..many.min(server.relay.len())).collect::<Vec<_>>() {
            server.push(txn);
            server.replicated = Some(txn);
        }
    }

    fn acknowledge(&mut self, index: usize) {
        let needed = self.servers[index].semi_sync.unwrap_or(0) as usize;
        let (ready, waiting): (Vec<Waiting>, Vec<Waiting>) = std::mem::take(&mut self.servers[index].waiting)
            .into_iter()
            .partition(|waiting| waiting.acks.len() >= needed);
        self.servers[index].waiting = waiting;
        for write in ready {
            let Some(manager) = write.manager.filter(|_| write.counts) else { continue };
            if !self.connected(self.servers.len() + manager, index) {
                continue;
            }
            self.acked.push(Acked { txn: write.txn, server: index, at_ms: self.now_ms });
            match self.office {
                Some((holder, _)) if holder == index => {}
                Some((holder, since)) if self.servers[index].promoted_ms < since && !self.forgets => {
                    self.broken.get_or_insert(format!(
                        "s{} acknowledged a client's write after s{} had taken over",
                        index + 1,
                        holder + 1
                    ));
                }
                _ => self.office = Some((index, self.now_ms)),
            }
        }
    }
}

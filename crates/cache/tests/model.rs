//! Sessions read and write in all orders of their steps: nobody is ever given an answer that was read before a write that any client had been
//! told of when the question was asked.
//!
//! `SEED=n cargo test -p sqluice-cache --test model` plays one order again.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqluice_cache::{
    Bounds, Context, Epochs, Found, Freshness, Known, Question, Refusal, Stamp, Store, TableId, Ticket,
};

const TABLES: usize = 4;
const SESSIONS: usize = 6;
const STEPS: usize = 600;
const FRESH: Freshness = Freshness { ttl: Duration::from_millis(400), stale: Duration::from_millis(200) };

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// Where a session is.
#[derive(Debug)]
enum At {
    Idle,
    /// It fills: stamped, and perhaps read by now.
    Fills {
        table: usize,
        ticket: Ticket,
        stamp: Stamp,
        asked: Instant,
        must_see: u64,
        read: Option<u64>,
    },
    /// It asks the database past the cache.
    Passes {
        table: usize,
        must_see: u64,
    },
    /// It waits for another one's fill.
    Waits {
        table: usize,
    },
    /// It writes a table, or nobody knows which; perhaps it is committed by now.
    Writes {
        table: usize,
        known: bool,
        committed: Option<u64>,
    },
}

struct World {
    store: Arc<Store>,
    epochs: Epochs,
    context: Context,
    now: Instant,
    /// What the database has: the number of the last write of each table.
    database: [u64; TABLES],
    /// The last write of each table that a client was told of.
    told: [u64; TABLES],
    writes: u64,
    sessions: Vec<At>,
    hits: u64,
    raced: u64,
}

fn id(table: usize) -> TableId {
    TableId::of(table as u64)
}

impl World {
    fn new() -> World {
        World {
            store: Arc::new(Store::new(Bounds { memory_max: 8 << 10, entry_max: 64 })),
            epochs: Epochs::default(),
            context: Context::new([&b"c"[..]]),
            now: Instant::now(),
            database: [0; TABLES],
            told: [0; TABLES],
            writes: 0,
            sessions: (0..SESSIONS).map(|_| At::Idle).collect(),
            hits: 0,
            raced: 0,
        }
    }

    fn ask(&mut self, table: usize, may_wait: bool, anew: bool, knows_tables: bool) -> At {
        let text = format!("SELECT v FROM t{table}");
        let question = Question { context: &self.context, text: text.as_bytes(), parameters: None };
        let must_see = self.told[table];
        match self.store.ask(&question, &self.epochs, FRESH, self.now, anew) {
            Found::Hit(answer) | Found::Stale(answer) => {
                let seen = u64::from_le_bytes(answer.known.reply.as_ref().unwrap()[..8].try_into().unwrap());
                assert!(seen >= must_see, "table {table}: write {must_see} was told, the answer is of {seen}");
                let age = self.now - answer.known.asked;
                assert!(age <= FRESH.ttl + FRESH.stale, "{age:?}");
                self.hits += 1;
                At::Idle
            }
            Found::Fill(ticket) => {
                let stamp = self.epochs.stamp(|| knows_tables.then(|| vec![id(table)]));
                At::Fills { table, ticket, stamp, asked: self.now, must_see, read: None }
            }
            Found::Wait(_) if may_wait => At::Waits { table },
            Found::Wait(_) | Found::Pass(_) => At::Passes { table, must_see },
        }
    }

    fn step(&mut self, random: &mut Random) {
        self.now += Duration::from_millis(random.below(20) as u64);
        let session = random.below(SESSIONS);
        let table = random.below(TABLES);
        let at = std::mem::replace(&mut self.sessions[session], At::Idle);
        self.sessions[session] = match at {
            At::Idle if random.below(3) > 0 => {
                let (anew, knows) = (random.below(20) == 0, random.below(2) == 0);
                self.ask(table, true, anew, knows)
            }
            At::Idle => At::Writes { table, known: random.below(4) > 0, committed: None },
            At::Fills { table, ticket, stamp, asked, must_see, read: None } if random.below(8) > 0 => {
                At::Fills { table, ticket, stamp, asked, must_see, read: Some(self.database[table]) }
            }
            // Its server was lost.
            At::Fills { read: None, .. } => At::Idle,
            At::Fills { table, ticket, stamp, asked, must_see, read: Some(read) } => {
                assert!(read >= must_see, "the model itself");
                let text = format!("SELECT v FROM t{table}");
                let question = Question { context: &self.context, text: text.as_bytes(), parameters: None };
                let known = Known {
                    reply: if random.below(10) == 0 { Err(Refusal::Warnings) } else { Ok(read.to_le_bytes().into()) },
                    rows: 1,
                    found_rows: None,
                    status: 2,
                    server: 0,
                    took: self.now - asked,
                    asked,
                    rule: "r".into(),
                    digest: 1,
                    cluster: "main".into(),
                    tier: None,
                };
                self.raced += u64::from(ticket.keep(&question, stamp, known, &self.epochs).is_err());
                At::Idle
            }
            At::Passes { table, must_see } => {
                assert!(self.database[table] >= must_see);
                At::Idle
            }
            At::Waits { table } => self.ask(table, false, false, true),
            At::Writes { table, known, committed: None } => {
                self.writes += 1;
                self.database[table] = self.writes;
                At::Writes { table, known, committed: Some(self.writes) }
            }
            At::Writes { table, known, committed: Some(write) } => {
                let of = [id(table)];
                self.epochs.written(known.then_some(&of[..]));
                self.told[table] = self.told[table].max(write);
                At::Idle
            }
        };
        if random.below(100) == 0 {
            self.store.wipe(|answer| answer.may_have_read(id(table)));
        }
    }
}

fn play(seed: u64) -> World {
    let (mut world, mut random) = (World::new(), Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
    for _ in 0..STEPS {
        world.step(&mut random);
    }
    world
}

#[test]
fn nobody_is_given_an_answer_from_before_a_write_that_was_told() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        play(seed);
        return;
    }
    let (mut hits, mut raced) = (0, 0);
    for seed in 0..500 {
        let world = std::panic::catch_unwind(|| play(seed)).unwrap_or_else(|_| panic!("SEED={seed} plays it again"));
        hits += world.hits;
        raced += world.raced;
    }
    assert!(hits > 10_000 && raced > 1_000, "the model must try both: {hits} hits, {raced} races");
}

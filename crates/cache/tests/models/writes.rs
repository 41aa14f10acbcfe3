//! Sessions read and write in all orders of their steps: nobody is ever given an answer that was read before a write that any client had been
//! told of when the question was asked. They read tables and single rows, and write tables, rows, rows whose key changes, and nobody knows what.
//!
//! `SEED=n cargo test -p sqluice-cache --test models writes` plays one order again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqluice_cache::{
    Bounds, Context, Freshness, Lookup, Question, Reads, Refusal, RowId, Stamp, Store, TableId, TableWrite, Ticket,
    WriteCounters,
};

use crate::seeds::{self, Random};

const TABLES: usize = 3;
const ROWS: usize = 4;
const SESSIONS: usize = 6;
const STEPS: usize = 600;
const FRESH: Freshness = Freshness { ttl: Duration::from_millis(400), stale: Duration::from_millis(200) };

/// The read: the last write of a table, or that of one row.
#[derive(Clone, Copy, Debug)]
struct TestRead {
    table: usize,
    row: Option<usize>,
}

impl TestRead {
    fn text(self) -> String {
        let TestRead { table, row } = self;
        row.map_or(format!("SELECT MAX(v) FROM t{table}"), |row| format!("SELECT v FROM t{table} WHERE id = {row}"))
    }

    fn reads(self) -> Reads {
        match self.row {
            None => Reads::Tables(vec![id(self.table)]),
            Some(row) => Reads::Row(id(self.table), row_id(self.table, row)),
        }
    }
}

/// A write to rows of a table; whether its client's server is known to have written nothing else.
#[derive(Clone, Debug)]
struct Write {
    table: usize,
    /// More than one: all of them, or a key that changes.
    rows: Vec<usize>,
    detail: Detail,
}

/// How exactly a write is known: by its rows, by its table, or not at all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Detail {
    Rows,
    Table,
    Nothing,
}

/// Where a session is.
#[derive(Debug)]
enum At {
    Idle,
    /// It fills: stamped, and perhaps read by now.
    Fills {
        asked: TestRead,
        ticket: Ticket,
        stamp: Stamp,
        at: Instant,
        must_see: u64,
        read: Option<u64>,
    },
    /// It asks the database past the cache.
    Passes {
        asked: TestRead,
        must_see: u64,
    },
    /// It waits for another one's fill.
    Waits {
        asked: TestRead,
    },
    /// It writes; perhaps it is committed by now.
    Writes {
        write: Write,
        committed: Option<u64>,
    },
}

/// The number of the last write of each row.
type Rows = [[u64; ROWS]; TABLES];

struct World {
    store: Arc<Store>,
    counters: WriteCounters,
    context: Context,
    now: Instant,
    /// The values in the database.
    database: Rows,
    /// The values that clients were told of.
    reported: Rows,
    writes: u64,
    sessions: Vec<At>,
    hits: u64,
    /// Those of a row whose table was written since.
    spared: u64,
    raced: u64,
}

fn id(table: usize) -> TableId {
    TableId::of(table as u64)
}

fn row_id(table: usize, row: usize) -> RowId {
    RowId::of((table * ROWS + row) as u64)
}

fn shown(of: &Rows, asked: TestRead) -> u64 {
    let rows = &of[asked.table];
    asked.row.map_or_else(|| rows.iter().copied().max().unwrap(), |row| rows[row])
}

impl World {
    fn new(random: &mut Random) -> World {
        // With few counters rows share them.
        let counters = if random.below(3) == 0 {
            WriteCounters::default()
        } else {
            WriteCounters::with_rows(1 << random.below(5))
        };
        World {
            store: Arc::new(Store::new(Bounds { memory_max: 32 << 10, entry_max: 64 })),
            counters,
            context: Context::new([&b"c"[..]]),
            now: Instant::now(),
            database: Rows::default(),
            reported: Rows::default(),
            writes: 0,
            sessions: (0..SESSIONS).map(|_| At::Idle).collect(),
            hits: 0,
            spared: 0,
            raced: 0,
        }
    }

    fn ask(&mut self, asked: TestRead, may_wait: bool, anew: bool, knows_tables: bool) -> At {
        let text = asked.text();
        let question = Question { context: &self.context, text: text.as_bytes(), parameters: None };
        let must_see = shown(&self.reported, asked);
        match self.store.ask(&question, &self.counters, FRESH, self.now, anew) {
            Lookup::Hit(answer) | Lookup::Stale(answer) => {
                let reply = answer.reply().unwrap();
                let number = |at: usize| u64::from_le_bytes(reply[at..at + 8].try_into().unwrap());
                let (seen, table_then) = (number(0), number(8));
                assert!(seen >= must_see, "{asked:?}: write {must_see} was told, the answer is of {seen}");
                let age = self.now - answer.summary().asked;
                assert!(age <= FRESH.ttl + FRESH.stale, "{age:?}");
                self.hits += 1;
                self.spared += u64::from(shown(&self.reported, TestRead { row: None, ..asked }) > table_then);
                At::Idle
            }
            Lookup::Fill(ticket) => {
                let stamp = self.counters.stamp(|| knows_tables.then(|| asked.reads()));
                At::Fills { asked, ticket, stamp, at: self.now, must_see, read: None }
            }
            Lookup::Wait(_) if may_wait => At::Waits { asked },
            Lookup::Wait(_) | Lookup::Pass(_) => At::Passes { asked, must_see },
        }
    }

    /// Keeps what was read of it, and of its whole table.
    fn keep(
        &mut self,
        asked: TestRead,
        (ticket, stamp): (Ticket, Stamp),
        at: Instant,
        [read, table]: [u64; 2],
        is_good: bool,
    ) {
        let text = asked.text();
        let question = Question { context: &self.context, text: text.as_bytes(), parameters: None };
        let reply = match is_good {
            true => Ok([read.to_le_bytes(), table.to_le_bytes()].concat().into()),
            false => Err(Refusal::Warnings),
        };
        let parts = crate::parts(reply, at, self.now - at);
        self.raced += u64::from(ticket.keep(&question, stamp, parts, &self.counters).is_err());
    }

    /// The counters move before the client is told.
    fn tell(&mut self, write: &Write, number: u64) {
        let table = id(write.table);
        match write.detail {
            Detail::Nothing => self.counters.written(None),
            Detail::Table => self.counters.written(Some(&[table.into()])),
            Detail::Rows => {
                let rows = write.rows.iter().map(|row| row_id(write.table, *row)).collect();
                self.counters.written(Some(&[TableWrite { table, rows: Some(rows) }]));
            }
        }
        for row in &write.rows {
            let reported = &mut self.reported[write.table][*row];
            *reported = (*reported).max(number);
        }
    }

    fn step(&mut self, random: &mut Random) {
        self.now += Duration::from_millis(random.below(6) as u64);
        let session = random.below(SESSIONS);
        let (table, row) = (random.below(TABLES), random.below(ROWS));
        let at = std::mem::replace(&mut self.sessions[session], At::Idle);
        self.sessions[session] = match at {
            At::Idle if random.below(6) > 0 => {
                let asked = TestRead { table, row: (random.below(4) > 0).then_some(row) };
                let (anew, knows) = (random.below(20) == 0, random.below(8) > 0);
                self.ask(asked, true, anew, knows)
            }
            At::Idle => {
                let (rows, detail) = match random.below(10) {
                    0 => ((0..ROWS).collect(), Detail::Nothing),
                    1 => (vec![row], Detail::Nothing),
                    2 => ((0..ROWS).collect(), Detail::Table),
                    3 => (vec![row], Detail::Table),
                    // Its key changes: the row is gone, and another one there.
                    4 | 5 => (vec![row, random.below(ROWS)], Detail::Rows),
                    _ => (vec![row], Detail::Rows),
                };
                At::Writes { write: Write { table, rows, detail }, committed: None }
            }
            At::Fills { asked, ticket, stamp, at, must_see, read: None } if random.below(8) > 0 => {
                At::Fills { asked, ticket, stamp, at, must_see, read: Some(shown(&self.database, asked)) }
            }
            // Its server was lost.
            At::Fills { read: None, .. } => At::Idle,
            At::Fills { asked, ticket, stamp, at, must_see, read: Some(read) } => {
                assert!(read >= must_see, "the model itself");
                let table = shown(&self.database, TestRead { row: None, ..asked });
                self.keep(asked, (ticket, stamp), at, [read, table], random.below(10) > 0);
                At::Idle
            }
            At::Passes { asked, must_see } => {
                assert!(shown(&self.database, asked) >= must_see);
                At::Idle
            }
            At::Waits { asked } => self.ask(asked, false, false, true),
            At::Writes { write, committed: None } => {
                self.writes += 1;
                for row in &write.rows {
                    self.database[write.table][*row] = self.writes;
                }
                At::Writes { write, committed: Some(self.writes) }
            }
            At::Writes { write, committed: Some(number) } => {
                self.tell(&write, number);
                At::Idle
            }
        };
        if random.below(100) == 0 {
            self.store.wipe(|answer| answer.may_have_read(id(table)));
        }
    }
}

#[test]
fn nobody_is_given_an_answer_from_before_a_write_that_was_reported() {
    let (mut hits, mut spared, mut raced) = (0, 0, 0);
    let all = seeds::play((500, STEPS), World::new, World::step, |world| {
        hits += world.hits;
        spared += world.spared;
        raced += world.raced;
    });
    let tried = format!("{hits} hits, {spared} of a row whose table was written since, {raced} races");
    assert!(!all || hits > 10_000 && spared > 1_000 && raced > 1_000, "the model must try all: {tried}");
}

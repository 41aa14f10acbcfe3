//! Sessions read and write in all orders of their steps: nobody is ever given an answer that was read before a write that any client had been
//! told of when the question was asked. They read tables and single rows, and write tables, rows, rows whose key changes, and nobody knows what.
//!
//! `SEED=n cargo test -p sqluice-cache --test models writes` plays one order again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqluice_cache::{
    Bounds, Context, Epochs, Found, Freshness, Question, Reads, Refusal, RowId, Stamp, Store, TableId, TableWrite,
    Ticket,
};

use crate::seeds::{self, Random};

const TABLES: usize = 3;
const ROWS: usize = 4;
const SESSIONS: usize = 6;
const STEPS: usize = 600;
const FRESH: Freshness = Freshness { ttl: Duration::from_millis(400), stale: Duration::from_millis(200) };

/// The read: the last write of a table, or that of one row.
#[derive(Clone, Copy, Debug)]
struct Asked {
    table: usize,
    row: Option<usize>,
}

impl Asked {
    fn text(self) -> String {
        let Asked { table, row } = self;
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
    known: Known,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
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
        asked: Asked,
        ticket: Ticket,
        stamp: Stamp,
        at: Instant,
        must_see: u64,
        read: Option<u64>,
    },
    /// It asks the database past the cache.
    Passes {
        asked: Asked,
        must_see: u64,
    },
    /// It waits for another one's fill.
    Waits {
        asked: Asked,
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
    epochs: Epochs,
    context: Context,
    now: Instant,
    /// The values in the database.
    database: Rows,
    /// The values that clients were told of.
    told: Rows,
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

fn shown(of: &Rows, asked: Asked) -> u64 {
    let rows = &of[asked.table];
    asked.row.map_or_else(|| rows.iter().copied().max().unwrap(), |row| rows[row])
}

impl World {
    fn new(random: &mut Random) -> World {
        // With few epochs rows share them.
        let epochs = if random.below(3) == 0 { Epochs::default() } else { Epochs::with_rows(1 << random.below(5)) };
        World {
            store: Arc::new(Store::new(Bounds { memory_max: 32 << 10, entry_max: 64 })),
            epochs,
            context: Context::new([&b"c"[..]]),
            now: Instant::now(),
            database: Rows::default(),
            told: Rows::default(),
            writes: 0,
            sessions: (0..SESSIONS).map(|_| At::Idle).collect(),
            hits: 0,
            spared: 0,
            raced: 0,
        }
    }

    fn ask(&mut self, asked: Asked, may_wait: bool, anew: bool, knows_tables: bool) -> At {
        let text = asked.text();
        let question = Question { context: &self.context, text: text.as_bytes(), parameters: None };
        let must_see = shown(&self.told, asked);
        match self.store.ask(&question, &self.epochs, FRESH, self.now, anew) {
            Found::Hit(answer) | Found::Stale(answer) => {
                let reply = answer.reply().unwrap();
                let number = |at: usize| u64::from_le_bytes(reply[at..at + 8].try_into().unwrap());
                let (seen, table_then) = (number(0), number(8));
                assert!(seen >= must_see, "{asked:?}: write {must_see} was told, the answer is of {seen}");
                let age = self.now - answer.summary().asked;
                assert!(age <= FRESH.ttl + FRESH.stale, "{age:?}");
                self.hits += 1;
                self.spared += u64::from(shown(&self.told, Asked { row: None, ..asked }) > table_then);
                At::Idle
            }
            Found::Fill(ticket) => {
                let stamp = self.epochs.stamp(|| knows_tables.then(|| asked.reads()));
                At::Fills { asked, ticket, stamp, at: self.now, must_see, read: None }
            }
            Found::Wait(_) if may_wait => At::Waits { asked },
            Found::Wait(_) | Found::Pass(_) => At::Passes { asked, must_see },
        }
    }

    /// Keeps what was read of it, and of its whole table.
    fn keep(
        &mut self,
        asked: Asked,
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
        let known = crate::known(reply, at, self.now - at);
        self.raced += u64::from(ticket.keep(&question, stamp, known, &self.epochs).is_err());
    }

    /// The epochs move before the client is told.
    fn tell(&mut self, write: &Write, number: u64) {
        let table = id(write.table);
        match write.known {
            Known::Nothing => self.epochs.written(None),
            Known::Table => self.epochs.written(Some(&[table.into()])),
            Known::Rows => {
                let rows = write.rows.iter().map(|row| row_id(write.table, *row)).collect();
                self.epochs.written(Some(&[TableWrite { table, rows: Some(rows) }]));
            }
        }
        for row in &write.rows {
            let told = &mut self.told[write.table][*row];
            *told = (*told).max(number);
        }
    }

    fn step(&mut self, random: &mut Random) {
        self.now += Duration::from_millis(random.below(6) as u64);
        let session = random.below(SESSIONS);
        let (table, row) = (random.below(TABLES), random.below(ROWS));
        let at = std::mem::replace(&mut self.sessions[session], At::Idle);
        self.sessions[session] = match at {
            At::Idle if random.below(6) > 0 => {
                let asked = Asked { table, row: (random.below(4) > 0).then_some(row) };
                let (anew, knows) = (random.below(20) == 0, random.below(8) > 0);
                self.ask(asked, true, anew, knows)
            }
            At::Idle => {
                let (rows, known) = match random.below(10) {
                    0 => ((0..ROWS).collect(), Known::Nothing),
                    1 => (vec![row], Known::Nothing),
                    2 => ((0..ROWS).collect(), Known::Table),
                    3 => (vec![row], Known::Table),
                    // Its key changes: the row is gone, and another one there.
                    4 | 5 => (vec![row, random.below(ROWS)], Known::Rows),
                    _ => (vec![row], Known::Rows),
                };
                At::Writes { write: Write { table, rows, known }, committed: None }
            }
            At::Fills { asked, ticket, stamp, at, must_see, read: None } if random.below(8) > 0 => {
                At::Fills { asked, ticket, stamp, at, must_see, read: Some(shown(&self.database, asked)) }
            }
            // Its server was lost.
            At::Fills { read: None, .. } => At::Idle,
            At::Fills { asked, ticket, stamp, at, must_see, read: Some(read) } => {
                assert!(read >= must_see, "the model itself");
                let table = shown(&self.database, Asked { row: None, ..asked });
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
fn nobody_is_given_an_answer_from_before_a_write_that_was_told() {
    let (mut hits, mut spared, mut raced) = (0, 0, 0);
    let all = seeds::play((500, STEPS), World::new, World::step, |world| {
        hits += world.hits;
        spared += world.spared;
        raced += world.raced;
    });
    let tried = format!("{hits} hits, {spared} of a row whose table was written since, {raced} races");
    assert!(!all || hits > 10_000 && spared > 1_000 && raced > 1_000, "the model must try all: {tried}");
}

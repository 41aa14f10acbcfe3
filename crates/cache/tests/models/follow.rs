//! Sessions read and write through the cache and around it while the servers' log is followed, in all orders of their steps: nobody is ever given
//! an answer that was read before a write that its writer, through the cache, was told of, or before one that could be seen longer ago than the
//! delay that is shown. The stream breaks, the log has gaps, and replicas take over.
//!
//! `SEED=n cargo test -p sqluice-cache --test models follow` plays one order again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqluice_cache::{
    Bounds, Context, Follow, Freshness, Lookup, Question, Reads, Refusal, RowId, Stamp, Store, TableId, TableWrite,
    Ticket, WriteCounters,
};

use crate::seeds::{self, Random};

const TABLES: usize = 2;
const ROWS: usize = 3;
const SESSIONS: usize = 6;
const STEPS: usize = 1_500;
const DELAY_MAX: Duration = Duration::from_millis(400);
const FRESH: Freshness = Freshness { ttl: Duration::from_secs(3_600), stale: Duration::from_millis(200) };

/// A transaction in the log; its place there is its number.
#[derive(Clone, Copy, Debug)]
struct Logged {
    table: usize,
    /// The row, and where its key changed the one that it was before.
    rows: [usize; 2],
    /// How exactly the log names it.
    detail: Detail,
    /// When it could be seen on the primary.
    visible: Option<Instant>,
}

/// How exactly a write is known: by its rows, by its table, or not at all.
#[derive(Clone, Copy, Debug)]
enum Detail {
    Rows,
    Table,
    Nothing,
}

impl Logged {
    fn any(random: &mut Random) -> Logged {
        let (table, row) = (random.below(TABLES), random.below(ROWS));
        let before = if random.below(4) == 0 { random.below(ROWS) } else { row };
        let detail = match random.below(6) {
            0 => Detail::Nothing,
            1 => Detail::Table,
            _ => Detail::Rows,
        };
        Logged { table, rows: [row, before], detail, visible: None }
    }

    fn touches(&self, asked: TestRead) -> bool {
        self.table == asked.table && asked.row.is_none_or(|row| self.rows.contains(&row))
    }

    fn by_row(&self) -> TableWrite {
        let rows = self.rows.map(|row| row_id(self.table, row));
        TableWrite { table: id(self.table), rows: Some(rows.into()) }
    }

    fn reported(&self) -> Option<Vec<TableWrite>> {
        match self.detail {
            Detail::Rows => Some(vec![self.by_row()]),
            Detail::Table => Some(vec![id(self.table).into()]),
            Detail::Nothing => None,
        }
    }
}

/// The read: the last write of a table, or of one row.
#[derive(Clone, Copy, Debug)]
struct TestRead {
    table: usize,
    row: Option<usize>,
}

impl TestRead {
    fn any(random: &mut Random) -> TestRead {
        let row = (random.below(3) > 0).then(|| random.below(ROWS));
        TestRead { table: random.below(TABLES), row }
    }

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

    /// Where what was acknowledged of it stands.
    fn place(self) -> usize {
        self.table * (ROWS + 1) + self.row.map_or(ROWS, |row| row)
    }
}

/// Where a session is.
#[derive(Debug)]
enum At {
    Idle,
    /// It fills: stamped, on the primary or on the replica, and perhaps read by now.
    Fills {
        asked: TestRead,
        ticket: Ticket,
        stamp: Stamp,
        at: Instant,
        on_replica: bool,
        read: Option<usize>,
    },
    /// It writes through the cache: logged here, if at all yet.
    Writes {
        write: Logged,
        logged: Option<usize>,
    },
}

/// A question to the primary how far it is.
#[derive(Clone, Copy, Debug)]
struct Ask {
    asked: Instant,
    /// How much is logged, and how much of that can be seen, once the primary has looked.
    says: Option<(usize, usize)>,
}

struct World {
    store: Arc<Store>,
    counters: WriteCounters,
    follow: Follow,
    context: Context,
    now: Instant,
    log: Vec<Logged>,
    /// How much of the log can be seen on the primary, and how much on the replica.
    visible: usize,
    applied: usize,
    /// How much of the log a replica must have for a fill.
    noted: usize,
    /// The last write of each table, and row, through the cache that its client was told of.
    acknowledged: [usize; TABLES * (ROWS + 1)],
    /// The stream: how much it has told, how much of that it knows to be visible; what must be visible before it counts.
    reported: Option<usize>,
    settled: usize,
    begun: usize,
    ask: Option<Ask>,
    goals: Vec<(Instant, usize)>,
    sessions: Vec<At>,
    hits: u64,
    kept: u64,
    moving: u64,
    idle: u64,
}

fn id(table: usize) -> TableId {
    TableId::of(table as u64)
}

fn row_id(table: usize, row: usize) -> RowId {
    RowId::of((table * ROWS + row) as u64)
}

impl World {
    fn new(random: &mut Random) -> World {
        // With few counters rows share them.
        let counters = if random.below(3) == 0 {
            WriteCounters::default()
        } else {
            WriteCounters::with_rows(1 << random.below(4))
        };
        let now = Instant::now();
        World {
            store: Arc::new(Store::new(Bounds { memory_max: 8 << 10, entry_max: 64 })),
            counters,
            follow: Follow::new(now, DELAY_MAX),
            context: Context::new([&b"c"[..]]),
            now,
            log: Vec::new(),
            visible: 0,
            applied: 0,
            noted: 0,
            acknowledged: [0; TABLES * (ROWS + 1)],
            reported: None,
            settled: 0,
            begun: 0,
            ask: None,
            goals: Vec::new(),
            sessions: (0..SESSIONS).map(|_| At::Idle).collect(),
            hits: 0,
            kept: 0,
            moving: 0,
            idle: 0,
        }
    }

    /// The value that a server with this much of the log shows: the number of the last visible write, from 1.
    fn shows(&self, asked: TestRead, up_to: usize) -> usize {
        self.log[..up_to].iter().rposition(|logged| logged.touches(asked)).map_or(0, |place| place + 1)
    }

    fn log(&mut self, write: Logged) -> usize {
        self.log.push(write);
        self.log.len()
    }

    /// The values that a read must see now.
    fn must_see(&self, asked: TestRead) -> (usize, usize) {
        let delay = self.follow.delay(self.now).unwrap();
        assert!(delay <= DELAY_MAX, "{delay:?}");
        let old_enough = |logged: &Logged| logged.visible.is_some_and(|at| at + delay < self.now);
        let followed = self.log.iter().rposition(|logged| logged.touches(asked) && old_enough(logged));
        (self.acknowledged[asked.place()], followed.map_or(0, |place| place + 1))
    }

    fn ask_cache(&mut self, asked: TestRead, random: &mut Random) -> At {
        if !self.follow.serves(self.now) {
            self.idle += 1;
            return At::Idle;
        }
        let text = asked.text();
        let question = Question { context: &self.context, text: text.as_bytes(), parameters: None };
        match self.store.ask(&question, &self.counters, FRESH, self.now, random.below(30) == 0) {
            Lookup::Hit(answer) | Lookup::Stale(answer) => {
                let reply = answer.reply().unwrap();
                let seen = usize::from_le_bytes(reply[..].try_into().unwrap());
                let (own, followed) = self.must_see(asked);
                assert!(seen >= own, "{asked:?}: write {own} was acknowledged, the answer is of {seen}");
                assert!(
                    seen >= followed,
                    "{asked:?}: write {followed} is older than the delay, the answer is of {seen}"
                );
                self.hits += 1;
                At::Idle
            }
            Lookup::Fill(ticket) => {
                let stamp = self.follow.stamp(&self.counters, self.now, || Some(asked.reads()));
                let Ok(stamp) = stamp else {
                    self.moving += 1;
                    return At::Idle;
                };
                // Behind the stamp: the replica must have what was noted by then.
                let on_replica = random.below(2) == 0 && self.applied >= self.noted;
                At::Fills { asked, ticket, stamp, at: self.now, on_replica, read: None }
            }
            Lookup::Wait(_) | Lookup::Pass(_) => At::Idle,
        }
    }

    fn keep(&mut self, asked: TestRead, ticket: Ticket, stamp: Stamp, at: Instant, read: usize) {
        let text = asked.text();
        let question = Question { context: &self.context, text: text.as_bytes(), parameters: None };
        let parts = crate::parts(Ok(read.to_le_bytes().into()), at, self.now - at);
        match ticket.keep(&question, stamp, parts, &self.counters) {
            Ok(()) => self.kept += 1,
            Err(refusal) => assert_eq!(refusal, Refusal::Raced),
        }
    }

    fn session(&mut self, random: &mut Random) {
        let session = random.below(SESSIONS);
        let at = std::mem::replace(&mut self.sessions[session], At::Idle);
        self.sessions[session] = match at {
            At::Idle if random.below(8) > 0 => self.ask_cache(TestRead::any(random), random),
            At::Idle => At::Writes { write: Logged::any(random), logged: None },
            At::Fills { asked, ticket, stamp, at, on_replica, read: None } => {
                let read = self.shows(asked, if on_replica { self.applied } else { self.visible });
                At::Fills { asked, ticket, stamp, at, on_replica, read: Some(read) }
            }
            At::Fills { asked, ticket, stamp, at, read: Some(read), .. } => {
                self.keep(asked, ticket, stamp, at, read);
                At::Idle
            }
            At::Writes { write, logged: None } => At::Writes { write, logged: Some(self.log(write)) },
            At::Writes { write, logged: Some(number) } if self.visible >= number => {
                self.noted = self.noted.max(number);
                // Its text may tell more than the log, or less.
                let table = [id(write.table).into()];
                self.counters.written(Some(&if random.below(3) == 0 { table } else { [write.by_row()] }));
                for row in [None, Some(write.rows[0]), Some(write.rows[1])] {
                    let acknowledged = &mut self.acknowledged[TestRead { table: write.table, row }.place()];
                    *acknowledged = (*acknowledged).max(number);
                }
                At::Idle
            }
            waits @ At::Writes { .. } => waits,
        };
    }

    fn servers(&mut self, random: &mut Random) {
        match random.below(6) {
            // Somebody writes around.
            0 => {
                self.log(Logged::any(random));
            }
            1..=3 if self.visible < self.log.len() => {
                self.log[self.visible].visible = Some(self.now);
                self.visible += 1;
            }
            // With semi-synchronous replication a replica may have it before.
            _ if self.applied < self.log.len() => self.applied += 1,
            _ => {}
        }
    }

    fn stream(&mut self, random: &mut Random) {
        let Some(reported) = self.reported else { return self.connect(random) };
        match random.below(5) {
            0 | 1 if reported < self.log.len() => {
                let change = self.log[reported].reported();
                self.reported = Some(reported + 1);
                self.noted = self.noted.max(reported + 1);
                self.follow.changed(&self.counters, change);
            }
            2 if self.ask.is_none() => self.ask = Some(Ask { asked: self.now, says: None }),
            3 => {
                if let Some(ask) = &mut self.ask {
                    ask.says = ask.says.or(Some((self.log.len(), self.visible)));
                }
            }
            4 => {
                if let Some(Ask { asked, says: Some((logged, visible)) }) = self.ask {
                    self.ask = None;
                    if visible.min(reported) > self.settled {
                        self.follow.visible(visible.min(reported) - self.settled);
                        self.settled = visible.min(reported);
                    }
                    if visible >= self.begun {
                        self.begun = 0;
                    }
                    self.goals.push((asked, logged));
                }
            }
            _ => {}
        }
        let reported = self.reported.unwrap_or(0);
        while self.begun == 0 && self.goals.first().is_some_and(|(_, logged)| reported >= *logged) {
            let (asked, _) = self.goals.remove(0);
            self.follow.caught_up(asked);
        }
    }

    fn connect(&mut self, random: &mut Random) {
        self.begun = self.log.len();
        if random.below(4) == 0 {
            // It cannot go on where it was: everything has changed, up to what is logged by now.
            self.counters.written(None);
            self.noted = self.noted.max(self.log.len());
            self.settled = self.log.len();
        }
        self.reported = Some(self.settled);
    }

    fn lose(&mut self) {
        if self.reported.take().is_some() {
            self.follow.lost();
        }
        self.ask = None;
        self.goals.clear();
    }

    /// The replica takes over; it has every change that was visible. Other changes are lost, and all of its own are visible.
    fn fail_over(&mut self) {
        if self.applied < self.visible || self.settled > self.applied {
            return;
        }
        self.log.truncate(self.applied);
        while self.visible < self.applied {
            self.log[self.visible].visible = Some(self.now);
            self.visible += 1;
        }
        self.noted = self.noted.min(self.applied);
        self.lose();
        self.counters.written(None);
        for session in &mut self.sessions {
            let is_lost = match session {
                At::Writes { logged: Some(number), .. } => *number > self.visible,
                At::Fills { read: None, .. } => true,
                _ => false,
            };
            if is_lost {
                *session = At::Idle;
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        self.now += Duration::from_micros(random.below(8_000) as u64);
        match random.below(800) {
            0 => self.lose(),
            1 => self.fail_over(),
            2..=399 => self.session(random),
            400..=499 => self.servers(random),
            _ => self.stream(random),
        }
    }
}

#[test]
fn nobody_is_given_an_answer_that_is_older_than_its_own_writes_and_the_delay_that_is_shown() {
    let (mut hits, mut kept, mut moving, mut idle) = (0, 0, 0, 0);
    let all = seeds::play((600, STEPS), World::new, World::step, |world| {
        hits += world.hits;
        kept += world.kept;
        moving += world.moving;
        idle += world.idle;
    });
    let tried =
        format!("{hits} hits, {kept} kept, {moving} while a change was under way, {idle} while nothing was followed");
    assert!(!all || hits > 5_000 && kept > 5_000 && moving > 5_000 && idle > 5_000, "the model must try all: {tried}");
}

//! Many sessions and every kind of trouble at once: no session gets a row that another has asked for.
//!
//! `SQLUICE_PIPELINED_ROWS` sets how many rows are checked; `docs/internals/testing.md` has the command for ten million.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab::Family;
use net::query::{Client, Limits, Parameter, QueryError, Statement};
use tokio::task::JoinSet;
use wire::command::Command;

use super::{always, numbers, pipelined, reasons};
use crate::support::{Front, app, calm, families};

/// Rows that are checked for each family.
const ROWS: u64 = 100_000;
/// Clients that nobody hurts.
const READERS: u64 = 40;
/// Clients whose queries or sessions are killed.
const VICTIMS: u64 = 12;
/// Clients that leave while their read is under way.
const LEAVERS: u64 = 2;
/// Clients that read none of their replies until all is over.
const MUTE: u64 = 3;
/// Reads of each of these; their replies are more than the buffers of sockets hold.
const MUTE_READS: u64 = 1000;
/// The repetitions of a mark in such a reply: small enough for a pipeline.
const MUTE_REPEAT: usize = 1200;
/// The repetitions of a mark in a reply of a megabyte.
const LARGE_REPEAT: usize = 100_000;
/// Between two clients that leave the others check so many rows.
const LEAVE_ROWS: u64 = 300;
/// The same between two kills.
const KILL_ROWS: u64 = 30;
/// Rows of the table.
const NUMBERS: u64 = 500;

/// Counts of all clients of a run.
#[derive(Default)]
struct Tally {
    rows: AtomicU64,
    reads: AtomicU64,
    long: AtomicU64,
    large: AtomicU64,
    queries_killed: AtomicU64,
    sessions_killed: AtomicU64,
    left: AtomicU64,
    victims: Mutex<Vec<u32>>,
}

/// A run: when it ends, and its counts.
struct Run {
    wanted: u64,
    tally: Tally,
    target: net::client::Target,
}

impl Run {
    fn is_over(&self) -> bool {
        self.tally.rows.load(Ordering::Relaxed) >= self.wanted
    }

    async fn client(&self) -> Client {
        let limits = Limits { timeout: Duration::from_secs(60), ..Limits::default() };
        Client::connect(&self.target, app(), limits).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until the others have checked some rows more. Gives whether the run goes on.
    async fn paced(&self, rows: u64) -> bool {
        let goal = self.tally.rows.load(Ordering::Relaxed) + rows;
        while !self.is_over() && self.tally.rows.load(Ordering::Relaxed) < goal {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        !self.is_over()
    }
}

/// Numbers that look random, from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A row, or some.
    Short,
    /// 50 ms.
    Long,
    /// A megabyte.
    Large,
}

/// A read, and what its reply has to be.
struct Asked {
    kind: Kind,
    mark: String,
    first: u64,
    last: u64,
}

impl Asked {
    fn new(me: u64, number: u64, dice: &mut Dice) -> Asked {
        let kind = match dice.roll(100) {
            0..5 => Kind::Long,
            5 => Kind::Large,
            _ => Kind::Short,
        };
        let first = dice.roll(NUMBERS);
        let more = if kind == Kind::Short && dice.roll(2) == 0 { dice.roll(40) } else { 0 };
        Asked { kind, mark: format!("{me}-{number}"), first, last: (first + more).min(NUMBERS - 1) }
    }

    /// The texts to prepare, by kind.
    const PREPARED: [&str; 3] = [
        "SELECT n, t, ? FROM piped WHERE n BETWEEN ? AND ? ORDER BY n",
        "SELECT n, SLEEP(0.05), ? FROM piped WHERE n BETWEEN ? AND ? ORDER BY n",
        "SELECT n, REPEAT(?, 100000) FROM piped WHERE n BETWEEN ? AND ? ORDER BY n",
    ];

    fn text(&self) -> String {
        let [mark, first, last] = [format!("'{}'", self.mark), self.first.to_string(), self.last.to_string()];
        Asked::PREPARED[self.kind as usize].replacen('?', &mark, 1).replacen('?', &first, 1).replacen('?', &last, 1)
    }

    fn parameters(&self) -> [Parameter; 3] {
        [self.mark.as_str().into(), Parameter::Int(self.first as i64), Parameter::Int(self.last as i64)]
    }

    /// Checks each value of each row. Gives the number of rows.
    fn check(&self, rows: &[net::query::Row], may_be_killed: bool) -> u64 {
        let expected = self.last - self.first + 1;
        assert_eq!(rows.len() as u64, expected, "{}: {:?}", self.text(), rows.first());
        for (row, n) in rows.iter().zip(self.first..) {
            let value = |at: usize| row[at].as_deref().unwrap_or(b"NULL");
            assert_eq!(String::from_utf8_lossy(value(0)), n.to_string(), "{}", self.text());
            match self.kind {
                Kind::Short => assert_eq!(String::from_utf8_lossy(value(1)), format!("text {n}"), "{}", self.text()),
                Kind::Long => assert!(value(1) == b"0" || may_be_killed && value(1) == b"1", "{}", self.text()),
                Kind::Large => {
                    assert_eq!(value(1).len(), self.mark.len() * LARGE_REPEAT, "{}", self.text());
                    assert!(value(1).chunks(self.mark.len()).all(|part| part == self.mark.as_bytes()));
                    continue;
                }
            }
            assert_eq!(String::from_utf8_lossy(value(2)), self.mark, "{}", self.text());
        }
        expected
    }
}

/// A client with its prepared statements.
struct Connected {
    client: Client,
    prepared: [Statement; 3],
}

impl Connected {
    async fn new(run: &Run) -> Result<Connected, QueryError> {
        let mut client = run.client().await;
        let mut prepared = Vec::new();
        for text in Asked::PREPARED {
            prepared.push(client.prepare(text).await?);
        }
        Ok(Connected { client, prepared: prepared.try_into().unwrap() })
    }

    async fn read(
        &mut self,
        asked: &Asked,
        is_prepared: bool,
        may_be_killed: bool,
        tally: &Tally,
    ) -> Result<(), QueryError> {
        let results = if is_prepared {
            self.client.execute(&self.prepared[asked.kind as usize], &asked.parameters()).await?
        } else {
            self.client.query(asked.text()).await?
        };
        assert_eq!(results.len(), 1, "{}", asked.text());
        let rows = asked.check(&results[0].rows, may_be_killed);
        tally.rows.fetch_add(rows, Ordering::Relaxed);
        tally.reads.fetch_add(1, Ordering::Relaxed);
        match asked.kind {
            Kind::Short => 0,
            Kind::Long => tally.long.fetch_add(1, Ordering::Relaxed),
            Kind::Large => tally.large.fetch_add(1, Ordering::Relaxed),
        };
        Ok(())
    }
}

async fn reader(run: Arc<Run>, me: u64) {
    let mut dice = Dice(me + 1);
    let mut client = Connected::new(&run).await.unwrap();
    for number in 0.. {
        if run.is_over() {
            break;
        }
        let (asked, is_prepared) = (Asked::new(me, number, &mut dice), dice.roll(2) == 0);
        let read = client.read(&asked, is_prepared, false, &run.tally).await;
        read.unwrap_or_else(|error| panic!("{}: {error}", asked.text()));
    }
}

/// Reads as others do. A kill ends a query or the session; nothing else may.
async fn victim(run: Arc<Run>, me: u64) {
    let (mut dice, mut number) = (Dice(me + 1), 0);
    while !run.is_over() {
        let Ok(mut client) = Connected::new(&run).await else { continue };
        let id = client.client.greeting().connection_id;
        run.tally.victims.lock().unwrap().push(id);
        let lost = loop {
            if run.is_over() {
                break false;
            }
            number += 1;
            let (asked, is_prepared) = (Asked::new(me, number, &mut dice), dice.roll(2) == 0);
            match client.read(&asked, is_prepared, true, &run.tally).await {
                Ok(()) => {}
                Err(error) if error.code() == Some(1317) => {
                    run.tally.queries_killed.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if matches!(error, QueryError::Io(_)) || error.code() == Some(1927) => break true,
                Err(error) => panic!("{}: {error}", asked.text()),
            }
        };
        run.tally.victims.lock().unwrap().retain(|other| *other != id);
        run.tally.sessions_killed.fetch_add(lost.into(), Ordering::Relaxed);
    }
}

async fn killer(run: Arc<Run>) {
    let (mut dice, mut client) = (Dice(99), run.client().await);
    while run.paced(KILL_ROWS).await {
        let victims = run.tally.victims.lock().unwrap().clone();
        let Some(id) = victims.get(dice.roll(VICTIMS) as usize) else { continue };
        let form = if dice.roll(16) == 0 { "KILL" } else { "KILL QUERY" };
        let killed = client.query(format!("{form} {id}")).await;
        assert!(killed.as_ref().err().is_none_or(|error| error.code() == Some(1094)), "{killed:?}");
    }
}

/// Connects, asks, and leaves before the reply, again and again.
async fn leaver(run: Arc<Run>, me: u64) {
    let mut dice = Dice(me + 1);
    for number in 0.. {
        if !run.paced(LEAVE_ROWS).await {
            break;
        }
        let mut client = run.client().await;
        for _ in 0..=dice.roll(3) {
            let asked = Asked::new(me, number, &mut dice);
            client.send_raw(&text_command(&asked.text())).await.unwrap();
        }
        run.tally.left.fetch_add(1, Ordering::Relaxed);
    }
}

fn text_command(sql: &str) -> Vec<u8> {
    [&[Command::Query.byte()], sql.as_bytes()].concat()
}

/// Asks much and reads nothing. At the end all replies are there, in their order.
async fn mute(run: Arc<Run>, me: u64) {
    let mut client = run.client().await;
    for number in 0..MUTE_READS {
        let sql = format!("SELECT REPEAT('{me}-{number},', {MUTE_REPEAT})");
        client.send_raw(&text_command(&sql)).await.unwrap();
    }
    while run.paced(LEAVE_ROWS).await {}
    for number in 0..MUTE_READS {
        // The number of columns, the column, the row, its end.
        let mut packets = Vec::new();
        for _ in 0..4 {
            packets.push(client.read_raw().await.unwrap().1);
        }
        let expected = format!("{me}-{number},").repeat(MUTE_REPEAT);
        assert!(packets[2].ends_with(expected.as_bytes()), "{}", String::from_utf8_lossy(&packets[2][..40]));
    }
    run.tally.rows.fetch_add(MUTE_READS, Ordering::Relaxed);
    run.tally.reads.fetch_add(MUTE_READS, Ordering::Relaxed);
}

async fn check(family: Family) {
    let servers = calm(family).await;
    numbers(servers).await;
    let front = Front::start(servers, always).await;
    let wanted = std::env::var("SQLUICE_PIPELINED_ROWS").map_or(ROWS, |rows| rows.parse().expect("a number of rows"));
    let run = Arc::new(Run { wanted, tally: Tally::default(), target: front.target() });
    let begun = Instant::now();
    let (mut clients, mut numbers) = (JoinSet::new(), 0..);
    let mut me = || numbers.next().unwrap();
    (0..READERS).for_each(|_| drop(clients.spawn(reader(run.clone(), me()))));
    (0..VICTIMS).for_each(|_| drop(clients.spawn(victim(run.clone(), me()))));
    (0..LEAVERS).for_each(|_| drop(clients.spawn(leaver(run.clone(), me()))));
    (0..MUTE).for_each(|_| drop(clients.spawn(mute(run.clone(), me()))));
    clients.spawn(killer(run.clone()));
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    let (shared, tally) = (pipelined(&front).await, &run.tally);
    let [rows, reads, long, large, queries, sessions, left] = [
        &tally.rows,
        &tally.reads,
        &tally.long,
        &tally.large,
        &tally.queries_killed,
        &tally.sessions_killed,
        &tally.left,
    ]
    .map(|count| count.load(Ordering::Relaxed));
    eprintln!(
        "{family:?}: {rows} rows of {reads} reads checked in {:?}, each its asker's own; {shared} shared connections; \
         {long} of 50 ms, {large} of 1 MB; {queries} queries and {sessions} sessions killed; {left} clients left; not \
         shared: {}",
        begun.elapsed(),
        reasons(&front).await
    );
    assert!(shared > reads as f64 / 4.0, "{family:?}: only {shared} of {reads}");
    assert!([long, large, sessions, left].into_iter().all(|count| count > 0), "{family:?}: too little trouble");
    if family == Family::MariaDb {
        assert!(queries > 0, "MySQL ends SLEEP without an error");
    }
}

#[tokio::test]
async fn among_kills_and_clients_that_leave_or_do_not_read_each_row_is_its_askers() {
    for family in families() {
        check(family).await;
    }
}

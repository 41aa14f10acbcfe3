//! Sessions read through Sqluices that follow, and write through them, through another one and past all, while streams are cut and another server
//! becomes primary. No read is older than what the clients of the same Sqluice were told, with a shared tier those of any, nor older than the delay
//! that it shows.
//!
//! `SEED=n` plays one order again, as far as servers do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lab::{Family, Replication, Valkey, ValkeyOptions};
use net::query::{Client, Limits};

use super::{DELAY_MAX, RULE, follows};
use crate::login::accounts;
use crate::support::cache::{hits, page, until_hit};
use crate::support::{Front, Setup, app, blocking, failing, families};

const ROWS: usize = 4;
/// Sessions of each Sqluice.
const SESSIONS: u64 = 5;

/// Numbers as a seed gives them.
pub struct Random(u64);

impl Random {
    fn of(seed: u64, session: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(session))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// The parts of a game.
pub struct Game {
    pub table: &'static str,
    /// Those under test.
    pub fronts: Vec<Front>,
    /// Through this one it is only written.
    pub other: Front,
    /// The servers, of which one may be written.
    pub addresses: Vec<String>,
    /// A write through one under test is seen through all of them at once.
    pub shared: bool,
    /// For so long it is played at least.
    pub played: Duration,
    /// It was played for long enough: sessions and writers end.
    pub over: AtomicBool,
}

/// On a busy machine it takes longer until the cache has answered often enough; a cache that answers nothing fails then.
const PLAYED_MAX: Duration = Duration::from_secs(90);
/// So many answers of the cache are to be looked at, for each Sqluice.
const HITS: u64 = 30;

/// The values that clients of one Sqluice must see.
#[derive(Default)]
struct Book {
    /// Of each row: the greatest number that they were told of.
    reported: [AtomicU64; ROWS],
    /// All from before this moment, by the delay that was shown.
    as_of: Mutex<Option<Instant>>,
}

/// The writes, and the known freshness of results.
#[derive(Default)]
struct Books {
    /// The last number; each write sets a row to a greater one than all before it.
    last: AtomicU64,
    /// Of each row: what was written, and when its writer was told.
    written: [Mutex<Vec<(Instant, u64)>>; ROWS],
    /// Of each Sqluice under test.
    of: Vec<Book>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Books {
    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn wrote(&self, row: usize, number: u64) {
        lock(&self.written[row]).push((Instant::now(), number));
    }

    /// The values that a read of a row must see from now on: those confirmed here, and those written long enough ago.
    fn must_see(&self, front: usize, row: usize) -> (u64, u64) {
        let reported = self.of[front].reported[row].load(Ordering::SeqCst);
        let before = Instant::now().checked_sub(DELAY_MAX).max(*lock(&self.of[front].as_of));
        let written = lock(&self.written[row]);
        let long_ago = written.iter().filter(|(at, _)| before.is_some_and(|before| *at < before));
        (reported, long_ago.map(|(_, number)| *number).max().unwrap_or(0))
    }
}

fn update(table: &str, row: usize, number: u64) -> String {
    format!("UPDATE {table} SET n = {number} WHERE id = {row} AND n < {number}")
}

/// Connects past all proxies to the server that may be written.
async fn writable(addresses: &[String]) -> Option<Client> {
    for address in addresses {
        let target = net::client::Target::plain(address.parse().unwrap(), Duration::from_secs(15));
        let Ok(mut client) = Client::connect(&target, app(), Limits::default()).await else { continue };
        let read_only = client.query_one("SELECT @@global.read_only").await;
        if read_only.is_ok_and(|answer| answer.scalar().is_some_and(|value| value == "0")) {
            return Some(client);
        }
    }
    None
}

/// Makes the table.
pub fn table_sql(table: &str) -> String {
    let values: Vec<String> = (0..ROWS).map(|row| format!("({row}, 0)")).collect();
    format!(
        "DROP TABLE IF EXISTS app.{table}; CREATE TABLE app.{table} (id INT PRIMARY KEY, n BIGINT) ENGINE=InnoDB; \
         INSERT INTO app.{table} VALUES {}",
        values.join(", ")
    )
}

/// One that follows; its answers are in a shared tier, if that is somewhere.
pub fn shares(setup: &mut Setup, tier: Option<&Valkey>) {
    follows(setup);
    let Some(tier) = tier else { return };
    let (section, address) = ("timeout_ms = 150\nlease_ms = 500\ntrust_ms = 0", tier.address());
    setup.more = setup
        .more
        .replace(RULE, &format!("[cache.tier]\naddress = \"{address}\"\n{section}\n{RULE}cache_tier = true\n"));
}

/// One session of a Sqluice under test; gives its reads.
async fn session(game: Arc<Game>, front: usize, books: Arc<Books>, mut random: Random) -> u64 {
    let table = game.table;
    let (mut client, mut reads) = (game.fronts[front].client().await, 0);
    while !game.over.load(Ordering::Relaxed) {
        let row = random.below(ROWS as u64) as usize;
        if random.below(60) == 0 {
            let number = books.next();
            if let Ok(done) = client.query_one(update(table, row, number)).await {
                // Where somebody past all was there first with more, nothing was written here, and nobody has to see it at once.
                let wrote = done.affected > 0;
                for (index, book) in books.of.iter().enumerate().filter(|_| wrote) {
                    if index == front || game.shared {
                        book.reported[row].fetch_max(number, Ordering::SeqCst);
                    }
                }
                books.wrote(row, number);
            } else {
                // It may have been under way when its server ended.
                client = game.fronts[front].client().await;
            }
            continue;
        }
        let (reported, long_ago) = books.must_see(front, row);
        let Ok(read) = client.query_one(format!("SELECT n FROM {table} WHERE id = {row}")).await else {
            client = game.fronts[front].client().await;
            continue;
        };
        let seen: u64 = read.scalar().unwrap().parse().unwrap();
        if seen < reported.max(long_ago) {
            let servers = on_servers(&game).await;
            panic!(
                "Sqluice {front}, row {row}: {reported} was told, {long_ago} was written longer ago than is shown, {seen} was read; {servers}"
            );
        }
        reads += 1;
        if random.below(8) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(20))).await;
        }
    }
    reads
}

/// The values on each server, for the story of a failure.
async fn on_servers(game: &Game) -> String {
    let mut story = String::new();
    for address in &game.addresses {
        let target = net::client::Target::plain(address.parse().unwrap(), Duration::from_secs(15));
        let Ok(mut client) = Client::connect(&target, app(), Limits::default()).await else { continue };
        let sql = format!(
            "SELECT CONCAT_WS(' ', @@server_id, @@read_only, @@global.gtid_binlog_pos, GROUP_CONCAT(id, ':', n ORDER BY id)) FROM {}",
            game.table
        );
        let row = client.query_one(sql).await;
        story += &format!(
            "\n{address}: {}",
            row.map_or_else(|error| error.to_string(), |row| row.scalar().unwrap_or_default().into_owned())
        );
    }
    story
}

/// Writes past those under test; gives how often.
async fn writer(game: Arc<Game>, past_all: bool, books: Arc<Books>, mut random: Random) -> u64 {
    let (mut client, mut writes) = (None, 0);
    while !game.over.load(Ordering::Relaxed) {
        if client.is_none() {
            client = if past_all { writable(&game.addresses).await } else { Some(game.other.client().await) };
        }
        let row = random.below(ROWS as u64) as usize;
        let number = books.next();
        if let Some(writer) = &mut client {
            match writer.query(update(game.table, row, number)).await {
                Ok(_) => {
                    books.wrote(row, number);
                    writes += 1;
                }
                Err(_) => client = None,
            }
        }
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
    }
    writes
}

/// Whether the cache of each Sqluice has answered so often beyond these counts.
pub async fn have_hits(game: &Game, before: &[u64], more: u64) -> bool {
    for (front, before) in game.fronts.iter().zip(before) {
        if hits(front, "all").await <= before + more {
            return false;
        }
    }
    true
}

/// Plays; `trouble` is asked every now and then what comes next, with the time since the start. It gives whether it has seen all
/// that it wants to see.
pub async fn play(game: Game, mut trouble: impl AsyncFnMut(&Game, Duration, &mut Random) -> bool) -> Arc<Game> {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    eprintln!("SEED={seed}");
    let game = Arc::new(game);
    let books = Books { of: game.fronts.iter().map(|_| Book::default()).collect(), ..Books::default() };
    let books = Arc::new(books);
    for front in &game.fronts {
        let mut client = front.client().await;
        until_hit(front, &mut client, &format!("SELECT COUNT(*) FROM {}", game.table)).await;
    }
    let (start, mut tasks) = (Instant::now(), Vec::new());
    for front in 0..game.fronts.len() {
        for number in 0..SESSIONS {
            let random = Random::of(seed, 10 * front as u64 + number);
            tasks.push(tokio::spawn(session(game.clone(), front, books.clone(), random)));
        }
    }
    for number in 0..3 {
        let random = Random::of(seed, 100 + number);
        tasks.push(tokio::spawn(writer(game.clone(), number > 0, books.clone(), random)));
    }
    let mut random = Random::of(seed, 200);
    let mut longest = Duration::ZERO;
    let none = vec![0; game.fronts.len()];
    loop {
        for (front, book) in game.fronts.iter().zip(&books.of) {
            let asked = Instant::now();
            if let Some(delay) = page(front).await["follow"]["main"]["delay_ms"].as_u64() {
                let delay = Duration::from_millis(delay);
                longest = longest.max(delay);
                let mut as_of = lock(&book.as_of);
                *as_of = (*as_of).max(asked.checked_sub(delay));
            }
        }
        let has_seen_all = trouble(&game, start.elapsed(), &mut random).await;
        let enough = has_seen_all && start.elapsed() >= game.played && have_hits(&game, &none, HITS).await;
        if enough || start.elapsed() >= PLAYED_MAX {
            break;
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    game.over.store(true, Ordering::Relaxed);
    for task in tasks {
        assert!(task.await.unwrap() > 5);
    }
    for front in &game.fronts {
        let page = page(front).await;
        eprintln!("{}, tier: {}, the longest delay: {longest:?}", page["rules"][0], page["tier"]);
        assert!(hits(front, "all").await > HITS, "the cache must have answered: {page}");
    }
    game
}

/// Ends one of the newest connections that read the primary's log: not a replica's.
pub fn cut_stream(cluster: &Replication, of: u64) {
    let dumps = format!(
        "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' ORDER BY id DESC LIMIT {of}, 1"
    );
    let id = cluster.primary().sql(&dumps).unwrap_or_default();
    if let Ok(id) = id.trim().parse::<u64>() {
        // It may be gone by now.
        let _ = cluster.primary().sql(&format!("KILL {id}"));
    }
}

/// So many Sqluices; streams are cut all the time, and another server becomes primary once.
async fn check(family: Family, table: &'static str, fronts: u64, tier: Option<&Valkey>) {
    let servers = failing(family).await;
    let cluster: &'static Replication = *servers;
    accounts(cluster, &table_sql(table)).await;
    let mut under_test = Vec::new();
    for _ in 0..fronts {
        let front = Front::start(cluster, |setup| {
            shares(setup, tier);
            // Replicas that one reads from may lack the writes of another one, where the cache does not answer.
            setup.listener = if fronts > 1 { "split = \"primary\"" } else { "consistency = \"cluster\"" }.into();
        });
        under_test.push(front.await);
    }
    let game = Game {
        table,
        fronts: under_test,
        other: Front::start(cluster, |_| {}).await,
        addresses: cluster.servers().iter().map(|server| server.address().to_string()).collect(),
        shared: tier.is_some(),
        played: Duration::from_secs(9),
        over: AtomicBool::new(false),
    };
    let (mut cut_at, mut moved) = (Duration::from_millis(800), false);
    play(game, async |_, since, random| {
        if since >= cut_at {
            cut_at = since + Duration::from_millis(500 + random.below(1_500));
            let of = random.below(fronts);
            blocking(move || cut_stream(cluster, of)).await;
        }
        if since >= Duration::from_millis(4_500) && !moved {
            moved = true;
            blocking(move || cluster.promote((cluster.primary_index() + 1) % 3).unwrap()).await;
        }
        moved
    })
    .await;
}

#[tokio::test]
async fn no_answer_is_older_than_the_delay_that_is_shown() {
    for family in families() {
        check(family, "follow_all", 1, None).await;
    }
}

#[tokio::test]
async fn nor_is_one_of_two_that_share_their_answers() {
    for family in families() {
        let tier = blocking(|| Valkey::start(ValkeyOptions::default()).unwrap()).await;
        check(family, "follow_shared", 2, Some(&tier)).await;
    }
}

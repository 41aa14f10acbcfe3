//! Answers that are followed: what is written around Sqluice, or through another one, ends them, and they are never older than the delay that is
//! shown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lab::{Family, Replication};
use net::query::{Client, Limits};
use serde_json::Value;

use crate::login::accounts;
use crate::support::{Front, SOON, Setup, all, app, blocking, calm, failing, has_mysql, http_with, until, value};

const KEY: &str = "open sesame";
const RULE: &str = "[[rule]]\nname = \"all\"\ncluster = \"main\"\ncache = \"on\"\ncache_freshness = \"follow\"\n";
/// `follow_delay_max_ms`
const DELAY_MAX: Duration = Duration::from_millis(2_000);

fn follows(setup: &mut Setup) {
    let (user, password) = (lab::REPL_USER, lab::REPL_PASSWORD);
    setup.admin = format!("key = \"{KEY}\"");
    setup.cluster.push_str(&format!("\nreplication = {{ user = \"{user}\", password = \"{password}\" }}"));
    setup.more = format!("[cache]\nfollow_delay_max_ms = {}\n{RULE}", DELAY_MAX.as_millis());
}

async fn page(front: &Front) -> Value {
    let (status, body) = http_with(&front.admin, "GET", "/api/v1/cache", Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

async fn hits(front: &Front) -> u64 {
    page(front).await["rules"][0]["hits"].as_u64().unwrap_or(0)
}

/// Asks until the cache has answered.
async fn until_hit(front: &Front, client: &mut Client, read: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let before = hits(front).await;
        all(client, read).await;
        let page = page(front).await;
        if page["rules"][0]["hits"].as_u64() > Some(before) {
            return;
        }
        assert!(Instant::now() < deadline, "{read} is never answered: {page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Connects to the primary past all proxies.
async fn direct(servers: &Replication) -> Client {
    let target =
        net::client::Target::plain(servers.primary().address().to_string().parse().unwrap(), Duration::from_secs(15));
    Client::connect(&target, app(), Limits::default()).await.unwrap()
}

async fn start(family: Family, table: &str) -> Front {
    let servers = calm(family).await;
    accounts(
        servers,
        &format!(
            "DROP TABLE IF EXISTS app.{table}_child; DROP TABLE IF EXISTS app.{table}; \
             CREATE TABLE app.{table} (id INT PRIMARY KEY, n INT) ENGINE=InnoDB; INSERT INTO app.{table} VALUES (1, 10), (2, 20); \
             CREATE TABLE app.{table}_child (id INT, FOREIGN KEY (id) REFERENCES app.{table} (id) ON DELETE CASCADE) ENGINE=InnoDB; \
             INSERT INTO app.{table}_child VALUES (1), (2); \
             CREATE OR REPLACE VIEW app.{table}_view AS SELECT id, n FROM app.{table} WHERE id = 1"
        ),
    )
    .await;
    Front::start(servers, follows).await
}

/// What is written on the server itself ends what depends on it, and nothing else.
async fn check_around(family: Family) {
    let table = "follow_around";
    let front = start(family, table).await;
    let (mut client, mut around) = (front.client().await, direct(calm(family).await).await);
    let (read, child) = (format!("SELECT n FROM {table} WHERE id = 1"), format!("SELECT COUNT(*) FROM {table}_child"));
    let view = format!("SELECT n FROM {table}_view");
    let sees = async |client: &mut Client, read: &str, expected: &str| {
        let written = Instant::now();
        until(expected, async || (value(client, read).await == expected).then_some(())).await;
        assert!(written.elapsed() < DELAY_MAX, "{read}: {:?}", written.elapsed());
    };
    for text in [&read, &child, &view] {
        until_hit(&front, &mut client, text).await;
    }
    all(&mut around, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
    sees(&mut client, &read, "11").await;
    sees(&mut client, &view, "11").await;
    // A foreign key's rows are in no log.
    until_hit(&front, &mut client, &child).await;
    all(&mut around, &format!("DELETE FROM {table} WHERE id = 2")).await;
    sees(&mut client, &child, "1").await;
    // A definition.
    until_hit(&front, &mut client, &view).await;
    all(
        &mut around,
        &format!("CREATE OR REPLACE VIEW {table}_view AS SELECT id, n + 100 AS n FROM {table} WHERE id = 1"),
    )
    .await;
    sees(&mut client, &view, "111").await;
    until_hit(&front, &mut client, &view).await;
    all(&mut around, &format!("ALTER TABLE {table} ADD more INT DEFAULT 5")).await;
    sees(&mut client, &format!("SELECT more FROM {table} WHERE id = 1"), "5").await;
    // What nobody touches stays, for all the heartbeats.
    until_hit(&front, &mut client, &child).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = hits(&front).await;
    all(&mut client, &child).await;
    assert_eq!(hits(&front).await, before + 1, "{}", page(&front).await);
    let delay = page(&front).await["follow"]["main"]["delay_ms"].as_u64().unwrap();
    assert!(delay < 1_000, "{delay}");
}

#[tokio::test]
async fn what_is_written_around_it_ends_answers() {
    check_around(Family::MariaDb).await;
}

#[tokio::test]
async fn what_is_written_around_it_ends_answers_with_mysql() {
    if has_mysql() {
        check_around(Family::MySql).await;
    }
}

/// Where the log cannot be followed servers answer, and each statement counts.
#[tokio::test]
async fn without_the_right_to_read_the_log_servers_answer() {
    let table = "follow_not";
    drop(start(Family::MariaDb, table).await);
    let front = Front::start(calm(Family::MariaDb).await, |setup| {
        follows(setup);
        setup.cluster = "slow_start_s = 0".into();
    })
    .await;
    let mut client = front.client().await;
    for _ in 0..20 {
        assert_eq!(value(&mut client, &format!("SELECT n FROM {table} WHERE id = 1")).await, "10");
    }
    let page = page(&front).await;
    assert_eq!(
        (&page["rules"][0]["hits"], &page["rules"][0]["refused"]["not_following"]),
        (&0.into(), &20.into()),
        "{page}"
    );
    assert!(page["follow"]["main"]["delay_ms"].is_null(), "{page}");
    assert!(front.log().contains("REPLICATION SLAVE"), "{}", front.log());
}

/// When nobody writes, not even the monitor, the log is followed all the same, and a first write is seen.
async fn check_quiet(family: Family) {
    let table = "follow_quiet";
    drop(start(family, table).await);
    let front = Front::start(calm(family).await, |setup| {
        follows(setup);
        setup.monitor.push_str("\nheartbeat = \"off\"");
    })
    .await;
    let (mut client, mut around) = (front.client().await, direct(calm(family).await).await);
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    for n in 11..14 {
        until_hit(&front, &mut client, &read).await;
        all(&mut around, &format!("UPDATE {table} SET n = {n} WHERE id = 1")).await;
        until("the write", async || (value(&mut client, &read).await == n.to_string()).then_some(())).await;
    }
}

#[tokio::test]
async fn a_quiet_log_is_followed() {
    check_quiet(Family::MariaDb).await;
    if has_mysql() {
        check_quiet(Family::MySql).await;
    }
}

const ROWS: u64 = 4;
const PLAYED: Duration = Duration::from_secs(9);

/// Numbers as a seed gives them.
struct Random(u64);

impl Random {
    fn of(seed: u64, session: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(session))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What was written, and what is known of how fresh answers are.
#[derive(Default)]
struct Books {
    /// The last number; each write sets a row to a greater one than all before it.
    last: AtomicU64,
    /// Of each row: the greatest number that a client of the Sqluice under test was told of.
    own: [AtomicU64; ROWS as usize],
    /// Of each row: what was written elsewhere, and when its writer was told.
    around: [Mutex<Vec<(Instant, u64)>>; ROWS as usize],
    /// All from before this moment must be seen, by the delay that was shown.
    as_of: Mutex<Option<Instant>>,
}

impl Books {
    fn wrote_around(&self, row: u64, number: u64) {
        self.around[row as usize].lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), number));
    }

    fn around(&self, row: u64, before: Instant) -> u64 {
        let all = self.around[row as usize].lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(told, _)| *told < before).map(|(_, number)| *number).max().unwrap_or(0)
    }

    /// What who asks for a row from now on must see: what was told here, and what was written elsewhere long enough ago.
    fn must_see(&self, row: u64) -> (u64, u64) {
        let own = self.own[row as usize].load(Ordering::SeqCst);
        let bound = Instant::now().checked_sub(DELAY_MAX);
        let shown = *self.as_of.lock().unwrap_or_else(PoisonError::into_inner);
        (own, bound.max(shown).map_or(0, |moment| self.around(row, moment)))
    }
}

fn update(table: &str, row: u64, number: u64) -> String {
    format!("UPDATE {table} SET n = {number} WHERE id = {row} AND n < {number}")
}

/// Sessions read through the Sqluice under test, and write through it, through another one and past both. The stream is cut, and another server
/// becomes primary. No read is older than what this Sqluice's clients were told, nor older than the delay that it shows.
async fn check_staleness(family: Family) {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    eprintln!("SEED={seed} plays the same again, as far as servers do");
    let servers = failing(family).await;
    let table = "follow_all";
    let values: Vec<String> = (0..ROWS).map(|row| format!("({row}, 0)")).collect();
    accounts(
        *servers,
        &format!(
            "DROP TABLE IF EXISTS app.{table}; CREATE TABLE app.{table} (id INT PRIMARY KEY, n BIGINT) ENGINE=InnoDB; \
             INSERT INTO app.{table} VALUES {}",
            values.join(", ")
        ),
    )
    .await;
    let front = Front::start(*servers, |setup| {
        follows(setup);
        setup.listener = "consistency = \"cluster\"".into();
    })
    .await;
    let other = Front::start(*servers, |_| {}).await;
    let mut client = front.client().await;
    until_hit(&front, &mut client, &format!("SELECT COUNT(*) FROM {table}")).await;
    let books = Arc::new(Books::default());
    let end = Instant::now() + PLAYED;
    let mut tasks = Vec::new();
    for session in 0..6 {
        let (mut client, books, mut random) = (front.client().await, books.clone(), Random::of(seed, session));
        tasks.push(tokio::spawn(async move {
            let mut reads = 0_u64;
            while Instant::now() < end {
                let row = random.below(ROWS);
                if random.below(40) == 0 {
                    let number = books.last.fetch_add(1, Ordering::SeqCst) + 1;
                    // Another primary may have come in between.
                    if client.query(update(table, row, number)).await.is_ok() {
                        books.own[row as usize].fetch_max(number, Ordering::SeqCst);
                    }
                    continue;
                }
                let (own, around) = books.must_see(row);
                let Ok(read) = client.query_one(format!("SELECT n FROM {table} WHERE id = {row}")).await else {
                    continue;
                };
                let seen: u64 = read.scalar().unwrap().parse().unwrap();
                assert!(seen >= own, "row {row}: {own} was told here, {seen} was read");
                assert!(seen >= around, "row {row}: {around} was written longer ago than is shown, {seen} was read");
                reads += 1;
                if random.below(8) == 0 {
                    tokio::time::sleep(Duration::from_millis(random.below(20))).await;
                }
            }
            reads
        }));
    }
    let cluster: &'static Replication = *servers;
    for session in 6..9 {
        let (books, mut random) = (books.clone(), Random::of(seed, session));
        let mut client = if session == 6 { other.client().await } else { direct(cluster).await };
        tasks.push(tokio::spawn(async move {
            let mut writes = 0_u64;
            while Instant::now() < end {
                let row = random.below(ROWS);
                let number = books.last.fetch_add(1, Ordering::SeqCst) + 1;
                if client.query(update(table, row, number)).await.is_ok() {
                    books.wrote_around(row, number);
                    writes += 1;
                } else if session > 6 {
                    client = direct(cluster).await;
                }
                tokio::time::sleep(Duration::from_millis(random.below(60))).await;
            }
            writes
        }));
    }
    // Whoever cuts streams, moves the primary once, and looks at what is shown.
    let mut random = Random::of(seed, 9);
    let mut cut_at = Instant::now() + Duration::from_millis(500 + random.below(1_000));
    let mut move_at = Some(Instant::now() + PLAYED / 2);
    let mut longest = Duration::ZERO;
    while Instant::now() < end {
        let asked = Instant::now();
        if let Some(delay) = page(&front).await["follow"]["main"]["delay_ms"].as_u64() {
            let delay = Duration::from_millis(delay);
            longest = longest.max(delay);
            let mut as_of = books.as_of.lock().unwrap_or_else(PoisonError::into_inner);
            *as_of = (*as_of).max(asked.checked_sub(delay));
        }
        if Instant::now() >= cut_at {
            cut_at = Instant::now() + Duration::from_millis(500 + random.below(1_500));
            blocking(move || cut_stream(cluster)).await;
        }
        if move_at.is_some_and(|at| Instant::now() >= at) {
            move_at = None;
            blocking(move || cluster.promote((cluster.primary_index() + 1) % 3).unwrap()).await;
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    for task in tasks {
        assert!(task.await.unwrap() > 10);
    }
    let page = page(&front).await;
    eprintln!("{page}, the longest delay: {longest:?}");
    assert!(page["rules"][0]["hits"].as_u64() > Some(200), "the cache must have answered: {page}");
}

/// Ends the newest connection that reads the primary's log: not a replica's.
fn cut_stream(cluster: &Replication) {
    let dumps = "SELECT MAX(id) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";
    let id = cluster.primary().sql(dumps).unwrap_or_default();
    if let Ok(id) = id.trim().parse::<u64>() {
        // It may be gone by now.
        let _ = cluster.primary().sql(&format!("KILL {id}"));
    }
}

#[tokio::test]
async fn no_answer_is_older_than_the_delay_that_is_shown() {
    check_staleness(Family::MariaDb).await;
}

#[tokio::test]
async fn no_answer_is_older_than_the_delay_that_is_shown_with_mysql() {
    if has_mysql() {
        check_staleness(Family::MySql).await;
    }
}

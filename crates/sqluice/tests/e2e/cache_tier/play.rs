//! Clients of two processes write and read in orders that seeds give: nobody is given what is older than what anybody was told of when it asked.
//!
//! `SQLUICE_SEED=n` plays one order, `SQLUICE_SEEDS=m-n` those of the seeds from m to n.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::{Family, Valkey, ValkeyOptions};

use super::{Front, all, blocking, families, fronts, hits, valkey, value};

const ROWS: usize = 4;
const SESSIONS: usize = 8;
const SEEDS: u64 = 4;
/// Of each seed.
const PLAYED: Duration = Duration::from_secs(2);
/// More answers than these have to come from the cache of each process.
const TRIED: u64 = 100;

fn seeds() -> RangeInclusive<u64> {
    let word = |name: &str| std::env::var(name).ok();
    if let Some(seed) = word("SQLUICE_SEED") {
        let seed = seed.parse().expect("SQLUICE_SEED is a number");
        return seed..=seed;
    }
    let Some(seeds) = word("SQLUICE_SEEDS") else { return 1..=SEEDS };
    let range = seeds.split_once('-').and_then(|(from, to)| Some(from.parse().ok()?..=to.parse().ok()?));
    range.expect("SQLUICE_SEEDS is two numbers and a dash between them")
}

/// The knowledge of the clients of both processes.
struct Books {
    table: &'static str,
    /// Of each row: the greatest number that any client was told of.
    reported: [AtomicU64; ROWS],
    /// The number that was written last. Rows only grow: writers of a row take turns.
    last: [tokio::sync::Mutex<u64>; ROWS],
    over: AtomicBool,
}

/// One client's part; gives its statements.
async fn session(mut client: net::query::Client, books: Arc<Books>, seed: u64, session: u64) -> u64 {
    let table = books.table;
    let mut random = seed * 1_000 + session;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let mut steps = 0_u64;
    while !books.over.load(Ordering::Relaxed) {
        let row = below(ROWS as u64) as usize;
        if below(10) == 0 {
            let mut last = books.last[row].lock().await;
            *last += 1;
            let write = format!("UPDATE {table} SET n = {} WHERE id = {row}", *last);
            match below(3) {
                0 => {
                    all(&mut client, "BEGIN").await;
                    all(&mut client, &write).await;
                    all(&mut client, "COMMIT").await;
                }
                _ => drop(all(&mut client, &write).await),
            }
            books.reported[row].store(*last, Ordering::SeqCst);
        } else {
            let reported = books.reported[row].load(Ordering::SeqCst);
            let read = format!("SELECT n FROM {table} WHERE id = {row}");
            let found: u64 = value(&mut client, &read).await.parse().unwrap();
            assert!(found >= reported, "seed {seed}, session {session}, row {row}: {found} where {reported} was told");
        }
        steps += 1;
    }
    steps
}

/// Does the tier some harm, another one at each turn.
async fn harm(mut valkey: Valkey, turn: u64) -> Valkey {
    match turn % 4 {
        0 => drop(valkey.commands(&["FLUSHALL"]).unwrap()),
        1 => {
            valkey.signal("STOP").unwrap();
            tokio::time::sleep(Duration::from_millis(100 * (turn % 7))).await;
            valkey.signal("CONT").unwrap();
        }
        2 => drop(valkey.commands(&["CLIENT KILL TYPE normal"]).unwrap()),
        _ => {
            return blocking(move || {
                valkey.kill();
                valkey.restart().unwrap();
                valkey
            })
            .await;
        }
    }
    valkey
}

async fn play(family: Family, table: &'static str, tier: &str, harms: bool) {
    let mut valkey = valkey(ValkeyOptions::default()).await;
    let fronts = fronts(family, table, &format!("address = \"{}\"\n{tier}", valkey.address())).await;
    let books = Books { table, reported: Default::default(), last: Default::default(), over: AtomicBool::new(false) };
    let books = Arc::new(books);
    let mut answered = [0; 2];
    for seed in seeds() {
        books.over.store(false, Ordering::Relaxed);
        let mut tasks = Vec::new();
        for number in 0..SESSIONS {
            let client = fronts[number % 2].client().await;
            tasks.push(tokio::spawn(session(client, books.clone(), seed, number as u64)));
        }
        let (end, mut turn) = (Instant::now() + PLAYED, seed);
        // A busy machine gets longer to try the cache.
        while Instant::now() < end || Instant::now() < end + PLAYED * 5 && is_hardly_tried(&fronts, answered).await {
            tokio::time::sleep(Duration::from_millis(400)).await;
            turn += 1;
            if harms {
                valkey = harm(valkey, turn).await;
            }
        }
        books.over.store(true, Ordering::Relaxed);
        let mut steps = 0;
        for task in tasks {
            steps += task.await.unwrap();
        }
        let now = all_hits(&fronts).await;
        println!(
            "seed {seed}: {steps} statements, {} answered by the cache",
            now[0] + now[1] - answered[0] - answered[1]
        );
        answered = now;
    }
    assert!(answered.iter().all(|hits| *hits > TRIED), "the cache must be tried: {answered:?}");
}

async fn all_hits(fronts: &[Front; 2]) -> [u64; 2] {
    [hits(&fronts[0], "all").await, hits(&fronts[1], "all").await]
}

async fn is_hardly_tried(fronts: &[Front; 2], before: [u64; 2]) -> bool {
    all_hits(fronts).await.iter().zip(before).any(|(hits, before)| hits - before <= TRIED)
}

#[tokio::test]
async fn nobody_reads_older_than_what_anybody_was_reported() {
    for family in families() {
        play(family, "tier_play", "", false).await;
    }
}

#[tokio::test]
async fn nobody_does_while_the_tier_comes_and_goes() {
    for family in families() {
        play(family, "tier_harm", "lease_ms = 300", true).await;
    }
}

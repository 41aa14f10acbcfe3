//! Which seeds are played, and what is told of those that fail.
//!
//! `SQLUICE_SEEDS=10000` tries that many, on as many threads as there are cores; `SQLUICE_SEED=17` one, and tells its story.

#![allow(clippy::panic)] // The helpers of a test fail like the test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::Play;

/// Seeds that are tried when nothing is said.
const SEEDS: u64 = 60;
/// Lines of a story that are printed: its end.
const STORY_LINES_MAX: usize = 400;

struct Failure {
    seed: u64,
    what: String,
    story: String,
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("SQLUICE_SEED and SQLUICE_SEEDS are numbers"))
}

fn play(seed: u64, tell: bool) -> Option<Failure> {
    let mut play = Play::new(seed);
    let ended = play.run();
    if tell {
        println!("{}", play.world.story.join("\n"));
    }
    let what = ended.err()?;
    let from = play.world.story.len().saturating_sub(STORY_LINES_MAX);
    Some(Failure { seed, what, story: play.world.story[from..].join("\n") })
}

/// Plays `seeds`, and gives those that failed in their order.
fn play_all(seeds: u64) -> Vec<Failure> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    failed.lock().expect("no thread panics with it").extend(play(seed, false));
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no thread panics with it");
    failed.sort_by_key(|failure| failure.seed);
    failed
}

#[test]
fn random_faults_never_lose_or_split_and_always_end() {
    let failed: Vec<Failure> = match number("SQLUICE_SEED") {
        Some(seed) => play(seed, true).into_iter().collect(),
        None => play_all(number("SQLUICE_SEEDS").unwrap_or(SEEDS)),
    };
    if let Some(first) = failed.first() {
        println!("{}\n{}", first.story, first.what);
    }
    for failure in &failed {
        println!("seed {}: {}", failure.seed, failure.what.lines().next().unwrap_or_default());
    }
    let seeds: Vec<u64> = failed.iter().map(|failure| failure.seed).collect();
    assert!(failed.is_empty(), "{} seeds failed: {seeds:?}", seeds.len());
}

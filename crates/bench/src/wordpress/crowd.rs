//! Visitors at a time, each of whom asks for the next page as soon as the last one is there.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::visitor::{Mix, Visitor};
use crate::histogram::Histogram;
use crate::http::{self, Ask, Cookies, Page};
use crate::process::POLL;
use crate::stop;

/// PHP's processes. The one that has been free for longest serves the next page, so that a visitor's pages come from several.
#[derive(Debug)]
pub(super) struct Workers {
    free: Mutex<VecDeque<SocketAddr>>,
    came: Condvar,
}

impl Workers {
    pub(super) fn new(addresses: impl Iterator<Item = SocketAddr>) -> Workers {
        Workers { free: Mutex::new(addresses.collect()), came: Condvar::new() }
    }

    /// Has the next free process serve a page.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn ask(&self, ask: &Ask<'_>, cookies: &mut Cookies) -> anyhow::Result<Page> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let address = loop {
            match free.pop_front() {
                Some(address) => break address,
                None => free = self.came.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(free);
        let page = http::ask(address, ask, cookies);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push_back(address);
        self.came.notify_one();
        page
    }
}

/// When it is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

/// The pages that visitors saw in the measured time.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Answers to all that was asked for, forms among them.
    pub(super) pages: u64,
    /// Nanoseconds of each, with the wait for a free process.
    pub(super) times: Histogram,
    pub(super) total_ns: u64,
    /// Pages that tell what they took of the database, and what that was.
    pub(super) reported: u64,
    pub(super) statements: u64,
    pub(super) database_us: u64,
    /// Comments and stories that were found by their authors and by others at once.
    pub(super) seen_at_once: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.pages += other.pages;
        self.times.add(&other.times);
        self.total_ns += other.total_ns;
        self.reported += other.reported;
        self.statements += other.statements;
        self.database_us += other.database_us;
        self.seen_at_once += other.seen_at_once;
    }
}

/// A crowd and what it does.
#[derive(Debug)]
pub(super) struct Crowd<'a> {
    pub(super) workers: &'a Workers,
    pub(super) visitors: u32,
    pub(super) mix: Mix,
    /// How many posts there were at first.
    pub(super) posts: u32,
    /// Part of what is written, which no other turn has.
    pub(super) turn: u32,
    /// Not measured.
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

impl Crowd<'_> {
    /// Lets them come. `on_begin` and `on_end` are called when the measured time begins and ends.
    ///
    /// # Errors
    /// A page is wrong or does not come.
    pub(super) fn run(
        &self,
        on_begin: impl FnOnce() -> anyhow::Result<()>,
        on_end: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Tally> {
        let begin = Instant::now() + self.warm_up;
        let window = Window { begin, end: begin + self.measured };
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let visitor = |number: u32| {
                let failed = &failed;
                scope.spawn(move || {
                    let result = Visitor::new(self, number, window).stay(failed);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    result
                })
            };
            let all: Vec<_> = (0..self.visitors).map(visitor).collect();
            let watched = wait_until(window.begin, &failed)
                .and_then(|()| on_begin())
                .and_then(|()| wait_until(window.end, &failed))
                .and_then(|()| on_end());
            failed.fetch_or(watched.is_err(), Ordering::Relaxed);
            let mut sum = Tally::default();
            for one in all {
                sum.add(&one.join().map_err(|_| anyhow!("a visitor's thread ended"))??);
            }
            watched?;
            Ok(sum)
        })
    }
}

/// Until then, or until somebody failed.
fn wait_until(time: Instant, failed: &AtomicBool) -> anyhow::Result<()> {
    while Instant::now() < time && !failed.load(Ordering::Relaxed) {
        stop::check()?;
        thread::sleep(POLL.min(time.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

//! The thing that a session does now: its worker writes it, anybody may read it. It is for people who look on; nothing is decided by it.
//!
//! Each query costs three stores, and the bytes of a read or a write one more. All that takes longer to say, its form and the moment when it began, a session tells when it is asked.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use facts::sessions::SessionState;
use stats::micros;

/// The activity of a session.
#[derive(Debug, Default)]
pub struct Activity {
    digest: AtomicU64,
    /// Second of `Shared::uptime_s`.
    query_since_s: AtomicU32,
    /// Tells a query from the one before.
    query_number: AtomicU32,
    /// Whole microseconds since the start of the process; 0 is none.
    transaction_since_us: AtomicU64,
    waits: AtomicU8,
    /// Whole microseconds since the start of the process.
    wait_since_us: AtomicU64,
    /// The query that waited last, by its number.
    waited_query: AtomicU32,
    waited_queries: AtomicU32,
    waited_us: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    /// Somebody wants to know more of the query.
    is_asked: AtomicBool,
    reported: Mutex<Option<ReportedQuery>>,
}

/// The facts of a query that its session tells when it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedQuery {
    number: u32,
    /// When it began.
    pub since: Instant,
    /// Its text without literals.
    pub form: Arc<str>,
}

/// The thing that a query waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitsFor {
    /// A backend connection.
    Connection = 1,
    /// A server that may take it.
    Server = 2,
    /// The right of its user to one more connection.
    UserLimit = 3,
}

/// A query waits for as long as this lives.
#[derive(Debug)]
pub struct Waiting<'a> {
    activity: &'a Activity,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.activity.waits.store(0, Ordering::Relaxed);
        add(&self.activity.waited_us, micros(self.since.elapsed()));
    }
}

/// The waits of a session's queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Queries that have waited.
    pub queries: u32,
    /// All waits that are over.
    pub over: Duration,
    /// The wait of now, by the moment when it began: whole microseconds since the start of the process.
    pub since_us: Option<u64>,
}

/// Adds to a figure that one thread writes.
#[inline]
fn add(figure: &AtomicU64, more: u64) {
    figure.store(figure.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Activity {
    /// A query of this digest is understood, in this second. Only the session calls it.
    #[inline]
    pub fn begin_query(&self, digest: u64, second: u32) {
        self.digest.store(digest, Ordering::Relaxed);
        self.query_since_s.store(second, Ordering::Relaxed);
        self.query_number.store(self.query_number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// A transaction is open since this moment, or there is none.
    pub fn set_transaction(&self, since_us: Option<u64>) {
        self.transaction_since_us.store(since_us.unwrap_or(0), Ordering::Relaxed);
    }

    /// The query waits for this. `started` is when the process did.
    pub fn wait(&self, for_what: WaitsFor, started: Instant) -> Waiting<'_> {
        let since = Instant::now();
        self.wait_since_us.store(micros(since.saturating_duration_since(started)), Ordering::Relaxed);
        self.waits.store(for_what as u8, Ordering::Relaxed);
        self.count_waiting();
        Waiting { activity: self, since }
    }

    /// The query has waited so long for its turn on a connection that it shares.
    pub fn waited(&self, waited: Duration) {
        self.count_waiting();
        add(&self.waited_us, micros(waited));
    }

    /// A query that looks for a server again and again has waited once.
    fn count_waiting(&self) {
        let query = self.query_number.load(Ordering::Relaxed);
        if self.waited_query.swap(query, Ordering::Relaxed) != query {
            self.waited_queries.store(self.waited_queries.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// The waits of its queries.
    pub fn waits(&self) -> Waits {
        let waits_now = self.waits.load(Ordering::Relaxed) != 0;
        Waits {
            queries: self.waited_queries.load(Ordering::Relaxed),
            over: Duration::from_micros(self.waited_us.load(Ordering::Relaxed)),
            since_us: waits_now.then(|| self.wait_since_us.load(Ordering::Relaxed)),
        }
    }

    /// The client has sent so many bytes.
    #[inline]
    pub fn received(&self, bytes: u64) {
        add(&self.received_bytes, bytes);
    }

    /// The client's socket has taken so many bytes.
    #[inline]
    pub fn sent(&self, bytes: u64) {
        add(&self.sent_bytes, bytes);
    }

    /// Bytes that came from the client, and that went to it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.received_bytes.load(Ordering::Relaxed), self.sent_bytes.load(Ordering::Relaxed))
    }

    /// Somebody wants to know more of the query that runs. Gives whether the session has to be woken for that.
    pub fn ask(&self) -> bool {
        self.reported().is_none() && !self.is_asked.swap(true, Ordering::SeqCst)
    }

    /// Whether somebody wants to know more.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// The query that runs began then, and has this form.
    pub fn tell(&self, since: Instant, form: String) {
        let number = self.query_number.load(Ordering::Relaxed);
        *self.last_reported() = Some(ReportedQuery { number, since, form: form.into() });
        self.is_asked.store(false, Ordering::SeqCst);
    }

    /// The facts of the query that runs, if they were reported.
    pub fn reported(&self) -> Option<ReportedQuery> {
        let number = self.query_number.load(Ordering::Relaxed);
        self.last_reported().clone().filter(|reported| reported.number == number)
    }

    fn last_reported(&self) -> MutexGuard<'_, Option<ReportedQuery>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digest of the query that runs, or that ran last; 0 is none.
    pub fn digest(&self) -> u64 {
        self.digest.load(Ordering::Relaxed)
    }

    /// The second in which the query began that runs, or that ran last.
    pub fn query_since_s(&self) -> u32 {
        self.query_since_s.load(Ordering::Relaxed)
    }

    /// Since when a transaction is open.
    pub fn transaction_since_us(&self) -> Option<u64> {
        Some(self.transaction_since_us.load(Ordering::Relaxed)).filter(|since| *since > 0)
    }

    /// The state of a session that has a query.
    pub fn busy_state(&self) -> SessionState {
        match self.waits.load(Ordering::Relaxed) {
            waits if waits == WaitsFor::Connection as u8 => SessionState::WaitsForConnection,
            waits if waits == WaitsFor::Server as u8 => SessionState::WaitsForServer,
            waits if waits == WaitsFor::UserLimit as u8 => SessionState::WaitsForUserLimit,
            _ => SessionState::Running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_guard() {
        let activity = Activity::default();
        activity.begin_query(7, 5);
        assert_eq!((activity.digest(), activity.query_since_s(), activity.busy_state()), (7, 5, SessionState::Running));
        {
            let _waiting = activity.wait(WaitsFor::Server, Instant::now());
            assert_eq!(activity.busy_state(), SessionState::WaitsForServer);
        }
        assert_eq!((activity.busy_state(), activity.transaction_since_us()), (SessionState::Running, None));
        activity.set_transaction(Some(9));
        assert_eq!(activity.transaction_since_us(), Some(9));
    }

    #[test]
    fn a_query_that_waits_again_and_again_has_waited_once() {
        let (activity, started) = (Activity::default(), Instant::now());
        assert_eq!(activity.waits(), Waits::default());
        for (query, waits) in [(1, 3), (2, 1), (3, 0)] {
            activity.begin_query(query, 5);
            for _ in 0..waits {
                let before = activity.waits().over;
                let waiting = activity.wait(WaitsFor::Connection, started);
                assert!(activity.waits().since_us.is_some());
                std::thread::sleep(Duration::from_millis(2));
                drop(waiting);
                assert!(activity.waits().over >= before + Duration::from_millis(2));
            }
            assert_eq!(activity.waits().since_us, None);
        }
        assert_eq!(activity.waits().queries, 2);
        // A turn on a connection that is shared counts when it is over.
        activity.begin_query(4, 5);
        let before = activity.waits().over;
        activity.waited(Duration::from_micros(300));
        assert_eq!((activity.waits().queries, activity.waits().over), (3, before + Duration::from_micros(300)));
        let limit = activity.wait(WaitsFor::UserLimit, started);
        assert_eq!((activity.busy_state(), activity.waits().queries), (SessionState::WaitsForUserLimit, 3));
        drop(limit);
        assert_eq!(activity.busy_state(), SessionState::Running);
    }

    #[test]
    fn bytes_add_up() {
        let activity = Activity::default();
        activity.received(7);
        activity.sent(20);
        activity.received(5);
        assert_eq!(activity.bytes(), (12, 20));
    }

    #[test]
    fn facts_are_reported_of_the_query_that_runs() {
        let activity = Activity::default();
        activity.begin_query(7, 5);
        assert!(activity.ask() && !activity.ask(), "the session is woken once");
        let since = Instant::now();
        activity.tell(since, "SELECT ?".to_owned());
        let reported = activity.reported().unwrap();
        assert_eq!((&*reported.form, reported.since, activity.is_asked()), ("SELECT ?", since, false));
        activity.begin_query(7, 5);
        assert_eq!(activity.reported(), None, "that was another query");
    }
}

//! The limit on backend connections in use by one user, over all workers and servers of a cluster.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stats::WorkerStats;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of the users that have one. First come, first served.
#[derive(Debug, Default)]
pub struct UserLeases {
    users: Mutex<HashMap<Arc<str>, Arc<Limit>>>,
}

#[derive(Debug)]
struct Limit {
    max: u32,
    semaphore: Arc<Semaphore>,
    /// Statements that wait.
    waiting: AtomicUsize,
}

/// The right of a user to one more connection; nothing inside for users without a limit.
#[derive(Debug, Default)]
pub struct UserLease {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why a user gets no further connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserLeaseError {
    /// As many statements of the user wait already.
    QueueFull(usize),
    /// All were in use for too long.
    Timeout,
}

/// A place in the queue; it counts while it is there.
struct QueuePlace<'a> {
    limit: &'a Limit,
    stats: &'a WorkerStats,
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.limit.waiting.fetch_sub(1, Ordering::Relaxed);
        self.stats.waiting.add(-1);
        self.stats.user_waiting.add(-1);
    }
}

impl UserLeases {
    /// Waits at most `wait` for the right to use one more of `max` connections (0: no limit), behind no more than `waiting_max` others.
    /// Waits are counted like those for a server's connections; each keeps what `begins` gives until it is over.
    ///
    /// # Errors
    /// In vain: the user's connections stay in use, or too many statements wait for them.
    pub async fn acquire<T>(
        &self,
        user: &Arc<str>,
        max: u32,
        wait: Duration,
        waiting_max: usize,
        stats: &WorkerStats,
        begins: impl FnOnce() -> T,
    ) -> Result<UserLease, UserLeaseError> {
        if max == 0 {
            return Ok(UserLease::default());
        }
        let limit = self.limit(user, max);
        if let Ok(permit) = limit.semaphore.clone().try_acquire_owned() {
            return Ok(UserLease { _permit: Some(permit) });
        }
        let before = limit.waiting.fetch_add(1, Ordering::Relaxed);
        if before >= waiting_max {
            limit.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(UserLeaseError::QueueFull(before));
        }
        stats.waiting.add(1);
        stats.waited.add_one();
        stats.user_waiting.add(1);
        stats.user_waited.add_one();
        let _shown = begins();
        let _place = QueuePlace { limit: &limit, stats };
        match tokio::time::timeout(wait, limit.semaphore.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(UserLease { _permit: Some(permit) }),
            Ok(Err(_)) | Err(_) => {
                stats.wait_timeouts.add_one();
                stats.user_wait_timeouts.add_one();
                Err(UserLeaseError::Timeout)
            }
        }
    }

    fn limit(&self, user: &Arc<str>, max: u32) -> Arc<Limit> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        match users.get(user) {
            Some(limit) if limit.max == max => limit.clone(),
            // A changed limit starts anew: what is in use goes back to the old one.
            _ => {
                let semaphore = Arc::new(Semaphore::new(max as usize));
                let limit = Arc::new(Limit { max, semaphore, waiting: AtomicUsize::new(0) });
                users.insert(user.clone(), limit.clone());
                limit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn a_user_gets_no_more_than_its_limit() {
        let (leases, user, stats) = (UserLeases::default(), Arc::from("app"), WorkerStats::new(&[], &[]));
        let short = Duration::from_millis(1);
        let first = leases.acquire(&user, 1, short, 9, &stats, || ()).await;
        assert!(first.is_ok());
        assert_eq!(leases.acquire(&user, 1, short, 9, &stats, || ()).await.err(), Some(UserLeaseError::Timeout));
        assert!(leases.acquire(&user, 0, short, 9, &stats, || ()).await.is_ok(), "no limit");
        drop(first);
        assert!(leases.acquire(&user, 1, short, 9, &stats, || ()).await.is_ok());
        assert_eq!((stats.waited.get(), stats.wait_timeouts.get(), stats.waiting.get()), (1, 1, 0));
        let of_users = (stats.user_waited.get(), stats.user_wait_timeouts.get(), stats.user_waiting.get());
        assert_eq!(of_users, (1, 1, 0));
    }

    #[tokio::test]
    async fn the_queue_of_a_user_has_a_bound_and_counts() {
        let (leases, user, stats) = (UserLeases::default(), Arc::from("app"), WorkerStats::new(&[], &[]));
        let long = Duration::from_secs(3_600);
        let held = leases.acquire(&user, 1, long, 1, &stats, || ()).await.unwrap();
        let mut first = pin!(leases.acquire(&user, 1, long, 1, &stats, || ()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert_eq!((stats.waiting.get(), stats.waited.get()), (1, 1));
        // One more is refused at once, and does not count as one that waits.
        let more = leases.acquire(&user, 1, long, 1, &stats, || ()).await;
        assert_eq!(more.err(), Some(UserLeaseError::QueueFull(1)));
        assert_eq!(
            leases.acquire(&"other".into(), 1, long, 1, &stats, || ()).await.err(),
            None,
            "another user's is its own"
        );
        drop(held);
        assert!(matches!(first.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        assert_eq!((stats.waiting.get(), stats.waited.get(), stats.wait_timeouts.get()), (0, 1, 0));
    }
}

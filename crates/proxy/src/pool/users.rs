//! The limit on backend connections in use by one user, over all workers and servers of a cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of the users that have one. First come, first served.
#[derive(Debug, Default)]
pub struct UserLeases {
    users: Mutex<HashMap<Arc<str>, Limit>>,
}

#[derive(Debug)]
struct Limit {
    max: u32,
    semaphore: Arc<Semaphore>,
}

/// The right of a user to one more connection; nothing inside for users without a limit.
#[derive(Debug, Default)]
pub struct UserLease {
    _permit: Option<OwnedSemaphorePermit>,
}

impl UserLeases {
    /// Waits at most `wait` for the right to use one more of `max` connections (0: no limit). `None` in vain.
    pub async fn acquire(&self, user: &Arc<str>, max: u32, wait: Duration) -> Option<UserLease> {
        if max == 0 {
            return Some(UserLease::default());
        }
        let semaphore = self.semaphore(user, max);
        match tokio::time::timeout(wait, semaphore.acquire_owned()).await {
            Ok(Ok(permit)) => Some(UserLease { _permit: Some(permit) }),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    fn semaphore(&self, user: &Arc<str>, max: u32) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        match users.get(user) {
            Some(limit) if limit.max == max => limit.semaphore.clone(),
            // A changed limit starts anew: what is in use goes back to the old one.
            _ => {
                let semaphore = Arc::new(Semaphore::new(max as usize));
                users.insert(user.clone(), Limit { max, semaphore: semaphore.clone() });
                semaphore
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_gets_no_more_than_its_limit() {
        let (leases, user) = (UserLeases::default(), Arc::from("app"));
        let short = Duration::from_millis(1);
        let first = leases.acquire(&user, 1, short).await;
        assert!(first.is_some());
        assert!(leases.acquire(&user, 1, short).await.is_none());
        assert!(leases.acquire(&user, 0, short).await.is_some(), "no limit");
        drop(first);
        assert!(leases.acquire(&user, 1, short).await.is_some());
    }
}

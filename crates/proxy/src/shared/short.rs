//! The statements that wait for a connection that a server has refused to open, over all workers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use facts::view::ServerId;
use wire::errno;

/// The statements of a cluster that wait so, over all workers.
#[derive(Debug, Default)]
pub struct Short {
    count: AtomicU32,
    waiters: Mutex<Vec<ShortOf>>,
}

/// A connection that would help one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortOf {
    /// The worker of its session.
    worker: usize,
    /// The server that has refused.
    pub server: ServerId,
    /// The user whose connections help; `None` is any.
    user: Option<Arc<str>>,
}

impl ShortOf {
    /// `None` when this error is no such refusal.
    pub fn new(worker: usize, server: ServerId, user: &Arc<str>, code: u16) -> Option<ShortOf> {
        match code {
            errno::ER_CON_COUNT_ERROR => Some(ShortOf { worker, server, user: None }),
            errno::ER_TOO_MANY_USER_CONNECTIONS | errno::ER_USER_LIMIT_REACHED => {
                Some(ShortOf { worker, server, user: Some(user.clone()) })
            }
            _ => None,
        }
    }

    /// Whether a connection of this user to this server would help.
    pub fn is_helped_by(&self, server: ServerId, user: &str) -> bool {
        self.server == server && self.user.as_deref().is_none_or(|own| own == user)
    }
}

impl Short {
    /// Whether anybody waits. Looked at for each connection that is given back.
    pub fn is_waited(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Changes who waits.
    pub fn change(&self, change: impl FnOnce(&mut Vec<ShortOf>)) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut waiters);
        self.count.store(u32::try_from(waiters.len()).unwrap_or(u32::MAX), Ordering::SeqCst);
    }

    /// The worker where somebody has waited longest for such a connection.
    pub fn worker_for(&self, server: ServerId, user: &str) -> Option<usize> {
        let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.iter().find(|waiter| waiter.is_helped_by(server, user)).map(|waiter| waiter.worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_the_same_user_helps_or_any_where_the_server_has_too_many() {
        let (short, app) = (Short::default(), Arc::from("app"));
        assert!(!short.is_waited() && ShortOf::new(0, ServerId(1), &app, 1045).is_none());
        let of_user = ShortOf::new(0, ServerId(1), &app, 1226).unwrap();
        let of_any = ShortOf::new(1, ServerId(1), &app, 1040).unwrap();
        short.change(|waiters| waiters.extend([of_user.clone(), of_any]));
        assert!(short.is_waited());
        assert_eq!(short.worker_for(ServerId(1), "app"), Some(0));
        assert_eq!(short.worker_for(ServerId(1), "other"), Some(1));
        assert_eq!(short.worker_for(ServerId(2), "app"), None);
        short.change(|waiters| waiters.retain(|waiter| *waiter != of_user));
        assert_eq!(short.worker_for(ServerId(1), "app"), Some(1));
    }
}

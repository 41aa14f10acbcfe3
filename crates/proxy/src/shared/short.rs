//! The statements that wait for a connection that a server has refused to open, over all workers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use facts::view::ServerId;
use wire::errno;
use wire::handshake::ServerError;

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
    pub fn new(worker: usize, server: ServerId, user: &Arc<str>, said: &ServerError) -> Option<ShortOf> {
        match said.code {
            errno::ER_CON_COUNT_ERROR => Some(ShortOf { worker, server, user: None }),
            errno::ER_USER_LIMIT_REACHED if is_of_an_hour(said) => None,
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

/// Whether a user has had as many logins as its account allows in an hour: no connection that comes free helps, and one that is closed
/// cannot be opened again. Servers name the limit in any language of theirs.
pub fn is_of_an_hour(said: &ServerError) -> bool {
    said.code == errno::ER_USER_LIMIT_REACHED && said.message.contains("_per_hour")
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
        let said = |code, message: &str| ServerError { code, sqlstate: None, message: message.into() };
        let exceeded = |what| said(1226, &format!("User 'app' has exceeded the '{what}' resource (current value: 4)"));
        assert!(!short.is_waited() && ShortOf::new(0, ServerId(1), &app, &said(1045, "")).is_none());
        assert_eq!(ShortOf::new(0, ServerId(1), &app, &exceeded("max_connections_per_hour")), None);
        let of_user = ShortOf::new(0, ServerId(1), &app, &exceeded("max_user_connections")).unwrap();
        let of_any = ShortOf::new(1, ServerId(1), &app, &said(1040, "Too many connections")).unwrap();
        short.change(|waiters| waiters.extend([of_user.clone(), of_any]));
        assert!(short.is_waited());
        assert_eq!(short.worker_for(ServerId(1), "app"), Some(0));
        assert_eq!(short.worker_for(ServerId(1), "other"), Some(1));
        assert_eq!(short.worker_for(ServerId(2), "app"), None);
        short.change(|waiters| waiters.retain(|waiter| *waiter != of_user));
        assert_eq!(short.worker_for(ServerId(1), "app"), Some(1));
    }
}

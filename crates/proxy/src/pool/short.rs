//! Waiting for a connection that a server has refused to open: it has too many, or too many of one user (1040, 1203, 1226). The pools'
//! own limits have room, so nobody gives way. Whoever gives a connection back, at any worker, looks here.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use facts::view::ServerId;
use wire::errno;

use super::{Connection, Pools, ServerPool};
use crate::shared::Mail;

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
    server: ServerId,
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

    fn is_helped(&self, server: ServerId, user: &str) -> bool {
        self.server == server && self.user.as_deref().is_none_or(|own| own == user)
    }
}

impl Short {
    /// Whether anybody waits. Looked at for each connection that is given back.
    fn is_waited(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    fn change(&self, change: impl FnOnce(&mut Vec<ShortOf>)) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut waiters);
        self.count.store(u32::try_from(waiters.len()).unwrap_or(u32::MAX), Ordering::SeqCst);
    }

    /// The worker where somebody has waited longest for such a connection.
    fn worker_for(&self, server: ServerId, user: &str) -> Option<usize> {
        let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.iter().find(|waiter| waiter.is_helped(server, user)).map(|waiter| waiter.worker)
    }
}

/// A place among those that wait; given up when it is dropped.
pub struct ShortTicket {
    pools: Rc<Pools>,
    of: ShortOf,
}

impl Drop for ShortTicket {
    fn drop(&mut self) {
        self.pools.shared.short.change(|waiters| {
            if let Some(place) = waiters.iter().position(|waiter| *waiter == self.of) {
                waiters.remove(place);
            }
        });
    }
}

impl Pools {
    /// Waits in this place from now on; [`Pools::freed`] tells when it is worth another look. The other workers hear of it.
    pub fn wait_short(self: &Rc<Self>, of: &ShortOf) -> ShortTicket {
        self.shared.short.change(|waiters| waiters.push(of.clone()));
        self.shared.ask_short(self.worker, of.server);
        ShortTicket { pools: self.clone(), of: of.clone() }
    }

    /// Which worker this is.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Ends when a connection has come free that somebody at this worker waits for so.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Closes an idle connection that would make room, and that its session could not use. Gives whether there was one.
    pub fn make_room(&self, of: &ShortOf) -> bool {
        let Some(pool) = self.find(of.server) else { return false };
        let connection = take_idle_for(&pool, |user| of.is_helped(of.server, user));
        connection.map(|connection| self.close(&pool, connection)).is_some()
    }

    /// Gives a connection that has become idle to the worker where it is waited for. Gives it back when it stays here.
    pub(super) fn give_to_short(&self, pool: &Rc<ServerPool>, connection: Box<Connection>) -> Option<Box<Connection>> {
        if !self.shared.short.is_waited() {
            return Some(connection);
        }
        match self.shared.short.worker_for(pool.id, &connection.origin.key.user) {
            None => Some(connection),
            Some(worker) if worker == self.worker => {
                self.freed.notify_one();
                Some(connection)
            }
            Some(worker) => {
                let name = self.shared.name.clone();
                match connection.detach() {
                    Ok(parcel) => self.send(pool, worker, Mail::Connection(name, Box::new(parcel))),
                    // TLS connections stay, and so do broken ones: with its end there is room.
                    Err(left) => {
                        drop(left);
                        pool.stats.closed.add_one();
                        self.permit_free(pool);
                        self.shared.send(worker, Mail::Freed(name));
                    }
                }
                None
            }
        }
    }

    /// A connection has ended: there is room for another one.
    pub(super) fn tell_short(&self, pool: &ServerPool, user: &str) {
        if !self.shared.short.is_waited() {
            return;
        }
        match self.shared.short.worker_for(pool.id, user) {
            Some(worker) if worker == self.worker => self.freed.notify_one(),
            Some(worker) => self.shared.send(worker, Mail::Freed(self.shared.name.clone())),
            None => {}
        }
    }

    /// Another worker says that there is room.
    pub fn room_for_short(&self) {
        self.freed.notify_one();
    }

    /// Another worker waits so for this server: an idle connection that helps goes there.
    pub fn asked_by_short(&self, server: ServerId) {
        let Some(pool) = self.find(server) else { return };
        let short = &self.shared.short;
        let helps = |user: &str| short.worker_for(server, user).is_some_and(|worker| worker != self.worker);
        if let Some(connection) = take_idle_for(&pool, helps)
            && let Some(connection) = self.give_to_short(&pool, connection)
        {
            pool.stats.idle.add(1);
            pool.idle.borrow_mut().push(connection);
        }
    }
}

/// The oldest idle connection of a user that helps.
fn take_idle_for(pool: &ServerPool, helps: impl Fn(&str) -> bool) -> Option<Box<Connection>> {
    let mut idle = pool.idle.borrow_mut();
    let place = idle.iter().position(|connection| helps(&connection.origin.key.user))?;
    pool.stats.idle.add(-1);
    Some(idle.remove(place))
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

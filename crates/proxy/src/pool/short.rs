//! Waiting for a connection that a server has refused to open: it has too many, or too many of one user (1040, 1203, 1226). The pools'
//! own limits have room, so no connection gives way. A session that gives a connection back, at any worker, looks here.

use std::rc::Rc;

use facts::view::ServerId;

use super::{Connection, Key, Pools, ServerPool};
use crate::shared::{Mail, ShortOf};
use route::state::StateMap;

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

    /// Whether an idle connection to this server would serve a session as [`Pools::take_idle`] has it.
    pub fn has_idle(&self, server: ServerId, key: &Key, login: u64, state: &StateMap, in_any_schema: bool) -> bool {
        self.find(server).is_some_and(|pool| pool.has_idle(key, login, state, in_any_schema))
    }

    /// Closes an idle connection that would make room, and that its session could not use. Gives whether there was one.
    pub fn make_room(&self, of: &ShortOf) -> bool {
        let Some(pool) = self.find(of.server) else { return false };
        let connection = take_idle_for(&pool, |user| of.is_helped_by(of.server, user));
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
                self.room_for_short();
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
            Some(worker) if worker == self.worker => self.room_for_short(),
            Some(worker) => self.shared.send(worker, Mail::Freed(self.shared.name.clone())),
            None => {}
        }
    }

    /// There is room at this or another worker.
    pub fn room_for_short(&self) {
        self.refused.borrow_mut().room();
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

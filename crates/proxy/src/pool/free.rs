//! Connections and permits that have come free: the session that waits first gets them, here or at another worker.

use std::rc::Rc;

use facts::view::ServerId;

use super::queue::Grant;
use super::{Connection, Parcel, Pools, ServerPool};
use crate::shared::Mail;

impl Pools {
    /// A connection is free: who waits first gets it, here or at another worker, else it becomes idle.
    pub(super) fn put(&self, pool: &Rc<ServerPool>, mut connection: Box<Connection>) {
        let now = self.now.get();
        let settings = self.settings();
        let too_old = connection.origin.opened.checked_add(settings.pool.max_age).is_some_and(|end| now >= end);
        let over_limit = pool.quota.max() > 0 && pool.quota.total() > pool.quota.max();
        let other_tls = connection.origin.tls_number != settings.tls_number;
        if pool.closed.get() || other_tls || too_old || over_limit {
            return self.close(pool, connection);
        }
        connection.origin.idle_since = now;
        let moves_to = if connection.can_move() {
            pool.quota.waits_longer(self.worker)
        } else {
            pool.quota.lacks_its_part(self.worker)
        };
        if let Some(other) = moves_to {
            match connection.detach() {
                Ok(parcel) => {
                    return self.send(pool, other, Mail::Connection(self.shared.name.clone(), Box::new(parcel)));
                }
                Err(Some(back)) => {
                    // TLS connections stay: their permit goes instead.
                    drop(back);
                    pool.stats.closed.add_one();
                    return self.send(pool, other, Mail::Permit(self.shared.name.clone(), pool.id));
                }
                Err(None) => {
                    pool.stats.closed.add_one();
                    return self.permit_free(pool);
                }
            }
        }
        while let Some(waiter) = pool.pop_waiter() {
            if *waiter.key != *connection.origin.key {
                // First come first served: another user's turn is a new connection on this one's permit.
                drop(connection);
                pool.stats.closed.add_one();
                if waiter.grant.send(Grant::Permit).is_err() {
                    self.permit_free(pool);
                }
                return;
            }
            match waiter.grant.send(Grant::Connection(connection)) {
                Ok(()) => return,
                Err(Grant::Connection(back)) => connection = back,
                Err(Grant::Permit | Grant::Pipeline { .. }) => return,
            }
        }
        if self.cluster_is_short() {
            return self.close(pool, connection);
        }
        if let Some(connection) = self.give_to_short(pool, connection) {
            pool.stats.idle.add(1);
            pool.idle.borrow_mut().push(connection);
        }
    }

    /// Somebody waits for a place in the cluster's limit: that is worth more than an idle connection to another server.
    pub(super) fn cluster_is_short(&self) -> bool {
        self.shared.cluster_quota.is_full() && self.shared.cluster_quota.waiting() > 0
    }

    pub(super) fn send(&self, pool: &ServerPool, to: usize, mail: Mail) {
        pool.quota.transfer(self.worker, to);
        self.shared.cluster_quota.transfer(self.worker, to);
        self.worker_stats.moved.add_one();
        self.shared.send(to, mail);
    }

    pub(super) fn close(&self, pool: &Rc<ServerPool>, connection: Box<Connection>) {
        let user = connection.origin.key.user.clone();
        drop(connection);
        pool.stats.closed.add_one();
        self.permit_free(pool);
        self.tell_short(pool, &user);
    }

    /// A permit is free: who waits first gets it.
    pub(super) fn permit_free(&self, pool: &Rc<ServerPool>) {
        if pool.quota.max() == 0 || pool.quota.total() <= pool.quota.max() {
            if let Some(other) = pool.quota.waits_longer(self.worker) {
                return self.send(pool, other, Mail::Permit(self.shared.name.clone(), pool.id));
            }
            while let Some(waiter) = pool.pop_waiter() {
                if waiter.grant.send(Grant::Permit).is_ok() {
                    return;
                }
            }
        }
        pool.quota.release(self.worker);
        self.shared.cluster_quota.release(self.worker);
        self.serve_cluster_waiters();
    }

    /// A place in the cluster's limit is free: a waiter of any server may take it.
    fn serve_cluster_waiters(&self) {
        if self.shared.cluster_quota.max() > 0 {
            self.serve_waiters();
            self.shared.tell_room(self.worker);
        }
    }

    /// Waiters get permits to open a connection while the limits have room: the limits may have been raised.
    pub fn serve_waiters(&self) {
        for pool in self.servers.borrow().iter() {
            while pool.has_waiters() && pool.quota.try_take(self.worker) {
                if !self.shared.cluster_quota.try_take(self.worker) {
                    pool.quota.release(self.worker);
                    return;
                }
                let granted = pool.pop_waiter().is_some_and(|waiter| waiter.grant.send(Grant::Permit).is_ok());
                if !granted {
                    pool.quota.release(self.worker);
                    self.shared.cluster_quota.release(self.worker);
                }
            }
        }
    }

    /// Another worker sent a connection.
    pub fn receive(&self, parcel: Parcel) {
        let Some(pool) = self.find(parcel.server()) else { return };
        match parcel.attach(pool.stats.clone()) {
            Ok(connection) => self.put(&pool, Box::new(connection)),
            Err(_) => self.permit_free(&pool),
        }
    }

    /// Another worker sent a permit.
    pub fn receive_permit(&self, server: ServerId) {
        if let Some(pool) = self.find(server) {
            self.permit_free(&pool);
        }
    }

    /// Another worker waits for a connection to `server`: an idle one may go there, or make room for it.
    pub fn asked(&self, server: ServerId) {
        let take = |pool: &Rc<ServerPool>| {
            let connection = pool.idle.borrow_mut().pop()?;
            pool.stats.idle.add(-1);
            Some((pool.clone(), connection))
        };
        if let Some((pool, connection)) = self.find(server).as_ref().and_then(take) {
            return self.put(&pool, connection);
        }
        if self.cluster_is_short() {
            let any = self.servers.borrow().iter().find_map(take);
            if let Some((pool, connection)) = any {
                self.close(&pool, connection);
            }
        }
    }

    pub(super) fn find(&self, server: ServerId) -> Option<Rc<ServerPool>> {
        self.servers.borrow().iter().find(|pool| pool.id == server).cloned()
    }
}

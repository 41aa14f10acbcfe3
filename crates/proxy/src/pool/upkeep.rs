//! Once a second: closing what was idle for too long or is not needed, opening what the warm minimum lacks.

use std::rc::Rc;
use std::time::Instant;

use facts::view::{Health, ServerId, ServerView};

use super::open;
use super::queue::Permit;
use super::{Connection, Pools};

impl Pools {
    /// Closes what was idle for too long, is too old, is beyond the number of its user's sessions or belongs to a user who is
    /// gone, and all of servers that are not in `servers` any more.
    pub fn tidy(&self, servers: &[ServerView]) {
        let (now, settings) = (Instant::now(), self.shared.settings.load());
        self.now.set(now);
        for pool in self.servers.borrow().clone() {
            let gone = !servers.is_empty() && !servers.iter().any(|server| server.id == pool.id);
            pool.closed.set(gone);
            let keep = if gone { 0 } else { self.warm_minimum() };
            let mut spare = self.spare(&pool.idle.borrow());
            let mut expired = |connection: &Connection, left: usize| {
                let idle = now.saturating_duration_since(connection.origin.idle_since);
                gone || spare.has_gone(&connection.origin.key.user)
                    || connection.origin.tls_number != settings.tls_number
                    || now.saturating_duration_since(connection.origin.opened) >= settings.pool.max_age
                    || (left > keep && idle >= settings.pool.idle_timeout)
                    || (left > keep && idle >= settings.pool.spare_timeout && spare.take(&connection.origin.key.user))
            };
            let mut index = 0;
            loop {
                let connection = {
                    let mut idle = pool.idle.borrow_mut();
                    let left = idle.len();
                    match idle.get(index) {
                        None => break,
                        Some(connection) if expired(connection, left) => idle.remove(index),
                        Some(_) => {
                            index += 1;
                            continue;
                        }
                    }
                };
                pool.stats.idle.add(-1);
                self.close(&pool, connection);
            }
        }
    }

    /// Whether an idle connection to this server has ended without having been idle for too long.
    pub fn has_lost_idle(&self, server: ServerId) -> bool {
        let servers = self.servers.borrow();
        let mut pools = servers.iter().filter(|pool| pool.id == server);
        pools.any(|pool| pool.idle.borrow_mut().iter_mut().any(|connection| !connection.is_alive()))
    }

    /// This worker's share of the warm minimum.
    fn warm_minimum(&self) -> usize {
        let (all, workers) = (self.shared.settings.load().pool.min_idle as usize, self.shared.workers());
        all / workers + usize::from(all % workers > self.worker)
    }

    /// Opens connections where fewer than the warm minimum exist, one at a time for each server.
    pub fn warm(self: &Rc<Self>, servers: &[ServerView]) {
        let minimum = self.warm_minimum() as i64;
        for pool in self.servers.borrow().iter() {
            let server = servers.iter().find(|server| server.id == pool.id && server.health == Health::Up);
            let wanted = pool.last_wanted.borrow().clone();
            let (Some(server), Some(wanted)) = (server.cloned(), wanted) else { continue };
            let enough = pool.stats.idle.get() + pool.stats.used.get() >= minimum;
            if enough || pool.warming.get() || !self.take_free_permit(pool) {
                continue;
            }
            let (pools, pool) = (self.clone(), pool.clone());
            pool.warming.set(true);
            tokio::task::spawn_local(async move {
                let permit = Permit::new(pools.clone(), pool.clone());
                match open::open(&pools.shared, &server, &wanted, &pool.stats).await {
                    Ok(connection) => {
                        pool.stats.opened.add_one();
                        permit.keep();
                        pools.put(&pool, Box::new(connection));
                    }
                    Err(error) => {
                        pool.stats.open_failures.add_one();
                        // The next session opens its own connection and gets the error.
                        *pool.last_wanted.borrow_mut() = None;
                        tracing::debug!(%error, "a connection of the warm minimum could not be opened");
                    }
                }
                pool.warming.set(false);
            });
        }
    }
}

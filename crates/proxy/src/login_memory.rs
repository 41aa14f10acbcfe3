//! The memory of clients that have not logged in: their users are unknown, so all of them together have one bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is counted in units of so many bytes.
const UNIT_BYTES: usize = 1024;
/// A connection that has sent nothing yet.
const CONNECTION_BYTES: usize = 12 * 1024;
/// A packet up to here is a part of its connection's share.
pub const PACKET_FREE_BYTES: usize = 2 * 1024;
/// TLS on the way to being agreed on.
pub const TLS_BYTES: usize = 32 * 1024;

/// The part of the memory that is for longer logins and for TLS: one of so many. Logins that wait for it keep no client out.
const GROWTH_PART: usize = 4;

/// The memory of all clients that have not logged in.
#[derive(Debug)]
pub struct LoginMemory {
    connections: Pool,
    growth: Pool,
    /// Logins that waited for some of it.
    waited: AtomicU64,
}

/// One client's share of it, until it has logged in or is gone.
#[derive(Debug)]
pub struct LoginShare {
    memory: Arc<LoginMemory>,
    _connection: OwnedSemaphorePermit,
    grown: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct Pool {
    free: Arc<Semaphore>,
    units: usize,
}

impl Pool {
    fn new(units: usize) -> Pool {
        let units = units.clamp(1, Semaphore::MAX_PERMITS);
        Pool { free: Arc::new(Semaphore::new(units)), units }
    }

    fn used(&self) -> usize {
        self.units.saturating_sub(self.free.available_permits())
    }
}

impl LoginMemory {
    /// So many bytes for all.
    pub fn new(bytes_max: u64) -> LoginMemory {
        let all = units(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        let growth = all / GROWTH_PART;
        LoginMemory { connections: Pool::new(all - growth), growth: Pool::new(growth), waited: AtomicU64::new(0) }
    }

    /// The share of a client that has just connected; `None` if there is no room.
    pub fn admit(self: &Arc<LoginMemory>) -> Option<LoginShare> {
        let units = u32::try_from(units(CONNECTION_BYTES)).ok()?;
        let connection = self.connections.free.clone().try_acquire_many_owned(units).ok()?;
        Some(LoginShare { memory: self.clone(), _connection: connection, grown: None })
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        ((self.connections.used() + self.growth.used()) * UNIT_BYTES) as u64
    }

    /// Logins that had to wait for memory.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

impl LoginShare {
    /// Waits until there is room for so many bytes more. The login's own time limit bounds it.
    pub async fn grow(&mut self, bytes: usize) {
        let pool = &self.memory.growth;
        let wanted = u32::try_from(units(bytes).min(pool.units)).unwrap_or(u32::MAX);
        let permit = match pool.free.clone().try_acquire_many_owned(wanted) {
            Ok(permit) => Ok(permit),
            Err(_) => {
                self.memory.waited.fetch_add(1, Ordering::Relaxed);
                pool.free.clone().acquire_many_owned(wanted).await
            }
        };
        // It is never closed.
        let Ok(permit) = permit else { return };
        match &mut self.grown {
            Some(grown) => grown.merge(permit),
            None => self.grown = Some(permit),
        }
    }

    /// Waits until there is room for a packet of so many bytes.
    pub async fn grow_for_packet(&mut self, bytes: usize) {
        if bytes > PACKET_FREE_BYTES {
            self.grow(bytes).await;
        }
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_that_finds_no_room_waits_until_another_is_over() {
        let memory = Arc::new(LoginMemory::new(160 * 1024));
        let (mut first, mut second) = (memory.admit().unwrap(), memory.admit().unwrap());
        first.grow_for_packet(PACKET_FREE_BYTES).await;
        assert_eq!(memory.used_bytes(), 24 * 1024);
        first.grow(TLS_BYTES).await;
        assert_eq!((memory.used_bytes(), memory.waited()), (56 * 1024, 0));
        let mut growing = Box::pin(second.grow_for_packet(20 * 1024));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(growing.as_mut().poll(&mut context).is_pending());
        let third = memory.admit();
        assert!(third.is_some(), "a login that waits keeps nobody out");
        drop(first);
        growing.await;
        assert_eq!((memory.used_bytes(), memory.waited()), (44 * 1024, 1));
        drop((second, third));
        let all: Vec<_> = std::iter::from_fn(|| memory.admit()).collect();
        assert_eq!((all.len(), memory.used_bytes()), (10, 120 * 1024));
        drop(all);
        assert_eq!(memory.used_bytes(), 0);
    }
}

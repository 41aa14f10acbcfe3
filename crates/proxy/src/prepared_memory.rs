//! How long the texts of all sessions' prepared statements are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The length of the texts of all prepared statements, in bytes.
#[derive(Debug, Default)]
pub struct Prepared {
    bytes: AtomicU64,
}

impl Prepared {
    /// The length now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The length of one session's texts, counted until the session ends.
#[derive(Debug)]
pub struct PreparedShare {
    all: Arc<Prepared>,
    bytes: u64,
}

impl PreparedShare {
    /// Nothing yet.
    pub fn new(all: &Arc<Prepared>) -> PreparedShare {
        PreparedShare { all: all.clone(), bytes: 0 }
    }

    /// The length of the session's texts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One more text of so many bytes.
    pub fn add(&mut self, bytes: usize) {
        self.all.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.bytes += bytes as u64;
    }

    /// One less.
    pub fn remove(&mut self, bytes: usize) {
        self.all.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.bytes -= bytes as u64;
    }
}

impl Drop for PreparedShare {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_ends_gives_back_what_it_has() {
        let all = Arc::new(Prepared::default());
        let (mut one, mut other) = (PreparedShare::new(&all), PreparedShare::new(&all));
        one.add(100);
        one.add(20);
        other.add(3);
        one.remove(100);
        assert_eq!((one.bytes(), all.bytes()), (20, 23));
        drop(one);
        assert_eq!(all.bytes(), 3);
    }
}

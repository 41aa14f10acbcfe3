//! Bytes of one kind that all sessions have together, such as their long commands or the texts of their prepared statements, and
//! the share of each in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of all shares.
#[derive(Debug, Default)]
pub struct BytesInUse(AtomicU64);

impl BytesInUse {
    /// The bytes now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One share, counted while it lives.
#[derive(Debug)]
pub struct BytesShare {
    all: Arc<BytesInUse>,
    bytes: u64,
}

impl BytesShare {
    /// Nothing yet.
    pub fn new(all: &Arc<BytesInUse>) -> BytesShare {
        BytesShare { all: all.clone(), bytes: 0 }
    }

    /// The bytes of this share.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It has so many bytes more.
    pub fn add(&mut self, bytes: u64) {
        self.all.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// It has so many bytes less.
    pub fn remove(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.all.0.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }

    /// It grows to so many bytes. False, and it stays as it is, if all shares together would have more than `max`. One that is alone
    /// grows beyond that.
    pub fn grow_to(&mut self, bytes: u64, max: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let before = self.all.0.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > max && before > self.bytes {
            self.all.0.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Drop for BytesShare {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_gives_back_what_it_has_at_its_end() {
        let all = Arc::new(BytesInUse::default());
        let (mut one, mut other) = (BytesShare::new(&all), BytesShare::new(&all));
        one.add(100);
        one.add(20);
        other.add(3);
        one.remove(100);
        assert_eq!((one.bytes(), all.get()), (20, 23));
        drop(one);
        assert_eq!(all.get(), 3);
        other.remove(4);
        assert_eq!(all.get(), 0, "it has no more to give");
    }

    #[test]
    fn shares_grow_within_one_bound() {
        let all = Arc::new(BytesInUse::default());
        let (mut one, mut other) = (BytesShare::new(&all), BytesShare::new(&all));
        assert!(one.grow_to(60, 100));
        assert!(!other.grow_to(41, 100));
        assert!(other.grow_to(40, 100));
        assert!(!one.grow_to(61, 100));
        assert!(one.grow_to(10, 100), "it never shrinks");
        assert_eq!(all.get(), 100);
        drop(one);
        assert_eq!(all.get(), 40);
        assert!(other.grow_to(101, 100), "it is alone");
        assert!(!BytesShare::new(&all).grow_to(1, 100));
    }
}

//! Numbers written by one thread and read by others.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows. Only the owning worker adds to it, so an addition needs no atomic read-modify-write.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn add_one(&self) {
        self.add(1);
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down, written by the owning worker only.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds `n`, which may be negative.
    #[inline]
    pub fn add(&self, n: i64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One number for each of a fixed list of labels.
#[derive(Debug)]
pub struct Labelled<T> {
    labels: &'static [&'static str],
    values: Box<[T]>,
}

impl<T: Default> Labelled<T> {
    /// All zero.
    pub fn new(labels: &'static [&'static str]) -> Labelled<T> {
        Labelled { labels, values: labels.iter().map(|_| T::default()).collect() }
    }

    /// The number of the label at `index` (the label's position in the list given to `new`); `None` past its end.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&T> {
        self.values.get(index)
    }

    /// Each label with its number.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &T)> {
        self.labels.iter().copied().zip(self.values.iter())
    }
}

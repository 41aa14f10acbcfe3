//! The blocks that wait in memory for a sink, or for the spool: bounded by their bytes. Beyond that, numbers become a gap.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::block::Block;

/// A thing that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Events.
    Block(Arc<Block>),
    /// There was no room for these numbers.
    Gap {
        /// The first one.
        first: u64,
        /// The last one.
        last: u64,
    },
}

/// Blocks on their way from one thread to another.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    closed: bool,
    /// A wait for room was in vain: there is none until the reader goes on.
    given_up: bool,
    /// The reader has something else to do.
    woken: bool,
}

impl Queue {
    /// A queue for so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Queue {
        Queue { waiting: Mutex::default(), changed: Condvar::new(), bytes_max }
    }

    /// Appends a block, without a wait. If there is no room its numbers become a gap.
    pub(crate) fn push(&self, block: &Arc<Block>) {
        let mut waiting = self.lock();
        let bytes = block.bytes().len();
        // A block that is larger than all the room passes an empty queue.
        if waiting.bytes + bytes <= self.bytes_max || waiting.bytes == 0 {
            waiting.bytes += bytes;
            waiting.items.push_back(Item::Block(block.clone()));
        } else if let Some(Item::Gap { last, .. }) = waiting.items.back_mut() {
            *last = block.last;
        } else {
            waiting.items.push_back(Item::Gap { first: block.first, last: block.last });
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Whether so many bytes have to wait for room. Not again after a wait was given up, until the reader goes on.
    pub(crate) fn is_crowded(&self, bytes: usize) -> bool {
        let waiting = self.lock();
        let fits = waiting.bytes + bytes <= self.bytes_max || waiting.bytes == 0;
        !fits && !waiting.given_up && !waiting.closed
    }

    /// A wait for room was in vain.
    pub(crate) fn give_up(&self) {
        self.lock().given_up = true;
    }

    /// Takes the oldest thing, and waits for it so long.
    pub(crate) fn pop(&self, wait: Duration) -> Option<Item> {
        let is_idle = |waiting: &mut Waiting| waiting.items.is_empty() && !waiting.closed && !waiting.woken;
        let mut waiting = if wait.is_zero() {
            self.lock()
        } else {
            let waited = self.changed.wait_timeout_while(self.lock(), wait, is_idle);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        waiting.woken = false;
        let item = waiting.items.pop_front()?;
        if let Item::Block(block) = &item {
            waiting.bytes -= block.bytes().len();
            waiting.given_up = false;
        }
        Some(item)
    }

    /// Nothing comes any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Ends a wait of the reader.
    pub(crate) fn wake(&self) {
        self.lock().woken = true;
        self.changed.notify_all();
    }

    /// Whether nothing waits and nothing comes any more.
    pub(crate) fn is_over(&self) -> bool {
        let waiting = self.lock();
        waiting.closed && waiting.items.is_empty()
    }

    /// Whether nothing comes any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The numbers of all that waits: the first one, and the last.
    pub(crate) fn numbers(&self) -> Option<(u64, u64)> {
        let waiting = self.lock();
        let ends = |item: &Item| match item {
            Item::Block(block) => (block.first, block.last),
            Item::Gap { first, last } => (*first, *last),
        };
        Some((ends(waiting.items.front()?).0, ends(waiting.items.back()?).1))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Class, Lines};
    use std::time::SystemTime;

    fn block(first: u64) -> Arc<Block> {
        let mut block = Block::begin(first, SystemTime::UNIX_EPOCH);
        block.put(first + 1, Class::default(), Lines { form: &[b'x'; 71], ..Lines::default() });
        Arc::new(block)
    }

    #[test]
    fn numbers_beyond_the_bound_become_one_gap() {
        let queue = Queue::new(250);
        (0..5).for_each(|number| queue.push(&block(1 + 2 * number)));
        assert_eq!(queue.numbers(), Some((1, 10)));
        assert_eq!(queue.pop(Duration::ZERO), Some(Item::Block(block(1))));
        queue.push(&block(11));
        queue.close();
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop(Duration::ZERO)).collect();
        assert!(
            matches!(&rest[..], [Item::Block(_), Item::Gap { first: 5, last: 10 }, Item::Block(last)] if last.first == 11)
        );
        assert!(queue.is_over());
    }

    #[test]
    fn a_wait_for_room_is_given_up_once() {
        let queue = Queue::new(250);
        (0..2).for_each(|number| queue.push(&block(1 + 2 * number)));
        assert!(queue.is_crowded(100) && !queue.is_crowded(50));
        queue.give_up();
        assert!(!queue.is_crowded(100));
        assert!(
            !queue.is_crowded(50) && !queue.is_crowded(100),
            "a smaller block finds room, and the reader stands still"
        );
        queue.pop(Duration::ZERO);
        assert!(!queue.is_crowded(100), "there is room");
        queue.push(&block(5));
        assert!(queue.is_crowded(100), "and a full queue is waited for again");
    }

    #[test]
    fn a_wait_ends_when_the_reader_is_woken() {
        let queue = Arc::new(Queue::new(1));
        let other = queue.clone();
        let reader = std::thread::spawn(move || other.pop(Duration::from_secs(60)));
        queue.wake();
        assert_eq!(reader.join().unwrap(), None);
    }
}

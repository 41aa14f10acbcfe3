//! The memory of long commands: a client that has logged in may send as much as a server takes, and all of them together share one
//! bound, so that a few cannot take the process's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of all long commands that are on their way or run.
#[derive(Debug, Default)]
pub struct CommandMemory {
    bytes: AtomicU64,
}

impl CommandMemory {
    /// The bytes now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The bytes of one long command, counted until it has run.
#[derive(Debug)]
pub struct CommandShare {
    all: Arc<CommandMemory>,
    bytes: u64,
}

impl CommandShare {
    /// Nothing yet.
    pub fn new(all: &Arc<CommandMemory>) -> CommandShare {
        CommandShare { all: all.clone(), bytes: 0 }
    }

    /// The command has so many bytes by now. False, and nothing is counted, if all commands together have more than `max` then.
    /// One that is alone may be as long as servers take.
    pub fn grow_to(&mut self, bytes: usize, max: u64) -> bool {
        let more = (bytes as u64).saturating_sub(self.bytes);
        let before = self.all.bytes.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > max && before > self.bytes {
            self.all.bytes.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Drop for CommandShare {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_share_a_bound_and_give_back_what_they_had() {
        let all = Arc::new(CommandMemory::default());
        let (mut one, mut other) = (CommandShare::new(&all), CommandShare::new(&all));
        assert!(one.grow_to(60, 100));
        assert!(!other.grow_to(41, 100));
        assert!(other.grow_to(40, 100));
        assert!(!one.grow_to(61, 100));
        assert!(one.grow_to(10, 100), "it never shrinks");
        assert_eq!(all.bytes(), 100);
        drop(one);
        assert_eq!(all.bytes(), 40);
        assert!(other.grow_to(101, 100), "it is alone");
        assert!(!CommandShare::new(&all).grow_to(1, 100));
        drop(other);
        assert_eq!(all.bytes(), 0);
    }
}

//! The end of threads that may hang: the wait for them has a limit.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Steps of a wait.
const STEP: Duration = Duration::from_millis(2);

/// Waits until a thread has ended, so long at most. Gives whether it has; `what` it is stands in the log if it has failed.
pub(crate) fn ends_within(thread: JoinHandle<()>, limit: Duration, what: &str) -> bool {
    let begun = Instant::now();
    while !thread.is_finished() {
        if begun.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(STEP);
    }
    if thread.join().is_err() {
        tracing::error!("the thread of {what} has failed");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_is_left_alone() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let hangs = std::thread::spawn(move || assert!(receiver.recv().is_err()));
        assert!(!ends_within(hangs, Duration::from_millis(20), "a test"));
        drop(sender);
        assert!(ends_within(std::thread::spawn(|| ()), Duration::from_secs(60), "a test"));
    }
}

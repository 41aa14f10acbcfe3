//! Calling a session from outside: from another thread, while it waits for anything.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use atomic_waker::AtomicWaker;

/// Somebody wants the session to look around. Being called costs the session one load for each time it is polled, and
/// nothing while it is idle.
#[derive(Debug, Default)]
pub struct Wake {
    called: AtomicBool,
    waker: AtomicWaker,
}

impl Wake {
    /// Has the session look around, now or as soon as it is polled.
    pub fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Whether somebody called since the last time; if not, whoever calls wakes this task. `first` is true until the
    /// task has been here once: its waker stays the same.
    pub fn is_called(&self, cx: &Context<'_>, first: &mut bool) -> bool {
        if std::mem::take(first) {
            self.waker.register(cx.waker());
        }
        if !self.called.load(Ordering::SeqCst) {
            return false;
        }
        // The call took the waker along.
        self.waker.register(cx.waker());
        self.called.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_call_is_heard_once_and_wakes_who_waits() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let context = Context::from_waker(&waker);
        let (wake, mut first) = (Wake::default(), true);
        wake.call();
        assert!(wake.is_called(&context, &mut first), "a call before the first look");
        assert!(!wake.is_called(&context, &mut first));
        for calls in 1..4 {
            wake.call();
            assert_eq!(count.0.load(Ordering::Relaxed), calls);
            assert!(wake.is_called(&context, &mut first));
            assert!(!wake.is_called(&context, &mut first));
        }
    }
}

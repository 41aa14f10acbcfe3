//! Kills of a session, and of the statement that it runs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use facts::view::ServerId;

use super::SessionHandle;

/// A kill of what a session runs. Until it is dropped the connection goes to no other session.
#[derive(Debug)]
pub struct KillUnderWay<'a> {
    session: &'a SessionHandle,
    /// The backend connection of the session, if it has one: server, and that server's id.
    pub held: Option<(ServerId, u64)>,
}

impl SessionHandle {
    /// No backend connection belongs to the session any more. When somebody is about to kill what runs there, waits
    /// until that is done (at most `wait`) and gives true: the connection must not be used again.
    pub async fn end_statement(&self, wait: Duration) -> bool {
        if self.end_statement_at_once() {
            return false;
        }
        let done = async {
            while self.killers.load(Ordering::SeqCst) > 0 {
                self.killer_done.notified().await;
            }
        };
        // A killer that takes longer kills a connection that is closed by then.
        let _ = tokio::time::timeout(wait, done).await;
        true
    }

    /// No backend connection belongs to the session any more. Gives whether nobody is about to kill what runs there.
    #[inline]
    pub fn end_statement_at_once(&self) -> bool {
        self.running.store(0, Ordering::SeqCst);
        self.killers.load(Ordering::SeqCst) == 0
    }

    /// Begins to kill what runs. The kill is under way until the result is dropped, also with a future that is not polled any more.
    pub fn begin_kill(&self) -> KillUnderWay<'_> {
        self.killers.fetch_add(1, Ordering::SeqCst);
        KillUnderWay { session: self, held: self.held() }
    }

    /// A command begins: kills of earlier ones are none of it.
    #[inline]
    pub fn begin_command(&self) {
        self.kill_noted.store(false, Ordering::Relaxed);
    }

    /// Notes that somebody wants to kill what runs, where no connection is known: the query still waits for one, or is on a pipeline,
    /// whose connection is known when the query is long. Gives the connection if it has become known meanwhile.
    pub fn note_kill(&self) -> Option<(ServerId, u64)> {
        self.kill_noted.store(true, Ordering::SeqCst);
        self.wake.call();
        self.held()
    }

    /// Whether a kill was noted. Asked behind [`SessionHandle::begin_statement`], so that the killer or the session sees the other.
    #[inline]
    pub fn take_noted_kill(&self) -> bool {
        self.kill_noted.load(Ordering::SeqCst) && self.kill_noted.swap(false, Ordering::SeqCst)
    }

    /// Somebody has killed the session.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Ends the session.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        self.wake.call();
    }
}

impl Drop for KillUnderWay<'_> {
    fn drop(&mut self) {
        self.session.killers.fetch_sub(1, Ordering::SeqCst);
        self.session.killer_done.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sessions;
    use super::*;

    #[tokio::test]
    async fn a_connection_waits_for_the_kill_that_is_meant_for_it() {
        let handle = Sessions::default().register(None);
        assert_eq!(handle.begin_kill().held, None);
        handle.begin_statement(ServerId(0), 77);
        let kill = handle.begin_kill();
        assert_eq!(kill.held, Some((ServerId(0), 77)));
        let waits = handle.end_statement(Duration::from_secs(60));
        tokio::pin!(waits);
        assert!(futures_poll(&mut waits).is_none());
        drop(kill);
        assert!(waits.await);
        assert!(!handle.end_statement(Duration::ZERO).await);
    }

    fn futures_poll<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}

//! Sessions of the data plane: a trait that the process implements.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::sessions::{Relieved, SessionFacts};
use tokio::sync::Mutex;

/// An answer that takes some time.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The sessions, for reading, for ending and for moving them.
pub trait Sessions: Send + Sync {
    /// All sessions, in the order of their ids.
    fn list(&self) -> Later<Vec<SessionFacts>>;

    /// All sessions, without the form of what runs and with times to the second: no session is asked, and nothing waits.
    fn glance(&self) -> Vec<SessionFacts>;

    /// Ends a session, or what it runs.
    fn kill(&self, kill: Kill) -> Later<Result<bool, String>>;

    /// Has a worker give sessions to another one. With `dry_run` only says to which, and how many.
    fn relieve(&self, worker: usize, dry_run: bool) -> Later<Result<Relieved, String>>;
}

/// A session that is to end, or its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The session's id.
    pub id: u32,
    /// The statement alone.
    pub query_only: bool,
    /// Only while it still has a query, or none, and that digest: as it was when somebody looked.
    pub seen: Option<(bool, u64)>,
}

/// The last list of sessions, for requests that take one that is a little older: many open pages cost one list in that time.
#[derive(Default)]
pub(crate) struct Listed(Mutex<Option<(Instant, Vec<SessionFacts>)>>);

impl Listed {
    /// A list that is no older than this. A request that comes while one is made waits for it.
    pub(crate) async fn get(&self, sessions: &Arc<dyn Sessions>, age_max: Duration) -> Vec<SessionFacts> {
        if age_max.is_zero() {
            return sessions.list().await;
        }
        let mut last = self.0.lock().await;
        if let Some((_, list)) = last.as_ref().filter(|(made, _)| made.elapsed() <= age_max) {
            return list.clone();
        }
        let list = sessions.list().await;
        *last = Some((Instant::now(), list.clone()));
        list
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Each list has one session, whose id is the number of the list.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Sessions for Counting {
        fn list(&self) -> Later<Vec<SessionFacts>> {
            let session = SessionFacts {
                id: self.0.fetch_add(1, Ordering::Relaxed),
                client: "10.0.0.7:4711".into(),
                ..SessionFacts::default()
            };
            Box::pin(async move { vec![session] })
        }

        fn glance(&self) -> Vec<SessionFacts> {
            Vec::new()
        }

        fn kill(&self, _: Kill) -> Later<Result<bool, String>> {
            Box::pin(async { Ok(false) })
        }

        fn relieve(&self, _: usize, _: bool) -> Later<Result<Relieved, String>> {
            Box::pin(async { Err("there is one worker".to_owned()) })
        }
    }

    #[tokio::test]
    async fn requests_that_take_an_older_list_share_it_and_others_get_their_own() {
        let sessions: Arc<dyn Sessions> = Arc::new(Counting::default());
        let listed = Listed::default();
        let hour = Duration::from_secs(3600);
        let mut ids = Vec::new();
        for age_max in [hour, hour, Duration::ZERO, hour, Duration::from_nanos(1)] {
            ids.push(listed.get(&sessions, age_max).await[0].id);
        }
        assert_eq!(ids, [0, 0, 1, 0, 2]);
    }
}

//! The history of the process: how it is read, and the orders to the thread that keeps it.

mod thread;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

use history::{Grown, History, SeenPlan};
use tokio::sync::oneshot;

use crate::sessions::Later;

pub(crate) use thread::start;

/// The history of the process.
#[derive(Debug)]
pub(crate) struct Keeper {
    path: PathBuf,
    orders: Sender<KeeperOrder>,
    figures: Arc<KeeperFigures>,
}

/// The growth of digests since the history's last look at them, for those who compare the present with the past.
pub trait Growth: Send + Sync {
    /// Asks for it; the error says why there is none.
    fn grown(&self) -> Later<Result<Grown, String>>;
}

/// The figures of the history itself.
#[derive(Debug, Default)]
pub(crate) struct KeeperFigures {
    /// Writes that failed.
    pub(crate) failures: AtomicU64,
    /// Figures that had no room.
    pub(crate) left_out: AtomicU64,
    /// Bytes of the file.
    pub(crate) bytes: AtomicU64,
}

/// An order to the thread.
#[derive(Debug)]
enum KeeperOrder {
    /// A mark, and where its number goes.
    Mark { author: String, text: String, answer: oneshot::Sender<Result<i64, String>> },
    /// The growth of digests since the last look at them.
    Grown { answer: oneshot::Sender<Grown> },
    /// The plan of a digest was seen.
    Plan(SeenPlan),
    /// It ends.
    Stop,
}

impl Keeper {
    /// For reading.
    pub(crate) fn history(&self) -> History {
        History::of(&self.path)
    }

    /// Its own figures.
    pub(crate) fn figures(&self) -> &KeeperFigures {
        &self.figures
    }

    /// Has the thread end. The file stays as it is.
    pub(crate) fn stop(&self) {
        // It may have ended by itself.
        let _ = self.orders.send(KeeperOrder::Stop);
    }

    /// Keeps the plan of a digest.
    pub(crate) fn keep_plan(&self, plan: SeenPlan) {
        // The thread may have ended.
        let _ = self.orders.send(KeeperOrder::Plan(plan));
    }

    /// The growth of digests since the last look at them.
    pub(crate) async fn grown(&self) -> Result<Grown, String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the history is not written any more".to_owned();
        self.orders.send(KeeperOrder::Grown { answer }).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }

    /// Writes a mark. Gives its number.
    pub(crate) async fn mark(&self, author: String, text: String) -> Result<i64, String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the history is not written any more".to_owned();
        self.orders.send(KeeperOrder::Mark { author, text, answer }).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

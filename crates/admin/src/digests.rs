//! The reports of all workers, for those who show digests.

use std::time::Duration;

use stats::digests::{DigestReport, DigestSource, ask_each};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Longest wait for the workers, which answer between two statements.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The reports of the workers that answer within five seconds; their tables are emptied if `reset` says so.
pub async fn ask_digests(source: &dyn DigestSource, reset: bool) -> Vec<DigestReport> {
    let (sender, mut answers) = mpsc::unbounded_channel();
    ask_each(source, reset, move |report| {
        // The receiver may have gone.
        let _ = sender.send(report);
    });
    let deadline = Instant::now() + ANSWER_WAIT;
    let mut reports = Vec::new();
    while let Ok(Some(report)) = timeout_at(deadline, answers.recv()).await {
        reports.push(report);
    }
    reports
}

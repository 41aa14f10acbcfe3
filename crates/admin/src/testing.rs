//! A process with one cluster, for unit tests.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ::cache::{Bounds, CountedWrites, Store, WarmReport, Warmer, Writes};
use config::Config;
use facts::published::Published;
use stats::digests::NoDigests;
use tokio::sync::{oneshot, watch};

use super::shared::{ResultCache, Sources};
use super::status::{ClusterStatus, Clusters, Figures, JournalLine, Lines, StateChange, Status};
use facts::command::Command;

use super::steering::{Answer, Busy, Steering};

/// A configuration with one cluster and one listener; `more` is appended.
pub(super) fn config(more: &str) -> Config {
    let text = format!(
        "[cluster.main]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
         servers.a = {{ address = \"h:1\" }}\n[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n{more}"
    );
    config::parse("x.toml", &text, &config::MemorySource::default()).unwrap().config
}

/// A process without a cluster, a data plane or anybody who takes commands.
pub(super) fn sources(workers: stats::Workers) -> Sources {
    Sources {
        workers,
        digests: Arc::new(NoDigests),
        cache: None,
        tier: None,
        events: None,
        sessions: None,
        status: Arc::new(FixedStatus(Clusters::new())),
        steering: Arc::new(Orders::default()),
        explainer: None,
    }
}

/// A status of clusters that never changes.
pub(super) struct FixedStatus(Clusters);

impl FixedStatus {
    pub(super) fn one(cluster: Arc<OneCluster>) -> Arc<FixedStatus> {
        Arc::new(FixedStatus([(cluster.name.clone(), cluster as Arc<dyn ClusterStatus>)].into()))
    }
}

impl Status for FixedStatus {
    fn clusters(&self) -> Clusters {
        self.0.clone()
    }
}

/// A cluster of which all is known.
pub(super) struct OneCluster {
    name: Arc<str>,
    pub(super) published: Published,
    pub(super) figures: Figures,
    pub(super) journal: Vec<JournalLine>,
    pub(super) changes: Vec<StateChange>,
}

impl OneCluster {
    pub(super) fn new(name: &str) -> OneCluster {
        OneCluster {
            name: name.into(),
            published: Published::new(name),
            figures: Figures::default(),
            journal: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl ClusterStatus for OneCluster {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn published(&self) -> &Published {
        &self.published
    }

    fn figures(&self) -> Figures {
        self.figures.clone()
    }

    fn journal(&self, which: Lines, limit: usize) -> Vec<JournalLine> {
        let of_run = |line: &&JournalLine| match which {
            Lines::All | Lines::Decisions => true,
            Lines::OfRun(run) | Lines::EndOf(run) => line.run == run,
        };
        let mut newest: Vec<JournalLine> = self.journal.iter().rev().filter(of_run).take(limit).cloned().collect();
        newest.reverse();
        newest
    }

    fn state_changes(&self) -> Vec<StateChange> {
        self.changes.clone()
    }

    fn journal_changes(&self) -> watch::Receiver<u64> {
        watch::Sender::new(0).subscribe()
    }
}

/// Gives these answers, and keeps the commands.
#[derive(Default)]
pub(super) struct Orders {
    pub(super) answers: Mutex<Vec<Answer>>,
    pub(super) commands: Mutex<Vec<(String, Command)>>,
}

impl Steering for Orders {
    fn command(&self, cluster: &str, command: Command) -> Result<oneshot::Receiver<Answer>, Busy> {
        let answer = self.answers.lock().unwrap().pop().ok_or(Busy)?;
        self.commands.lock().unwrap().push((cluster.to_owned(), command));
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(answer);
        Ok(receiver)
    }
}

/// A result cache of one MiB that nothing was put into, and one file that it was filled from.
pub(super) fn result_cache() -> ResultCache {
    let store = Arc::new(Store::new(Bounds { memory_max: 1 << 20, entry_max: 1 << 10 }));
    ResultCache { store, warmer: Arc::new(OneFile), writes: Arc::new(OfMain) }
}

struct OfMain;

impl CountedWrites for OfMain {
    fn writes(&self) -> Vec<(Arc<str>, Writes)> {
        vec![("main".into(), Writes { by_row: 3, by_table: 2, to_any: 1 })]
    }
}

struct OneFile;

impl Warmer for OneFile {
    fn start(&self, _: Option<&str>) -> usize {
        0
    }

    fn report(&self) -> Vec<WarmReport> {
        vec![WarmReport {
            name: "pages".into(),
            cluster: "main".into(),
            user: "app".into(),
            schema: None,
            file: Path::new("/pages.sql").into(),
            statements: 30,
            kinds: 3,
            running: 1,
            runs: 2,
            last: None,
            total: ::cache::WarmCounts { kept: 50, there: 20, without_rule: 4, refused: 5, failed: 6 },
        }]
    }
}

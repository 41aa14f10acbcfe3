//! The traits of `admin` for the clusters of this process: their figures and journals are read, and they take commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use admin::{self, Answer, Busy, Clusters, JournalLine, Lines, Status, Steering};
use cluster::diagnosis::Diagnosis;
use cluster::journal::{EntryKind, RUN_WORDS};
use cluster::observation::FailureClass;
use facts::command::Command;
use facts::published::Published;
use tokio::sync::{oneshot, watch};

use super::{ClusterStatus, Figures, PendingCommand, Registry, STEP_WORDS, ServerFigures};
use crate::journal::Record;

impl Status for Registry {
    fn clusters(&self) -> Clusters {
        self.watched().into_iter().map(|(name, status)| (name, status as Arc<dyn admin::ClusterStatus>)).collect()
    }
}

impl Steering for Registry {
    fn command(&self, cluster: &str, command: Command) -> Result<oneshot::Receiver<Answer>, Busy> {
        let clusters = self.watched();
        let status = clusters.get(cluster).ok_or(Busy)?;
        let (answer, waiting) = oneshot::channel();
        status.commands.try_send(PendingCommand { command, answer }).map_err(|_| Busy)?;
        Ok(waiting)
    }
}

impl admin::ClusterStatus for ClusterStatus {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn published(&self) -> &Published {
        &self.published
    }

    fn figures(&self) -> admin::Figures {
        let figures = ClusterStatus::figures(self).clone();
        admin::Figures { journal_failures: self.journal.failures(), ..shown(figures) }
    }

    fn journal(&self, which: Lines, limit: usize) -> Vec<JournalLine> {
        let fits = |Record { entry, .. }: &Record| match which {
            Lines::All => true,
            Lines::OfRun(run) => entry.run == run,
            Lines::Decisions => matches!(entry.kind, EntryKind::Decision | EntryKind::Advice),
            Lines::EndOf(run) => {
                entry.run == run && matches!(entry.kind, EntryKind::Finished(_) | EntryKind::Aborted(_))
            }
        };
        self.journal.tail(limit, fits).iter().map(Record::line).collect()
    }

    fn state_changes(&self) -> Vec<admin::StateChange> {
        self.changes()
    }

    fn journal_changes(&self) -> watch::Receiver<u64> {
        self.journal.watch()
    }
}

fn shown(figures: Figures) -> admin::Figures {
    let diagnosis = |diagnosis: &Diagnosis| admin::Diagnosis {
        name: diagnosis.name(),
        severe: diagnosis.is_severe(),
        text: diagnosis.to_string(),
    };
    let confirmations = figures.lease_confirmations;
    admin::Figures {
        diagnoses: figures.diagnoses.iter().map(diagnosis).collect(),
        diagnosis_names: &Diagnosis::NAMES,
        servers: figures.servers.into_iter().map(|(name, figures)| (name, shown_server(figures))).collect(),
        accounts_failures: figures.accounts_failures,
        catalog_failures: figures.catalog_failures,
        heartbeat_writes: figures.heartbeat_writes,
        heartbeat_failures: figures.heartbeat_failures,
        failover: figures.failover,
        cooldown_until: figures.cooldown_until,
        failover_stopped: figures.failover_stopped,
        journal_failures: 0,
        lease: figures.lease,
        lease_held: figures.lease_held,
        lease_confirmations: vec![
            ("held", confirmations.held),
            ("elsewhere", confirmations.elsewhere),
            ("failed", confirmations.failed),
        ],
        runs: by_word(&RUN_WORDS, &figures.runs.ended),
        steps: by_word(&STEP_WORDS, &figures.runs.steps),
        primary_changes: figures.runs.primary_changes,
        unsettled: figures.unsettled,
        changes: figures.changes,
    }
}

fn shown_server(figures: ServerFigures) -> admin::ServerFigures {
    let classes = FailureClass::ALL.iter().map(|class| class.word());
    admin::ServerFigures {
        lag: figures.lag,
        probes: figures.probes,
        failures: classes.zip(figures.failures).collect(),
        probe_time: figures.probe_time,
        report: figures.report,
    }
}

/// The counts of every word, also of those that were not counted yet.
fn by_word(words: &[&'static str], counts: &BTreeMap<&'static str, [u64; 2]>) -> Vec<(&'static str, [u64; 2])> {
    words.iter().map(|word| (*word, counts.get(word).copied().unwrap_or_default())).collect()
}

//! Runs: a failover, a switchover or a repair under way, stage by stage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::ServerId;

use super::failover::FailoverStage;
use super::promotion::{PromotionStage, is_writable};
use super::repair::RejoinStage;
use super::switchover::SwitchoverStage;
use super::{Driver, Level, Output};
use crate::journal::{EntryKind, JournalEntry};
use crate::observation::Facts;
use crate::settings::Mode;
use crate::step::{Step, StepError, StepId, StepResult};

/// How many stages runs may go through at once. No run has so many without waiting for a server: the limit is there for mistakes.
const STAGES_MAX: u32 = 32;
/// The lease must hold for so long when a step is ordered.
pub(super) const LEASE_MARGIN: Duration = Duration::from_millis(200);

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunKind {
    /// The primary does not answer.
    Failover,
    /// The primary answers, and lacks what others have.
    Replace,
    /// The primary answers, is read-only, and no other server takes writes.
    Restore,
    Switchover,
    /// A server that came back, or follows the wrong one.
    Rejoin,
}

impl RunKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            RunKind::Failover | RunKind::Replace => "failover",
            RunKind::Restore => "restore",
            RunKind::Switchover => "switchover",
            RunKind::Rejoin => "rejoin",
        }
    }
}

/// Where a run is. Each kind of run has stages of its own, so that no run can be in a stage of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Of a failover, a replacement and a restoration.
    Failover(FailoverStage),
    Switchover(SwitchoverStage),
    Rejoin(RejoinStage),
}

impl Stage {
    /// The first stage of such a run.
    fn first(kind: RunKind) -> Stage {
        match kind {
            RunKind::Failover | RunKind::Replace | RunKind::Restore => Stage::Failover(FailoverStage::Lease),
            RunKind::Switchover => Stage::Switchover(SwitchoverStage::Lease),
            RunKind::Rejoin => Stage::Rejoin(RejoinStage::Lease),
        }
    }

    fn promotion(self) -> Option<PromotionStage> {
        match self {
            Stage::Failover(FailoverStage::Promotion(stage)) | Stage::Switchover(SwitchoverStage::Promotion(stage)) => {
                Some(stage)
            }
            Stage::Failover(_) | Stage::Switchover(_) | Stage::Rejoin(_) => None,
        }
    }
}

/// A run that goes on, and its next stage; `None`: the run is over.
pub(super) type Next<S> = Option<(Run, S)>;

/// One run.
pub(super) struct Run {
    /// The journal's number for it; 0 before it is begun.
    pub(super) id: u64,
    pub(super) kind: RunKind,
    /// While a stage is judged, that stage. Only [`Driver::advance`] changes it.
    stage: Stage,
    /// An operator ordered it.
    pub(super) ordered: bool,
    pub(super) force: bool,
    /// The operator's choice.
    pub(super) wanted: Option<ServerId>,
    /// The primary before; of a rejoin, the server.
    pub(super) old: Option<ServerId>,
    pub(super) new: Option<ServerId>,
    /// The server from which the new one gets what it lacks.
    pub(super) from: Option<ServerId>,
    /// Servers that have fetched what they lacked.
    pub(super) fetched: Vec<ServerId>,
    /// Steps of this stage that are not out yet, and those that are.
    pub(super) todo: Vec<Step>,
    pub(super) out: Vec<StepId>,
    /// How steps of this stage ended.
    pub(super) ended: Vec<(Step, Result<StepResult, StepError>)>,
    /// The view shows no primary, and the old one fenced.
    pub(super) fenced: bool,
    /// The view asks to hold new writes.
    pub(super) holds: bool,
    /// Servers that took part so far; others count as not reached.
    pub(super) with: Vec<ServerId>,
    /// Servers that could not be promoted, and why.
    pub(super) failed: Vec<(ServerId, String)>,
    /// How often a stage was repeated.
    pub(super) again: u32,
    /// The position that the new primary must have: the old primary's in a switchover, else that of the server that it fetches from.
    pub(super) position: Arc<str>,
    /// Why it is being taken back.
    pub(super) why: String,
}

impl Run {
    /// Facts that steps of this stage brought.
    pub(super) fn facts(&self) -> Vec<(ServerId, Facts)> {
        let read = self.ended.iter().filter_map(|(step, result)| match (step, result) {
            (Step::ReadFacts { server } | Step::Promote { server, .. }, Ok(StepResult::Facts(facts))) => {
                Some((*server, (**facts).clone()))
            }
            _ => None,
        });
        read.collect()
    }

    /// How the first step of this stage that ended badly did so.
    pub(super) fn first_error(&self) -> Option<(&Step, &StepError)> {
        self.errors().next()
    }

    /// Which steps of this stage ended badly, and how.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&Step, &StepError)> {
        self.ended.iter().filter_map(|(step, result)| result.as_ref().err().map(|error| (step, error)))
    }

    /// Its stage has ended. If the new primary takes writes already, the stage does not wait for servers that follow it.
    pub(super) fn is_due(&self) -> bool {
        let taken = |(step, result): &(Step, _)| matches!((step, result), (Step::Promote { .. }, Ok(StepResult::Facts(facts))) if is_writable(facts));
        (self.todo.is_empty() && self.out.is_empty())
            || (self.stage.promotion() == Some(PromotionStage::Promote) && self.ended.iter().any(taken))
    }

    pub(super) fn is_promoted(&self) -> bool {
        self.stage.promotion().is_some_and(PromotionStage::is_promoted)
    }

    /// Goes on to this stage, whose steps stand in `todo`.
    pub(super) fn enter<S>(mut self, stage: S) -> (Run, S) {
        self.ended.clear();
        (self, stage)
    }

    fn at((run, stage): (Run, Stage)) -> Run {
        Run { stage, ..run }
    }
}

impl Driver {
    /// A run that is not begun; it has no number yet.
    pub(super) fn new_run(kind: RunKind, old: Option<ServerId>) -> Run {
        Run {
            id: 0,
            kind,
            stage: Stage::first(kind),
            ordered: false,
            force: false,
            wanted: None,
            old,
            new: None,
            from: None,
            fetched: Vec::new(),
            todo: Vec::new(),
            out: Vec::new(),
            ended: Vec::new(),
            fenced: false,
            holds: false,
            with: Vec::new(),
            failed: Vec::new(),
            again: 0,
            position: "".into(),
            why: String::new(),
        }
    }

    /// Enters the first stage, and numbers the run.
    pub(super) fn begin(&mut self, now: Instant, mut run: Run, why: String) -> u64 {
        self.next_run += 1;
        run.id = self.next_run;
        let server = run.old.map(|id| self.name_of(id));
        self.note(run.id, EntryKind::Decision, server, why);
        if self.settings.failover.lease_required && !self.holds_lease(now, self.settings.failover.step_timeout) {
            run.todo.push(Step::TakeLease);
        }
        let id = run.id;
        self.runs.push(run);
        id
    }

    pub(super) fn main_run(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.kind != RunKind::Rejoin)
    }

    /// The lease is held, or none is needed, for this long.
    pub(super) fn holds_lease(&self, now: Instant, needed: Duration) -> bool {
        !self.settings.failover.lease_required || self.lease.is_held_for(now, needed)
    }

    /// The lease could not be had a moment ago: another instance has it, or too few servers are reached.
    pub(super) fn lease_was_refused(&self, now: Instant) -> bool {
        self.lease.was_refused(now) && !self.holds_lease(now, LEASE_MARGIN)
    }

    /// Moves every run that waits for nothing.
    pub(super) fn advance(&mut self, now: Instant) {
        self.expire(now);
        for _ in 0..STAGES_MAX {
            let Some(index) = self.runs.iter().position(Run::is_due) else { return };
            let run = self.runs.remove(index);
            let next = match run.stage {
                Stage::Failover(ended) => {
                    self.failover_stage(now, run, ended).map(|(run, next)| (run, Stage::Failover(next)))
                }
                Stage::Switchover(ended) => {
                    self.switchover_stage(now, run, ended).map(|(run, next)| (run, Stage::Switchover(next)))
                }
                Stage::Rejoin(ended) => {
                    self.rejoin_stage(now, run, ended).map(|(run, next)| (run, Stage::Rejoin(next)))
                }
            };
            self.runs.extend(next.map(Run::at));
        }
        if self.runs.iter().any(Run::is_due) {
            self.note_unsettled(format!("runs went through {STAGES_MAX} stages at once, and are not settled"));
        }
    }

    /// Ends a run that did what it should.
    pub(super) fn finish(&mut self, run: &Run, text: String) {
        let server = run.new.or(run.old).map(|id| self.name_of(id));
        self.log(Level::Info, server.clone(), text.clone());
        self.note(run.id, EntryKind::Finished(run.kind.word()), server, text);
    }

    /// Gives a run up. `counts`: it failed, rather than having become needless.
    pub(super) fn give_up(&mut self, now: Instant, run: &Run, counts: bool, text: String) {
        let server = run.old.map(|id| self.name_of(id));
        if counts {
            self.guard.failed(now);
            self.log(Level::Error, server.clone(), format!("{} given up: {text}", run.kind.word()));
        } else {
            self.guard.needless(now);
        }
        self.note(run.id, EntryKind::Aborted(run.kind.word()), server, text);
    }

    pub(super) fn note(&mut self, run: u64, kind: EntryKind, server: Option<Arc<str>>, text: String) {
        let epoch = self.view.epoch;
        self.outputs.push_back(Output::Journal(JournalEntry { run, epoch, kind, server, text }));
    }

    /// Whether Sqluice acts by itself.
    pub(super) fn acts(&self) -> bool {
        self.settings.failover.mode == Mode::Auto && !self.settings.standalone
    }
}

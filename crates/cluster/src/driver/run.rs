//! Runs: a failover, a switchover or a repair under way, stage by stage; and the steps that are out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::ServerId;

use super::failover::FailoverStage;
use super::promotion::{PromotionStage, is_writable};
use super::repair::RejoinStage;
use super::switchover::SwitchoverStage;
use super::{Driver, Level, Output};
use crate::journal::{EntryKind, JournalEntry};
use crate::observation::{Facts, FailureClass};
use crate::settings::Mode;
use crate::step::{ErrorKind, Hook, HookCall, Order, Step, StepError, StepId, StepResult};

/// How many stages runs may go through at once. No run has so many without waiting for a server: the limit is there for mistakes.
const STAGES_MAX: u32 = 32;
/// An outcome may come so much later than the step's time limit.
pub(super) const OUTCOME_GRACE: Duration = Duration::from_secs(1);
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
    /// Position of the old primary that the new one must have (switchover).
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

/// A step that is out.
pub(super) struct Out {
    pub(super) id: StepId,
    pub(super) run: u64,
    pub(super) step: Step,
    pub(super) ends: Instant,
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

    /// Orders steps whose servers are free, in their order.
    pub(super) fn order_steps(&mut self, now: Instant) {
        for index in 0..self.runs.len() {
            let mut later = Vec::new();
            for step in std::mem::take(&mut self.runs[index].todo) {
                let server = step.server();
                let taken = |other: &Step| server.is_some() && other.server() == server;
                if self.out.iter().any(|out| taken(&out.step)) || later.iter().any(taken) {
                    later.push(step);
                    continue;
                }
                self.order(now, index, step);
            }
            self.runs[index].todo = later;
        }
    }

    fn order(&mut self, now: Instant, index: usize, step: Step) {
        let bounds = &self.settings.failover;
        let timeout = match &step {
            // One that was silent for long is not waited for as long again.
            Step::ReadFacts { server } if self.index(*server).is_some_and(|index| self.servers[index].is_silent()) => {
                bounds.look_timeout / 2
            }
            Step::ReadFacts { .. } => bounds.look_timeout,
            Step::WaitApplied { .. } => bounds.drain_max,
            Step::WaitIdle { .. } => bounds.in_flight_max,
            Step::RunHook { .. } => bounds.hook_timeout,
            _ => bounds.step_timeout,
        };
        self.next_step += 1;
        let id = StepId(self.next_step);
        let not_after = if bounds.lease_required && step.changes() { self.lease.until() } else { None };
        self.runs[index].out.push(id);
        let run = self.runs[index].id;
        if step.changes() && !self.holds_lease(now, LEASE_MARGIN) {
            let error = StepError { kind: ErrorKind::LeaseLost, text: "it ran out before the step".into() };
            self.runs[index].out.pop();
            self.runs[index].ended.push((step, Err(error)));
            return;
        }
        let server = step.server().map(|id| self.name_of(id));
        let words = self.step_words(&step);
        self.note(run, EntryKind::Step(id), server, words);
        self.out.push(Out { id, run, step: step.clone(), ends: now + timeout + OUTCOME_GRACE });
        self.outputs.push_back(Output::Execute(Order { id, step, timeout, not_after }));
    }

    /// Takes an outcome in.
    pub(super) fn end_step(&mut self, now: Instant, id: StepId, outcome: Result<StepResult, StepError>) {
        let Some(position) = self.out.iter().position(|out| out.id == id) else { return };
        let out = self.out.remove(position);
        if let (Step::TakeLease, Ok(StepResult::Lease { held_until })) = (&out.step, &outcome) {
            self.lease.hold(Some(*held_until));
        }
        if matches!((&out.step, &outcome), (Step::TakeLease, Err(_))) {
            self.lease.refuse(now);
        }
        if let (Some(index), Ok(StepResult::Facts(facts))) = (out.step.server().and_then(|id| self.index(id)), &outcome)
        {
            self.learn(now, index, (**facts).clone());
        }
        if let Some(index) = out.step.server().and_then(|id| self.index(id))
            && out.step.changes()
        {
            self.servers[index].changed = Some(now);
        }
        let server = out.step.server().map(|id| self.name_of(id));
        let words = self.step_words(&out.step);
        match &outcome {
            Ok(result) => {
                let more = match result {
                    StepResult::Ended(count) => format!(", {count} connections"),
                    _ => String::new(),
                };
                self.note(out.run, EntryKind::Done(id), server, format!("{words}: done{more}"));
            }
            Err(error) => self.note(out.run, EntryKind::Failed(id), server, format!("{words}: {error}")),
        }
        if let Some(run) = self.runs.iter_mut().find(|run| run.id == out.run) {
            run.out.retain(|waiting| *waiting != id);
            run.ended.push((out.step, outcome));
        }
    }

    fn expire(&mut self, now: Instant) {
        let late: Vec<StepId> = self.out.iter().filter(|out| out.ends <= now).map(|out| out.id).collect();
        for id in late {
            let text = "no outcome was reported in time".into();
            self.end_step(now, id, Err(StepError { kind: ErrorKind::Timeout, text }));
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

    pub(super) fn hook(&self, run: &Run, hook: Hook) -> Step {
        let call = HookCall { kind: run.kind.word(), run: run.id, old: run.old, new: run.new };
        Step::RunHook { hook, call }
    }

    /// A step in words.
    pub(super) fn step_words(&self, step: &Step) -> String {
        let name = |id: &ServerId| self.name_of(*id);
        match step {
            Step::TakeLease => "take the lease".into(),
            Step::ReleaseLease => "give the lease up".into(),
            Step::ReadFacts { server } => format!("ask {} again", name(server)),
            Step::SetReadOnly { server, on: true, .. } => format!("make {} read-only", name(server)),
            Step::SetReadOnly { server, on: false, .. } => format!("make {} writable", name(server)),
            Step::EndClients { server } => format!("end the clients' connections of {}", name(server)),
            Step::WaitIdle { server } => format!("wait for running work on {}", name(server)),
            Step::StopReceiver { server } => format!("stop the receiver of {}", name(server)),
            Step::WaitApplied { server, position } if position.is_empty() => {
                format!("wait until {} has applied all that it received", name(server))
            }
            Step::WaitApplied { server, position } => format!("wait until {} has applied {position}", name(server)),
            Step::Promote { server, .. } => format!("promote {}", name(server)),
            Step::DisableEvents { server } => format!("disable the events of {}", name(server)),
            Step::EnableEvents { server, old } => {
                format!("enable on {} the events that ran on {}", name(server), name(old))
            }
            Step::SetGroupPrimary { server, .. } => format!("have the group make {} its primary", name(server)),
            Step::Follow { server, source } => format!("have {} follow {}", name(server), name(source)),
            Step::RunHook { hook: Hook::Before, .. } => "run the hook that may forbid it".into(),
            Step::RunHook { hook: Hook::After, .. } => "run the hook for after the change".into(),
        }
    }

    /// Whether Sqluice acts by itself.
    pub(super) fn acts(&self) -> bool {
        self.settings.failover.mode == Mode::Auto && !self.settings.standalone
    }
}

/// How an error of a look counts as a probe's.
pub(super) fn class_of(error: &StepError) -> FailureClass {
    match error.kind {
        ErrorKind::Unreachable(class) => class,
        ErrorKind::Timeout => FailureClass::Timeout,
        ErrorKind::Failed | ErrorKind::LeaseLost => FailureClass::Query,
    }
}

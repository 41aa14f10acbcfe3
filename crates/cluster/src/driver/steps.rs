//! Steps of runs: how they are ordered, and how their outcomes come in.

use std::time::{Duration, Instant};

use facts::view::ServerId;

use super::run::{LEASE_MARGIN, Run};
use super::{Driver, Output};
use crate::journal::EntryKind;
use crate::observation::FailureClass;
use crate::step::{ErrorKind, Hook, HookCall, Order, Step, StepError, StepId, StepResult};

/// An outcome may come so much later than the step's time limit.
pub(super) const OUTCOME_GRACE: Duration = Duration::from_secs(1);

/// A step that is out.
pub(super) struct Out {
    pub(super) id: StepId,
    pub(super) run: u64,
    pub(super) step: Step,
    pub(super) ends: Instant,
}

impl Driver {
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
        if let Step::Follow { server, .. } = &out.step
            && let Some(index) = self.index(*server)
        {
            let is_unknown = matches!(&outcome, Err(error) if error.kind == ErrorKind::Timeout);
            self.servers[index].half_attached = is_unknown;
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

    pub(super) fn expire(&mut self, now: Instant) {
        let late: Vec<StepId> = self.out.iter().filter(|out| out.ends <= now).map(|out| out.id).collect();
        for id in late {
            let text = "no outcome was reported in time".into();
            self.end_step(now, id, Err(StepError { kind: ErrorKind::Timeout, text }));
        }
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
}

/// How an error of a look counts as a probe's.
pub(super) fn class_of(error: &StepError) -> FailureClass {
    match error.kind {
        ErrorKind::Unreachable(class) => class,
        ErrorKind::Timeout => FailureClass::Timeout,
        ErrorKind::Failed | ErrorKind::LeaseLost => FailureClass::Query,
    }
}

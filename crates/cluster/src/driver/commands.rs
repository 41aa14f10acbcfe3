//! Commands of operators and their tools.

use std::time::{Duration, Instant};

use facts::view::ServerId;

use super::run::{Run, RunKind};
use super::server::Use;
use super::{Driver, Level};
use crate::detect::Verdict;
use crate::journal::EntryKind;
use crate::settings::GroupKind;
use crate::step::{Hook, Step};
use facts::command::{Accepted, Command, Refused};

/// How long an outside manager's word about a new primary counts: it has to come true, and the others have to follow.
const EXTERNAL_MAX: Duration = Duration::from_secs(60);

impl Driver {
    pub(super) fn obey(&mut self, now: Instant, command: Command) -> Result<Accepted, Refused> {
        if let Some(kind) = self.settings.group {
            let mut move_to = |to, dry_run| match kind {
                GroupKind::Galera(_) => self.move_writer(to, dry_run),
                GroupKind::GroupReplication => self.move_group_primary(now, to, dry_run),
                GroupKind::Ndb => Err(Refused::because(
                    "every SQL node takes writes, so there is no primary to move; drain a server instead",
                )),
            };
            match command {
                Command::Switchover { to, dry_run } => return move_to(to, dry_run),
                Command::SetPrimary { server } => return move_to(Some(server), false),
                Command::Failover { .. } | Command::Rejoin { .. } => {
                    return Err(Refused::because(
                        "the group itself decides who belongs to it; order a switchover instead",
                    ));
                }
                Command::Drain { .. } | Command::Resume { .. } | Command::Maintenance { .. } | Command::Acknowledge => {
                }
            }
        }
        match command {
            Command::Switchover { to, dry_run } => self.switch_over(now, to, dry_run),
            Command::Failover { to, dry_run, force } => self.fail_over(now, to, dry_run, force),
            Command::Rejoin { server, dry_run } => self.rejoin(now, server, dry_run),
            Command::SetPrimary { server } => self.set_primary(now, server),
            Command::Drain { server, dry_run } => self.set_use(server, Use::Draining, dry_run),
            Command::Resume { server } => self.set_use(server, Use::Normal, false),
            Command::Maintenance { server, dry_run } => self.set_use(server, Use::Maintenance, dry_run),
            Command::Acknowledge => {
                self.guard.acknowledge();
                self.note(0, EntryKind::Decision, None, "acknowledged by an operator".into());
                Ok(Accepted::default())
            }
        }
    }

    /// No run may be under way, and the cluster must be one that has roles.
    fn is_free(&self) -> Result<(), Refused> {
        if self.settings.standalone {
            return Err(Refused::because("the cluster has one server"));
        }
        match self.main_run() {
            Some(run) => Err(Refused::because(format!("{} {} is under way", run.kind.word(), run.id))),
            None => Ok(()),
        }
    }

    fn known(&self, server: ServerId) -> Result<usize, Refused> {
        self.index(server).ok_or_else(|| Refused::because("there is no such server"))
    }

    fn switch_over(&mut self, now: Instant, to: Option<ServerId>, dry_run: bool) -> Result<Accepted, Refused> {
        self.is_free()?;
        let Some(primary) = self.view.primary.and_then(|id| self.index(id)) else {
            return Err(Refused::because("there is no primary; order a failover instead"));
        };
        if !self.reached(primary, now) {
            let name = self.servers[primary].name();
            return Err(Refused::because(format!("the primary {name} does not answer; order a failover instead")));
        }
        if !self.could_follow(primary) {
            return Err(Refused::because(format!(
                "replication.user is not set, so {} could not follow the new primary and would stay behind without what is written then",
                self.servers[primary].name()
            )));
        }
        let mut run = Driver::new_run(RunKind::Switchover, Some(self.servers[primary].id));
        (run.ordered, run.wanted) = (true, to);
        self.check_wanted(&run)?;
        self.start(now, run, dry_run, true, "an operator ordered a switchover")
    }

    /// It could be made a replica of another server: it has a channel whose user it keeps, or it is known as whom it would log in.
    pub(super) fn could_follow(&self, index: usize) -> bool {
        self.settings.failover.attaches || !self.sources()[index].is_empty()
    }

    fn fail_over(
        &mut self,
        now: Instant,
        to: Option<ServerId>,
        dry_run: bool,
        force: bool,
    ) -> Result<Accepted, Refused> {
        self.is_free()?;
        let Some(primary) = self.view.primary.and_then(|id| self.index(id)).or_else(|| self.root(now)) else {
            let Some(to) = to.filter(|_| force) else {
                let words = "it is not known which server was the primary; name the one to be promoted, with force";
                return Err(Refused::because(words));
            };
            return self.make_primary(now, to, dry_run);
        };
        let server = &self.servers[primary];
        let name = server.name().clone();
        if !force {
            if server.failing_since.is_none() {
                return Err(Refused::because(format!("{name} answers; order a switchover instead, or use force")));
            }
            let verdict = self.verdict(primary, now);
            if !matches!(verdict, Verdict::Dead | Verdict::Frozen | Verdict::MaybeFrozen) {
                return Err(Refused::because(format!(
                    "{}; force does it nevertheless",
                    self.verdict_words(primary, &verdict)
                )));
            }
            self.enough(now, None).map_err(Refused::because)?;
        }
        let mut run = Driver::new_run(RunKind::Failover, Some(self.servers[primary].id));
        (run.ordered, run.force, run.wanted) = (true, force, to);
        self.check_wanted(&run)?;
        self.start(now, run, dry_run, false, "an operator ordered a failover")
    }

    /// No server follows another one, and the operator names the server.
    fn make_primary(&mut self, now: Instant, to: ServerId, dry_run: bool) -> Result<Accepted, Refused> {
        let index = self.known(to)?;
        if !self.reached(index, now) {
            return Err(Refused::because(format!("{} does not answer, or is in maintenance", self.name_of(to))));
        }
        let mut run = Driver::new_run(RunKind::Restore, Some(to));
        (run.ordered, run.force, run.new) = (true, true, Some(to));
        let steps = self.plan_words(&run);
        if dry_run {
            return Ok(Accepted { steps, ..Accepted::default() });
        }
        let id = self.begin(now, run, "an operator named the primary".into());
        Ok(Accepted { run: Some(id), steps, ..Accepted::default() })
    }

    fn check_wanted(&self, run: &Run) -> Result<(), Refused> {
        let Some(wanted) = run.wanted else { return Ok(()) };
        self.known(wanted)?;
        if Some(wanted) == run.old {
            return Err(Refused::because(format!("{} is the primary", self.name_of(wanted))));
        }
        Ok(())
    }

    fn start(
        &mut self,
        now: Instant,
        mut run: Run,
        dry_run: bool,
        planned: bool,
        why: &str,
    ) -> Result<Accepted, Refused> {
        let choice = self.choose(now, &run, planned);
        let others = self.choice_words(&choice);
        let Some(chosen) = choice.candidate() else {
            return Err(Refused { reason: "no server can be promoted".into(), others });
        };
        run.new = Some(self.servers[chosen].id);
        run.from = choice.fetch.map(|fetch| self.servers[fetch.from].id);
        let steps = self.plan_words(&run);
        (run.new, run.from) = (None, None);
        if dry_run {
            return Ok(Accepted { steps, others, ..Accepted::default() });
        }
        let id = self.begin(now, run, why.to_owned());
        Ok(Accepted { run: Some(id), steps, others, ..Accepted::default() })
    }

    fn rejoin(&mut self, now: Instant, server: ServerId, dry_run: bool) -> Result<Accepted, Refused> {
        self.is_free()?;
        let index = self.known(server)?;
        let name = self.servers[index].name().clone();
        let Some(primary) = self.view.primary.and_then(|id| self.index(id)) else {
            return Err(Refused::because("there is no primary to follow"));
        };
        if primary == index {
            return Err(Refused::because(format!("{name} is the primary")));
        }
        if !self.reached(index, now) {
            return Err(Refused::because(format!("{name} does not answer, or is in maintenance")));
        }
        if self.runs.iter().any(|run| run.old == Some(server)) {
            return Err(Refused::because(format!("{name} is being attached already")));
        }
        let source = self.servers[primary].id;
        let steps = [
            Step::ReadFacts { server },
            Step::ReadFacts { server: source },
            Step::SetReadOnly { server, on: true, cut: true },
            Step::EndClients { server },
            Step::Follow { server, source },
        ];
        let steps = steps.iter().map(|step| self.step_words(step)).collect();
        if dry_run {
            return Ok(Accepted { steps, ..Accepted::default() });
        }
        let mut run = Driver::new_run(RunKind::Rejoin, Some(server));
        run.ordered = true;
        let id = self.begin(now, run, format!("an operator ordered {name} to be attached"));
        Ok(Accepted { run: Some(id), steps, ..Accepted::default() })
    }

    fn set_primary(&mut self, now: Instant, server: ServerId) -> Result<Accepted, Refused> {
        self.is_free()?;
        let index = self.known(server)?;
        if self.servers[index].resting() {
            return Err(Refused::because("it is in maintenance"));
        }
        let name = self.servers[index].name().clone();
        if self.view.primary == Some(server) {
            return Ok(Accepted { steps: vec![format!("{name} is the primary already")], ..Accepted::default() });
        }
        let old = self.view.primary.or(self.reign.last_primary()).filter(|old| *old != server);
        for other in &mut self.servers {
            if Some(other.id) == old {
                (other.deposed, other.verified) = (true, false);
            }
        }
        let chosen = &mut self.servers[index];
        (chosen.deposed, chosen.verified, chosen.lacks) = (false, chosen.takes_writes(), None);
        self.reign.name_external(server, now + EXTERNAL_MAX);
        self.note(0, EntryKind::Decision, Some(name.clone()), format!("an outside manager made {name} the primary"));
        self.ask(now, index);
        let steps =
            vec![format!("writes wait until {name} takes writes"), "the primary before it is fenced".to_owned()];
        Ok(Accepted { steps, ..Accepted::default() })
    }

    fn set_use(&mut self, server: ServerId, wanted: Use, dry_run: bool) -> Result<Accepted, Refused> {
        let index = self.known(server)?;
        let name = self.servers[index].name().clone();
        let moves_by_itself =
            self.settings.standalone || matches!(self.settings.group, Some(GroupKind::Galera(_) | GroupKind::Ndb));
        if wanted != Use::Normal && self.view.primary == Some(server) && !moves_by_itself {
            return Err(Refused::because(format!("{name} is the primary; order a switchover first")));
        }
        if wanted == Use::Maintenance && self.runs.iter().any(|run| run.old == Some(server) || run.new == Some(server))
        {
            return Err(Refused::because(format!("{name} takes part in something that is under way")));
        }
        let warnings = if wanted == Use::Normal { Vec::new() } else { self.warnings_of_use(server) };
        if dry_run {
            let step = if wanted == Use::Draining {
                format!("{name} gets no new work; sessions that hold a connection to it keep it until they may change")
            } else {
                format!("{name} gets no new work, and is left alone: no promotion, no repair, no vote")
            };
            return Ok(Accepted { steps: vec![step], warnings, ..Accepted::default() });
        }
        self.servers[index].wanted = wanted;
        let words = if wanted == Use::Normal { "used again" } else { self.servers[index].use_words() };
        let text = format!("{name} is {words}, as an operator ordered");
        self.note(0, EntryKind::Decision, Some(name.clone()), text.clone());
        for warning in &warnings {
            self.log(Level::Warn, Some(name.clone()), warning.clone());
        }
        Ok(Accepted { steps: vec![text], warnings, ..Accepted::default() })
    }

    /// Warnings for an operator who takes this server out.
    fn warnings_of_use(&self, server: ServerId) -> Vec<String> {
        let mut warnings = Vec::new();
        let others = || self.view.servers.iter().filter(|other| other.id != server);
        if !others().any(|other| self.view.takes_reads(other)) {
            // The primary has those that no replica takes.
            match others().find(|other| Some(other.id) == self.view.primary && other.serves_reads) {
                Some(primary) => {
                    let name = &primary.name;
                    warnings.push(format!("no replica is left that serves reads: the primary {name} serves all"));
                }
                None => warnings.push("no server is left that serves reads".to_owned()),
            }
        }
        if !self.settings.failover.remembers {
            warnings.push("this is forgotten when the process ends, since promotion.journal is not set".to_owned());
        }
        warnings
    }

    /// The steps that a run would take, in words.
    pub(super) fn plan_words(&self, run: &Run) -> Vec<String> {
        let (Some(old), Some(new)) = (run.old, run.new) else { return Vec::new() };
        let mut steps = Vec::new();
        let bounds = &self.settings.failover;
        if bounds.lease_required {
            steps.push(Step::TakeLease);
        }
        steps.extend(self.servers.iter().filter(|s| s.answers()).map(|s| Step::ReadFacts { server: s.id }));
        if bounds.hook_before {
            steps.push(self.hook(run, Hook::Before));
        }
        let followers: Vec<ServerId> = (0..self.servers.len())
            .filter(|index| self.index(old).is_some_and(|old| self.channel_from(*index, old).is_some()))
            .map(|index| self.servers[index].id)
            .collect();
        if run.kind == RunKind::Switchover {
            steps.push(Step::WaitIdle { server: old });
        }
        if matches!(run.kind, RunKind::Switchover | RunKind::Replace) || run.force {
            if run.kind == RunKind::Switchover && bounds.events {
                steps.push(Step::DisableEvents { server: old });
            }
            let read_only = Step::SetReadOnly { server: old, on: true, cut: run.kind != RunKind::Switchover };
            steps.extend([read_only, Step::EndClients { server: old }]);
        }
        if matches!(run.kind, RunKind::Failover | RunKind::Replace) {
            steps.extend(followers.iter().map(|server| Step::StopReceiver { server: *server }));
        }
        if let Some(from) = run.from {
            steps.push(Step::WaitApplied { server: from, position: "".into() });
            steps.push(Step::Follow { server: new, source: from });
        }
        if run.kind != RunKind::Restore {
            steps.push(Step::WaitApplied { server: new, position: "".into() });
        }
        steps.push(Step::Promote { server: new, old: Some(old) });
        let others = followers.iter().filter(|server| **server != new);
        steps.extend(others.map(|server| Step::Follow { server: *server, source: new }));
        if run.kind == RunKind::Switchover {
            steps.push(Step::Follow { server: old, source: new });
        }
        if bounds.events {
            steps.push(Step::EnableEvents { server: new, old });
        }
        if bounds.hook_after {
            steps.push(self.hook(run, Hook::After));
        }
        steps.iter().map(|step| self.step_words(step)).collect()
    }
}

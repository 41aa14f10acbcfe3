//! Groups that decide by themselves who belongs to them: the writer, and its successors.

use std::time::{Duration, Instant};

use facts::view::{Health, ServerId};

use super::server::{Server, Use};
use super::steps::{OUTCOME_GRACE, Out};
use super::{Driver, Output};
use crate::galera::{self, GaleraRules, Group, Member};
use crate::group_replication;
use crate::journal::EntryKind;
use crate::ndb;
use crate::settings::PromotionRule;
use crate::step::{Order, Step, StepId};
use facts::command::{Accepted, Refused};

/// While a replication group has no primary its members are asked at a faster pace for so long.
const URGENT_FOR: Duration = Duration::from_secs(60);
/// Longest that a group may take to make another member the primary.
const MOVE_MAX: Duration = Duration::from_secs(30);

fn member(server: &Server, caught_up: bool) -> Member<'_> {
    Member {
        name: server.name(),
        facts: server.reported(),
        health: server.health.health(),
        seen: server.health.seen(),
        failure: server.failure.as_ref(),
        // A probe of a server that shuts down may hang; what sessions met there is enough to look for another one, and the
        // group itself says whether it has gone on.
        failing: server.failing_since.is_some() || server.health.doubted(),
        barred: (server.wanted != Use::Normal).then_some("it is drained or in maintenance"),
        promotion: server.spec.promotion,
        caught_up,
    }
}

impl Driver {
    /// Looks at a replication group; while it has no primary that is well, its members are asked again and again.
    pub(super) fn look_at_replication_group(&mut self, now: Instant, previous: Option<usize>) -> Group {
        let requested = self.group_writer.requested().and_then(|id| self.index(id));
        let has_all = |server: &Server| server.idle_answers >= group_replication::IDLE_ANSWERS;
        let members: Vec<Member<'_>> = self.servers.iter().map(|server| member(server, has_all(server))).collect();
        let group = group_replication::analyse(&members, previous, requested, self.settings.max_lag);
        if group.heirs.is_empty() {
            self.group_writer.note_settled();
        } else if now.saturating_duration_since(self.group_writer.note_vacant(now)) < URGENT_FOR {
            group.heirs.iter().for_each(|index| self.ask(now, *index));
        }
        if group.analysis.primary.is_some() && group.analysis.primary == requested {
            self.group_writer.fulfil();
        }
        group
    }

    /// Looks at the SQL nodes of an NDB cluster.
    pub(super) fn look_at_sql_nodes(&self, previous: Option<usize>) -> Group {
        let members: Vec<Member<'_>> = self.servers.iter().map(|server| member(server, true)).collect();
        ndb::analyse(&members, previous)
    }

    /// Another member of a replication group is to be its primary. The group does it, and Sqluice follows.
    pub(super) fn move_group_primary(
        &mut self,
        now: Instant,
        to: Option<ServerId>,
        dry_run: bool,
    ) -> Result<Accepted, Refused> {
        let reported = |id: ServerId| {
            let facts = self.index(id).and_then(|index| self.servers[index].reported())?;
            Some((facts.details.server_uuid.clone(), facts.details.group_replication.clone()?))
        };
        let fit = |id: &ServerId| {
            let view = self.view.server(*id);
            let serves = view.is_some_and(|view| view.serves_reads && view.health == Health::Up);
            serves && self.view.primary != Some(*id) && reported(*id).is_some()
        };
        let rule = |id: &ServerId| self.index(*id).map(|index| self.servers[index].spec.promotion);
        let may = |id: &ServerId| rule(id).is_some_and(|rule| rule != PromotionRule::MustNot);
        let to = match to {
            Some(to) if self.index(to).is_none() => return Err(Refused::because("there is no such server")),
            Some(to) => Some(to).filter(fit),
            None => {
                let mut able: Vec<ServerId> = self.servers.iter().map(|server| server.id).filter(fit).collect();
                able.sort_by_key(|id| rule(id) != Some(PromotionRule::Prefer));
                able.into_iter().find(|id| may(id))
            }
        };
        let Some((to, (member, group))) = to.filter(may).and_then(|to| Some((to, reported(to)?))) else {
            return Err(Refused::because("it is the primary already, is not online, or must not be the primary"));
        };
        let name = self.name_of(to);
        let several = group.members.iter().filter(|row| row.primary).count() > 1;
        let step = Step::SetGroupPrimary { server: to, member };
        let steps = match several {
            true => vec![format!("send writes to {name}")],
            false => vec![self.step_words(&step), format!("send writes to {name} when the group says so")],
        };
        if dry_run {
            return Ok(Accepted { steps, ..Accepted::default() });
        }
        self.note(0, EntryKind::Decision, Some(name.clone()), format!("an operator wants {name} to be the primary"));
        if several {
            self.group_writer.request(to);
            return Ok(Accepted { steps, ..Accepted::default() });
        }
        if self.out.iter().any(|out| out.step.server() == Some(to)) {
            return Err(Refused::because(format!("something is being done to {name} already")));
        }
        self.next_step += 1;
        let id = StepId(self.next_step);
        self.note(0, EntryKind::Step(id), Some(name), self.step_words(&step));
        self.out.push(Out { id, run: 0, step: step.clone(), ends: now + MOVE_MAX + OUTCOME_GRACE });
        self.outputs.push_back(Output::Execute(Order { id, step, timeout: MOVE_MAX, not_after: None }));
        Ok(Accepted { steps, ..Accepted::default() })
    }

    /// Looks at a Galera group, and has those who may take over show what they have.
    pub(super) fn look_at_group(&mut self, now: Instant, previous: Option<usize>, rules: GaleraRules) -> Group {
        let vacant_since = self.group_writer.vacant_since();
        let has_all = |server: &Server| vacant_since.is_some_and(|since| server.caught_up.is_some_and(|at| at > since));
        let members: Vec<Member<'_>> = self.servers.iter().map(|server| member(server, has_all(server))).collect();
        let requested = self.group_writer.requested().and_then(|id| self.index(id));
        let group = galera::analyse(&members, previous, requested, rules);
        let settled = previous.is_none() || (group.heirs.is_empty() && group.analysis.primary.is_some());
        if settled {
            self.group_writer.note_settled();
        } else {
            let lost = previous.and_then(|index| self.servers[index].failing_since);
            self.group_writer.note_vacant(lost.unwrap_or(now));
            // Also those that have shown it before the group went on: each answer has their place in it looked at again, at
            // the pace of these questions.
            let asked: Vec<ServerId> = group.heirs.iter().map(|index| self.servers[*index].id).collect();
            self.outputs.extend(asked.into_iter().map(Output::CatchUp));
        }
        if group.analysis.primary.is_some() && group.analysis.primary == requested {
            self.group_writer.fulfil();
        }
        group
    }

    /// A member has all that was written anywhere before this moment.
    pub(super) fn learn_caught_up(&mut self, index: usize, asked: Instant) {
        let server = &mut self.servers[index];
        server.caught_up = server.caught_up.max(Some(asked));
        // Whether the group has gone on without the last writer shows in what its members tell now.
        if self.group_writer.vacant_since().is_some() {
            self.outputs.push_back(Output::Probe(server.id));
        }
    }

    /// Another member is to take writes.
    pub(super) fn move_writer(&mut self, to: Option<ServerId>, dry_run: bool) -> Result<Accepted, Refused> {
        let fit = |server: &ServerId| {
            let index = self.index(*server);
            let view = self.view.server(*server);
            let writable = index.is_some_and(|index| self.servers[index].takes_writes());
            let serves = view.is_some_and(|view| view.serves_reads && view.health == Health::Up);
            writable && serves && self.view.primary != Some(*server)
        };
        let named =
            |id: ServerId| self.index(id).map(|_| id).ok_or_else(|| Refused::because("there is no such server"));
        let to = match to {
            Some(to) => Some(named(to)?).filter(fit),
            None => self.servers.iter().map(|server| server.id).find(fit),
        };
        let Some(to) = to else {
            return Err(Refused::because("it is the writer already, or is not synced and writable"));
        };
        let name = self.name_of(to);
        let steps = vec![
            format!("wait until {name} has all that was written"),
            format!("send writes to {name}; open transactions end where they are"),
        ];
        if !dry_run {
            self.group_writer.request(to);
            self.note(0, EntryKind::Decision, Some(name.clone()), format!("an operator made {name} the writer"));
        }
        Ok(Accepted { steps, ..Accepted::default() })
    }
}

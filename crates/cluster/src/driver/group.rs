//! A Galera group: the writer, and its successors.

use std::time::Instant;

use super::server::Use;
use super::{Driver, Output};
use crate::command::{Accepted, Refused};
use crate::galera::{self, GaleraRules, Group, Member};
use crate::journal::EntryKind;
use crate::view::{Health, ServerId};

impl Driver {
    /// Looks at the group, and has those who may take over show what they have.
    pub(super) fn look_at_group(&mut self, now: Instant, previous: Option<usize>, rules: GaleraRules) -> Group {
        let vacated = self.vacated;
        let members: Vec<Member<'_>> = self
            .servers
            .iter()
            .map(|server| Member {
                name: server.name(),
                facts: server.told(),
                health: server.health.health(),
                seen: server.health.seen(),
                failure: server.failure.as_ref(),
                // A probe of a server that shuts down may hang; what sessions met there is enough to look for another
                // one, and the group itself says whether it has gone on.
                failing: server.failing_since.is_some() || server.health.doubted(),
                barred: (server.wanted != Use::Normal).then_some("it is drained or in maintenance"),
                promotion: server.spec.promotion,
                caught_up: vacated.is_some_and(|vacated| server.caught_up.is_some_and(|at| at > vacated)),
            })
            .collect();
        let wished = self.wished.and_then(|id| self.index(id));
        let group = galera::analyse(&members, previous, wished, rules);
        let settled = previous.is_none() || (group.heirs.is_empty() && group.analysis.primary.is_some());
        if settled {
            self.vacated = None;
        } else {
            let lost = previous.and_then(|index| self.servers[index].failing_since);
            self.vacated.get_or_insert(lost.unwrap_or(now));
            // Also those that have shown it before the group went on: each answer has their place in it looked at again, at
            // the pace of these questions.
            let asked: Vec<ServerId> = group.heirs.iter().map(|index| self.servers[*index].id).collect();
            self.outputs.extend(asked.into_iter().map(Output::CatchUp));
        }
        if group.analysis.primary.is_some() && group.analysis.primary == wished {
            self.wished = None;
        }
        group
    }

    /// A member has all that was written anywhere before this moment.
    pub(super) fn learn_caught_up(&mut self, index: usize, asked: Instant) {
        let server = &mut self.servers[index];
        server.caught_up = server.caught_up.max(Some(asked));
        // Whether the group has gone on without the last writer shows in what its members tell now.
        if self.vacated.is_some() {
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
            self.wished = Some(to);
            self.note(0, EntryKind::Decision, Some(name.clone()), format!("an operator made {name} the writer"));
        }
        Ok(Accepted { steps, ..Accepted::default() })
    }
}

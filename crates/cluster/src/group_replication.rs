//! MySQL Group Replication: who belongs to the group and serves, and which member is its primary.
//!
//! The group itself chooses its primary and expels members. This module decides which members count: a member counts only with a
//! majority behind it and in the newest view of the group, and a new primary only when it has applied what it had received.

use std::sync::Arc;
use std::time::Duration;

use facts::view::{Health, Role};

use crate::analysis::{Analysis, unserved};
use crate::diagnosis::Diagnosis;
use crate::galera::{Group, Member};
use crate::observation::{GroupReplication, MemberState};

/// A member has applied all that it had received when it has reported empty queues so often in a row: a transaction between two
/// queues shows in neither.
pub(crate) const IDLE_ANSWERS: u32 = 2;

/// How a member stands in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberCondition {
    /// It has a majority with it and all that the group has, perhaps not applied yet.
    Online {
        /// It takes the group's writes, alone or with others.
        primary: bool,
    },
    /// It does not reach a majority of its group; why, in words. Writes on it wait.
    Minority(String),
    /// It serves no session; why, in words.
    Out(String),
    /// Nothing is known of it now.
    Away,
}

fn reported<'a>(member: &'a Member<'_>) -> Option<&'a GroupReplication> {
    member.facts.and_then(|facts| facts.details.group_replication.as_ref())
}

fn own_id<'a>(member: &'a Member<'_>) -> Option<&'a str> {
    member.facts.map(|facts| &*facts.details.server_uuid)
}

fn is_writable(member: &Member<'_>) -> bool {
    member.facts.is_some_and(|facts| !facts.read_only && !facts.super_read_only)
}

impl GroupReplication {
    /// How many times in a row, in one view, a member has reported empty queues: its report `before`, and so often.
    pub(crate) fn idle_for(&self, before: Option<&GroupReplication>, times: u32) -> u32 {
        match self.applied && self.certifying == 0 {
            true if before.is_some_and(|before| before.view == self.view) => times.saturating_add(1),
            true => 1,
            false => 0,
        }
    }

    /// How many members of the view this one reaches, and how many there are.
    fn reach(&self) -> (usize, usize) {
        let reached = self.members.iter().filter(|member| member.state != MemberState::Unreachable).count();
        (reached, self.members.len())
    }

    /// Of two views of one history the one with the greater number is the newer one: `history:number`.
    fn is_older_than(&self, other: &GroupReplication) -> bool {
        let parts = |view: &GroupReplication| {
            let (history, number) = view.view.rsplit_once(':')?;
            Some((history.to_owned(), number.parse::<u64>().ok()?))
        };
        match (parts(self), parts(other)) {
            (Some(own), Some(new)) => own.0 == new.0 && own.1 < new.1,
            _ => false,
        }
    }
}

fn condition(members: &[Member<'_>], index: usize, group: Option<&str>) -> MemberCondition {
    let member = &members[index];
    if member.health == Health::Down || member.facts.is_none() {
        return MemberCondition::Away;
    }
    let out = |why: &str| MemberCondition::Out(why.to_owned());
    let Some(own) = reported(member) else {
        return out("group replication is not active on it, or the monitor may not read its tables");
    };
    let row = own.members.iter().find(|row| Some(&*row.id) == own_id(member));
    match row.map_or(MemberState::Offline, |row| row.state) {
        MemberState::Online => {}
        MemberState::Recovering => return out("it joins the group and still catches up"),
        MemberState::Error => return out("it was thrown out of its group, or has met an error"),
        MemberState::Offline | MemberState::Unreachable => return out("it does not belong to the group"),
    }
    if group.is_some_and(|group| *own.group != *group) {
        return out("it belongs to another group than the others");
    }
    let (reached, all) = own.reach();
    if reached * 2 <= all {
        return MemberCondition::Minority(format!(
            "it reaches {reached} of the {all} members of its group, which is no majority"
        ));
    }
    // One that was frozen or cut off takes itself for a member until it hears of what has happened.
    let without_it = members.iter().enumerate().any(|(other, there)| {
        let newer = reported(there).filter(|_| other != index && there.health != Health::Down).filter(|new| {
            let (reached, all) = new.reach();
            let online =
                new.members.iter().any(|row| Some(&*row.id) == own_id(there) && row.state == MemberState::Online);
            online && reached * 2 > all && new.group == own.group && own.is_older_than(new)
        });
        newer.is_some_and(|new| new.members.iter().all(|row| Some(&*row.id) != own_id(member)))
    });
    if without_it {
        return out("the group has gone on without it");
    }
    MemberCondition::Online { primary: row.is_some_and(|row| row.primary) }
}

/// The group that is meant if servers belong to several: the one with most members, of two as large that of the last primary.
fn meant(members: &[Member<'_>], previous: Option<usize>, diagnoses: &mut Vec<Diagnosis>) -> Option<Arc<str>> {
    let living: Vec<&Member<'_>> =
        members.iter().filter(|member| member.health != Health::Down && reported(member).is_some()).collect();
    let groups: Vec<&Arc<str>> = living.iter().filter_map(|member| reported(member)).map(|own| &own.group).collect();
    let size = |group: &str| groups.iter().filter(|other| &****other == group).count();
    if size(groups.first()?) < groups.len() {
        diagnoses.push(Diagnosis::TwoGroups(living.iter().map(|member| member.name.clone()).collect()));
    }
    let before = previous.and_then(|index| reported(&members[index])).map(|own| &*own.group);
    groups.iter().rev().max_by_key(|group| (size(group), Some(&****group) == before)).map(|group| (*group).clone())
}

/// Decides. `previous` is the primary that was published last, be it lost since; `requested` is the one that an operator wants of several;
/// replicas further behind than `max_lag` take no reads.
pub(crate) fn analyse(
    members: &[Member<'_>],
    previous: Option<usize>,
    requested: Option<usize>,
    max_lag: Duration,
) -> Group {
    let mut diagnoses = Vec::new();
    let group = meant(members, previous, &mut diagnoses);
    let conditions: Vec<MemberCondition> =
        (0..members.len()).map(|index| condition(members, index, group.as_deref())).collect();
    let (primary, reason) = choose(members, &conditions, previous, requested);
    let lags: Vec<Option<Duration>> = members
        .iter()
        .map(|member| member.facts.and_then(|facts| facts.heartbeat_lag).or_else(|| reported(member)?.lag))
        .enumerate()
        .map(|(index, lag)| lag.filter(|_| primary != Some(index)))
        .collect();
    let is_online = |index: usize| matches!(conditions[index], MemberCondition::Online { .. });
    let serves =
        (0..members.len()).map(|index| is_online(index) && lags[index].is_none_or(|lag| lag <= max_lag)).collect();
    for (index, member) in members.iter().enumerate() {
        match &conditions[index] {
            MemberCondition::Out(why) | MemberCondition::Minority(why) => {
                diagnoses.push(Diagnosis::OutOfGroup(member.name.clone(), why.as_str().into()));
            }
            MemberCondition::Online { .. } | MemberCondition::Away => {}
        }
        if member.failure.is_some_and(|failure| failure.class.proves_life()) {
            diagnoses.push(Diagnosis::MonitorRefused(member.name.clone()));
        }
    }
    if primary.is_none() && members.iter().all(|member| member.seen) {
        diagnoses.push(why_none(members, &conditions, previous));
    }
    let any_online = (0..members.len()).any(is_online);
    let shut = |condition: &MemberCondition| match condition {
        // Somebody else has the majority, so what it says is out of date.
        MemberCondition::Out(_) | MemberCondition::Minority(_) => any_online,
        MemberCondition::Online { .. } | MemberCondition::Away => false,
    };
    let roles = (0..members.len())
        .map(|index| match &conditions[index] {
            _ if primary == Some(index) => (Role::Primary, reason.clone()),
            MemberCondition::Away if members[index].failure.is_some_and(|failure| failure.class.proves_life()) => {
                (Role::Unknown, members[index].failure.map_or_else(String::new, crate::analysis::refused_words))
            }
            MemberCondition::Away => (
                Role::Unknown,
                if members[index].seen { "was a member when last seen" } else { "not probed yet" }.into(),
            ),
            MemberCondition::Out(why) | MemberCondition::Minority(why) => (Role::Unknown, why.clone()),
            MemberCondition::Online { .. } => {
                (Role::Replica, words_of_online(&members[index], &conditions[index], &reason, max_lag))
            }
        })
        .collect();
    let settled = primary.is_some_and(|index| !members[index].failing);
    let asked = |index: &usize| !settled && members[*index].seen && members[*index].health != Health::Down;
    Group {
        shut: conditions.iter().map(shut).collect(),
        serves,
        heirs: (0..members.len()).filter(asked).filter(|index| primary != Some(*index)).collect(),
        lags,
        analysis: Analysis { primary, roles, sources: vec![Vec::new(); members.len()], diagnoses },
    }
}

fn words_of_online(member: &Member<'_>, condition: &MemberCondition, reason: &str, max_lag: Duration) -> String {
    let Some(own) = reported(member) else { return String::new() };
    let mut words = match condition {
        MemberCondition::Online { primary: true } if is_writable(member) && member.caught_up => {
            "online; takes writes, too, but Sqluice sends them to one member".to_owned()
        }
        MemberCondition::Online { primary: true } => reason.to_owned(),
        _ => "online".to_owned(),
    };
    if own.certifying + own.applying > 0 {
        words += &format!("; {} transactions wait to be certified and {} to be applied", own.certifying, own.applying);
    }
    if own.lag.is_some_and(|lag| lag > max_lag) {
        words += &format!("; it is behind by more than max_lag_ms ({} ms)", max_lag.as_millis());
    }
    words
}

/// The primary and the reason for it, or why there is none yet.
fn choose(
    members: &[Member<'_>],
    conditions: &[MemberCondition],
    previous: Option<usize>,
    requested: Option<usize>,
) -> (Option<usize>, String) {
    let takes_writes = |index: usize| {
        conditions[index] == MemberCondition::Online { primary: true }
            && is_writable(&members[index])
            && members[index].barred.is_none()
    };
    let has_all = |index: usize| members[index].caught_up;
    let can_begin = |index: &usize| {
        let member = &members[*index];
        takes_writes(*index) && has_all(*index) && member.health == Health::Up && !member.failing
    };
    // Of several the one that is preferred, and then the first by name, which is the same for every Sqluice.
    let order = |index: &usize| members[*index].promotion.rank();
    let mut able: Vec<usize> = (0..members.len()).filter(can_begin).collect();
    able.sort_by_key(|index| (Some(*index) != requested, order(index)));
    let chosen = able.first().copied().filter(|index| Some(*index) == requested);
    if let Some(before) =
        previous.filter(|before| takes_writes(*before) && chosen.is_none_or(|chosen| chosen == *before))
    {
        return (Some(before), "the group's primary".to_owned());
    }
    if let Some(chosen) = able.first().copied() {
        let several =
            reported(&members[chosen]).is_some_and(|own| own.members.iter().filter(|row| row.primary).count() > 1);
        if previous.is_none()
            && several
            && let Some(unseen) = members.iter().find(|member| !member.seen)
        {
            return (None, format!("waiting for the first probe of {}", unseen.name));
        }
        let words = match several {
            true => "one of the group's primaries: it takes all writes",
            false => "the group's primary",
        };
        return (Some(chosen), words.to_owned());
    }
    let named = (0..members.len()).find(|index| conditions[*index] == MemberCondition::Online { primary: true });
    let reason = named.map(|index| {
        let name = members[index].name;
        match (is_writable(&members[index]), has_all(index)) {
            (false, _) => format!("{name} is the group's primary, and does not take writes yet"),
            (_, false) => format!("{name} is the group's primary, and still applies what it has received"),
            _ => format!("{name} is the group's primary, and is not used or does not answer"),
        }
    });
    (None, reason.unwrap_or_else(|| "the group has no primary that answers".to_owned()))
}

fn why_none(members: &[Member<'_>], conditions: &[MemberCondition], previous: Option<usize>) -> Diagnosis {
    if members.iter().all(|member| member.health == Health::Down) {
        return Diagnosis::AllDown;
    }
    if !conditions.iter().any(|condition| matches!(condition, MemberCondition::Online { .. })) {
        return Diagnosis::NoPrimaryComponent;
    }
    match previous.map(|index| &members[index]) {
        Some(old) if old.health == Health::Down => Diagnosis::PrimaryDown(old.name.clone()),
        _ => Diagnosis::NoPrimary(unserved(members.iter().map(|member| (member.name, member.failure)))),
    }
}

#[cfg(test)]
mod tests;

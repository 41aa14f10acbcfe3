//! Galera groups: who belongs to the group and serves, and which server takes writes.
//!
//! The group itself decides its members; Sqluice promotes none. This module chooses the member that Sqluice sends
//! writes to. A member that takes over has shown before that it has all that was written elsewhere.

use std::sync::Arc;
use std::time::Duration;

use facts::view::{Health, Role, Writers};

use crate::analysis::{Analysis, unserved};
use crate::diagnosis::Diagnosis;
use crate::observation::{Facts, Failure, Galera, LocalState};
use crate::settings::PromotionRule;

/// Whether a member that hands its state to another one, or is desynced, serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Donors {
    /// Only while no synced member of its segment does.
    #[default]
    Avoid,
    /// Like any other.
    Use,
}

/// The operator's rules for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaleraRules {
    /// The servers that take writes.
    pub writers: Writers,
    /// The use of donors.
    pub donors: Donors,
}

/// The state of one server, as far as it is known.
pub(crate) struct Member<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) facts: Option<&'a Facts>,
    pub(crate) health: Health,
    /// A probe has ended, well or badly.
    pub(crate) seen: bool,
    /// The last probe's failure.
    pub(crate) failure: Option<&'a Failure>,
    /// It does not answer; the last probe failed.
    pub(crate) failing: bool,
    /// Why it cannot be the writer, whatever it says of itself.
    pub(crate) barred: Option<&'static str>,
    pub(crate) promotion: PromotionRule,
    /// It has shown that it has all that was written before the last writer was lost.
    pub(crate) caught_up: bool,
}

/// How a member stands in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeCondition {
    /// It has what the others have.
    Synced,
    /// It hands its state over, or is desynced: it may fall behind.
    Donor,
    /// It serves no session; why, in words.
    Out(String),
    /// Nothing is known of it now.
    Away,
}

/// The decisions for a group of any kind.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) analysis: Analysis,
    /// Sessions lose their connections to these: they would be refused there.
    pub(crate) shut: Vec<bool>,
    /// Reads may go here.
    pub(crate) serves: Vec<bool>,
    /// The last writer is lost or about to be replaced, and these may take its place once they have shown what they have.
    pub(crate) heirs: Vec<usize>,
    /// How far each is behind, where that is known.
    pub(crate) lags: Vec<Option<Duration>>,
}

impl Member<'_> {
    fn galera(&self) -> Option<&Galera> {
        self.facts.and_then(|facts| facts.details.galera.as_ref())
    }

    fn is_read_only(&self) -> bool {
        self.facts.is_some_and(|facts| facts.read_only || facts.super_read_only)
    }

    /// It takes writes, or would.
    pub(crate) fn may_write(&self) -> bool {
        !self.is_read_only() && self.barred.is_none() && self.promotion != PromotionRule::MustNot
    }

    fn condition(&self, group: Option<&str>) -> NodeCondition {
        if self.health == Health::Down || self.facts.is_none() {
            return NodeCondition::Away;
        }
        let out = |why: &str| NodeCondition::Out(why.to_owned());
        let Some(galera) = self.galera() else { return out("Galera is not active on it") };
        if !galera.primary_component {
            return out("it does not belong to the primary component");
        }
        if group.is_some_and(|group| *galera.cluster != *group) {
            return out("it belongs to another group than the others");
        }
        if galera.rejects {
            return out("it refuses statements (wsrep_reject_queries)");
        }
        if !galera.ready || !galera.connected {
            return out("it is not ready (wsrep_ready)");
        }
        match galera.state {
            LocalState::Synced => NodeCondition::Synced,
            LocalState::Donor if galera.donor_rejects && !galera.desync => {
                out("it is a donor and refuses statements (wsrep_sst_donor_rejects_queries)")
            }
            LocalState::Donor => NodeCondition::Donor,
            LocalState::Joining | LocalState::Joined => out("it joins the group and still catches up"),
            LocalState::Other => out("it is in no state that serves (wsrep_local_state)"),
        }
    }
}

/// The group that is meant if servers belong to several: that of the last writer, else the one with most members, else
/// that of the first.
fn meant(members: &[Member<'_>], previous: Option<usize>, diagnoses: &mut Vec<Diagnosis>) -> Option<Arc<str>> {
    let living = |member: &&Member<'_>| member.health != Health::Down;
    let groups: Vec<&Arc<str>> = members
        .iter()
        .filter(living)
        .filter_map(Member::galera)
        .filter(|galera| galera.primary_component)
        .map(|galera| &galera.cluster)
        .collect();
    let size = |group: &str| groups.iter().filter(|other| &****other == group).count();
    let first = groups.first()?;
    if size(first) < groups.len() {
        let names = members.iter().filter(living).filter(|member| member.galera().is_some());
        diagnoses.push(Diagnosis::TwoGroups(names.map(|member| member.name.clone()).collect()));
    }
    let before = previous.and_then(|index| members[index].galera()).map(|galera| &galera.cluster);
    if let Some(before) = before.filter(|before| size(before) > 0) {
        return Some(before.clone());
    }
    // Of several that are as large, the first.
    groups.iter().rev().max_by_key(|group| size(group)).map(|group| (*group).clone())
}

/// Decides. `previous` is the writer that was published last, be it lost since; `requested` is the one that an operator wants.
pub(crate) fn analyse(
    members: &[Member<'_>],
    previous: Option<usize>,
    requested: Option<usize>,
    rules: GaleraRules,
) -> Group {
    let mut diagnoses = Vec::new();
    let group = meant(members, previous, &mut diagnoses);
    let conditions: Vec<NodeCondition> = members.iter().map(|member| member.condition(group.as_deref())).collect();
    let segment = |index: usize| members[index].galera().map(|galera| galera.segment);
    let serves: Vec<bool> = (0..members.len())
        .map(|index| match conditions[index] {
            NodeCondition::Synced => true,
            NodeCondition::Donor => {
                let synced =
                    |other: usize| conditions[other] == NodeCondition::Synced && segment(other) == segment(index);
                rules.donors == Donors::Use || !(0..members.len()).any(synced)
            }
            NodeCondition::Out(_) | NodeCondition::Away => false,
        })
        .collect();
    let choice = choose(members, &conditions, &serves, (previous, requested), rules);
    for (index, member) in members.iter().enumerate() {
        let rejects = member.galera().is_some_and(|galera| galera.rejects && galera.primary_component);
        match &conditions[index] {
            NodeCondition::Out(_) if rejects => {
                diagnoses.push(Diagnosis::RejectsQueries(member.name.clone()));
            }
            NodeCondition::Out(why) => diagnoses.push(Diagnosis::OutOfGroup(member.name.clone(), why.as_str().into())),
            NodeCondition::Donor => diagnoses.push(Diagnosis::Donor(member.name.clone())),
            NodeCondition::Synced | NodeCondition::Away => {}
        }
        let lacks =
            member.galera().filter(|_| conditions[index] != NodeCondition::Away).map(|galera| &galera.log.lacks);
        if let Some(lacks) = lacks.filter(|lacks| !lacks.is_empty()) {
            diagnoses.push(Diagnosis::OutcomesUnproven(member.name.clone(), lacks.join(", ").into()));
        }
        if member.failure.is_some_and(|failure| failure.class.proves_life()) {
            diagnoses.push(Diagnosis::MonitorRefused(member.name.clone()));
        }
    }
    if choice.writer.is_none() && members.iter().all(|member| member.seen) {
        diagnoses.push(why_none(members, &conditions, previous));
    }
    let roles = (0..members.len()).map(|index| role(members, &conditions, &serves, &choice, rules, index)).collect();
    Group {
        shut: conditions.iter().map(|condition| matches!(condition, NodeCondition::Out(_))).collect(),
        serves,
        heirs: choice.heirs,
        lags: vec![None; members.len()],
        analysis: Analysis { primary: choice.writer, roles, sources: vec![Vec::new(); members.len()], diagnoses },
    }
}

struct Choice {
    writer: Option<usize>,
    /// The reason for this choice, or why there is no writer yet.
    reason: String,
    heirs: Vec<usize>,
}

fn choose(
    members: &[Member<'_>],
    conditions: &[NodeCondition],
    serves: &[bool],
    (previous, requested): (Option<usize>, Option<usize>),
    rules: GaleraRules,
) -> Choice {
    let fit = |index: usize| serves[index] && members[index].may_write();
    // Preferred ones first, then in the order of their names, which is the same for every Sqluice.
    let all: Vec<usize> = (0..members.len()).filter(|index| fit(*index)).collect();
    let is_synced = |index: &usize| conditions[*index] == NodeCondition::Synced;
    // A donor is a last resort unless donors are like any other.
    let any_synced = all.iter().any(is_synced) && rules.donors == Donors::Avoid;
    let mut ranked: Vec<usize> = all.into_iter().filter(|index| !any_synced || is_synced(index)).collect();
    ranked.sort_by_key(|index| (Some(*index) != requested, members[*index].promotion.rank()));
    let heirs = |except: usize| -> Vec<usize> {
        let up = |index: &usize| *index != except && members[*index].health == Health::Up && !members[*index].failing;
        ranked.iter().copied().filter(up).collect()
    };
    let nobody = |reason: String, heirs: Vec<usize>| Choice { writer: None, reason, heirs };
    let Some(before) = previous else {
        if let Some(unseen) = members.iter().find(|member| !member.seen) {
            return nobody(format!("waiting for the first probe of {}", unseen.name), Vec::new());
        }
        let first = ranked.iter().copied().find(|index| members[*index].health == Health::Up);
        let reason = "the first that may take writes, by promotion rule and name".to_owned();
        return Choice { writer: first, reason, heirs: Vec::new() };
    };
    let member = &members[before];
    let another_is_requested = requested.is_some_and(|requested| requested != before && ranked.contains(&requested));
    if ranked.contains(&before) && !member.failing && !another_is_requested {
        return Choice {
            writer: Some(before),
            reason: "takes writes, and has done so before".to_owned(),
            heirs: Vec::new(),
        };
    }
    let heirs = heirs(before);
    let ready = heirs.iter().copied().find(|index| {
        let left = match (member.galera(), members[*index].galera()) {
            // The group has gone on without it.
            (Some(old), Some(new)) => new.conf_id != old.conf_id,
            _ => true,
        };
        // A writer that merely does not answer here keeps its office until it is given up.
        let over = member.health == Health::Down || !member.failing || left;
        over && members[*index].caught_up
    });
    match ready {
        Some(heir) => Choice {
            writer: Some(heir),
            reason: format!("took over from {}, and has all that was written before", member.name),
            heirs: Vec::new(),
        },
        // Until another one is ready it goes on as long as it can.
        None if fit_to_go_on(member, &conditions[before]) => {
            let reason = "takes writes until another one has all that was written".to_owned();
            Choice { writer: Some(before), reason, heirs }
        }
        None if heirs.is_empty() => nobody(String::new(), heirs),
        None => nobody(format!("waiting until {} has all that was written", members[heirs[0]].name), heirs),
    }
}

/// The last writer can still take writes, although another one should.
fn fit_to_go_on(member: &Member<'_>, condition: &NodeCondition) -> bool {
    matches!(condition, NodeCondition::Synced | NodeCondition::Donor) && !member.is_read_only()
}

fn why_none(members: &[Member<'_>], conditions: &[NodeCondition], previous: Option<usize>) -> Diagnosis {
    if members.iter().all(|member| member.health == Health::Down) {
        return Diagnosis::AllDown;
    }
    let serving = |condition: &NodeCondition| matches!(condition, NodeCondition::Synced | NodeCondition::Donor);
    if !conditions.iter().any(serving) {
        return Diagnosis::NoPrimaryComponent;
    }
    match previous.map(|index| &members[index]) {
        Some(old) if old.health == Health::Down => Diagnosis::PrimaryDown(old.name.clone()),
        Some(old) if old.is_read_only() => Diagnosis::PrimaryReadOnly(old.name.clone()),
        _ => Diagnosis::NoPrimary(unserved(members.iter().map(|member| (member.name, member.failure)))),
    }
}

fn role(
    members: &[Member<'_>],
    conditions: &[NodeCondition],
    serves: &[bool],
    choice: &Choice,
    rules: GaleraRules,
    index: usize,
) -> (Role, String) {
    let member = &members[index];
    if choice.writer == Some(index) {
        return (Role::Primary, choice.reason.clone());
    }
    match &conditions[index] {
        NodeCondition::Away if member.failure.is_some_and(|failure| failure.class.proves_life()) => {
            (Role::Unknown, member.failure.map_or_else(String::new, crate::analysis::refused_words))
        }
        NodeCondition::Away => {
            (Role::Unknown, if member.seen { "was a member when last seen" } else { "not probed yet" }.into())
        }
        NodeCondition::Out(why) => (Role::Unknown, why.clone()),
        NodeCondition::Donor if !serves[index] => (Role::Replica, "a donor, or desynced: others serve".into()),
        NodeCondition::Donor => (Role::Replica, "a donor, or desynced; serves for want of another one".into()),
        NodeCondition::Synced if rules.writers == Writers::All && choice.writer.is_some() && member.may_write() => {
            (Role::Primary, "synced; all members take writes".into())
        }
        NodeCondition::Synced if choice.writer.is_none() && !choice.reason.is_empty() => {
            (Role::Replica, format!("synced; {}", choice.reason))
        }
        NodeCondition::Synced => (Role::Replica, "synced".into()),
    }
}

#[cfg(test)]
mod tests;

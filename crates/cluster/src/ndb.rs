//! NDB Cluster: which SQL nodes serve.
//!
//! The data are on data nodes, which all SQL nodes work on: what one has acknowledged, every other one finds at once. So each SQL node
//! takes reads and writes as long as it is connected to data nodes that have all the data; no server is promoted, and nothing is waited for.

use std::collections::BTreeMap;

use facts::view::{Health, Role};

use crate::analysis::{Analysis, unserved};
use crate::diagnosis::Diagnosis;
use crate::galera::{Group, Member};
use crate::observation::{DataNodeStatus, Ndb};

/// Data nodes with such a number of a node group belong to none yet: they were added while the cluster runs.
const NO_GROUP: u32 = 65_535;

/// How an SQL node stands to the data nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SqlNodeCondition {
    /// It is connected to data nodes that have all data.
    Connected,
    /// Node groups have no started data node, by their numbers in words: data are missing.
    Incomplete(String),
    /// It serves no session; why, in words.
    Out(String),
    /// Nothing is known of it now.
    Away,
}

impl Ndb {
    /// The node groups none of whose data nodes has started, in words. A group without a report does not count: an SQL node reports
    /// a group's data nodes only while these run, and a cluster that loses a whole group ends itself.
    fn groups_down(&self) -> Option<String> {
        let mut groups: BTreeMap<u32, bool> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.group < NO_GROUP) {
            *groups.entry(node.group).or_default() |= node.status != DataNodeStatus::Other;
        }
        let down: Vec<String> =
            groups.iter().filter(|(_, lives)| !**lives).map(|(group, _)| group.to_string()).collect();
        (!down.is_empty()).then(|| down.join(", "))
    }

    fn is_for_one_user(&self) -> bool {
        self.nodes.iter().any(|node| node.status == DataNodeStatus::SingleUser)
    }
}

fn reported<'a>(member: &'a Member<'_>) -> Option<&'a Ndb> {
    member.facts.and_then(|facts| facts.details.ndb.as_ref())
}

fn condition(member: &Member<'_>, system: Option<&str>) -> SqlNodeCondition {
    if member.health == Health::Down || member.facts.is_none() {
        return SqlNodeCondition::Away;
    }
    let out = |why: &str| SqlNodeCondition::Out(why.to_owned());
    let Some(ndb) = reported(member).filter(|ndb| ndb.node_id > 0) else {
        return out("it belongs to no NDB cluster (Ndb_cluster_node_id)");
    };
    if ndb.ready == 0 {
        return SqlNodeCondition::Out(format!("it is connected to none of the {} data nodes", ndb.data_nodes));
    }
    if system.is_some_and(|system| !ndb.system.is_empty() && *ndb.system != *system) {
        return out("it belongs to another NDB cluster than the others (Ndb_system_name)");
    }
    if let Some(groups) = ndb.groups_down() {
        return SqlNodeCondition::Incomplete(groups);
    }
    if ndb.is_for_one_user() {
        return out("the NDB cluster is in single user mode");
    }
    SqlNodeCondition::Connected
}

/// The cluster that is meant if servers belong to several: the one with most SQL nodes, of two as large that of the last primary.
fn meant<'a>(members: &'a [Member<'_>], previous: Option<usize>, diagnoses: &mut Vec<Diagnosis>) -> Option<&'a str> {
    let system = |member: &'a Member<'_>| reported(member).map(|ndb| &*ndb.system).filter(|name| !name.is_empty());
    let living = || members.iter().filter(|member| member.health != Health::Down);
    let named: Vec<(&Member<'_>, &str)> = living().filter_map(|member| Some((member, system(member)?))).collect();
    let size = |name: &str| named.iter().filter(|(_, other)| *other == name).count();
    let (_, first) = named.first()?;
    if size(first) < named.len() {
        diagnoses.push(Diagnosis::TwoGroups(named.iter().map(|(member, _)| member.name.clone()).collect()));
    }
    let before = previous.and_then(|index| system(&members[index]));
    named.iter().rev().map(|(_, name)| *name).max_by_key(|name| (size(name), Some(*name) == before))
}

/// Decides. `previous` is the primary that was published last; all that serve take writes like it.
pub(crate) fn analyse(members: &[Member<'_>], previous: Option<usize>) -> Group {
    let mut diagnoses = Vec::new();
    let system = meant(members, previous, &mut diagnoses);
    let conditions: Vec<SqlNodeCondition> = members.iter().map(|member| condition(member, system)).collect();
    let connected = |index: usize| conditions[index] == SqlNodeCondition::Connected;
    let writes = |index: usize| connected(index) && members[index].may_write();
    let primary = choose(members, previous, writes);
    for (member, condition) in members.iter().zip(&conditions) {
        match condition {
            SqlNodeCondition::Out(why) => {
                diagnoses.push(Diagnosis::OutOfGroup(member.name.clone(), why.as_str().into()))
            }
            SqlNodeCondition::Incomplete(groups) => {
                let known = |known: &Diagnosis| matches!(known, Diagnosis::NodeGroupDown(of) if **of == **groups);
                if !diagnoses.iter().any(known) {
                    diagnoses.push(Diagnosis::NodeGroupDown(groups.as_str().into()));
                }
            }
            SqlNodeCondition::Connected | SqlNodeCondition::Away => {}
        }
        if member.failure.is_some_and(|failure| failure.class.proves_life()) {
            diagnoses.push(Diagnosis::MonitorRefused(member.name.clone()));
        }
    }
    if primary.is_none() && members.iter().all(|member| member.seen) {
        diagnoses.extend(why_none(members, &conditions));
    }
    let role = |index: usize| match &conditions[index] {
        SqlNodeCondition::Connected if writes(index) => (Role::Primary, words_of(&members[index])),
        SqlNodeCondition::Connected => (Role::Replica, format!("{}; it takes no writes", words_of(&members[index]))),
        SqlNodeCondition::Incomplete(groups) => {
            (Role::Unknown, format!("the NDB cluster lacks data: no data node of node group {groups} has started"))
        }
        SqlNodeCondition::Out(why) => (Role::Unknown, why.clone()),
        SqlNodeCondition::Away if members[index].failure.is_some_and(|failure| failure.class.proves_life()) => {
            (Role::Unknown, members[index].failure.map_or_else(String::new, crate::analysis::refused_words))
        }
        SqlNodeCondition::Away if members[index].seen => (Role::Unknown, "was an SQL node when last seen".into()),
        SqlNodeCondition::Away => (Role::Unknown, "not probed yet".into()),
    };
    Group {
        shut: conditions
            .iter()
            .map(|condition| matches!(condition, SqlNodeCondition::Out(_) | SqlNodeCondition::Incomplete(_)))
            .collect(),
        serves: (0..members.len()).map(connected).collect(),
        heirs: Vec::new(),
        lags: vec![None; members.len()],
        analysis: Analysis {
            primary,
            roles: (0..members.len()).map(role).collect(),
            sources: vec![Vec::new(); members.len()],
            diagnoses,
        },
    }
}

/// One of those that take writes: the one before stays, so that what is known of its tables and accounts does.
fn choose(members: &[Member<'_>], previous: Option<usize>, writes: impl Fn(usize) -> bool) -> Option<usize> {
    if let Some(before) = previous.filter(|before| writes(*before)) {
        return Some(before);
    }
    let order = |index: &usize| members[*index].promotion.rank();
    // A node that answers comes before one that has just failed a probe.
    let failing = |index: &usize| members[*index].failing || members[*index].health != Health::Up;
    (0..members.len()).filter(|index| writes(*index)).min_by_key(|index| (failing(index), order(index)))
}

fn words_of(member: &Member<'_>) -> String {
    let Some(ndb) = reported(member) else { return String::new() };
    format!("SQL node {}, connected to {} of {} data nodes", ndb.node_id, ndb.ready, ndb.data_nodes)
}

/// Why no server takes writes, where no diagnosis says so yet.
fn why_none(members: &[Member<'_>], conditions: &[SqlNodeCondition]) -> Option<Diagnosis> {
    if members.iter().all(|member| member.health == Health::Down) {
        return Some(Diagnosis::AllDown);
    }
    if conditions.iter().any(|condition| matches!(condition, SqlNodeCondition::Incomplete(_))) {
        return None;
    }
    match conditions.contains(&SqlNodeCondition::Connected) {
        true => Some(Diagnosis::NoPrimary(unserved(members.iter().map(|member| (member.name, member.failure))))),
        false => Some(Diagnosis::NoDataNodes),
    }
}

#[cfg(test)]
mod tests;

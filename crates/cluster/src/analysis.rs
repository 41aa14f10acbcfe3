//! Finds the primary and the diagnoses of a cluster: one pure function of the state of all servers.

use std::sync::Arc;

use facts::view::{Health, Role};

use crate::diagnosis::Diagnosis;
use crate::observation::{Facts, Failure, FailureClass, Replication};
use crate::topology;

/// The state of one server, as far as it is known.
pub(crate) struct ServerState<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) node: topology::Node<'a>,
    pub(crate) health: Health,
    /// A probe has ended, well or badly.
    pub(crate) seen: bool,
    /// The last probe's failure.
    pub(crate) failure: Option<&'a Failure>,
    /// Why it cannot be the primary, whatever it says of itself.
    pub(crate) barred: Option<&'static str>,
}

impl ServerState<'_> {
    fn facts(&self) -> Option<&Facts> {
        self.node.facts
    }

    /// It answers and has reported its identity.
    fn lives(&self) -> bool {
        self.health != Health::Down && self.facts().is_some()
    }

    fn takes_writes(&self) -> bool {
        self.facts().is_some_and(|facts| !facts.read_only && !facts.super_read_only)
    }
}

/// The outcome.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Index of the primary.
    pub(crate) primary: Option<usize>,
    /// Role and its reason, for each server.
    pub(crate) roles: Vec<(Role, String)>,
    /// For each server, the servers it follows.
    pub(crate) sources: Vec<Vec<usize>>,
    /// Diagnoses of the cluster as a whole or of roles.
    pub(crate) diagnoses: Vec<Diagnosis>,
}

/// Decides. `previous` is the primary that was published last, be it down since; `standalone` says that the cluster's
/// single server takes all traffic whatever it says of itself.
pub(crate) fn analyse(servers: &[ServerState<'_>], previous: Option<usize>, standalone: bool) -> Analysis {
    let nodes: Vec<topology::Node<'_>> = servers.iter().map(|server| topology::Node { ..server.node }).collect();
    let sources = topology::sources(&nodes);
    let mut diagnoses = Vec::new();
    let decision = if standalone && servers.len() == 1 {
        single(&servers[0], &mut diagnoses)
    } else {
        elect(servers, &sources, previous, &mut diagnoses)
    };
    let primary = decision.primary;
    let roles = (0..servers.len())
        .map(|index| match primary {
            Some(chosen) if chosen == index => (Role::Primary, decision.reason.clone()),
            _ => other_role(servers, &sources, index, &decision, &mut diagnoses),
        })
        .collect();
    duplicates(servers, &mut diagnoses);
    let offline =
        |server: &&ServerState<'_>| server.health != Health::Down && is_offline(server.facts(), server.failure);
    diagnoses.extend(servers.iter().filter(offline).map(|server| Diagnosis::Offline(server.name.clone())));
    Analysis { primary, roles, sources, diagnoses }
}

/// Whether a server says that it is in offline mode, be it to the monitor itself.
pub(crate) fn is_offline(facts: Option<&Facts>, failure: Option<&Failure>) -> bool {
    failure.is_some_and(|failure| failure.class == FailureClass::Offline)
        || facts.is_some_and(|facts| facts.details.offline)
}

struct Decision {
    primary: Option<usize>,
    /// The reason for this choice, or why there is no primary yet.
    reason: String,
}

fn nobody(reason: impl Into<String>) -> Decision {
    Decision { primary: None, reason: reason.into() }
}

fn single(server: &ServerState<'_>, diagnoses: &mut Vec<Diagnosis>) -> Decision {
    if !server.lives() {
        if server.seen && server.health == Health::Down {
            diagnoses.push(Diagnosis::AllDown);
        }
        return nobody("");
    }
    let reason = if server.takes_writes() {
        "the cluster's only server".to_owned()
    } else {
        diagnoses.push(Diagnosis::StandaloneReadOnly(server.name.clone()));
        "the cluster's only server; it is read-only, so writes get its own error".to_owned()
    };
    Decision { primary: Some(0), reason }
}

/// A primary lives, takes writes and follows no server of the cluster, unless the two follow each other in a ring.
fn elect(
    servers: &[ServerState<'_>],
    sources: &[Vec<usize>],
    previous: Option<usize>,
    diagnoses: &mut Vec<Diagnosis>,
) -> Decision {
    let is_candidate = |index: usize| {
        let server = &servers[index];
        // A suspect server keeps the office; it does not get it.
        let fit = server.health == Health::Up || previous == Some(index);
        let independent = sources[index].is_empty() || topology::in_ring(sources, index);
        server.lives() && fit && server.takes_writes() && independent && server.barred.is_none()
    };
    let candidates: Vec<usize> = (0..servers.len()).filter(|index| is_candidate(*index)).collect();
    let name = |index: usize| servers[index].name.clone();
    match candidates[..] {
        [] => {
            diagnoses.extend(why_none(servers, previous));
            nobody("")
        }
        [only] => match servers.iter().find(|server| !server.seen) {
            // At the start another server may turn out to be writable too; afterwards new servers change nothing.
            Some(unseen) if previous.is_none() => nobody(format!("waiting for the first probe of {}", unseen.name)),
            _ => Decision { primary: Some(only), reason: "takes writes and follows no other server".into() },
        },
        _ => {
            if previous.is_none()
                && let Some(unseen) = servers.iter().find(|server| !server.seen)
            {
                return nobody(format!("waiting for the first probe of {}", unseen.name));
            }
            let followers = |candidate: &usize| {
                (0..servers.len()).filter(|i| servers[*i].lives() && sources[*i].contains(candidate)).count()
            };
            // At the start a server that most do not follow may be one that was replaced.
            let least = if previous.is_some() { 1 } else { servers.len() / 2 };
            let followed: Vec<usize> =
                candidates.iter().copied().filter(|candidate| followers(candidate) >= least.max(1)).collect();
            match (&followed[..], previous) {
                ([chosen], _) => {
                    Decision { primary: Some(*chosen), reason: "takes writes, and the replicas follow it".into() }
                }
                (_, Some(current)) if candidates.contains(&current) => Decision {
                    primary: Some(current),
                    reason: "takes writes and stays the primary, although another server takes writes too".into(),
                },
                _ => {
                    diagnoses.push(Diagnosis::TwoPrimaries(candidates.iter().map(|index| name(*index)).collect()));
                    nobody("")
                }
            }
        }
    }
}

fn why_none(servers: &[ServerState<'_>], previous: Option<usize>) -> Option<Diagnosis> {
    if servers.iter().any(|server| !server.seen) {
        return None;
    }
    if servers.iter().all(|server| server.health == Health::Down) {
        return Some(Diagnosis::AllDown);
    }
    Some(match previous.map(|index| &servers[index]) {
        Some(old) if !old.lives() => Diagnosis::PrimaryDown(old.name.clone()),
        Some(old) if !old.takes_writes() => Diagnosis::PrimaryReadOnly(old.name.clone()),
        _ => {
            let unknown = servers.iter().filter(|server| server.facts().is_none());
            Diagnosis::NoPrimary(unserved(unknown.map(|server| (server.name, server.failure))))
        }
    })
}

/// The names of those that answer, and do not serve the monitor.
pub(crate) fn unserved<'a>(servers: impl Iterator<Item = (&'a Arc<str>, Option<&'a Failure>)>) -> Vec<Arc<str>> {
    let lives = |failure: &Failure| failure.class.proves_life();
    servers.filter(|(_, failure)| failure.is_some_and(lives)).map(|(name, _)| name.clone()).collect()
}

fn other_role(
    servers: &[ServerState<'_>],
    sources: &[Vec<usize>],
    index: usize,
    decision: &Decision,
    diagnoses: &mut Vec<Diagnosis>,
) -> (Role, String) {
    let server = &servers[index];
    let Some(facts) = server.facts() else {
        if let Some(failure) = server.failure.filter(|failure| failure.class.proves_life()) {
            if failure.class != FailureClass::Offline {
                diagnoses.push(Diagnosis::MonitorRefused(server.name.clone()));
            }
            return (Role::Unknown, refused_words(failure));
        }
        return (Role::Unknown, if server.seen { "never answered" } else { "not probed yet" }.into());
    };
    let refuses = |failure: &Failure| failure.class.proves_life() && failure.class != FailureClass::Offline;
    if server.lives() && server.failure.is_some_and(refuses) {
        diagnoses.push(Diagnosis::MonitorRefused(server.name.clone()));
    }
    let foreign = match &facts.replication {
        Replication::Channels(channels) => !channels.is_empty() && sources[index].is_empty(),
        Replication::Unreadable(_) => false,
    };
    if let Some(source) = sources[index].first() {
        if server.lives() && server.takes_writes() && !topology::in_ring(sources, index) {
            diagnoses.push(Diagnosis::WritableReplica(server.name.clone()));
        }
        return (Role::Replica, format!("follows {}", servers[*source].name));
    }
    if server.takes_writes() {
        if !server.lives() {
            return (Role::Unknown, "took writes when it was last seen".into());
        }
        return match decision.primary {
            Some(primary) => {
                diagnoses.push(Diagnosis::StrayWritable(server.name.clone()));
                (Role::Unknown, format!("takes writes beside the primary {}", servers[primary].name))
            }
            None if decision.reason.is_empty() => {
                let why = server.barred.map_or_else(
                    || "is not chosen as the primary".to_owned(),
                    |why| format!("is not the primary: {why}"),
                );
                (Role::Unknown, format!("takes writes, but {why}"))
            }
            None => (Role::Unknown, format!("takes writes; {}", decision.reason)),
        };
    }
    if foreign {
        if server.lives() {
            diagnoses.push(Diagnosis::ForeignSource(server.name.clone()));
        }
        return (Role::Replica, "follows a server that is not of this cluster".into());
    }
    match (&facts.replication, facts.heartbeat_lag) {
        (Replication::Unreadable(_), Some(_)) => (Role::Replica, "read-only, and the heartbeat reaches it".into()),
        (Replication::Unreadable(why), None) => {
            if server.lives() {
                diagnoses.push(Diagnosis::MonitorRefused(server.name.clone()));
            }
            (Role::Unknown, format!("read-only; what it follows cannot be read: {why}"))
        }
        (Replication::Channels(_), _) => (Role::Unknown, "read-only and follows no server".into()),
    }
}

/// A server that answers, and not to what the monitor wants.
pub(crate) fn refused_words(failure: &Failure) -> String {
    match failure.class {
        FailureClass::Login => format!("it answers, access denied for the monitor: {}", failure.text),
        _ => format!("it answers, and does not serve the monitor: {}", failure.text),
    }
}

fn duplicates(servers: &[ServerState<'_>], diagnoses: &mut Vec<Diagnosis>) {
    let id = |server: &ServerState<'_>| server.facts().map(|facts| facts.server_id);
    let mut reported = Vec::new();
    for server in servers {
        let Some(own) = id(server) else { continue };
        let same: Vec<Arc<str>> =
            servers.iter().filter(|other| id(other) == Some(own)).map(|other| other.name.clone()).collect();
        if same.len() > 1 && !reported.contains(&own) {
            reported.push(own);
            diagnoses.push(Diagnosis::DuplicateServerId(same));
        }
    }
    let family = |server: &ServerState<'_>| server.facts().map(|facts| facts.greeting.mariadb);
    let mut families = servers.iter().filter_map(family);
    if let Some(first) = families.next()
        && families.any(|other| other != first)
    {
        diagnoses.push(Diagnosis::MixedFamilies);
    }
}

//! The view: computed anew after everything that happens, published when it differs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::{Flavour, Health, Role, ServerId, ServerView, View, Writers};

use super::repair::leads_to;
use super::run::RunKind;
use super::server::{Server, Use};
use super::{Driver, Output};
use crate::analysis::{self, Analysis, ServerState, is_offline};
use crate::diagnosis::Diagnosis;
use crate::galera::Group;
use crate::lag::{Bounds, Verdict};
use crate::observation::{Channel, FailureClass, Receiver, Replication};
use crate::settings::{GroupKind, Settings};
use crate::topology;

impl Driver {
    /// Computes the view anew and publishes it if it differs.
    pub(super) fn decide(&mut self, now: Instant) {
        let appointed =
            self.reign.appointed().and_then(|id| self.index(id)).filter(|index| self.servers[*index].takes_writes());
        let previous = appointed.or_else(|| self.reign.last_primary().and_then(|id| self.index(id)));
        self.reinstate(now);
        let group = match self.settings.group {
            Some(GroupKind::Galera(rules)) => Some(self.look_at_group(now, previous, rules)),
            Some(GroupKind::GroupReplication) => Some(self.look_at_replication_group(now, previous)),
            Some(GroupKind::Ndb) => Some(self.look_at_sql_nodes(previous)),
            None => None,
        };
        let (mut analysis, group) = match group {
            Some(Group { analysis, shut, serves, lags, .. }) => (analysis, Some(Members { shut, serves, lags })),
            None => (self.look_at_replication(now, previous), None),
        };
        let primary = analysis.primary.map(|index| self.servers[index].id);
        let views = self.server_views(now, &mut analysis, primary, group.as_ref());
        if self.compares_servers() {
            analysis.diagnoses.retain(|diagnosis| !matches!(diagnosis, Diagnosis::NoPrimary(_)));
        }
        analysis.diagnoses.extend(self.findings.iter().cloned());
        let diagnoses = std::mem::replace(&mut self.diagnoses, analysis.diagnoses);
        self.publish_if_new(primary, views);
        self.tell_diagnoses(&diagnoses);
    }

    /// The servers as the view shows them; notes their lag, and broken replication among the diagnoses.
    fn server_views(
        &mut self,
        now: Instant,
        analysis: &mut Analysis,
        primary: Option<ServerId>,
        group: Option<&Members>,
    ) -> Vec<ServerView> {
        let bounds = self.bounds();
        let main = self.main_run();
        let fenced_by_run = main.filter(|run| run.fenced && run.kind != RunKind::Restore).and_then(|run| run.old);
        let source_well = primary.is_some_and(|id| self.view.server(id).is_some_and(|s| s.health == Health::Up));
        let mut views = Vec::with_capacity(self.servers.len());
        for index in 0..self.servers.len() {
            let (role, role_reason) = std::mem::replace(&mut analysis.roles[index], (Role::Unknown, String::new()));
            let verdict = match group {
                Some(Members { serves, lags, .. }) => {
                    Verdict { serves_reads: serves[index], lag: lags[index], ..Verdict::nothing("") }
                }
                None => self.judge(now, index, role, &analysis.sources, &bounds),
            };
            let server = &mut self.servers[index];
            if verdict.broken && server.health.health() != Health::Down {
                analysis.diagnoses.push(Diagnosis::ReplicationBroken(server.spec.name.clone()));
            }
            server.lag = verdict.lag;
            if verdict.lag.is_some() && source_well {
                server.lag_with_source = verdict.lag;
            }
            let alone = analysis.sources[index].is_empty();
            let stray = role != Role::Primary && server.takes_writes() && alone && primary.is_some();
            let fenced = match group {
                Some(Members { shut, .. }) => shut[index],
                None => server.deposed || stray || fenced_by_run == Some(server.id),
            };
            let server = &self.servers[index];
            views.push(ServerView {
                id: server.id,
                name: server.spec.name.clone(),
                address: server.spec.address.clone(),
                resolved: server.facts.as_ref().and_then(|(facts, _)| facts.resolved),
                role,
                health: shown_health(server),
                lag: calm(self.view.server(server.id), &verdict),
                serves_reads: verdict.serves_reads && !fenced && server.wanted == Use::Normal,
                fenced,
                weight: server.spec.weight,
                zone: server.spec.zone.clone(),
                reason: reason(server, &self.settings, role, &role_reason, &verdict),
            });
        }
        views
    }

    /// A server is being compared with the others: it is no primary yet, and soon will be.
    fn compares_servers(&self) -> bool {
        self.servers.iter().any(|server| {
            let compared = server.answers() && server.takes_writes() && server.doubted_since.is_some();
            compared && !server.verified && server.lacks.is_none() && !server.deposed
        })
    }

    /// Publishes a view of this if it says something else than the one before.
    fn publish_if_new(&mut self, primary: Option<ServerId>, views: Vec<ServerView>) {
        let flavour = flavour(&self.servers);
        let hold_writes = self.main_run().is_some_and(|run| run.holds && !run.fenced);
        let denied = |server: &Server| server.failure.as_ref().is_some_and(|it| it.class == FailureClass::Login);
        let monitor_denied = flavour.is_none() && self.servers.iter().any(denied);
        let changed = self.view.primary != primary
            || self.view.monitor_denied != monitor_denied
            || self.view.hold_writes != hold_writes
            || self.view.flavour.as_deref() != flavour.as_ref()
            || self.view.servers[..] != views[..];
        if !changed && self.view.number != 0 {
            return;
        }
        let view = View {
            number: self.view.number + 1,
            cluster: self.settings.cluster.clone(),
            epoch: self.view.epoch + u64::from(primary.is_some() && primary != self.reign.last_primary()),
            primary,
            hold_writes,
            group: match self.settings.group {
                Some(GroupKind::Galera(rules)) => Some(rules.writers),
                Some(GroupKind::Ndb) => Some(Writers::All),
                // Positions tell what each member has, as in replication.
                Some(GroupKind::GroupReplication) | None => None,
            },
            same_data: self.settings.group == Some(GroupKind::Ndb),
            servers: views.into(),
            monitor_denied,
            flavour: match &self.view.flavour {
                Some(before) if Some(&**before) == flavour.as_ref() => Some(before.clone()),
                _ => flavour.map(Arc::new),
            },
        };
        let before = std::mem::replace(&mut self.view, view.clone());
        self.outputs.push_back(Output::Publish(view));
        self.tell_changes(&before);
        self.reign.published(primary);
    }

    fn look_at_replication(&self, now: Instant, previous: Option<usize>) -> Analysis {
        let known: Vec<ServerState<'_>> =
            self.servers.iter().map(|server| known(server, self.barred(now, server))).collect();
        analysis::analyse(&known, previous, self.settings.standalone)
    }

    /// Why a server cannot be the primary, whatever it says of itself.
    fn barred(&self, now: Instant, server: &Server) -> Option<&'static str> {
        if self.settings.standalone {
            return None;
        }
        if self.main_run().is_some_and(|run| run.fenced && !run.is_promoted()) {
            return Some("a change of primary is under way");
        }
        if self.reign.external_primary().is_some_and(|named| named != server.id) {
            return Some("an outside manager named another server");
        }
        if server.deposed {
            return Some("it was the primary and has not followed another since");
        }
        if server.resting() {
            return Some("it is in maintenance");
        }
        if self.was_replaced(now, server) {
            return Some("nothing listens there, and another server took over");
        }
        (!server.verified).then_some("it may lack what other servers have")
    }

    /// Nothing listens where it was, and somebody has promoted another one, such as an instance of Sqluice that died over it.
    fn was_replaced(&self, now: Instant, server: &Server) -> bool {
        let gone = server.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::Refused);
        self.acts()
            && gone
            && self.servers.iter().enumerate().any(|(index, other)| {
                let independent = other.channels().is_empty() && !other.deposed && other.verified;
                other.id != server.id
                    && independent
                    && other.takes_writes()
                    && self.reached(index, now)
                    && self.lacks(index, now).is_none()
            })
    }

    /// Takes back what does not hold any more: a former primary that follows the present one, or that others follow again;
    /// an outside manager's word that came true, or did not in time.
    fn reinstate(&mut self, now: Instant) {
        let sources = self.sources();
        let primary = self.view.primary.and_then(|id| self.index(id));
        let busy = self.main_run().is_some();
        for index in 0..self.servers.len() {
            if !self.servers[index].deposed {
                continue;
            }
            let follows = primary.is_some_and(|primary| leads_to(&sources, index, primary));
            let followers = (0..self.servers.len()).filter(|other| {
                let running = |channel: &Channel| channel.receiver == Receiver::Running;
                self.reached(*other, now) && self.channel_from(*other, index).is_some_and(running)
            });
            let chosen = !busy
                && self.reign.external_primary().is_none()
                && self.servers[index].takes_writes()
                && (followers.count() + 1) * 2 > self.servers.len();
            // One that was started anew may have lost what it had acknowledged, until the primary has given it back.
            let whole = !self.servers[index].restarted
                || !self.settings.failover.semi_sync_required
                || primary.is_some_and(|primary| {
                    let (there, here) = (&self.servers[primary].history, &self.servers[index].history);
                    matches!((there, here), (Some(there), Some(here)) if there.beyond(here).is_empty())
                });
            let server = &mut self.servers[index];
            if (follows && !server.takes_writes() && whole) || chosen {
                (server.deposed, server.ahead) = (false, None);
                server.restarted &= !whole;
            }
        }
        if let Some(named) = self.reign.end_external(now)
            && self.view.primary != Some(named)
        {
            self.servers.iter_mut().for_each(|server| server.deposed = false);
        }
    }

    fn judge(&mut self, now: Instant, index: usize, role: Role, sources: &[Vec<usize>], bounds: &Bounds) -> Verdict {
        let down = |index: usize| self.servers[index].health.health() == Health::Down;
        if down(index) {
            return Verdict::nothing("");
        }
        match role {
            Role::Primary => return Verdict { serves_reads: true, ..Verdict::nothing("") },
            Role::Unknown => return Verdict::nothing(""),
            Role::Replica => {}
        }
        let source_gone = !sources[index].is_empty() && sources[index].iter().all(|source| down(*source));
        let nodes = self.nodes();
        let Some((facts, facts_at)) = self.servers[index].facts.as_ref() else { return Verdict::nothing("") };
        let all: &[Channel] = match &facts.replication {
            Replication::Channels(channels) => channels,
            Replication::Unreadable(_) => &[],
        };
        let own: Vec<&Channel> =
            all.iter().filter(|channel| topology::source(&nodes, index, channel).is_some()).collect();
        let counting = if own.is_empty() { all.iter().collect() } else { own };
        let mut state = self.servers[index].lag_state.clone();
        let verdict = state.judge(now, bounds, facts, *facts_at, &counting, source_gone);
        let offline = is_offline(Some(facts), self.servers[index].failure.as_ref());
        self.servers[index].lag_state = state;
        match offline {
            true => Verdict { serves_reads: false, reason: "offline_mode is on".into(), ..verdict },
            false => verdict,
        }
    }
}

/// Decisions about the members of a group, apart from their roles; in the servers' order.
struct Members {
    shut: Vec<bool>,
    serves: Vec<bool>,
    lags: Vec<Option<Duration>>,
}

/// The health of the view: an operator's command takes precedence over the health of a server.
fn shown_health(server: &Server) -> Health {
    match (server.health.health(), server.wanted) {
        (Health::Up, Use::Draining) => Health::Draining,
        (Health::Up, Use::Maintenance) => Health::Maintenance,
        (health, _) => health,
    }
}

fn known<'a>(server: &'a Server, barred: Option<&'static str>) -> ServerState<'a> {
    let facts = server.facts.as_ref().map(|(facts, _)| facts);
    ServerState {
        name: &server.spec.name,
        node: topology::Node { address: &server.spec.address, resolved: facts.and_then(|facts| facts.resolved), facts },
        health: server.health.health(),
        seen: server.health.seen(),
        failure: server.failure.as_ref(),
        barred,
    }
}

/// The lag that the view shows: it stands still while it changes little, so that views stay few.
fn calm(before: Option<&ServerView>, verdict: &Verdict) -> Option<Duration> {
    let new = verdict.lag?;
    match before {
        Some(ServerView { lag: Some(old), serves_reads, .. }) if *serves_reads == verdict.serves_reads => {
            let step = (*old / 4).max(Duration::from_millis(100));
            Some(if new.abs_diff(*old) < step { *old } else { new })
        }
        _ => Some(new),
    }
}

fn reason(server: &Server, settings: &Settings, role: Role, role_reason: &str, verdict: &Verdict) -> Arc<str> {
    let reason = own_reason(server, settings, role, role_reason, verdict);
    match server.wanted {
        Use::Normal => reason,
        Use::Draining | Use::Maintenance => format!("{}, as an operator ordered; {reason}", server.use_words()).into(),
    }
}

/// Its reason, whatever an operator wants of it.
fn own_reason(server: &Server, settings: &Settings, role: Role, role_reason: &str, verdict: &Verdict) -> Arc<str> {
    let failure = server.failure.as_ref().map_or("", |failure| &failure.text);
    match server.health.health() {
        Health::Down if !server.health.seen() => "not probed yet".into(),
        // The server's words are of more use than the number of probes.
        Health::Down if server.facts.is_none() && server.failure.as_ref().is_some_and(|it| it.class.proves_life()) => {
            role_reason.into()
        }
        Health::Down if server.health.successes() > 0 => {
            format!("answers again, {} of {} good probes needed", server.health.successes(), settings.up_after).into()
        }
        Health::Down => format!("does not answer: {failure}").into(),
        Health::Suspect if server.health.doubted() => "a session could not use it; a probe is under way".into(),
        Health::Suspect => {
            format!("{} of {} failed probes: {failure}", server.health.failures(), settings.down_after).into()
        }
        Health::Up | Health::Draining | Health::Maintenance => match role {
            Role::Replica if !verdict.reason.is_empty() => format!("{role_reason}; {}", verdict.reason).into(),
            _ => role_reason.into(),
        },
    }
}

/// The flavour that clients may see: the lowest version, and the capabilities that all servers have. Servers that are down
/// count with their last report, so that the greeting does not change with every failure.
fn flavour(servers: &[Server]) -> Option<Flavour> {
    let greetings = || servers.iter().filter_map(|server| server.facts.as_ref()).map(|(facts, _)| &facts.greeting);
    let lowest = greetings().min_by_key(|greeting| greeting.number)?;
    Some(Flavour {
        mariadb: lowest.mariadb,
        greeting_version: lowest.version.clone(),
        number: lowest.number,
        capabilities: greetings().fold(!0, |all, greeting| all & greeting.capabilities),
        auth_plugin: lowest.auth_plugin.clone(),
        collation: lowest.collation,
    })
}

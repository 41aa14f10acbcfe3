//! Which of the servers that fit takes a statement: least outstanding work, weighed by how fast each answered lately.

use std::time::{Duration, Instant};

use facts::view::{Health, Role, ServerId, ServerView, View, Writers};

use super::causal_reads::Needs;
use super::decision::Target;
use super::loads::Loads;
use super::near::Near;

/// The preferences that decide a choice, beside the view.
#[derive(Clone, Copy, Debug)]
pub struct Preferences<'a> {
    /// Where this proxy stands; servers of the same zone come first. Empty: no preference.
    pub zone: &'a str,
    /// How long a server that came back gets less than its share.
    pub slow_start: Duration,
    /// Servers that just failed this very statement.
    pub avoid: &'a [ServerId],
    /// The statement lost against writes on other members of its Galera group, and goes to where the losers gather: there they
    /// wait for one another's locks.
    pub gather: bool,
    /// The data that a replica must have.
    pub needs: Option<Needs<'a>>,
    /// A replica that lacks some of it will do, if it can be asked to wait for that.
    pub awaits: bool,
    /// How near a replica must be.
    pub near: Option<Near<'a>>,
}

/// Chooses a server for a statement that is not pinned; `None` while the view has none that fits.
pub fn select(
    view: &View,
    target: &Target,
    loads: &Loads,
    preferences: Preferences<'_>,
    now: Instant,
) -> Option<ServerId> {
    let is_avoided = |id: ServerId| preferences.avoid.contains(&id);
    let usable = |server: &&ServerView| server.health == Health::Up && !server.fenced && !is_avoided(server.id);
    let is_fenced = |id: ServerId| view.server(id).is_some_and(|server| server.fenced);
    let primary = || view.primary.filter(|id| !is_avoided(*id) && !is_fenced(*id));
    // While a switchover is under way, what may write waits for the new primary.
    let may_write = |id: &ServerId| !view.hold_writes || view.primary != Some(*id);
    let has_all = |id: &ServerId| {
        let may_wait =
            |needs: Needs<'_>| preferences.awaits && loads.may_be_awaited(*id, now) && needs.awaited(*id).is_some();
        preferences.needs.is_none_or(|needs| needs.lacking(*id).is_none() || may_wait(needs))
    };
    let is_near =
        |server: &ServerView| server.role != Role::Replica || preferences.near.is_none_or(|near| near.has(server.id));
    match target {
        Target::Primary | Target::Pinned if view.group == Some(Writers::All) => {
            let takes_writes = |server: &&ServerView| server.role == Role::Primary && has_all(&server.id);
            let writers = || view.servers.iter().filter(usable).filter(takes_writes);
            // A session keeps to one member as long as it can: what it changes again and again is then in no conflict.
            let last = preferences.needs.and_then(|needs| needs.own?.member());
            let find = |wanted: Option<ServerId>| writers().map(|server| server.id).find(|id| Some(*id) == wanted);
            let meeting = view.primary.filter(|_| preferences.gather);
            find(meeting)
                .or_else(|| find(last))
                .or_else(|| loads.cheapest(writers(), now, preferences.slow_start))
                .or_else(|| primary().filter(has_all))
        }
        Target::Primary | Target::Pinned => primary().filter(may_write).filter(has_all),
        Target::Named(name) => view.server_named(name).filter(usable).map(|server| server.id).filter(may_write),
        Target::Reader => {
            let readers = || {
                let fits = |server: &&ServerView| view.takes_reads(server) && is_near(server) && has_all(&server.id);
                view.servers.iter().filter(usable).filter(fits)
            };
            let (zone, slow_start) = (preferences.zone, preferences.slow_start);
            let near = readers().filter(|server| *server.zone == *zone);
            let cheapest_near = if zone.is_empty() { None } else { loads.cheapest(near, now, slow_start) };
            // A primary has all that was written. A member of a group need not: others write as well, or it has just become
            // the writer, and what the last one did is still on its way.
            let last_resort = || primary().filter(|id| view.group.is_none() || has_all(id));
            cheapest_near.or_else(|| loads.cheapest(readers(), now, slow_start)).or_else(last_resort)
        }
    }
}

#[cfg(test)]
mod tests;

//! Which server becomes the primary, and why each of the others does not.

use std::sync::Arc;
use std::time::Duration;

use crate::history::{Extra, History};
use crate::observation::{Channel, Facts};
use crate::settings::PromotionRule;

/// A server that could be promoted.
pub(crate) struct Runner<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) rule: PromotionRule,
    /// The facts that the server reported; `None` when it is not reached.
    pub(crate) facts: Option<&'a Facts>,
    pub(crate) history: Option<&'a History>,
    /// The channel from the primary that is to be replaced, or from wherever in the cluster.
    pub(crate) channel: Option<&'a Channel>,
    /// The lag that was known before the primary was lost.
    pub(crate) lag: Option<Duration>,
    /// It is out of use by the operator's word.
    pub(crate) resting: bool,
    /// It is deposed: it was a primary and has not followed another since.
    pub(crate) deposed: bool,
    /// It has what the primary lacks, and is kept out for that.
    pub(crate) ahead: bool,
    /// It failed in this run already, in words.
    pub(crate) failed: Option<&'a str>,
}

/// The circumstances.
pub(crate) struct Race<'a> {
    /// The primary that is to be replaced, as known last.
    pub(crate) old: Option<(&'a Facts, &'a History)>,
    /// Most lag.
    pub(crate) lag_max: Duration,
    /// The operator's choice, by index.
    pub(crate) wanted: Option<usize>,
    /// The operator accepts the loss of what other servers have.
    pub(crate) force: bool,
    /// Both live: what a candidate lacks it will get.
    pub(crate) planned: bool,
    /// Whether a client may have got an OK for the writes that this server has.
    pub(crate) counts: &'a dyn Fn(usize, &Extra) -> bool,
}

/// The outcome.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) chosen: Option<usize>,
    /// No server is, but this one could be, after it has got what it lacks.
    pub(crate) fetch: Option<Fetch>,
    /// For the others: index and reason.
    pub(crate) others: Vec<(usize, String)>,
}

/// A server that may be promoted lacks data that is on a server that may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// The server that may be promoted.
    pub(crate) by: usize,
    /// The server that has the data.
    pub(crate) from: usize,
}

impl Choice {
    /// The server that is to be promoted, be it after it has fetched what it lacks.
    pub(crate) fn candidate(&self) -> Option<usize> {
        self.chosen.or(self.fetch.map(|fetch| fetch.by))
    }
}

/// Chooses. The servers are all but the one that is to be replaced, with the caller's indexes.
pub(crate) fn choose(race: &Race<'_>, runners: &[(usize, Runner<'_>)]) -> Choice {
    let mut choice = Choice::default();
    let mut fit: Vec<&(usize, Runner<'_>)> = Vec::new();
    for entry in runners {
        match unfit(race, &entry.1, runners) {
            Some(why) => choice.others.push((entry.0, why)),
            None => fit.push(entry),
        }
    }
    // Data first: whoever lacks what another reached server has is no candidate, unless it can still get it.
    let mut complete: Vec<&(usize, Runner<'_>)> = Vec::new();
    let mut fetches: Vec<(u8, Fetch)> = Vec::new();
    for entry in fit {
        match lacks(race, entry, runners) {
            Some((from, why)) if !race.force => {
                if race.wanted.is_none_or(|wanted| wanted == entry.0) && feeds(entry, from, runners) {
                    fetches.push((entry.1.rule.rank(), Fetch { by: entry.0, from }));
                }
                choice.others.push((entry.0, why));
            }
            _ => complete.push(entry),
        }
    }
    if complete.is_empty() {
        choice.fetch = fetches.into_iter().min_by_key(|(rank, fetch)| (*rank, fetch.by)).map(|(_, fetch)| fetch);
    }
    if let Some(wanted) = race.wanted {
        let (chosen, rest): (Vec<_>, Vec<_>) = complete.into_iter().partition(|entry| entry.0 == wanted);
        choice.chosen = chosen.first().map(|entry| entry.0);
        choice.others.extend(rest.iter().map(|entry| (entry.0, "another server was asked for".to_owned())));
        return choice;
    }
    let rank = |runner: &Runner<'_>| runner.rule.rank();
    let drained = |runner: &Runner<'_>| !runner.history.is_some_and(History::is_drained);
    complete.sort_by_key(|(index, runner)| (rank(runner), drained(runner), *index));
    choice.chosen = complete.first().map(|entry| entry.0);
    for (index, runner) in complete.iter().skip(1) {
        let why = match complete.first() {
            Some((_, best)) if rank(best) < rank(runner) => {
                format!("{} has the same data and a better promotion rule", best.name)
            }
            Some((_, best)) if drained(best) != drained(runner) => {
                format!("{} has the same data and has applied it", best.name)
            }
            _ => "another server is as good and comes first in the configuration".to_owned(),
        };
        choice.others.push((*index, why));
    }
    choice.others.sort_by_key(|(index, _)| *index);
    choice
}

/// Why nobody wants it, whatever data it has.
fn out_of_use<'a>(runner: &Runner<'a>) -> Option<&'a str> {
    if runner.rule == PromotionRule::MustNot {
        return Some("its promotion rule is must_not");
    }
    if runner.resting {
        return Some("it is drained or in maintenance");
    }
    if runner.facts.is_some_and(|facts| facts.details.offline) {
        return Some("its offline_mode is on, so that it would refuse all clients");
    }
    runner.failed
}

/// Why it can't be promoted at all.
fn unfit(race: &Race<'_>, runner: &Runner<'_>, all: &[(usize, Runner<'_>)]) -> Option<String> {
    if let Some(why) = out_of_use(runner) {
        return Some(why.to_owned());
    }
    let Some(facts) = runner.facts else { return Some("it does not answer".into()) };
    if runner.deposed {
        return Some("it was a primary and has not followed another since".into());
    }
    let details = &facts.details;
    if let Some(group) = &details.group {
        return Some(format!("{group} is active on it"));
    }
    let Some(history) = runner.history else { return Some("it tells no position that can be read".into()) };
    if details.gtid_on != Some(true) {
        return Some("GTIDs are not on".into());
    }
    match runner.channel {
        Some(channel) if channel.uses_gtid != Some(true) => {
            return Some("it does not replicate by GTID".into());
        }
        Some(channel) if channel.delay_s > 0 => {
            return Some(format!("it is delayed by {} s on purpose", channel.delay_s));
        }
        Some(channel) if !channel.applier_running => {
            let error = if channel.applier_error.is_empty() { "no error reported" } else { &channel.applier_error };
            return Some(format!("its applier is stopped ({error})"));
        }
        Some(_) => {}
        None if !facts.read_only && !facts.super_read_only => {
            return Some("it takes writes and follows no server".into());
        }
        None if race.planned => return Some("it does not follow the primary".into()),
        None => {}
    }
    if details.log_bin != Some(true) {
        return Some("its binary log is off, or not known to be on".into());
    }
    if details.log_replica_updates != Some(true) {
        return Some("it does not log what it applies (log_replica_updates)".into());
    }
    if let Some(lag) = runner.lag.filter(|lag| *lag > race.lag_max) {
        return Some(format!(
            "it was behind by {} s, more than the {} s allowed",
            lag.as_secs(),
            race.lag_max.as_secs()
        ));
    }
    let filters = runner.channel.map_or("", |channel| &channel.filters);
    let same = all.iter().filter_map(|(_, other)| other.channel).all(|other| *other.filters == *filters);
    if !filters.is_empty() && !same {
        return Some(format!("its replication is filtered ({filters}), so it lacks data"));
    }
    if let Some((old, _)) = race.old
        && old.details.binlog_filters != details.binlog_filters
    {
        return Some("its binary log is filtered in another way than that of the primary".into());
    }
    if let Some(why) = version(facts, all) {
        return Some(why);
    }
    let extra = errant(race, runner, history, all)?;
    Some(format!("it has transactions of its own that no other server has: {extra}"))
}

/// A replica must not be older than its source: it may not understand what it is sent.
fn version(facts: &Facts, all: &[(usize, Runner<'_>)]) -> Option<String> {
    let is_older = |other: &Facts| release(other) < release(facts);
    let older = all.iter().find(|(_, other)| other.channel.is_some() && other.facts.is_some_and(is_older))?;
    Some(format!("its version is newer than that of {}, which would have to follow it", older.1.name))
}

/// The release that a server's version belongs to: 10.11, 8.4.
fn release(facts: &Facts) -> u32 {
    facts.greeting.number / 100
}

fn errant(race: &Race<'_>, runner: &Runner<'_>, history: &History, all: &[(usize, Runner<'_>)]) -> Option<Extra> {
    let mut bases = race.old.map(|(_, old)| old).into_iter();
    let kept_in = all.iter().filter(|(_, other)| !other.ahead);
    let mut others = kept_in.filter_map(|(_, other)| other.history).filter(|other| !std::ptr::eq(*other, history));
    let first = bases.next().or_else(|| others.next())?;
    let (mut own, _) = history.split(history.beyond(first));
    for other in others {
        own = own.without(other);
    }
    // Transactions that a former primary wrote do not count against it when no other server is there to confirm them.
    (!own.is_empty() && runner.channel.is_some()).then_some(own)
}

/// Whether `by`, a replica, could replicate from the server with that index. A replica that replays late on purpose, or not at all, has nothing to
/// give.
fn feeds(by: &(usize, Runner<'_>), from: usize, all: &[(usize, Runner<'_>)]) -> bool {
    let Some((_, source)) = all.iter().find(|(index, _)| *index == from) else { return false };
    let (Some(facts), Some(own)) = (source.facts, by.1.facts) else { return false };
    let details = &facts.details;
    by.1.channel.is_some()
        && details.gtid_on == Some(true)
        && details.log_bin == Some(true)
        && details.log_replica_updates == Some(true)
        && details.binlog_filters == own.details.binlog_filters
        && source.channel.is_some_and(|channel| channel.applier_running && channel.delay_s == 0)
        && release(facts) <= release(own)
}

/// Finds another reached server that has data which this server lacks: its index, and the data in words.
fn lacks(race: &Race<'_>, entry: &(usize, Runner<'_>), all: &[(usize, Runner<'_>)]) -> Option<(usize, String)> {
    let here = entry.1.history?;
    if race.planned {
        return None;
    }
    let reference = race.old.map(|(_, old)| old);
    all.iter().filter(|(index, _)| *index != entry.0).find_map(|(number, other)| {
        other.facts?;
        let extra = beyond(other.history?, here, other.channel.is_some(), reference);
        // Sqluice promised no client the transactions for which a server is kept out; its other data counts as any server's.
        let extra = match reference.filter(|_| other.ahead) {
            Some(reference) => extra.clone().except(&extra.without(reference)),
            None if other.ahead => return None,
            None => extra,
        };
        (!extra.is_empty() && (race.counts)(*number, &extra))
            .then(|| (*number, format!("it lacks what {} has received: {extra}", other.name)))
    })
}

/// The transactions that `there` has and `here` lacks. Transactions that a replica has written itself, and that the primary as
/// known last does not have, were never part of the data.
pub(crate) fn beyond(there: &History, here: &History, is_replica: bool, reference: Option<&History>) -> Extra {
    let extra = there.beyond(here);
    let (own, _) = there.split(extra.clone());
    match reference.filter(|_| is_replica && !own.is_empty()) {
        Some(reference) => {
            let errant = own.without(reference);
            extra.except(&errant)
        }
        None => extra,
    }
}

//! Figures of failover, switchover and rejoin.

use std::time::Instant;

use super::names::{
    CHANGES, CHANGES_AGE, CHANGES_LOSSES, COOLDOWN, EPOCH, FAILOVER_MODE, FAILOVER_STATE, FENCED, HOLDS_WRITES,
    JOURNAL_FAILURES, LEASE_ASKED, LEASE_HELD, PRIMARY_CHANGES, RUNS, STEPS, UNSETTLED,
};
use super::{Cluster, Page, family};

pub(super) fn render(page: &mut Page, clusters: &[Cluster<'_>]) {
    let mut epoch = family(page, EPOCH);
    clusters.iter().for_each(|of| epoch.sample(&[of.name], of.view.epoch));
    let mut holds = family(page, HOLDS_WRITES);
    clusters.iter().for_each(|of| holds.sample(&[of.name], u8::from(of.view.hold_writes)));
    let mut fenced = family(page, FENCED);
    for Cluster { name, view, .. } in clusters {
        view.servers.iter().for_each(|server| fenced.sample(&[name, &server.name], u8::from(server.fenced)));
    }
    let mut changes = family(page, PRIMARY_CHANGES);
    clusters.iter().for_each(|of| changes.sample(&[of.name], of.figures.primary_changes));
    let mut modes = family(page, FAILOVER_MODE);
    clusters.iter().for_each(|of| modes.sample(&[of.name, of.figures.failover], 1));
    states(page, clusters);
    let mut runs = family(page, RUNS);
    for Cluster { name, figures, .. } in clusters {
        for (word, [finished, aborted]) in &figures.runs {
            runs.sample(&[name, word, "finished"], finished);
            runs.sample(&[name, word, "aborted"], aborted);
        }
    }
    let mut steps = family(page, STEPS);
    for Cluster { name, figures, .. } in clusters {
        for (word, [done, failed]) in &figures.steps {
            steps.sample(&[name, word, "done"], done);
            steps.sample(&[name, word, "failed"], failed);
        }
    }
    let mut unsettled = family(page, UNSETTLED);
    clusters.iter().for_each(|of| unsettled.sample(&[of.name], of.figures.unsettled));
    let mut lease = family(page, LEASE_HELD);
    clusters.iter().for_each(|of| lease.sample(&[of.name], u8::from(of.figures.lease_held)));
    let mut asked = family(page, LEASE_ASKED);
    for Cluster { name, figures, .. } in clusters {
        figures.lease_confirmations.iter().for_each(|(word, count)| asked.sample(&[name, word], count));
    }
    stream_of_changes(page, clusters);
}

/// Whether automatic failover may act now.
fn states(page: &mut Page, clusters: &[Cluster<'_>]) {
    let left = |of: &Cluster<'_>| {
        of.figures.cooldown_until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default()
    };
    let mut states = family(page, FAILOVER_STATE);
    for of in clusters {
        let now = match of.figures.failover {
            "auto" if of.figures.failover_stopped => "stopped",
            "auto" if !left(of).is_zero() => "cooling_down",
            "auto" => "armed",
            _ => "off",
        };
        for state in ["armed", "cooling_down", "stopped", "off"] {
            states.sample(&[of.name, state], u8::from(state == now));
        }
    }
    let mut cooldown = family(page, COOLDOWN);
    clusters.iter().for_each(|of| cooldown.sample(&[of.name], left(of).as_secs_f64()));
    let mut failures = family(page, JOURNAL_FAILURES);
    clusters.iter().for_each(|of| failures.sample(&[of.name], of.figures.journal_failures));
}

/// The stream of changes, where somebody listens to it.
fn stream_of_changes(page: &mut Page, clusters: &[Cluster<'_>]) {
    let followed = || clusters.iter().filter_map(|of| Some((of.name, of.figures.changes.as_ref()?)));
    let mut age = family(page, CHANGES_AGE);
    for (name, figures) in followed() {
        if let Some(as_of) = figures.as_of {
            age.sample(&[name], as_of.elapsed().as_secs_f64());
        }
    }
    let mut reported = family(page, CHANGES);
    for (name, figures) in followed() {
        reported.sample(&[name, "tables"], figures.tables);
        reported.sample(&[name, "everything"], figures.everything);
    }
    let mut losses = family(page, CHANGES_LOSSES);
    followed().for_each(|(name, figures)| losses.sample(&[name], figures.losses));
}

//! Figures of failover, switchover and rejoin.

use std::sync::Arc;

use cluster::journal::RUN_WORDS;

use super::names::{
    CHANGES, CHANGES_AGE, CHANGES_LOSSES, EPOCH, FENCED, HOLDS_WRITES, LEASE_ASKED, LEASE_HELD, PRIMARY_CHANGES, RUNS,
    STEPS, UNSETTLED,
};
use super::{Clusters, Page, family};
use crate::status::{Figures, STEP_WORDS};

pub(super) fn render(page: &mut Page, clusters: &Clusters) {
    let views: Vec<_> = clusters.iter().map(|(name, status)| (name, status.published.view.load_full())).collect();
    let figures: Vec<(&Arc<str>, Figures)> =
        clusters.iter().map(|(name, status)| (name, status.figures().clone())).collect();
    let mut epoch = family(page, EPOCH);
    views.iter().for_each(|(name, view)| epoch.sample(&[name], view.epoch));
    let mut holds = family(page, HOLDS_WRITES);
    views.iter().for_each(|(name, view)| holds.sample(&[name], u8::from(view.hold_writes)));
    let mut fenced = family(page, FENCED);
    for (name, view) in &views {
        view.servers.iter().for_each(|server| fenced.sample(&[name, &server.name], u8::from(server.fenced)));
    }
    let mut changes = family(page, PRIMARY_CHANGES);
    figures.iter().for_each(|(name, figures)| changes.sample(&[name], figures.runs.primary_changes));
    let mut runs = family(page, RUNS);
    for (name, figures) in &figures {
        for word in RUN_WORDS {
            let [finished, aborted] = figures.runs.ended.get(word).copied().unwrap_or_default();
            runs.sample(&[name, word, "finished"], finished);
            runs.sample(&[name, word, "aborted"], aborted);
        }
    }
    let mut steps = family(page, STEPS);
    for (name, figures) in &figures {
        for word in STEP_WORDS {
            let [done, failed] = figures.runs.steps.get(word).copied().unwrap_or_default();
            steps.sample(&[name, word, "done"], done);
            steps.sample(&[name, word, "failed"], failed);
        }
    }
    let mut unsettled = family(page, UNSETTLED);
    figures.iter().for_each(|(name, figures)| unsettled.sample(&[name], figures.unsettled));
    let mut lease = family(page, LEASE_HELD);
    figures.iter().for_each(|(name, figures)| lease.sample(&[name], u8::from(figures.lease_held)));
    let mut asked = family(page, LEASE_ASKED);
    for (name, figures) in &figures {
        let counts = figures.lease_confirmations;
        asked.sample(&[name, "held"], counts.held);
        asked.sample(&[name, "elsewhere"], counts.elsewhere);
        asked.sample(&[name, "failed"], counts.failed);
    }
    stream_of_changes(page, &figures);
}

/// The stream of changes, where somebody listens to it.
fn stream_of_changes(page: &mut Page, figures: &[(&Arc<str>, Figures)]) {
    let followed = || figures.iter().filter_map(|(name, figures)| Some((*name, figures.changes.as_ref()?)));
    let mut age = family(page, CHANGES_AGE);
    for (name, figures) in followed() {
        if let Some(as_of) = figures.as_of {
            age.sample(&[name], as_of.elapsed().as_secs_f64());
        }
    }
    let mut told = family(page, CHANGES);
    for (name, figures) in followed() {
        told.sample(&[name, "tables"], figures.tables);
        told.sample(&[name, "everything"], figures.everything);
    }
    let mut losses = family(page, CHANGES_LOSSES);
    followed().for_each(|(name, figures)| losses.sample(&[name], figures.losses));
}

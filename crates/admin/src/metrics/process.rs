//! The process itself: its resources, and its configuration.

use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use procfs::process::{LimitValue, Process};

use super::names::*;
use super::{Page, Shared, family};

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let started = shared.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    family(page, INFO).sample(&[env!("CARGO_PKG_VERSION")], 1);
    family(page, START_TIME).sample(&[], started);
    resources(page);
    reloads(page, shared);
    family(page, DRAINING).sample(&[], u8::from(shared.draining.load(Ordering::Relaxed)));
    family(page, WORKERS).sample(&[], shared.workers.len());
}

/// The system's figures, under the names that all exporters use. One that the system does not give is missing.
fn resources(page: &mut Page) {
    let process = Process::myself().ok();
    let stat = process.as_ref().and_then(|process| process.stat().ok());
    let mut cpu = family(page, CPU);
    if let Some(stat) = &stat {
        cpu.sample(&[], (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64);
    }
    let mut resident = family(page, RESIDENT);
    if let Some(stat) = &stat {
        resident.sample(&[], stat.rss * procfs::page_size());
    }
    let mut addresses = family(page, VIRTUAL);
    if let Some(stat) = &stat {
        addresses.sample(&[], stat.vsize);
    }
    let mut open = family(page, OPEN_FILES);
    if let Some(count) = process.as_ref().and_then(|process| process.fd_count().ok()) {
        open.sample(&[], count);
    }
    let mut most = family(page, OPEN_FILES_MAX);
    if let Some(limits) = process.as_ref().and_then(|process| process.limits().ok()) {
        match limits.max_open_files.soft_limit {
            LimitValue::Unlimited => most.sample(&[], -1),
            LimitValue::Value(files) => most.sample(&[], files),
        }
    }
    let mut threads = family(page, THREADS);
    if let Some(stat) = &stat {
        threads.sample(&[], stat.num_threads);
    }
}

fn reloads(page: &mut Page, shared: &Shared) {
    let (reloads, count) = (&shared.reloads, |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed));
    let mut counts = family(page, RELOADS);
    counts.sample(&["good"], count(&reloads.good));
    counts.sample(&["refused"], count(&reloads.refused));
    family(page, RELOAD_GOOD).sample(&[], u8::from(!reloads.last_was_refused.load(Ordering::Relaxed)));
    family(page, RELOAD_TIME).sample(&[], count(&reloads.good_at_s));
}

//! The same statements directly and through Sqluice: the cases that are kept, then random ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

use std::time::Duration;

use conform::campaign::{self, Plan, Report};
use conform::{cli, world};
use lab::Family;

/// `SQLUICE_CONFORM_STREAMS=5000` runs so many random scripts, however long it takes.
const STREAMS: &str = "SQLUICE_CONFORM_STREAMS";
/// So many otherwise: what takes less than a minute in a debug build on two cores.
const STREAMS_DEFAULT: u64 = 30;
/// So many with the result cache.
const CACHED_DEFAULT: u64 = 20;
/// The first seed; another one each day finds other things.
const FIRST: &str = "SQLUICE_CONFORM_FIRST";

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

fn nothing_differs(plan: Plan) -> Report {
    let report = campaign::run(&plan).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{:?}: {} scripts, {} steps", plan.family, report.scripts, report.steps);
    let cases = plan.cases.keys().filter(|name| campaign::fits(name, plan.family)).count();
    assert!(report.scripts >= cases as u64);
    let shown: Vec<_> =
        report.failures.iter().map(|failure| format!("{}: {}", failure.name, failure.mismatch)).collect();
    assert!(shown.is_empty(), "{} scripts differ:\n{}", shown.len(), shown.join("\n"));
    report
}

#[test]
fn cases_that_are_kept_show_no_difference() {
    let plan = cli::plan(Family::MariaDb).unwrap();
    assert!(!plan.cases.is_empty());
    nothing_differs(plan);
}

#[test]
fn random_scripts_show_no_difference() {
    random_scripts(Family::MariaDb);
}

#[test]
fn reads_that_the_cache_answers_show_no_difference() {
    cached_scripts(Family::MariaDb);
}

#[test]
fn reads_that_the_cache_answers_show_no_difference_on_mysql() {
    if has_mysql() {
        cached_scripts(Family::MySql);
    }
}

#[test]
fn cases_show_no_difference_on_mysql() {
    if has_mysql() {
        nothing_differs(cli::plan(Family::MySql).unwrap());
    }
}

#[test]
fn random_scripts_show_no_difference_on_mysql() {
    if has_mysql() {
        random_scripts(Family::MySql);
    }
}

fn random_scripts(family: Family) {
    let streams = number(STREAMS).unwrap_or(STREAMS_DEFAULT);
    let plan = cli::plan(family).unwrap();
    let seeds = (number(FIRST).unwrap_or(1), streams);
    let shared = Some(false);
    nothing_differs(Plan { cases: Default::default(), seeds, shared, limit: Duration::MAX, failures_max: 10, ..plan });
}

fn cached_scripts(family: Family) {
    let plan = cli::plan(family).unwrap();
    let seeds = (number(FIRST).unwrap_or(1), number(STREAMS).unwrap_or(CACHED_DEFAULT));
    let shared = Some(false);
    let plan =
        Plan { cases: Default::default(), seeds, shared, limit: Duration::MAX, failures_max: 10, cached: true, ..plan };
    let report = nothing_differs(plan);
    assert!(report.hits > report.scripts, "the cache has answered {} steps", report.hits);
}

fn has_mysql() -> bool {
    world::families().unwrap().contains(&Family::MySql)
}

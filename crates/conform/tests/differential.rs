//! The same statements directly and through Sqluice: the cases that are kept, then random ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

use std::io::Write as _;
use std::time::Duration;

use conform::campaign::{self, Plan, Report};
use conform::{cli, world};
use lab::Family;

/// `SQLUICE_CONFORM_STREAMS=5000` runs so many random scripts of each kind, however long it takes.
const STREAMS: &str = "SQLUICE_CONFORM_STREAMS";
/// So many otherwise, as far as the [limit](LIMIT) allows.
const STREAMS_DEFAULT: u64 = 24;
/// So many with the result cache.
const CACHED_DEFAULT: u64 = 16;
/// So many whose sessions share one connection.
const SHARED_DEFAULT: u64 = 40;
/// No new script is begun after this time.
const LIMIT: Duration = Duration::from_secs(40);
/// The first seed, or `clock`: other seeds find other things. Without it the same ones run each time, so that a change is not
/// refused for a difference that was there before.
const SEED: &str = "SQLUICE_CONFORM_SEED";
const SEED_DEFAULT: u64 = 1;
/// So many of seeds that nobody has run before, of both kinds.
const NEW_DEFAULT: u64 = 60;
/// Of those so many may differ: what nobody has seen before is printed, and refused only when a change has made it common.
const NEW_DIFFER_MAX: usize = 3;

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// The first seed and how many, printed for those who want to repeat them, and the time for all.
fn seeds(streams: u64) -> ((u64, u64), Duration) {
    let first = match std::env::var(SEED).as_deref() {
        Ok("clock") => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
        _ => number(SEED).unwrap_or(SEED_DEFAULT),
    };
    println!("{SEED}={first}");
    let limit = if number(STREAMS).is_some() { Duration::MAX } else { LIMIT };
    ((first, number(STREAMS).unwrap_or(streams)), limit)
}

fn nothing_differs(plan: Plan) -> Report {
    let report = campaign::run(&plan).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{:?}: {} scripts, {} steps", plan.family, report.scripts, report.steps);
    let cases = plan.cases.keys().filter(|name| campaign::fits(name, plan.family)).count();
    assert!(report.scripts >= cases as u64);
    let failures = report.failures.iter();
    let shown: Vec<_> = failures.map(|failure| format!("{}: {}", failure.name, failure.mismatch)).collect();
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
fn sessions_that_share_a_connection_show_no_difference() {
    sharing_scripts(Family::MariaDb);
}

#[test]
fn sessions_that_share_a_connection_show_no_difference_on_mysql() {
    if has_mysql() {
        sharing_scripts(Family::MySql);
    }
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
    let plan = cli::plan(family).unwrap();
    let (seeds, limit) = seeds(STREAMS_DEFAULT);
    let shared = Some(false);
    let report = nothing_differs(Plan { cases: Default::default(), seeds, shared, limit, failures_max: 10, ..plan });
    assert!(report.pipelined > 0, "no read was on a pipeline");
}

fn sharing_scripts(family: Family) {
    let plan = cli::plan(family).unwrap();
    let (seeds, limit) = seeds(SHARED_DEFAULT);
    let shared = Some(true);
    let report = nothing_differs(Plan { cases: Default::default(), seeds, shared, limit, failures_max: 5, ..plan });
    // Steps that wait for the only connection say nothing: they must not be most of all.
    assert!(report.skipped < 2 * report.steps, "{} steps of {} were left out", report.skipped, report.steps);
}

#[test]
fn hardly_a_script_of_new_seeds_differs() {
    new_scripts(Family::MariaDb);
}

#[test]
fn hardly_a_script_of_new_seeds_differs_on_mysql() {
    if has_mysql() {
        new_scripts(Family::MySql);
    }
}

/// Runs scripts whose seeds come from the clock, some with shared connections, and prints those that differ.
fn new_scripts(family: Family) {
    let first = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    said(&format!("{family:?}: seeds from {first} on, for `./dev streams --no-cases --seed N`"));
    let plan = cli::plan(family).unwrap();
    let seeds = (first, NEW_DEFAULT);
    let plan = Plan { cases: Default::default(), seeds, limit: LIMIT, failures_max: NEW_DIFFER_MAX + 1, ..plan };
    let report = campaign::run(&plan).unwrap_or_else(|error| panic!("{error:#}"));
    said(&format!("{family:?}: {} scripts, {} steps, {} differ", report.scripts, report.steps, report.failures.len()));
    report.failures.iter().for_each(|failure| said(&format!("{}: {}", failure.name, failure.mismatch)));
    assert!(report.scripts > 0 && report.failures.len() <= NEW_DIFFER_MAX, "too many differ");
}

/// Writes a line that is seen of tests that pass, too.
fn said(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn cached_scripts(family: Family) {
    let plan = cli::plan(family).unwrap();
    let (seeds, limit) = seeds(CACHED_DEFAULT);
    let shared = Some(false);
    let plan = Plan { cases: Default::default(), seeds, shared, limit, failures_max: 10, cached: true, ..plan };
    let report = nothing_differs(plan);
    assert!(report.hits > report.scripts, "the cache has answered {} steps", report.hits);
}

fn has_mysql() -> bool {
    world::families().unwrap().contains(&Family::MySql)
}

//! WordPress, with and without Sqluice and its cache: `./dev bench wordpress`, docs/reference/cache-wordpress.md.
//!
//! The mix of pages and the blog are those of the test that Percona published in 2014 (100 users, 25 categories, 100,000 posts with three
//! comments each; a visit reads the home page, ten stories and three categories, logs in, writes a story and a comment). Whatever was written
//! must be on the next page, and pages must be the same whichever way PHP takes to the database: a wrong page fails the run.

mod crowd;
mod figures;
mod mode;
mod pages;
mod site;
mod turn;
mod visitor;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::contender::{Build, Kind};
use crate::machine::{self, Machine};
use crate::run::progress;
use crate::world::{Needs, World};
use crate::{order, stop};
use figures::Record;
use mode::Mode;
use site::Site;
use turn::Turns;
pub(crate) use visitor::Mix;

/// Its name on the command line.
pub(crate) const NAME: &str = "wordpress";

/// Not measured: until PHP has read its files, and the cache the blog.
const WARM_UP: Duration = Duration::from_secs(3);
/// The blog takes 350 MB.
const BUFFER_MB: u32 = 768;
/// Percona's blog.
const POSTS: u32 = 100_000;
const QUICK_POSTS: u32 = 10_000;
const VISITORS: u32 = 16;
const PHP: usize = 8;

/// The options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: u32,
    pub(crate) measured: Duration,
    /// Visitors at a time.
    pub(crate) visitors: u32,
    /// PHP's processes.
    pub(crate) php: usize,
    pub(crate) posts: u32,
    pub(crate) mixes: Vec<Mix>,
    /// Threads of Sqluice.
    pub(crate) workers: usize,
    pub(crate) replicas: usize,
    pub(crate) files: u64,
    pub(crate) build: Build,
}

impl Plan {
    /// Rounds and seconds that are enough on a machine that does nothing else.
    pub(crate) fn new(options: &crate::plan::Options, posts: Option<u32>, mixes: &[Mix]) -> anyhow::Result<Plan> {
        let build = options.contenders.iter().find_map(|kind| match kind {
            Kind::Sqluice(build) => Some(build.clone()),
            _ => None,
        });
        let (rounds, seconds, most) = if options.quick { (1, 5, QUICK_POSTS) } else { (3, 15, POSTS) };
        Ok(Plan {
            rounds: options.rounds.unwrap_or(rounds),
            measured: Duration::from_secs(options.seconds.unwrap_or(seconds).into()),
            visitors: options.connections.first().copied().unwrap_or(VISITORS),
            php: PHP,
            posts: posts.unwrap_or(most),
            mixes: if mixes.is_empty() { vec![Mix::Percona, Mix::Readers] } else { mixes.to_vec() },
            workers: options.workers,
            replicas: options.replicas,
            files: options.files,
            build: build.context("Sqluice must take part")?,
        })
    }
}

/// Runs it, prints the tables and writes them into the folder.
///
/// # Errors
/// Something is missing, or a page is wrong.
pub(crate) fn run(plan: &Plan, command: &str, folder: &Path) -> anyhow::Result<()> {
    progress(&format!("{NAME}: making a blog of {} posts", plan.posts));
    let connections = 20 * plan.php as u64;
    let needs = Needs {
        family: lab::Family::MariaDb,
        connections,
        tls: false,
        large: false,
        replicas: plan.replicas,
        buffer_mb: BUFFER_MB,
    };
    let world = World::start(needs)?;
    let site = Site::make(&world, plan.posts)?;
    world.wait_in_sync()?;
    let direct = site.serve(world.primary(), plan.php)?;
    let mut turns = Vec::new();
    for mix in &plan.mixes {
        for round in 0..plan.rounds {
            for index in order::rotated(Mode::ALL.len(), round as usize) {
                stop::check()?;
                let Some(mode) = Mode::ALL.get(index).copied() else { continue };
                let number = u32::try_from(turns.len()).unwrap_or(u32::MAX);
                let (world, site, direct) = (&world, &site, &direct[..]);
                let turn = Turns { world, site, plan, direct, number }
                    .take(*mix, mode)
                    .with_context(|| format!("{}, {}", mix.name(), mode.name()))?;
                progress(&format!(
                    "  {}, round {}/{}: {} {:.1} pages/s, waits {:.1} ms/page, server {:.1} ms CPU, PHP {:.1} ms CPU",
                    mix.name(),
                    round + 1,
                    plan.rounds,
                    mode.name(),
                    turn.pages as f64 / turn.seconds,
                    turn.waited_ms,
                    turn.server_ms,
                    turn.php_ms
                ));
                turns.push(turn);
            }
        }
    }
    let mut versions = vec![("server".to_owned(), world.version.clone()), ("WordPress".to_owned(), site.version)];
    versions.extend(machine::says("php", &["--version"]).map(|version| ("PHP".to_owned(), version)));
    versions.extend(machine::commit().map(|commit| ("commit".to_owned(), commit)));
    let record = Record {
        date: machine::date(),
        command: command.to_owned(),
        machine: Machine::here(),
        versions,
        visitors: plan.visitors,
        php: plan.php,
        posts: plan.posts,
        turns,
    };
    let tables = record.tables();
    println!("\n{tables}");
    for (name, text) in [("json", serde_json::to_string_pretty(&record)?), ("md", tables)] {
        let path = folder.join(format!("{NAME}.{name}"));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

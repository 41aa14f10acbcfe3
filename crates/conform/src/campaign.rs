//! Many scripts over several lanes: the cases that are kept, then one seed after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lab::Family;

use crate::generate::{Shape, generate, share};
use crate::lane::{Lane, Mismatch};
use crate::script::Script;
use crate::shrink::shrink;
use crate::world::World;

/// Sessions of a script that may keep a connection.
const KEEPERS: usize = 2;
/// Connections to each server: what keepers may hold, and two for all others.
const CONNECTIONS: usize = KEEPERS + 2;

/// The scripts of a run, and its limits.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The servers' family.
    pub family: Family,
    /// Replicas behind Sqluice.
    pub replicas: usize,
    /// Scripts that run at a time.
    pub lanes: usize,
    /// Sqluice has a rule by which its result cache answers what it may, and scripts [ask again](Script::asked_again).
    pub cached: bool,
    /// Scripts that are kept, by name.
    pub cases: BTreeMap<String, Script>,
    /// Sessions of random scripts share one connection to each server, or have a pool: by the seed where it is not said.
    pub shared: Option<bool>,
    /// The first seed, and how many.
    pub seeds: (u64, u64),
    /// No new seed is begun after this time.
    pub limit: Duration,
    /// After so many kinds of differences no new script is begun.
    pub failures_max: usize,
    /// Longest that one difference is made smaller.
    pub shrink: Duration,
    /// Where scripts that show a difference are written.
    pub folder: PathBuf,
}

/// A script that shows a difference, made small.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The case's name, or the seed.
    pub name: String,
    /// The small script.
    pub script: Script,
    /// The difference that it shows.
    pub mismatch: Mismatch,
    /// Where it was written.
    pub file: PathBuf,
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Scripts that were run.
    pub scripts: u64,
    /// Steps that were compared.
    pub steps: u64,
    /// Steps that were left out, because another session held the only connection.
    pub skipped: u64,
    /// Answers of the result cache.
    pub hits: u64,
    /// Reads that shared a connection with reads of other sessions.
    pub pipelined: u64,
    /// The first difference of each kind.
    pub failures: Vec<Failure>,
    /// How many scripts showed a difference of each [kind](Mismatch::kind).
    pub kinds: BTreeMap<String, u64>,
}

impl Report {
    /// How many scripts differ.
    pub fn differ(&self) -> u64 {
        self.kinds.values().sum()
    }
}

struct Shared<'a> {
    plan: &'a Plan,
    jobs: Vec<(String, Script)>,
    next_job: AtomicUsize,
    next_seed: AtomicU64,
    started: Instant,
    report: Mutex<Report>,
}

/// Runs it all; differences are printed as they are found.
///
/// # Errors
/// Servers or Sqluice did not start, or were lost.
pub fn run(plan: &Plan) -> anyhow::Result<Report> {
    let world = World::start(plan.family, plan.replicas)?;
    let fitting = plan.cases.iter().filter(|(name, _)| fits(name, plan.family));
    let jobs = fitting.map(|(name, script)| (name.clone(), script.clone())).collect();
    let shared = Shared {
        plan,
        jobs,
        next_job: AtomicUsize::new(0),
        next_seed: AtomicU64::new(0),
        started: Instant::now(),
        report: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..plan.lanes)
            .map(|index| {
                scope.spawn({
                    let (world, shared) = (&world, &shared);
                    move || lane(world, index, shared)
                })
            })
            .collect();
        for lane in lanes {
            lane.join().map_err(|_| anyhow::anyhow!("a lane panicked"))??;
        }
        anyhow::Ok(())
    })?;
    Ok(shared.report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn lane(world: &World, index: usize, shared: &Shared<'_>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut lane = Lane::start(world, index, CONNECTIONS, shared.plan.cached).await?;
        while let Some((name, script)) = shared.next() {
            let script = if shared.plan.cached { script.asked_again(KEEPERS) } else { script };
            let found = lane.run(&script).await.with_context(|| name.clone())?;
            shared.report().scripts += 1;
            if let Some(mismatch) = found {
                if !shared.is_new(&mismatch) {
                    continue;
                }
                let (script, mismatch) = shrink(&mut lane, &script, mismatch, shared.plan.shrink).await?;
                let file = write(&shared.plan.folder, &name, &script, &mismatch)?;
                eprintln!("--- {name} differs; {} ---\n{script}{mismatch}", file.display());
                shared.report().failures.push(Failure { name, script, mismatch, file });
            }
        }
        shared.report().steps += lane.compared;
        shared.report().skipped += lane.skipped;
        shared.report().hits += lane.hits();
        shared.report().pipelined += lane.pipelined;
        lane.stop().await;
        Ok(())
    })
}

impl Shared<'_> {
    fn report(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a difference; whether it is the first of its kind.
    fn is_new(&self, mismatch: &Mismatch) -> bool {
        let mut report = self.report();
        let count = report.kinds.entry(mismatch.kind()).or_default();
        *count += 1;
        *count == 1
    }

    fn next(&self) -> Option<(String, Script)> {
        if self.report().kinds.len() >= self.plan.failures_max {
            return None;
        }
        if let Some(job) = self.jobs.get(self.next_job.fetch_add(1, Ordering::Relaxed)) {
            return Some(job.clone());
        }
        let (first, count) = self.plan.seeds;
        let at = self.next_seed.fetch_add(1, Ordering::Relaxed);
        if at >= count || self.started.elapsed() > self.plan.limit {
            return None;
        }
        let seed = first + at;
        Some((format!("seed-{seed}"), seeded(seed, self.plan.family, self.plan.shared)))
    }
}

/// Whether a case is for servers of this family: `mariadb-…` and `mysql-…` are for one alone.
pub fn fits(name: &str, family: Family) -> bool {
    match family {
        Family::MariaDb => !name.starts_with("mysql-"),
        Family::MySql => !name.starts_with("mariadb-"),
    }
}

/// The script of a seed: every second one keeps to the primary; of four that follow each other, two share one connection where
/// `shared` says nothing. Of eight, the reads of the last four share connections wherever they may.
pub fn seeded(seed: u64, family: Family, shared: Option<bool>) -> Script {
    let shape = Shape { family, keepers: KEEPERS, primary_only: seed % 2 == 1, pipelined: seed % 8 > 3 };
    if shared.unwrap_or(seed % 4 > 1) { share(seed, shape) } else { generate(seed, shape) }
}

fn write(folder: &Path, name: &str, script: &Script, mismatch: &Mismatch) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join(format!("{name}.test"));
    let shown: String = mismatch.to_string().lines().map(|line| format!("# {line}\n")).collect();
    std::fs::write(&file, format!("{shown}{script}"))?;
    Ok(file)
}

/// The cases in a folder, by name.
///
/// # Errors
/// One cannot be read.
pub fn cases(folder: &Path) -> anyhow::Result<BTreeMap<String, Script>> {
    let mut cases = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "test") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let script = Script::parse(&std::fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
            cases.insert(name, script);
        }
    }
    Ok(cases)
}

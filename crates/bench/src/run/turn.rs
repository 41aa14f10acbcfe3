//! One contender's turn.

use std::cell::RefCell;

use anyhow::{Context as _, bail};

use crate::contender::{Kind, Running};
use crate::figures::{Growth, Latency, Sample};
use crate::generate::{self, Query};
use crate::plan::Work;
use crate::system::{self, Clocks, Memory, Spent};
use crate::watch::Watching;
use crate::world::World;

/// Clients may have errors (deadlocks are one) up to so many in a thousand queries; more, and nothing was measured.
const ERRORS_MAX_PER_MILLE: u64 = 20;

/// The parts that all turns have in common.
pub(super) struct Turn<'a> {
    /// The servers.
    pub(super) world: &'a World,
    /// Open files that each process may have.
    pub(super) files: u64,
    /// The server is asked how many reads it ran.
    pub(super) counts_reads: bool,
}

impl Turn<'_> {
    /// Does what a point asks for, with the clocks of the proxy and the servers read around it.
    ///
    /// # Errors
    /// The load fails, or too many of its queries do.
    pub(super) fn sample(&self, contender: &mut Running, work: &Work) -> anyhow::Result<Sample> {
        sample(self, contender, work)
    }
}

fn sample(turn: &Turn<'_>, contender: &mut Running, work: &Work) -> anyhow::Result<Sample> {
    if let Some(daemon) = &mut contender.daemon {
        daemon.check()?;
    }
    let pid = contender.pid();
    let watching = contender.watch()?;
    let before = pid.map(system::memory).transpose()?;
    let mut meter =
        Meter { pid, turn, begin: None, end: None, reads: [None; 2], server_cpu_ns: [None; 2], memory: None };
    let mut sample = match work {
        Work::Sysbench(work) => {
            // Nobody asks before: nothing is missed while the count is read.
            meter.reads[0] = meter.reads_now()?;
            let meter = RefCell::new(&mut meter);
            let report = work.run(contender.address, || meter.borrow_mut().start(), || meter.borrow_mut().stop())?;
            let events = report.p99_ms.filter(|_| work.is_point());
            Sample {
                seconds: report.seconds,
                clients: work.connections.into(),
                queries: report.queries,
                errors: report.errors,
                latency: None,
                p99_us: events.map(|ms| ms * 1e3),
                ..Sample::default()
            }
        }
        Work::Slap(work) => {
            meter.start()?;
            let seconds = work.run(contender.address)?;
            meter.stop()?;
            let (clients, queries) = (work.clients.into(), work.queries.into());
            Sample { seconds, clients, queries, ..Sample::default() }
        }
        Work::Generate(work) => generated(contender, work, &mut meter)?,
        Work::Crowd { crowd, direct_clients } => {
            let clients = if contender.kind == Kind::Direct { *direct_clients } else { crowd.clients };
            generated(contender, &generate::Work { clients, ..*crowd }, &mut meter)?
        }
        Work::Idle(work) => {
            let most = u32::try_from(contender.kind.clients_max(turn.files)).unwrap_or(u32::MAX);
            let clients = work.clients.min(most);
            let mut sample = generated(contender, &generate::Work { clients, ..*work }, &mut meter)?;
            // Nothing is asked in the measured time.
            (sample.latency, sample.bytes) = (None, None);
            (meter.begin, meter.server_cpu_ns) = (None, [None; 2]);
            sample
        }
    };
    watching.map(Watching::end).transpose()?;
    if let (Some(begin), Some(end)) = (&meter.begin, &meter.end) {
        let Spent { total_ns, user_ns } = system::spent(begin, end);
        (sample.cpu_ns, sample.user_ns) = (Some(total_ns), Some(user_ns));
    }
    if let [Some(begin), Some(end)] = meter.reads {
        sample.server_reads = Some(end.saturating_sub(begin));
    }
    if let [Some(begin), Some(end)] = meter.server_cpu_ns {
        sample.server_cpu_ns = Some(end.saturating_sub(begin));
    }
    if let (Some(before), Some(after)) = (before, meter.memory) {
        sample.memory = Some(Growth { before: before.resident, after: after.resident, peak: after.peak });
    }
    if sample.errors * 1000 > sample.queries * ERRORS_MAX_PER_MILLE {
        bail!("{} errors in {} queries", sample.errors, sample.queries);
    }
    Ok(sample)
}

/// Readings of a proxy, and of the server behind it.
struct Meter<'a> {
    pid: Option<u32>,
    turn: &'a Turn<'a>,
    begin: Option<Clocks>,
    end: Option<Clocks>,
    /// Reads that the server ran until the begin and the end.
    reads: [Option<u64>; 2],
    /// Time on a CPU of all servers until the begin and the end.
    server_cpu_ns: [Option<u64>; 2],
    memory: Option<Memory>,
}

impl Meter<'_> {
    fn start(&mut self) -> anyhow::Result<()> {
        if self.reads[0].is_none() {
            self.reads[0] = self.reads_now()?;
        }
        self.server_cpu_ns[0] = Some(self.turn.world.cpu_ns()?);
        self.begin = clocks(self.pid)?;
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        self.end = clocks(self.pid)?;
        self.server_cpu_ns[1] = Some(self.turn.world.cpu_ns()?);
        self.reads[1] = self.reads_now()?;
        self.memory = self.pid.map(system::memory).transpose()?;
        Ok(())
    }

    fn reads_now(&self) -> anyhow::Result<Option<u64>> {
        if !self.turn.counts_reads {
            return Ok(None);
        }
        let text = self.turn.world.server().sql(READS)?;
        Ok(Some(text.split_whitespace().last().and_then(|count| count.parse().ok()).context("no count of reads")?))
    }
}

/// MariaDB counts executions of prepared reads there, too.
const READS: &str = "SHOW GLOBAL STATUS LIKE 'Com_select'";

fn clocks(pid: Option<u32>) -> anyhow::Result<Option<Clocks>> {
    pid.map(system::clocks).transpose()
}

fn generated(contender: &Running, work: &generate::Work, meter: &mut Meter) -> anyhow::Result<Sample> {
    let meter = RefCell::new(meter);
    let outcome = work.run(contender.address, || meter.borrow_mut().start(), || meter.borrow_mut().stop())?;
    if let Some(error) = outcome.error.as_ref().filter(|_| outcome.queries == 0) {
        bail!("no query had a good end: {error}");
    }
    let latency: Option<Latency> = outcome.latency();
    Ok(Sample {
        seconds: work.measured.as_secs_f64(),
        clients: work.clients.into(),
        queries: outcome.queries,
        errors: outcome.errors,
        latency,
        bytes: (work.query == Query::Large).then_some(outcome.bytes),
        ..Sample::default()
    })
}

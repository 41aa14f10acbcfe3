//! Time on a CPU, memory and open files of a process, as the system tells them.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a process needs beside its clients.
pub(crate) const OTHER_FILES: u64 = 300;

/// A reading of a process's clocks. The difference of two is what it spent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    /// Time on a CPU of each thread, in nanoseconds, from the scheduler: user space and kernel.
    threads_ns: BTreeMap<u32, u64>,
    /// Time in user space, in ticks of `CLK_TCK`: the system samples it, and scales the samples to the scheduler's time.
    user_ticks: u64,
}

/// Time that a process spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// In user space and the kernel, in nanoseconds.
    pub(crate) total_ns: u64,
    /// In user space, in nanoseconds; as coarse as a tick.
    pub(crate) user_ns: u64,
}

/// Reads a process's clocks.
///
/// # Errors
/// The process is gone.
pub(crate) fn clocks(pid: u32) -> anyhow::Result<Clocks> {
    let gone = || format!("process {pid} is gone");
    let mut threads_ns = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).with_context(gone)? {
        let task = task.with_context(gone)?;
        // A thread may end at any time.
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        let id = task.file_name().to_string_lossy().parse().unwrap_or(0);
        threads_ns.insert(id, run_time(&text).with_context(|| format!("unknown form of schedstat: {text}"))?);
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(gone)?;
    let user_ticks = user_ticks(&stat).with_context(|| format!("unknown form of stat: {stat}"))?;
    Ok(Clocks { threads_ns, user_ticks })
}

/// Time that was spent between two readings. Threads that ended in between are left out.
pub(crate) fn spent(begin: &Clocks, end: &Clocks) -> Spent {
    let thread = |(id, ns): (&u32, &u64)| ns.saturating_sub(begin.threads_ns.get(id).copied().unwrap_or(0));
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Spent {
        total_ns: end.threads_ns.iter().map(thread).sum(),
        user_ns: end.user_ticks.saturating_sub(begin.user_ticks) * tick_ns,
    }
}

/// Time on a CPU that a process has spent since it began, in nanoseconds; its threads that have ended are among it.
///
/// # Errors
/// The process is gone.
pub(crate) fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid} is gone"))?;
    let ticks = user_ticks(&stat).zip(system_ticks(&stat)).map(|(user, system)| user + system);
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Ok(ticks.with_context(|| format!("unknown form of stat: {stat}"))? * tick_ns)
}

/// The first number of `schedstat`: nanoseconds on a CPU.
fn run_time(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The 14th field of `stat` (`utime`); fields are counted behind the name, which may hold anything.
fn user_ticks(text: &str) -> Option<u64> {
    text.rsplit_once(") ")?.1.split_whitespace().nth(11)?.parse().ok()
}

/// The field behind it (`stime`).
fn system_ticks(text: &str) -> Option<u64> {
    text.rsplit_once(") ")?.1.split_whitespace().nth(12)?.parse().ok()
}

/// A process's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Memory that is resident now.
    pub(crate) resident: u64,
    /// The most that ever was.
    pub(crate) peak: u64,
}

/// Reads a process's memory.
///
/// # Errors
/// The process is gone.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let gone = || format!("process {pid} is gone");
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).with_context(gone)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(gone)?;
    let resident = kilobytes(&rollup, "Rss:").context("smaps_rollup has no Rss")?;
    let peak = kilobytes(&status, "VmHWM:").context("status has no VmHWM")?;
    Ok(Memory { resident, peak })
}

/// A line such as `Rss:    1234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Raises this process's limit of open files as far as allowed, and gives it. Processes that it starts inherit it.
pub(crate) fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).is_ok();
    let allowed = if raised { limit.maximum } else { limit.current };
    // No limit at all is `None`.
    allowed.unwrap_or(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        assert_eq!(run_time("123456789 55 7\n"), Some(123_456_789));
        assert_eq!(run_time(""), None);
        let stat = "77 (a (b) c) S 1 77 77 0 -1 4194560 1 2 3 4 250 999 0 0 20 0 3 0 100 1 2";
        assert_eq!(user_ticks(stat), Some(250));
        assert_eq!(system_ticks(stat), Some(999));
        assert_eq!(user_ticks("77"), None);
        assert_eq!(kilobytes("Size: 9 kB\nRss:   12 kB\n", "Rss:"), Some(12 * 1024));
        assert_eq!(kilobytes("Rss: x", "Rss:"), None);
    }

    #[test]
    fn this_process_has_clocks_and_memory() {
        let begin = clocks(std::process::id()).unwrap();
        let mut sum = 0u64;
        let work = || (0..3_000_000u64).fold(0, |sum: u64, step| sum.wrapping_mul(31).wrapping_add(step));
        while spent(&begin, &clocks(std::process::id()).unwrap()).total_ns == 0 {
            sum = sum.wrapping_add(std::hint::black_box(work()));
        }
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.resident > 0 && memory.peak > 0, "{memory:?} {sum}");
    }
}

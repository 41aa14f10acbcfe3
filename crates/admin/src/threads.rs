//! CPU time of the process's threads, as Linux counts it.

use std::collections::BTreeMap;
use std::path::Path;

/// Nanoseconds of CPU time of each thread that is named `worker-N`, by N. Empty where the system does not say.
pub(crate) fn worker_cpu_ns() -> BTreeMap<usize, u64> {
    read(Path::new("/proc/self/task")).unwrap_or_default()
}

fn read(tasks: &Path) -> std::io::Result<BTreeMap<usize, u64>> {
    let mut found = BTreeMap::new();
    for task in std::fs::read_dir(tasks)? {
        let folder = task?.path();
        // A thread may have ended.
        let Ok(name) = std::fs::read_to_string(folder.join("comm")) else { continue };
        let Some(number) = name.trim_end().strip_prefix("worker-").and_then(|number| number.parse().ok()) else {
            continue;
        };
        let Ok(times) = std::fs::read_to_string(folder.join("schedstat")) else { continue };
        if let Some(ns) = times.split(' ').next().and_then(|ns| ns.parse().ok()) {
            found.insert(number, ns);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_has_time_and_others_are_left_out() {
        let busy = std::thread::Builder::new().name("worker-7".into()).spawn(|| {
            let mut sum = 0_u64;
            // Enough for every clock.
            for number in 0..5_000_000_u64 {
                sum = std::hint::black_box(sum.wrapping_add(number));
            }
            worker_cpu_ns()
        });
        let found = busy.unwrap().join().unwrap();
        assert!(found.get(&7).is_some_and(|ns| *ns > 0), "{found:?}");
        assert!(worker_cpu_ns().is_empty(), "it has ended");
    }
}

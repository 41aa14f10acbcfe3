//! How busy a worker is: the CPU time of its thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Readings of the clocks, one a second: the figure is that of the seconds between the first and the last.
const READINGS: usize = 4;

/// The share of a core that a worker takes.
#[derive(Debug, Default)]
pub struct BusyShare(RefCell<VecDeque<(Instant, Duration)>>);

impl BusyShare {
    /// Reads the clocks on the worker's thread, once a second. Gives the share over the last seconds, in thousandths of a core.
    pub fn permille(&self) -> i64 {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), u32::try_from(cpu.tv_nsec).unwrap_or(0));
        note(&mut self.0.borrow_mut(), (Instant::now(), cpu))
    }
}

fn note(readings: &mut VecDeque<(Instant, Duration)>, now: (Instant, Duration)) -> i64 {
    if readings.len() >= READINGS {
        readings.pop_front();
    }
    readings.push_back(now);
    let Some(first) = readings.front() else { return 0 };
    let (took, worked) = (now.0.saturating_duration_since(first.0), now.1.saturating_sub(first.1));
    if took.is_zero() { 0 } else { (1000.0 * worked.as_secs_f64() / took.as_secs_f64()).min(1000.0).round() as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_last_three_seconds() {
        let (begin, mut readings) = (Instant::now(), VecDeque::new());
        let worked_ms = [0, 600, 1200, 1800, 1800, 1800, 1800, 2810];
        let shares: Vec<i64> = (0..)
            .zip(worked_ms)
            .map(|(second, worked)| {
                note(&mut readings, (begin + Duration::from_secs(second), Duration::from_millis(worked)))
            })
            .collect();
        assert_eq!(shares, [0, 600, 600, 600, 400, 200, 0, 337]);
        assert_eq!(note(&mut readings, (begin + Duration::from_secs(8), Duration::from_secs(9))), 1000, "of one core");
    }
}

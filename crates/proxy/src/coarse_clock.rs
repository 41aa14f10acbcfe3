//! A clock that is read without asking the processor: the kernel notes the time with each of its ticks.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// How often both clocks are read at the start, to have them at the same moment.
const START_TRIES: u32 = 16;

/// A clock that is right to within two ticks of the kernel (1 to 10 ms each). [`Instant::now`] waits until all earlier reads of memory
/// are done; this one does not.
#[derive(Clone, Copy, Debug)]
pub struct CoarseClock {
    /// The moment of [`Instant`] two ticks behind that at which the kernel's clock was zero, which `CLOCK_MONOTONIC` and
    /// `CLOCK_MONOTONIC_COARSE` of clock_gettime(2) both tell.
    zero: Instant,
}

impl CoarseClock {
    /// One that counts from now on.
    pub fn start() -> CoarseClock {
        let mut start = CoarseClock::both();
        // A thread that lost its processor between the two would be ahead for as long as the process lives.
        for _ in 1..START_TRIES {
            let (took, pair) = CoarseClock::both();
            if took < start.0 {
                start = (took, pair);
            }
        }
        let (moment, kernel) = start.1;
        let ahead = moment + 2 * tick();
        // Both count from the same moment, so nothing is taken from less than there is.
        CoarseClock { zero: ahead.checked_sub(kernel).unwrap_or(ahead) }
    }

    /// Both clocks, and how long it took to read them. The kernel's clock is not read by its ticks: one that came late at the start
    /// would put all later moments ahead by as much.
    fn both() -> (Duration, (Instant, Duration)) {
        let before = Instant::now();
        let kernel = length(clock_gettime(ClockId::Monotonic));
        let after = Instant::now();
        (after.duration_since(before), (before, kernel))
    }

    /// A moment that is now or up to two ticks later, for bounds: what is not over then is not over now. The kernel noted its time
    /// up to a tick ago, or two where ticks come late. It is before now only where they come later still, as in a virtual
    /// machine that has to wait for a processor.
    #[inline]
    pub fn no_earlier(&self) -> Instant {
        self.zero + length(clock_gettime(ClockId::MonotonicCoarse))
    }
}

/// The time between two ticks of the kernel.
fn tick() -> Duration {
    length(clock_getres(ClockId::MonotonicCoarse))
}

#[inline]
fn length(time: Timespec) -> Duration {
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_other_clock_and_no_more_than_two_ticks_ahead() {
        let (clock, tick) = (CoarseClock::start(), tick());
        assert!(tick > Duration::ZERO && tick <= Duration::from_millis(10), "{tick:?}");
        let (mut looks, mut late) = (0, 0);
        let end = Instant::now() + Duration::from_millis(200);
        loop {
            let before = Instant::now();
            let reported = clock.no_earlier();
            assert!(reported <= Instant::now() + 2 * tick);
            (looks, late) = (looks + 1, late + u32::from(reported < before));
            if before > end {
                break;
            }
        }
        // Ticks come late where others have the processor.
        assert!(late * 2 < looks, "{late} of {looks}");
    }
}

//! The forms of reads that are known to be short: only these may share a connection with the statements of others.

use std::time::{Duration, Instant};

/// How many forms are remembered; a new one takes the place of another with the same slot.
const FORMS: usize = 4096;
/// A form must have run so often before it counts as known.
const RUNS_MIN: u16 = 16;
/// Of the last runs: older ones count half.
const RUNS_MAX: u16 = 1024;
/// A form is short if no more than one run in so many was long: a server that has no core to spare is late now and then.
const RUNS_PER_LONG: u32 = 100;
/// On a busy server all is slow. A run that took no more than so many times the usual is not long for that.
const TIMES_USUAL: u32 = 4;
/// A form is known to be short if its runs take no more than this part of the time after which one on a pipeline counts as long:
/// reads of milliseconds would wait for each other there, which on connections of their own run at the same time.
const QUICK_PART: u32 = 10;
/// The weight of the newest run in the usual time.
const NEWEST: f64 = 1.0 / 64.0;
/// How long a form is kept off pipelines that is long on them.
const OFF_MIN: Duration = Duration::from_millis(100);
/// The same if it happens again and again: each time twice as long, up to `OFF_MIN` times two to this power.
const OFF_DOUBLINGS_MAX: u8 = 9;

/// The bounds of a short run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortBounds {
    /// Time of the server.
    pub time: Duration,
    /// Bytes of the reply.
    pub bytes: u64,
}

/// The forms that one worker knows, by their digests.
#[derive(Debug, Default)]
pub struct ShortForms {
    /// Empty until the first form comes.
    forms: Vec<Form>,
    /// The usual time of a run, in microseconds.
    usual_us: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Form {
    digest: u64,
    runs: u16,
    long: u16,
    /// How often it was long on a pipeline, in a row.
    offs: u8,
    /// It ran at least once within the bound, whatever the server's load was.
    was_quick: bool,
    /// Until when it is kept off pipelines.
    off_until: Option<Instant>,
}

impl Form {
    fn count(&mut self, is_long: bool) {
        if self.runs >= RUNS_MAX {
            (self.runs, self.long) = (self.runs / 2, self.long / 2);
        }
        self.runs += 1;
        self.long += u16::from(is_long);
    }

    fn is_seldom_long(&self) -> bool {
        u32::from(self.long) * RUNS_PER_LONG <= u32::from(self.runs)
    }

    fn is_short(&self, now: Instant) -> bool {
        self.runs >= RUNS_MIN && self.is_seldom_long() && self.was_quick && self.off_until.is_none_or(|end| now >= end)
    }

    fn keep_off(&mut self, now: Instant) {
        self.off_until = now.checked_add(OFF_MIN * (1 << self.offs));
        self.offs = (self.offs + 1).min(OFF_DOUBLINGS_MAX);
    }
}

impl ShortForms {
    /// Whether runs of this form are known to be short.
    #[inline]
    pub fn is_short(&self, digest: u64, now: Instant) -> bool {
        self.forms.get(slot(digest)).is_some_and(|form| form.digest == digest && form.is_short(now))
    }

    /// A run on a connection of its own is over.
    pub fn ran_alone(&mut self, digest: u64, took: Duration, bytes: u64, bounds: ShortBounds) {
        let took_us = took.as_secs_f64() * 1e6;
        if self.usual_us == 0.0 {
            self.usual_us = took_us;
        }
        self.usual_us += (took_us - self.usual_us) * NEWEST;
        let is_quick = || took <= bounds.time / QUICK_PART;
        let is_usual = took_us <= self.usual_us * f64::from(TIMES_USUAL);
        let form = self.form(digest);
        form.was_quick = form.was_quick || is_quick();
        form.count(bytes > bounds.bytes || !is_usual && !is_quick());
    }

    /// A run on a pipeline is over, and was short.
    #[inline]
    pub fn was_short(&mut self, digest: u64) {
        let form = self.form(digest);
        form.count(false);
        if form.runs == RUNS_MAX {
            form.offs = form.offs.saturating_sub(1);
        }
    }

    /// A run on a pipeline was long, or its reply was one that a pipeline is not for: unless that is seldom, the form runs alone
    /// for a while.
    pub fn was_long(&mut self, digest: u64, now: Instant) {
        let form = self.form(digest);
        form.count(true);
        if !form.is_seldom_long() {
            form.keep_off(now);
        }
    }

    /// The reply to a run on a pipeline was so large that the connection was given up: the form runs alone for a while.
    pub fn was_large(&mut self, digest: u64, now: Instant) {
        let form = self.form(digest);
        form.count(true);
        form.keep_off(now);
    }

    fn form(&mut self, digest: u64) -> &mut Form {
        if self.forms.is_empty() {
            self.forms = vec![Form::default(); FORMS];
        }
        let form = &mut self.forms[slot(digest)];
        if form.digest != digest {
            *form = Form { digest, ..Form::default() };
        }
        form
    }
}

/// Digests are spread over all bits.
fn slot(digest: u64) -> usize {
    digest as usize % FORMS
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: ShortBounds = ShortBounds { time: Duration::from_millis(10), bytes: 16_384 };
    const DIGEST: u64 = 77;

    fn after(runs: impl IntoIterator<Item = (u64, u64)>) -> ShortForms {
        let mut forms = ShortForms::default();
        for (micros, bytes) in runs {
            forms.ran_alone(DIGEST, Duration::from_micros(micros), bytes, BOUNDS);
        }
        forms
    }

    fn is_short(forms: &ShortForms) -> bool {
        forms.is_short(DIGEST, Instant::now())
    }

    #[test]
    fn a_form_is_short_when_it_has_run_often_enough() {
        assert!(!is_short(&after(vec![(50, 100); 15])));
        assert!(is_short(&after(vec![(50, 100); 16])));
        assert!(!after(vec![(50, 100); 16]).is_short(DIGEST + FORMS as u64, Instant::now()), "the same slot");
    }

    #[test]
    fn long_runs_and_large_replies_keep_a_form_off() {
        let rare = |run, every: usize| {
            let runs = move |at: usize| if at.is_multiple_of(every) { run } else { (50, 100) };
            after((1..=1000).map(runs))
        };
        assert!(is_short(&rare((50_000, 100), 200)) && !is_short(&rare((50_000, 100), 50)));
        assert!(is_short(&rare((50, 1_000_000), 200)) && !is_short(&rare((50, 1_000_000), 50)));
        assert!(!is_short(&after(vec![(50_000, 100); 100])), "always long is not usual");
        assert!(!is_short(&after(vec![(5_000, 100); 100])), "on connections of their own they run at the same time");
    }

    #[test]
    fn runs_on_a_busy_server_are_not_long_for_that() {
        let mut runs = vec![(200, 100); 4];
        runs.extend(vec![(20_000, 100); 300]);
        // The first slow ones are no longer counted then.
        assert!(!is_short(&after(runs.clone())));
        runs.extend(vec![(20_000, 100); 6000]);
        assert!(is_short(&after(runs)));
    }

    #[test]
    fn a_form_that_is_long_on_pipelines_is_off_for_twice_as_long_each_time() {
        let mut forms = after(vec![(50, 100); 99]);
        let now = Instant::now();
        forms.was_long(DIGEST, now);
        assert!(forms.is_short(DIGEST, now), "one of 100");
        forms.was_long(DIGEST, now);
        (0..200).for_each(|_| forms.was_short(DIGEST));
        assert!(!forms.is_short(DIGEST, now + OFF_MIN / 2) && forms.is_short(DIGEST, now + OFF_MIN));
        (0..2).for_each(|_| forms.was_long(DIGEST, now));
        (0..200).for_each(|_| forms.was_short(DIGEST));
        assert!(!forms.is_short(DIGEST, now + OFF_MIN) && forms.is_short(DIGEST, now + OFF_MIN * 2));
    }

    #[test]
    fn a_form_with_a_large_reply_is_off_however_seldom_that_is() {
        let mut forms = after(vec![(50, 100); 1000]);
        let now = Instant::now();
        forms.was_large(DIGEST, now);
        assert!(!forms.is_short(DIGEST, now + OFF_MIN / 2) && forms.is_short(DIGEST, now + OFF_MIN));
    }
}
